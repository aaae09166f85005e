//! Writes the generated files and parts of pages anew; with `--check` only says which are stale and ends with 1.

use std::process::ExitCode;

fn main() -> ExitCode {
    let check = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => {
            eprintln!("gen: unknown argument {other:?}; the only one is --check");
            return ExitCode::from(2);
        }
    };
    match leasehold_gen::update(check) {
        Err(error) => {
            eprintln!("gen: {error}");
            ExitCode::FAILURE
        }
        Ok(stale) => {
            for page in &stale {
                println!("{page} {}", if check { "is stale: run make gen" } else { "written" });
            }
            if check && !stale.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
    }
}
