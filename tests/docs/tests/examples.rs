//! Runs the Rust examples of the pages as they are printed, each on an etcd of its own. See `build.rs`.

use std::{cell::RefCell, fmt::Debug};

use leasehold_etcd::Cluster;

thread_local! {
    static ENDPOINT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What stands in an example for the address of its reader's etcd, with the options that follow it: of the same type as
/// the literal that it replaces.
fn etcd(options: &str) -> &'static str {
    ENDPOINT.with_borrow(|endpoint| format!("{endpoint}{options}").leak())
}

/// Runs the `main` of an example while an etcd lives.
fn with_etcd<T, E: Debug>(main: fn() -> Result<T, E>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cluster = runtime.block_on(Cluster::builder().start()).unwrap();
    ENDPOINT.set(cluster.endpoints()[0].clone());
    main().unwrap();
}

include!(concat!(env!("OUT_DIR"), "/examples.rs"));
