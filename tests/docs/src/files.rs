//! The files that pages name in passing, such as `scripts/test.py` or `leasehold.h`: each is somewhere in the repository.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::pages::{Page, root};

/// How the names of our own files end. What belongs to users, such as `ca.pem`, ends otherwise.
const ENDS: [&str; 13] = ["c", "cpp", "h", "hpp", "java", "js", "json", "lua", "md", "patch", "py", "rs", "yaml"];

/// Every file of the repository, relative to its root, without what is built or fetched.
pub fn all() -> io::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder))? {
            let entry = entry?;
            let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
            if !entry.file_type()?.is_dir() {
                found.push(path);
            } else if name != "target" && name != "node_modules" && !name.to_string_lossy().starts_with('.') {
                folders.push(path);
            }
        }
    }
    Ok(found)
}

/// The files that `page` names between backticks and that are not among `files`, one sentence each.
pub fn missing(page: &Page, files: &[PathBuf]) -> Vec<String> {
    let is_there = |name: &str| files.iter().any(|file| file.ends_with(name.trim_start_matches("../")));
    let mut missing = Vec::new();
    for (number, line) in page.prose() {
        for name in line.split('`').skip(1).step_by(2).filter(|code| is_file_name(code) && !is_there(code)) {
            missing.push(format!("{}:{number}: there is no file {name}", page.path.display()));
        }
    }
    missing
}

/// Whether a piece of code is nothing but the name of a file, with folders or without.
fn is_file_name(code: &str) -> bool {
    let is_ours = |end: &str| ENDS.contains(&end);
    Path::new(code).extension().and_then(|end| end.to_str()).is_some_and(is_ours)
        && code.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_missing_and_leaves_the_rest() {
        let text = "| `there.py` | `folder/there.py` and `not.py` |\n`../folder/there.py` `here.py`\n\
            `found-*.patch` `ca.pem` `client.rs options.rs`\n```\n`fenced.py`\n```\n";
        let page = Page { path: "docs/x.md".into(), text: text.into() };
        let missing = missing(&page, &["a/folder/there.py".into()]);
        assert_eq!(missing, ["docs/x.md:1: there is no file not.py", "docs/x.md:2: there is no file here.py"]);
    }

    #[test]
    fn a_name_is_a_whole_one() {
        let page = Page { path: "x.md".into(), text: "`here.py`".into() };
        assert_eq!(missing(&page, &["nowhere.py".into()]).len(), 1);
        assert_eq!(missing(&page, &["a/here.py".into()]), [""; 0]);
    }
}
