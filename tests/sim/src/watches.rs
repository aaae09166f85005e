//! The one watch stream of a client, as `core/src/watch.rs` keeps it: opened with the first watch, ended when it breaks or
//! when a watch on it was not confirmed in time, and the end of every watch on it with it.

use std::collections::BTreeMap;

use leasehold::{
    hub::Input,
    queue::view::SILENCE,
    store::{ErrorKind, Keys, StoreError, WatchId, WatchReply},
};

use crate::{
    client::{Pent, Pipe, WatchPipe},
    net::{Down, Up},
    world::{Event, World},
};

impl World {
    /// The client opens a watch.
    pub(crate) fn watch(&mut self, client: usize, id: WatchId, keys: Keys) {
        if self.clients[client].watches.is_none() {
            self.open_stream(client);
        }
        let now = self.now;
        let Some(watches) = &mut self.clients[client].watches else { return };
        watches.asked.insert(id, Some(now));
        let stream = watches.number;
        self.send_up(client, Up::Watch { stream, id, keys });
    }

    /// The client closes a watch.
    pub(crate) fn unwatch(&mut self, client: usize, id: WatchId) {
        let now = self.now;
        let Some(watches) = &mut self.clients[client].watches else { return };
        let Some(asked) = watches.asked.remove(&id) else { return };
        let stream = watches.number;
        self.send_up(client, Up::Unwatch { stream, id });
        if asked.is_some_and(|at| u128::from(now - at) >= SILENCE.as_nanos())
            && let Some(watches) = &mut self.clients[client].watches
        {
            watches.is_ending = true;
            let at = now + self.one_way();
            self.parcel(at, client, None, Down::WatchesEnded(stream));
        }
    }

    fn open_stream(&mut self, client: usize) {
        let now = self.now;
        let is_silent = self.strikes(self.net.silent);
        let process = &mut self.clients[client];
        process.streams += 1;
        let pipe = Pipe { member: process.prefers, up: now, down: now };
        let number = process.streams;
        process.watches = Some(WatchPipe { number, pipe, asked: BTreeMap::new(), is_silent, is_ending: false });
        if is_silent {
            self.log(|_| format!("FAULT the watch stream {number} of client {client} is silent"));
        }
        if self.cluster.members[pipe.member].down_until > now {
            let at = now + self.one_way();
            self.at(at, Event::Silence { client, member: pipe.member });
        }
    }

    fn send_up(&mut self, client: usize, body: Up) {
        let (now, delay) = (self.now, self.one_way());
        let Some(watches) = self.clients[client].watches.as_mut().filter(|watches| !watches.is_ending) else { return };
        watches.pipe.up = watches.pipe.up.max(now + delay);
        let pipe = watches.pipe;
        self.request(pipe.up, client, pipe.member, body);
    }

    /// Whether this is the stream that the client has now.
    pub(crate) fn is_current(&self, client: usize, stream: u32) -> bool {
        let process = &self.clients[client];
        process.is_alive && process.watches.as_ref().is_some_and(|watches| watches.number == stream)
    }

    /// Sends something down a watch stream.
    pub(crate) fn tell(&mut self, client: usize, stream: u32, reply: WatchReply) {
        let (now, delay) = (self.now, self.one_way());
        if !self.is_current(client, stream) {
            return;
        }
        let Some(watches) = self.clients[client].watches.as_mut().filter(|watches| !watches.is_silent) else { return };
        watches.pipe.down = watches.pipe.down.max(now + delay);
        let (at, member) = (watches.pipe.down, watches.pipe.member);
        self.parcel(at, client, Some(member), Down::Watch(stream, reply));
    }

    /// The client reads something that concerns what it keeps of the stream.
    pub(crate) fn note(&mut self, client: usize, reply: &WatchReply) {
        let Some(watches) = &mut self.clients[client].watches else { return };
        match reply {
            WatchReply::Created { id, .. } => {
                watches.asked.entry(*id).and_modify(|asked| *asked = None);
            }
            WatchReply::Cancelled { id, .. } => drop(watches.asked.remove(id)),
            WatchReply::Events { .. } => {}
        }
    }

    /// The stream is at its end.
    pub(crate) fn end_watches(&mut self, client: usize) {
        let Some(watches) = self.clients[client].watches.take() else { return };
        self.cluster.watches.retain(|watch| (watch.client, watch.stream) != (client, watches.number));
        for id in watches.asked.into_keys() {
            let error = StoreError::refused(ErrorKind::Unavailable, "the watch stream ended");
            self.reach(client, Pent::Input(Input::Watch(WatchReply::Cancelled { id, error })));
        }
    }
}
