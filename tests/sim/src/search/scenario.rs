//! What is searched: who wants the lock, and what may go wrong.

use std::time::Duration;

use leasehold::{
    Claim,
    terms::{LocalFirst, Mode, Sharing},
};

/// How often each thing may go wrong on one way through the states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// A call breaks; its request takes effect before, later, or much later.
    pub resets: u8,
    /// A call breaks; its request is lost.
    pub losses: u8,
    /// A caller gives up.
    pub cancels: u8,
    /// An administrator deletes a key.
    pub deletions: u8,
    /// Time jumps to where the next lease ends, and it ends.
    pub expiries: u8,
    /// Time passes until the next timer of a client.
    pub ticks: u8,
    /// A watch stream breaks.
    pub breaks: u8,
    /// A client closes.
    pub closes: u8,
}

/// What one caller asks for.
#[derive(Clone, Debug)]
pub struct Job {
    /// Wait or try.
    pub mode: Mode,
    /// Which names, and what it claims of each.
    pub wants: Vec<(&'static str, Claim)>,
}

impl Job {
    fn of(mode: Mode, wants: &[(&'static str, Claim)]) -> Self {
        Self { mode, wants: wants.to_vec() }
    }
}

/// What is searched.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What the callers of each client ask for, in this order.
    pub tasks: [Vec<Job>; 2],
    /// How the callers of each client share places.
    pub sharing: [Sharing; 2],
    /// TTL of each client, in seconds.
    pub ttl: [u64; 2],
    /// Whether the clients have their leases already.
    pub is_warm: bool,
    /// Whether a foreign contender takes part.
    pub has_foreign: bool,
    /// What may go wrong.
    pub budget: Budget,
}

/// The scenarios of the project: two or three contenders of ours, a foreign one, and each fault alone and with another.
pub fn scenarios() -> Vec<Scenario> {
    use Mode::{Try, Wait};
    let none = Budget::default();
    let none_shared = Sharing::default();
    let bound = Some(LocalFirst { turns: 2, time: Duration::from_secs(1) });
    let turns = Sharing { local_first: bound, linger: Duration::ZERO };
    let lingers = Sharing { local_first: None, linger: Duration::from_secs(20) };
    let both = Sharing { local_first: bound, ..lingers };
    let mutex = |mode: &Mode| Job::of(*mode, &[("/a", Claim::Exclusive)]);
    let scenario = |name, tasks: [&[Mode]; 2], has_foreign, budget| Scenario {
        name,
        tasks: tasks.map(|modes| modes.iter().map(mutex).collect()),
        sharing: [Sharing::default(); 2],
        ttl: [60, 60],
        is_warm: true,
        has_foreign,
        budget,
    };
    vec![
        Scenario { is_warm: false, ..scenario("cold start", [&[Wait], &[Wait]], false, none) },
        scenario("two and one and a foreign one", [&[Wait, Wait], &[Wait]], true, none),
        scenario("a cancel", [&[Wait, Wait], &[Wait]], false, Budget { cancels: 1, ..none }),
        scenario("a cancel, a foreign one", [&[Wait], &[Wait]], true, Budget { cancels: 1, ..none }),
        scenario("a late request", [&[Wait], &[Wait]], false, Budget { resets: 1, ticks: 1, ..none }),
        scenario("a late request, a cancel", [&[Wait], &[]], true, Budget { resets: 1, cancels: 1, ticks: 1, ..none }),
        scenario("two late requests", [&[Wait], &[]], true, Budget { resets: 2, ticks: 2, ..none }),
        scenario("a lost request", [&[Wait], &[Wait]], true, Budget { losses: 1, ticks: 1, ..none }),
        scenario("a deleted key", [&[Wait], &[Wait]], true, Budget { deletions: 1, ..none }),
        scenario("a broken watch", [&[Wait, Wait], &[]], true, Budget { breaks: 1, ticks: 1, ..none }),
        Scenario { ttl: [2, 60], ..scenario("an expiry", [&[Wait], &[Wait]], true, Budget { expiries: 1, ..none }) },
        Scenario {
            ttl: [2, 60],
            ..scenario(
                "an expiry, a late request",
                [&[Wait], &[Wait]],
                false,
                Budget { expiries: 1, resets: 1, ..none },
            )
        },
        scenario("requests that share a transaction", [&[Wait, Wait, Wait], &[Wait]], false, none),
        scenario(
            "requests that share a transaction, a late one",
            [&[Wait, Wait, Wait], &[]],
            true,
            Budget { resets: 1, ticks: 1, ..none },
        ),
        scenario("tries", [&[Wait, Try], &[Try]], true, none),
        scenario("a close", [&[Wait, Wait], &[Wait]], false, Budget { closes: 1, ..none }),
        Scenario { sharing: [turns, none_shared], ..scenario("turns", [&[Wait, Wait, Wait], &[]], true, none) },
        Scenario { sharing: [turns, turns], ..scenario("turns of two", [&[Wait, Wait, Wait], &[Wait]], false, none) },
        Scenario {
            sharing: [turns, none_shared],
            ..scenario("turns, a cancel", [&[Wait, Wait], &[]], true, Budget { cancels: 1, ..none })
        },
        Scenario { sharing: [turns, none_shared], ..scenario("turns, a try", [&[Wait, Try, Wait], &[]], true, none) },
        Scenario {
            sharing: [turns, none_shared],
            ..scenario("turns, a late request", [&[Wait, Wait], &[]], true, Budget { resets: 1, ticks: 1, ..none })
        },
        Scenario {
            sharing: [turns, none_shared],
            ..scenario("turns, a deleted key", [&[Wait, Wait], &[]], true, Budget { deletions: 1, ..none })
        },
        Scenario {
            sharing: [turns, none_shared],
            ..scenario(
                "turns, a broken watch",
                [&[Wait, Wait, Wait], &[]],
                true,
                Budget { breaks: 1, ticks: 1, ..none },
            )
        },
        Scenario {
            sharing: [turns, none_shared],
            ttl: [2, 60],
            ..scenario("turns, an expiry", [&[Wait, Wait], &[]], true, Budget { expiries: 1, ..none })
        },
        Scenario {
            sharing: [turns, none_shared],
            ..scenario("turns, a close", [&[Wait, Wait], &[]], true, Budget { closes: 1, ..none })
        },
        Scenario {
            sharing: [lingers, none_shared],
            ..scenario("linger", [&[Wait, Try, Wait], &[]], true, Budget { ticks: 1, ..none })
        },
        Scenario {
            sharing: [lingers, none_shared],
            ..scenario("linger of one", [&[Wait, Wait], &[Wait]], false, Budget { ticks: 1, ..none })
        },
        Scenario {
            sharing: [lingers, none_shared],
            ttl: [2, 60],
            ..scenario("linger, an expiry", [&[Wait, Wait], &[]], true, Budget { expiries: 1, ..none })
        },
        Scenario {
            sharing: [both, none_shared],
            ..scenario("linger, a deleted key", [&[Wait, Wait, Wait], &[]], true, Budget { deletions: 1, ..none })
        },
        Scenario {
            sharing: [both, none_shared],
            ..scenario("turns and linger", [&[Wait, Wait, Wait], &[]], true, Budget { ticks: 1, ..none })
        },
        Scenario {
            sharing: [both, both],
            ..scenario("turns and linger, a close", [&[Wait, Wait], &[Wait]], false, Budget { closes: 1, ..none })
        },
    ]
    .into_iter()
    .chain(scenarios_of_kinds())
    .collect()
}

/// The same for claims that go beside others, and for several names at once.
fn scenarios_of_kinds() -> Vec<Scenario> {
    use Claim::{Exclusive, Shared};
    use Mode::{Try, Wait};
    let none = Budget::default();
    let permits = |permits| Claim::Permits { permits, limit: 3 };
    let a = |claim| Job::of(Wait, &[("/a", claim)]);
    let scenario = |name, tasks: [&[&Job]; 2], has_foreign, budget| Scenario {
        name,
        tasks: tasks.map(|jobs| jobs.iter().copied().cloned().collect()),
        sharing: [Sharing::default(); 2],
        ttl: [60, 60],
        is_warm: true,
        has_foreign,
        budget,
    };
    let (ab, ba) = (&[("/a", Exclusive), ("/b", Exclusive)], &[("/b", Exclusive), ("/a", Exclusive)]);
    let try_shared = Job::of(Try, &[("/a", Shared)]);
    let (one, two, three) = (a(permits(1)), a(permits(2)), a(permits(3)));
    let (reader, writer) = (a(Shared), a(Exclusive));
    let (both, turned) = (Job::of(Wait, ab), Job::of(Wait, ba));
    let mixed = Job::of(Wait, &[("/a", Shared), ("/b", Exclusive)]);
    vec![
        scenario("readers and a writer", [&[&reader, &writer], &[&reader]], false, Budget { cancels: 1, ..none }),
        scenario("readers and a foreign one", [&[&reader, &reader], &[&reader]], true, none),
        scenario(
            "readers and a late request",
            [&[&reader], &[&reader, &writer]],
            false,
            Budget { resets: 1, ticks: 1, ..none },
        ),
        scenario("readers that try", [&[&reader, &try_shared], &[&try_shared]], true, none),
        scenario("permits", [&[&two, &two], &[&one]], false, Budget { cancels: 1, ..none }),
        scenario("permits and a deleted key", [&[&one, &three], &[&one]], false, Budget { deletions: 1, ..none }),
        scenario("a muddle", [&[&reader], &[&one]], true, none),
        scenario("two names both ways", [&[&both], &[&turned]], false, Budget { cancels: 1, ..none }),
        scenario("two names and a late request", [&[&both], &[&turned]], false, Budget { resets: 1, ticks: 1, ..none }),
        scenario("two names and a deleted key", [&[&both], &[&turned]], true, Budget { deletions: 1, ..none }),
        scenario(
            "two names shared in part",
            [&[&mixed], &[&mixed, &reader]],
            true,
            Budget { breaks: 1, ticks: 1, ..none },
        ),
        scenario("two names that try", [&[&Job::of(Try, ab)], &[&Job::of(Try, ba), &both]], true, none),
    ]
}
