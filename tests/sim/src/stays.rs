//! How long clients stay in places that their callers share: whether others get their turn within the bound, and whether a place is
//! taken over whose last owner may still write under it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use leasehold::{
    hub::Hold,
    store::{Key, KeyValue},
    terms::Sharing,
};

use crate::{
    SEC,
    rules::{Rule, Verdict},
};

/// Longer than it takes, where nothing goes wrong, until a client knows who else stands in a queue, and has given up a place.
const KNOWN_AFTER: u64 = 2 * SEC;

/// A key, and the revision at which it was created.
type Stood = (Key, i64);

/// Since when each key stands, and what became of the places of ours.
#[derive(Clone, Debug, Default)]
pub struct Stays {
    /// When each key was first seen.
    stood: BTreeMap<Stood, u64>,
    /// When each place was won.
    won: BTreeMap<Stood, u64>,
    /// Places under which somebody may still write.
    unsettled: BTreeSet<Stood>,
}

impl Stays {
    /// The keys that stand now.
    pub fn on_written(&mut self, now: u64, queue: &[KeyValue]) {
        for kv in queue {
            self.stood.entry((kv.key.clone(), kv.create_revision)).or_insert(now);
        }
    }

    /// Somebody may still write under the place of this hold.
    pub fn on_unsettled(&mut self, hold: &Hold) {
        self.unsettled.insert((hold.keys[0].clone(), hold.token));
    }

    /// A place is won or taken over. Where nothing goes wrong, `others` are the keys of others in its queue.
    pub fn on_acquired(&mut self, now: u64, hold: &Hold, sharing: Sharing, others: Option<&[KeyValue]>) -> Verdict {
        let place = (hold.keys[0].clone(), hold.token);
        let won = *self.won.entry(place).or_insert(now);
        if hold.sequence == 0 {
            return Ok(());
        }
        self.on_kept(hold)?;
        let is_within = sharing.local_first.is_some_and(|bound| {
            hold.sequence < u64::from(bound.turns) && now <= won + nanos(bound.time) + nanos(bound.time) / 50
        });
        match self.longest(now, now, others) {
            Some((key, waited)) if !is_within => Err(Rule::Overstayed.broken(format!(
                "{:?} is taken over for the {}th time, {} ms after it was won, although {key:?} waits since {} ms",
                hold.keys[0],
                hold.sequence,
                (now - won) / 1_000_000,
                waited / 1_000_000
            ))),
            _ => Ok(()),
        }
    }

    /// A place is kept for whoever comes next.
    pub fn on_kept(&self, hold: &Hold) -> Verdict {
        if self.unsettled.contains(&(hold.keys[0].clone(), hold.token)) {
            let how = format!("{:?} goes on although somebody may still write under it", hold.keys[0]);
            return Err(Rule::LateWrite.broken(how));
        }
        Ok(())
    }

    /// A place that nobody has held since then is given up. `others` as for [`Stays::on_acquired`].
    pub fn on_given_up(&self, now: u64, free_since: u64, key: &Key, others: Option<&[KeyValue]>) -> Verdict {
        match self.longest(now, free_since, others) {
            Some((other, waited)) => Err(Rule::Overstayed.broken(format!(
                "{key:?} was kept although nobody held it and {other:?} waited for {} ms",
                waited / 1_000_000
            ))),
            None => Ok(()),
        }
    }

    /// Who of these has waited for longest in vain since `free_since` at most, if it is too long.
    fn longest<'a>(&self, now: u64, free_since: u64, others: Option<&'a [KeyValue]>) -> Option<(&'a Key, u64)> {
        let waited = |kv: &'a KeyValue| {
            let stood = *self.stood.get(&(kv.key.clone(), kv.create_revision))?;
            let since = if free_since < now { stood.max(free_since) } else { stood };
            Some((&kv.key, now - since))
        };
        others?.iter().filter_map(waited).filter(|(_, waited)| *waited > KNOWN_AFTER).max_by_key(|(_, waited)| *waited)
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
