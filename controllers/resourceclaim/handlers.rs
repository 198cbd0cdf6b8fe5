//! The events that queue pods and claims. Upstream: `enqueuePod`, `enqueueResourceClaim` and
//! `enqueueResourceClaimTemplate`.

use std::sync::Arc;

use steersman_objects::{Object, ObjectKey, Pod, ResourceClaim, ResourceClaimTemplate};
use steersman_runtime::informer::{Change, IndexKey, SharedInformer};

use super::Shared;
use super::key::Key;
use super::needs::{has_work, is_done};

/// Adds the handlers.
pub(super) fn register(
    shared: &Arc<Shared>,
    pods: &SharedInformer<Pod>,
    claims: &SharedInformer<ResourceClaim>,
    templates: &SharedInformer<ResourceClaimTemplate>,
) {
    let of_pods = Arc::clone(shared);
    pods.add_handler(move |change| match change {
        Change::Added { object, .. } => of_pods.pod_changed(object),
        Change::Updated { old, new } => {
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
            of_claims.writes.forget(&Key::Claim(key.clone()));
        } else {
            of_claims.claim_seen(change.object());
            of_claims.queue.add(Key::Claim(key.clone()));
        }
        let users = of_claims
            .pods_by_claim
            .get(&index_key(&key.namespace, &key.name));
        users.iter().for_each(|pod| of_claims.pod_changed(pod));
    });
    let of_templates = Arc::clone(shared);
    templates.add_handler(move |change| {
        if let Change::Added { object, .. } | Change::Updated { new: object, .. } = change {
            let key = index_key(&object.meta.namespace, &object.meta.name);
            let users = of_templates.pods_by_template.get(&key);
            users.iter().for_each(|pod| of_templates.pod_changed(pod));
        }
    });
    // Either cache may be the first one to show a restored state.
    pods.on_rewind(forget_deletions(shared));
    claims.on_rewind(forget_deletions(shared));
}

/// Forgets the deletions of pods. The informers outlive the controller, and must not keep its records
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
    fn pod_changed(&self, pod: &Pod) {
        if !has_claims(pod) {
            return;
        }
        if is_done(pod) {
            self.queue_claims(pod);
        }
        let namespace = &pod.meta.namespace;
        if has_work(pod, |name| {
            self.claims.store().get(&ObjectKey::new(namespace, name))
        }) {
            self.queue.add(Key::Pod(pod.key()));
        }
    }

    /// The cache shows a claim, which may be one that this controller made.
    fn claim_seen(&self, claim: &ResourceClaim) {
        let names = claim
            .meta
            .controller()
            .zip(claim.annotations.pod_claim_name.as_ref());
        if let Some((pod, pod_claim)) = names {
            let pod = ObjectKey::new(&claim.meta.namespace, &pod.name);
            self.seen(&pod, pod_claim);
        }
    }

    /// Queues the claims of a pod that is gone.
    fn pod_deleted(&self, pod: &Pod) {
        if has_claims(pod) {
            self.deleted.add(&pod.meta.uid);
            self.writes.forget(&Key::Pod(pod.key()));
            self.unseen().remove(&pod.key());
            self.queue_claims(pod);
        }
    }

    fn queue_claims(&self, pod: &Pod) {
        let names = pod.spec.resource_claims.iter();
        let names = names.filter_map(|claim| pod.claim_name(claim).known());
        for name in names.chain(&pod.details().extended_resource_claim) {
            let key = ObjectKey::new(&pod.meta.namespace, name);
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
pub(super) fn claims_of(pod: &Pod) -> Vec<IndexKey> {
    let names = pod.spec.resource_claims.iter();
    let names = names.filter_map(|claim| pod.claim_name(claim).known());
    keys(pod, names)
}

/// The keys of the templates that `pod` names.
pub(super) fn templates_of(pod: &Pod) -> Vec<IndexKey> {
    let claims = pod.spec.resource_claims.iter();
    let names = claims.filter_map(|claim| claim.resource_claim_template_name.as_ref());
    keys(pod, names)
}

/// The index keys of `names` in the namespace of `pod`, each once.
fn keys<'a>(pod: &Pod, names: impl Iterator<Item = &'a IndexKey>) -> Vec<IndexKey> {
    let mut keys: Vec<IndexKey> = names
        .map(|name| index_key(&pod.meta.namespace, name))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn index_key(namespace: &str, name: &str) -> IndexKey {
    IndexKey::new(&format!("{namespace}/{name}"))
}
