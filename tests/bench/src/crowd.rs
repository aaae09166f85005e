//! Processes that cycle one name, each with one waiter, against as many that use Go's `concurrency.Mutex`: hand-offs a second.

use std::{error::Error, time::Duration};

use crate::{
    load::{Load, Side},
    stats::Sample,
};

const WARM_UP: Duration = Duration::from_millis(1_000);
const SPAN: Duration = Duration::from_millis(1_500);

pub async fn run(endpoint: &str, sizes: &[usize], rounds: usize) -> Result<(), Box<dyn Error>> {
    for &size in sizes {
        let mut crowds = Vec::new();
        for side in [Side::Ours, Side::Go] {
            let mut crowd = Load::many(side, endpoint, size).await?;
            cycle(&mut crowd, side, WARM_UP).await?;
            crowds.push((side, crowd, Vec::new(), Vec::new()));
        }
        for _ in 0..rounds {
            for (side, crowd, rates, costs) in &mut crowds {
                let (rate, cost) = cycle(crowd, *side, SPAN).await?;
                rates.push(rate);
                costs.push(cost);
            }
        }
        let [(_, _, ours, our_cost), (_, _, theirs, their_cost)] = &crowds[..] else { return Err("two sides".into()) };
        let ratio = Sample::new(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()).median();
        println!(
            "crowd       {size:>3} processes, one name: {}, Go's Mutex {}: {ratio:.2} x; processor time of all {:.0} µs, {:.0} µs a hand-off   ({rounds} rounds of {SPAN:?})",
            Sample::new(ours.clone()).show("hand-offs/s"),
            Sample::new(theirs.clone()).show("hand-offs/s"),
            Sample::new(our_cost.clone()).median(),
            Sample::new(their_cost.clone()).median(),
        );
    }
    Ok(())
}

/// Hand-offs a second, and the processor time of all processes for each.
async fn cycle(crowd: &mut [Load], side: Side, span: Duration) -> Result<(f64, f64), Box<dyn Error>> {
    for load in crowd.iter_mut() {
        load.tell(&format!("one 1 {} /bench/crowd/{side:?}", span.as_millis())).await?;
    }
    let (mut pairs, mut cpu) = (0.0, 0.0);
    for load in crowd {
        let done = load.hear().await?;
        pairs += f64::from(done.pairs);
        cpu += done.cpu_us;
    }
    Ok((pairs / span.as_secs_f64(), cpu / f64::max(pairs, 1.0)))
}
