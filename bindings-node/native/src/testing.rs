//! Operations of the bridge's own, for the tests of the package's plumbing. They need no server.

use leasehold_bridge::{live, testing};
use napi::bindgen_prelude::External;
use napi_derive::napi;

use crate::{Result, as_number, environment::Environment};

/// What lives in this process.
#[napi(object, object_from_js = false)]
pub struct Alive {
    /// Clients that are not freed.
    pub clients: f64,
    /// Guards that are not freed.
    pub guards: f64,
    /// Operations that are not completed.
    pub operations: f64,
    /// Completion queues that are not freed.
    pub queues: f64,
}

/// Counts what lives in this process.
#[napi]
pub fn alive() -> Alive {
    let live = live::count();
    Alive {
        clients: as_number(live.clients),
        guards: as_number(live.guards),
        operations: as_number(live.operations),
        queues: as_number(live.queues),
    }
}

/// A value that native code made, and that is no guard.
#[napi(ts_return_type = "object")]
pub fn test_external() -> External<u64> {
    External::new(0)
}

#[napi]
impl Environment {
    /// Brings back `text`.
    #[napi]
    pub fn test_echo(&self, tag: f64, text: String) -> Result<f64> {
        self.shared.start(tag, |sink| testing::echo(text, sink))
    }

    /// Fails with the code of this number.
    #[napi]
    pub fn test_fail(&self, tag: f64, code: i32) -> Result<f64> {
        self.shared.start(tag, |sink| testing::fail(code, sink))
    }

    /// Panics: 0 at the start, 1 in its task, 2 later in its task.
    #[napi]
    pub fn test_panic(&self, tag: f64, stage: u32) -> Result<f64> {
        let stage = [testing::Stage::Start, testing::Stage::Task, testing::Stage::Later][stage.min(2) as usize];
        self.shared.start(tag, |sink| testing::panic(stage, sink))
    }

    /// Does nothing until it is cancelled.
    #[napi]
    pub fn test_never(&self, tag: f64) -> Result<f64> {
        self.shared.start(tag, |sink| testing::never(None, sink))
    }
}
