//! Informers as those see them who care only for metadata, of types known at run time.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Change;
use super::shared::SharedInformer;
use super::source::ListWatch;
use crate::object::{Meta, Object, ObjectMetadata};
use crate::sync::{Mutex, MutexGuard};
use crate::tasks::{CancellationToken, Tasks};

/// A change, as far as metadata tells.
#[derive(Debug, Clone, Copy)]
pub enum MetadataChange<'a> {
    /// A new object.
    Added(&'a Meta),
    /// An object changed. The UIDs may differ: a recreation during a gap arrives so.
    Updated {
        /// What was known.
        old: &'a Meta,
        /// What is now.
        new: &'a Meta,
    },
    /// An object is gone; its last known state.
    Deleted(&'a Meta),
}

type Handler = Box<dyn Fn(MetadataChange<'_>) + Send + Sync>;

/// An informer whose type does not matter.
pub(super) trait Followed: Send + Sync {
    fn add(&self, handler: Handler);
    fn on_rewind(&self, forget: Box<dyn Fn() + Send + Sync>);
    fn synced(&self) -> watch::Receiver<bool>;
    fn told_version(&self) -> u64;
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

    fn told_version(&self) -> u64 {
        self.shared.told_version()
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

    fn told_version(&self) -> u64 {
        self.informer.shared.told_version()
    }
}

/// The metadata of all objects of one resource. Cheap to clone; clones are one informer.
#[derive(Clone)]
pub struct MetadataInformer {
    followed: Arc<dyn Followed>,
    /// Unless the watch belongs to an informer of whole objects, whose life is not ours to end.
    own: Option<Arc<Own>>,
}

/// An informer that sees only metadata and may be stopped and started again.
pub(super) struct Own {
    informer: SharedInformer<ObjectMetadata>,
    source: Arc<dyn ListWatch>,
    /// Ends the task that runs or is about to.
    running: Mutex<Option<CancellationToken>>,
    /// Held by the task that follows the server: one that was stopped may still be at its last
    /// step.
    following: tokio::sync::Mutex<()>,
    /// Whether the task that was started last has synced. It is set while `running` is locked, so
    /// that what an earlier task still does is not taken for it.
    synced: watch::Sender<bool>,
}

impl Own {
    pub(super) fn new(
        informer: SharedInformer<ObjectMetadata>,
        source: Arc<dyn ListWatch>,
    ) -> Self {
        let (running, following) = (Mutex::default(), tokio::sync::Mutex::default());
        Self {
            informer,
            source,
            running,
            following,
            synced: watch::Sender::new(false),
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let _only = self.following.lock().await;
        let shared = &self.informer.shared;
        let tell = async {
            let mut synced = shared.synced();
            loop {
                // The sender lives as long as the informer, so there is no other end.
                let _ = synced.wait_for(|synced| *synced).await;
                {
                    let _running = self.running();
                    self.synced.send_replace(!stop.is_cancelled());
                }
                let _ = synced.changed().await;
            }
        };
        tokio::select! {
            () = self.informer.clone().run(Arc::clone(&self.source), Duration::ZERO, stop.clone()) => {}
            () = tell => {}
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

    /// As [`SharedInformer::add_handler`]: it first hears of everything that is there, must not
    /// block, and stays.
    pub fn add_handler(&self, handler: impl Fn(MetadataChange<'_>) + Send + Sync + 'static) {
        self.followed.add(Box::new(handler));
    }

    /// As [`SharedInformer::on_rewind`].
    pub fn on_rewind(&self, forget: impl Fn() + Send + Sync + 'static) {
        self.followed.on_rewind(Box::new(forget));
    }

    /// Follows the server as a task of `tasks` until [`MetadataInformer::stop`] or `stop`. Nothing
    /// where it does already, or where the watch is shared with an informer of whole objects. After
    /// a stop, the first state is told as the difference to the last one known.
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

    /// Ends the watch and keeps what is known. Nothing where the watch is shared with an informer
    /// of whole objects.
    pub fn stop(&self) {
        let Some(own) = &self.own else { return };
        let mut running = own.running();
        if let Some(token) = running.take() {
            token.cancel();
            own.synced.send_replace(false);
        }
    }

    /// Whether the first state since the start is known and all handlers have heard of it.
    pub fn is_synced(&self) -> bool {
        *self.followed.synced().borrow()
    }

    /// The version up to which all handlers have heard of everything; 0 before the first state.
    pub fn told_version(&self) -> u64 {
        self.followed.told_version()
    }

    /// Waits until it is synced.
    pub async fn synced(&self) {
        // The sender lives as long as the informer, so there is no other end.
        let _ = self.followed.synced().wait_for(|synced| *synced).await;
    }
}
