//! The events that queue pods, PodGroups and claims. Upstream: `enqueuePod`, `enqueuePodGroup`,
//! `enqueueResourceClaim` and `enqueueResourceClaimTemplate`.

use std::sync::Arc;

use steersman_objects::{Object, ObjectKey, Pod, PodGroup, ResourceClaim, ResourceClaimTemplate};
use steersman_runtime::informer::{Change, IndexKey, SharedInformer};
use steersman_values::intern::Sym;

use super::Shared;
use super::groups;
use super::holder::Holder;
use super::key::{Key, index_key, index_keys};
use super::needs::{has_work, is_done};

/// Adds the handlers.
pub(super) fn register(
    shared: &Arc<Shared>,
    pods: &SharedInformer<Pod>,
    claims: &SharedInformer<ResourceClaim>,
    templates: &SharedInformer<ResourceClaimTemplate>,
    groups: Option<&SharedInformer<PodGroup>>,
) {
    let of_pods = Arc::clone(shared);
    pods.add_handler(move |change| match change {
        Change::Added { object, .. } => of_pods.pod_changed(object),
        Change::Updated { old, new } => {
            // Another pod of this name hides the deletion of the old one.
            if old.meta.uid != new.meta.uid {
                of_pods.pod_deleted(old);
            }
            of_pods.pod_changed(new);
        }
        Change::Deleted { object, .. } => of_pods.pod_deleted(object),
    });
    let of_claims = Arc::clone(shared);
    claims.add_handler(move |change| {
        let key = change.object().key();
        if let Change::Deleted { .. } = change {
            of_claims.consistency.clear(&Key::Claim(key.clone()));
        } else {
            of_claims.claim_seen(change.object());
            // At a start, each claim is checked for reservations of pods that are gone. Later on, a
            // scheduler may reserve a claim for a pod that has just been deleted.
            of_claims.queue.add(Key::Claim(key.clone()));
        }
        let key = index_key(&key.namespace, &key.name);
        // A claim that a user makes or an allocation may be all that a pod waits for. A deleted claim
        // has to be made again.
        let users = of_claims.pods_by_claim.get(&key);
        users.iter().for_each(|pod| of_claims.pod_changed(pod));
        if let Some(groups) = &of_claims.groups {
            let users = groups.by_claim.get(&key);
            users
                .iter()
                .for_each(|group| of_claims.group_changed(group));
        }
    });
    let of_templates = Arc::clone(shared);
    // A deleted template causes no work: existing claims stay as they are.
    templates.add_handler(move |change| {
        if let Change::Added { object, .. } | Change::Updated { new: object, .. } = change {
            let key = index_key(&object.meta.namespace, &object.meta.name);
            let users = of_templates.pods_by_template.get(&key);
            users.iter().for_each(|pod| of_templates.pod_changed(pod));
            if let Some(groups) = &of_templates.groups {
                let users = groups.by_template.get(&key);
                users
                    .iter()
                    .for_each(|group| of_templates.group_changed(group));
            }
        }
    });
    if let Some(groups) = groups {
        let of_groups = Arc::clone(shared);
        groups.add_handler(move |change| match change {
            Change::Added { object, .. } => of_groups.group_changed(object),
            Change::Updated { old, new } => {
                if old.meta.uid != new.meta.uid {
                    of_groups.group_deleted(old);
                }
                of_groups.group_changed(new);
            }
            Change::Deleted { object, .. } => of_groups.group_deleted(object),
        });
        groups.on_rewind(forget_deletions(shared));
    }
    // Either cache may be the first one to show a restored state.
    pods.on_rewind(forget_deletions(shared));
    claims.on_rewind(forget_deletions(shared));
}

/// Forgets the deletions of pods and PodGroups. The informers outlive the controller, and must not keep its records
/// alive.
fn forget_deletions(shared: &Arc<Shared>) -> impl Fn() + Send + Sync + 'static {
    let shared = Arc::downgrade(shared);
    move || {
        if let Some(shared) = shared.upgrade() {
            shared.deleted.clear();
        }
    }
}

impl Shared {
    /// Queues a pod with work, and the claims of a pod that is done.
    ///
    /// Upstream: `enqueuePod`. A pod that is done has no other work.
    fn pod_changed(&self, pod: &Pod) {
        if !has_claims(pod) {
            return;
        }
        // Its reservations may go at once. The claims of a pod that is only terminating wait for its
        // containers.
        if is_done(pod) {
            self.queue_claims(pod);
        }
        let namespace = &pod.meta.namespace;
        let claim = |name: &Sym| self.claims.store().get(&ObjectKey::new(namespace, name));
        if has_work(pod, &self.group_of(pod), self.groups.is_some(), claim) {
            self.queue.add(Key::Pod(pod.key()));
        }
    }

