//! The external provisioner: it creates volumes of claims, and deletes released ones.
//!
//! Upstream: `kubernetes-csi/external-provisioner`.

use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError};
use steersman_runtime::events::EventType;

use super::{Answer, Driver};
use crate::claims::{ClaimRef, PROVISIONED_BY, SimClaim, SimClass, SimVolume, VOLUMES, target};

/// Annotation with the provisioner of a claim.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// The external provisioner to which the PersistentVolume binder has handed `claim`. The binder names
/// its own plugins, too.
pub(crate) fn requested(claim: &SimClaim) -> Option<&str> {
    let name = claim.annotations.get(PROVISIONER).map(String::as_str);
    name.filter(|name| !name.starts_with("kubernetes.io/"))
}

/// Whether the provisioner made `volume`, and for a claim that `volume` still names.
pub(crate) fn is_own(volume: &SimVolume) -> bool {
    let ClaimRef { uid, .. } = &volume.spec.claim_ref;
    volume.annotations.contains_key(PROVISIONED_BY) && *volume.meta.name == *format!("pvc-{uid}")
}

/// Whether the volume of a gone claim is to be deleted.
pub(crate) fn is_deleted(volume: &SimVolume) -> bool {
    volume.spec.persistent_volume_reclaim_policy == "Delete"
}

/// Creates the volume of `claim`, when the driver has made it. An existing volume is fine.
pub(crate) async fn create(
    driver: &Driver,
    client: &ApiClient,
    claim: &SimClaim,
    class: &SimClass,
    provisioner: &str,
) -> Result<Answer, ApiError> {
    let id = format!("create {}", claim.meta.uid);
    let answer = driver.call(&id, [&claim.annotations, &class.annotations]);
    match &answer {
        Answer::Done => {
            let body = volume(claim, class, provisioner);
            match client.create(target(&VOLUMES, None, None), &body).await {
                Err(error) if !error.is_already_exists() => return Err(error),
                _ => {}
            }
            let message = format!("Successfully provisioned volume {}", claim.volume());
            driver.event(claim, EventType::Normal, "ProvisioningSucceeded", message);
        }
        Answer::Failed(error) => {
            let class = &class.meta.name;
            let message =
                format!("failed to provision volume with StorageClass {class:?}: {error}");
            driver.event(claim, EventType::Warning, "ProvisioningFailed", message);
        }
        Answer::Later(_) | Answer::Never => {
            let namespace = &claim.meta.namespace;
            let name = &claim.meta.name;
            let message = format!(
                "External provisioner is provisioning volume for claim \"{namespace}/{name}\""
            );
            driver.event(claim, EventType::Normal, "Provisioning", message);
        }
    }
    Ok(answer)
}

/// Deletes `volume`, when the driver has deleted its storage.
pub(crate) async fn delete(
    driver: &Driver,
    client: &ApiClient,
    volume: &SimVolume,
    class: Option<&SimClass>,
) -> Result<Answer, ApiError> {
    let id = format!("delete {}", volume.meta.uid);
    let of_class = class.map(|class| &class.annotations);
    let annotations: Vec<_> = [&volume.annotations].into_iter().chain(of_class).collect();
    let answer = driver.call(&id, annotations);
    match &answer {
        Answer::Done => {
            let options = json!({ "preconditions": { "uid": volume.meta.uid.to_string() } });
            let at = target(&VOLUMES, None, Some(&volume.meta.name));
            match client.delete(at, &options).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Answer::Failed(error) => {
            driver.event(
                volume,
                EventType::Warning,
                "VolumeFailedDelete",
                error.clone(),
            );
        }
        Answer::Later(_) | Answer::Never => {}
    }
    Ok(answer)
}

/// The volume of a claim.
fn volume(claim: &SimClaim, class: &SimClass, provisioner: &str) -> Value {
    let meta = &claim.meta;
    let name = claim.volume();
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": name, "annotations": { PROVISIONED_BY: provisioner } },
        "spec": {
            "capacity": claim.spec.resources.requests.json(),
            "accessModes": claim.spec.access_modes,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta.namespace.as_str(),
                "name": &*meta.name,
                "uid": meta.uid.to_string(),
                "resourceVersion": meta.resource_version.to_string()
            },
            "csi": { "driver": "simulate.steersman.dev", "volumeHandle": name },
            "persistentVolumeReclaimPolicy": class.wire.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": claim.class(),
            "volumeMode": claim.spec.volume_mode.as_deref().unwrap_or("Filesystem")
        }
    });
    if let Some(options) = &class.wire.mount_options {
        volume["spec"]["mountOptions"] = options.clone();
    }
    volume
}
