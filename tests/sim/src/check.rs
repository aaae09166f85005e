//! The judge: what must hold at every moment, told from the outside and in true time.
//!
//! A hold counts from the moment its caller was told until the earliest of: its caller asks for the release, its caller is told
//! that it is over, the last deadline that its session told has passed. Whoever deletes a holder's key by hand gives the lock
//! away; such a hold is no longer judged.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use leasehold::{
    Claim,
    hub::Want,
    queue::wire::claim_of,
    store::{Key, KeyValue},
    terms::{SessionId, Ticket},
};

use crate::rules::{Rule, Verdict};

/// Who holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A caller of a client of ours.
    Ours(usize, Ticket),
    /// A client of other make.
    Foreign(usize),
}

#[derive(Clone, Debug)]
struct Held {
    owner: Owner,
    name: Arc<str>,
    key: Key,
    claim: Claim,
    token: i64,
    sequence: u64,
    session: Option<SessionId>,
    since: u64,
}

/// Whether no two such claims of one name can be held at the same time, whoever else holds.
pub fn exclude_each_other(one: Claim, other: Claim) -> bool {
    match (one, other) {
        (Claim::Shared, Claim::Shared) => false,
        (Claim::Permits { permits, limit }, Claim::Permits { permits: others, limit: of }) => {
            limit != of || permits + others > limit
        }
        _ => true,
    }
}

/// Whether such a claim of a name can be held beside these.
pub fn goes_beside(claim: Claim, others: impl Iterator<Item = Claim>) -> bool {
    let (mut taken, mut is_alone) = (0, true);
    for other in others {
        if let Claim::Permits { permits, .. } = other {
            taken += permits;
        }
        is_alone &= !exclude_each_other(claim, other);
    }
    is_alone && !matches!(claim, Claim::Permits { permits, limit } if taken + permits > limit)
}

/// What was held when, and by whom.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    holds: Vec<Held>,
    deadlines: BTreeMap<(usize, SessionId), u64>,
    /// The highest token of an owner with each claim of each name, and the sequence of that owner.
    tokens: BTreeMap<Arc<str>, BTreeMap<Claim, (i64, u64)>>,
    given_away: BTreeSet<(Key, i64)>,
    /// Keys that were let in before the store went back in time, and that it still has.
    let_in: BTreeSet<(Key, i64)>,
}

impl Judge {
    /// A session of a client told until when it can be trusted, in true time.
    pub fn on_deadline(&mut self, now: u64, client: usize, session: SessionId, until: u64) -> Verdict {
        let before = self.deadlines.insert((client, session), until).unwrap_or(until);
        if until < before {
            return Err(Rule::DeadlineMovedBack
                .broken(format!("the deadline of client {client} {session:?} moved back from {before} to {until}")));
        }
        // A nanosecond of rounding between two clocks.
        if before + 1 < now && until > before {
            return Err(Rule::Revived.broken(format!(
                "client {client} {session:?} was revived: its deadline {before} had passed at {now}"
            )));
        }
        Ok(())
    }

    /// A caller of ours was told that it holds. `queue` are the contenders that stand in the store, owner first;
    /// `is_own` tells of a key whether this client chose it.
    #[expect(clippy::too_many_arguments, reason = "it is one fact, and all of it is judged")]
    pub fn on_acquired(
        &mut self,
        now: u64,
        client: usize,
        ticket: Ticket,
        want: &Want,
        (key, hold): (&Key, &leasehold::hub::Hold),
        queue: &[KeyValue],
        is_own: impl Fn(&Key) -> bool,
    ) -> Verdict {
        let Want { name, claim } = want;
        let who = format!("client {client} {ticket:?} on {name} with token {}, {claim}", hold.token);
        let deadline = self.deadlines.get(&(client, hold.session)).copied().unwrap_or_default();
        if deadline <= now {
            return Err(
                Rule::HandedOverLate.broken(format!("{who} was handed a lock that ended at {deadline}, now {now}"))
            );
        }
        let is_given_away = self.given_away.contains(&(key.clone(), hold.token));
        if !is_given_away {
            self.exclude(now, want, &who)?;
            if !queue.iter().any(|kv| kv.key == *key && kv.create_revision == hold.token) {
                return Err(Rule::KeyGone.broken(format!("{who} holds with a key that does not stand: {key:?}")));
            }
            let ahead: Vec<_> = queue.iter().filter(|kv| kv.create_revision < hold.token && !is_own(&kv.key)).collect();
            let was_let_in = self.let_in.contains(&(key.clone(), hold.token));
            if !was_let_in && !goes_beside(*claim, ahead.iter().map(|kv| claim_of(&kv.key))) {
                return Err(Rule::Overtaken.broken(format!("{who} overtook one of {ahead:?}")));
            }
            self.grow(want, (hold.token, hold.sequence), &who)?;
        }
        self.holds.push(Held {
            owner: Owner::Ours(client, ticket),
            name: name.clone(),
            claim: *claim,
            key: key.clone(),
            token: hold.token,
            sequence: hold.sequence,
            session: Some(hold.session),
            since: now,
        });
        Ok(())
    }

