//! What lies between clients and members: calls, streams, and what happens to them.
//!
//! Calls may overtake one another; the messages of one stream never do. A link that is cut and a member that stands still hold
//! messages up rather than lose them, as TCP does: much of what a client has given up takes effect seconds later.

use leasehold::{
    clock::Moment,
    hub::{Action, Input, RpcId, StreamId},
    store::{self, ErrorKind, Keys, LeaseId, Renewed, Reply, StoreError, WatchId, WatchReply},
};

use crate::{
    MS, SEC,
    client::{Pent, Pipe},
    cluster::{ServerWatch, granted_by, without_a_deletion},
    plan::{Fault, span},
    world::{Event, World},
};

/// Something on its way to a member.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    client: usize,
    member: usize,
    body: Up,
}

#[derive(Clone, Debug)]
pub(crate) enum Up {
    Call { rpc: RpcId, request: store::Request, wants_reply: bool },
    Renew(StreamId, LeaseId),
    Watch { stream: u32, id: WatchId, keys: Keys },
    Unwatch { stream: u32, id: WatchId },
}

impl Up {
    fn is_call(&self) -> bool {
        matches!(self, Self::Call { .. })
    }
}

/// Something on its way to a client.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    client: usize,
    /// Where it comes from; `None` where the client's own side says it.
    member: Option<usize>,
    body: Down,
}

#[derive(Clone, Debug)]
pub(crate) enum Down {
    Reply(RpcId, Result<Reply, StoreError>),
    Renewed(StreamId, Renewed),
    RenewalsEnded(StreamId),
    Watch(u32, WatchReply),
    WatchesEnded(u32),
}

impl World {
    pub(crate) fn one_way(&mut self) -> u64 {
        self.rng.u64(self.net.delay / 4..=self.net.delay)
    }

    pub(crate) fn strikes(&mut self, thousandths: u32) -> bool {
        thousandths > 0 && !self.is_healed() && self.rng.u32(0..1_000) < thousandths
    }

    // -- from clients -----------------------------------------------------------------------------------------------------

    /// Carries out what a hub wants from the network.
    pub(crate) fn send(&mut self, client: usize, action: Action) {
        let now = self.now;
        match action {
            Action::Call(rpc, request, timeout) => self.call(client, rpc, request, timeout.as_nanos() as u64),
            Action::OpenRenewals(stream, hedge) => {
                let members = self.cluster.members.len();
                let member = (self.clients[client].prefers + hedge as usize) % members;
                self.clients[client].renewals.insert(stream, Pipe { member, up: now, down: now });
                if self.cluster.members[member].down_until > now {
                    let at = now + self.one_way();
                    self.parcel(at, client, None, Down::RenewalsEnded(stream));
                }
            }
            Action::Renew(stream, lease) => {
                let delay = self.one_way();
                let Some(pipe) = self.clients[client].renewals.get_mut(&stream) else { return };
                pipe.up = pipe.up.max(now + delay);
                let (at, member) = (pipe.up, pipe.member);
                self.request(at, client, member, Up::Renew(stream, lease));
            }
            Action::CloseRenewals(stream) => {
                self.clients[client].renewals.remove(&stream);
            }
            Action::Watch(id, keys) => self.watch(client, id, keys),
            Action::Unwatch(id) => self.unwatch(client, id),
            _ => {}
        }
    }

