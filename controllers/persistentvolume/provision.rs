//! Provisioning: a claim is handed to the external provisioner of its class, or gets a folder of this
//! machine.
//!
//! Upstream: `provisionClaim` and its operations.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_client::live::LiveError;
use steersman_client::{ApiError, Target};
use steersman_objects::{Object, ObjectKey, PersistentVolume, PersistentVolumeClaim, StorageClass};
use tokio::time::Instant;

use super::claim::provisioned_name;
use super::classes;
use super::edits;
use super::host_path::{self, HostPathError};
use super::matching;
use super::migration::IN_TREE_FINALIZER;
use super::notice::Notice;
use super::plugins::{self, Agent, HOST_PATH};
use super::sync::Binder;
use super::writes::{Part, WriteError};
use crate::storage_metrics::Finished;

/// Tries to save a provisioned volume or to delete its folder, and the time between two tries.
///
/// Upstream: `createProvisionedPVRetryCount` and `createProvisionedPVInterval`.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_secs(10);

/// A claim got no volume.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProvisionError {
    /// The annotations that name the provisioner could not be written.
    ///
    /// A conflict is a race with the scheduler or a user; the next sync hands the new state over.
    #[error("{0}")]
    HandOver(#[source] WriteError),
    /// The volume could not be read.
    ///
    /// The volume may exist already.
    #[error("{0}")]
    Read(#[source] LiveError),
    /// A plugin of this manager cannot fulfil the claim; an Event tells why.
    #[error("{0}")]
    Refused(String),
    /// The folder could not be created.
    ///
    /// The rest of the operation follows, as for all of these.
    #[error("{0}")]
    Folder(#[source] HostPathError),
}

impl Binder {
    /// Starts to provision a volume for `claim`, if it has a class that can.
    ///
    /// Upstream: `provisionClaim`. A missing class is an Event and no error: the claim is tried again
    /// in each sync period.
    pub(super) fn provision(self: &Arc<Self>, claim: &Arc<PersistentVolumeClaim>) {
        if !self.config.provisions {
            return;
        }
        let found = match classes::named(&self.classes, claim.class()) {
            Some(class) => plugins::provisioner(&class)
                .map(|agent| (class, agent))
                .map_err(|error| error.to_string()),
            None => Err(format!(
                "storageclass.storage.k8s.io {:?} not found",
                claim.class()
            )),
        };
        let (class, agent) = match found {
            Ok(found) => found,
            Err(message) => {
                let notice = Notice::warning("ProvisioningFailed", message);
                return notice.record(&self.recorder, &**claim);
            }
        };
        let key = claim.key().to_string();
        // The name of the operation is upstream's.
        let name = format!("provision-{key}[{}]", claim.meta.uid);
        let binder = Arc::clone(self);
        let claim = Arc::clone(claim);
        self.operations.start(name, async move {
            let plugin = || match &agent {
                Agent::External(name) => name.clone(),
                Agent::HostPath => HOST_PATH.into(),
            };
            // It ends with the binding of the claim, perhaps after several operations.
            binder.timers.start(&key, plugin, "provision");
            let provisioned = match &agent {
                Agent::External(name) => binder.hand_over(&claim, name).await,
                Agent::HostPath => binder.provision_folder(&claim, &class).await,
            };
            if provisioned.is_err() {
                binder.timers.failed(&key);
            }
            provisioned
        });
    }

    /// Names the external provisioner on `claim`. Upstream: `provisionClaimOperationExternal`.
    ///
    /// External provisioners watch for the annotation. The Event repeats in each sync period, so users
    /// see that the claim still waits.
    async fn hand_over(
        &self,
        claim: &PersistentVolumeClaim,
        provisioner: &str,
    ) -> Result<(), ProvisionError> {
        if let Some(body) = edits::handed_to(claim, provisioner)
            && let Err(error) = self.objects.put_claim(claim, Part::Main, &body).await
        {
            let message = format!("Error saving claim: {error}");
            Notice::warning("ProvisioningFailed", message).record(&self.recorder, claim);
            return Err(ProvisionError::HandOver(error));
        }
        if self.has_volume(claim) {
            return Ok(());
        }
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
        );
        Notice::normal("ExternalProvisioning", message).record(&self.recorder, claim);
        Ok(())
    }

    /// Whether a volume for `claim` has come since its sync, beside which this operation runs. The
    /// event of the volume, or of the hand-over, causes the sync that binds both.
    fn has_volume(&self, claim: &PersistentVolumeClaim) -> bool {
        let volumes = self.objects.caches.volumes();
        // Volumes that name no claim do not matter.
        matches!(
            matching::best(claim, &volumes, true, self.config.attributes),
            Ok(Some(_))
        )
    }

    /// Makes a folder of this machine the volume of `claim`. Upstream: `provisionClaimOperation`.
    ///
    /// The checks come before the folder, as each failure after it has to clean up. The claim names its
    /// provisioner, as with an external one.
    async fn provision_folder(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
        class: &StorageClass,
    ) -> Result<(), ProvisionError> {
        if claim.spec.data_source.is_some() {
            return Err(self.refused(
                claim,
                format!("plugin {HOST_PATH:?} is not a CSI plugin. Only CSI plugin can provision a claim with a datasource"),
            ));
        }
        let claim = match edits::handed_to(claim, HOST_PATH) {
            Some(body) => {
                let handed = self.objects.put_claim(claim, Part::Main, &body).await;
                handed.map_err(ProvisionError::HandOver)?
            }
            None => Arc::clone(claim),
        };
        let name = provisioned_name(&claim);
        // An earlier operation may have ended after this claim was read. The name follows from the UID.
        let existing = self.objects.live_volume(&name).await;
        if existing.map_err(ProvisionError::Read)?.is_some() {
            return Ok(());
        }
        self.check(&claim, class)?;
        // No write gate guards the folder, and the present leader may use one of this name.
        if !self.objects.client.may_write() {
            return Ok(());
        }
        let started = Instant::now();
        let folder = match claim.spec.volume_mode.as_deref() {
            // A failure of the plugin itself, which counts in its metric.
            Some("Block") => Err(HostPathError::Block),
            _ => host_path::create(&name),
        };
        self.storage_metrics.finished(&Finished {
            plugin: HOST_PATH,
            operation: "volume_provision",
            succeeded: folder.is_ok(),
            is_migrated: false,
            took: started.elapsed(),
        });
        let folder = match folder {
            Ok(folder) => folder,
            Err(error) => {
                // Only this failure may depend on the node. Upstream has the same reason.
                self.choose_another_node(&claim).await;
                let class = &class.meta.name;
                let message =
                    format!("Failed to provision volume with StorageClass {class:?}: {error}");
                Notice::warning("ProvisioningFailed", message).record(&self.recorder, &*claim);
                return Err(ProvisionError::Folder(error));
            }
        };
        let volume = host_path_volume(&claim, class, &name, &folder);
        match self.save(&volume).await {
            Ok(()) => {
                let message = format!("Successfully provisioned volume {name} using {HOST_PATH}");
                Notice::normal("ProvisioningSucceeded", message).record(&self.recorder, &*claim);
            }
            // The next leader may use the folder.
            Err(error) if error.is_fenced() => {}
            Err(error) => self.discard(&claim, &folder, &error).await,
        }
        Ok(())
    }

    /// Whether this manager may make a folder for a claim of `class`.
    ///
    /// Upstream: the checks between the read of the volume and the provisioning. Each is also an Event,
    /// since only a user or an administrator can change the class.
    fn check(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
    ) -> Result<(), ProvisionError> {
        if !class.mount_options.is_empty() {
            let name = &class.meta.name;
            let options = class.mount_options.join(" ");
            let message = format!(
                "Mount options are not supported by the provisioner but StorageClass {name:?} has mount options [{options}]"
            );
            return Err(self.refused(claim, message));
        }
        if !self.config.provisions_host_paths {
            let message = format!(
                "Failed to create provisioner: provisioning in volume plugin {HOST_PATH:?} is disabled"
            );
            return Err(self.refused(claim, message));
        }
        let node = claim.annotations.selected_node.as_deref();
        match node.filter(|node| self.nodes.get(&ObjectKey::new("", node)).is_none()) {
            Some(node) => {
                let message = format!("Failed to get target node: node {node:?} not found");
                Err(self.refused(claim, message))
            }
            None => Ok(()),
        }
    }

    /// The failure with this message, of which an Event tells.
    fn refused(&self, claim: &PersistentVolumeClaim, message: String) -> ProvisionError {
        let notice = Notice::warning("ProvisioningFailed", message.clone());
        notice.record(&self.recorder, claim);
        ProvisionError::Refused(message)
    }

    /// Lets the scheduler choose another node. Upstream: `rescheduleProvisioning`.
    ///
    /// A claim of a class without delay has no node. A failed write leaves the node, and the next
    /// failure tries again.
    async fn choose_another_node(&self, claim: &PersistentVolumeClaim) {
        if claim.annotations.selected_node.is_none() {
            return;
        }
        let body = edits::without_node(claim);
        if let Err(error) = self.objects.put_claim(claim, Part::Main, &body).await {
            tracing::debug!(claim = %claim.key(), %error, "the selected node stays");
        }
    }

    /// Creates the volume; an existing one is fine. Tries it several times, because a folder without
    /// a volume is lost.
    ///
    /// Upstream: the first loop in `provisionClaimOperation`.
    async fn save(&self, volume: &Value) -> Result<(), ApiError> {
        let target = Target::collection::<PersistentVolume>("");
        let mut tries = 1;
        loop {
            match self.objects.client.create(target, volume).await {
                Err(error) if error.is_already_exists() => return Ok(()),
                Err(error) if tries < TRIES && !error.is_fenced() => {
                    tracing::debug!(%error, "the provisioned volume is not saved yet");
                }
                saved => return saved.map(drop),
            }
            tries += 1;
            self.pause().await;
        }
    }

    /// Deletes the folder of a volume that could not be saved.
    ///
    /// Upstream: the second loop. Storage without an object would be lost to everyone, so a person is
    /// asked at last.
    async fn discard(&self, claim: &PersistentVolumeClaim, folder: &str, error: &ApiError) {
        let key = claim.key();
        let message = format!(
            "Error creating provisioned PV object for claim {key}: {error}. Deleting the volume."
        );
        Notice::warning("ProvisioningFailed", message).record(&self.recorder, claim);
        let mut tries = 1;
        let failed = loop {
            match host_path::delete(folder).await {
                Ok(()) => return,
                Err(error) if tries == TRIES => break error,
                Err(_) => tries += 1,
            }
            self.pause().await;
        };
        let message = format!(
            "Error cleaning provisioned volume for claim {key}: {failed}. Please delete manually."
        );
        Notice::warning("ProvisioningCleanupFailed", message).record(&self.recorder, claim);
    }

    /// Waits for the next try. The end of the controller ends the wait.
    async fn pause(&self) {
        let stop = self.operations.stopped();
        // Either way the next try follows: after the end the write gate decides about it.
        let _ = stop
            .run_until_cancelled(tokio::time::sleep(BETWEEN_TRIES))
            .await;
    }
}

/// The volume of a folder for `claim`.
///
/// Upstream: `Provision` of the plugin, and the fields that `provisionClaimOperation` adds. The volume
/// points at its claim from the start, so no other claim takes it.
fn host_path_volume(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    name: &str,
    folder: &str,
) -> Value {
    let document = Value::Object(claim.document.to_object());
    // Upstream reads the field without a check; API servers set it.
    let policy = class.reclaim_policy.as_deref().unwrap_or("Delete");
    let modes = match &claim.spec.access_modes[..] {
        [] => json!(["ReadWriteOnce"]),
        modes => json!(modes),
    };
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {
                "kubernetes.io/createdby": "hostpath-dynamic-provisioner",
                edits::BOUND_BY_CONTROLLER: "yes",
                "pv.kubernetes.io/provisioned-by": HOST_PATH,
            },
        },
        "spec": {
            "accessModes": modes,
            "capacity": {"storage": document["spec"]["resources"]["requests"]["storage"]},
            "claimRef": edits::reference_to(claim),
            "hostPath": {"path": folder},
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": claim.class(),
        },
        // The API server drops it at a creation; upstream sends it too.
        "status": {"phase": "Bound"},
    });
    if policy == "Delete" {
        volume["metadata"]["finalizers"] = json!([IN_TREE_FINALIZER]);
    }
    volume
}
