//! Free ports on loopback.

use std::net::{Ipv4Addr, TcpListener};

use crate::Error;

/// Below the range from which Linux takes the local ports of outgoing connections (32768 up): such a connection
/// cannot take the port of a member that is down for a restart.
const LOWEST: u16 = 12_000;
const COUNT: u16 = 20_000;
const TRIES: usize = 1_000;

/// `count` different ports that nobody listened on just now. Somebody else may be faster: start anew then.
pub(crate) fn free(count: usize) -> Result<Vec<u16>, Error> {
    // Every listener stays until all are found, so that no port is given twice.
    let mut listeners = Vec::new();
    let mut ports = Vec::new();
    for _ in 0..TRIES {
        if ports.len() == count {
            return Ok(ports);
        }
        let random = getrandom::u32().map_err(|error| Error::Usage(format!("no random numbers here: {error}")))?;
        let port = LOWEST + (random % u32::from(COUNT)) as u16;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            listeners.push(listener);
            ports.push(port);
        }
    }
    Err(Error::Timeout(format!("found no {count} free ports on loopback in {TRIES} tries")))
}
