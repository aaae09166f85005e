//! `THIRD-PARTY-NOTICES.txt`: the crates of others that our native libraries contain, and the notices that their licences ask us to
//! pass on. Which crates that are is asked of Cargo, their texts stand in their packages; so the lock file decides every word.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};

use crate::root;

/// What users install, by language: the crate that is compiled for it, and the features it is compiled with.
pub(crate) const LIBRARIES: [(&str, &str, &[&str]); 4] = [
    ("C", "leasehold-ffi-c", &[]),
    ("Java", "leasehold-java", &[]),
    ("Node", "leasehold-node", &["--no-default-features"]),
    ("Python", "leasehold-python", &["--no-default-features"]),
];

/// What it is compiled for. A crate that only other systems need is in none of our files.
const TARGETS: [&str; 1] = ["x86_64-unknown-linux-gnu"];

/// The licences under which we take crates, our own first, each with words that its text must have.
const LICENCES: [(&str, &str); 5] = [
    ("Apache-2.0", "Apache License Version 2.0"),
    ("MIT", "Permission is hereby granted, free of charge"),
    ("ISC", "Permission to use, copy, modify, and"),
    ("BSD-3-Clause", "Redistribution and use in source and binary forms"),
    ("Zlib", "This software is provided 'as-is'"),
];

/// Crates whose package lacks the text, and whose it is: another crate's of the same repository, or its own, which we keep in
/// `tools/gen/licences` then.
const TEXT_OF: [(&str, &str); 3] = [("napi", "napi"), ("napi-sys", "napi"), ("tonic-prost", "tonic")];

/// What is in our files and in no package.
const BESIDE: &str = "\
Beside the crates
-----------------

The Rust standard library, Apache-2.0 OR MIT, taken under Apache-2.0: copyright The Rust Project Developers, Alex Crichton
(library/backtrace), The Crossbeam Project Developers (library/std/src/sync/mpmc). It contains crates of others, such as
addr2line, gimli, hashbrown, miniz_oxide, object and rustc-demangle, taken under Apache-2.0, and memchr, taken under MIT as
below; parts of LLVM's compiler-rt, Apache-2.0 WITH LLVM-exception; and data of Unicode, under the last text below.

The modules for Python and Node, and the shared library for C where zig has linked it, contain LLVM's libunwind and compiler-rt,
Apache-2.0 WITH LLVM-exception.
";

/// A crate of others in at least one of our files.
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// What its manifest says, such as `MIT OR Apache-2.0`.
    pub(crate) expression: String,
    folder: PathBuf,
    /// The languages whose library has it.
    pub(crate) languages: BTreeSet<&'static str>,
}

/// The whole file.
pub fn text(crates: &[Crate]) -> io::Result<String> {
    let mut list = String::new();
    // Many have the same text.
    let mut texts: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for each in crates {
        let licences = chosen(each)?;
        let languages: Vec<&str> = each.languages.iter().copied().collect();
        let languages = if languages.len() == LIBRARIES.len() { "all".to_owned() } else { languages.join(", ") };
        let (name, version) = (&each.name, &each.version);
        _ = writeln!(list, "{:<36}{:<24}{languages}", format!("{name} {version}"), licences.join(" AND "));
        for text in texts_of(each, &licences, crates)? {
            texts.entry(text).or_default().insert(name);
        }
    }
    let mut file = format!(
        "Third-party notices\n===================\n\n\
         The native libraries of leasehold contain these crates. The text of Apache-2.0 is in the file LICENSE beside this one, those of\n\
         the other licences are below.\n\n\
         {:<36}{:<24}In the library for\n{list}\n{BESIDE}",
        "Crate", "Licence"
    );
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|(_, a), (_, b)| a.cmp(b));
    for (text, names) in texts {
        section(&mut file, &names.into_iter().collect::<Vec<_>>().join(", "), &text);
    }
    section(&mut file, "Data of Unicode, in the Rust standard library", &kept("unicode-data")?);
    Ok(file)
}

fn section(file: &mut String, title: &str, text: &str) {
    let line = "-".repeat(100);
    _ = write!(file, "\n{line}\n{title}\n{line}\n\n{text}");
}

