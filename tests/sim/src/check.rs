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
    token: i64,
    session: Option<SessionId>,
    since: u64,
}

/// What was held when, and by whom.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    holds: Vec<Held>,
    deadlines: BTreeMap<(usize, SessionId), u64>,
    tokens: BTreeMap<Arc<str>, i64>,
    given_away: BTreeSet<(Key, i64)>,
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
        name: &Arc<str>,
        hold: &leasehold::hub::Hold,
        queue: &[KeyValue],
        is_own: impl Fn(&Key) -> bool,
    ) -> Verdict {
        let who = format!("client {client} {ticket:?} on {name} with token {}", hold.token);
        let deadline = self.deadlines.get(&(client, hold.session)).copied().unwrap_or_default();
        if deadline <= now {
            return Err(
                Rule::HandedOverLate.broken(format!("{who} was handed a lock that ended at {deadline}, now {now}"))
            );
        }
        let is_given_away = self.given_away.contains(&(hold.key.clone(), hold.token));
        if !is_given_away {
            self.exclude(now, name, &who)?;
            if !queue.iter().any(|kv| kv.key == hold.key && kv.create_revision == hold.token) {
                return Err(Rule::KeyGone.broken(format!("{who} holds with a key that does not stand: {:?}", hold.key)));
            }
            let ahead = queue.iter().find(|kv| kv.create_revision < hold.token && !is_own(&kv.key));
            if let Some(ahead) = ahead {
                return Err(Rule::Overtaken
                    .broken(format!("{who} overtook {:?} of revision {}", ahead.key, ahead.create_revision)));
            }
            self.grow(name, hold.token, &who)?;
        }
        self.holds.push(Held {
            owner: Owner::Ours(client, ticket),
            name: name.clone(),
            key: hold.key.clone(),
            token: hold.token,
            session: Some(hold.session),
            since: now,
        });
        Ok(())
    }

    /// A foreign client found its key to be the first.
    pub fn on_foreign(&mut self, now: u64, owner: usize, name: &Arc<str>, key: Key, token: i64) -> Verdict {
        let who = format!("foreign client {owner} on {name} with token {token}");
        self.exclude(now, name, &who)?;
        self.grow(name, token, &who)?;
        let owner = Owner::Foreign(owner);
        self.holds.push(Held { owner, name: name.clone(), key, token, session: None, since: now });
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
    pub fn on_restored(&mut self, stands: impl Fn(&Key, i64) -> bool) {
        self.tokens.clear();
        for held in &self.holds {
            if stands(&held.key, held.token) {
                self.tokens.insert(held.name.clone(), held.token);
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

    fn exclude(&self, now: u64, name: &Arc<str>, who: &str) -> Verdict {
        let other = self.holds.iter().find(|held| {
            held.name == *name && self.until(held) > now && !self.given_away.contains(&(held.key.clone(), held.token))
        });
        match other {
            Some(held) => Err(Rule::TwoOwners.broken(format!(
                "{who}, and {:?} with token {} until {}",
                held.owner,
                held.token,
                self.until(held)
            ))),
            None => Ok(()),
        }
    }

    fn grow(&mut self, name: &Arc<str>, token: i64, who: &str) -> Verdict {
        let last = self.tokens.entry(name.clone()).or_default();
        if token <= *last {
            return Err(Rule::TokenNotGrown.broken(format!("{who}, after an owner with token {last}")));
        }
        *last = token;
        Ok(())
    }
}
