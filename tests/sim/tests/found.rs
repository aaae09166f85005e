//! Bugs that the simulation found once in many thousand seeds, played by hand: each trace stands in its test.

mod stage;

use std::time::Duration;

use leasehold::{
    Claim, Code, LostReason,
    hub::{Acquire, Action, Input, Want},
    queue::wire,
    store::{ErrorKind, Key, Reply, Request, StoreError, WatchId, WatchReply},
    terms::{Mode, Sharing, Ticket},
};

use self::stage::Stage;

/// The first enqueue of K is held up and given up. Its retry puts K, the lock is held and released, the reply to the delete is lost.
/// Then the first enqueue takes effect: K stands again. The cleaner's delete is guarded by the first revision and finds nothing.
/// Rule: once the delete of a key is confirmed whose enqueue was ambiguous, the key is deleted by name.
#[test]
fn the_ghost_of_a_released_key_is_deleted() {
    let mut stage = Stage::new();
    stage.acquire(1, Mode::Wait, 15, true);
    stage.serve();
    let (rpc, held_up) = stage.only_call();
    stage.time_out(rpc);
    stage.wake();
    stage.settle();
    assert!(stage.token(1).is_some(), "the retry wins: {:?}", stage.told);
    stage.feed(Input::Release(Ticket(1)));
    let (rpc, delete) = stage.only_call();
    stage.apply(&delete).expect("the delete");
    stage.time_out(rpc);
    stage.apply(&held_up).expect("the first enqueue");
    assert_eq!(stage.keys().len(), 1, "the ghost stands");
    stage.settle();
    assert_eq!(stage.keys(), [], "the ghost is gone");
}

/// A copy of an enqueue takes effect after its key K was deleted. The number of K is free again: the next try is given K and finds it
/// standing. Rule: what no earlier attempt of one's own can have written is not one's own.
#[test]
fn a_key_that_stands_already_is_not_taken_for_ones_own() {
    let mut stage = Stage::new();
    stage.acquire(1, Mode::Wait, 15, true);
    stage.serve();
    let enqueue = stage.serve();
    stage.feed(Input::Release(Ticket(1)));
    stage.settle();
    let copy = stage.apply(&enqueue).expect("the copy");
    assert_eq!(stage.keys().len(), 1, "the ghost stands");
    stage.acquire(2, Mode::Try, 15, true);
    stage.settle();
    // Whether the try wins depends on which is first, it or the delete of the ghost.
    assert!(stage.token(2).is_none_or(|token| token > copy.revision), "{:?}", stage.told);
    assert_eq!(stage.keys().len(), usize::from(stage.token(2).is_some()), "the ghost is gone");
}

/// A try is given the number of K, an earlier key, and fails; its reply is lost. A copy of the enqueue of K takes effect now, behind
/// the foreign contender that the try lost to. The second attempt of the try finds K standing, takes it for written by the first,
/// and a try writes only where nobody stands: it held, and so did the foreign contender. Rule: a key that was found standing is the
/// head only where the reply shows that nobody is ahead of it.
#[test]
fn a_try_does_not_hold_by_a_key_that_it_found_behind_another() {
    for crowd in [1, 20] {
        let mut stage = Stage::new();
        stage.acquire(1, Mode::Wait, 15, true);
        stage.serve();
        let enqueue = stage.serve();
        stage.feed(Input::Release(Ticket(1)));
        stage.settle();
        for n in 0..crowd {
            // Of a crowd, the reply shows only some.
            stage.put(&if n == 0 { "/a/x".to_owned() } else { format!("/a/{n}") });
        }
        stage.acquire(2, Mode::Try, 15, true);
        let (rpc, attempt) = stage.only_call();
        stage.apply(&attempt).expect("the try");
        stage.apply(&enqueue).expect("the copy");
        stage.time_out(rpc);
        while stage.calls.is_empty() {
            stage.wake();
        }
        stage.settle();
        stage.see_created();
        stage.settle();
        assert_eq!(stage.token(2), None, "{:?}", stage.told);
        let failed =
            |action: &Action| matches!(action, Action::Failed(Ticket(2), error) if error.code() == Code::NotAcquired);
        assert!(stage.told.iter().any(failed), "{:?}", stage.told);
        assert_eq!(stage.keys().len(), crowd, "only the foreign contenders stand");
    }
}

