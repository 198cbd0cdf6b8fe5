//! Volumes of claims: the simulated CSI driver, and a stand-in for the PersistentVolume binder.
//!
//! claims, classes, volumes (informers) -> queue -> [`csi`](super::csi), then the binding; each
//! write is repeatable
//!
//! The default StorageClass binds at once, because every simulated node reaches every simulated
//! volume. Claims of other classes get simulated volumes, too, because their provisioners are
//! absent from such a cluster. Where the PersistentVolume binder runs, it binds claims and releases
//! volumes, and its annotation asks for a volume. Elsewhere the stand-in does so for the volumes of
//! the driver, and leaves other volumes alone.
//!
//! Upstream: `pkg/controller/volume/persistentvolume`.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{Object, ObjectKey, Uid};
use steersman_runtime::informer::{Change, InformerFactory, SharedInformer, Store};
use steersman_runtime::workers::{Requeue, Syncer};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::resource::ResourceType;

use super::claims::{
    CLAIMS, ClaimRef, Claims, SELECTED_NODE, SimClaim, SimClass, SimVolume, VOLUMES, target,
};
use super::csi::{Answer, Driver, provisioner, resizer};

/// A key of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Claim(ObjectKey),
    Volume(ObjectKey),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(key) | Self::Volume(key) => key.fmt(f),
        }
    }
}

/// Creates, expands and deletes volumes, and binds claims if no binder does.
pub(super) struct Volumes {
    client: ApiClient,
    claims: Claims,
    volumes: Store<SimVolume>,
    driver: Driver,
    /// Whether this is the stand-in for the PersistentVolume binder.
    binds: bool,
}

impl Volumes {
    /// Requests the caches, and queues changed objects. `claim_changed` gets the key of every
    /// claim that changes, or whose volume does.
    pub(super) fn new(
        client: ApiClient,
        informers: &InformerFactory,
        queue: &WorkQueue<Work>,
        driver: Driver,
        binds: bool,
        claim_changed: impl Fn(&ObjectKey) + Send + Sync + 'static,
    ) -> Self {
        let claims = informers.shared::<SimClaim>();
        let classes = informers.shared::<SimClass>();
        let volumes = informers.shared::<SimVolume>();
        let queued = queue.clone();
        let claim_changed = Arc::new(claim_changed);
        let of_volume_changed = Arc::clone(&claim_changed);
        claims.add_handler(move |change| {
            let claim = change.object();
            match change {
                Change::Deleted { .. } => {
                    queued.add(Work::Volume(ObjectKey::new("", &claim.spec.volume_name)));
                }
                _ => queued.add(Work::Claim(claim.key())),
            }
            claim_changed(&claim.key());
        });
        let queued = queue.clone();
        volumes.add_handler(move |change| {
            let volume = change.object();
            queued.add(Work::Volume(volume.key()));
            // The cache of claims can be ahead of that of volumes.
            let ClaimRef {
                namespace, name, ..
            } = &volume.spec.claim_ref;
            of_volume_changed(&ObjectKey::new(namespace, name));
        });
        enqueue_claims_of_new_classes(&classes, claims.store(), queue);
        Self {
            client,
            claims: Claims {
                claims: claims.store(),
                classes: classes.store(),
                volumes: volumes.store(),
            },
            volumes: volumes.store(),
            driver,
            binds,
        }
    }

    /// The caches for the scheduler.
    pub(super) fn claims(&self) -> Claims {
        self.claims.clone()
    }

    /// Creates the volume of an unbound claim, or grants a larger request.
    async fn sync_claim(&self, key: &ObjectKey) -> Result<Requeue, ApiError> {
        let Some(claim) = self.claims.claims.get(key) else {
            return Ok(Requeue::Never);
        };
        let own = claim.volume();
        let is_foreign = !claim.spec.volume_name.is_empty() && claim.spec.volume_name != own;
        if claim.meta.is_terminating() || is_foreign {
            return Ok(Requeue::Never);
        }
        let class = self.claims.class_of(&claim);
        if claim.is_bound() {
            if !resizer::is_larger(&claim) {
                return Ok(Requeue::Never);
            }
            let answer =
                resizer::expand(&self.driver, &self.client, &claim, class.as_deref()).await?;
            return Ok(again(&answer));
        }
        let Some(class) = class else {
            return Ok(Requeue::Never);
        };
        let waits = class.waits_for_pod() && !claim.annotations.contains_key(SELECTED_NODE);
        let asked_by = if self.binds {
            Some(class.wire.provisioner.as_str())
        } else {
            provisioner::requested(&claim).filter(|_| claim.spec.volume_name.is_empty())
        };
        let Some(asked_by) = asked_by.filter(|_| !waits) else {
            return Ok(Requeue::Never);
        };
        let answer =
            provisioner::create(&self.driver, &self.client, &claim, &class, asked_by).await?;
        if self.binds && answer == Answer::Done {
            self.bind(&claim, &class).await?;
        }
        Ok(again(&answer))
    }

