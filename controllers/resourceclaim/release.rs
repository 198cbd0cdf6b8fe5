//! The sync of a claim: reservations of pods that are done go, then the allocation, the finalizer,
//! and the claim itself if it was made for one of these pods. Upstream: `syncClaim`.
//!
//! Each write is a PUT with the resource version of the decision, as upstream. A scheduler may reserve
//! the claim at any time, and then the write has to fail.

use std::borrow::Cow;

use serde_json::Value;
use steersman_client::Target;
use steersman_client::live;
use steersman_client::writes::{Delete, with_member};
use steersman_objects::{
    ClaimConsumer, Object, ObjectKey, OwnerReference, Pod, ResourceClaim, Uid,
};

use super::Shared;
use super::error::SyncError;
use super::key::Key;
use super::needs::is_done;

/// The finalizer that the scheduler sets when it allocates devices.
///
/// Upstream: `resourceapi.Finalizer`.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

impl Shared {
    /// A claim is deallocated only when its last reservation goes. A driver may allocate a claim
    /// without a reservation, so an unreserved claim is left allocated. Its deletion is the exception.
    pub(super) async fn sync_claim(&self, key: &ObjectKey) -> Result<(), SyncError> {
        let Some(cached) = self.claims.store().get(key) else {
            self.consistency.clear(&Key::Claim(key.clone()));
            return Ok(());
        };
        let mut over: Vec<&ClaimConsumer> = Vec::new();
        for consumer in &cached.status.reserved_for {
            if !self.may_use(&key.namespace, consumer).await? {
                over.push(consumer);
            }
        }
        // A claim without any reservation is unused as well.
        let is_unused = over.len() == cached.status.reserved_for.len();
        let mut claim = Cow::Borrowed(&*cached);
        if !over.is_empty() {
            // Without the finalizer, another allocator owns the allocation. None exists by now;
            // upstream checks as well.
            let is_protected = is_unused && has_finalizer(&claim);
            claim = Cow::Owned(self.release(&claim, &over, is_protected).await?);
            tracing::debug!("Removed consumers");
            if claim.status.allocation.is_none() && has_finalizer(&claim) {
                claim = Cow::Owned(self.remove_finalizer(&claim).await?);
            }
        } else if is_unused && claim.meta.is_terminating() && has_finalizer(&claim) {
            // A driver allocated the claim without a reservation.
            if claim.status.allocation.is_some() {
                claim = Cow::Owned(self.release(&claim, &[], true).await?);
            }
            claim = Cow::Owned(self.remove_finalizer(&claim).await?);
        }
        // The garbage collector deletes the claim with its pod. A finished pod may stay for long, and
        // its claim need not.
        if is_unused
            && !claim.meta.is_terminating()
            && let Some(owner) = owning_pod(&claim)
            && self.owner_is_done(&key.namespace, owner).await?
        {
            self.delete(&claim).await?;
        }
        Ok(())
    }

    /// Whether the consumer of a claim may use it still. Consumers of other types always may.
    ///
    /// Upstream: the loop of `syncClaim`. Cheap checks come first: memory, cache, GET. Upstream
    /// trusts a cached pod with another UID, which may be older than the consumer.
    async fn may_use(&self, namespace: &str, consumer: &ClaimConsumer) -> Result<bool, SyncError> {
        let groups = self.groups.as_ref();
        if let Some(groups) = groups.filter(|_| consumer.is_pod_group()) {
            return self.group_may_use(groups, namespace, consumer).await;
        }
        if !consumer.is_pod() {
            return Ok(true);
        }
        let Some(uid) = &consumer.uid else {
            return Ok(false);
        };
        if self.deleted.contains(uid) {
            return Ok(false);
        }
        match self.pods.get(&ObjectKey::new(namespace, &consumer.name)) {
            Some(pod) if pod.meta.uid == *uid => Ok(!is_done(&pod)),
            // The cache may lack the pod by now, and the scheduler may be about to start it.
            _ => {
                let live = self.live_pod(namespace, &consumer.name).await?;
                Ok(live.is_some_and(|pod| pod.meta.uid == *uid))
            }
        }
    }