    /// Queues a PodGroup with work, and those of its pods with work.
    ///
    /// Upstream: `enqueuePodGroup`. Its pods follow, because a claim of the PodGroup may be all that
    /// their status lacks.
    fn group_changed(&self, group: &PodGroup) {
        if group.spec.resource_claims.is_empty() {
            return;
        }
        let namespace = &group.meta.namespace;
        let claim = |name: &Sym| self.claims.store().get(&ObjectKey::new(namespace, name));
        if groups::has_work(group, claim) {
            self.queue.add(Key::Group(group.key()));
        }
        self.members_changed(group);
    }

    /// Queues the claims of a PodGroup that is gone.
    ///
    /// The UID is remembered before the claims are queued, so their syncs need no request.
    fn group_deleted(&self, group: &PodGroup) {
        if group.spec.resource_claims.is_empty() {
            return;
        }
        self.deleted.add(&group.meta.uid);
        self.forget(&Key::Group(group.key()));
        self.queue_claims_of(Holder::Group(group));
        self.members_changed(group);
    }

    /// Queues the pods of a PodGroup that have work.
    fn members_changed(&self, group: &PodGroup) {
        let key = index_key(&group.meta.namespace, &group.meta.name);
        let members = self.groups.iter().flat_map(|of| of.members.get(&key));
        members.for_each(|pod| self.pod_changed(&pod));
    }

    /// The cache shows a claim, which may be one that this controller made.
    ///
    /// From now on, the cache suffices to find it; see `unseen`.
    fn claim_seen(&self, claim: &ResourceClaim) {
        let names = claim
            .meta
            .controller()
            .zip(claim.annotations.pod_claim_name.as_ref());
        if let Some((owner, name)) = names {
            let key = ObjectKey::new(&claim.meta.namespace, &owner.name);
            let is_group = owner.kind == *PodGroup::RESOURCE.kind;
            let holder = if is_group {
                Key::Group(key)
            } else {
                Key::Pod(key)
            };
            self.seen(&holder, name);
        }
    }

    /// Queues the claims of a pod that is gone.
    ///
    /// The order matters as in `group_deleted`.
    fn pod_deleted(&self, pod: &Pod) {
        if has_claims(pod) {
            self.deleted.add(&pod.meta.uid);
            self.forget(&Key::Pod(pod.key()));
            self.queue_claims(pod);
        }
    }

    /// Queues the claims of `pod`. The one for its extended resources is known only from its status,
    /// and counts whether or not the feature is still on.
    fn queue_claims(&self, pod: &Pod) {
        self.queue_claims_of(Holder::Pod(pod));
        if let Some(name) = &pod.details().extended_resource_claim {
            let key = ObjectKey::new(&pod.meta.namespace, name);
            self.queue.add(Key::Claim(key));
        }
    }

    /// Claims that are yet to be made have no name, and are left out.
    fn queue_claims_of(&self, holder: Holder<'_>) {
        let claims = holder.claims().iter();
        for name in claims.filter_map(|claim| holder.claim_name(claim).known()) {
            let key = ObjectKey::new(&holder.meta().namespace, name);
            self.queue.add(Key::Claim(key));
        }
    }
}

/// Whether `pod` uses claims: its own ones, or the one that a scheduler made for its extended
/// resources.
fn has_claims(pod: &Pod) -> bool {
    !pod.spec.resource_claims.is_empty() || pod.details().extended_resource_claim.is_some()
}

/// The keys of the ResourceClaims that `pod` uses by now.
///
/// Upstream: `podResourceClaimIndexFunc`. Only claims with a known name are indexed.
pub(super) fn claims_of(pod: &Pod) -> Vec<IndexKey> {
    let names = pod.spec.resource_claims.iter();
    let names = names.filter_map(|claim| pod.claim_name(claim).known());
    index_keys(&pod.meta, names)
}

/// The keys of the templates that `pod` names.
///
/// Upstream: `podResourceClaimTemplateIndexFunc`.
pub(super) fn templates_of(pod: &Pod) -> Vec<IndexKey> {
    let claims = pod.spec.resource_claims.iter();
    let names = claims.filter_map(|claim| claim.resource_claim_template_name.as_ref());
    index_keys(&pod.meta, names)
}
