//! Processes that cycle one name, each with one waiter, against as many that use Go's `concurrency.Mutex`: hand-offs a second.

use std::{error::Error, time::Duration};

use crate::{
    load::{Load, Side},
    stats::Sample,
};

const SPAN: Duration = Duration::from_millis(1_500);
/// So much longer for each process, so that everybody has several turns.
const MORE: Duration = Duration::from_millis(10);
/// Until everybody has had its turn: so often at most.
const WARM_UPS: usize = 40;

pub async fn run(endpoint: &str, sizes: &[usize], rounds: usize) -> Result<(), Box<dyn Error>> {
    for &size in sizes {
        let span = SPAN + MORE * u32::try_from(size)?;
        let mut crowds = Vec::new();
        for side in [Side::Ours, Side::Go] {
            let mut crowd = Load::many(side, endpoint, size).await?;
            warm_up(&mut crowd, side).await?;
            crowds.push((side, crowd, Vec::new(), Vec::new()));
        }
        for _ in 0..rounds {
            for (side, crowd, rates, costs) in &mut crowds {
                let (rate, cost, _) = cycle(crowd, *side, span).await?;
                rates.push(rate);
                costs.push(cost);
            }
        }
        let [(_, _, ours, our_cost), (_, _, theirs, their_cost)] = &crowds[..] else { return Err("two sides".into()) };
        let ratio = Sample::new(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()).median();
        println!(
            "crowd       {size:>3} processes, one name: {}, Go's Mutex {}: {ratio:.2} x; processor time of all {:.0} µs, {:.0} µs a hand-off   ({rounds} rounds of {span:?})",
            Sample::new(ours.clone()).show("hand-offs/s"),
            Sample::new(theirs.clone()).show("hand-offs/s"),
            Sample::new(our_cost.clone()).median(),
            Sample::new(their_cost.clone()).median(),
        );
        // Nobody of them is in the way of the next ones.
        for load in crowds.into_iter().flat_map(|(_, crowd, ..)| crowd) {
            load.end().await?;
        }
    }
    Ok(())
}

/// Until each of them has had its turn: by then all connections, leases and watches stand.
async fn warm_up(crowd: &mut [Load], side: Side) -> Result<(), Box<dyn Error>> {
    let span = SPAN + MORE * u32::try_from(crowd.len())?;
    for _ in 0..WARM_UPS {
        if cycle(crowd, side, span).await?.2 > 0 {
            return Ok(());
        }
    }
    Err(format!("of {} processes of {side:?} some never had a turn", crowd.len()).into())
}

/// Hand-offs a second, the processor time of all processes for each, and how often it was the turn of whoever had the fewest.
async fn cycle(crowd: &mut [Load], side: Side, span: Duration) -> Result<(f64, f64, u32), Box<dyn Error>> {
    for load in crowd.iter_mut() {
        load.tell(&format!("one 1 {} /bench/crowd/{side:?}", span.as_millis())).await?;
    }
    let (mut pairs, mut cpu, mut fewest) = (0.0, 0.0, u32::MAX);
    for load in crowd {
        let done = load.hear().await?;
        pairs += f64::from(done.pairs);
        cpu += done.cpu_us;
        fewest = fewest.min(done.pairs);
    }
    Ok((pairs / span.as_secs_f64(), cpu / f64::max(pairs, 1.0), fewest))
}
