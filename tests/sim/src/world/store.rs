//! The store of the world: leases run out, members hear of writes, and others than our clients write, too.

use leasehold::{
    clock::Moment,
    queue::wire::{claim_of, is_chosen_by},
    store::{Key, KeyValue},
};

use super::{Event, World};
use crate::{
    MS, SEC,
    check::{Owner, goes_beside},
    client::Client,
    foreign::Stage,
    plan::Fault,
};

impl World {
    pub(super) fn scan(&mut self) {
        if self.now < self.cluster.stalled_until {
            return self.at(self.cluster.stalled_until + 1, Event::Scan);
        }
        let ended = self.cluster.kv.expire(Moment::from_nanos(self.now));
        if !ended.is_empty() {
            self.log(|_| format!("etcd ends {ended:?}"));
        }
        self.after_write();
        // etcd looks every 500 ms. Here it may look at the very moment a lease runs out, which is the worst for holders.
        let mut next = self.now + self.rng.u64(1..=500 * MS);
        if let Some(expiry) = self.cluster.kv.next_expiry()
            && self.rng.bool()
        {
            next = next.min(expiry.as_nanos().max(self.now + 1));
        }
        self.at(next, Event::Scan);
    }

    /// To be called after everything that may have written to the store: tells the members.
    pub(crate) fn after_write(&mut self) {
        if !self.cluster.record() {
            return;
        }
        self.elections.record(&self.cluster.log);
        self.stays.on_written(self.now, &self.cluster.everything());
        let upto = self.cluster.log.len();
        for n in 0..self.cluster.members.len() {
            let member = &self.cluster.members[n];
            let lag = if self.now < member.lag_until { self.rng.u64(0..=member.lag) } else { self.rng.u64(0..=2 * MS) };
            let at = member.last_apply.max(self.now + lag);
            self.cluster.members[n].last_apply = at;
            self.at(at, Event::Apply { member: n, upto });
        }
        self.tell_foreign_holders();
    }

    fn tell_foreign_holders(&mut self) {
        for n in 0..self.foreign.len() {
            // Most of a crowd is not there yet, waits, or is gone.
            if let Stage::Holding(token) = self.foreign[n].stage {
                let foreign = &self.foreign[n];
                let queue = self.cluster.contenders(&foreign.plan.name);
                if !queue.iter().any(|kv| kv.key == foreign.key() && kv.create_revision == token) {
                    self.judge.on_end(Owner::Foreign(n));
                }
            }
        }
    }

    /// An administrator deletes a key or revokes a lease: whoever holds by it has been robbed.
    pub(crate) fn administrate(&mut self, fault: &Fault) {
        let all = self.cluster.everything();
        let now = Moment::from_nanos(self.now);
        let Some(victim) = self.rng.choice(&all).cloned() else { return };
        let request = match (fault, victim.lease) {
            (Fault::RevokeLease, Some(lease)) => leasehold::store::Request::LeaseRevoke { lease },
            _ => leasehold::queue::wire::delete_unseen(&victim.key),
        };
        for kv in &all {
            if kv.key == victim.key
                || (matches!(fault, Fault::RevokeLease) && kv.lease.is_some() && kv.lease == victim.lease)
            {
                self.judge.on_given_away(&kv.key, kv.create_revision);
                self.log(|_| format!("an administrator takes away {:?}", kv.key));
            }
        }
        // A key that is gone already is as good.
        let _ = self.cluster.kv.call(now, &request);
        self.after_write();
    }