    /// Whether the pod of a generated claim never needs it again. The garbage collector deletes the
    /// claim of a pod that is gone.
    ///
    /// Upstream deletes the claim as soon as the cache shows another pod of the name. Here memory or a
    /// live read confirms that the cache is the newer one.
    async fn owner_is_done(
        &self,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<bool, SyncError> {
        match self.pods.get(&ObjectKey::new(namespace, &owner.name)) {
            None => Ok(false),
            Some(pod) if pod.meta.uid == owner.uid => Ok(is_done(&pod)),
            Some(_) if self.deleted.contains(&owner.uid) => Ok(true),
            Some(_) => {
                let live = self.live_pod(namespace, &owner.name).await?;
                Ok(live.is_some_and(|pod| pod.meta.uid != owner.uid))
            }
        }
    }

    /// A failed read is an error: the reservation must stay while the pod may run.
    async fn live_pod(&self, namespace: &str, name: &str) -> Result<Option<Pod>, SyncError> {
        let live = live::object::<Pod>(&self.client, namespace, name).await;
        live.map_err(SyncError::Read)
    }

    /// Removes the reservations of `over`, and the allocation if `deallocate`.
    ///
    /// Other fields of the status stay, such as the data of devices.
    async fn release(
        &self,
        claim: &ResourceClaim,
        over: &[&ClaimConsumer],
        deallocate: bool,
    ) -> Result<ResourceClaim, SyncError> {
        let mut status = claim
            .document
            .to_object()
            .remove("status")
            .unwrap_or_default();
        if let Some(status) = status.as_object_mut() {
            // Consumers are compared by UID. The document is changed, and not the decoded list, so that
            // fields of later releases survive.
            let consumers = status.get_mut("reservedFor").and_then(Value::as_array_mut);
            if let Some(consumers) = consumers {
                let uids: Vec<Option<String>> = over
                    .iter()
                    .map(|consumer| consumer.uid.as_ref().map(Uid::to_string))
                    .collect();
                let is_over = |one: &Value| {
                    let uid = one["uid"].as_str();
                    uids.iter().any(|over| over.as_deref() == uid)
                };
                consumers.retain(|one| !is_over(one));
            }
            if deallocate {
                status.remove("allocation");
            }
        }
        let target = Target::of::<ResourceClaim>(&claim.meta).status();
        let body = with_member::<ResourceClaim>(&claim.document, "status", &status);
        self.put(target, &body).await
    }

    /// The finalizer holds a claim while it is allocated. Other finalizers stay.
    async fn remove_finalizer(&self, claim: &ResourceClaim) -> Result<ResourceClaim, SyncError> {
        let mut metadata = claim
            .document
            .to_object()
            .remove("metadata")
            .unwrap_or_default();
        if let Some(finalizers) = metadata["finalizers"].as_array_mut() {
            finalizers.retain(|name| name != FINALIZER);
        }
        let target = Target::of::<ResourceClaim>(&claim.meta);
        let body = with_member::<ResourceClaim>(&claim.document, "metadata", &metadata);
        let freed = self.put(target, &body).await?;
        tracing::debug!("Removed finalizer because not needed");
        Ok(freed)
    }

    /// PUTs the claim, and returns it as stored.
    ///
    /// The version is recorded for the claim, so the next sync sees this write.
    async fn put(
        &self,
        target: Target<'_>,
        body: &impl serde::Serialize,
    ) -> Result<ResourceClaim, SyncError> {
        let stored = self.client.replace(target, body).await;
        let stored = ResourceClaim::decode(&stored.map_err(SyncError::Release)?);
        let stored = stored.map_err(SyncError::Answer)?;
        self.claims_cache
            .wrote_at(&Key::Claim(stored.key()), stored.meta.resource_version);
        Ok(stored)
    }

    /// Nothing is to do if the claim is gone already. A conflict is an error: a scheduler may have
    /// reserved the claim.
    async fn delete(&self, claim: &ResourceClaim) -> Result<(), SyncError> {
        let options = Delete::exactly(&claim.meta).unchanged_since(claim.meta.resource_version);
        let target = Target::of::<ResourceClaim>(&claim.meta);
        match self.client.delete(target, &options).await {
            Ok(_) => {
                tracing::debug!("Deleted unused generated claim");
                Ok(())
            }
            Err(error) if error.is_object_not_found() => Ok(()),
            Err(source) => Err(SyncError::Delete {
                claim: claim.key(),
                source,
            }),
        }
    }
}

/// Whether a scheduler has protected the claim.
fn has_finalizer(claim: &ResourceClaim) -> bool {
    let object = claim.document.to_object();
    let finalizers = object
        .get("metadata")
        .and_then(|metadata| metadata["finalizers"].as_array());
    finalizers.is_some_and(|all| all.iter().any(|name| name == FINALIZER))
}

/// The pod for which the claim was generated. Upstream: `owningPod`.
///
/// `None` for claims of users and of PodGroups.
fn owning_pod(claim: &ResourceClaim) -> Option<&OwnerReference> {
    let owner = claim.meta.controller()?;
    (owner.kind == *Pod::RESOURCE.kind && owner.api_version == *Pod::RESOURCE.api_version())
        .then_some(owner)
}