    pub(crate) fn call(&mut self, client: usize, rpc: RpcId, request: store::Request, timeout: u64) {
        let now = self.now;
        self.clients[client].leases.extend(granted_by(&request));
        let member = self.clients[client].prefers;
        self.clients[client].calls.insert(rpc, member);
        if self.cluster.members[member].down_until > now || self.strikes(self.net.refused) {
            self.prefer_another(client, member);
            let at = now + self.one_way();
            let error = StoreError::refused(ErrorKind::Unavailable, "connection refused");
            return self.parcel(at, client, None, Down::Reply(rpc, Err(error)));
        }
        self.at(now + timeout, Event::Timeout { client, rpc });
        if self.strikes(self.net.reset) {
            let at = now + self.one_way();
            let error = StoreError::ambiguous(ErrorKind::Unavailable, "connection reset");
            self.parcel(at, client, None, Down::Reply(rpc, Err(error)));
        }
        if self.strikes(self.net.lost) {
            return;
        }
        let mut at = now + self.one_way();
        if self.strikes(self.net.late) {
            at += span(&mut self.rng, 100 * MS, 20 * SEC);
            self.last_late = self.last_late.max(at);
        }
        if self.strikes(self.net.twice) {
            let again = at + span(&mut self.rng, MS, 10 * SEC);
            self.last_late = self.last_late.max(again);
            self.request(again, client, member, Up::Call { rpc, request: request.clone(), wants_reply: false });
        }
        self.request(at, client, member, Up::Call { rpc, request, wants_reply: true });
    }

    pub(crate) fn request(&mut self, at: u64, client: usize, member: usize, body: Up) {
        self.at(at, Event::Arrive(Box::new(Request { client, member, body })));
    }

    pub(crate) fn parcel(&mut self, at: u64, client: usize, member: Option<usize>, body: Down) {
        self.at(at, Event::Deliver(Box::new(Parcel { client, member, body })));
    }

    fn prefer_another(&mut self, client: usize, member: usize) {
        let process = &mut self.clients[client];
        if process.prefers == member {
            process.prefers = (member + 1) % self.cluster.members.len();
        }
    }

    // -- at members -------------------------------------------------------------------------------------------------------

    /// When `request` can take effect, if that is later than now; `None` if it never will.
    fn held_up(&mut self, request: &Request) -> Option<u64> {
        let member = &self.cluster.members[request.member];
        if member.down_until > self.now {
            return None;
        }
        let cut = self.cuts[request.client][request.member];
        if cut > self.now && request.body.is_call() && self.rng.bool() {
            return None;
        }
        let needs_leader = matches!(request.body, Up::Call { .. } | Up::Renew(..));
        let stalled = if needs_leader { self.cluster.stalled_until } else { 0 };
        Some(cut.max(self.cluster.members[request.member].frozen_until).max(stalled))
    }

    pub(crate) fn arrive(&mut self, request: Request) {
        let now = self.now;
        match self.held_up(&request) {
            None => {
                self.log(|_| format!("lost: {request:?}"));
                return;
            }
            Some(until) if until > now => {
                if !request.body.is_call() {
                    return self.hold_up(until, Event::Arrive(Box::new(request)));
                }
                let at = until + self.rng.u64(0..=5 * MS);
                self.last_late = self.last_late.max(at);
                return self.at(at, Event::Arrive(Box::new(request)));
            }
            Some(_) => {}
        }
        let Request { client, member, body } = request;
        match body {
            Up::Call { rpc, request, wants_reply } => {
                let is_due = self.is_due(rpc);
                let result = self.cluster.kv.call(Moment::from_nanos(now), &request);
                if let Some(is_due) = is_due {
                    self.judge_proclamation(rpc, is_due, &request, result.as_ref().ok());
                }
                self.log(|_| format!("etcd: {request:?} of client {client}, {rpc:?} -> {result:?}"));
                self.after_write();
                if !wants_reply || self.strikes(self.net.reply_lost) {
                    return;
                }
                let mut at = now + self.one_way();
                if self.strikes(self.net.reply_late) {
                    at += span(&mut self.rng, 10 * MS, 10 * SEC);
                }
                self.parcel(at, client, Some(member), Down::Reply(rpc, result));
            }
            Up::Renew(stream, lease) => {
                let ttl = self.cluster.kv.renew(Moment::from_nanos(now), lease);
                self.log(|_| format!("etcd: renews {lease} of client {client}, {stream:?} -> {ttl}"));
                let delay = self.one_way();
                let Some(pipe) = self.clients[client].renewals.get_mut(&stream) else { return };
                pipe.down = pipe.down.max(now + delay);
                let at = pipe.down;
                self.parcel(at, client, Some(member), Down::Renewed(stream, Renewed { lease, ttl }));
            }
            Up::Watch { stream, id, keys } => {
                if !self.is_current(client, stream) {
                    return;
                }
                let watch = ServerWatch { client, life: 0, stream, member, id, keys };
                self.cluster.watches.push(watch);
                let revision = self.cluster.revision_of(member);
                self.tell(client, stream, WatchReply::Created { id, revision });
            }
            Up::Unwatch { stream, id } => {
                self.cluster.watches.retain(|watch| (watch.client, watch.stream, watch.id) != (client, stream, id));
            }
        }
    }

