//! A stand-in for the external-attacher: it answers VolumeAttachments of every driver.
//!
//! As a real one, it holds each attachment by a finalizer, and refuses to attach a volume of one
//! node to another one. Annotations of the PersistentVolume change its answers:
//!
//! | annotation | effect |
//! |---|---|
//! | `simulate.steersman.dev/attach-latency: 5s` | time of each call |
//! | `simulate.steersman.dev/attach: fails` | attaching fails |
//! | `simulate.steersman.dev/attach: detach-fails` | detaching fails |
//! | `simulate.steersman.dev/attach: hangs` | no call is answered |
//!
//! Upstream: `kubernetes-csi/external-attacher`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{
    DecodeError, Meta, Object, ObjectKey, PersistentVolume, Uid, VolumeAttachment,
};
use steersman_runtime::informer::{Change, Store};
use steersman_runtime::workers::{Requeue, Retry, Syncer};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;
use steersman_values::resource::ResourceType;
use tokio::time::Instant;

use super::Cluster;

/// Annotation with the time of a call.
const LATENCY: &str = "simulate.steersman.dev/attach-latency";
/// Annotation with the outcome of calls.
const OUTCOME: &str = "simulate.steersman.dev/attach";
/// The time from a failed call to the next one.
const RETRY: Duration = Duration::from_secs(10);

/// A VolumeAttachment with its finalizers.
#[derive(Debug)]
struct SimAttachment {
    attachment: VolumeAttachment,
    finalizers: Vec<String>,
}

impl Object for SimAttachment {
    const RESOURCE: &'static ResourceType = VolumeAttachment::RESOURCE;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            finalizers: Option<Vec<String>>,
        }
        let wire: Wire = serde_json::from_slice(json).map_err(|source| DecodeError::Json {
            kind: "VolumeAttachment",
            source,
        })?;
        Ok(Self {
            attachment: VolumeAttachment::decode(json)?,
            finalizers: wire.metadata.finalizers.unwrap_or_default(),
        })
    }

    fn meta(&self) -> &Meta {
        &self.attachment.meta
    }
}

impl SimAttachment {
    /// The finalizer of its driver's attacher.
    fn finalizer(&self) -> String {
        format!("external-attacher/{}", self.attachment.spec.attacher)
    }

    fn is_held(&self) -> bool {
        self.finalizers.contains(&self.finalizer())
    }
}

/// The attacher of all drivers.
pub(super) struct Driver {
    client: ApiClient,
    clock: Clock,
    attachments: Store<SimAttachment>,
    volumes: Store<PersistentVolume>,
    /// The start of each call. Attachment and detachment are different calls.
    calls: Mutex<HashMap<(Uid, bool), Instant>>,
}

/// The outcome of a call.
enum Outcome {
    Done,
    Later(Duration),
    Failed(String),
    Never,
}

impl Driver {
    /// Requests the caches, and queues changed attachments.
    pub(super) fn new(of: &Cluster<'_>, queue: &WorkQueue<ObjectKey>) -> Self {
        let attachments = of.informers.shared::<SimAttachment>();
        let queued = queue.clone();
        attachments.add_handler(move |change| {
            if !matches!(change, Change::Deleted { .. }) {
                queued.add(change.object().key());
            }
        });
        Self {
            client: of.client.clone(),
            clock: of.clock.clone(),
            attachments: attachments.store(),
            volumes: of.informers.shared::<PersistentVolume>().store(),
            calls: Mutex::default(),
        }
    }

    fn volume(&self, attachment: &SimAttachment) -> Option<Arc<PersistentVolume>> {
        let name = attachment
            .attachment
            .spec
            .source
            .persistent_volume_name
            .as_ref()?;
        self.volumes.get(&ObjectKey::new("", name))
    }

    /// Begins a call, or asks for its state.
    fn call(&self, attachment: &SimAttachment, attaches: bool) -> Outcome {
        let volume = self.volume(attachment);
        let annotations = volume.map(|volume| volume.document.annotations());
        let value = |key: &str| annotations.as_ref()?.get(key).map(String::as_str);
        let latency = value(LATENCY).and_then(|text| text.parse::<SignedDuration>().ok());
        let latency = latency.and_then(|latency| Duration::try_from(latency).ok());
        let failure = match value(OUTCOME) {
            Some("hangs") => return Outcome::Never,
            Some("fails") => attaches,
            Some("detach-fails") => !attaches,
            _ => false,
        };
        let id = (attachment.meta().uid.clone(), attaches);
        let mut calls = self.calls.lock();
        let begun = *calls.entry(id.clone()).or_insert_with(Instant::now);
        let left = latency.unwrap_or_default().saturating_sub(begun.elapsed());
        if !left.is_zero() {
            return Outcome::Later(left);
        }
        calls.remove(&id);
        if failure {
            Outcome::Failed("rpc error: code = Internal desc = simulated failure".to_owned())
        } else {
            Outcome::Done
        }
    }

