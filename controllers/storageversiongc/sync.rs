//! The syncs of both queues. All objects are read from the API server, because a stale cache could
//! remove the entry of a new server.
//!
//! Upstream: `processDeletedLease` and `syncStorageVersion` in `storageversiongc/gc_controller.go`.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use steersman_client::live::{self, LiveError};
use steersman_client::writes::{Delete, OnFailure, StatusError, write_status};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{DecodeError, Lease, Object, ObjectKey, StorageVersion};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Syncer};
use steersman_values::clock::Clock;

use super::status::remove_gone;

/// Namespace of identity Leases.
pub(super) const NAMESPACE: &str = "kube-system";

/// The label of identity Leases, and its value for this API server.
const LABEL: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// A Lease could not be read.
    ///
    /// The sync fails, because the server of the Lease may be alive. Upstream takes the entry away.
    #[error("{0}")]
    Lease(#[source] LiveError),
    /// A StorageVersion could not be read.
    #[error("{0}")]
    StorageVersion(#[source] LiveError),
    /// A StorageVersion could not be deleted.
    #[error("{0}")]
    Delete(#[source] ApiError),
    /// A status could not be written.
    #[error("{0}")]
    Status(#[source] StatusError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// Whether the Lease is the identity of an API server.
///
/// The label excludes Leases of other components, such as kubelets or aggregated API servers. Upstream:
/// the condition of `onDeleteLease`.
pub(super) fn is_identity(lease: &Lease) -> bool {
    let (key, value) = LABEL;
    lease.meta.namespace == *NAMESPACE
        && lease
            .meta
            .labels
            .get(key)
            .is_some_and(|found| *found == *value)
}

/// The parts that both loops share.
pub(super) struct StorageVersions {
    pub(super) client: ApiClient,
    pub(super) clock: Clock,
    /// The cache of StorageVersions. Syncs of a StorageVersion wait until it shows their last write.
    pub(super) cache: TrackedCache,
}

/// Syncs StorageVersions with an entry that has no Lease.
pub(super) struct OfStorageVersions(pub(super) Arc<StorageVersions>);

/// Syncs deleted Leases.
pub(super) struct OfLeases(pub(super) Arc<StorageVersions>);

impl ObjectSyncer for OfStorageVersions {
    type Object = StorageVersion;
    type Error = SyncError;

    async fn sync(
        &self,
        key: &ObjectKey,
        _cached: Arc<StorageVersion>,
    ) -> Result<Requeue, SyncError> {
        let Self(versions) = self;
        let live = live::object::<StorageVersion>(&versions.client, "", &key.name).await;
        let Some(version) = live.map_err(SyncError::StorageVersion)? else {
            return Ok(Requeue::Never);
        };
        let mut servers = HashSet::new();
        for entry in &version.status.storage_versions {
            let server = &*entry.api_server_id;
            let lease = live::object::<Lease>(&versions.client, NAMESPACE, server).await;
            if lease
                .map_err(SyncError::Lease)?
                .is_some_and(|lease| is_identity(&lease))
            {
                servers.insert(server);
            }
        }
        versions
            .keep(&version, |server| servers.contains(server))
            .await?;
        Ok(Requeue::Never)
    }
}

impl Syncer for OfLeases {
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        let Self(versions) = self;
        // A server that has restarted meanwhile has its Lease again, and keeps its entries.
        let lease = live::object::<Lease>(&versions.client, NAMESPACE, &key.name).await;
        if lease.map_err(SyncError::Lease)?.is_some() {
            return Ok(Requeue::Never);
        }
        let all = live::all::<StorageVersion>(&versions.client).await;
        let mut kept = Ok(());
        for version in all.map_err(SyncError::StorageVersion)?.objects {
            // After a failure, the others are written all the same.
            let written = versions.keep(&version, |server| *server != *key.name).await;
            kept = kept.and(written);
        }
        kept.map(|()| Requeue::Never)
    }
}

impl StorageVersions {
    /// Removes the entries of other servers than the live ones. A StorageVersion without entries is
    /// deleted, and one without changes stays as it is.
    async fn keep(
        &self,
        version: &StorageVersion,
        is_live: impl Fn(&str) -> bool,
    ) -> Result<(), SyncError> {
        let meta = &version.meta;
        let mut object = Value::Object(version.document.to_object());
        let status = &mut object["status"];
        match remove_gone(status, meta.generation, self.clock.now(), is_live) {
            None => Ok(()),
            Some(true) => {
                let document = &version.document;
                let written = write_status::<StorageVersion>(
                    &self.client,
                    meta,
                    document,
                    &*status,
                    OnFailure::Return,
                );
                let written = written.await.map_err(SyncError::Status)?;
                let recorded = self.cache.wrote_answer(&version.key(), &written);
                recorded.map_err(SyncError::Answer)
            }
            Some(false) => {
                // A server that starts now may add its entry between the read and the deletion.
                // Upstream's DELETE names no version, and takes that entry along.
                let unchanged = Delete::exactly(meta).unchanged_since(meta.resource_version);
                let target = Target::of::<StorageVersion>(meta);
                match self.client.delete(target, &unchanged).await {
                    Err(error) if !error.is_object_not_found() => Err(SyncError::Delete(error)),
                    _ => Ok(()),
                }
            }
        }
    }
}
