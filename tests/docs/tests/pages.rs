//! The pages as they stand: without dead links, and with a proof for each answer.

use leasehold::Code;
use leasehold_docs::{files, links, pages, unsafe_code};

fn page(path: &str) -> pages::Page {
    pages::all().unwrap().into_iter().find(|page| page.path.as_os_str() == path).unwrap()
}

#[test]
fn links_lead_somewhere() {
    let dead: Vec<String> = pages::all().unwrap().iter().flat_map(links::dead).collect();
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn files_named_in_pages_exist() {
    let files = files::all().unwrap();
    let missing: Vec<String> = pages::all().unwrap().iter().flat_map(|page| files::missing(page, &files)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_error_is_explained() {
    let errors = page("docs/errors.md");
    let missing: Vec<&str> = Code::ALL
        .iter()
        .map(|code| code.name())
        .filter(|name| !errors.headings().any(|title| title == *name))
        .collect();
    assert!(missing.is_empty(), "docs/errors.md has no heading for {missing:?}");
}

/// An answer without a test is an opinion.
#[test]
fn every_question_names_a_test() {
    let questions = page("docs/questions.md");
    let mut open = None;
    let mut unproven = Vec::new();
    for (_, line) in questions.prose() {
        if let Some(title) = line.strip_prefix("## ") {
            unproven.extend(open.replace(title));
        } else if links::targets(line).any(|target| target.contains("tests/")) {
            open = None;
        }
    }
    unproven.extend(open);
    assert!(unproven.is_empty(), "no test is named under {unproven:#?}");
}

#[test]
fn make_targets_named_in_pages_exist() {
    let makefile = std::fs::read_to_string(pages::root().join("Makefile")).unwrap();
    let exists = |target: &str| makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
    for page in pages::all().unwrap() {
        for named in page.text.split("`make ").skip(1) {
            let target = named.split(|letter: char| !letter.is_ascii_lowercase() && letter != '-').next().unwrap();
            assert!(target.is_empty() || exists(target), "{}: there is no `make {target}`", page.path.display());
        }
    }
}

/// Seen to fail with an unsafe block in `core/src/lock.rs`, and with a line too many in the page.
#[test]
fn unsafe_code_is_where_the_inventory_says() {
    let listed = unsafe_code::listed(&page("docs/unsafe.md"));
    assert!(listed.len() > 3, "the table of docs/unsafe.md: {listed:?}");
    let found = unsafe_code::found().unwrap();
    let is_in = |file: &std::path::Path, place: &str| file.starts_with(place);
    let unlisted: Vec<_> = found.iter().filter(|file| !listed.iter().any(|place| is_in(file, place))).collect();
    assert!(unlisted.is_empty(), "unsafe code in files that docs/unsafe.md does not have: {unlisted:?}");
    let empty: Vec<_> = listed.iter().filter(|place| !found.iter().any(|file| is_in(file, place))).collect();
    assert!(empty.is_empty(), "in docs/unsafe.md, but without unsafe code: {empty:?}");
}
