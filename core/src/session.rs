//! A session: one lease, renewed in time, and the deadline until which it can be trusted. Sans I/O.
//!
//! The deadline is counted from the moment the last acknowledged renewal was *sent*: the server's clock for the lease started
//! no earlier than that. It only moves forward, and once it has passed nothing revives the session, however late an
//! acknowledgement comes in (the rule is that of Gray and Cheriton, "Leases", 1989, with the margin taken off for clock drift).
//!
//! ```text
//!             grant answered                 renewal overdue
//!  Granting ------------------> Live (Ok) <=================> Live (Suspect)
//!   ^ |  lease exists, and we    ^  ack with our TTL              |
//!   | |  may have made it        |                                | deadline passed, or ack says "no such lease"
//!   | +-------> Confirming ------+                                |
//!   +---------------+ any other TTL: another id                   v
//!     +--------------------------------------------------------> Ended(reason)
//! ```

use std::{collections::VecDeque, time::Duration};

use crate::{
    backoff::Backoff,
    clock::Moment,
    error::LostReason,
    store::{ErrorKind, LeaseId, StoreError},
};

/// Streams kept open for one renewal: the first and two hedges. More would not reach more members of a usual cluster.
const MAX_STREAMS: usize = 3;
/// Pauses before a failed grant is sent again.
const GRANT_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
/// First pause before a broken stream of renewals is replaced again; the longest is our patience.
const REOPEN: Duration = Duration::from_millis(50);

/// How a session feels, as told to listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// Renewed in time.
    Ok,
    /// A renewal is overdue; the lease is still valid.
    Suspect,
    /// Over, for this reason.
    Lost(LostReason),
}

/// What a session asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Grant the lease. Answer with [`Session::on_grant`].
    Grant,
    /// A lease of this id exists, and it is not ours: choose another id with [`Session::choose`].
    LeaseTaken,
    /// Open a stream of renewals; `hedge` counts the ones opened before it for the same renewal.
    Open {
        /// Number of the stream within this session.
        stream: u32,
        /// How many streams were tried for this renewal before.
        hedge: u32,
    },
    /// Send one renewal on that stream.
    Renew(u32),
    /// Close that stream.
    Close(u32),
    /// The session may be trusted until then.
    Deadline(Moment),
    /// The session's health changed.
    Health(Health),
}

/// How far the session has come; see the diagram above.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Granting { sent: Option<Moment>, retry_at: Option<Moment>, attempt: u32 },
    Confirming,
    Live,
    Ended,
}

/// A stream of renewals and when each unanswered renewal on it was sent; acknowledgements come in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stream {
    number: u32,
    unanswered: VecDeque<Moment>,
}

/// One lease and its renewal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    lease: LeaseId,
    ttl: Duration,
    phase: Phase,
    health: Health,
    /// Until when the last acknowledged renewal keeps the lease, margin taken off.
    renewed_until: Moment,
    /// When that renewal was sent.
    renewed_at: Moment,
    /// Where the hold ends although the lease could go on (a hold without renewal).
    limit: Option<Moment>,
    streams: Vec<Stream>,
    next_stream: u32,
    /// When the next renewal is due, or the next hedge while one is unanswered.
    renew_at: Moment,
    /// Streams tried for the renewal that is under way; `None` between renewals.
    hedges: Option<u32>,
    /// Set once the fate of a grant is unknown: the lease may appear later.
    ambiguous: bool,
}

/// Taken off every deadline, for clocks that run at different speeds: 2 % of the TTL, at least 100 ms.
pub fn margin(ttl: Duration) -> Duration {
    (ttl / 50).max(Duration::from_millis(100))
}

/// How long a renewal may stay unanswered before another endpoint is asked too: a fifth of the TTL, at most a second.
fn patience(ttl: Duration) -> Duration {
    (ttl / 5).min(Duration::from_secs(1))
}

impl Session {
    /// A session that asks for `lease` with `ttl`, in whole seconds, right away.
    pub fn start(now: Moment, lease: LeaseId, ttl: Duration, out: &mut Vec<Effect>) -> Self {
        out.push(Effect::Grant);
        Self {
            lease,
            ttl,
            phase: Phase::Granting { sent: Some(now), retry_at: None, attempt: 1 },
            health: Health::Ok,
            renewed_until: now,
            renewed_at: now,
            limit: None,
            streams: Vec::new(),
            next_stream: 0,
            renew_at: now,
            hedges: None,
            ambiguous: false,
        }
    }