/// A hold without renewal is released just before its end. The session reaches its limit and revokes its lease, the revoke overtakes
/// the delete. Rule: whoever releases while the session is valid has released.
#[test]
fn a_release_just_before_the_end_is_a_release() {
    let mut stage = Stage::new();
    stage.acquire(1, Mode::Wait, 2, false);
    stage.settle();
    assert!(stage.token(1).is_some());
    stage.now = stage.now + Duration::from_millis(1_890);
    stage.feed(Input::Release(Ticket(1)));
    let (delete_rpc, delete) = stage.only_call();
    stage.now = stage.now + Duration::from_millis(20);
    stage.feed(Input::Wake);
    stage.settle();
    let deleted = stage.apply(&delete);
    stage.feed(Input::Reply(delete_rpc, deleted));
    let released: Vec<_> = stage.told.iter().filter(|action| matches!(action, Action::Released(..))).collect();
    assert!(matches!(released[..], [Action::Released(Ticket(1), Ok(()))]), "{released:?}");
}

/// Somebody waited, so the queue is watched for a while longer, and a re-check is sent. Another acquire wins at once. Before the answer
/// to the re-check is here, the watch has lingered long enough and is closed, and with it the order is forgotten. The answer lists the
/// key of the hold. Rule: only a read that the order took in says anything about our keys.
#[test]
fn a_read_that_comes_back_to_no_view_voids_nothing() {
    let mut stage = Stage::new();
    let foreign = Key::from("/a/f");
    stage.put("/a/f");
    stage.acquire(1, Mode::Wait, 60, true);
    stage.settle();
    let id = stage.see_created().expect("the queue is watched");
    stage.settle();
    stage.kv.take_changes();
    stage.apply(&wire::delete_unseen(&foreign)).expect("the foreign contender leaves");
    let events = stage.kv.take_changes();
    stage.feed(Input::Watch(WatchReply::Events { id, events }));
    assert!(stage.token(1).is_some(), "{:?}", stage.told);
    stage.feed(Input::Release(Ticket(1)));
    stage.settle();
    let events = stage.kv.take_changes();
    stage.feed(Input::Watch(WatchReply::Events { id, events }));
    while stage.calls.is_empty() {
        stage.wake();
    }
    let (rpc, read) = stage.only_call();
    assert!(matches!(read, Request::Range(_)), "a re-check: {read:?}");
    while !stage.closes_at_next_wake(id) {
        stage.wake();
    }
    stage.acquire(2, Mode::Wait, 60, true);
    stage.settle();
    assert!(stage.token(2).is_some(), "{:?}", stage.told);
    let answer = stage.apply(&read);
    stage.wake();
    assert!(stage.told.contains(&Action::Unwatch(id)), "{:?}", stage.told);
    stage.feed(Input::Reply(rpc, answer));
    assert!(!stage.told.contains(&Action::Voided(Ticket(2))), "{:?}", stage.told);
}

/// Somebody holds, and nobody waits, so that nothing is re-read. The stream of the watch on its key is silent: from the start, or from
/// then on. An administrator deletes the key. The lease lives on, renewal after renewal, and with it the hold, for ever. Rule: the
/// sweep that lists the keys of the lease once a minute makes a hold doubtful whose key is not among them, and a doubtful hold reads.
#[test]
fn a_hold_without_a_key_is_lost_even_if_its_watch_is_silent() {
    for was_created in [false, true] {
        let mut stage = Stage::new();
        stage.acquire(1, Mode::Wait, 15, true);
        stage.settle();
        let key = stage.keys().remove(0);
        while !stage.told.iter().any(|action| matches!(action, Action::Watch(..))) {
            stage.pass_on();
        }
        if was_created {
            stage.see_created();
            stage.settle();
        }
        stage.apply(&wire::delete_unseen(&key)).expect("an administrator deletes it");
        let limit = stage.now + Duration::from_secs(70);
        while !stage.told.iter().any(|action| matches!(action, Action::Lost(Ticket(1), LostReason::KeyDeleted))) {
            assert!(stage.now < limit, "created: {was_created}, {:?}", stage.told);
            stage.pass_on();
        }
    }
}

