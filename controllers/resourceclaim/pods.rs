//! The sync of a pod: its claims exist, its status names them, and a pod that no scheduler bound has
//! its reservations. Upstream: `syncPod` and `reserveFor`.

use serde_json::{Value, json};
use steersman_client::Target;
use steersman_client::writes::with_member;
use steersman_objects::{Object, ObjectKey, Pod, PodGroup, ResourceClaim};

use super::Shared;
use super::error::SyncError;
use super::groups::{GroupOf, bound_to};
use super::holder::Holder;
use super::key::Key;
use super::needs::lacks_reservation;

impl Shared {
    /// A finished pod is left alone. Upstream makes and reserves claims for it, which its next sync of
    /// the claim frees again.
    pub(super) async fn sync_pod(&self, key: &ObjectKey) -> Result<(), SyncError> {
        let Some(pod) = self.pods.get(key) else {
            self.forget(&Key::Pod(key.clone()));
            return Ok(());
        };
        if pod.meta.is_terminating() || pod.is_finished() {
            self.unseen().remove(&Key::Pod(key.clone()));
            return Ok(());
        }
        // The PodGroup has to be known before any claim is made: it decides on the owner of each.
        let group = self.group_of(&pod);
        if let GroupOf::Missing = group {
            let group = pod.spec.scheduling_group.pod_group_name.clone();
            return Err(SyncError::NoGroup {
                pod: key.clone(),
                group: group.unwrap_or_default(),
            });
        }
        let group = group.known();
        let holder = Holder::Pod(&pod);
        let found = self.claims_for(holder, group).await?;
        if found.is_empty() {
            return self.reserve(&pod, group).await;
        }
        // The change of the status queues a bound pod again, which may then reserve its claims.
        self.write_status(holder, &found).await
    }

    /// Reserves the allocated claims of a pod that was bound without a scheduler.
    ///
    /// Schedulers reserve claims of the pods that they bind. A pod that was created with
    /// `spec.nodeName` has no other helper. The first missing claim ends the loop without an error, as
    /// upstream: its event brings the pod back.
    async fn reserve(&self, pod: &Pod, group: Option<&PodGroup>) -> Result<(), SyncError> {
        for pod_claim in &pod.spec.resource_claims {
            let Some(name) = pod.claim_name(pod_claim).known() else {
                continue;
            };
            let key = ObjectKey::new(&pod.meta.namespace, name);
            let Some(claim) = self.claims.store().get(&key) else {
                return Ok(());
            };
            if lacks_reservation(pod, &claim, self.groups.is_some()) {
                let holder = bound_to(pod, group, pod_claim).map_err(SyncError::Bind)?;
                self.reserve_for(pod, holder, &claim).await?;
            }
        }
        Ok(())
    }

    /// Reserves `claim` for `holder`: `pod`, or its PodGroup.
    ///
    /// Upstream: `reserveFor`. A PUT with the resource version, so that a claim which has lost its
    /// allocation meanwhile meets a conflict.
    async fn reserve_for(
        &self,
        pod: &Pod,
        holder: Holder<'_>,
        claim: &ResourceClaim,
    ) -> Result<(), SyncError> {
        let mut status = match claim.document.to_object().remove("status") {
            Some(status @ Value::Object(_)) => status,
            _ => json!({}),
        };
        let consumer = holder.consumer();
        match status["reservedFor"].as_array_mut() {
            Some(consumers) => consumers.push(consumer),
            None => status["reservedFor"] = json!([consumer]),
        }
        let body = with_member::<ResourceClaim>(&claim.document, "status", &status);
        let target = Target::of::<ResourceClaim>(&claim.meta).status();
        let reserved = self.client.replace(target, &body).await;
        let reserved = reserved.map_err(|source| SyncError::Reserve {
            claim: claim.key(),
            source,
        })?;
        // The version is recorded for the pod, whose next sync must see its reservation.
        self.written(&reserved, |version| {
            self.claims_cache.wrote_at(&Key::Pod(pod.key()), version);
        })
    }
}