    /// The cluster goes back to its last backup. Holds whose key it does not have are void, which no client can prevent; each holder
    /// must be told. So must whoever it brings back and who does not believe in it any more.
    pub(crate) fn restore(&mut self, long: u64) {
        let back = self.now + long;
        let let_in = self.let_in();
        self.cluster.go_back(Moment::from_nanos(back));
        self.cluster.stalled_until = self.cluster.stalled_until.max(back);
        for member in &mut self.cluster.members {
            member.down_until = member.down_until.max(back);
        }
        // Whoever writes keys without a lease by hand looks after them by hand.
        for foreign in self.foreign.iter().filter(|foreign| foreign.plan.ttl.is_none() && foreign.stage == Stage::Over)
        {
            let request = leasehold::queue::wire::delete_unseen(&foreign.key());
            let _ = self.cluster.kv.call(Moment::from_nanos(back), &request);
        }
        let stands = self.cluster.everything();
        self.elections.restore(self.cluster.kv.revision(), &stands);
        let is_there = |key: &Key, token| stands.iter().any(|kv| kv.key == *key && kv.create_revision == token);
        let lent = self.clients.iter().flat_map(|client| client.loans.all_free());
        let lent = lent.flat_map(|loan| loan.hold.keys.iter().map(|key| (key.clone(), loan.hold.token)));
        self.judge.on_restored(let_in, lent.collect(), is_there);
        self.after_write();
        self.tell_foreign_holders();
        for client in 0..self.clients.len() {
            self.break_streams(client, None);
        }
    }

    /// The keys of our clients in whose way nobody else stands: each may have been let in.
    fn let_in(&self) -> Vec<(Key, i64)> {
        let mut found = Vec::new();
        for name in &self.plan.names {
            let queue = self.cluster.contenders(name);
            for Client { leases, .. } in &self.clients {
                let is_own = |key: &Key| leases.iter().any(|lease| is_chosen_by(key, *lease));
                let own = queue.iter().enumerate().filter(|(_, kv)| is_own(&kv.key));
                let is_free = |(place, kv): &(usize, &KeyValue)| {
                    let others = queue[..*place].iter().filter(|other| !is_own(&other.key));
                    goes_beside(claim_of(&kv.key), others.map(|other| claim_of(&other.key)))
                };
                found.extend(own.filter(is_free).map(|(_, kv)| (kv.key.clone(), kv.create_revision)));
            }
        }
        found
    }

    pub(super) fn foreign_step(&mut self, n: usize) {
        if self.now < self.cluster.stalled_until {
            return self.at(self.cluster.stalled_until, Event::Foreign(n));
        }
        let now = Moment::from_nanos(self.now);
        let foreign = &mut self.foreign[n];
        let renewing = foreign.plan.ttl.is_some() && self.now >= foreign.renew_at;
        if renewing && !matches!(foreign.stage, Stage::Absent | Stage::Over) {
            foreign.renew_at = self.now + foreign.plan.ttl.unwrap_or(2) as u64 * SEC / 3;
            self.cluster.kv.renew(now, foreign.lease);
        }
        let key = foreign.key();
        let mut pause = self.rng.u64(MS..100 * MS);
        match foreign.stage {
            Stage::Absent => {
                foreign.stage = foreign.join(&mut self.cluster.kv, now).map_or(Stage::Over, Stage::Waiting);
                foreign.renew_at = self.now + SEC / 2;
                self.log(|_| format!("foreign client {n} joins with {key:?}"));
            }
            Stage::Waiting(token) => {
                let queue = self.cluster.contenders(&foreign.plan.name);
                if !queue.iter().any(|kv| kv.key == key) {
                    foreign.stage = Stage::Over;
                } else if queue[0].key == key {
                    foreign.stage = Stage::Holding(token);
                    foreign.until = self.now + foreign.plan.hold;
                    let name = foreign.plan.name.clone();
                    self.counts.foreign += 1;
                    self.log(|_| format!("foreign client {n} holds with {token}"));
                    let verdict = self.judge.on_foreign(self.now, n, &name, key, token);
                    self.break_rule(verdict);
                } else {
                    // Whoever stands far behind need not look often.
                    pause *= queue.iter().position(|kv| kv.key == key).map_or(1, |place| place.min(20) as u64);
                }
            }
            Stage::Holding(_) if self.now >= foreign.until => {
                foreign.stage = Stage::Over;
                self.last_progress = self.now;
                self.judge.on_end(Owner::Foreign(n));
                // One without a lease is freed by hand, however it ends.
                if !(foreign.plan.dies && foreign.plan.ttl.is_some()) {
                    foreign.leave(&mut self.cluster.kv, now);
                }
                self.log(|_| format!("foreign client {n} is over"));
            }
            Stage::Holding(_) | Stage::Over => {}
        }
        self.after_write();
        if self.foreign[n].stage != Stage::Over {
            self.at(self.now + pause, Event::Foreign(n));
        }
    }
}
