//! One sync: the bundle of this authority is right, and no other one of the signer exists.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_client::writes::{Delete, with_member};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{
    AlphaClusterTrustBundle, ClusterTrustBundle, DecodeError, Document, Identity, Object, ObjectKey,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::Requeue;
use tokio::time::Instant;

use super::SIGNER;
use crate::publisher_metrics::PublisherMetrics;

/// A ClusterTrustBundle of any version.
pub(super) trait TrustBundle: Object {
    /// The certificates, in PEM.
    fn certificates(&self) -> &str;
    /// The served JSON.
    fn document(&self) -> &Document;
}

macro_rules! trust_bundles {
    ($($view:ty),*) => {$(
        impl TrustBundle for $view {
            fn certificates(&self) -> &str {
                &self.spec.trust_bundle
            }
            fn document(&self) -> &Document {
                &self.document
            }
        }
    )*};
}

trust_bundles!(ClusterTrustBundle, AlphaClusterTrustBundle);

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The bundle could not be created.
    #[error("{0}")]
    Create(#[source] ApiError),
    /// The bundle could not be restored.
    #[error("{0}")]
    Replace(#[source] ApiError),
    /// Another bundle could not be deleted.
    #[error("{0}")]
    Delete(#[source] ApiError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// Syncs the one key: the name of the bundle.
pub(super) struct Publisher<T> {
    pub(super) client: ApiClient,
    /// All bundles of the signer.
    pub(super) bundles: Store<T>,
    pub(super) cache: TrackedCache,
    /// The certificates, in PEM.
    pub(super) bundle: Arc<str>,
    pub(super) metrics: PublisherMetrics,
}

impl<T: TrustBundle> ObjectSyncer for Publisher<T> {
    type Object = T;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, bundle: Arc<T>) -> Result<Requeue, SyncError> {
        self.measured(key, Some(bundle)).await
    }

    async fn clean_up(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        self.measured(key, None).await
    }
}

impl<T: TrustBundle> Publisher<T> {
    /// Syncs, and counts the sync under its HTTP status. A failure without an answer counts as 500.
    async fn measured(
        &self,
        key: &ObjectKey,
        bundle: Option<Arc<T>>,
    ) -> Result<Requeue, SyncError> {
        let began = Instant::now();
        let synced = self.publish(key, bundle).await;
        let code = match &synced {
            Ok(()) => 200,
            Err(error) => ApiError::within(error)
                .and_then(ApiError::code)
                .unwrap_or(500),
        };
        self.metrics.synced(code, began.elapsed());
        synced.map(|()| Requeue::Never)
    }

    async fn publish(&self, key: &ObjectKey, bundle: Option<Arc<T>>) -> Result<(), SyncError> {
        let written = match bundle {
            Some(bundle) if *bundle.certificates() == *self.bundle => None,
            Some(bundle) => Some(self.replace(&bundle).await?),
            None => Some(self.create(&key.name).await?),
        };
        if let Some(version) = written {
            self.cache.wrote_at(key, version);
        }
        self.delete_others(&key.name).await
    }

    /// Creates the bundle. Returns its resource version.
    async fn create(&self, name: &str) -> Result<u64, SyncError> {
        let bundle = json!({
            "kind": T::RESOURCE.kind, "apiVersion": T::RESOURCE.api_version(),
            "metadata": {"name": name}, "spec": {"signerName": SIGNER, "trustBundle": &*self.bundle},
        });
        let created = self
            .client
            .create(Target::collection::<T>(""), &bundle)
            .await;
        version(&created.map_err(SyncError::Create)?)
    }

    /// Restores the certificates of the bundle. Returns its new resource version.
    async fn replace(&self, bundle: &T) -> Result<u64, SyncError> {
        let mut served = Value::Object(bundle.document().to_object());
        served["spec"]["trustBundle"] = json!(&*self.bundle);
        let body = with_member::<T>(bundle.document(), "spec", &served["spec"]);
        let replaced = self
            .client
            .replace(Target::of::<T>(bundle.meta()), &body)
            .await;
        version(&replaced.map_err(SyncError::Replace)?)
    }

    /// Deletes all bundles of the signer except `name`. After a failure, the others are deleted all
    /// the same.
    async fn delete_others(&self, name: &str) -> Result<(), SyncError> {
        let mut deleted = Ok(());
        for other in self.bundles.list() {
            let meta = other.meta();
            if *meta.name == *name {
                continue;
            }
            let target = Target::of::<T>(meta);
            match self.client.delete(target, &Delete::exactly(meta)).await {
                Err(error) if !error.is_object_not_found() => {
                    deleted = Err(SyncError::Delete(error))
                }
                _ => {}
            }
        }
        deleted
    }
}

/// The resource version in the answer to a write.
fn version(answer: &[u8]) -> Result<u64, SyncError> {
    let written = Identity::decode(answer).map_err(SyncError::Answer)?;
    Ok(written.resource_version)
}
