//! The steps of the small cluster: which there are, and which can come next.

use leasehold::{
    hub::{RpcId, StreamId},
    terms::Ticket,
};

use super::{Call, Foreign, State, Task};

/// A step from one state to the next. The first number is the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The start.
    Root,
    /// A caller asks for the lock.
    Start(u8, Ticket),
    /// A caller gives up.
    Cancel(u8, Ticket),
    /// A caller releases.
    Release(u8, Ticket),
    /// The client closes.
    Close(u8),
    /// A request takes effect.
    Apply(u8, RpcId),
    /// A reply arrives.
    Reply(u8, RpcId),
    /// A call breaks; its request is still on its way, or its reply is lost.
    Reset(u8, RpcId),
    /// A call breaks and its request is lost.
    Lose(u8, RpcId),
    /// A request takes effect whose client has given it up.
    ApplyLate(u8),
    /// The next message of the watch stream reaches etcd.
    WatchUp(u8),
    /// The next message of the watch stream reaches the client.
    WatchDown(u8),
    /// The watch stream breaks.
    Break(u8),
    /// The next renewal of a stream reaches etcd.
    RenewUp(u8, StreamId),
    /// The next acknowledgement of a stream reaches the client.
    RenewDown(u8, StreamId),
    /// The foreign contender joins.
    Join,
    /// The foreign contender leaves.
    Leave,
    /// An administrator deletes the first, second … contender's key.
    Delete(u8),
    /// Time jumps to the end of the next lease.
    Expire,
    /// Time passes until the next timer.
    Tick,
    /// A client looks at its timers.
    Wake(u8),
}

impl State {
    /// Every step that can come next.
    pub fn steps(&self, out: &mut Vec<Step>) {
        let budget = self.budget;
        for ((client, rpc), call) in &self.wires.calls {
            match call {
                Call::Sent(_) => {
                    out.push(Step::Apply(*client, *rpc));
                    if budget.losses > 0 {
                        out.push(Step::Lose(*client, *rpc));
                    }
                }
                Call::Answered(_) => out.push(Step::Reply(*client, *rpc)),
            }
            if budget.resets > 0 {
                out.push(Step::Reset(*client, *rpc));
            }
        }
        out.extend((0..self.wires.late.len()).map(|n| Step::ApplyLate(n as u8)));
        out.extend(self.wires.renew_up.keys().map(|(client, stream)| Step::RenewUp(*client, *stream)));
        out.extend(self.wires.renew_down.keys().map(|(client, stream)| Step::RenewDown(*client, *stream)));
        for client in 0..2_u8 {
            let node = &self.nodes[client as usize];
            if !self.wires.watch_up[client as usize].is_empty() {
                out.push(Step::WatchUp(client));
            }
            if !self.wires.watch_down[client as usize].is_empty() {
                out.push(Step::WatchDown(client));
            }
            if budget.breaks > 0 && !self.wires.watches[client as usize].is_empty() {
                out.push(Step::Break(client));
            }
            if node.hub.wake().is_some_and(|at| at <= self.now) {
                out.push(Step::Wake(client));
            }
            if node.is_closing {
                continue;
            }
            if budget.closes > 0 {
                out.push(Step::Close(client));
            }
            let mut has_unasked = false;
            for (n, task) in node.tasks.iter().enumerate() {
                let ticket = Ticket(n as u64);
                match task {
                    // The callers of one client are alike: they come in their order.
                    Task::Unasked if !has_unasked => {
                        has_unasked = true;
                        out.push(Step::Start(client, ticket));
                    }
                    Task::Asked if budget.cancels > 0 => out.push(Step::Cancel(client, ticket)),
                    Task::Holds { .. } => out.push(Step::Release(client, ticket)),
                    _ => {}
                }
            }
        }
        match self.foreign {
            Foreign::Absent => out.push(Step::Join),
            Foreign::Stands => out.push(Step::Leave),
            Foreign::Gone => {}
        }
        if budget.deletions > 0 {
            out.extend((0..self.contenders().len()).map(|n| Step::Delete(n as u8)));
        }
        if budget.expiries > 0 && self.etcd.kv.next_expiry().is_some() {
            out.push(Step::Expire);
        }
        if budget.ticks > 0 && self.next_timer().is_some() {
            out.push(Step::Tick);
        }
    }

    /// Whether nothing is left to happen but faults and time.
    pub fn is_quiet(&self, steps: &[Step]) -> bool {
        steps.iter().all(|step| {
            matches!(
                step,
                Step::Break(_) | Step::Delete(_) | Step::Expire | Step::Tick | Step::Cancel(..) | Step::Close(_)
            )
        })
    }
}
