//! The numbers of errors and of reasons for a loss, as enumerations of Python. What each means is said once, in the core.

use std::{fmt::Write as _, fs, io};

use leasehold::{Code, LostReason};

use crate::root;

const SOURCE: &str = "core/src/error.rs";

/// `_codes.py` of the package.
pub fn codes() -> io::Result<String> {
    let source = fs::read_to_string(root().join(SOURCE))?;
    let mut text = String::from(
        "\"\"\"The numbers of errors, and of reasons for a loss. Written by `make gen` from the core's.\"\"\"\n\n\
         from __future__ import annotations\n\nimport enum\n",
    );
    let codes = Code::ALL.map(|code| (code.name(), code.number(), format!("{code:?}")));
    class(
        &mut text,
        &source,
        "Code",
        "The stable number of an error: the same in every language, never reused.",
        &codes,
    )?;
    let reasons = LostReason::ALL.map(|reason| (reason.name(), reason.number(), format!("{reason:?}")));
    class(&mut text, &source, "LostReason", "Why a guard no longer proves that it holds its lock.", &reasons)?;
    Ok(text)
}

fn class(text: &mut String, source: &str, name: &str, about: &str, members: &[(&str, i32, String)]) -> io::Result<()> {
    _ = writeln!(text, "\n\nclass {name}(enum.IntEnum):\n    \"\"\"{about}\"\"\"\n");
    for (member, number, variant) in members {
        let about = about_variant(source, variant, *number).ok_or_else(|| {
            let message = format!("{SOURCE} has no `{variant} = {number}` with documentation");
            io::Error::new(io::ErrorKind::InvalidData, message)
        })?;
        _ = writeln!(text, "    {member} = {number}\n    \"\"\"{about}\"\"\"");
    }
    Ok(())
}

/// The documentation of one variant, which stands on the lines before it.
fn about_variant(source: &str, variant: &str, number: i32) -> Option<String> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| *line == format!("{variant} = {number},"))?;
    let start = lines[..at].iter().rposition(|line| !line.starts_with("///"))? + 1;
    let about: Vec<&str> = lines[start..at].iter().filter_map(|line| line.strip_prefix("/// ")).collect();
    (!about.is_empty()).then(|| about.join(" "))
}
