//! What the simulation and the search promise about themselves; what they say about the core is played by `make sim`,
//! `make search` and `make teeth`, in a build that is fast enough for it.

use std::{collections::BTreeSet, sync::Arc};

use leasehold::{
    Claim,
    hub::{Hold, Want},
    queue::wire::Prefix,
    store::{Key, KeyValue, LeaseId},
    terms::{SessionId, Ticket},
};
use leasehold_sim::{
    SEC,
    check::{Judge, Owner},
    play,
    rules::Rule,
    search::{scenarios, search},
};

#[test]
fn a_seed_replays_to_the_same_trace() {
    for seed in 0..8 {
        let (first, second) = (play(seed, true), play(seed, true));
        assert_eq!(first.fingerprint, second.fingerprint, "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.violation, None, "seed {seed}");
        assert_eq!(
            first.fingerprint,
            play(seed, false).fingerprint,
            "a trace must not change what happens in seed {seed}"
        );
    }
}

#[test]
fn seeds_differ_and_do_something() {
    let outcomes: Vec<_> = (0..20).map(|seed| play(seed, false)).collect();
    let fingerprints: BTreeSet<_> = outcomes.iter().map(|outcome| outcome.fingerprint).collect();
    assert_eq!(fingerprints.len(), outcomes.len());
    let (mut wins, mut faults) = (0, 0);
    for outcome in &outcomes {
        wins += outcome.counts.wins;
        faults += outcome.counts.faults;
    }
    assert!(wins > 50 && faults > 20, "{wins} wins and {faults} faults in 20 seeds");
}

#[test]
fn a_small_cluster_is_searched_to_the_end() {
    let all = scenarios();
    let cold = all.iter().find(|scenario| scenario.name == "cold start").expect("a scenario of this name");
    let found = search(cold, 100_000);
    assert_eq!(found.violation, None);
    assert!(found.is_complete && found.states > 100 && found.finished > 0, "{found:?}");
}

fn standing(key: &str, revision: i64) -> KeyValue {
    KeyValue {
        key: Key::from(key),
        value: Arc::default(),
        create_revision: revision,
        mod_revision: revision,
        lease: None,
    }
}

fn hold(token: i64) -> Hold {
    Hold { keys: Vec::new(), token, session: SessionId(1), lease: LeaseId(1), sequence: 0 }
}

#[test]
fn the_judge_sees_two_owners_and_an_overtaker_and_a_late_hand_off() {
    let name = Want { name: Arc::from("/a"), claim: Claim::Exclusive };
    let queue = [standing("/a/1-1", 5), standing("/a/2-1", 6)];
    let mut judge = Judge::default();
    judge.on_deadline(0, 0, SessionId(1), 5 * SEC).expect("a first deadline");
    judge.on_deadline(0, 1, SessionId(1), 5 * SEC).expect("a first deadline");
    let mut second = judge.clone();
    let overtaker = second.on_acquired(0, 1, Ticket(1), &name, (&Key::from("/a/2-1"), &hold(6)), &queue, |_| false);
    assert!(overtaker.is_err_and(|broken| broken.rule == Rule::Overtaken));
    judge
        .on_acquired(0, 0, Ticket(1), &name, (&Key::from("/a/1-1"), &hold(5)), &queue, |_| false)
        .expect("the first of the queue");
    let two = judge.on_acquired(SEC, 1, Ticket(1), &name, (&Key::from("/a/2-1"), &hold(6)), &queue, |_| true);
    assert!(two.is_err_and(|broken| broken.rule == Rule::TwoOwners));
    let late = judge.on_acquired(6 * SEC, 1, Ticket(1), &name, (&Key::from("/a/2-1"), &hold(6)), &queue, |_| true);
    assert!(late.is_err_and(|broken| broken.rule == Rule::HandedOverLate));
    let revived = judge.on_deadline(6 * SEC, 0, SessionId(1), 9 * SEC);
    assert!(revived.is_err_and(|broken| broken.rule == Rule::Revived));
    assert!(judge.on_end(Owner::Ours(0, Ticket(1))) && !judge.on_end(Owner::Ours(0, Ticket(1))));
}

/// What the judge says of a caller that is told that it holds while these stand ahead.
fn take(judge: &mut Judge, claim: Claim, ahead: &[&str], token: i64) -> Result<(), Rule> {
    let key = Prefix::new("", "/a").contender(LeaseId(1), 9, claim);
    let ahead = ahead.iter().map(|key| standing(key, 1));
    let queue: Vec<_> = ahead.chain([KeyValue { key: key.clone(), ..standing("", token) }]).collect();
    let want = Want { name: Arc::from("/a"), claim };
    let verdict = judge.on_acquired(0, 0, Ticket(token as u64), &want, (&key, &hold(token)), &queue, |_| false);
    verdict.map_err(|broken| broken.rule)
}

#[test]
fn the_judge_weighs_claims() {
    use Claim::{Exclusive, Shared};
    let permits = |permits| Claim::Permits { permits, limit: 3 };
    let mut judge = Judge::default();
    judge.on_deadline(0, 0, SessionId(1), 50 * SEC).expect("a first deadline");
    assert_eq!(take(&mut judge, Shared, &[], 5), Ok(()));
    assert_eq!(take(&mut judge, Shared, &["/a/1-1r"], 4), Ok(()), "readers are told in any order");
    assert_eq!(take(&mut judge, Shared, &["/a/1-1"], 6), Err(Rule::Overtaken));
    assert_eq!(take(&mut judge, Exclusive, &[], 6), Err(Rule::TwoOwners));
    assert_eq!(take(&mut judge, permits(1), &[], 6), Err(Rule::TwoOwners));
    assert!(judge.on_end(Owner::Ours(0, Ticket(5))) && judge.on_end(Owner::Ours(0, Ticket(4))));
    assert_eq!(take(&mut judge, permits(2), &[], 5), Err(Rule::TokenNotGrown), "a reader had this one");
    assert_eq!(take(&mut judge, permits(2), &[], 8), Ok(()));
    assert_eq!(take(&mut judge, permits(2), &[], 9), Err(Rule::TwoOwners));
    assert_eq!(take(&mut judge, permits(1), &["/a/1-1p2.3", "/a/1-2p2.3"], 9), Err(Rule::Overtaken), "one waits");
    assert_eq!(take(&mut judge, permits(1), &["/a/1-1p2.3"], 7), Ok(()), "they do not exclude each other");
}
