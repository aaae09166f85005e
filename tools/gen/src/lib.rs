//! What a program writes: the parts of pages between `<!-- generated: name -->` and `<!-- end -->`, the header for C and the
//! functions that are written alike in it, the numbers of errors for Python, and the notices and bills of materials of the crates
//! that we pass on.

mod errors;
mod interface;
mod notices;
mod python;
mod sbom;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

const END: &str = "<!-- end -->";

/// Files of `ffi-c/examples`, which the tests of the C library compile and run, and the page that each is shown on.
const EXAMPLES: [(&str, &str); 7] = [
    ("README.md", "readme.c"),
    ("docs/c.md", "blocking.c"),
    ("docs/c.md", "timed.c"),
    ("docs/c.md", "kinds.c"),
    ("docs/c.md", "event_loop.c"),
    ("docs/c.md", "on_lost.c"),
    ("docs/c.md", "cpp.cpp"),
];

/// The header that the entry points of `ffi-c` are.
const HEADER: &str = "include/leasehold.h";

/// What can go wrong, for Python.
const PYTHON: &str = "bindings-python/python/leasehold/_codes.py";

/// What every artefact brings along beside the licence.
const NOTICES: &str = "THIRD-PARTY-NOTICES.txt";

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Brings every generated part up to date, or, with `check`, only looks. Returns the files that were stale.
pub fn update(check: bool) -> io::Result<Vec<&'static str>> {
    let mut stale = Vec::new();
    let mut renew = |name: &'static str, old: &str, new: String| {
        if new == old {
            return Ok(());
        }
        stale.push(name);
        if check {
            return Ok(());
        }
        let place = root().join(name);
        fs::create_dir_all(place.parent().unwrap_or(&place))?;
        fs::write(place, new)
    };
    let file = |name: &str| fs::read_to_string(root().join(name)).unwrap_or_default();
    // Before the header, which is made from it.
    renew(interface::FILE, &file(interface::FILE), interface::text()?)?;
    let crates = notices::crates()?;
    let mut files = vec![(HEADER, header()?), (PYTHON, python::codes()?), (NOTICES, notices::text(&crates)?)];
    files.extend(sbom::texts(&crates)?);
    for (name, new) in files {
        renew(name, &file(name), new)?;
    }
    let mut parts =
        vec![("docs/errors.md", "codes", errors::codes()?), ("docs/errors.md", "reasons", errors::reasons())];
    for (page, file) in EXAMPLES {
        parts.push((page, file, example(file)?));
    }
    for (page, name, text) in parts {
        let old = fs::read_to_string(root().join(page))?;
        let new = replace(&old, name, &text).ok_or_else(|| {
            let message = format!("{page} has no part <!-- generated: {name} --> … {END}");
            io::Error::new(io::ErrorKind::InvalidData, message)
        })?;
        renew(page, &old, new)?;
    }
    stale.dedup();
    Ok(stale)
}

/// An example as a fenced block.
fn example(file: &str) -> io::Result<String> {
    let text = fs::read_to_string(root().join("ffi-c/examples").join(file))?;
    let (_, language) = file.split_once('.').unwrap_or_default();
    Ok(format!("```{language}\n{}\n```\n", text.trim_end()))
}

/// `include/leasehold.h`, as `ffi-c/cbindgen.toml` says.
fn header() -> io::Result<String> {
    let crate_folder = root().join("ffi-c");
    let wrong =
        |error: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::InvalidData, format!("{HEADER}: {error}"));
    let mut config = cbindgen::Config::from_file(crate_folder.join("cbindgen.toml")).map_err(|error| wrong(&error))?;
    config.after_includes = config.after_includes.map(|text| with_version(&text));
    let bindings = cbindgen::generate_with_config(crate_folder, config).map_err(|error| wrong(&error))?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).map(|text| for_every_c(&text)).map_err(|error| wrong(&error))
}

/// The header with what C of 1990 knows, too: no comments that end with the line, no comma behind the last number of an enum.
fn for_every_c(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_doc = |line: Option<&&str>| line.is_some_and(|line| line.trim_start().starts_with("///"));
    let mut out = String::with_capacity(text.len());
    for (number, line) in lines.iter().enumerate() {
        let (next, before) = (lines.get(number + 1), number.checked_sub(1).and_then(|number| lines.get(number)));
        if let Some((indent, words)) = line.split_once("///").filter(|(indent, _)| indent.trim().is_empty()) {
            out += &format!(
                "{indent}{}{words}{}",
                if is_doc(before) { " *" } else { "/**" },
                if is_doc(next) { "" } else { " */" }
            );
        } else if let Some((code, words)) = line.split_once(" // ").filter(|(code, _)| code.starts_with(['#', '}'])) {
            out += &format!("{} /* {words} */", code.trim_end());
        } else if next.is_some_and(|next| next.starts_with('}')) {
            out += line.strip_suffix(',').unwrap_or(line);
        } else {
            out += line;
        }
        out.push('\n');
    }
    out
}

/// The macros of the header that say which version it is.
fn with_version(text: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut parts = version.split('.');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (major, minor, patch) = (next(), next(), next());
    let abi = if major == "0" { minor.clone() } else { format!("{major}000") };
    let values = [("VERSION", version), ("MAJOR", &major), ("MINOR", &minor), ("PATCH", &patch), ("ABI", &abi)];
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
}

/// `page` with the part `name` replaced; `None` where it has no such part.
fn replace(page: &str, name: &str, text: &str) -> Option<String> {
    let start_mark = format!("<!-- generated: {name} -->\n");
    let start = page.find(&start_mark)? + start_mark.len();
    let end = start + page[start..].find(END)?;
    Some(format!("{}\n{text}\n{}", &page[..start], &page[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_between_its_marks_and_nothing_else() {
        let page = "a\n<!-- generated: x -->\n\nold\n\n<!-- end -->\nb\n";
        let new = replace(page, "x", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- generated: x -->\n\nnew\n\n<!-- end -->\nb\n");
        assert_eq!(replace(&new, "x", "new\n").unwrap(), new);
        assert_eq!(replace(page, "y", "new\n"), None);
    }

    #[test]
    fn the_header_is_for_every_c() {
        let text =
            "/// One.\ntypedef enum e {\n    /// Two,\n    /// three.\n    A = 1,\n    B = 2,\n} e;\n#endif // X\n";
        let wanted = "/** One. */\ntypedef enum e {\n    /** Two,\n     * three. */\n    A = 1,\n    B = 2\n} e;\n#endif /* X */\n";
        assert_eq!(for_every_c(text), wanted);
    }

    #[test]
    fn what_is_generated_is_fresh() {
        assert_eq!(update(true).unwrap(), Vec::<&str>::new(), "run `make gen`");
    }
}
