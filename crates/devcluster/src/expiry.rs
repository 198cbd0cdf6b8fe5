//! Events leave some time after their last write, as with kube-apiserver's `--event-ttl`, where
//! etcd's leases do it.
//!
//! history of Events -> when each was written last -> sleep until the oldest is due -> removed,
//! which watches see as a deletion

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::kinds::Registered;
use crate::rest::Server;
use crate::store::{Change, EventKind};

/// Changes read at once.
const BATCH: usize = 256;

/// What is stored, by the revision of its last write, which is the order in which it is due.
struct Expiry {
    server: Arc<Server>,
    events: Arc<Registered>,
    ttl: Duration,
    seen: u64,
    due: BTreeMap<u64, (Instant, Arc<str>)>,
}

/// Removes Events that were last written longer than `ttl` ago, until it is dropped. One that is
/// there before is as old as this.
pub(crate) async fn expire_events(server: Arc<Server>, ttl: Duration) {
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
    expiry.begin_anew();
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
    /// Learns what was written since the last time.
    fn catch_up(&mut self) {
        loop {
            let Ok((changes, complete)) =
                self.events
                    .store
                    .events_after(&self.server.revisions, self.seen, BATCH)
            else {
                return self.begin_anew();
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

    /// Goes by what is stored, when the history does not tell any more; what is known already keeps
    /// its time.
    fn begin_anew(&mut self) {
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

    fn written(&mut self, revision: u64, key: Arc<str>) {
        // Beyond what the clock can count is never.
        if let Some(at) = Instant::now().checked_add(self.ttl) {
            self.due.insert(revision, (at, key));
        }
    }

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
            // Who was faster wrote it anew, which gives it another term, or deleted it.
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