    pub(crate) fn apply(&mut self, member: usize, upto: usize) {
        let stopped = self.cluster.members[member].stopped_until();
        if stopped > self.now {
            return self.hold_up(stopped, Event::Apply { member, upto });
        }
        for (watch, mut events) in self.cluster.apply(member, upto) {
            if self.strikes(self.net.deaf) {
                without_a_deletion(&mut events);
            }
            if !events.is_empty() {
                self.tell(watch.client, watch.stream, WatchReply::Events { id: watch.id, events });
            }
        }
    }

    // -- to clients -------------------------------------------------------------------------------------------------------

    pub(crate) fn deliver(&mut self, parcel: Parcel) {
        let client = parcel.client;
        if let Some(member) = parcel.member {
            let cut = self.cuts[client][member];
            if cut > self.now {
                let is_call = matches!(parcel.body, Down::Reply(..));
                if is_call && self.rng.bool() {
                    return;
                }
                return self.hold_up(cut, Event::Deliver(Box::new(parcel)));
            }
        }
        match parcel.body {
            Down::Reply(rpc, result) => {
                if let Some(member) = self.clients[client].calls.remove(&rpc) {
                    if matches!(&result, Err(error) if error.kind == ErrorKind::Unavailable) {
                        self.prefer_another(client, member);
                    }
                    if !self.is_of_guard(rpc) {
                        self.reach(client, Pent::Input(Input::Reply(rpc, result)));
                    }
                }
            }
            Down::Renewed(stream, renewed) => {
                if self.clients[client].renewals.contains_key(&stream) {
                    self.reach(client, Pent::Input(Input::Renewed(stream, renewed)));
                }
            }
            Down::RenewalsEnded(stream) => {
                if self.clients[client].renewals.remove(&stream).is_some() {
                    self.reach(client, Pent::Input(Input::RenewalsEnded(stream, None)));
                }
            }
            Down::Watch(stream, reply) => {
                if self.is_current(client, stream) {
                    self.reach(client, Pent::Input(Input::Watch(reply)));
                }
            }
            Down::WatchesEnded(stream) => {
                if self.is_current(client, stream) {
                    self.end_watches(client);
                }
            }
        }
    }

    pub(crate) fn time_out(&mut self, client: usize, rpc: RpcId) {
        let Some(member) = self.clients[client].calls.remove(&rpc) else { return };
        self.prefer_another(client, member);
        if self.is_of_guard(rpc) {
            return;
        }
        let error = StoreError::ambiguous(ErrorKind::Timeout, "no answer in time");
        self.feed(client, Input::Reply(rpc, Err(error)));
    }

    // -- faults -----------------------------------------------------------------------------------------------------------

