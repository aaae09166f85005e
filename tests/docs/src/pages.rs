//! The pages: every Markdown file of the repository that people read.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::files;

/// A page and its text.
#[derive(Debug)]
pub struct Page {
    /// Where it is, relative to the root of the repository.
    pub path: PathBuf,
    /// Its Markdown.
    pub text: String,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages, those of the languages and of the samples too.
pub fn all() -> io::Result<Vec<Page>> {
    let mut pages = Vec::new();
    for path in files::all()? {
        if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(root().join(&path))?;
            pages.push(Page { path, text });
        }
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(pages)
}

impl Page {
    /// The lines outside fenced code, each with its number from 1.
    pub fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut fenced = false;
        self.text.lines().enumerate().filter_map(move |(index, line)| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            (!fence && !fenced).then_some((index + 1, line))
        })
    }

    /// The headings, without their marks.
    pub fn headings(&self) -> impl Iterator<Item = &str> {
        self.prose().filter_map(|(_, line)| {
            let title = line.trim_start_matches('#');
            (title.len() < line.len()).then(|| title.strip_prefix(' ')).flatten()
        })
    }
}
