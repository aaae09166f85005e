//! What the runner prints: a line for every play as it ends, what was wrong at once, and a table at the end.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf, time::Duration};

use crate::play::Outcome;

/// How many entries of a failed play are shown; the rest is in the file.
const SHOWN: usize = 40;

/// How the plays went so far.
#[derive(Debug)]
pub struct Report {
    folder: PathBuf,
    keep: bool,
    /// By scenario, then by cast.
    rows: BTreeMap<String, BTreeMap<String, Cell>>,
    /// Why a scenario was not played.
    skips: BTreeMap<String, String>,
}

#[derive(Debug)]
enum Cell {
    Passed(Duration),
    Failed,
    Skipped,
}

impl Report {
    /// An empty one. The histories of failed plays go into `folder`; those of all of them, if `keep` says so.
    pub fn new(folder: PathBuf, keep: bool) -> Self {
        Self { folder, keep, rows: BTreeMap::new(), skips: BTreeMap::new() }
    }

    /// Takes a play that has ended; returns what to print.
    pub fn played(&mut self, scenario: &str, cast: &str, outcome: &Outcome) -> String {
        let passed = outcome.findings.is_empty();
        let cell = if passed { Cell::Passed(outcome.took) } else { Cell::Failed };
        self.rows.entry(scenario.to_owned()).or_default().insert(cast.to_owned(), cell);
        let seconds = outcome.took.as_secs_f64();
        let kept = if passed && !self.keep { String::new() } else { self.keep(scenario, cast, outcome) };
        if passed {
            return format!("ok      {scenario} [{cast}] {seconds:.1} s{kept}");
        }
        let mut text = format!("FAILED {scenario} [{cast}] {seconds:.1} s\n");
        for finding in &outcome.findings {
            let _ = writeln!(text, "  {finding}");
        }
        text + &outcome.history.trace(SHOWN) + kept.trim_start_matches('\n')
    }

    /// Writes what is known of a play into files; says where.
    fn keep(&self, scenario: &str, cast: &str, outcome: &Outcome) -> String {
        let stem = self.folder.join(format!("{scenario}-{cast}"));
        let (history, diagnostics) = (stem.with_extension("jsonl"), stem.with_extension("log"));
        let written = std::fs::create_dir_all(&self.folder)
            .and_then(|()| outcome.history.write(&history))
            .and_then(|()| std::fs::write(&diagnostics, &outcome.diagnostics));
        match written {
            Ok(()) => format!("\n  history: {}\n  logs: {}", history.display(), diagnostics.display()),
            Err(error) => format!("\n  cannot write {}: {error}", history.display()),
        }
    }

    /// Takes a scenario that cannot be played; returns what to print.
    pub fn skipped(&mut self, scenario: &str, why: &str) -> String {
        self.rows.entry(scenario.to_owned()).or_default().insert(String::new(), Cell::Skipped);
        self.skips.insert(scenario.to_owned(), why.to_owned());
        format!("SKIPPED {scenario}: {why}")
    }

    /// Whether something was played, and nothing failed.
    pub fn is_clean(&self) -> bool {
        self.cells().any(|cell| matches!(cell, Cell::Passed(_)))
            && !self.cells().any(|cell| matches!(cell, Cell::Failed))
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.rows.values().flat_map(BTreeMap::values)
    }

    /// How many plays passed, failed and were skipped, and which: what `scripts/counts.py` reads.
    pub fn counts(&self) -> serde_json::Value {
        let of = |matches: fn(&Cell) -> bool| -> Vec<String> {
            let named = |(scenario, row): (&String, &BTreeMap<String, Cell>)| -> Vec<String> {
                row.iter().filter(|(_, cell)| matches(cell)).map(|(cast, _)| format!("{scenario} [{cast}]")).collect()
            };
            self.rows.iter().flat_map(named).collect()
        };
        let passed = of(|cell| matches!(cell, Cell::Passed(_))).len();
        let failures = of(|cell| matches!(cell, Cell::Failed));
        let skips: Vec<String> = self.skips.iter().map(|(scenario, why)| format!("{scenario}: {why}")).collect();
        serde_json::json!({
            "passed": passed, "failed": failures.len(), "skipped": skips.len(), "failures": failures, "skips": skips,
        })
    }

    /// A line for each scenario, a column for each cast, and the counts as the last line.
    pub fn table(&self) -> String {
        let mut casts: Vec<&str> =
            self.rows.values().flat_map(BTreeMap::keys).map(String::as_str).filter(|cast| !cast.is_empty()).collect();
        casts.sort_unstable();
        casts.dedup();
        let widest = self.rows.keys().map(|name| name.chars().count()).max().unwrap_or_default();
        let mut text = format!("{:widest$}", "");
        for cast in &casts {
            let _ = write!(text, " {cast:>8}");
        }
        text.push('\n');
        for (scenario, row) in &self.rows {
            let _ = write!(text, "{scenario:widest$}");
            for cast in &casts {
                let shown = match row.get(*cast).or_else(|| row.get("")) {
                    Some(Cell::Passed(took)) => format!("{:.1} s", took.as_secs_f64()),
                    Some(Cell::Failed) => "FAILED".to_owned(),
                    Some(Cell::Skipped) => "skipped".to_owned(),
                    None => "-".to_owned(),
                };
                let _ = write!(text, " {shown:>8}");
            }
            text.push('\n');
        }
        let count = |matches: fn(&Cell) -> bool| self.cells().filter(|cell| matches(cell)).count();
        let passed = count(|cell| matches!(cell, Cell::Passed(_)));
        let failed = count(|cell| matches!(cell, Cell::Failed));
        let skipped = count(|cell| matches!(cell, Cell::Skipped));
        let _ = write!(text, "{passed} passed, {failed} failed, {skipped} skipped");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;

    fn outcome(findings: &[&str]) -> Outcome {
        Outcome {
            findings: findings.iter().map(|&finding| finding.to_owned()).collect(),
            history: History::default(),
            diagnostics: String::new(),
            took: Duration::from_millis(1500),
        }
    }

    #[test]
    fn counts_stand_in_the_last_line() {
        let folder = std::env::temp_dir().join(format!("leasehold-report-{}", std::process::id()));
        let mut report = Report::new(folder.clone(), false);
        assert_eq!(report.skipped("tls", "no driver"), "SKIPPED tls: no driver");
        assert!(!report.is_clean(), "nothing was played");
        assert_eq!(report.played("fifo", "rust", &outcome(&[])), "ok      fifo [rust] 1.5 s");
        assert!(report.is_clean());
        let failed = report.played("fifo", "mixed", &outcome(&["exclusion: two held"]));
        assert!(failed.starts_with("FAILED fifo [mixed]") && failed.contains("exclusion: two held"), "{failed}");
        assert!(folder.join("fifo-mixed.jsonl").exists());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(!report.is_clean());
        let counts = report.counts();
        let wanted = serde_json::json!({
            "passed": 1, "failed": 1, "skipped": 1, "failures": ["fifo [mixed]"], "skips": ["tls: no driver"],
        });
        assert_eq!(counts, wanted);
        let table = report.table();
        assert_eq!(table.lines().last(), Some("1 passed, 1 failed, 1 skipped"));
        assert!(table.contains("fifo   FAILED    1.5 s"), "{table}");
    }
}
