//! How the shared library is linked: its soname, and that it is never unloaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        let number = |name| std::env::var(name).unwrap_or_default();
        let (major, minor) = (number("CARGO_PKG_VERSION_MAJOR"), number("CARGO_PKG_VERSION_MINOR"));
        // As install/soname says it: until 1.0 every minor version has a binary interface of its own.
        let abi = if major == "0" { format!("0.{minor}") } else { major };
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libleasehold.so.{abi}");
        // Its threads renew leases for as long as the process lives: after dlclose they would run where no code is.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