    /// A foreign client found its key to be the first.
    pub fn on_foreign(&mut self, now: u64, owner: usize, name: &Arc<str>, key: Key, token: i64) -> Verdict {
        let who = format!("foreign client {owner} on {name} with token {token}");
        let want = Want { name: name.clone(), claim: Claim::Exclusive };
        self.exclude(now, &want, &who)?;
        self.grow(&want, (token, 0), &who)?;
        let Want { name, claim } = want;
        self.holds.push(Held {
            owner: Owner::Foreign(owner),
            name,
            claim,
            key,
            token,
            sequence: 0,
            session: None,
            since: now,
        });
        Ok(())
    }

    /// Whether an administrator took the key of this hold away.
    pub fn was_robbed(&self, owner: Owner) -> bool {
        let is_gone = |held: &Held| self.given_away.contains(&(held.key.clone(), held.token));
        self.holds.iter().any(|held| held.owner == owner && is_gone(held))
    }

    /// The hold is over. Returns whether there was one.
    pub fn on_end(&mut self, owner: Owner) -> bool {
        let before = self.holds.len();
        self.holds.retain(|held| held.owner != owner);
        self.holds.len() < before
    }

    /// The client is gone, and so are its holds.
    pub fn on_client_gone(&mut self, client: usize) {
        self.holds.retain(|held| !matches!(held.owner, Owner::Ours(of, _) if of == client));
    }

    /// An administrator took this key away.
    pub fn on_given_away(&mut self, key: &Key, token: i64) {
        self.given_away.insert((key.clone(), token));
    }

    /// The store went back in time, and `stands` tells which keys it still has. Tokens start from what stands.
    ///
    /// The places that are `lent` lie with clients that do not know it yet: whoever takes one must be told, as one who held it then.
    ///
    /// It had nobody in the way of those `let_in`. What a backup brings back ahead of such a key was let go of by its owner: whoever
    /// wants several names, and was let in to the first of them, does not lose that place to a key by which nobody holds or waits.
    pub fn on_restored(&mut self, let_in: Vec<(Key, i64)>, lent: Vec<(Key, i64)>, stands: impl Fn(&Key, i64) -> bool) {
        self.given_away.extend(lent.into_iter().filter(|(key, token)| !stands(key, *token)));
        self.let_in.extend(let_in.into_iter().filter(|(key, token)| stands(key, *token)));
        self.tokens.clear();
        for held in &self.holds {
            if stands(&held.key, held.token) {
                self.tokens.entry(held.name.clone()).or_default().insert(held.claim, (held.token, held.sequence));
            } else {
                self.given_away.insert((held.key.clone(), held.token));
            }
        }
    }

    /// Holds whose key an administrator took away before `since`, and that nobody was told about.
    pub fn untold(&self, now: u64) -> Option<String> {
        let held = self.holds.iter().find(|held| {
            self.given_away.contains(&(held.key.clone(), held.token))
                && self.until(held) > now
                && held.session.is_some()
        })?;
        Some(format!(
            "{:?} on {} was never told that its key was deleted (held since {})",
            held.owner, held.name, held.since
        ))
    }

    fn until(&self, held: &Held) -> u64 {
        match (held.owner, held.session) {
            (Owner::Ours(client, _), Some(session)) => {
                self.deadlines.get(&(client, session)).copied().unwrap_or_default()
            }
            _ => u64::MAX,
        }
    }

    fn exclude(&self, now: u64, want: &Want, who: &str) -> Verdict {
        let is_held = |held: &&Held| {
            held.name == want.name
                && self.until(held) > now
                && !self.given_away.contains(&(held.key.clone(), held.token))
        };
        let others: Vec<_> = self.holds.iter().filter(is_held).collect();
        if goes_beside(want.claim, others.iter().map(|held| held.claim)) {
            return Ok(());
        }
        let others = others.iter().map(|held| {
            format!("{:?} with token {}, {}, until {}", held.owner, held.token, held.claim, self.until(held))
        });
        Err(Rule::TwoOwners.broken(format!("{who}, and {}", others.collect::<Vec<_>>().join("; "))))
    }

    /// Tokens grow along whatever excludes each other.
    fn grow(&mut self, want: &Want, token: (i64, u64), who: &str) -> Verdict {
        let tokens = self.tokens.entry(want.name.clone()).or_default();
        let excluded = tokens.iter().filter(|(claim, _)| exclude_each_other(want.claim, **claim));
        if let Some((claim, last)) = excluded.max_by_key(|(_, last)| **last)
            && token <= *last
        {
            return Err(Rule::TokenNotGrown.broken(format!("{who}, after an owner with token {last:?}, {claim}")));
        }
        let last = tokens.entry(want.claim).or_default();
        *last = token.max(*last);
        Ok(())
    }
}