    /// The node that excludes an attachment to another one.
    fn exclusive_node(&self, attachment: &SimAttachment) -> Option<String> {
        let volume = self.volume(attachment)?;
        let modes = &volume.spec.access_modes;
        let is_shared = |mode: &str| matches!(mode, "ReadWriteMany" | "ReadOnlyMany");
        if modes.is_empty() || modes.iter().any(|mode| is_shared(mode)) {
            return None;
        }
        let spec = &attachment.attachment.spec;
        let others = self.attachments.list().into_iter().filter(|other| {
            let other = &other.attachment;
            other.status.attached
                && other.spec.source == spec.source
                && other.spec.node_name != spec.node_name
        });
        others
            .map(|other| other.attachment.spec.node_name.to_string())
            .next()
    }

    async fn attach(&self, attachment: &SimAttachment) -> Result<Requeue, ApiError> {
        let outcome = match self.exclusive_node(attachment) {
            Some(node) => Outcome::Failed(format!(
                "rpc error: code = FailedPrecondition desc = volume is attached to node {node}"
            )),
            None => self.call(attachment, true),
        };
        match outcome {
            Outcome::Never => Ok(Requeue::Never),
            Outcome::Later(left) => Ok(Requeue::After(left)),
            Outcome::Failed(message) => {
                self.report(attachment, "attachError", message).await?;
                Ok(Requeue::After(RETRY))
            }
            Outcome::Done => {
                let status = json!({"attached": true, "attachError": null});
                self.patch(attachment, Some("status"), json!({"status": status}))
                    .await?;
                Ok(Requeue::Never)
            }
        }
    }

    async fn detach(&self, attachment: &SimAttachment) -> Result<Requeue, ApiError> {
        match self.call(attachment, false) {
            Outcome::Never => Ok(Requeue::Never),
            Outcome::Later(left) => Ok(Requeue::After(left)),
            Outcome::Failed(message) => {
                self.report(attachment, "detachError", message).await?;
                Ok(Requeue::After(RETRY))
            }
            Outcome::Done => {
                let own = attachment.finalizer();
                let others = attachment.finalizers.iter().filter(|name| **name != own);
                self.hold(attachment, others.collect()).await?;
                Ok(Requeue::Never)
            }
        }
    }

    /// Writes a failure, unless the status tells it already.
    async fn report(
        &self,
        attachment: &SimAttachment,
        field: &str,
        message: String,
    ) -> Result<(), ApiError> {
        let status = &attachment.attachment.status;
        let known = match field {
            "attachError" => &status.attach_error,
            _ => &status.detach_error,
        };
        if known
            .as_ref()
            .is_some_and(|known| *known.message == *message)
        {
            return Ok(());
        }
        let error = json!({"message": message, "time": self.clock.now_seconds()});
        self.patch(
            attachment,
            Some("status"),
            json!({"status": {field: error}}),
        )
        .await
    }

    async fn hold(
        &self,
        attachment: &SimAttachment,
        finalizers: Vec<&String>,
    ) -> Result<(), ApiError> {
        let version = attachment.meta().resource_version.to_string();
        let metadata = json!({"finalizers": finalizers, "resourceVersion": version});
        self.patch(attachment, None, json!({"metadata": metadata}))
            .await
    }

    async fn patch(
        &self,
        attachment: &SimAttachment,
        subresource: Option<&'static str>,
        body: Value,
    ) -> Result<(), ApiError> {
        let target = Target {
            subresource,
            ..Target::of::<SimAttachment>(attachment.meta())
        };
        self.client.patch(target, PatchKind::Merge, &body).await?;
        Ok(())
    }
}

impl Syncer for Driver {
    type Error = ApiError;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, ApiError> {
        let Some(attachment) = self.attachments.get(key) else {
            return Ok(Requeue::Never);
        };
        match (attachment.meta().is_terminating(), attachment.is_held()) {
            (true, true) => self.detach(&attachment).await,
            (true, false) => Ok(Requeue::Never),
            (false, false) => {
                // The watch event about the finalizer queues the attachment again.
                let own = attachment.finalizer();
                let finalizers = attachment.finalizers.iter().chain([&own]);
                self.hold(&attachment, finalizers.collect()).await?;
                Ok(Requeue::Never)
            }
            (false, true) if attachment.attachment.status.attached => Ok(Requeue::Never),
            (false, true) => self.attach(&attachment).await,
        }
    }

    fn retry(&self, error: &ApiError, failures: u32) -> Retry {
        // A changed or deleted attachment returns by its watch event.
        if error.is_conflict() || error.is_not_found() {
            return Retry::Drop;
        }
        match failures {
            0..10 => Retry::Quietly,
            _ => Retry::BackOff,
        }
    }
}
