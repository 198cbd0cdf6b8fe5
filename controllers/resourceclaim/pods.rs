//! The sync of a pod: its claims exist, its status names them, and a pod that no scheduler bound has
//! its reservations. Upstream: `syncPod`, `handleClaim` and `reserveFor`.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_client::live;
use steersman_client::writes::with_member;
use steersman_client::{ApiError, Target};
use steersman_objects::{
    Identity, Object, ObjectKey, ObjectReference, Pod, PodClaimName, PodResourceClaim,
    ResourceClaim, ResourceClaimTemplate,
};
use steersman_runtime::events::EventType;
use steersman_values::intern::Sym;
use steersman_values::labels::{Labels, Selector};

use super::Shared;
use super::create::from_template;
use super::error::{ClaimError, SyncError};
use super::key::Key;
use super::needs::lacks_reservation;

/// The field manager of the status of pods.
const FIELD_MANAGER: &str = "ResourceClaimController";

/// Reason of the Events.
const FAILED: &str = "FailedResourceClaimCreation";

/// The name of a claim within a pod, and of its ResourceClaim.
type Entry = (Sym, Sym);

impl Shared {
    pub(super) async fn sync_pod(&self, key: &ObjectKey) -> Result<(), SyncError> {
        let Some(pod) = self.pods.get(key) else {
            self.writes.forget(&Key::Pod(key.clone()));
            self.unseen().remove(key);
            return Ok(());
        };
        if pod.meta.is_terminating() || pod.is_finished() {
            self.unseen().remove(key);
            return Ok(());
        }
        let mut found: Vec<Entry> = Vec::new();
        for pod_claim in &pod.spec.resource_claims {
            match self.claim_for(&pod, pod_claim).await {
                Ok(name) => found.extend(name.map(|name| (pod_claim.name.clone(), name))),
                Err(source) => return Err(self.failed(&pod, pod_claim, source)),
            }
        }
        if found.is_empty() {
            return self.reserve(&pod).await;
        }
        // The change of the status queues a bound pod again, which may then reserve its claims.
        self.write_status(&pod, &found).await
    }

    /// The name of the ResourceClaim that the status of `pod` has to name. `None` if the status is
    /// right already.
    async fn claim_for(
        &self,
        pod: &Pod,
        pod_claim: &PodResourceClaim,
    ) -> Result<Option<Sym>, ClaimError> {
        match pod.claim_name(pod_claim) {
            PodClaimName::NotNeeded | PodClaimName::Named(_) => return Ok(None),
            PodClaimName::Unsupported => {
                return Err(ClaimError::Unsupported {
                    pod: pod.key(),
                    claim: pod_claim.name.clone(),
                });
            }
            PodClaimName::Generated(name) => {
                let cached = self
                    .claims
                    .store()
                    .get(&ObjectKey::new(&pod.meta.namespace, name));
                match cached {
                    Some(claim) if claim.meta.is_controlled_by(&pod.meta.uid) => {
                        self.seen(&pod.key(), &pod_claim.name);
                        return Ok(None);
                    }
                    Some(_) => tracing::error!(
                        claim = %name,
                        "Claim that was created for the pod is no longer owned by the pod, creating a new one"
                    ),
                    None => {}
                }
            }
            PodClaimName::NotCreated => {}
        }
        let Some(template) = &pod_claim.resource_claim_template_name else {
            return Ok(None);
        };
        let cached = self.claims.controlled_by_uid(&pod.meta.uid);
        if let Some(claim) = cached.iter().find(|claim| is_for(claim, pod, pod_claim)) {
            self.seen(&pod.key(), &pod_claim.name);
            return Ok(Some(Sym::new(&claim.meta.name)));
        }
        if self.pods_written.predates_term() && !self.is_current(pod).await? {
            // The next event of the pod brings it back, if it still needs the claim.
            return Ok(None);
        }
        if let Some(unseen) = self.unseen_claim(pod, pod_claim).await? {
            return Ok(Some(unseen));
        }
        self.create(pod, pod_claim, template).await.map(Some)
    }

