//! Text that others chose, made fit for messages and logs: keys, names, metadata, what a server says.
//!
//! A newline forges a line of a log, an escape sequence repaints a terminal, a character of bidirectional text turns the rest of a
//! line around, and a NUL ends a text of C early. All of that is shown as `\n`, `\u{1b}` and the like.

use std::{borrow::Cow, fmt::Write};

/// The most bytes of a foreign text that are shown.
const LONGEST: usize = 256;

/// `text` with everything escaped that is not printed as itself; a text without such characters stays as it is.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        push(&mut shown, character);
    }
    Cow::Owned(shown)
}

/// The beginning of a foreign text, [`printable`]; where something is missing it ends with `…`.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(LONGEST);
    for character in text.chars() {
        let before = shown.len();
        push(&mut shown, character);
        if shown.len() > LONGEST {
            shown.truncate(before);
            while shown.len() > LONGEST - '…'.len_utf8() {
                shown.pop();
            }
            shown.push('…');
            break;
        }
    }
    Cow::Owned(shown)
}

/// [`excerpt`] in quotes, for names in sentences.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", excerpt(text).replace('"', "\\\""))
}

/// Whether a character may stand in a message as it is. What `str`'s own escaping leaves alone is printable.
fn is_plain(character: char) -> bool {
    matches!(character, '"' | '\'' | '\\') || (' '..='~').contains(&character) || {
        let mut escaped = character.escape_debug();
        escaped.next() == Some(character) && escaped.next().is_none()
    }
}

fn push(shown: &mut String, character: char) {
    if is_plain(character) {
        shown.push(character);
    } else {
        // Writing to a string cannot fail.
        let _ = write!(shown, "{}", character.escape_debug());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_as_itself_stays() {
        for plain in ["", "/lock/a", "/lock/ä-日本語", r#"it's "quoted" \n"#] {
            assert_eq!(printable(plain), plain);
            assert_eq!(excerpt(plain), plain);
        }
    }

    #[test]
    fn what_forges_repaints_turns_around_or_ends_is_escaped() {
        for (foreign, shown) in [
            ("a\nINFO forged", r"a\nINFO forged"),
            ("\r\t\0", r"\r\t\0"),
            ("\x1b[2J", r"\u{1b}[2J"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("\x7f", r"\u{7f}"),
            ("\u{202e}gnp.exe", r"\u{202e}gnp.exe"),
            ("\u{2066}\u{2069}\u{200f}\u{61c}", r"\u{2066}\u{2069}\u{200f}\u{61c}"),
            ("\u{2028}\u{2029}\u{85}", r"\u{2028}\u{2029}\u{85}"),
            ("\u{200b}\u{feff}\u{ad}", r"\u{200b}\u{feff}\u{ad}"),
        ] {
            assert_eq!(printable(foreign), shown, "{foreign:?}");
            assert_eq!(excerpt(foreign), shown, "{foreign:?}");
        }
    }

    #[test]
    fn quotes_end_where_the_text_ends() {
        assert_eq!(quoted("/lock/a"), r#""/lock/a""#);
        assert_eq!(quoted("a\" was\n"), r#""a\" was\n""#);
    }

    #[test]
    fn what_is_long_is_cut_between_characters_and_never_within_an_escape() {
        for text in ["x".repeat(1000), "ä".repeat(500), "\x1b".repeat(500), format!("{}\x1b", "x".repeat(255))] {
            let shown = excerpt(&text);
            assert!(shown.len() <= LONGEST && shown.ends_with('…'), "{shown}");
        }
        assert_eq!(excerpt(&"x".repeat(256)).len(), 256, "just fits");
        assert_eq!(excerpt("\x1b".repeat(30).as_str()).matches(r"\u{1b}").count(), 30);
    }
}