/// Of a crowd a client watches only the contender ahead of it, so nobody told it who stands behind. A place that lingers was kept up to
/// its bound in time while dozens waited.
/// Rule: in a crowd, there are others.
#[test]
fn a_place_does_not_linger_in_a_crowd() {
    let mut stage = Stage::new();
    stage.put("/a/first");
    let sharing = Sharing { local_first: None, linger: Duration::from_secs(600) };
    let acquire = Acquire {
        wants: vec![Want { name: "/a".into(), claim: Claim::Exclusive }],
        mode: Mode::Wait,
        ttl: Duration::from_secs(15),
        renew: true,
        requeue: true,
        wait: None,
        sharing,
        value: (*b"").into(),
        is_candidate: false,
    };
    stage.feed(Input::Acquire(Ticket(1), acquire));
    stage.settle();
    let all = stage.see_created().expect("it watches the queue");
    stage.settle();
    stage.kv.take_changes();
    (0..30).for_each(|number| stage.put(&format!("/a/stranger{number}")));
    let events = stage.kv.take_changes();
    stage.told.clear();
    stage.feed(Input::Watch(WatchReply::Events { id: all, events }));
    let ahead = stage.see_created().expect("it watches the one ahead");
    assert!(stage.told.contains(&Action::Unwatch(all)), "and nobody else");
    stage.settle();
    stage.apply(&wire::delete_unseen(&Key::from("/a/first"))).expect("it leaves");
    let events = stage.kv.take_changes();
    stage.feed(Input::Watch(WatchReply::Events { id: ahead, events }));
    stage.settle();
    assert!(stage.token(1).is_some(), "it has its turn: {:?}", stage.told);
    stage.feed(Input::Release(Ticket(1)));
    stage.settle();
    assert!(!stage.told.iter().any(|action| matches!(action, Action::Lend(..))), "nothing is lent");
    assert_eq!(stage.keys().len(), 30, "its place is given up");
}

/// A read was asked for and waited its turn when etcd turned out to be restored. It went out afterwards, as a question of the new
/// history, before the new watch stood. Its answer came after that: it passed for the answer to the read that closes the gap, and
/// knew nothing of who had joined in between. Rule: what was asked for a view that starts anew is not asked any more.
#[test]
fn a_read_of_before_a_restore_does_not_close_a_gap_after_it() {
    let mut stage = Stage::with_window(1);
    let backup = stage.kv.clone();
    stage.put("/a/x");
    stage.acquire(1, Mode::Wait, 15, true);
    stage.settle();
    let watch = stage.see_created().expect("a watch");
    stage.settle();
    let error = StoreError::refused(ErrorKind::Unavailable, "the watch stream ended");
    stage.feed(Input::Watch(WatchReply::Cancelled { id: watch, error }));
    while stage.calls.is_empty() || stage.last_watch() == Some(watch) {
        stage.wake();
    }
    let again = stage.last_watch().expect("another watch");
    stage.feed(Input::Watch(WatchReply::Created { id: again, revision: stage.kv.revision() }));
    assert_eq!(stage.calls.len(), 1, "the doubt is asked, and the read waits: {:?}", stage.calls);
    stage.kv = backup;
    let mut rival = None;
    // The new lease is granted before the old one is revoked: until then, the enqueue waits its turn behind the read.
    while let Some((rpc, request)) = stage.calls.pop_back() {
        let reply = stage.apply(&request);
        let is_of_keys = stage.last_watch() != Some(again) && matches!(request, Request::Range(_) | Request::Txn(_));
        if is_of_keys && rival.is_none() {
            stage.put("/a/y");
            rival = Some(stage.kv.revision());
            stage.kv.take_changes();
            let id = stage.last_watch().expect("a watch of the new history");
            stage.feed(Input::Watch(WatchReply::Created { id, revision: stage.kv.revision() }));
        } else if rival.is_some() {
            let (id, events) = (stage.last_watch().expect("that watch"), stage.kv.take_changes());
            stage.feed(Input::Watch(WatchReply::Events { id, events }));
        }
        stage.feed(Input::Reply(rpc, reply));
    }
    let rival = rival.expect("somebody else joined");
    assert!(stage.told.iter().any(|action| matches!(action, Action::SessionOver(_))), "etcd went back in time");
    assert!(
        stage.token(1).is_none_or(|token| token < rival),
        "a contender stands ahead since {rival}: {:?}",
        stage.told
    );
}

