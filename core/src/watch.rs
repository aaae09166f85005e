//! The watches of one client: all on one stream, which is opened when the first is needed and opened anew after it broke.
//!
//! A watch that broke is not resumed: its queue is told, opens another one from now on, and reads. See `queue/view.rs`.

use std::collections::BTreeMap;

use crate::{
    queue::view::SILENCE,
    store::{ErrorKind, Keys, Store, StoreError, WatchId, WatchReply, WatchRequest, WatchStream},
};

use tokio::{sync::mpsc, time::Instant};

/// One stream of watches and what stands on it.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    stream: Option<Stream>,
    /// Counts the streams, so that the last words of a broken one are not taken for the next one's.
    generation: u64,
}

#[derive(Debug)]
struct Stream {
    /// `None` once it is to end; its last words are on their way.
    requests: Option<mpsc::UnboundedSender<WatchRequest>>,
    /// Since when each watch has been asked for; `None` once it stands.
    watches: BTreeMap<WatchId, Option<Instant>>,
}

impl Stream {
    fn send(&self, request: WatchRequest) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(request);
        }
    }
}

/// Something that came on the stream of a generation; `None` is its end.
pub(crate) type FromStream = (u64, Option<Result<WatchReply, StoreError>>);

impl Watches {
    /// Opens a watch. What it tells is sent to `replies`.
    pub(crate) fn create(&mut self, id: WatchId, keys: Keys, store: &dyn Store, report: impl FnOnce(u64, WatchStream)) {
        if self.stream.is_none() {
            let mut stream = store.watches();
            self.generation += 1;
            let (requests, _) = mpsc::unbounded_channel();
            let requests = std::mem::replace(&mut stream.requests, requests);
            report(self.generation, stream);
            self.stream = Some(Stream { requests: Some(requests), watches: BTreeMap::new() });
        }
        if let Some(stream) = &mut self.stream {
            stream.watches.insert(id, Some(Instant::now()));
            // A stream that is gone already reports its end, and with it the end of this watch.
            stream.send(WatchRequest::Create(id, keys));
        }
    }

    /// Closes a watch.
    pub(crate) fn cancel(&mut self, id: WatchId) {
        if let Some(stream) = &mut self.stream
            && let Some(asked) = stream.watches.remove(&id)
        {
            stream.send(WatchRequest::Cancel(id));
            if asked.is_some_and(|at| at.elapsed() >= SILENCE) {
                // The next watch would be as silent on it.
                stream.requests = None;
            }
        }
    }

    /// Translates what came on a stream into what the machines are told: the end of the stream is the end of every watch on it.
    pub(crate) fn receive(&mut self, (generation, reply): FromStream) -> Vec<WatchReply> {
        if generation != self.generation {
            return Vec::new();
        }
        match reply {
            Some(Ok(reply)) => {
                let watches = self.stream.as_mut().map(|stream| &mut stream.watches);
                match (&reply, watches) {
                    (WatchReply::Created { id, .. }, Some(watches)) => {
                        watches.entry(*id).and_modify(|asked| *asked = None);
                    }
                    (WatchReply::Cancelled { id, .. }, Some(watches)) => drop(watches.remove(id)),
                    _ => {}
                }
                vec![reply]
            }
            ended => {
                let error = match ended {
                    Some(Err(error)) => error,
                    _ => StoreError::refused(ErrorKind::Unavailable, "the watch stream ended"),
                };
                let watches = self.stream.take().map(|stream| stream.watches).unwrap_or_default();
                watches.into_keys().map(|id| WatchReply::Cancelled { id, error: error.clone() }).collect()
            }
        }
    }
}
