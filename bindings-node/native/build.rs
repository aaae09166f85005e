//! What a native module of Node needs from its linker.

fn main() {
    napi_build::setup();
}
