//! Keeps each VolumeAttributesClass while a claim or volume refers to it.
//!
//! Class, claim and volume events -> queue of names -> sync -> PUT
//!
//! Upstream: `pkg/controller/volume/vacprotection`. It ignores deletions of claims and volumes that
//! only a new list showed. Such a class would stay.

use std::sync::Arc;

use steersman_client::ApiClient;
use steersman_objects::{
    Document, Object, ObjectKey, PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass,
};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::{Change, Index, IndexKey, SharedInformer};
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Requeue;
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::intern::Sym;

use super::{Finalizers, Protected, SyncError, Use, WORKERS, list, watch_finalizers};

/// The protection of VolumeAttributesClasses.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &[],
    enabled_by_default: true,
    summary: "Keeps each VolumeAttributesClass while claims or volumes refer to it",
    identity: NAME,
    reads: &[
        Read::of::<VolumeAttributesClass>(),
        Read::of::<PersistentVolumeClaim>(),
        Read::of::<PersistentVolume>(),
    ],
    rules: &[
        Rule::new(
            &["storage.k8s.io"],
            &["volumeattributesclasses"],
            &["update"],
        ),
        Rule::new(
            &[""],
            &["persistentvolumeclaims", "persistentvolumes"],
            &["list"],
        ),
    ],
    init,
};

const NAME: &str = "volumeattributesclass-protection-controller";

/// Name of the indexes by class.
///
/// Upstream: `vacNameKeyIndex`.
const INDEX: &str = "volumeAttributesClassName";

impl Protected for VolumeAttributesClass {
    const FINALIZER: &'static str = "kubernetes.io/vac-protection";

    fn document(&self) -> &Document {
        &self.document
    }
}

/// A type whose objects refer to classes.
trait ClassUser: Object {
    /// Names of the classes, without repetition.
    fn classes(&self) -> Vec<&Sym>;
}

impl ClassUser for PersistentVolumeClaim {
    /// A change of class takes time, and the old and the new class are both needed until its end.
    /// Upstream: `getPVCReferencedVACNames`.
    fn classes(&self) -> Vec<&Sym> {
        let status = &self.status;
        let target = status.modify_volume_status.as_ref();
        let names = [
            self.spec.volume_attributes_class_name.as_ref(),
            status.current_volume_attributes_class_name.as_ref(),
            target.map(|target| &target.target_volume_attributes_class_name),
        ];
        distinct(names)
    }
}

impl ClassUser for PersistentVolume {
    /// Upstream: `getPVReferencedVACNames`.
    fn classes(&self) -> Vec<&Sym> {
        distinct([self.spec.volume_attributes_class_name.as_ref()])
    }
}

/// The set names of `names`, each once.
///
/// An empty name means "no class" and is left out.
fn distinct<const N: usize>(names: [Option<&Sym>; N]) -> Vec<&Sym> {
    let set = names.into_iter().flatten().filter(|name| !name.is_empty());
    let mut names: Vec<&Sym> = set.collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let mut keyed = Keyed::<VolumeAttributesClass>::new(ctx, NAME, "vacprotection");
    let classes = keyed.objects().clone();
    let queue = keyed.queue();
    watch_finalizers(&classes, &queue);
    let client = ctx.client(DESCRIPTOR.identity);
    let syncer = Classes {
        claims: watch_users(&ctx.informers.shared::<PersistentVolumeClaim>(), &queue),
        volumes: watch_users(&ctx.informers.shared::<PersistentVolume>(), &queue),
        finalizers: Finalizers::new(client.clone(), keyed.tracked(&classes)),
        client,
    };
    Ok(keyed.boxed(WORKERS, syncer))
}

/// Queues classes that an object no longer refers to. Returns the index of the objects by class.
///
/// Upstream: `pvcUpdated`, `pvcDeleted`, `pvUpdated` and `pvDeleted`. A new user cannot free a class,
/// so additions are ignored.
fn watch_users<T: ClassUser>(users: &SharedInformer<T>, queue: &WorkQueue<ObjectKey>) -> Index<T> {
    let queue = queue.clone();
    users.add_handler(move |change| {
        let (before, after) = match change {
            Change::Added { .. } => return,
            Change::Updated { old, new } => (old, new.classes()),
            Change::Deleted { object, .. } => (object, Vec::new()),
        };
        for class in before.classes() {
            if !after.contains(&class) {
                queue.add(ObjectKey::new("", class));
            }
        }
    });
    // Most updates of claims keep their classes. The comparison spares the index a change.
    users.store().add_index_over(
        INDEX,
        |old, new| old.classes() == new.classes(),
        |user| {
            let names = user.classes().into_iter();
            names.map(|name| IndexKey::new(name)).collect()
        },
    )
}

/// Syncs classes.
struct Classes {
    claims: Index<PersistentVolumeClaim>,
    volumes: Index<PersistentVolume>,
    finalizers: Finalizers<VolumeAttributesClass>,
    client: ApiClient,
}

impl Classes {
    /// The objects that refer to `class`. Volumes come first, as in upstream's `isBeingUsed`.
    async fn users(&self, class: &str) -> Result<Use, SyncError> {
        if self.volumes.count(class) > 0 || self.claims.count(class) > 0 {
            return Ok(Use::Cached);
        }
        let is_used = self.lists_user::<PersistentVolume>(class).await?
            || self.lists_user::<PersistentVolumeClaim>(class).await?;
        Ok(if is_used { Use::Uncached } else { Use::None })
    }

    /// Whether the API server has an object of type `T` that refers to `class`.
    ///
    /// Upstream has no such list, for its cost in large clusters. The comment on its `Controller`
    /// describes the race: a claim that refers to the class is newer than the cache. Deletions of
    /// classes are rare.
    async fn lists_user<T: ClassUser>(&self, class: &str) -> Result<bool, SyncError> {
        let refers = |user: &T| user.classes().iter().any(|name| name.as_str() == class);
        let users = list(&self.client, "", refers).await?;
        Ok(!users.objects.is_empty())
    }
}

impl ObjectSyncer for Classes {
    type Object = VolumeAttributesClass;
    type Error = SyncError;

    async fn sync(
        &self,
        key: &ObjectKey,
        class: Arc<VolumeAttributesClass>,
    ) -> Result<Requeue, SyncError> {
        let users = self.users(&class.meta.name);
        self.finalizers.settle(key, &class, users).await
    }
}