/// By name and version. Procedural macros are not among them: they run when we compile.
pub(crate) fn crates() -> io::Result<Vec<Crate>> {
    let mut languages: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    for (language, package, features) in LIBRARIES {
        for target in TARGETS {
            let mut arguments =
                vec!["tree", "--package", package, "--target", target, "--edges", "normal,no-proc-macro"];
            arguments.extend(["--prefix", "none", "--format", "{p}"].iter().chain(features));
            for line in cargo(&arguments)?.lines() {
                // Such as `tokio v1.54.1 (*)`.
                let mut words = line.split(' ').map(str::to_owned);
                if let (Some(name), Some(version)) = (words.next(), words.next()) {
                    languages.entry((name, version.trim_start_matches('v').to_owned())).or_default().insert(language);
                }
            }
        }
    }
    let mut arguments = vec!["metadata", "--format-version", "1"];
    arguments.extend(TARGETS.iter().flat_map(|target| ["--filter-platform", target]));
    let metadata: Value = serde_json::from_str(&cargo(&arguments)?)?;
    let mut crates = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten().filter(|package| !package["source"].is_null())
    {
        let field = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
        let (name, version) = (field("name"), field("version"));
        if let Some(languages) = languages.remove(&(name.clone(), version.clone())) {
            let folder = Path::new(&field("manifest_path")).parent().unwrap_or(Path::new("")).to_owned();
            crates.push(Crate { name, version, expression: field("license"), folder, languages });
        }
    }
    // What is left must be ours.
    if let Some((name, _)) = languages.keys().find(|(name, _)| !name.starts_with("leasehold")) {
        return Err(wrong(name, "cargo tree knows it, cargo metadata does not"));
    }
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(crates)
}

fn cargo(arguments: &[&str]) -> io::Result<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo).args(arguments).arg("--locked").current_dir(root()).output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(io::Error::other(format!("cargo {}: {said}", arguments.join(" "))));
    }
    String::from_utf8(done.stdout).map_err(io::Error::other)
}

/// The licences under which we take a crate: as few as its expression allows.
fn chosen(of: &Crate) -> io::Result<Vec<String>> {
    let wrong = |why: String| wrong(&of.name, &format!("its licence is {:?}: {why}", of.expression));
    let expression =
        Expression::parse_mode(&of.expression, ParseMode::LAX).map_err(|error| wrong(error.to_string()))?;
    let accepted: Vec<Licensee> = LICENCES.iter().filter_map(|(name, _)| Licensee::parse(name).ok()).collect();
    let least = expression.minimized_requirements(&accepted).map_err(|error| wrong(error.to_string()))?;
    Ok(least.iter().map(ToString::to_string).collect())
}

/// The texts that have to go along with a crate: its licence, if that is another than ours, and its notices.
fn texts_of(of: &Crate, licences: &[String], crates: &[Crate]) -> io::Result<Vec<String>> {
    let mut files = files(&of.folder)?;
    let notices = files.iter().filter(|(name, _)| name.starts_with("notice")).map(|(_, text)| text.clone()).collect();
    if licences.iter().all(|licence| *licence == LICENCES[0].0) {
        return Ok(notices);
    }
    let elsewhere = TEXT_OF.iter().find(|(name, _)| *name == of.name);
    match (files.is_empty(), elsewhere) {
        (false, None) => {}
        (false, Some(_)) => return Err(wrong(&of.name, "its package has a text: take it out of TEXT_OF")),
        (true, Some((_, other))) if *other != of.name => {
            let other = crates.iter().find(|each| each.name == *other);
            return other.map_or_else(
                || Err(wrong(&of.name, "TEXT_OF names no crate of ours")),
                |other| texts_of(other, licences, crates),
            );
        }
        (true, Some(_)) => files.push((String::new(), kept(&of.name)?)),
        (true, None) => return Err(wrong(&of.name, "its package has no text of its licence: add it to TEXT_OF")),
    }
    for (licence, words) in LICENCES.iter().filter(|(name, _)| licences.iter().any(|licence| licence == name)) {
        if !files.iter().any(|(_, text)| has(text, words)) {
            return Err(wrong(&of.name, &format!("no file of its package is the text of {licence}")));
        }
    }
    // Of one licence, its text; of several at once, all that the crate says.
    if let [licence] = licences {
        let words = LICENCES.iter().find(|(name, _)| name == licence).map_or("", |(_, words)| words);
        files.retain(|(name, text)| name.starts_with("notice") || has(text, words));
    }
    Ok(files.into_iter().map(|(_, text)| text).collect())
}

