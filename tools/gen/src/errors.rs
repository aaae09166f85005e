//! The tables of `docs/errors.md`: what each error is called in every language, as the sources of the bindings have it.

use std::{fmt::Write as _, fs, io};

use leasehold::{Code, LostReason};

use crate::root;

const JAVA: &str = "bindings-java/leasehold/src/main/java/io/leasehold/LeaseholdException.java";
const PYTHON: &str = "bindings-python/python/leasehold/_errors.py";
const NODE: &str = "bindings-node/src/errors.ts";

/// The codes, with their classes.
pub fn codes() -> io::Result<String> {
    let [java, python, node] = [JAVA, PYTHON, NODE].map(|file| fs::read_to_string(root().join(file)));
    let (java, python, node) = (java?, python?, node?);
    let mut table =
        String::from("| Number | Name | Rust | C | Java | Python | Node |\n|---:|---|---|---|---|---|---|\n");
    for code in Code::ALL {
        let (number, name) = (code.number(), code.name());
        let missing = |file: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{file} has no class of {name}"));
        let java = java_class(&java, name);
        let python = python_class(&python, name).ok_or_else(|| missing(PYTHON))?;
        let node = node_class(&node, name).ok_or_else(|| missing(NODE))?;
        _ = writeln!(
            table,
            "| {number} | [`{name}`](#{}) | `Code::{code:?}` | `LH_{name}` | `{java}` | `{python}` | `{node}` |",
            name.to_lowercase()
        );
    }
    Ok(table)
}

/// The reasons of a loss. Java, Python and Node have their names as they are.
pub fn reasons() -> String {
    let mut table = String::from("| Number | Name | Rust | C |\n|---:|---|---|---|\n");
    for reason in LostReason::ALL {
        let (number, name) = (reason.number(), reason.name());
        _ = writeln!(table, "| {number} | `{name}` | `LostReason::{reason:?}` | `LH_LOST_{name}` |");
    }
    table
}

/// `case NOT_ACQUIRED -> new NotAcquiredException(message);` What has no class of its own is told by the base.
fn java_class<'a>(source: &'a str, name: &str) -> &'a str {
    let class = source.split_once(&format!("case {name} -> new ")).and_then(|(_, rest)| rest.split_once('('));
    class.map_or("LeaseholdException", |(class, _)| class)
}

/// `class LockTimeout(LeaseholdError, TimeoutError):` with `code = Code.NOT_ACQUIRED` in it.
fn python_class<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let (before, _) = source.split_once(&format!("code = Code.{name}\n"))?;
    before.rsplit_once("\nclass ")?.1.split_once('(').map(|(class, _)| class)
}

/// `export class NotAcquiredError extends named('NOT_ACQUIRED') {}`
fn node_class<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let (before, _) = source.split_once(&format!(" extends named('{name}')"))?;
    before.rsplit_once("export class ").map(|(_, class)| class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_found_by_what_they_are_made_of() {
        let java = "case A -> new OneException(message);\n case AB -> new TwoException(message, reason);";
        assert_eq!(
            ["A", "AB", "C"].map(|name| java_class(java, name)),
            ["OneException", "TwoException", "LeaseholdException"]
        );
        let python = "\nclass One(Base):\n    code = Code.A\n\nclass Two(Base, Other):\n    code = Code.AB\n";
        assert_eq!(["A", "AB", "C"].map(|name| python_class(python, name)), [Some("One"), Some("Two"), None]);
        let node = "export class One extends named('A') {}\nexport class Two extends named('AB') {}";
        assert_eq!(["A", "AB", "C"].map(|name| node_class(node, name)), [Some("One"), Some("Two"), None]);
    }
}
