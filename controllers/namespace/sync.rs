//! One pass over a terminating namespace.
//!
//! phase `Terminating` -> delete content -> conditions -> finalize, if the namespace is empty
//!
//! A pass reads everything from the API server, since a stale cache could show an empty namespace.
//! Upstream: `namespaced_resources_deleter.go`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_client::discovery::{ServedResource, discover};
use steersman_client::{Aggregate, ApiClient, ApiError, Category, Target};
use steersman_objects::{DecodeError, Identity, Namespace, ObjectKey};
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_values::clock::Clock;
use steersman_values::resource;

use super::conditions::Report;
use super::content::Remains;
use super::discovery::{Failure, Types};
use super::removal::{Removal, RemovalError};

/// The entry of `spec.finalizers` that this controller removes. API servers put it into each new
/// namespace.
const FINALIZER: &str = "kubernetes";

/// The failure of a pass, or the reason for another one.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// A live read of the namespace failed.
    #[error("{0}")]
    Get(#[source] ApiError),
    /// An update of its phase or the finalize call failed.
    #[error("{0}")]
    Write(#[source] ApiError),
    /// The answer to a read or a write is no namespace.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Another namespace has the name by now, and must not be finalized by this pass.
    #[error("namespace uid has changed across retries")]
    Replaced,
    /// Failed deletions, in the text form of upstream's `Aggregate`.
    #[error("{0}")]
    Content(#[source] Aggregate<ContentError>),
    /// No failure: the pass did its work, and the content needs time. Upstream:
    /// `ResourcesRemainingError`.
    #[error(
        "some content remains in the namespace, estimate {estimate} seconds before it is removed"
    )]
    Remaining { estimate: i64 },
}

/// The reason why content of the namespace was not removed, or may be unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ContentError {
    #[error("{0}")]
    Discovery(#[source] Failure),
    /// The server names malformed group versions.
    #[error("{0}")]
    Unparsable(String),
    /// With ordered deletion. All other types wait for them.
    #[error("failed to delete pods for namespace: {namespace}, err: {source}")]
    Pods {
        namespace: String,
        source: RemovalError,
    },
    /// The removal of one type. The other types were tried as well.
    #[error("{0}")]
    Removal(#[source] RemovalError),
}

/// The pause before the next pass, if the content is expected to end in `estimate` seconds: half of
/// that, plus one second, as upstream.
fn pause(estimate: i64) -> Duration {
    Duration::from_secs(u64::try_from(estimate / 2).unwrap_or(0) + 1)
}

/// Syncs terminating namespaces. The cache only selects the namespaces. All other reads are live.
pub(super) struct Terminator {
    pub(super) client: ApiClient,
    /// The same client, for answers with metadata only.
    pub(super) metadata: ApiClient,
    pub(super) clock: Clock,
    /// Delete other objects only after all pods are gone (gate `OrderedNamespaceDeletion`).
    pub(super) pods_first: bool,
}

impl ObjectSyncer for Terminator {
    type Object = Namespace;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, _: Arc<Namespace>) -> Result<Requeue, SyncError> {
        self.end(&key.name).await?;
        Ok(Requeue::Never)
    }

    /// Content that is on its way out waits for its time, without counting as a failure. Upstream:
    /// `worker`.
    fn retry(&self, error: &SyncError, _request: Option<&ApiError>, _failures: u32) -> Retry {
        match error {
            SyncError::Remaining { estimate } => Retry::After(pause(*estimate)),
            _ => Retry::BackOff,
        }
    }
}

/// A write to the namespace object.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Sets `status.phase`, for API servers that do not set it at the deletion.
    MarkTerminating,
    /// Removes [`FINALIZER`] from `spec.finalizers`.
    Finalize,
}

