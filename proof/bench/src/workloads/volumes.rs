//! The load `volumes`: pods with one attached volume each, which then move to other nodes.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use steersman_client::{PatchKind, Target};
use steersman_objects::{Identity, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};

use super::{NAMESPACE, Workloads, name, ours, target};
use crate::run::Bench;

/// The CSI driver of the volumes. The simulated attacher answers for every driver.
const DRIVER: &str = "csi.example.com";

impl Workloads {
    pub(super) async fn volumes(&self, count: usize, bench: &mut Bench<'_>) -> Result<()> {
        for index in 0..count {
            self.create_bound_claim(index).await?;
        }
        bench
            .phase("attach", 0, async {
                self.create_pods_with_volumes(count, 0).await
            })
            .await?;
        bench
            .phase("move", 0, async {
                self.delete_all(&self.pods).await?;
                self.wait(|| ours(&self.pods).is_empty())
                    .await
                    .context("pods are left")?;
                self.create_pods_with_volumes(count, 1).await
            })
            .await?;
        bench
            .phase("detach", 0, async {
                self.delete_all(&self.pods).await?;
                let left = || self.attachments.store().len();
                self.wait(|| left() == 0)
                    .await
                    .with_context(|| format!("{} volumes are attached", left()))
            })
            .await?;
        self.delete_all(&self.claims).await?;
        self.delete_all(&self.volumes).await?;
        self.wait(|| ours(&self.claims).is_empty() && ours(&self.volumes).is_empty())
            .await
            .context("claims or volumes are left")
    }

    /// Creates a claim and its volume, and binds both, so that the load needs no binder.
    async fn create_bound_claim(&self, index: usize) -> Result<()> {
        let name = name(index);
        let modes = json!(["ReadWriteOnce"]);
        let metadata = json!({"name": name});
        let request = json!({"requests": {"storage": "1Gi"}});
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata,
            "spec": {
                "accessModes": modes, "storageClassName": "", "volumeName": name,
                "resources": request,
            },
        });
        let created = self
            .client
            .create(target::<PersistentVolumeClaim>(None), &claim)
            .await;
        let uid = Identity::decode(&created.with_context(|| format!("create claim {name}"))?)?.uid;
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE,
            "name": name, "uid": uid.to_string(),
        });
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata,
            "spec": {
                "accessModes": modes, "capacity": {"storage": "1Gi"}, "claimRef": reference,
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": DRIVER, "volumeHandle": name},
            },
        });
        let created = self
            .client
            .create(target::<PersistentVolume>(None), &volume)
            .await;
        created.with_context(|| format!("create volume {name}"))?;
        let capacity = json!({"storage": "1Gi"});
        let bound = json!({"phase": "Bound", "accessModes": modes, "capacity": capacity});
        let of_volume = target::<PersistentVolume>(Some(&name));
        self.patch_status(of_volume, json!({"phase": "Bound"}))
            .await?;
        let of_claim = target::<PersistentVolumeClaim>(Some(&name));
        self.patch_status(of_claim, bound).await
    }

    async fn patch_status(&self, target: Target<'_>, status: Value) -> Result<()> {
        let body = json!({ "status": status });
        let patched = self
            .client
            .patch(target.status(), PatchKind::Merge, &body)
            .await;
        patched.context("bind a claim and its volume")?;
        Ok(())
    }

    /// Creates pods on all nodes in turn, `shift` nodes further than the first time, and waits until
    /// they are ready.
    async fn create_pods_with_volumes(&self, count: usize, shift: usize) -> Result<()> {
        let mut nodes: Vec<String> = self
            .nodes
            .store()
            .list()
            .iter()
            .map(|node| node.meta.name.to_string())
            .collect();
        nodes.sort_unstable();
        for index in 0..count {
            let node = nodes.get((index + shift) % nodes.len().max(1));
            let volume =
                json!({"name": "data", "persistentVolumeClaim": {"claimName": name(index)}});
            let spec = json!({
                "nodeName": node.context("the cluster has no nodes")?, "volumes": [volume],
                "containers": [{"name": "main", "image": "i"}], "terminationGracePeriodSeconds": 0,
            });
            self.create::<Pod>(index, &spec).await?;
        }
        self.all(&self.pods, count, Pod::is_ready).await?;
        let store = self.attachments.store();
        let is_attached =
            |one: &VolumeAttachment| one.status.attached && !one.meta.is_terminating();
        let attached = || store.list().iter().filter(|one| is_attached(one)).count();
        self.wait(|| attached() == count && store.len() == count)
            .await
            .with_context(|| format!("{} of {count} volumes are attached", attached()))
    }
}
