//! The load `claims`: PersistentVolumeClaims that get volumes of the simulated provisioner, and lose
//! them.

use anyhow::{Context, Result};
use serde_json::json;
use steersman_devcluster::nodes::DEFAULT_CLASS;
use steersman_objects::{PersistentVolume, PersistentVolumeClaim};

use super::{NAMESPACE, Workloads};
use crate::run::Bench;

impl Workloads {
    pub(super) async fn claims(&self, count: usize, bench: &mut Bench<'_>) -> Result<()> {
        let spec = json!({
            "accessModes": ["ReadWriteOnce"], "storageClassName": DEFAULT_CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        });
        bench
            .phase("provision and bind", 0, async {
                for index in 0..count {
                    self.create::<PersistentVolumeClaim>(index, &spec).await?;
                }
                let is_bound = |claim: &PersistentVolumeClaim| claim.status.phase == "Bound";
                self.all(&self.claims, count, is_bound).await
            })
            .await?;
        bench
            .phase("delete", 0, async {
                self.delete_all(&self.claims).await?;
                let volumes = self.volumes.store();
                let is_ours = |volume: &PersistentVolume| {
                    let claim = volume.spec.claim_ref.as_ref();
                    claim.is_some_and(|claim| claim.namespace == *NAMESPACE)
                };
                let left = || {
                    volumes
                        .list()
                        .iter()
                        .filter(|volume| is_ours(volume))
                        .count()
                };
                self.wait(|| left() == 0)
                    .await
                    .with_context(|| format!("{} volumes are left", left()))
            })
            .await
    }
}