impl Terminator {
    /// One pass. Returns `Ok` if the namespace is gone, finalized, or not terminating.
    ///
    /// The cache may show a namespace that is gone, so the order is: read, mark, delete, finalize.
    /// Each step works on the object that the step before returned. Upstream: `Delete`.
    async fn end(&self, name: &str) -> Result<(), SyncError> {
        let Some(live) = self.get(name).await? else {
            return Ok(());
        };
        if live.deleted().is_none() {
            return Ok(());
        }
        let Some(mut live) = self.write(live, Step::MarkTerminating).await? else {
            return Ok(());
        };
        let Some(deleted) = live.deleted() else {
            return Ok(());
        };
        // It is finalized already, and only `metadata.finalizers` keep it.
        if live.finalizers().is_empty() {
            return Ok(());
        }
        tracing::debug!("Deleting all content of namespace");
        let estimate = self.delete_content(&mut live, deleted).await?;
        if estimate > 0 {
            tracing::debug!(
                waitSeconds = pause(estimate).as_secs(),
                "Content remaining in namespace"
            );
            return Err(SyncError::Remaining { estimate });
        }
        match self.write(live, Step::Finalize).await? {
            Some(live) if live.is_kept() => {
                tracing::debug!("Namespace is empty, and other finalizers keep it")
            }
            _ => tracing::debug!("Namespace has been deleted"),
        }
        Ok(())
    }

    /// A live read of the namespace. `None` if it is gone.
    async fn get(&self, name: &str) -> Result<Option<Live>, SyncError> {
        match self.client.get(target(name, None)).await {
            Ok(body) => Ok(Some(Live::decode(&body)?)),
            Err(error) if error.is_object_not_found() => Ok(None),
            Err(error) => Err(SyncError::Get(error)),
        }
    }

    /// Sends a write. After a conflict, repeats it on the latest state. `None` if the namespace is
    /// gone. Upstream: `retryOnConflictError`, with `updateNamespaceStatusFunc` or
    /// `finalizeNamespace`.
    async fn write(&self, mut live: Live, step: Step) -> Result<Option<Live>, SyncError> {
        loop {
            let (part, body) = match step {
                Step::MarkTerminating if !live.lacks_phase() => return Ok(Some(live)),
                Step::MarkTerminating => ("status", live.marked()),
                Step::Finalize => ("finalize", live.finalized()),
            };
            match self
                .client
                .replace(target(live.name(), Some(part)), &body)
                .await
            {
                Ok(answer) => {
                    tracing::debug!(part, "Updated namespace");
                    return Ok(Some(Live::decode(&answer)?));
                }
                Err(error) if error.is_object_not_found() => return Ok(None),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(SyncError::Write(error)),
            }
            let Some(latest) = self.get(live.name()).await? else {
                return Ok(None);
            };
            // The namespace was deleted and created again. The next event or pass handles the new
            // one.
            if latest.identity.uid != live.identity.uid {
                return Err(SyncError::Replaced);
            }
            live = latest;
        }
    }

    /// Deletes the content of the namespace, and writes the result to its conditions. Returns the
    /// estimated seconds until the content has ended, 0 for an empty namespace.
    ///
    /// Ends at the first refused write after the end of leadership: the next leader deletes the rest.
    ///
    /// Errors of single types are collected, so that one broken type does not keep the objects of
    /// all others. Upstream: `deleteAllContent`.
    async fn delete_content(&self, live: &mut Live, deleted: Timestamp) -> Result<i64, SyncError> {
        let name = live.name().to_owned();
        let removal = Removal {
            client: &self.client,
            metadata: &self.metadata,
            clock: &self.clock,
            namespace: &name,
            deleted,
        };
        let types = Types::new(discover(&self.client).await);
        let mut report = Report::default();
        let mut errors = Vec::new();
        let mut estimate = 0;
        if let Some(failure) = types.failure {
            report.discovery_failed(&failure);
            errors.push(ContentError::Discovery(failure));
        }
        if let Some(error) = types.unparsable {
            report.parsing_failed(&error);
            errors.push(ContentError::Unparsable(error));
        }
        let (pods, unordered) = if self.pods_first {
            (types.pods.as_ref(), None)
        } else {
            (None, types.pods.as_ref())
        };
        if let Some(pods) = pods {
            let (remains, removed) = removal.remove(pods).await;
            estimate = estimate.max(remains.estimate);
            if let Err(source) = removed {
                let is_over = source.is_fenced();
                report.content_failed(source.to_string());
                errors.push(ContentError::Pods {
                    namespace: name.clone(),
                    source,
                });
                // The gate would refuse all later writes, also that of the conditions.
                if is_over {
                    return outcome(errors, estimate);
                }
            }
            log_removal(pods, &remains);
            // Running pods may still need other objects, such as network policies and service
            // accounts. So these objects stay until the pods are gone.
            if remains.items > 0 {
                self.write_conditions(live, report).await;
                return outcome(errors, estimate);
            }
        }
        for served in unordered.into_iter().chain(&types.others) {
            let (remains, removed) = removal.remove(served).await;
            estimate = estimate.max(remains.estimate);
            report.remains(served, &remains);
            log_removal(served, &remains);
            if let Err(error) = removed {
                let is_over = error.is_fenced();
                report.content_failed(error.to_string());
                errors.push(ContentError::Removal(error));
                if is_over {
                    return outcome(errors, estimate);
                }
            }
        }
        self.write_conditions(live, report).await;
        outcome(errors, estimate)
    }

