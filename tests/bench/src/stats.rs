//! Medians and their spread.

use std::time::Duration;

/// Some measurements of the same thing, in order of size.
pub struct Sample(Vec<f64>);

impl Sample {
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    pub fn of(times: &[Duration]) -> Self {
        Self::new(times.iter().map(|time| time.as_secs_f64() * 1e6).collect())
    }

    /// The value below which a share of `q` of the measurements lies.
    pub fn quantile(&self, q: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * q).round() as usize).copied().unwrap_or(f64::NAN)
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// `median (first quartile to third quartile)`.
    pub fn show(&self, unit: &str) -> String {
        format!("{:.0} {unit} ({:.0} to {:.0})", self.median(), self.quantile(0.25), self.quantile(0.75))
    }
}
