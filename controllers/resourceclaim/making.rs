//! Claims from templates, for pods and PodGroups, and their names in the status of these. Upstream:
//! `handleClaim` and `handlePodGroupClaim`.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_client::live;
use steersman_client::{ApiError, Target};
use steersman_objects::{
    Identity, ObjectKey, Pod, PodClaimName, PodGroup, PodResourceClaim, ResourceClaim,
    ResourceClaimTemplate,
};
use steersman_runtime::events::EventType;
use steersman_values::intern::Sym;
use steersman_values::labels::{Labels, Selector};

use super::Shared;
use super::create::from_template;
use super::error::{ClaimError, SyncError};
use super::groups::bound_to;
use super::holder::Holder;

/// The field manager of statuses.
///
/// Upstream: `fieldManager`. Both managers thus own the same entries, and one can follow the other.
const FIELD_MANAGER: &str = "ResourceClaimController";

/// Reason of the Events.
const FAILED: &str = "FailedResourceClaimCreation";

/// The name of a claim within a pod or a PodGroup, and of its ResourceClaim.
type Entry = (Sym, Sym);

impl Shared {
    /// The names that the status of `holder` has to have besides its present ones, after missing
    /// claims were made. `group` is the PodGroup of a pod.
    ///
    /// The first failure ends the sync, and claims that were made before it are found again later. No
    /// status is written then, as upstream.
    pub(super) async fn claims_for(
        &self,
        holder: Holder<'_>,
        group: Option<&PodGroup>,
    ) -> Result<Vec<Entry>, SyncError> {
        let mut found: Vec<Entry> = Vec::new();
        for claim in holder.claims() {
            match self.claim_for(holder, group, claim).await {
                Ok(name) => found.extend(name.map(|name| (claim.name.clone(), name))),
                Err(source) => return Err(self.failed(holder, claim, source)),
            }
        }
        Ok(found)
    }

    /// The name of the ResourceClaim that the status of `holder` has to name. `None` if the status
    /// is right already, or if the PodGroup of a pod gets the claim first.
    ///
    /// The order of checks:
    ///
    /// 1. The status names a claim that exists and belongs to `holder`: nothing to do.
    /// 2. The cache has a claim that was made for it: only the status is missing.
    /// 3. The claim belongs to the PodGroup: the pod waits.
    /// 4. The cache of a new leader shows an old `holder`: its next event decides.
    /// 5. The API server has such a claim that the cache lacks.
    /// 6. It is created.
    async fn claim_for(
        &self,
        holder: Holder<'_>,
        group: Option<&PodGroup>,
        claim: &PodResourceClaim,
    ) -> Result<Option<Sym>, ClaimError> {
        match holder.claim_name(claim) {
            PodClaimName::NotNeeded | PodClaimName::Named(_) => return Ok(None),
            PodClaimName::Unsupported => {
                return Err(ClaimError::Unsupported(holder.of_claim(claim)));
            }
            PodClaimName::Generated(name) => {
                let key = ObjectKey::new(&holder.meta().namespace, name);
                match self.claims.store().get(&key) {
                    Some(cached) if self.belongs(&cached, holder) => {
                        self.seen(&holder.key(), &claim.name);
                        return Ok(None);
                    }
                    // Upstream goes on too: the name is taken, so a claim with another name is made.
                    Some(_) => tracing::error!(
                        claim = %name,
                        "Claim that was created for {holder} is no longer owned by it, creating a new one"
                    ),
                    None => {}
                }
            }
            PodClaimName::NotCreated => {}
        }
        // Only a template describes a claim. All other claims are made by users.
        let Some(template) = &claim.resource_claim_template_name else {
            return Ok(None);
        };
        let maker = match holder {
            Holder::Pod(pod) => bound_to(pod, group, claim)?,
            Holder::Group(_) => holder,
        };
        // Upstream: `findPodResourceClaim`. An earlier sync may have failed between the creation and
        // the status.
        let cached = self.claims.controlled_by_uid(&maker.meta().uid);
        if let Some(made) = cached.iter().find(|made| maker.made(made, &claim.name)) {
            self.seen(&maker.key(), &claim.name);
            return Ok(Some(Sym::new(&made.meta.name)));
        }
        if matches!((holder, maker), (Holder::Pod(_), Holder::Group(_))) {
            // The change of the PodGroup's status brings the pod back.
            return Ok(None);
        }
        if !self.is_current(holder).await? {
            // The next event of the object brings it back, if it still needs the claim.
            return Ok(None);
        }
        if let Some(unseen) = self.unseen_claim(holder, claim).await? {
            return Ok(Some(unseen));
        }
        self.create(holder, claim, template).await.map(Some)
    }

