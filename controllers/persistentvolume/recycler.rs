//! A pod that empties a volume.
//!
//! Upstream: `pkg/volume/util/recyclerclient`.
//!
//! The phase of the pod is the result. Its Events are repeated on the volume, since a user of the
//! volume may have no right to see the pod's namespace.

use futures::StreamExt;
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_client::writes::Delete;
use steersman_client::{ApiClient, ApiError, Query, Target};
use steersman_objects::{Identity, ObjectReference, PersistentVolume, Pod};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_values::resource::EVENTS;

/// The volume was not emptied. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecycleError {
    /// The pod or its Events could not be watched.
    #[error("{0}")]
    Watch(#[source] ApiError),
    /// A pod of an earlier try existed; it is deleted.
    ///
    /// Upstream fails as well. The next try creates a fresh pod.
    #[error("old recycler pod found, will retry later")]
    OldPod,
    /// A pod of an earlier try could not be deleted.
    #[error("failed to delete old recycler pod {pod}: {source}")]
    DeleteOldPod {
        pod: String,
        #[source]
        source: ApiError,
    },
    /// The pod could not be created.
    #[error("unexpected error creating recycler pod:  {0}")]
    Create(#[source] ApiError),
    /// The pod did not succeed.
    #[error("failed to recycle volume: {0}")]
    Failed(String),
    /// The pod succeeded and could not be deleted.
    ///
    /// The next try would find it as an old pod, so the volume is not available yet.
    #[error("failed to delete recycler pod: {0}")]
    Delete(#[source] ApiError),
}

/// The name of the pod that empties the volume `volume`. It is the same for each try, so that two
/// managers never run two pods.
pub(super) fn pod_name(volume: &str) -> String {
    format!("recycler-for-{volume}")
}

/// One try to empty a volume.
pub(super) struct Recycling<'a> {
    pub(super) client: &'a ApiClient,
    pub(super) recorder: &'a EventRecorder,
    pub(super) volume: &'a PersistentVolume,
}

/// An event of a watch.
#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

/// A watched change.
enum Change {
    Pod(Frame),
    Event(Frame),
}

impl Recycling<'_> {
    /// Runs `pod` until it ends, and deletes it.
    ///
    /// Upstream: `internalRecycleVolumeByWatchingPodUntilCompletion`. The pod is deleted after
    /// either end.
    pub(super) async fn run(&self, pod: &Value) -> Result<(), RecycleError> {
        let text = |member: &str| pod["metadata"][member].as_str().unwrap_or_default();
        let namespace = text("namespace");
        let name = text("name");
        // The watches begin before the pod, so that they miss none of its changes.
        let pods = Target::collection::<Pod>(namespace);
        let events = Target {
            resource: &EVENTS,
            ..pods
        };
        let pod_frames = self.watch(pods, &format!("metadata.name={name}")).await?;
        let about_pod = format!("involvedObject.name={name}");
        let event_frames = self.watch(events, &about_pod).await?;
        let target = Target::named::<Pod>(namespace, name);
        let created = match self.client.create(pods, pod).await {
            // Its result is unknown: it may have emptied an earlier volume of this name.
            Err(error) if error.is_already_exists() => {
                return Err(self.delete_old(target).await);
            }
            created => created.map_err(RecycleError::Create)?,
        };
        let changes = stream::select(pod_frames.map(Change::Pod), event_frames.map(Change::Event));
        let ended = self.follow(name, changes).await;
        // By UID, so that the pod of the next try stays.
        let deleted = match Identity::decode(&created) {
            Ok(pod) => self.client.delete(target, &Delete::uid(&pod.uid)).await,
            Err(_) => self.client.delete(target, &json!({})).await,
        };
        if let Err(error) = &deleted {
            tracing::debug!(pod = name, %error, "the recycler pod is not deleted");
        }
        ended.map_err(RecycleError::Failed)?;
        deleted.map(drop).map_err(RecycleError::Delete)
    }

    /// Deletes the pod of an earlier try, of this manager or another one.
    async fn delete_old(&self, pod: Target<'_>) -> RecycleError {
        match self.client.delete(pod, &json!({})).await {
            Ok(_) => RecycleError::OldPod,
            Err(source) => RecycleError::DeleteOldPod {
                pod: [pod.namespace, pod.name]
                    .map(Option::unwrap_or_default)
                    .join("/"),
                source,
            },
        }
    }

    /// The events of a watch on the objects that the field selector `fields` matches. A frame that
    /// is no event ends them.
    async fn watch(
        &self,
        target: Target<'_>,
        fields: &str,
    ) -> Result<impl stream::Stream<Item = Frame> + Send + Unpin + use<>, RecycleError> {
        let query = Query::default().with("fieldSelector", fields);
        let lines = self.client.watch(target, &query).await;
        let lines = lines.map_err(RecycleError::Watch)?;
        let frames = lines.map(|line| serde_json::from_slice::<Frame>(&line.ok()?).ok());
        Ok(frames
            .take_while(|frame| std::future::ready(frame.is_some()))
            .filter_map(std::future::ready))
    }

    /// Waits for the end of the pod `name`. Its Events are repeated on the volume.
    ///
    /// Upstream: `waitForPod`. The time limit of the pod bounds the wait.
    async fn follow(
        &self,
        name: &str,
        mut changes: impl stream::Stream<Item = Change> + Unpin,
    ) -> Result<(), String> {
        while let Some(change) = changes.next().await {
            match change {
                Change::Pod(Frame { kind, object }) => match end_of(&kind, &object) {
                    Some(end) => return end,
                    None => continue,
                },
                Change::Event(Frame { kind, object }) if kind == "ADDED" => self.repeat(&object),
                Change::Event(_) => {}
            }
        }
        Err(format!(
            "recycler pod {name:?} watch channel had been closed"
        ))
    }

    /// Records an Event of the pod about the volume.
    ///
    /// Upstream: `newRecyclerEventRecorder`.
    fn repeat(&self, event: &Value) {
        let kind = match event["type"].as_str() {
            Some("Warning") => EventType::Warning,
            _ => EventType::Normal,
        };
        let message = event["message"].as_str().unwrap_or_default();
        let message = format!("Recycler pod: {message}");
        let volume = ObjectReference::of(self.volume);
        self.recorder.event(volume, kind, "RecyclerPod", message);
    }
}

/// The end of the pod, if this event of its watch shows it.
///
/// `None` while it is pending or running. An `ERROR` frame ends the watch.
fn end_of(kind: &str, pod: &Value) -> Option<Result<(), String>> {
    match kind {
        "DELETED" => Some(Err("recycler pod was deleted".to_owned())),
        "ERROR" => Some(Err("recycler pod watcher failed".to_owned())),
        _ => match pod["status"]["phase"].as_str() {
            Some("Succeeded") => Some(Ok(())),
            Some("Failed") => {
                let message = pod["status"]["message"].as_str();
                let message = message.filter(|message| !message.is_empty());
                let message = message.unwrap_or("pod failed, pod.Status.Message unknown");
                Some(Err(message.to_owned()))
            }
            _ => None,
        },
    }
}
