//! What a person sees: lines that stay, and, on a terminal, a part below them that moves.

use std::{fmt, io::Write, time::Duration};

use console::style;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::ledger::{Judgement, Verdict};

/// How often the moving part is painted anew.
const TICK: Duration = Duration::from_millis(100);

/// Where everything is shown. Without a terminal nothing moves and nothing is coloured.
pub(crate) struct Display {
    moving: MultiProgress,
}

impl Display {
    pub(crate) fn new() -> Self {
        Self { moving: MultiProgress::with_draw_target(ProgressDrawTarget::stdout()) }
    }

    /// A line that stays.
    pub(crate) fn line(&self, text: impl fmt::Display) {
        self.moving.suspend(|| {
            // Where nobody reads any more, the exit code still tells how it went.
            let _ = writeln!(std::io::stdout(), "{}", text.to_string().trim_end());
        });
    }

    /// The title of a part.
    pub(crate) fn heading(&self, text: &str) {
        self.line("");
        self.line(style(text).bold());
    }

    /// A bar for each name, until they are dropped.
    pub(crate) fn bars(&self, names: &[&str], length: u64) -> Bars {
        let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
        let template = format!("   {{prefix:{width}}}  {{bar:24}}  {{pos:>3}} of {{len}}  {{msg}}");
        let bars = names.iter().map(|name| {
            let bar = self.moving.add(ProgressBar::new(length)).with_prefix((*name).to_owned());
            bar.set_style(styled(&template).progress_chars("##-"));
            bar
        });
        Bars(bars.collect())
    }

    /// Says what is waited for and for how long already, until it is dropped.
    pub(crate) fn waiting(&self, text: impl Into<String>) -> Bars {
        let bar = self.moving.add(ProgressBar::new_spinner()).with_message(text.into());
        let seconds = |state: &ProgressState, to: &mut dyn fmt::Write| {
            // A number that is not painted does no harm.
            let _ = write!(to, "{}", seconds(state.elapsed()));
        };
        bar.set_style(styled("   {msg}  {seconds}").with_key("seconds", seconds));
        bar.enable_steady_tick(TICK);
        Bars(vec![bar])
    }

    pub(crate) fn verdict(&self, Verdict { claim, judgement, text }: &Verdict) {
        let word = match judgement {
            Judgement::Good => style("ok   ").green(),
            Judgement::Wrong => style("WRONG").red().bold(),
            Judgement::Open => style("?    ").yellow(),
        };
        self.line(format!("   {word}  {claim:<13}  {text}"));
    }
}

/// The moving part. Dropping it takes it away.
pub(crate) struct Bars(Vec<ProgressBar>);

impl Bars {
    pub(crate) fn state(&self, number: usize, text: &str) {
        self.0[number].set_message(text.to_owned());
    }

    pub(crate) fn advance(&self, number: usize) {
        self.0[number].inc(1);
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        for bar in &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// `2.4 s`.
pub(crate) fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

fn styled(template: &str) -> ProgressStyle {
    // A template that indicatif does not take would be painted as its default, which a look at the demo shows.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