    /// Writes the conditions, if they changed. As upstream, a failure is only logged, since the
    /// next pass writes them again. Later writes of the pass use the version of the answer.
    async fn write_conditions(&self, live: &mut Live, report: Report) {
        let mut changed = live.object.clone();
        let status = changed.entry("status").or_insert_with(|| json!({}));
        if !report.apply(status, self.clock.now()) {
            return;
        }
        let written = self
            .client
            .replace(target(live.name(), Some("status")), &changed)
            .await;
        match written.map(|answer| Live::decode(&answer)) {
            // Upstream keeps the version from before this write. Its finalize call then always has
            // one conflict.
            Ok(Ok(now)) => *live = now,
            Ok(Err(error)) => {
                let category = Category::of(&error).as_str();
                tracing::error!(category, %error, "the answer to a status update is no namespace")
            }
            // The next leader writes them.
            Err(error) if error.is_fenced() => {}
            Err(error) => {
                let category = Category::of(&error).as_str();
                tracing::error!(category, %error, "couldn't update status condition for namespace");
            }
        }
    }
}

fn log_removal(served: &ServedResource, remains: &Remains) {
    let resource = &served.resource;
    let items = remains.items;
    if items > 0 {
        tracing::debug!(%resource, items, estimate = remains.estimate, "Items remaining in namespace");
    } else {
        tracing::trace!(%resource, "No items left in namespace");
    }
}

/// Upstream: the aggregate at the end of `deleteAllContent`. An error counts more than an estimate.
fn outcome(errors: Vec<ContentError>, estimate: i64) -> Result<i64, SyncError> {
    if errors.is_empty() {
        Ok(estimate)
    } else {
        Err(SyncError::Content(Aggregate(errors)))
    }
}

fn target<'a>(name: &'a str, subresource: Option<&'a str>) -> Target<'a> {
    Target {
        resource: &resource::NAMESPACES,
        namespace: None,
        name: Some(name),
        subresource,
    }
}

/// A namespace from a live read or from the answer to a write. Only a live object is written back,
/// so that writes rarely meet a conflict.
#[derive(Debug, Clone)]
struct Live {
    identity: Identity,
    /// All fields, so that a PUT keeps those that this program does not know.
    object: Map<String, Value>,
}