    /// Whether the API server has this version of `pod`.
    async fn is_current(&self, pod: &Pod) -> Result<bool, ClaimError> {
        let live = live::is_current::<Pod>(&self.client, &pod.meta).await;
        live.map_err(ClaimError::Read)
    }

    /// The claim of `pod` that the cache may lack: the former leader made it, or the cache has not shown
    /// an own creation.
    async fn unseen_claim(
        &self,
        pod: &Pod,
        pod_claim: &PodResourceClaim,
    ) -> Result<Option<Sym>, ClaimError> {
        let is_unseen = {
            let unseen = self.unseen();
            let of_pod = unseen.get(&pod.key());
            of_pod.is_some_and(|claims| claims.contains(&pod_claim.name))
        };
        if !is_unseen && !self.claims_written.predates_term() {
            return Ok(None);
        }
        let namespace = &pod.meta.namespace;
        let everything = Selector::of_labels(&Labels::default());
        let all = live::matching::<ResourceClaim>(&self.client, namespace, &everything);
        let live = all.await.map_err(ClaimError::Read)?.objects;
        let found = live.iter().find(|claim| is_for(claim, pod, pod_claim));
        if let Some(claim) = found {
            self.claims_written
                .record(&Key::Pod(pod.key()), claim.meta.resource_version);
        }
        Ok(found.map(|claim| Sym::new(&claim.meta.name)))
    }

    /// Creates the claim, and returns its name.
    async fn create(
        &self,
        pod: &Pod,
        pod_claim: &PodResourceClaim,
        template: &Sym,
    ) -> Result<Sym, ClaimError> {
        let key = ObjectKey::new(&pod.meta.namespace, template);
        let template = self.template(&key).await?;
        let template = template.ok_or_else(|| ClaimError::NoTemplate(Sym::new(&key.name)))?;
        let spec = &template.spec.spec;
        if !self.has_admin_access && spec.wants_admin_access() {
            return Err(ClaimError::AdminAccess);
        }
        let mut requests = spec.devices.requests.iter();
        if !self.has_prioritized_lists && requests.any(|one| !one.first_available.is_empty()) {
            return Err(ClaimError::PrioritizedList);
        }
        let body = from_template(pod, &pod_claim.name, &template);
        let target = Target::collection::<ResourceClaim>(&pod.meta.namespace);
        let claim_name = pod_claim.name.clone();
        self.unseen()
            .entry(pod.key())
            .or_default()
            .insert(claim_name);
        let created = self.client.create(target, &body).await;
        self.metrics
            .created(created.is_ok(), spec.wants_admin_access());
        match created {
            Ok(claim) => {
                let claim = Identity::decode(&claim).map_err(ClaimError::Answer)?;
                self.claims_written
                    .record(&Key::Pod(pod.key()), claim.resource_version);
                tracing::debug!(claim = &*claim.name, "Created ResourceClaim");
                Ok(Sym::new(&claim.name))
            }
            Err(error) => {
                if !error.may_be_done() {
                    self.seen(&pod.key(), &pod_claim.name);
                }
                Err(ClaimError::Create(error))
            }
        }
    }