/// Etcd is restored, and others write so much that no revision is lower than before. The backup brings back K, which was released, and
/// the number of K is free again: the next acquire is given K. Its first attempt is lost, the second finds K standing and took it for
/// the first one's work, with a token that was used before. Rule: what stood before one asked is not one's own.
#[test]
fn a_key_that_a_backup_brings_back_is_not_taken_for_ones_own() {
    let mut stage = Stage::new();
    stage.acquire(1, Mode::Wait, 15, true);
    stage.settle();
    let first = stage.token(1).expect("nobody else is there");
    let backup = stage.kv.clone();
    stage.feed(Input::Release(Ticket(1)));
    stage.settle();
    stage.kv = backup;
    for n in 0..5 {
        stage.put(&format!("/z/{n}"));
    }
    stage.acquire(2, Mode::Wait, 15, true);
    let (rpc, _) = stage.only_call();
    stage.time_out(rpc);
    stage.wake();
    stage.settle();
    assert!(stage.token(2).is_none_or(|token| token > first), "the token {first} comes again: {:?}", stage.told);
    assert!(stage.keys().len() <= 1, "what the backup brought back is gone: {:?}", stage.keys());
}

/// Two callers wait, and their requests are on their way together. Etcd writes the first one's key and is put back to a backup from
/// before; then it writes the second one's key, with the same create revision. Nothing tells of the restore: both answers are no older
/// than what was known when their requests were sent. The index of those who wait had one entry for both: the first one lost
/// it to the second, whose entry went when the first one's was taken away, and neither had its turn ever. Rule: a create revision does not tell places apart; the
/// next read shows which of the two keys stands.
#[test]
fn two_keys_of_one_revision_are_both_waited_with() {
    for is_first_answered_first in [true, false] {
        let mut stage = Stage::new();
        stage.put("/a/x");
        stage.acquire(1, Mode::Wait, 15, true);
        stage.settle();
        let backup = stage.kv.clone();
        stage.acquire(2, Mode::Wait, 15, true);
        let (first_rpc, first) = stage.only_call();
        stage.acquire(3, Mode::Wait, 15, true);
        let (second_rpc, second) = stage.only_call();
        let first = stage.apply(&first);
        stage.kv = backup;
        let second = stage.apply(&second);
        let revision = |reply: &Result<Reply, StoreError>| reply.as_ref().expect("an enqueue").revision;
        assert_eq!(revision(&first), revision(&second));
        let mut answers = [(first_rpc, first), (second_rpc, second)];
        if !is_first_answered_first {
            answers.reverse();
        }
        for (rpc, answer) in answers {
            stage.feed(Input::Reply(rpc, answer));
        }
        stage.apply(&wire::delete_unseen(&Key::from("/a/x"))).expect("the foreign contender leaves");
        let limit = stage.now + Duration::from_secs(300);
        let mut waiting = vec![1, 2, 3];
        while !waiting.is_empty() {
            assert!(stage.now < limit, "wait for ever: {waiting:?}, {:?}", stage.keys());
            stage.pass_on();
            // Every watch stands, and is silent.
            for action in stage.told.extract_if(.., |action| matches!(action, Action::Watch(..))).collect::<Vec<_>>() {
                let Action::Watch(id, _) = action else { continue };
                let revision = stage.kv.revision();
                stage.feed(Input::Watch(WatchReply::Created { id, revision }));
            }
            for ticket in waiting.extract_if(.., |ticket| stage.token(*ticket).is_some()).collect::<Vec<_>>() {
                stage.feed(Input::Release(Ticket(ticket)));
            }
        }
    }
}

/// What becomes of the watches of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// They are accepted, and nothing ever comes on their stream.
    Silent,
    /// They end at once, as behind a proxy that lets no stream through.
    Refused,
    /// They stand, and their stream ends before a read that was sent then is answered.
    Short,
    /// The first stands and tells nothing, and the others are silent.
    Deaf,
    /// They stand and tell everything.
    Sound,
}