impl Live {
    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let identity = Identity::decode(json)?;
        let mut object: Map<String, Value> =
            serde_json::from_slice(json).map_err(|source| DecodeError::Json {
                kind: "Namespace",
                source,
            })?;
        // The server keeps managed fields that a PUT leaves out.
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        Ok(Self { identity, object })
    }

    fn name(&self) -> &str {
        &self.identity.name
    }

    /// When the deletion was asked for. Estimates of remaining time count from it.
    fn deleted(&self) -> Option<Timestamp> {
        self.identity.deleted
    }

    fn finalizers(&self) -> Vec<&str> {
        let list = self
            .object
            .get("spec")
            .and_then(|spec| spec["finalizers"].as_array());
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// True if remaining finalizers prevent the API server from removing the namespace. Only for
    /// the log: the API server decides by itself.
    fn is_kept(&self) -> bool {
        let of_metadata = self
            .object
            .get("metadata")
            .and_then(|metadata| metadata["finalizers"].as_array());
        !self.finalizers().is_empty()
            || of_metadata.is_some_and(|finalizers| !finalizers.is_empty())
    }

    /// Upstream: `updateNamespaceStatusFunc`. True if the API server left the phase at the
    /// deletion.
    fn lacks_phase(&self) -> bool {
        let phase = self
            .object
            .get("status")
            .and_then(|status| status["phase"].as_str());
        self.deleted().is_some() && phase != Some("Terminating")
    }

    /// The body of the status update that sets the phase. Conditions stay as they are.
    fn marked(&self) -> Map<String, Value> {
        let mut object = self.object.clone();
        object.entry("status").or_insert_with(|| json!({}))["phase"] = json!("Terminating");
        object
    }

    /// The body of the finalize call. As upstream, its finalizers are sorted and unique, and its
    /// status is empty. Upstream: `finalizeNamespace`.
    fn finalized(&self) -> Map<String, Value> {
        let mut others: Vec<&str> = self
            .finalizers()
            .into_iter()
            .filter(|&finalizer| finalizer != FINALIZER)
            .collect();
        others.sort_unstable();
        others.dedup();
        let mut object = self.object.clone();
        object.insert("status".to_owned(), json!({}));
        object.entry("spec").or_insert_with(|| json!({}))["finalizers"] = json!(others);
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(namespace: Value) -> Live {
        Live::decode(namespace.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn pause_is_half_the_estimate_plus_one_second() {
        for (estimate, seconds) in [(0, 1), (1, 1), (15, 8), (30, 16), (-4, 1)] {
            assert_eq!(pause(estimate).as_secs(), seconds, "{estimate}");
        }
    }

    /// Upstream: `TestFinalized`, `TestFinalizeNamespaceFunc`.
    #[test]
    fn finalizing_removes_only_the_finalizer_kubernetes() {
        // (why, before, after)
        let cases: [(&str, &[&str], &[&str]); 4] = [
            ("only ours", &["kubernetes"], &[]),
            ("ours and another", &["kubernetes", "other"], &["other"]),
            (
                "sorted, once each",
                &["b", "kubernetes", "a", "b"],
                &["a", "b"],
            ),
            ("not ours", &["a"], &["a"]),
        ];
        for (why, before, after) in cases {
            let namespace = live(json!({
                "kind": "Namespace", "metadata": {"name": "test", "resourceVersion": "1", "managedFields": [{}]},
                "spec": {"finalizers": before, "more": true}, "status": {"phase": "Terminating"},
            }));
            let body = Value::Object(namespace.finalized());
            assert_eq!(
                body["spec"],
                json!({"finalizers": after, "more": true}),
                "{why}"
            );
            assert_eq!(
                body["metadata"],
                json!({"name": "test", "resourceVersion": "1"}),
                "{why}"
            );
            assert_eq!(body["status"], json!({}), "{why}");
            assert_eq!(live(body).finalizers(), after, "{why}");
        }
        assert!(
            live(json!({"metadata": {"name": "test"}, "spec": {}}))
                .finalizers()
                .is_empty()
        );
    }

    #[test]
    fn only_a_deleted_namespace_without_the_phase_is_marked_terminating() {
        // (deletion, phase, expected)
        for (deleted, phase, expected) in [
            (true, "Active", true),
            (true, "Terminating", false),
            (false, "Active", false),
        ] {
            let mut namespace = json!({"metadata": {"name": "test"}, "status": {"phase": phase}});
            if deleted {
                namespace["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
            }
            let namespace = live(namespace);
            assert_eq!(namespace.lacks_phase(), expected, "{phase}");
            assert_eq!(
                Value::Object(namespace.marked())["status"]["phase"],
                "Terminating"
            );
        }
    }
}