    /// The lease of this session.
    pub fn lease(&self) -> LeaseId {
        self.lease
    }

    /// The time to live: asked for, and once granted the server's.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Whether the lease is known to exist and the session is not over.
    pub fn is_live(&self) -> bool {
        self.phase == Phase::Live
    }

    /// Whether the session is over.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Whether a grant is on its way.
    pub fn is_granting(&self) -> bool {
        matches!(self.phase, Phase::Granting { sent: Some(_), .. })
    }

    /// Whether the lease may exist at the server although we do not know it.
    pub fn may_exist(&self) -> bool {
        match self.phase {
            Phase::Granting { sent, .. } => self.ambiguous || sent.is_some(),
            Phase::Confirming | Phase::Live | Phase::Ended => true,
        }
    }

    /// Whether it still uses that stream of renewals.
    pub fn has_stream(&self, number: u32) -> bool {
        self.streams.iter().any(|stream| stream.number == number)
    }

    /// Whether an attempt to grant the lease is of unknown fate: one that exists may be ours then.
    pub fn may_have_been_granted(&self) -> bool {
        self.ambiguous
    }

    /// Until when a hold of this session can be trusted. Before the lease is granted, nothing can.
    pub fn deadline(&self) -> Moment {
        let renewed = if self.phase == Phase::Live { self.renewed_until } else { Moment::default() };
        self.limit.map_or(renewed, |limit| limit.min(renewed))
    }

    /// Whether a lock may be handed over now: enough time is left for the new owner to do anything with it.
    pub fn can_hold(&self, now: Moment) -> bool {
        self.is_live() && now.until(self.deadline()) >= self.slack()
    }

    /// How much time must be left for that.
    pub fn slack(&self) -> Duration {
        self.ttl / 5
    }

    /// Whether (nearly) a whole TTL is left: what a hold without renewal starts with.
    pub fn is_fresh(&self, now: Moment) -> bool {
        self.is_live() && now.since(self.renewed_at) <= self.ttl / 10
    }

    /// When the last acknowledged renewal was sent.
    pub fn renewed_at(&self) -> Moment {
        self.renewed_at
    }

    /// From now on the session ends at its present deadline: a hold without renewal has begun.
    pub fn stop_renewing(&mut self) {
        self.limit = Some(self.renewed_until);
    }

    /// Sends a renewal now. A hold without renewal goes on for at least `span` from now; where that is longer than the lease's
    /// TTL, the lease is renewed until then.
    pub fn extend(&mut self, now: Moment, span: Duration, out: &mut Vec<Effect>) {
        if let Some(limit) = self.limit {
            self.limit = Some(limit.max(now + span));
        }
        if self.is_live() {
            self.renew(now, out);
        }
    }

    /// Sends a renewal now; while one is under way, a further one on the same stream.
    pub fn renew(&mut self, now: Moment, out: &mut Vec<Effect>) {
        match self.streams.last_mut() {
            Some(stream) if self.hedges.is_some() => {
                stream.unanswered.push_back(now);
                out.push(Effect::Renew(stream.number));
            }
            _ => self.send_renewal(now, out),
        }
    }

