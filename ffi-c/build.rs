//! How the shared library is linked: its soname, and that it is never unloaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        let abi = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libleasehold.so.{abi}");
        // Its threads renew leases for as long as the process lives: after dlclose they would run where no code is.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
