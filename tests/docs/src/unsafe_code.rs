//! The inventory of unsafe code in what users install: where it is, and where `docs/unsafe.md` says that it is.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::{
    files,
    pages::{Page, root},
};

/// The sources of what users install.
const SOURCES: [&str; 6] = [
    "core/src",
    "core/bridge/src",
    "ffi-c/src",
    "bindings-java/native/src",
    "bindings-node/native/src",
    "bindings-python/src",
];

/// The files and folders that the table of the page has, relative to the root: the texts of its links.
pub fn listed(page: &Page) -> Vec<String> {
    let rows = page.prose().filter(|(_, line)| line.starts_with("| ["));
    rows.filter_map(|(_, line)| line.strip_prefix("| [")?.split_once("](")).map(|(place, _)| place.to_owned()).collect()
}

/// The files that have any.
///
/// # Errors
/// A file cannot be read, or is no Rust.
pub fn found() -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in files::all()? {
        let is_source = SOURCES.iter().any(|folder| path.starts_with(folder));
        if is_source && path.extension().is_some_and(|end| end == "rs") && is_in(&path)? {
            found.push(path);
        }
    }
    Ok(found)
}

fn is_in(path: &Path) -> io::Result<bool> {
    let text = fs::read_to_string(root().join(path))?;
    let tokens: TokenStream = text.parse().map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
    Ok(has(tokens))
}

/// Whether there is an unsafe block, function, trait or implementation: the word alone, as in `#[unsafe(no_mangle)]` of a name that
/// others see, changes nothing that the compiler checks.
fn has(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_found = match token {
            TokenTree::Group(group) => has(group.stream()),
            TokenTree::Ident(word) if word == "unsafe" => match tokens.peek() {
                Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
                next => next.is_some(),
            },
            _ => false,
        };
        if is_found {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_unsafe(text: &str) -> bool {
        has(text.parse().unwrap())
    }

    #[test]
    fn what_only_says_so_is_not() {
        assert!(!is_unsafe(r#"/* unsafe { } */ #[unsafe(no_mangle)] pub extern "C" fn f() { "unsafe { }"; }"#));
        assert!(is_unsafe("fn f() { g(|| [unsafe { h() }]) }"));
        assert!(is_unsafe("pub unsafe extern \"C\" fn f() {}"));
        assert!(is_unsafe("unsafe impl Send for X {}"));
    }
}