    /// Whether the generated `claim` is one of `holder`.
    ///
    /// Upstream: `IsForPod` and `IsForPodGroup`. A generated claim of a pod may also be one of its
    /// PodGroup.
    fn belongs(&self, claim: &ResourceClaim, holder: Holder<'_>) -> bool {
        match holder {
            Holder::Pod(pod) => claim.is_for_pod(pod, self.groups.is_some()),
            Holder::Group(group) => claim.meta.is_controlled_by(&group.meta.uid),
        }
    }

    /// True if the API server has this version of `holder`, or the cache is new enough.
    ///
    /// A pod that is gone by now would get a claim without an owner. Only a cache from before the term
    /// costs a read.
    async fn is_current(&self, holder: Holder<'_>) -> Result<bool, ClaimError> {
        let client = &self.client;
        let current = match (holder, &self.groups) {
            (Holder::Pod(pod), _) => {
                let age = self.pods_cache.age();
                age.shows::<Pod>(client, &pod.meta).await
            }
            (Holder::Group(group), Some(groups)) => {
                let age = groups.cache.age();
                age.shows::<PodGroup>(client, &group.meta).await
            }
            (Holder::Group(_), None) => Ok(true),
        };
        current.map_err(ClaimError::Read)
    }

    /// The claim of `holder` that the cache may lack: the former leader made it, or the cache has not
    /// shown an own creation.
    ///
    /// Upstream keeps own creations in a `MutationCache` for an hour, and has no remedy for a lost
    /// answer or another leader. The list is by namespace, since claims have no label for their holder.
    async fn unseen_claim(
        &self,
        holder: Holder<'_>,
        claim: &PodResourceClaim,
    ) -> Result<Option<Sym>, ClaimError> {
        let is_unseen = {
            let unseen = self.unseen();
            let of_holder = unseen.get(&holder.key());
            of_holder.is_some_and(|claims| claims.contains(&claim.name))
        };
        if !is_unseen && !self.claims_cache.predates_term() {
            return Ok(None);
        }
        let namespace = &holder.meta().namespace;
        let everything = Selector::of_labels(&Labels::default());
        let all = live::matching::<ResourceClaim>(&self.client, namespace, &everything);
        let live = all.await.map_err(ClaimError::Read)?.objects;
        let found = live.iter().find(|made| holder.made(made, &claim.name));
        if let Some(made) = found {
            // The sync after this one waits for the cache, and needs no further list.
            self.claims_cache
                .wrote_at(&holder.key(), made.meta.resource_version);
        }
        Ok(found.map(|made| Sym::new(&made.meta.name)))
    }

    /// Creates the claim, and returns its name.
    ///
    /// A disabled feature is an error before the request. The API server may drop the field, and the
    /// pod would get other devices than its user wants.
    async fn create(
        &self,
        holder: Holder<'_>,
        claim: &PodResourceClaim,
        template: &Sym,
    ) -> Result<Sym, ClaimError> {
        let namespace = &holder.meta().namespace;
        let key = ObjectKey::new(namespace, template);
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
        let owner = holder.served_by(&self.client);
        let body = from_template(holder, &owner, &claim.name, &template, self.release);
        let target = Target::collection::<ResourceClaim>(namespace);
        // The creation is recorded before the request. If its answer is lost, the next sync lists the
        // claims.
        self.unseen()
            .entry(holder.key())
            .or_default()
            .insert(claim.name.clone());
        let created = self.client.create(target, &body).await;
        self.metrics
            .created(created.is_ok(), spec.wants_admin_access(), &owner);
        match created {
            Ok(made) => {
                let made = Identity::decode(&made).map_err(ClaimError::Answer)?;
                self.claims_cache
                    .wrote_at(&holder.key(), made.resource_version);
                tracing::debug!(claim = &*made.name, "Created ResourceClaim");
                Ok(Sym::new(&made.name))
            }
            Err(error) => {
                // The API server refused the claim, so none can exist.
                if !error.may_be_done() {
                    self.seen(&holder.key(), &claim.name);
                }
                Err(ClaimError::Create(error))
            }
        }
    }

