//! What a client has counted and timed, as values of JavaScript.

use leasehold_bridge::{Family, Metrics, Sample, Value};
use napi_derive::napi;

use crate::as_number;

/// What a client has counted and timed: as values, and in the text format of OpenMetrics.
#[napi(object, object_from_js = false)]
pub struct Measured {
    pub families: Vec<MeasuredFamily>,
    pub text: String,
}

/// One thing that is measured.
#[napi(object, object_from_js = false)]
pub struct MeasuredFamily {
    pub name: &'static str,
    pub help: &'static str,
    pub unit: Option<&'static str>,
    pub samples: Vec<MeasuredSample>,
}

/// One value: a counter, a gauge, or a histogram with its buckets and its sum.
#[napi(object, object_from_js = false)]
pub struct MeasuredSample {
    /// Pairs of a name and a value.
    pub labels: Vec<Vec<String>>,
    pub counter: Option<f64>,
    pub gauge: Option<f64>,
    /// For each upper bound, how many were at most so much.
    pub buckets: Option<Vec<Vec<f64>>>,
    pub sum: Option<f64>,
}

impl From<Metrics> for Measured {
    fn from(metrics: Metrics) -> Self {
        let text = metrics.to_string();
        Self { families: metrics.families.into_iter().map(MeasuredFamily::from).collect(), text }
    }
}

impl From<Family> for MeasuredFamily {
    fn from(family: Family) -> Self {
        let Family { name, help, unit, samples, .. } = family;
        Self { name, help, unit, samples: samples.into_iter().map(MeasuredSample::from).collect() }
    }
}

impl From<Sample> for MeasuredSample {
    fn from(sample: Sample) -> Self {
        let labels = sample.labels.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        let empty = Self { labels, counter: None, gauge: None, buckets: None, sum: None };
        match sample.value {
            Value::Counter(count) => Self { counter: Some(as_number(count)), ..empty },
            Value::Gauge(level) => {
                let size = as_number(level.unsigned_abs());
                Self { gauge: Some(if level < 0 { -size } else { size }), ..empty }
            }
            Value::Histogram { buckets, sum } => {
                let buckets = buckets.into_iter().map(|(bound, count)| vec![bound, as_number(count)]).collect();
                Self { buckets: Some(buckets), sum: Some(sum), ..empty }
            }
            // One that is not known here yet.
            _ => empty,
        }
    }
}