    pub(crate) fn strike(&mut self, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::Cut(client, member, long) => self.cut(client, member, long),
            Fault::CutOff(client, long) => {
                for member in 0..self.cluster.members.len() {
                    self.cut(client, member, long);
                }
            }
            Fault::FreezeMember(member, long) => {
                self.cluster.members[member].frozen_until = now + long;
                self.lose_leader(long);
                for client in 0..self.clients.len() {
                    let notices = now + self.rng.u64(SEC..15 * SEC);
                    self.at(notices, Event::Silence { client, member });
                }
            }
            Fault::KillMember(member, long) => {
                self.cluster.members[member].down_until = now + long;
                self.lose_leader(long);
                self.cluster.watches.retain(|watch| watch.member != member);
                for client in 0..self.clients.len() {
                    let notices = now + self.rng.u64(0..50 * MS.min(long));
                    self.at(notices, Event::Silence { client, member });
                }
            }
            Fault::Election(long) => {
                self.cluster.stalled_until = self.cluster.stalled_until.max(now + long);
                self.at(now + long, Event::Elected);
                for client in 0..self.clients.len() {
                    if self.rng.u32(0..3) == 0 {
                        let breaks = now + self.rng.u64(0..=long);
                        self.at(breaks, Event::Break { client });
                    }
                }
            }
            Fault::Lag(member, lag, long) => {
                self.cluster.members[member].lag = lag;
                self.cluster.members[member].lag_until = now + long;
            }
            Fault::FreezeClient(client, long) => {
                let process = &mut self.clients[client];
                process.frozen_until = process.frozen_until.max(now + long);
                process.was_frozen = true;
                process.timer = None;
                let at = process.frozen_until;
                self.at(at, Event::Thaw { client });
            }
            Fault::Crash(client) => self.crash(client),
            Fault::Close(client) => self.close(client),
            Fault::DeleteKey | Fault::RevokeLease => self.administrate(&fault),
            Fault::EndWatches(client) => {
                let ended: Vec<_> =
                    self.cluster.watches.iter().filter(|watch| watch.client == client).cloned().collect();
                self.cluster.watches.retain(|watch| watch.client != client);
                for watch in ended {
                    let error = StoreError::refused(ErrorKind::Internal, "required revision has been compacted");
                    self.tell(client, watch.stream, WatchReply::Cancelled { id: watch.id, error });
                }
            }
            Fault::BreakStreams(client) => self.break_streams(client, None),
            Fault::Backup => self.cluster.backup = Some(self.cluster.kv.clone()),
            Fault::Restore(long) => self.restore(long),
            Fault::Silence(client) => {
                if let Some(watches) = &mut self.clients[client].watches {
                    watches.is_silent = true;
                }
            }
        }
    }

    fn cut(&mut self, client: usize, member: usize, long: u64) {
        let until = self.now + long;
        self.cuts[client][member] = self.cuts[client][member].max(until);
        let notices = self.now + self.rng.u64(SEC..15 * SEC);
        self.at(notices, Event::Silence { client, member });
    }

    /// A member that stops may have been the leader: the others elect another one, and a single one just stops.
    fn lose_leader(&mut self, long: u64) {
        if self.cluster.members.len() == 1 {
            self.cluster.stalled_until = self.cluster.stalled_until.max(self.now + long);
        } else if self.rng.u32(0..3) == 0 {
            let election = self.rng.u64(SEC..2 * SEC).min(long);
            self.cluster.stalled_until = self.cluster.stalled_until.max(self.now + election);
            self.at(self.now + election, Event::Elected);
        }
    }

    /// A client's keepalive on a silent connection.
    pub(crate) fn notice_silence(&mut self, client: usize, member: usize) {
        let is_silent = self.cuts[client][member] > self.now || self.cluster.members[member].stopped_until() > self.now;
        if is_silent {
            self.break_streams(client, Some(member));
        }
    }

    /// Breaks the streams of a client to `member`, or all of them, and the calls on their way with them.
    pub(crate) fn break_streams(&mut self, client: usize, member: Option<usize>) {
        let hits = |of: usize| member.is_none_or(|member| member == of);
        if !self.clients[client].is_alive {
            return;
        }
        if let Some(member) = member {
            self.prefer_another(client, member);
        }
        let calls: Vec<RpcId> =
            self.clients[client].calls.iter().filter(|(_, of)| hits(**of)).map(|(rpc, _)| *rpc).collect();
        for rpc in calls {
            let error = StoreError::ambiguous(ErrorKind::Unavailable, "the connection broke");
            self.parcel(self.now, client, None, Down::Reply(rpc, Err(error)));
        }
        let renewals = &self.clients[client].renewals;
        let ended: Vec<StreamId> = renewals.iter().filter(|(_, pipe)| hits(pipe.member)).map(|(id, _)| *id).collect();
        for stream in ended {
            self.parcel(self.now, client, None, Down::RenewalsEnded(stream));
        }
        if self.clients[client].watches.as_ref().is_some_and(|watches| hits(watches.pipe.member)) {
            self.end_watches(client);
        }
    }
}