    /// The answer to [`Effect::Grant`]: the TTL that the server chose, in seconds, or why there is none.
    /// Hands back an error that no repetition will cure.
    pub fn on_grant(
        &mut self,
        now: Moment,
        answer: Result<i64, StoreError>,
        out: &mut Vec<Effect>,
    ) -> Result<(), StoreError> {
        let Phase::Granting { sent: Some(sent), attempt, .. } = self.phase else { return Ok(()) };
        match answer {
            Ok(ttl) => {
                self.phase = Phase::Live;
                self.acknowledge(now, sent, ttl, out);
            }
            // An earlier grant of ours was applied, nobody knows when: the answer to a renewal tells how long it lives.
            Err(error) if error.kind == ErrorKind::LeaseExists && self.ambiguous => {
                self.phase = Phase::Confirming;
                self.send_renewal(now, out);
            }
            Err(error) if error.kind == ErrorKind::LeaseExists => self.begin_anew(now, attempt, out),
            Err(error) => {
                self.ambiguous |= error.ambiguous;
                self.grant_later(now, attempt);
                if !error.is_transient() {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The lease is somebody else's.
    fn begin_anew(&mut self, now: Moment, attempt: u32, out: &mut Vec<Effect>) {
        for stream in self.streams.drain(..) {
            out.push(Effect::Close(stream.number));
        }
        self.hedges = None;
        self.ambiguous = false;
        self.grant_later(now, attempt);
        out.push(Effect::LeaseTaken);
    }

    fn grant_later(&mut self, now: Moment, attempt: u32) {
        let pause = GRANT_BACKOFF.pause(attempt, self.salt());
        self.phase = Phase::Granting { sent: None, retry_at: Some(now + pause), attempt: attempt + 1 };
    }

    /// The answer to [`Effect::LeaseTaken`]: the id to ask for next.
    pub fn choose(&mut self, lease: LeaseId) {
        self.lease = lease;
    }

    /// The next acknowledgement on `stream`: the lease's TTL in seconds, 0 or less if it is gone.
    pub fn on_renewed(&mut self, now: Moment, stream: u32, ttl: i64, out: &mut Vec<Effect>) {
        self.tick(now, out);
        let Some(found) = self.streams.iter_mut().find(|found| found.number == stream) else { return };
        let Some(sent) = found.unanswered.pop_front() else { return };
        if self.is_ended() {
            return;
        }
        if ttl <= 0 {
            self.end(LostReason::LeaseRevoked, out);
            return;
        }
        // A lease that existed when we asked for it is ours only if it is what we asked for.
        if self.phase == Phase::Confirming && u64::try_from(ttl) != Ok(self.ttl.as_secs()) {
            self.begin_anew(now, 1, out);
            return;
        }
        self.phase = Phase::Live;
        // First answer wins: the stream that gave it carries the renewals from now on.
        self.streams.retain(|other| {
            let keep = other.number == stream;
            if !keep {
                out.push(Effect::Close(other.number));
            }
            keep
        });
        self.acknowledge(now, sent, ttl, out);
    }

    /// `stream` ended or broke.
    pub fn on_broken(&mut self, now: Moment, stream: u32, out: &mut Vec<Effect>) {
        self.streams.retain(|other| other.number != stream);
        if let Some(hedges) = self.hedges
            && self.streams.is_empty()
            && !self.is_ended()
        {
            // The first replacement at once, the next ones after a pause that grows up to our patience.
            let pause = Backoff::new(REOPEN, patience(self.ttl)).pause(hedges, self.salt());
            self.renew_at = if hedges == 0 { now } else { now + pause };
            self.suspect(out);
        }
        self.tick(now, out);
    }

    /// Ends the session; the caller decides what becomes of the lease.
    pub fn end(&mut self, reason: LostReason, out: &mut Vec<Effect>) {
        if self.is_ended() {
            return;
        }
        self.phase = Phase::Ended;
        self.hedges = None;
        for stream in self.streams.drain(..) {
            out.push(Effect::Close(stream.number));
        }
        self.set_health(Health::Lost(reason), out);
    }

    /// When [`Session::tick`] has something to do.
    pub fn wake(&self) -> Option<Moment> {
        match self.phase {
            Phase::Granting { retry_at, .. } => retry_at,
            Phase::Confirming => Some(self.renew_at),
            Phase::Live if self.wants_renewal() => Some(self.renew_at.min(self.deadline())),
            Phase::Live => Some(self.deadline()),
            Phase::Ended => None,
        }
    }

    /// Lets time pass: repeats a grant, sends a renewal that is due, hedges one that is overdue, ends what is past its deadline.
    pub fn tick(&mut self, now: Moment, out: &mut Vec<Effect>) {
        match self.phase {
            Phase::Granting { retry_at: Some(at), attempt, .. } if now >= at => {
                self.phase = Phase::Granting { sent: Some(now), retry_at: None, attempt };
                out.push(Effect::Grant);
            }
            Phase::Live if now >= self.deadline() => self.end(LostReason::Expired, out),
            Phase::Live | Phase::Confirming if self.wants_renewal() && now >= self.renew_at => {
                if self.hedges.is_some() {
                    self.suspect(out);
                }
                self.send_renewal(now, out);
            }
            _ => {}
        }
    }

    /// What spreads the pauses of sessions that fail together: their leases are random.
    fn salt(&self) -> u64 {
        self.lease.0.unsigned_abs()
    }

    /// Whether the lease must live longer than it is known to.
    fn wants_renewal(&self) -> bool {
        self.hedges.is_some() || self.limit.is_none_or(|limit| limit > self.renewed_until)
    }

    /// Sends a renewal on the stream that answered last or, if that is silent, on a new one to another endpoint.
    fn send_renewal(&mut self, now: Moment, out: &mut Vec<Effect>) {
        let hedge = self.hedges.map_or(0, |tried| tried + 1);
        if self.hedges.is_some() || self.streams.is_empty() {
            if self.streams.len() == MAX_STREAMS {
                out.push(Effect::Close(self.streams.remove(0).number));
            }
            out.push(Effect::Open { stream: self.next_stream, hedge });
            self.streams.push(Stream { number: self.next_stream, unanswered: VecDeque::new() });
            self.next_stream += 1;
        }
        if let Some(stream) = self.streams.last_mut() {
            stream.unanswered.push_back(now);
            out.push(Effect::Renew(stream.number));
        }
        self.hedges = Some(hedge);
        self.renew_at = now + patience(self.ttl);
    }

    /// A grant or renewal that was sent at `sent` is acknowledged with `ttl` seconds.
    fn acknowledge(&mut self, now: Moment, sent: Moment, ttl: i64, out: &mut Vec<Effect>) {
        self.ttl = Duration::from_secs(u64::try_from(ttl).unwrap_or(0));
        self.hedges = None;
        // Only forward: an older renewal may be answered after a younger one, on another stream.
        if sent + self.ttl - margin(self.ttl) > self.renewed_until {
            self.renewed_until = sent + self.ttl - margin(self.ttl);
            self.renewed_at = sent;
        }
        self.renew_at = sent + self.ttl / 3;
        out.push(Effect::Deadline(self.deadline()));
        if now >= self.deadline() {
            self.end(LostReason::Expired, out);
        } else {
            self.set_health(Health::Ok, out);
        }
    }

    fn suspect(&mut self, out: &mut Vec<Effect>) {
        if self.is_live() {
            self.set_health(Health::Suspect, out);
        }
    }

    fn set_health(&mut self, health: Health, out: &mut Vec<Effect>) {
        if self.health != health {
            self.health = health;
            out.push(Effect::Health(health));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(5);

    fn at(millis: u64) -> Moment {
        Moment::default() + Duration::from_millis(millis)
    }

    fn exists() -> Result<i64, StoreError> {
        Err(StoreError::refused(ErrorKind::LeaseExists, "lease already exists"))
    }

    /// A session whose lease exists, after `attempts` that got no answer.
    fn finds_its_lease(attempts: u64) -> (Session, Vec<Effect>) {
        let mut out = Vec::new();
        let mut session = Session::start(at(0), LeaseId(7), TTL, &mut out);
        for attempt in 1..=attempts {
            let unknown = StoreError::ambiguous(ErrorKind::Timeout, "no answer");
            session.on_grant(at(attempt * 1000), Err(unknown), &mut out).unwrap();
            session.tick(at(attempt * 1000 + 900), &mut out);
        }
        out.clear();
        session.on_grant(at(9000), exists(), &mut out).unwrap();
        (session, out)
    }

    #[test]
    fn a_lease_that_exists_before_any_attempt_may_have_made_it_is_somebody_elses() {
        let (mut session, mut out) = finds_its_lease(0);
        assert_eq!(out, [Effect::LeaseTaken]);
        assert!(!session.may_exist(), "nobody revokes what is not ours");
        session.choose(LeaseId(8));
        session.tick(at(9999), &mut out);
        assert_eq!(out[1..], [Effect::Grant]);
        session.on_grant(at(10_000), Ok(5), &mut out).unwrap();
        assert!(session.is_live());
        assert_eq!(session.lease(), LeaseId(8));
    }

    #[test]
    fn a_lease_that_may_be_ours_is_so_with_our_ttl_only() {
        for (ttl, ours) in [(5, true), (4, false), (6, false), (i64::MAX, false)] {
            let (mut session, mut out) = finds_its_lease(1);
            let [Effect::Open { stream, .. }, Effect::Renew(_)] = out[..] else { panic!("it asks: {out:?}") };
            session.on_renewed(at(9010), stream, ttl, &mut out);
            assert_eq!(session.is_live(), ours, "TTL {ttl}");
            assert_eq!(out.contains(&Effect::LeaseTaken), !ours, "TTL {ttl}");
            assert_eq!(out.contains(&Effect::Close(stream)), !ours, "TTL {ttl}");
        }
    }
}
