//! One sync of one namespace: its ConfigMap is created, or restored.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{DecodeError, Namespace, ObjectKey, PublishedData, RootCaConfigMap};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::Requeue;
use tokio::time::Instant;

use crate::publisher_metrics::PublisherMetrics;

/// Name of the ConfigMaps. Upstream: `RootCACertConfigMapName`.
const CONFIG_MAP: &str = "kube-root-ca.crt";

/// The key of the certificates.
pub(super) const CA_KEY: &str = "ca.crt";

/// The annotation for users. Any text satisfies the controller.
const DESCRIPTION_ANNOTATION: &str = "kubernetes.io/description";
/// Its text. Upstream: `Description`.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as \
                           the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
                           Kubernetes clusters.";

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The ConfigMap could not be created.
    #[error("{0}")]
    Create(#[source] ApiError),
    /// The ConfigMap could not be restored.
    #[error("{0}")]
    Replace(#[source] ApiError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// Syncs namespaces.
pub(super) struct Publisher {
    pub(super) maps: Store<RootCaConfigMap>,
    pub(super) cache: TrackedCache,
    pub(super) client: ApiClient,
    /// The certificates, in PEM.
    pub(super) bundle: String,
    /// The data of each ConfigMap.
    pub(super) data: PublishedData,
    pub(super) metrics: PublisherMetrics,
}

impl ObjectSyncer for Publisher {
    type Object = Namespace;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, _: Arc<Namespace>) -> Result<Requeue, SyncError> {
        let began = Instant::now();
        let published = self.publish(key).await;
        let code = published.as_ref().map_or_else(status_code, |()| 200);
        self.metrics.synced(code, began.elapsed());
        published.map(|()| Requeue::Never)
    }
}

/// Whether a ConfigMap needs no write: it has exactly `data`, and a description.
pub(super) fn is_complete(map: &RootCaConfigMap, data: &PublishedData) -> bool {
    map.data == *data && !map.annotations.text.is_empty()
}

/// The HTTP status of a failed sync, for the metrics. A failure without an answer counts as 500.
fn status_code(error: &SyncError) -> u16 {
    let request = ApiError::within(error);
    request.and_then(ApiError::code).unwrap_or(500)
}

impl Publisher {
    /// Creates or restores the ConfigMap of the namespace `key`.
    async fn publish(&self, key: &ObjectKey) -> Result<(), SyncError> {
        let map = self.maps.get(&ObjectKey::new(&key.name, CONFIG_MAP));
        let answer = match map {
            None => {
                let map = self.completed(json!({"metadata": {"name": CONFIG_MAP}}));
                let target = Target::collection::<RootCaConfigMap>(&key.name);
                match self.client.create(target, &map).await {
                    // The namespace is gone, or its deletion has begun.
                    Err(error)
                        if error.is_object_not_found()
                            || error.has_cause("NamespaceTerminating") =>
                    {
                        return Ok(());
                    }
                    created => created.map_err(SyncError::Create)?,
                }
            }
            // Without certificates, those of another manager are better than none.
            Some(_) if self.bundle.is_empty() => return Ok(()),
            Some(map) if is_complete(&map, &self.data) => return Ok(()),
            Some(map) => {
                let target = Target::of::<RootCaConfigMap>(&map.meta);
                let map = self.completed(Value::Object(map.document.to_object()));
                let replaced = self.client.replace(target, &map).await;
                replaced.map_err(SyncError::Replace)?
            }
        };
        let recorded = self.cache.wrote_answer(key, &answer);
        recorded.map_err(SyncError::Answer)
    }

    /// `map` with the published data and the description. All other fields stay as they are.
    fn completed(&self, mut map: Value) -> Value {
        // Objects in a list lack these two fields.
        map["apiVersion"] = json!("v1");
        map["kind"] = json!("ConfigMap");
        map["data"] = json!({ CA_KEY: self.bundle });
        let annotations = &mut map["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = Value::Object(Map::new());
        }
        annotations[DESCRIPTION_ANNOTATION] = json!(DESCRIPTION);
        map
    }
}
