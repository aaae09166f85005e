//! The runner itself, with drivers that do something wrong and lock clients that are not ours: does it notice?

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use leasehold_conformance::{
    actor::{Actor, Wanted},
    history::{Fault, History},
    message,
    play::{Cast, Outcome, play},
    scenario::{Kind, Scenario},
};
use leasehold_etcd::Version;
use serde_json::json;

/// Longer than a driver needs for anything, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Plays `text`, all of whose drivers are fake.
async fn outcome(text: &str) -> Outcome {
    let scenario = Scenario::parse(text).unwrap();
    let run: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake-driver");
    let drivers = scenario.actors.iter().filter(|(_, spec)| matches!(spec.kind, Kind::Driver(_)));
    let cast: Cast = drivers.map(|(name, _)| (name.clone(), ("fake".to_owned(), run.clone()))).collect();
    play(&scenario, &cast, Version::Any).await
}

#[track_caller]
fn assert_finds(outcome: &Outcome, rule: &str) {
    let found = outcome.findings.iter().any(|finding| finding.contains(rule));
    assert!(found, "{rule:?} is not among {:#?}\n{}", outcome.findings, outcome.history.trace(30));
}

#[track_caller]
fn assert_clean(outcome: &Outcome) {
    assert!(outcome.findings.is_empty(), "{:#?}\n{}", outcome.findings, outcome.history.trace(30));
}

#[tokio::test]
async fn two_winners_are_found() {
    let steps = "
      - open: {actor: a}
      - open: {actor: b}
      - acquire: {actor: a, lock: /granted}
      - acquire: {actor: b, lock: /granted}";
    let outcome = outcome(&format!("about: x\nactors: {{a: any, b: any}}\nsteps:{steps}")).await;
    assert_finds(&outcome, "exclusion: b's h got \"/granted\"");
    assert_finds(&outcome, "order: \"/granted\"");
}

#[tokio::test]
async fn a_waiter_without_an_answer_is_found() {
    let outcome =
        outcome("about: x\nactors: {a: any}\nsteps: [{open: {ttl_ms: 2000}}, {acquire: {lock: /silent}, as: w}]").await;
    assert_finds(&outcome, "liveness: a's acquire #3 of /silent has no answer");
}

#[tokio::test]
async fn lines_that_are_no_messages_and_bugs_are_found() {
    let steps = "[{open: {}}, {acquire: {lock: /wordy}}, {acquire: {lock: /buggy}, expect: {code: INTERNAL}}]";
    let outcome = outcome(&format!("about: x\nactors: {{a: any}}\nsteps: {steps}")).await;
    assert_finds(&outcome, "wrote a line that is no message: hello");
    assert_finds(&outcome, "answered #4 INTERNAL");
}

#[tokio::test]
async fn a_key_and_a_lease_that_stay_are_found() {
    let outcome = outcome("about: x\nactors: {a: any}\nsteps: [{open: {}}, {acquire: {lock: /left}}]").await;
    assert_finds(&outcome, "leftovers: the key /left/stray of lease none");
    assert_finds(&outcome, "leftovers: the lease ");
}

#[tokio::test]
async fn what_a_step_expects_is_compared() {
    for (step, difference) in [
        ("acquire: {lock: /granted}, expect: {token: {gt: 7}}", "7 is not gt 7"),
        ("acquire: {lock: /granted}, expect: {code: LOST}", "code: null instead of \"LOST\""),
        ("acquire: {lock: /silent}, expect: {within_ms: 100}", "nothing within 100 ms"),
        ("acquire: {lock: /buggy}", "ok: false instead of true"),
        ("keys: {prefix: /}, expect: {count: 1, within_ms: 50}", "count: 0 instead of 1"),
        ("get: {key: /x}, expect: {exists: true, within_ms: 0}", "exists: false instead of true"),
        ("lost: {}, expect: {within_ms: 50}", "nobody asked a for lost event of h"),
        ("not_lost: {}", "nobody asked a for lost event of h"),
        ("no_state: {}", "nobody asked a for state event of c"),
        ("await: nobody", "nobody started nobody"),
        ("check: {actor: nobody}", "there is no actor nobody"),
        ("repeat: 0, do: [{ping: {}}]", "a loop of no rounds"),
        ("for: {i: {from: 2, to: 1}}, do: [{ping: {}}]", "a loop of no rounds"),
        ("counter: {key: /k, lock: /l, rounds: 0, tasks: [{actor: a, add: 1}]}", "shows nothing"),
        ("counter: {key: /k, lock: /l, rounds: 1, tasks: []}", "shows nothing"),
        ("ping: {}, save: {x: reason}", "there is no reason to save"),
    ] {
        let steps = format!("[{{open: {{ttl_ms: 2000}}}}, {{{step}}}]");
        let outcome = outcome(&format!("about: x\nactors: {{a: any}}\nsteps: {steps}")).await;
        assert_finds(&outcome, difference);
        assert_finds(&outcome, "step 2");
    }
}

