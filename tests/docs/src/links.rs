//! Where the links of the pages lead: a file that exists, a heading of it, a test of that name.

use std::{fs, path::Path};

use crate::pages::{Page, root};

/// What is wrong with the links of `page`, one sentence each.
pub fn dead(page: &Page) -> Vec<String> {
    let mut dead = Vec::new();
    for (number, line) in page.prose() {
        for target in targets(line) {
            if target.contains("://") {
                continue;
            }
            if let Err(why) = follow(page, target) {
                dead.push(format!("{}:{number}: {target}: {why}", page.path.display()));
            }
        }
    }
    dead
}

/// The targets of the links in a line of Markdown, as they are written.
pub fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// Whether the link leads somewhere. In a Rust file, what follows `#` is the name of a function.
fn follow(from: &Page, target: &str) -> Result<(), String> {
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    if file.is_empty() {
        return heading(from, fragment);
    }
    let path = root().join(from.path.parent().unwrap_or(Path::new(""))).join(file);
    if !path.exists() {
        return Err("there is no such file".into());
    }
    if fragment.is_empty() {
        return Ok(());
    }
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => heading(&Page { path, text }, fragment),
        Some("rs") if text.contains(&format!("fn {fragment}(")) => Ok(()),
        Some("rs") => Err("there is no function of that name in it".into()),
        _ => Err("only a link to a page or to a Rust file can have a #".into()),
    }
}

fn heading(page: &Page, fragment: &str) -> Result<(), String> {
    let found = page.headings().any(|heading| anchor(heading) == fragment);
    if found { Ok(()) } else { Err("there is no such heading".into()) }
}

/// The anchor that a heading gets where pages are shown: lower case, words joined by hyphens, no punctuation.
fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page { path: "docs/x.md".into(), text: text.into() }
    }

    #[test]
    fn finds_what_is_dead_and_leaves_the_rest() {
        let text = "# A: title, `x` y\n[a](#a-title-x-y) [b](#nothing)\n```\n[code](nowhere)\n```\n\
            [c](../README.md) [d](nowhere.md) [e](https://etcd.io)\n\
            [f](../tests/docs/src/links.rs#dead) [g](../tests/docs/src/links.rs#no_such_test)\n";
        let dead = dead(&page(text));
        assert_eq!(dead.len(), 3, "{dead:#?}");
        assert!(dead[0].starts_with("docs/x.md:2: #nothing: "));
        assert!(dead[1].starts_with("docs/x.md:6: nowhere.md: "));
        assert!(dead[2].starts_with("docs/x.md:7: ../tests/docs/src/links.rs#no_such_test: "));
    }
}
