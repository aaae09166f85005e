//! What a client counts and times, as values and as OpenMetrics text.
//!
//! The engine of the client writes, and whoever takes and gives back a place that lingers. Lock names are
//! no labels: there can be as many of them as there are orders.

use std::{
    fmt,
    sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::{
    error::{Code, LostReason},
    store::Request,
};

/// Upper bounds of the buckets of every duration, in nanoseconds: from a local hand-off to a long wait.
const BOUNDS: [u64; 16] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
    30_000_000_000,
    300_000_000_000,
];

/// What became of an acquire, a request or a renewal: `ok`, or the name of the [`Code`] in lower case.
const OUTCOMES: usize = Code::ALL.len() + 1;
/// The kinds of requests, in the order of [`RequestKind`].
const REQUESTS: [&str; 5] = ["txn", "range", "lease_grant", "lease_revoke", "lease_time_to_live"];

/// Everything that a client has counted and timed in this process since it was made, at one moment.
///
/// Its `Display` is the text format of OpenMetrics 1.0, which Prometheus and OpenTelemetry's collector read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// One for each thing that is measured, always in the same order.
    pub families: Vec<Family>,
}

/// One thing that is measured.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Family {
    /// Its name, `leasehold_…`, without the suffix that the text format gives to counters.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// Its unit, where it has one; the name ends with it.
    pub unit: Option<&'static str>,
    /// Its values, one for each combination of labels that occurred.
    pub samples: Vec<Sample>,
}

impl Family {
    /// What its values are: `counter`, `gauge` or `histogram`. One without values counts what has not happened yet.
    pub fn kind(&self) -> &'static str {
        match self.samples.first().map(|sample| &sample.value) {
            Some(Value::Gauge(_)) => "gauge",
            Some(Value::Histogram { .. }) => "histogram",
            Some(Value::Counter(_)) | None => "counter",
        }
    }
}

/// One value of a [`Family`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// What it is about, as names and values.
    pub labels: Vec<(&'static str, String)>,
    /// How much, or how often.
    pub value: Value,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// How often something has happened. Only grows.
    Counter(u64),
    /// How much there is at this moment.
    Gauge(i64),
    /// How long something took, or how long it had.
    Histogram {
        /// For each upper bound, in seconds, how many were at most so long. The last bound is infinite.
        buckets: Vec<(f64, u64)>,
        /// All of them together, in seconds.
        sum: f64,
    },
}

/// A number that only grows.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[derive(Debug, Default)]
struct Histogram {
    /// How many fell between a bound and the one before; the last is for those beyond all bounds.
    counts: [Counter; BOUNDS.len() + 1],
    nanos: Counter,
}

impl Histogram {
    fn observe(&self, span: Duration) {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.counts[BOUNDS.partition_point(|bound| *bound < nanos)].add(1);
        self.nanos.add(nanos);
    }

    fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.get() == 0)
    }

    fn value(&self) -> Value {
        let mut total = 0;
        let bounds = BOUNDS.iter().map(|nanos| seconds(*nanos)).chain([f64::INFINITY]);
        let buckets = bounds
            .zip(&self.counts)
            .map(|(bound, count)| {
                total += count.get();
                (bound, total)
            })
            .collect();
        Value::Histogram { buckets, sum: seconds(self.nanos.get()) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a bound is exact, and a sum is read by people")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// What the engine writes into.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    acquires: [Histogram; OUTCOMES],
    waiting: AtomicI64,
    holds: Histogram,
    held: AtomicI64,
    lost: [Counter; LostReason::ALL.len()],
    renewals: Counter,
    broken_renewals: Counter,
    slack: Histogram,
    requests: [[Counter; 2]; REQUESTS.len()],
    request_seconds: Histogram,
}

impl Recorder {
    /// An acquire has begun.
    pub(crate) fn acquire_begun(&self) {
        self.waiting.fetch_add(1, Relaxed);
    }

    /// An acquire is over after so long: it won, or failed with that code.
    pub(crate) fn acquire_ended(&self, waited: Duration, failure: Option<Code>) {
        self.waiting.fetch_sub(1, Relaxed);
        self.acquires[outcome_index(failure)].observe(waited);
    }

    /// A hold has begun.
    pub(crate) fn hold_begun(&self) {
        self.held.fetch_add(1, Relaxed);
    }

    /// A hold is over after so long: released, or lost for that reason.
    pub(crate) fn hold_ended(&self, held: Duration, loss: Option<LostReason>) {
        self.held.fetch_sub(1, Relaxed);
        self.holds.observe(held);
        if let Some(index) = loss.and_then(|reason| LostReason::ALL.iter().position(|known| *known == reason)) {
            self.lost[index].add(1);
        }
    }

    /// A renewal was acknowledged, so long before the deadline that it moved.
    pub(crate) fn renewed(&self, slack: Duration) {
        self.renewals.add(1);
        self.slack.observe(slack);
    }

    /// A stream of renewals broke.
    pub(crate) fn renewals_broke(&self) {
        self.broken_renewals.add(1);
    }

    /// A request was answered after so long.
    pub(crate) fn answered(&self, kind: RequestKind, took: Duration, is_ok: bool) {
        self.requests[kind.0][usize::from(!is_ok)].add(1);
        self.request_seconds.observe(took);
    }

    /// All of it, now.
    pub(crate) fn read(&self) -> Metrics {
        let gauge = |value: &AtomicI64| vec![Sample { labels: Vec::new(), value: Value::Gauge(value.load(Relaxed)) }];
        let counter = |labels, counter: &Counter| Sample { labels, value: Value::Counter(counter.get()) };
        let histogram = |histogram: &Histogram| vec![Sample { labels: Vec::new(), value: histogram.value() }];
        let family = |name, help, samples| Family { name, help, unit: None, samples };
        let timed = |name, help, samples| Family { name, help, unit: Some("seconds"), samples };
        let acquires = self.acquires.iter().enumerate().filter(|(index, of)| *index == 0 || !of.is_empty());
        let requests = REQUESTS.iter().zip(&self.requests).flat_map(|(request, outcomes)| {
            outcomes.iter().zip(["ok", "error"]).filter(|(count, _)| count.get() > 0).map(move |(count, outcome)| {
                counter(vec![("request", (*request).to_owned()), ("outcome", outcome.to_owned())], count)
            })
        });
        Metrics {
            families: vec![
                timed(
                    "leasehold_acquire_seconds",
                    "How long acquires took, by what became of them.",
                    acquires
                        .map(|(index, of)| Sample { labels: vec![("outcome", outcome_name(index))], value: of.value() })
                        .collect(),
                ),
                family("leasehold_waiting", "Acquires that are under way.", gauge(&self.waiting)),
                family("leasehold_held", "Locks that are held.", gauge(&self.held)),
                timed("leasehold_hold_seconds", "How long locks were held.", histogram(&self.holds)),
                family(
                    "leasehold_lost",
                    "Locks that were lost while they were held, by reason.",
                    LostReason::ALL
                        .iter()
                        .zip(&self.lost)
                        .map(|(reason, count)| counter(vec![("reason", reason.name().to_lowercase())], count))
                        .collect(),
                ),
                family(
                    "leasehold_renewals",
                    "Renewals that etcd acknowledged.",
                    vec![counter(Vec::new(), &self.renewals)],
                ),
                family(
                    "leasehold_renewal_streams_broken",
                    "Streams of renewals that broke and were opened anew.",
                    vec![counter(Vec::new(), &self.broken_renewals)],
                ),
                timed(
                    "leasehold_renewal_slack_seconds",
                    "How far the deadline of a session still was when a renewal moved it.",
                    histogram(&self.slack),
                ),
                family(
                    "leasehold_requests",
                    "Requests to etcd that were answered, by kind and outcome.",
                    requests.collect(),
                ),
                timed("leasehold_request_seconds", "How long requests to etcd took.", histogram(&self.request_seconds)),
            ],
        }
    }
}

/// What kind of request was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestKind(usize);

impl RequestKind {
    /// The kind of this one.
    pub(crate) fn of(request: &Request) -> Self {
        Self(match request {
            Request::Txn(_) => 0,
            Request::Range(_) => 1,
            Request::LeaseGrant { .. } => 2,
            Request::LeaseRevoke { .. } => 3,
            Request::LeaseTimeToLive { .. } => 4,
        })
    }
}

fn outcome_index(failure: Option<Code>) -> usize {
    failure.and_then(|code| Code::ALL.iter().position(|known| *known == code)).map_or(0, |index| index + 1)
}

fn outcome_name(index: usize) -> String {
    let code = index.checked_sub(1).and_then(|index| Code::ALL.get(index));
    code.map_or_else(|| "ok".to_owned(), |code| code.name().to_lowercase())
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for family in &self.families {
            let Family { name, help, unit, samples } = family;
            writeln!(f, "# TYPE {name} {}", family.kind())?;
            if let Some(unit) = unit {
                writeln!(f, "# UNIT {name} {unit}")?;
            }
            writeln!(f, "# HELP {name} {help}")?;
            for Sample { labels, value } in samples {
                match value {
                    Value::Counter(count) => writeln!(f, "{name}_total{} {count}", Labels(labels, None))?,
                    Value::Gauge(level) => writeln!(f, "{name}{} {level}", Labels(labels, None))?,
                    Value::Histogram { buckets, sum } => {
                        for (bound, count) in buckets {
                            writeln!(f, "{name}_bucket{} {count}", Labels(labels, Some(*bound)))?;
                        }
                        let count = buckets.last().map_or(0, |(_, count)| *count);
                        writeln!(f, "{name}_count{} {count}", Labels(labels, None))?;
                        writeln!(f, "{name}_sum{} {sum}", Labels(labels, None))?;
                    }
                }
            }
        }
        f.write_str("# EOF\n")
    }
}

