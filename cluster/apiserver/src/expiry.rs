//! Expiry of Events after their time to live, as `--event-ttl` of kube-apiserver. Upstream uses
//! leases of etcd.
//!
//! history of Events -> time of the last write of each -> sleep until the oldest expires ->
//! deletion, which watches see

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::Server;
use crate::registry::Registered;
use crate::store::{Change, EventKind};

/// Changes per read of the history.
const BATCH: usize = 256;

/// Expiry times of Events, by the revision of their last write. This is also the order of expiry.
struct Expiry {
    server: Arc<Server>,
    events: Arc<Registered>,
    ttl: Duration,
    seen: u64,
    due: BTreeMap<u64, (Instant, Arc<str>)>,
}

/// Deletes Events that were last written longer than `ttl` ago, until dropped. Events that exist at
/// the start count as written then.
pub async fn expire_events(server: Arc<Server>, ttl: Duration) {
    // `events.k8s.io` serves the same store.
    let Some(events) = server.registry.find("", "v1", "events") else {
        return;
    };
    let mut committed = events.store.committed();
    let mut expiry = Expiry {
        server,
        events,
        ttl,
        seen: 0,
        due: BTreeMap::new(),
    };
    expiry.relist();
    loop {
        committed.borrow_and_update();
        expiry.catch_up();
        expiry.remove_due();
        let oldest = expiry.due.first_key_value().map(|(_, (at, _))| *at);
        let oldest_is_due = async {
            match oldest {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = oldest_is_due => {}
            changed = committed.changed() => if changed.is_err() { return },
        }
    }
}

impl Expiry {
    /// Reads the writes since the last call.
    fn catch_up(&mut self) {
        loop {
            let Ok((changes, complete)) =
                self.events
                    .store
                    .events_after(&self.server.revisions, self.seen, BATCH)
            else {
                return self.relist();
            };
            for change in &changes {
                if let Some(old) = &change.old {
                    self.due.remove(&old.revision);
                }
                if change.kind != EventKind::Deleted {
                    self.written(change.revision, change.object().key.clone());
                }
            }
            self.seen = complete;
            if changes.len() < BATCH {
                return;
            }
        }
    }

    /// Lists all Events, at the start and after the history was compacted. Events with a known
    /// revision keep their expiry time.
    fn relist(&mut self) {
        let mut known = std::mem::take(&mut self.due);
        let stored = self.events.store.list(&self.server.revisions, "");
        for object in stored.objects {
            match known.remove(&object.revision) {
                Some(entry) => drop(self.due.insert(object.revision, entry)),
                None => self.written(object.revision, object.key.clone()),
            }
        }
        self.seen = stored.revision;
    }

    /// Sets the expiry time of an Event that was written now.
    fn written(&mut self, revision: u64, key: Arc<str>) {
        // A time to live beyond the range of the clock never expires.
        if let Some(at) = Instant::now().checked_add(self.ttl) {
            self.due.insert(revision, (at, key));
        }
    }

    /// Deletes all expired Events.
    fn remove_due(&mut self) {
        let now = Instant::now();
        while let Some(oldest) = self.due.first_entry()
            && oldest.get().0 <= now
        {
            let (revision, (_, key)) = oldest.remove_entry();
            let Some(object) = self
                .events
                .store
                .get(&key)
                .filter(|object| object.revision == revision)
            else {
                continue;
            };
            // The commit fails if another write changed or deleted the Event in between. Then the
            // Event has a new expiry time, or is gone.
            let _ = self.events.store.commit(
                &self.events.resource,
                &self.server.revisions,
                &key,
                Some(&object),
                Change::Remove,
            );
        }
    }
}