/// Whether a text has these words, however its lines are broken.
fn has(text: &str, words: &str) -> bool {
    let one_line = |text: &str| text.split_whitespace().filter(|word| *word != "//").collect::<Vec<_>>().join(" ");
    one_line(text).contains(&one_line(words))
}

/// What a package says about its licence: the names of the files in lower case, and their texts.
fn files(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file()
            && ["licen", "copying", "copyright", "notice", "unlicense"].iter().any(|it| name.starts_with(it))
        {
            files.push((name, tidy(&fs::read_to_string(&path)?)));
        }
    }
    files.sort();
    Ok(files)
}

/// A text that no package has.
fn kept(name: &str) -> io::Result<String> {
    let path = root().join("tools/gen/licences").join(name).with_extension("txt");
    let text = fs::read_to_string(&path);
    Ok(tidy(&text.map_err(|error| wrong(name, &format!("{}: {error}", path.display())))?))
}

/// Without blanks at the ends of lines, and empty lines at its own ends.
fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("{}\n", lines.join("\n").trim_matches('\n'))
}

fn wrong(name: &str, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("notices: {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, expression: &str, folder: &Path) -> Crate {
        let (name, expression, folder) = (name.into(), expression.into(), folder.into());
        Crate { name, version: "1.0.0".into(), expression, folder, languages: BTreeSet::new() }
    }

    #[test]
    fn our_own_licence_comes_first_and_an_unknown_one_is_refused() {
        let chosen = |expression| chosen(&one("x", expression, Path::new(""))).map_err(|error| error.to_string());
        for expression in
            ["MIT OR Apache-2.0", "MIT/Apache-2.0", "Apache-2.0", "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"]
        {
            assert_eq!(chosen(expression).unwrap(), ["Apache-2.0"], "{expression}");
        }
        assert_eq!(chosen("MIT AND BSD-3-Clause").unwrap(), ["MIT", "BSD-3-Clause"]);
        assert_eq!(chosen("Unlicense OR MIT").unwrap(), ["MIT"]);
        for expression in ["GPL-3.0-only", "", "MIT AND MPL-2.0"] {
            assert!(chosen(expression).unwrap_err().contains("notices: x: its licence is"), "{expression}");
        }
    }

    /// A crate is source of ours alone, so the licence is all that goes along.
    #[test]
    fn what_is_packed_as_a_crate_has_the_licence() {
        for package in ["leasehold", "leasehold-bridge"] {
            let files = cargo(&["package", "--list", "--allow-dirty", "--package", package]).unwrap();
            assert!(files.lines().any(|file| file == "LICENSE"), "{package}: {files}");
        }
    }

    #[test]
    fn a_text_must_be_there_and_be_that_of_the_licence() {
        let folder = tempfile::tempdir().unwrap();
        let texts = |name, licence: &str| texts_of(&one(name, licence, folder.path()), &[licence.to_owned()], &[]);
        assert!(texts("x", "MIT").unwrap_err().to_string().contains("no text of its licence"));
        fs::write(folder.path().join("LICENSE-MIT"), "Permission is hereby\n   granted, free of charge, …\n\n")
            .unwrap();
        fs::write(folder.path().join("UNLICENSE"), "anything").unwrap();
        assert_eq!(texts("x", "MIT").unwrap(), ["Permission is hereby\n   granted, free of charge, …\n"]);
        assert!(texts("x", "Zlib").unwrap_err().to_string().contains("is the text of Zlib"));
        assert!(texts("napi", "MIT").unwrap_err().to_string().contains("take it out of TEXT_OF"));
        assert_eq!(texts("x", "Apache-2.0").unwrap(), [""; 0]);
        fs::write(folder.path().join("NOTICE"), "by somebody").unwrap();
        assert_eq!(texts("x", "Apache-2.0").unwrap(), ["by somebody\n"]);
    }
}