#[tokio::test]
async fn an_answer_or_a_loss_that_must_not_come_is_found() {
    let acquire = "{acquire: {lock: /granted}, as: w}";
    let pending =
        outcome(&format!("about: x\nactors: {{a: any}}\nsteps: [{{open: {{}}}}, {acquire}, {{pending: w}}]")).await;
    assert_finds(&pending, "w was answered");
    let loss = "[{open: {}}, {acquire: {lock: /granted}}, {on_lost: {}}, {not_lost: {}}]";
    let lost = outcome(&format!("about: x\nactors: {{a: any}}\nsteps: {loss}")).await;
    assert_finds(&lost, "there was a lost event of h");
    let dead = "[{open: {}}, {acquire: {lock: /silent}, as: w}, {kill: a}, {pending: w}]";
    let died = outcome(&format!("about: x\nactors: {{a: any}}\nsteps: {dead}")).await;
    assert_finds(&died, "it has ended");
}

/// Plays `steps` with one actor, after it has acquired `lock` and asked to be told of its loss.
async fn after_on_lost(lock: &str, steps: &str) -> Outcome {
    let head = format!("[{{open: {{}}}}, {{acquire: {{lock: {lock}}}}}, {{on_lost: {{}}}}, ");
    outcome(&format!("about: x\nactors: {{a: any}}\nsteps: {head}{steps}]")).await
}

/// A driver that was asked to tell of the loss of `lock`.
async fn asked_on_lost(lock: &str) -> anyhow::Result<Actor> {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake-driver");
    let actor = Actor::driver("a", "fake", &run, History::default())?;
    for request in [json!({"op": "acquire", "lock": lock, "hold": "h"}), json!({"op": "on_lost", "hold": "h"})] {
        actor.reply(&actor.send(message(request)), LIMIT).await?;
    }
    Ok(actor)
}

/// What a runner makes of the silence of such a driver.
async fn silence(lock: &str, fault: Option<Fault>) -> anyhow::Result<()> {
    let actor = asked_on_lost(lock).await?;
    fault.map(|fault| actor.fault(fault)).transpose()?;
    actor.no_event(&Wanted { kind: "lost", name: "h" }, Duration::from_millis(50)).await
}

#[tokio::test]
async fn silence_is_believed_only_of_who_lives() {
    let (quiet, gone, deaf, frozen) = tokio::join!(
        silence("/quiet", None),
        silence("/gone", None),
        silence("/deaf", None),
        silence("/quiet", Some(Fault::Frozen))
    );
    quiet.unwrap();
    for silence in [gone, deaf, frozen] {
        assert!(silence.unwrap_err().to_string().contains("its silence says nothing"));
    }
    let not_lost = after_on_lost("/gone", "{not_lost: {}}").await;
    assert_finds(&not_lost, "its silence says nothing");
    let pending = after_on_lost("/gone", "{acquire: {lock: /silent, hold: w}, as: w}, {pending: w}").await;
    assert_finds(&pending, "its silence says nothing");
}

#[tokio::test]
async fn every_event_is_told_once_and_belongs_to_its_hold() {
    assert_clean(&after_on_lost("/granted", "{lost: {}}").await);
    let twice = after_on_lost("/twice", "{lost: {}}").await;
    assert_finds(&twice, "the loss was told twice");
    assert_finds(&twice, "more often than it was asked for");
    assert_finds(
        &after_on_lost("/granted", "{lost: {}}, {lost: {}, expect: {within_ms: 50}}").await,
        "told of no lost event",
    );
    // The name is another hold's by then; the answer to the ping comes after what was told of the first one.
    let again = "{ping: {}}, {acquire: {lock: /quiet}}, {on_lost: {}}, {lost: {}, expect: {within_ms: 50}}";
    assert_finds(&after_on_lost("/granted", again).await, "told of no lost event of h");
}

