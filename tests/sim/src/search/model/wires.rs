//! What is on its way in the small cluster: calls and watch streams, which arrive or break.

use leasehold::{
    hub::{Input, RpcId},
    store::{ErrorKind, StoreError, WatchReply},
};

use super::{Call, State};
use crate::rules::Verdict;

impl State {
    pub(super) fn apply_call(&mut self, client: u8, rpc: RpcId) -> Verdict {
        let Some(Call::Sent(request)) = self.wires.calls.get(&(client, rpc)).cloned() else { return Ok(()) };
        let mut result = None;
        self.write(|kv, now| result = Some(kv.call(now, &request)));
        self.wires.change(|wires| {
            if let Some(result) = result {
                wires.calls.insert((client, rpc), Call::Answered(result));
            }
        });
        Ok(())
    }

    pub(super) fn reply(&mut self, client: u8, rpc: RpcId, told: &mut Vec<String>) -> Verdict {
        match self.wires.change(|wires| wires.calls.remove(&(client, rpc))) {
            Some(Call::Answered(result)) => self.feed(client, Input::Reply(rpc, result), told),
            _ => Ok(()),
        }
    }

    pub(super) fn break_call(&mut self, client: u8, rpc: RpcId, goes_on: bool, told: &mut Vec<String>) -> Verdict {
        self.wires.change(|wires| {
            if let Some(Call::Sent(request)) = wires.calls.remove(&(client, rpc))
                && goes_on
            {
                wires.late.push(request);
            }
        });
        let error = StoreError::ambiguous(ErrorKind::Unavailable, "reset");
        self.feed(client, Input::Reply(rpc, Err(error)), told)
    }

    pub(super) fn watch_up(&mut self, client: u8) {
        let Some((id, keys)) = self.wires.change(|wires| wires.watch_up[client as usize].pop_front()) else { return };
        match keys {
            Some(keys) => {
                let revision = self.etcd.change(|etcd| {
                    etcd.watches.insert((client, id), keys);
                    etcd.kv.revision()
                });
                let created = WatchReply::Created { id, revision };
                self.wires.change(|wires| wires.watch_down[client as usize].push_back(created));
            }
            None => {
                self.etcd.change(|etcd| etcd.watches.remove(&(client, id)));
            }
        }
    }

    pub(super) fn break_watches(&mut self, client: u8, told: &mut Vec<String>) -> Verdict {
        self.etcd.change(|etcd| etcd.watches.retain(|(of, _), _| *of != client));
        let ids = self.wires.change(|wires| {
            wires.watch_up[client as usize].clear();
            wires.watch_down[client as usize].clear();
            std::mem::take(&mut wires.watches[client as usize])
        });
        for id in ids {
            let error = StoreError::refused(ErrorKind::Unavailable, "broken");
            self.feed(client, Input::Watch(WatchReply::Cancelled { id, error }), told)?;
        }
        Ok(())
    }
}
