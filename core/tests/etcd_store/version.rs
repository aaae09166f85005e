//! The warning about servers that may acknowledge the renewal of a revoked lease.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use leasehold_etcd::{Cluster, Version};
use tokio::time::timeout;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::{PATIENCE, call, range, started, store_of};

/// Collects the warnings of leasehold, each as its fields.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == Level::WARN && metadata.target().starts_with("leasehold::")
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn an_old_server_is_warned_of_after_the_first_answer() {
    let Some(cluster) = started(Cluster::builder().version(Version::V3_4)).await else { return };
    let warnings = Warnings::default();
    // The runtime of a test has one thread, so what the store does in the background is told here as well.
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let store = store_of(&cluster);
    call(&store, range("a")).await.unwrap();
    let told = async {
        while warnings.0.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, told).await.expect("no warning");
    let told = warnings.0.lock().unwrap().concat();
    let version = format!("version={:?}", cluster.release().to_string());
    assert!(told.contains(&version) && told.contains(&cluster.endpoint(0)), "{told}");
    assert!(told.contains("revoked lease"), "{told}");
}