    /// The template with this key. The cache of a new leader may lack it.
    async fn template(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Arc<ResourceClaimTemplate>>, ClaimError> {
        let cached = self.templates.get(key);
        if cached.is_some() || !self.templates_seen.predates_term() {
            return Ok(cached);
        }
        let live = live::named(&self.lists, &key.namespace, &key.name).await;
        let live = live.map_err(ClaimError::Read)?.objects;
        Ok(live.into_iter().next().map(Arc::new))
    }

    /// Reports that a claim is missing.
    fn failed(&self, pod: &Pod, pod_claim: &PodResourceClaim, source: ClaimError) -> SyncError {
        let claim = pod_claim.name.clone();
        if !ApiError::within(&source).is_some_and(ApiError::is_fenced) {
            let message = format!("PodResourceClaim {claim}: {source}");
            let pod = ObjectReference::of(pod);
            self.recorder
                .event(pod, EventType::Warning, FAILED, message);
        }
        SyncError::Claim {
            pod: pod.key(),
            claim,
            source,
        }
    }

    /// Applies the names of all claims that templates describe: `found`, and those that the status
    /// has already. An apply without the latter would remove them.
    async fn write_status(&self, pod: &Pod, found: &[Entry]) -> Result<(), SyncError> {
        let known = &pod.details().resource_claim_statuses;
        let claims = pod.spec.resource_claims.iter();
        let entries = claims.filter_map(|claim| {
            let new = found.iter().find(|(pod_claim, _)| *pod_claim == claim.name);
            if let Some((_, name)) = new {
                return Some(json!({"name": claim.name, "resourceClaimName": name}));
            }
            let status = known.iter().find(|status| status.name == claim.name)?;
            Some(match &status.resource_claim_name {
                Some(name) => json!({"name": status.name, "resourceClaimName": name}),
                None => json!({"name": status.name}),
            })
        });
        let entries: Vec<Value> = entries.collect();
        let configuration = json!({
            "kind": Pod::RESOURCE.kind, "apiVersion": Pod::RESOURCE.api_version(),
            // Another pod of this name has another UID, which the API server refuses.
            "metadata": {
                "name": pod.meta.name, "namespace": pod.meta.namespace,
                "uid": pod.meta.uid.to_string(),
            },
            "status": {"resourceClaimStatuses": entries},
        });
        let target = Target::of::<Pod>(&pod.meta).status();
        let applied = self
            .client
            .apply(target, FIELD_MANAGER, &configuration)
            .await;
        let applied = applied.map_err(|source| SyncError::Status {
            pod: pod.key(),
            source,
        })?;
        self.written(&applied, |version| {
            self.pods_written.record(&Key::Pod(pod.key()), version);
        })
    }

    /// Reserves the allocated claims of a pod that was bound without a scheduler.
    async fn reserve(&self, pod: &Pod) -> Result<(), SyncError> {
        for pod_claim in &pod.spec.resource_claims {
            let Some(name) = pod.claim_name(pod_claim).known() else {
                continue;
            };
            let key = ObjectKey::new(&pod.meta.namespace, name);
            let Some(claim) = self.claims.store().get(&key) else {
                return Ok(());
            };
            if lacks_reservation(pod, &claim) {
                self.reserve_for(pod, &claim).await?;
            }
        }
        Ok(())
    }

    async fn reserve_for(&self, pod: &Pod, claim: &ResourceClaim) -> Result<(), SyncError> {
        let mut status = match claim.document.to_object().remove("status") {
            Some(status @ Value::Object(_)) => status,
            _ => json!({}),
        };
        let consumer = json!({
            "resource": Pod::RESOURCE.plural, "name": pod.meta.name,
            "uid": pod.meta.uid.to_string(),
        });
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
        self.written(&reserved, |version| {
            self.claims_written.record(&Key::Pod(pod.key()), version);
        })
    }

    /// Hands the resource version in the answer to a write to `record`.
    fn written(&self, answer: &[u8], record: impl FnOnce(u64)) -> Result<(), SyncError> {
        let written = Identity::decode(answer).map_err(SyncError::Answer)?;
        record(written.resource_version);
        Ok(())
    }
}

/// Whether `claim` was made for `pod_claim` of `pod`. Upstream: `findPodResourceClaim`.
fn is_for(claim: &ResourceClaim, pod: &Pod, pod_claim: &PodResourceClaim) -> bool {
    claim.meta.is_controlled_by(&pod.meta.uid)
        && claim.annotations.pod_claim_name.as_ref() == Some(&pod_claim.name)
}