/// Labels between braces, with the upper bound of a bucket as the last. None of their values needs escaping.
struct Labels<'a>(&'a [(&'static str, String)], Option<f64>);

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound =
            self.1.map(|bound| ("le", if bound.is_infinite() { "+Inf".to_owned() } else { format!("{bound:?}") }));
        let mut separator = "{";
        for (name, value) in self.0.iter().chain(&bound) {
            write!(f, "{separator}{name}=\"{value}\"")?;
            separator = ",";
        }
        if separator == "," { f.write_str("}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_is_counted_where_it_belongs() {
        let recorder = Recorder::default();
        recorder.acquire_begun();
        recorder.acquire_begun();
        recorder.acquire_ended(Duration::from_millis(3), None);
        recorder.acquire_ended(Duration::from_secs(1), Some(Code::NotAcquired));
        recorder.hold_begun();
        recorder.hold_begun();
        recorder.hold_ended(Duration::from_micros(100), None);
        recorder.hold_ended(Duration::from_secs(1_000), Some(LostReason::KeyDeleted));
        recorder.renewed(Duration::from_secs(10));
        recorder.renewals_broke();
        recorder.answered(
            RequestKind::of(&Request::LeaseRevoke { lease: crate::store::LeaseId(1) }),
            Duration::ZERO,
            false,
        );
        let text = recorder.read().to_string();
        let has = |line: &str| assert!(text.lines().any(|found| found == line), "no line {line:?} in\n{text}");
        has("# TYPE leasehold_acquire_seconds histogram");
        has("# UNIT leasehold_acquire_seconds seconds");
        has(r#"leasehold_acquire_seconds_bucket{outcome="ok",le="0.0025"} 0"#);
        has(r#"leasehold_acquire_seconds_bucket{outcome="ok",le="0.005"} 1"#);
        has(r#"leasehold_acquire_seconds_bucket{outcome="ok",le="+Inf"} 1"#);
        has(r#"leasehold_acquire_seconds_sum{outcome="ok"} 0.003"#);
        has(r#"leasehold_acquire_seconds_bucket{outcome="not_acquired",le="1.0"} 1"#);
        has("leasehold_waiting 0");
        has("leasehold_held 0");
        has(r#"leasehold_hold_seconds_bucket{le="0.0001"} 1"#);
        has(r#"leasehold_hold_seconds_bucket{le="300.0"} 1"#);
        has("leasehold_hold_seconds_count 2");
        has(r#"leasehold_lost_total{reason="key_deleted"} 1"#);
        has(r#"leasehold_lost_total{reason="expired"} 0"#);
        has("leasehold_renewals_total 1");
        has("leasehold_renewal_streams_broken_total 1");
        has("leasehold_renewal_slack_seconds_sum 10");
        has(r#"leasehold_requests_total{request="lease_revoke",outcome="error"} 1"#);
        assert!(text.ends_with("\n# EOF\n"));
    }
}
