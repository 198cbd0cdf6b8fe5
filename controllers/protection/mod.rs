//! Keeps objects until nothing uses them, by a finalizer.
//!
//! object -> [`protection`]: the finalizer is missing, holds a deleted object, or is settled
//! -> [`Finalizers::settle`] -> PUT with the resource version of the decision
//!
//! | controller | object | users |
//! |---|---|---|
//! | [`claims`] | PersistentVolumeClaim | pods on nodes |
//! | [`volumes`] | PersistentVolume | its claim, by the phase `Bound` |
//! | [`classes`] | VolumeAttributesClass | claims and volumes |
//! | [`pod_groups`] | PodGroup | pods that have not finished |
//!
//! The admission plugins of the API server set the finalizers at creation. The first three
//! controllers also set those of older objects.
//!
//! Upstream: `pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}` and
//! `pkg/controller/scheduling/podgroupprotection`. Differences:
//!
//! - A sync waits until the cache shows the last write of its object.
//! - Before a class or PodGroup loses its finalizer, users are also listed from the API server, as
//!   upstream does for claims alone. Upstream reads caches there, which may lack a user.
//! - If only the API server has a user, the object is looked at again a second later. The user may
//!   be gone before a cache shows it, and then no event would come.

pub mod claims;
pub mod classes;
pub mod pod_groups;
#[cfg(test)]
mod tests;
pub mod volumes;

use std::future::Future;
use std::marker::PhantomData;

use serde_json::{Map, Value, json};
use steersman_client::live::{self, LiveError};
use steersman_client::writes::with_member;
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{DecodeError, Document, Object, ObjectKey};
use steersman_runtime::consistency::{RECHECK, TrackedCache};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::workers::Requeue;
use steersman_runtime::workqueue::WorkQueue;

/// Number of workers of each controller, as upstream, which has no flags for them.
const WORKERS: usize = 1;

/// A type with a protecting finalizer.
trait Protected: Object {
    /// Name of the finalizer.
    const FINALIZER: &'static str;

    /// The served object.
    fn document(&self) -> &Document;
}

/// The state of the finalizer of an object. Upstream: `pkg/controller/util/protectionutil`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protection {
    /// The object is not deleted and lacks it.
    ///
    /// Upstream: `NeedToAddFinalizer`.
    Missing,
    /// The object is deleted and has it.
    ///
    /// Upstream: `IsDeletionCandidate`.
    Holds,
    /// Nothing is to do.
    ///
    /// The API server would refuse a new finalizer on a deleted object.
    Settled,
}

/// The state of the finalizer of `object`.
fn protection<T: Protected>(object: &T) -> Protection {
    let finalizers = object.document().finalizers();
    let has = finalizers.iter().any(|name| name == T::FINALIZER);
    match (object.meta().is_terminating(), has) {
        (false, false) => Protection::Missing,
        (true, true) => Protection::Holds,
        _ => Protection::Settled,
    }
}

/// Queues objects whose finalizer is to be set or may be removed.
///
/// Upstream: `pvAddedUpdated` and its like. The deletion of an object needs no sync, because its
/// finalizer was removed before.
fn watch_finalizers<T: Protected>(objects: &SharedInformer<T>, queue: &WorkQueue<ObjectKey>) {
    let queue = queue.clone();
    objects.add_handler(move |change| match change {
        Change::Added { object, .. } | Change::Updated { new: object, .. } => {
            if protection(&**object) != Protection::Settled {
                queue.add(object.key());
            }
        }
        Change::Deleted { .. } => {}
    });
}

/// The answer to a search for users of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// There are none.
    None,
    /// The cache has one.
    ///
    /// An event of that user will come.
    Cached,
    /// The API server has one that the cache lacks.
    ///
    /// No event is sure to come, so the object is looked at again after `RECHECK`.
    Uncached,
}

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    /// The users of an object could not be listed.
    #[error("live list of {plural} failed: {source}")]
    List {
        plural: &'static str,
        source: LiveError,
    },
    /// The object could not be written.
    #[error("{0}")]
    Write(#[source] ApiError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// The objects of type `T` in `namespace` that `keep` accepts, and the version of their list.
async fn list<T: Object>(
    client: &ApiClient,
    namespace: &str,
    keep: impl Fn(&T) -> bool,
) -> Result<live::Live<T>, SyncError> {
    let listed = live::kept(client, namespace, keep).await;
    listed.map_err(|source| SyncError::List {
        plural: &T::RESOURCE.plural,
        source,
    })
}

/// Sets and removes finalizers.
///
/// Upstream: `addFinalizer` and `removeFinalizer` of each package.
struct Finalizers<T> {
    client: ApiClient,
    cache: TrackedCache,
    object: PhantomData<fn(T)>,
}

impl<T: Protected> Finalizers<T> {
    fn new(client: ApiClient, cache: TrackedCache) -> Self {
        let object = PhantomData;
        Self {
            client,
            cache,
            object,
        }
    }

    /// Sets a missing finalizer. Removes the finalizer of a deleted object if `users` finds none.
    ///
    /// The search runs only for a deleted object, as it may cost a list. Other finalizers keep their
    /// order.
    async fn settle(
        &self,
        key: &ObjectKey,
        object: &T,
        users: impl Future<Output = Result<Use, SyncError>>,
    ) -> Result<Requeue, SyncError> {
        let mut finalizers = object.document().finalizers();
        match protection(object) {
            Protection::Settled => return Ok(Requeue::Never),
            Protection::Missing => finalizers.push(T::FINALIZER.to_owned()),
            Protection::Holds => match users.await? {
                Use::None => finalizers.retain(|name| name != T::FINALIZER),
                Use::Cached => return Ok(Requeue::Never),
                Use::Uncached => return Ok(Requeue::After(RECHECK)),
            },
        }
        // The PUT has the resource version of `object`. A conflict means that the object has changed,
        // for example to the phase `Bound`, and the next sync decides anew.
        let metadata = with_finalizers(object.document(), &finalizers);
        let body = with_member::<T>(object.document(), "metadata", &metadata);
        let target = Target::of::<T>(object.meta());
        self.record(key, self.client.replace(target, &body).await)?;
        Ok(Requeue::Never)
    }

    /// Records the answer to a write for `key`.
    ///
    /// The next sync for `key` waits until the cache shows the write, so it never sees the old
    /// finalizers.
    fn record(
        &self,
        key: &ObjectKey,
        answer: Result<impl AsRef<[u8]>, ApiError>,
    ) -> Result<(), SyncError> {
        let answer = answer.map_err(SyncError::Write)?;
        let recorded = self.cache.wrote_answer(key, answer.as_ref());
        recorded.map_err(SyncError::Answer)
    }
}

/// The `metadata` of `document` with other finalizers.
///
/// An empty list is left out, as Go's encoder does.
fn with_finalizers(document: &Document, finalizers: &[String]) -> Map<String, Value> {
    let mut metadata = match document.to_object().remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    metadata
}
