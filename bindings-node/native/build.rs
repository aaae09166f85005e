//! What a native module of Node needs from its linker, and where its macros write down what it offers to TypeScript.

fn main() {
    napi_build::setup();
    if let Ok(place) = std::env::var("OUT_DIR") {
        // scripts/types.js reads it there.
        println!("cargo::rustc-env=NAPI_TYPE_DEF_TMP_FOLDER={place}");
    }
}
