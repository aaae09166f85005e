//! Operations for the tests of the package: they need no server, and show that its plumbing holds when things go wrong.

/// Only in builds with the feature `testing`.
#[pyo3::pymodule]
pub mod testing {
    use leasehold_bridge::testing::{self, Stage};
    use pyo3::prelude::*;

    use crate::call::Call;

    /// Brings back `text`.
    #[pyfunction]
    fn echo(text: String) -> Call {
        Call::new(move |sink| testing::echo(text, sink))
    }

    /// Fails with the code of this number.
    #[pyfunction]
    fn fail(number: i32) -> Call {
        Call::new(move |sink| testing::fail(number, sink))
    }

    /// Panics: in the call that starts it (0), in its task (1), or later there (2).
    #[pyfunction]
    fn panic(stage: u8) -> Call {
        let stage = match stage {
            0 => Stage::Start,
            1 => Stage::Task,
            _ => Stage::Later,
        };
        Call::new(move |sink| testing::panic(stage, sink))
    }

    /// Does nothing until it is cancelled.
    #[pyfunction]
    fn never() -> Call {
        Call::new(|sink| testing::never(None, sink))
    }
}
