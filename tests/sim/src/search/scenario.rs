//! What is searched: who wants the lock, and what may go wrong.

use leasehold::terms::Mode;

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

/// What is searched.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What the callers of each client ask for, in this order.
    pub tasks: [Vec<Mode>; 2],
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
    let scenario = |name, tasks: [&[Mode]; 2], has_foreign, budget| Scenario {
        name,
        tasks: tasks.map(<[Mode]>::to_vec),
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
        scenario("tries", [&[Wait, Try], &[Try]], true, none),
        scenario("a close", [&[Wait, Wait], &[Wait]], false, Budget { closes: 1, ..none }),
    ]
}