/// Plays `fate` to every watch that was asked for, a first one excepted, which stands. Answers what was asked, and returns how much.
fn live_through(stage: &mut Stage, fate: Fate, is_first: &mut bool) -> u32 {
    let asked: Vec<_> = stage.told.extract_if(.., |action| matches!(action, Action::Watch(..))).collect();
    for action in asked {
        let Action::Watch(id, _) = action else { continue };
        let is_first = std::mem::take(is_first);
        if is_first || matches!(fate, Fate::Short | Fate::Sound) {
            let revision = stage.kv.revision();
            stage.feed(Input::Watch(WatchReply::Created { id, revision }));
        }
        if !is_first && matches!(fate, Fate::Refused | Fate::Short) {
            end(stage, id);
        }
    }
    let mut asked = 0;
    while let Some((rpc, request)) = stage.calls.pop_front() {
        asked += 1;
        let answer = stage.apply(&request);
        stage.feed(Input::Reply(rpc, answer));
    }
    asked
}

fn end(stage: &mut Stage, id: WatchId) {
    let error = StoreError::refused(ErrorKind::Unavailable, "the watch stream ended");
    stage.feed(Input::Watch(WatchReply::Cancelled { id, error }));
}

/// An observer's watches are accepted, and nothing ever comes on them, or they end again and again. With each, its timer began anew, and
/// waited up to 30 s; all that it asked then was whether etcd answers. For as long as that went on it showed an old leader, or none and
/// failed.
/// Rule: an observer looks every few seconds whatever becomes of its watches, and tells what it finds. That costs little more than a
/// watch that stands.
#[test]
fn an_observer_sees_who_leads_whatever_becomes_of_its_watches() {
    let fates = [Fate::Silent, Fate::Refused, Fate::Short, Fate::Deaf, Fate::Sound];
    for (fate, first_stands) in fates.into_iter().flat_map(|fate| [(fate, true), (fate, false)]) {
        let (mut stage, mut first) = (Stage::new(), first_stands);
        stage.feed(Input::Observe(Ticket(1), "/a".into()));
        live_through(&mut stage, fate, &mut first);
        if first_stands && matches!(fate, Fate::Silent | Fate::Refused | Fate::Short) {
            end(&mut stage, WatchId(1));
        }
        let mut leads = None;
        for turn in 0..20 {
            let key = Key::from(format!("/a/{turn}").as_str());
            if let Some(before) = leads.replace(key.clone()) {
                stage.apply(&wire::delete_unseen(&before)).expect("the leader leaves");
            }
            stage.put(&format!("/a/{turn}"));
            let events = stage.kv.take_changes();
            if fate == Fate::Sound {
                stage.feed(Input::Watch(WatchReply::Events { id: WatchId(1), events }));
            }
            let (since, mut requests) = (stage.now, 0);
            while seen(&stage) != leads {
                stage.wake();
                requests += live_through(&mut stage, fate, &mut first);
                let late = stage.now.since(since);
                assert!(late < Duration::from_secs(12), "{fate:?}: {key} leads for {late:?}, {:?}", stage.told);
            }
            let until = since + Duration::from_secs(60 + 7 * turn);
            while stage.hub.wake().is_some_and(|at| at < until) {
                stage.wake();
                requests += live_through(&mut stage, fate, &mut first);
            }
            // Each watch that stands is followed by a read, and none is opened sooner than a second after the one before.
            let most = if fate == Fate::Short { 1 } else { 3 };
            let most = until.since(since).as_secs() / most + 5;
            assert!(u64::from(requests) <= most, "{fate:?}: {requests} requests in {:?}", until.since(since));
            stage.now = until;
        }
    }
}

/// Who leads, as far as the observer was told.
fn seen(stage: &Stage) -> Option<Key> {
    let sights = stage.told.iter().rev().filter_map(|action| match action {
        Action::Observed(_, sight) => Some(sight),
        _ => None,
    });
    sights.map(|sight| sight.leader.as_ref().map(|said| said.key.clone())).next().flatten()
}
