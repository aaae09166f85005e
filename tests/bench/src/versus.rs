//! Acquires and releases of one process against raw loops in a process of their own: a transaction and a delete by Go's client
//! of etcd, which is what a program would do by hand.

use std::{error::Error, time::Duration};

use crate::{
    load::{Done, Load, Side},
    stats::Sample,
};

const SPAN: Duration = Duration::from_millis(700);

pub async fn run(endpoint: &str, rounds: usize) -> Result<(), Box<dyn Error>> {
    let mut ours = Load::start(Side::Ours, endpoint).await?;
    let mut raw = Load::start(Side::Go, endpoint).await?;
    let span = SPAN.as_millis();
    for (what, tasks) in
        [("names", 1), ("names", 8), ("names", 64), ("names", 256), ("one", 1), ("one", 8), ("one", 64)]
    {
        let job =
            if what == "names" { format!("names {tasks} {span}") } else { format!("one {tasks} {span} /bench/one") };
        let (mut locked, mut by_hand) = (Vec::new(), Vec::new());
        for round in 0..=rounds {
            let (lock, hand) = (one(&mut ours, &job).await?, one(&mut raw, &format!("names {tasks} {span}")).await?);
            if round > 0 {
                locked.push(lock);
                by_hand.push(hand);
            }
        }
        let all = |of: fn(&Done) -> f64, dones: &[Done]| Sample::new(dones.iter().map(of).collect());
        let ratio = |of: fn(&Done) -> f64| {
            Sample::new(locked.iter().zip(&by_hand).map(|(ours, raw)| of(ours) / of(raw)).collect()).median()
        };
        println!(
            "versus      {tasks:>3} tasks, {}: {}, raw {}: {:.2} x; p50 {}, raw {}: {:.2} x; p99 {:.2} x; processor {:.0} µs a pair, raw {:.0} µs",
            if what == "names" { "a name each" } else { "one name" },
            all(Done::rate, &locked).show("pairs/s"),
            all(Done::rate, &by_hand).show("pairs/s"),
            ratio(Done::rate),
            all(|done| done.p50_us, &locked).show("µs"),
            all(|done| done.p50_us, &by_hand).show("µs"),
            ratio(|done| done.p50_us),
            ratio(|done| done.p99_us),
            all(|done| done.cpu_us / f64::from(done.pairs), &locked).median(),
            all(|done| done.cpu_us / f64::from(done.pairs), &by_hand).median(),
        );
    }
    ours.end().await?;
    raw.end().await
}

async fn one(load: &mut Load, job: &str) -> Result<Done, Box<dyn Error>> {
    load.tell(job).await?;
    load.hear().await
}