    /// Binds `claim` and its volume.
    async fn bind(&self, claim: &SimClaim, class: &SimClass) -> Result<(), ApiError> {
        let own = claim.volume();
        let phase = json!({ "status": { "phase": "Bound" } });
        self.patch(&VOLUMES, None, &own, "status", phase).await?;
        let bound = json!({
            "metadata": {
                "uid": claim.meta.uid.to_string(),
                "annotations": {
                    "pv.kubernetes.io/bind-completed": "yes",
                    "pv.kubernetes.io/bound-by-controller": "yes",
                    "volume.kubernetes.io/storage-provisioner": class.wire.provisioner
                }
            },
            "spec": { "volumeName": own }
        });
        self.patch_claim(claim, "", bound).await?;
        let status = json!({ "status": {
            "phase": "Bound", "accessModes": claim.spec.access_modes,
            "capacity": claim.spec.resources.requests.json(),
        }});
        self.patch_claim(claim, "status", status).await
    }

    async fn patch_claim(
        &self,
        claim: &SimClaim,
        subresource: &'static str,
        body: Value,
    ) -> Result<(), ApiError> {
        let namespace = Some(claim.meta.namespace.as_str());
        self.patch(&CLAIMS, namespace, &claim.meta.name, subresource, body)
            .await
    }

    async fn patch(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        name: &str,
        subresource: &'static str,
        body: Value,
    ) -> Result<(), ApiError> {
        let at = Target {
            subresource: Some(subresource).filter(|part| !part.is_empty()),
            ..target(resource, namespace, Some(name))
        };
        self.client.patch(at, PatchKind::Merge, &body).await?;
        Ok(())
    }

    /// Reclaims a provisioned volume after its claim.
    async fn sync_volume(&self, key: &ObjectKey) -> Result<Requeue, ApiError> {
        let Some(volume) = self.volumes.get(key) else {
            return Ok(Requeue::Never);
        };
        let is_released = volume.status.phase == "Released";
        let is_left_alone = !provisioner::is_own(&volume)
            || volume.meta.is_terminating()
            || (!self.binds && !is_released)
            || self.exists(&volume.spec.claim_ref).await?;
        if is_left_alone {
            return Ok(Requeue::Never);
        }
        // A bound volume keeps the finalizer that protects it.
        if !is_released {
            let released = json!({ "status": { "phase": "Released" } });
            self.patch(&VOLUMES, None, &key.name, "status", released)
                .await?;
        }
        if provisioner::is_deleted(&volume) {
            let class = ObjectKey::new("", &volume.spec.storage_class_name);
            let class = self.claims.classes.get(&class);
            let answer =
                provisioner::delete(&self.driver, &self.client, &volume, class.as_deref()).await?;
            return Ok(again(&answer));
        }
        Ok(Requeue::Never)
    }

    /// Whether the claim of a volume exists. The cache alone may be late, and deletion destroys
    /// data, so a live read confirms that it is gone.
    async fn exists(&self, claim: &ClaimRef) -> Result<bool, ApiError> {
        let key = ObjectKey::new(&claim.namespace, &claim.name);
        let has_uid = |uid: &Uid| uid.to_string() == claim.uid;
        let cached = self.claims.claims.get(&key);
        if cached.is_some_and(|cached| has_uid(&cached.meta.uid)) {
            return Ok(true);
        }
        let at = target(&CLAIMS, Some(&claim.namespace), Some(&claim.name));
        match self.client.get(at).await {
            Ok(found) => Ok(SimClaim::decode(&found).is_ok_and(|found| has_uid(&found.meta.uid))),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The time at which a key returns after this answer of the driver.
fn again(answer: &Answer) -> Requeue {
    answer.again().map_or(Requeue::Never, Requeue::After)
}

/// Queues the claims of a class that appears after them.
fn enqueue_claims_of_new_classes(
    classes: &SharedInformer<SimClass>,
    claims: Store<SimClaim>,
    queue: &WorkQueue<Work>,
) {
    let queue = queue.clone();
    classes.add_handler(move |change| {
        let Change::Added { object: class, .. } = change else {
            return;
        };
        let waits =
            |claim: &&Arc<SimClaim>| claim.class() == &*class.meta.name && !claim.is_bound();
        for claim in claims.list().iter().filter(waits) {
            queue.add(Work::Claim(claim.key()));
        }
    });
}

impl Syncer<Work> for Volumes {
    type Error = ApiError;

    async fn sync(&self, work: &Work) -> Result<Requeue, ApiError> {
        match work {
            Work::Claim(key) => self.sync_claim(key).await,
            Work::Volume(key) => self.sync_volume(key).await,
        }
    }
}