    /// The template with this key. The cache of a new leader may lack it.
    ///
    /// A missing template is an error that the user sees, so a new leader makes sure first.
    async fn template(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Arc<ResourceClaimTemplate>>, ClaimError> {
        let cached = self.templates.get(key);
        if cached.is_some() || !self.templates_cache.predates_term() {
            return Ok(cached);
        }
        let live = live::named(&self.lists, &key.namespace, &key.name).await;
        let live = live.map_err(ClaimError::Read)?.objects;
        Ok(live.into_iter().next().map(Arc::new))
    }

    /// Reports that a claim is missing.
    ///
    /// Upstream: the Event in `syncPod` and `syncPodGroup`. A manager that has lost its lease sends
    /// none, because the next leader makes the claim.
    fn failed(
        &self,
        holder: Holder<'_>,
        claim: &PodResourceClaim,
        source: ClaimError,
    ) -> SyncError {
        let claim = format!("{} {}", holder.claim_kind(), claim.name);
        if !ApiError::within(&source).is_some_and(ApiError::is_fenced) {
            let message = format!("{claim}: {source}");
            let served = holder.served_by(&self.client);
            let reference = holder.reference(&served.api_version());
            self.recorder
                .event(reference, EventType::Warning, FAILED, message);
        }
        SyncError::Claim {
            holder: holder.to_string(),
            claim,
            source,
        }
    }

    /// Applies the names of all claims that templates describe: `found`, and those that the status
    /// has already. An apply without the latter would remove them.
    ///
    /// An entry without a name says that the claim is not needed, and is kept as it is. The apply takes
    /// over entries of other field managers by force, as upstream. Entries are in the order of their names,
    /// as upstream's since kubernetes#138408; before, the order is random.
    pub(super) async fn write_status(
        &self,
        holder: Holder<'_>,
        found: &[Entry],
    ) -> Result<(), SyncError> {
        let mut claims: Vec<&PodResourceClaim> = holder.claims().iter().collect();
        claims.sort_by_key(|claim| &claim.name);
        let entries = claims.into_iter().filter_map(|claim| {
            let new = found.iter().find(|(of, _)| *of == claim.name);
            if let Some((_, name)) = new {
                return Some(json!({"name": claim.name, "resourceClaimName": name}));
            }
            let mut known = holder.statuses().iter();
            let status = known.find(|status| status.name == claim.name)?;
            Some(match &status.resource_claim_name {
                Some(name) => json!({"name": status.name, "resourceClaimName": name}),
                None => json!({"name": status.name}),
            })
        });
        let entries: Vec<Value> = entries.collect();
        let meta = holder.meta();
        let resource = holder.resource();
        let configuration = json!({
            "kind": resource.kind, "apiVersion": resource.api_version(),
            // Another object of this name has another UID, which the API server refuses.
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "status": {"resourceClaimStatuses": entries},
        });
        let target = match holder {
            Holder::Pod(pod) => Target::of::<Pod>(&pod.meta).status(),
            Holder::Group(group) => Target::of::<PodGroup>(&group.meta).status(),
        };
        let applied = self
            .client
            .apply(target, FIELD_MANAGER, &configuration)
            .await;
        let applied = applied.map_err(|source| SyncError::Status {
            holder: holder.to_string(),
            source,
        })?;
        // The next sync of the holder waits for this version, so it never makes a claim twice.
        self.written(&applied, |version| match holder {
            Holder::Pod(_) => self.pods_cache.wrote_at(&holder.key(), version),
            Holder::Group(_) => {
                if let Some(groups) = &self.groups {
                    groups.cache.wrote_at(&holder.key(), version);
                }
            }
        })
    }

    /// Hands the resource version in the answer to a write to `record`.
    pub(super) fn written(&self, answer: &[u8], record: impl FnOnce(u64)) -> Result<(), SyncError> {
        let written = Identity::decode(answer).map_err(SyncError::Answer)?;
        record(written.resource_version);
        Ok(())
    }
}
