//! Children of a test other than etcd, which must not outlive it either.

use std::process::{Child, Command};

use crate::{Error, background, error::Doing};

/// Starts `command` so that the kernel kills it when this process ends, however that ends.
///
/// # Errors
/// [`Error::Io`] when it cannot be started.
pub async fn spawn(mut command: Command) -> Result<Child, Error> {
    background::run(async move {
        background::tie(&mut command);
        command.spawn().doing(|| format!("could not start {}", command.get_program().display()))
    })
    .await
}
