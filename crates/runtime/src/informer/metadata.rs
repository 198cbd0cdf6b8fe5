//! Metadata informers, such as those of the garbage collector: their types are known only at run
//! time, and they cache only metadata.
//!
//! A type with a shared informer uses its watch. Another type gets a watch of its own, with
//! `PartialObjectMetadata`, which can stop and start again. Upstream: `client-go/metadata` and
//! `client-go/metadata/metadatainformer`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use steersman_objects::{Meta, Object, ObjectMetadata};
use steersman_values::sync::{Mutex, MutexGuard};

use super::Change;
use super::shared::SharedInformer;
use super::source::ListWatch;
use crate::tasks::{CancellationToken, Tasks};

/// A change of an object's metadata.
#[derive(Debug, Clone, Copy)]
pub enum MetadataChange<'a> {
    /// A new object.
    Added(&'a Meta),
    /// A changed object. The UIDs differ after a recreation during a gap of the watch.
    Updated {
        /// The previous metadata.
        old: &'a Meta,
        /// The new metadata.
        new: &'a Meta,
    },
    /// A deleted object, with its last known metadata.
    Deleted(&'a Meta),
}

type Handler = Box<dyn Fn(MetadataChange<'_>) + Send + Sync>;

/// An informer without its object type. Handlers of all types see metadata only.
pub(super) trait Followed: Send + Sync {
    fn add(&self, handler: Handler);
    fn on_rewind(&self, forget: Box<dyn Fn() + Send + Sync>);
    fn synced(&self) -> watch::Receiver<bool>;
    fn observed_version(&self) -> u64;
}

impl<T: Object> Followed for SharedInformer<T> {
    fn add(&self, handler: Handler) {
        self.add_handler(move |change| {
            handler(match change {
                Change::Added { object, .. } => MetadataChange::Added(object.meta()),
                Change::Updated { old, new } => MetadataChange::Updated {
                    old: old.meta(),
                    new: new.meta(),
                },
                Change::Deleted { object, .. } => MetadataChange::Deleted(object.meta()),
            });
        });
    }

    fn on_rewind(&self, forget: Box<dyn Fn() + Send + Sync>) {
        Self::on_rewind(self, forget);
    }

    fn synced(&self) -> watch::Receiver<bool> {
        self.shared.synced()
    }

    fn observed_version(&self) -> u64 {
        self.shared.observed_version()
    }
}

impl Followed for Own {
    fn add(&self, handler: Handler) {
        self.informer.add(handler);
    }

    fn on_rewind(&self, forget: Box<dyn Fn() + Send + Sync>) {
        self.informer.on_rewind(forget);
    }

    fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    fn observed_version(&self) -> u64 {
        self.informer.shared.observed_version()
    }
}

/// The metadata of all objects of one resource. Cheap to clone; clones share one informer.
#[derive(Clone)]
pub struct MetadataInformer {
    followed: Arc<dyn Followed>,
    /// The informer's own watch. `None` if a shared informer owns the watch: it must not be stopped
    /// here.
    own: Option<Arc<Own>>,
}

/// An informer of metadata with its own watch. It can stop and start again.
pub(super) struct Own {
    informer: SharedInformer<ObjectMetadata>,
    source: Arc<dyn ListWatch>,
    /// Stops the task that was started last.
    running: Mutex<Option<CancellationToken>>,
    /// Locked by the task that watches. A stopped task may still run its last step, and the next
    /// task must wait for it.
    following: tokio::sync::Mutex<()>,
    /// True if the task that was started last has synced. It is set while `running` is locked, so
    /// that an earlier task cannot set it.
    synced: watch::Sender<bool>,
}

impl Own {
    pub(super) fn new(
        informer: SharedInformer<ObjectMetadata>,
        source: Arc<dyn ListWatch>,
    ) -> Self {
        let running = Mutex::default();
        let following = tokio::sync::Mutex::default();
        Self {
            informer,
            source,
            running,
            following,
            synced: watch::Sender::new(false),
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<CancellationToken>> {
        self.running.lock()
    }

    /// Watches until `stop`, and publishes whether the informer is synced.
    async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let _only = self.following.lock().await;
        let shared = &self.informer.shared;
        // The flag of `shared` may fall and rise again, so the loop follows each of its changes.
        let publish_synced = async {
            let mut synced = shared.synced();
            loop {
                // This cannot fail: the sender lives as long as the informer.
                let _ = synced.wait_for(|synced| *synced).await;
                {
                    // Under this lock `stop` cannot come in between: it would be overwritten by the
                    // late sync.
                    let _running = self.running();
                    self.synced.send_replace(!stop.is_cancelled());
                }
                let _ = synced.changed().await;
            }
        };
        tokio::select! {
            // Without resync: the collector keeps a graph, and needs no repetitions.
            () = self.informer.clone().run(Arc::clone(&self.source), Duration::ZERO, stop.clone()) => {}
            () = publish_synced => {}
        }
        shared.stopped();
        self.synced.send_replace(false);
    }
}

impl MetadataInformer {
    pub(super) fn over(followed: Arc<dyn Followed>) -> Self {
        Self {
            followed,
            own: None,
        }
    }

    pub(super) fn own(own: &Arc<Own>) -> Self {
        Self {
            followed: Arc::clone(own) as Arc<dyn Followed>,
            own: Some(Arc::clone(own)),
        }
    }

    /// Like [`SharedInformer::add_handler`]: the handler first gets all known objects. It must not
    /// block, and it stays for good.
    pub fn add_handler(&self, handler: impl Fn(MetadataChange<'_>) + Send + Sync + 'static) {
        self.followed.add(Box::new(handler));
    }

    /// Like [`SharedInformer::on_rewind`].
    pub fn on_rewind(&self, forget: impl Fn() + Send + Sync + 'static) {
        self.followed.on_rewind(Box::new(forget));
    }

    /// Starts the watch as a task of `tasks`, until [`MetadataInformer::stop`] or `stop`.
    ///
    /// It has no effect if the watch already runs, or if a shared informer owns it. After a
    /// restart, handlers get the difference to the last known state. A cancelled token counts as
    /// stopped, so a start after the end of an earlier `stop` works.
    pub fn start(&self, tasks: &Tasks, stop: &CancellationToken) {
        let Some(own) = &self.own else { return };
        let mut running = own.running();
        if running.as_ref().is_some_and(|token| !token.is_cancelled()) {
            return;
        }
        let token = stop.child_token();
        *running = Some(token.clone());
        tasks.spawn(
            format!("metadata informer {}", own.informer.shared.resource),
            Arc::clone(own).follow(token),
        );
    }

    /// Ends the watch and keeps the last known state. It has no effect if a shared informer owns
    /// the watch. Handlers see no deletions because of it. Objects that go meanwhile are reported
    /// after the restart.
    pub fn stop(&self) {
        let Some(own) = &self.own else { return };
        let mut running = own.running();
        if let Some(token) = running.take() {
            token.cancel();
            own.synced.send_replace(false);
        }
    }

    /// True if all handlers were called for the first list since the last start.
    pub fn is_synced(&self) -> bool {
        *self.followed.synced().borrow()
    }

    /// The resource version up to which all handlers were called. 0 before the first list.
    pub fn observed_version(&self) -> u64 {
        self.followed.observed_version()
    }

    /// Waits until [`MetadataInformer::is_synced`].
    pub async fn synced(&self) {
        // This cannot fail: the sender lives as long as the informer.
        let _ = self.followed.synced().wait_for(|synced| *synced).await;
    }
}
