//! Makes a test of each Rust example in the pages, to be included by `tests/examples.rs`.
//!
//! An example with a `main` is a program. One without is the inside of an asynchronous function that has a `client`.
//! Where an example names the address that etcd has by default, its test has an etcd of its own instead.
//! `rust,no_run` is compiled only; there is no way to have an example ignored.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

/// The design sketches APIs in several languages, with names that stand for the reader's code.
const NOT_RUN: [&str; 1] = ["docs/design.md"];
const ADDRESS: &str = "\"http://127.0.0.1:2379";

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tests = String::new();
    for folder in ["", "docs"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).join("*.md").display());
        for entry in fs::read_dir(root.join(folder))? {
            let page = Path::new(folder).join(entry?.file_name());
            let name = page.to_string_lossy();
            if !name.ends_with(".md") || NOT_RUN.contains(&&*name) {
                continue;
            }
            println!("cargo::rerun-if-changed={}", root.join(&page).display());
            examples(&name, &fs::read_to_string(root.join(&page))?, &mut tests)?;
        }
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("examples.rs"), tests)?;
    Ok(())
}

/// Writes a test for each example in `text`.
fn examples(page: &str, text: &str, tests: &mut String) -> Result<(), Box<dyn Error>> {
    let mut open: Option<(usize, bool, String)> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.trim_end()) {
            (None, "```rust") => open = Some((index + 1, true, String::new())),
            (None, "```rust,no_run") => open = Some((index + 1, false, String::new())),
            (None, fence) if fence.starts_with("```rust") => {
                return Err(format!("{page}:{}: an example is `rust` or `rust,no_run`", index + 1).into());
            }
            (Some(_), "```") => {
                if let Some((number, runs, code)) = open.take() {
                    test(page, number, runs, &code, tests)?;
                }
            }
            (Some((_, _, code)), line) => {
                code.push_str(line);
                code.push('\n');
            }
            (None, _) => {}
        }
    }
    Ok(())
}

fn test(page: &str, number: usize, runs: bool, code: &str, tests: &mut String) -> Result<(), Box<dyn Error>> {
    let words: String =
        page.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    let code = with_own_etcd(code);
    let program = code.contains("fn main()");
    let body = if program {
        code
    } else {
        format!(
            "#[tokio::main]\nasync fn main() -> Result<(), Box<dyn std::error::Error>> {{\n\
             let client = leasehold::Client::new(etcd(\"\"))?;\n_ = &client;\n{code}\nOk(())\n}}\n"
        )
    };
    writeln!(tests, "/// {page}, line {number}.\nmod {words}_{number} {{\nuse crate::etcd;\n{body}")?;
    if runs {
        writeln!(tests, "#[test]\nfn runs() {{\ncrate::with_etcd(main);\n}}")?;
    } else {
        writeln!(tests, "const _: fn() = || drop(main());")?;
    }
    writeln!(tests, "}}")?;
    Ok(())
}

/// `code` with each literal that starts with the default address made a call of `etcd`, which knows the real one.
fn with_own_etcd(code: &str) -> String {
    let mut parts = code.split(ADDRESS);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (rest, after) = part.split_once('"').unwrap_or((part, ""));
        result.push_str(&format!("etcd(\"{rest}\"){after}"));
    }
    result
}