#[tokio::test]
async fn a_driver_of_another_language_is_found() {
    let scenario = Scenario::parse("about: x\nactors: {a: any}\nsteps: [{ping: {}}]").unwrap();
    let run: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake-driver");
    let cast = Cast::from([("a".to_owned(), ("java-sync".to_owned(), run))]);
    assert_finds(&play(&scenario, &cast, Version::Any).await, "says that it is one of \"fake\", not of java");
}

#[tokio::test]
async fn states_are_told_in_their_order() {
    let head = "about: x\nactors: {a: any}\nsteps: [{open: {}}, {on_state: {}}, ";
    let told = "{state: {}, expect: {state: SUSPECT}}, {state: {}, expect: {state: OK}}, {no_state: {}}]";
    assert_clean(&outcome(&format!("{head}{told}")).await);
    assert_finds(&outcome(&format!("{head}{{no_state: {{}}}}]")).await, "there was a state event of c");
    let other = "{state: {}, expect: {state: LOST}}]";
    assert_finds(&outcome(&format!("{head}{other}")).await, "\"SUSPECT\" instead of \"LOST\"");
}

#[tokio::test]
async fn drivers_that_end_by_themselves_or_badly_and_those_without_a_part_are_found() {
    assert_finds(&after_on_lost("/gone", "{lost: {}}").await, "end: a (fake) ended by itself");
    let gone = asked_on_lost("/gone").await.unwrap();
    gone.ended(LIMIT).await.unwrap();
    let error = gone.fault(Fault::Killed).expect_err("there is nothing to kill");
    assert_eq!(error.to_string(), "a (fake) has ended before");
    let end = "{close: {}}, {release: {}}, {end_input: a}";
    assert_finds(&after_on_lost("/sour", end).await, "a (fake) ended with exit status: 3");
    assert_finds(&after_on_lost("/sour", "{ping: {}}").await, "end: a (fake) ended with exit status: 3");
    let idle = outcome("about: x\nactors: {a: any, b: any}\nsteps: [{ping: {actor: a}}]").await;
    assert_finds(&idle, "end: b took no part");
}

#[tokio::test]
async fn a_promise_that_another_client_breaks_must_be_seen_broken() {
    let scenario = |finds: &str, wait: &str| {
        let steps = format!("[{{acquire: {{actor: r, lock: /l}}}}, {{acquire: {{actor: {wait}, lock: /l}}, as: w}}]");
        let actors = "{r: {foreign: route1}, s: {foreign: service}}";
        format!("about: x\nfinds: [\"{finds}\"]\nactors: {actors}\nsteps: {steps}")
    };
    assert_finds(
        &outcome(&scenario("exclusion: s's h", "s")).await,
        "not found, though it should have been: exclusion",
    );
}

#[tokio::test]
async fn steps_that_do_not_end_are_ended() {
    let outcome = outcome("about: x\nactors: {a: any}\nlimit_s: 1\nsteps: [{open: {}}, {elapse: 60000}]").await;
    assert_finds(&outcome, "its steps were not done after 1 s");
}

#[tokio::test]
async fn processes_are_frozen_and_killed_and_end_with_their_input() {
    let steps = "
      - open: {actor: a}
      - freeze: a
      - ping: {actor: a}
        as: w
      - pending: w
      - thaw: a
      - await: w
      - kill: a
      - open: {actor: b}
      - end_input: b";
    assert_clean(&outcome(&format!("about: x\nactors: {{a: any, b: any}}\nsteps:{steps}")).await);
}

#[tokio::test]
async fn foreign_clients_share_one_queue_and_die_by_their_ttl() {
    let steps = "
      - acquire: {actor: r, lock: /l}
        save: {t: token}
      - acquire: {actor: e, lock: /l}
        as: e
      - keys: {prefix: /l/}
        expect: {count: 2}
      - acquire: {actor: s, lock: /l}
        as: s
      - keys: {prefix: /l/}
        expect: {count: 3}
      - pending: e
      - release: {actor: r}
      - await: e
        expect: {token: {gt: \"${t}\"}}
      - pending: s
      - release: {actor: e}
      - await: s
      - kill: s
      - keys: {prefix: /l/}
        expect: {count: 0, within_ms: 7000}";
    let actors = "{r: {foreign: route1}, s: {foreign: route1}, e: {foreign: etcdctl}}";
    assert_clean(&outcome(&format!("about: x\nactors: {actors}\nsteps:{steps}")).await);
}
