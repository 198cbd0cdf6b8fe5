//! The requests about pods and claims, and the Events about them.
//!
//! All Events are about the set. An Event about a failure has the text of the error, so the texts
//! are upstream's. Names of pods and claims are fixed: a repeated creation fails, and does no harm.
//!
//! Upstream: `stateful_pod_control.go`. Differences:
//!
//! - Deletions carry the UID of the pod, so that a new pod of the same name survives.
//! - A repaired pod is read before its PUT, since the cache has only a part of each pod.
//!
//! Each answer is recorded with its version, so that the next sync waits for the caches.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;
use steersman_client::live;
use steersman_client::writes::Delete;
use steersman_client::{Aggregate, ApiClient, ApiError, Target, Violation};
use steersman_objects::{
    ControllerRevision, Document, Identity, Object, ObjectKey, ObjectReference,
    PersistentVolumeClaim, Pod, StatefulSet,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::pod_control::not_foreign;

use super::claims;
use super::error::{ClaimFailure, PodError};
use super::identity::{identity_matches, ordinal, pod_name, storage_matches};
use super::pods::{new_pod, with_identity, with_storage};
use super::retention::{Owners, PodIdentity};

/// Pauses before repetitions of a PUT that met a conflict. Upstream: `retry.DefaultBackoff`. Factor 5, and
/// four attempts together.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
];

/// Sends the writes of pods and claims.
pub(super) struct Writer {
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
    pub(super) pods: Store<Pod>,
    pub(super) claims: Store<PersistentVolumeClaim>,
    /// The cache of pods.
    pub(super) pods_cache: TrackedCache,
    /// The cache of claims.
    pub(super) claims_cache: TrackedCache,
    /// Whether the texts of Events begin with a capital. 1.34 and older write small letters.
    pub(super) has_capitals: bool,
}

/// The set that the writes of a sync are for. The key is that of the queue, for the records of writes.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) set: &'a StatefulSet,
}

/// The verb in Events about pods. Its name is also in the reason of the Event.
#[derive(Clone, Copy)]
enum Verb {
    Create,
    Update,
    Delete,
}

impl Verb {
    const fn text(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
        }
    }

    const fn reason(self, is_success: bool) -> &'static str {
        match (self, is_success) {
            (Self::Create, true) => "SuccessfulCreate",
            (Self::Create, false) => "FailedCreate",
            (Self::Update, true) => "SuccessfulUpdate",
            (Self::Update, false) => "FailedUpdate",
            (Self::Delete, true) => "SuccessfulDelete",
            (Self::Delete, false) => "FailedDelete",
        }
    }
}

impl Writer {
    /// Creates the pod with this ordinal from `revision`, and its missing claims before it. Upstream:
    /// `CreateStatefulPod`.
    pub(super) async fn create(
        &self,
        of: Of<'_>,
        ordinal: i64,
        revision: &ControllerRevision,
    ) -> Result<(), PodError> {
        // The claims come first, since a pod without them would wait for them in the scheduler.
        let name = pod_name(&of.set.meta.name, ordinal);
        let body = new_pod(of.set, revision, ordinal)?;
        if let Err(error) = self.create_claims(of, &name, ordinal).await {
            self.pod_event(of, Verb::Create, &name, Some(&error));
            return Err(error);
        }
        let target = Target::collection::<Pod>(&of.key.namespace);
        let created = match self.client.create(target, &body).await {
            Ok(answer) => {
                record(&self.pods_cache, of.key, &answer);
                Ok(())
            }
            Err(error) => {
                // The cache does not show the pod yet, or its predecessor is still there.
                let is_quiet = error.is_already_exists() || error.is_fenced();
                let failure = Err(PodError::Request(error));
                if is_quiet {
                    return failure;
                }
                failure
            }
        };
        // Claims of an earlier pod may remain, also if the creation failed. The UID of the new pod is unknown
        // here, as upstream: only references that are wrong in any case change.
        let owned = self.correct_owners(of, &PodIdentity::new(&name)).await;
        match owned {
            // The binder has just written the new claim. The next sync corrects the owners.
            Err(error) if !error.is_conflict() => {
                self.pod_event(of, Verb::Update, &name, Some(&error));
                Err(error)
            }
            owned => {
                self.pod_event(of, Verb::Create, &name, created.as_ref().err());
                created.and(owned)
            }
        }
    }

    /// Deletes `pod` if `checked` and [`not_foreign`] allow it. A pod that is gone counts as deleted.
    ///
    /// Upstream: `DeleteStatefulPod`.
    pub(super) async fn delete(
        &self,
        of: Of<'_>,
        pod: &Pod,
        checked: Result<(), Violation>,
    ) -> Result<(), PodError> {
        let target = Target::of::<Pod>(&pod.meta);
        let options = Delete::exactly(&pod.meta);
        let checked = checked.and_then(|()| not_foreign(pod, &of.set.meta.uid));
        let deleted = match self.client.permit(target, checked) {
            Ok(()) => self.client.delete(target, &options).await,
            Err(refused) => Err(refused),
        };
        let deleted = match deleted {
            Ok(answer) => {
                record(&self.pods_cache, of.key, &answer);
                Ok(())
            }
            // The live read tells a gone pod from a missing API.
            Err(error) if live::is_gone::<Pod>(&self.client, &pod.meta, &error).await => Ok(()),
            // The next sync repeats the deletion.
            Err(error) if error.is_conflict() => return Err(PodError::Request(error)),
            Err(error) => Err(PodError::Request(error)),
        };
        self.pod_event(of, Verb::Delete, &pod.meta.name, deleted.as_ref().err());
        deleted
    }

    /// Creates missing claims of `pod`, and corrects the owners of its claims. Upstream:
    /// `createMissingPersistentVolumeClaims`.
    pub(super) async fn provide_claims(&self, of: Of<'_>, pod: &Pod) -> Result<(), PodError> {
        let name = &pod.meta.name;
        if let Some(ordinal) = ordinal(name) {
            self.create_claims(of, name, ordinal).await?;
        }
        self.own_claims(of, &PodIdentity::of(pod)).await
    }

    /// Corrects the owners of the claims of a pod. Upstream: `UpdatePodClaimForRetentionPolicy`.
    ///
    /// Reports a failure as an Event about the update of the pod.
    async fn own_claims(&self, of: Of<'_>, pod: &PodIdentity<'_>) -> Result<(), PodError> {
        let result = self.correct_owners(of, pod).await;
        if let Err(error) = &result {
            self.pod_event(of, Verb::Update, pod.name, Some(error));
        }
        result
    }

    /// The same, without an Event about a failure.
    ///
    /// Missing claims are passed over: they have no owners yet.
    pub(super) async fn correct_owners(
        &self,
        of: Of<'_>,
        pod: &PodIdentity<'_>,
    ) -> Result<(), PodError> {
        let Some(ordinal) = ordinal(pod.name) else {
            return Ok(());
        };
        let owners = Owners::new(of.set, pod.clone());
        for name in claims::names(of.set, ordinal) {
            let Some(claim) = self.claim(of, &name) else {
                continue;
            };
            // The Event comes again with each sync that corrects owners, as upstream.
            if owners.has_unexpected_controller(&claim) {
                // The spelling is upstream's.
                let message = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, \
                     the retention policy is ignored for this claim"
                );
                self.event(of, EventType::Warning, "ConflictingController", message);
            }
            if owners.are_right(&claim) {
                continue;
            }
            let target = Target::of::<PersistentVolumeClaim>(&claim.meta);
            let written = self.client.replace(target, &owners.corrected(&claim)).await;
            match written {
                Ok(answer) => record(&self.claims_cache, of.key, &answer),
                Err(source) => {
                    return Err(PodError::Owners {
                        claim: name,
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    /// Creates the claims that the pod `pod` with this ordinal lacks. Tries all of them.
    ///
    /// Upstream: `createPersistentVolumeClaims`. One failure hides no other, and all are in the Event.
    async fn create_claims(&self, of: Of<'_>, pod: &str, ordinal: i64) -> Result<(), PodError> {
        // The common case needs no bodies, and the document of the set is not parsed.
        let is_there = |name: String| {
            self.claim(of, &name)
                .is_some_and(|c| !c.meta.is_terminating())
        };
        if claims::names(of.set, ordinal).all(is_there) {
            return Ok(());
        }
        let mut failures = Vec::new();
        for new in claims::from_templates(of.set, ordinal) {
            let name = new.name;
            let set = &of.set.meta.name;
            match self.claim(of, &name) {
                // A terminating claim has its name until it is gone.
                Some(claim) if claim.meta.is_terminating() => {
                    failures.push(ClaimFailure::terminating(name));
                    continue;
                }
                Some(_) => continue,
                None => {}
            }
            let target = Target::collection::<PersistentVolumeClaim>(&of.key.namespace);
            match self.client.create(target, &new.body).await {
                Ok(answer) => {
                    record(&self.claims_cache, of.key, &answer);
                    let create = self.text(Verb::Create);
                    let message =
                        format!("{create} Claim {name} Pod {pod} in StatefulSet {set} success");
                    self.event(of, EventType::Normal, "SuccessfulCreate", message);
                }
                Err(source) => {
                    // The cache lacks the claim still; the retry finds it.
                    if !source.is_already_exists() && !source.is_fenced() {
                        let create = self.text(Verb::Create);
                        let message = format!(
                            "{create} Claim {name} for Pod {pod} in StatefulSet {set} failed error: {source}"
                        );
                        self.event(of, EventType::Warning, "FailedCreate", message);
                    }
                    failures.push(ClaimFailure::Create {
                        claim: name,
                        source,
                    });
                }
            }
        }
        if failures.is_empty() {
            Ok(())
        } else {
            Err(PodError::Claims(Aggregate(failures)))
        }
    }

    /// Corrects identity, volumes and claims of `pod`. A conflict of the pod or of a claim is repeated
    /// with the cached objects of that time.
    ///
    /// Upstream: `UpdateStatefulPod`.
    pub(super) async fn repair(&self, of: Of<'_>, pod: &Arc<Pod>) -> Result<(), PodError> {
        let mut pod = Arc::clone(pod);
        let mut pauses = PAUSES.iter();
        let name = Arc::clone(&pod.meta.name);
        // A repair of claims alone, which failed, has recorded its own Event.
        let mut is_attempted = false;
        let result = loop {
            let outcome = match self.prepare(of, &pod).await {
                Ok(None) => break Ok(()),
                Ok(Some(repair)) => {
                    is_attempted = true;
                    let put = self.put(of, &pod, &repair).await;
                    put.map_err(PodError::Request)
                }
                Err(error) => Err(error),
            };
            match (outcome, pauses.next()) {
                (Err(error), Some(pause)) if error.is_conflict() => {
                    tokio::time::sleep(*pause).await;
                    // A pod that left the cache is tried once more; the request then tells that it is gone.
                    pod = self.pods.get(&pod.key()).unwrap_or(pod);
                }
                (outcome, _) => break outcome,
            }
        };
        if is_attempted {
            self.pod_event(of, Verb::Update, &name, result.as_ref().err());
        }
        result
    }

    /// Provides the claims of `pod`, and returns the changes that the pod itself needs. `None` if
    /// pod and claims are right.
    ///
    /// Upstream compares again after each conflict, since another writer may have repaired the pod.
    async fn prepare(&self, of: Of<'_>, pod: &Pod) -> Result<Option<Repair>, PodError> {
        let Some(ordinal) = ordinal(&pod.meta.name) else {
            return Ok(None);
        };
        let repair = Repair {
            ordinal,
            identity: !identity_matches(of.set, pod),
            storage: !storage_matches(of.set, pod),
        };
        // Right claims cost no request.
        let owners = Owners::new(of.set, PodIdentity::of(pod));
        let is_wrong = |name: String| {
            let claim = self.claim(of, &name);
            claim.is_some_and(|claim| !owners.are_right(&claim))
        };
        let has_wrong_owners = claims::names(of.set, ordinal).any(is_wrong);
        if repair.storage
            && let Err(error) = self.create_claims(of, &pod.meta.name, ordinal).await
        {
            self.pod_event(of, Verb::Update, &pod.meta.name, Some(&error));
            return Err(error);
        }
        if has_wrong_owners {
            self.own_claims(of, &PodIdentity::of(pod)).await?;
        }
        // Upstream PUTs the pod also if only owners were wrong, and so does this.
        let is_needed = repair.identity || repair.storage || has_wrong_owners;
        Ok(is_needed.then_some(repair))
    }

    /// PUTs `pod` with the changes of `repair`. Without changes it is a PUT all the same, as
    /// upstream's.
    ///
    /// It changes nothing in the API server then, and the version stays.
    async fn put(&self, of: Of<'_>, pod: &Pod, repair: &Repair) -> Result<(), ApiError> {
        let name = pod_name(&of.set.meta.name, repair.ordinal);
        let target = Target {
            name: Some(&name),
            ..Target::of::<Pod>(&pod.meta)
        };
        let live = self.client.get(target).await?;
        let live: Map<_, _> = serde_json::from_slice(&live).map_err(|source| ApiError::Decode {
            request: format!("GET {}", Pod::RESOURCE),
            source: Box::new(source),
        })?;
        // The server's object keeps the fields that the cache drops.
        let mut object = Document::new(live).to_object();
        // The server refuses to change the UID of another pod with this name.
        object["metadata"]["uid"] = pod.meta.uid.to_string().into();
        if repair.identity {
            with_identity(of.set, repair.ordinal, &mut object);
        }
        if repair.storage {
            with_storage(of.set, repair.ordinal, &mut object);
        }
        let answer = self.client.replace(target, &object).await?;
        record(&self.pods_cache, of.key, &answer);
        Ok(())
    }

    /// The cached claim `name`.
    pub(super) fn claim(&self, of: Of<'_>, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.get(&ObjectKey {
            namespace: of.key.namespace.clone(),
            name: Arc::from(name),
        })
    }

    /// The verb at the start of an Event's text. Releases differ in the first letter.
    fn text(&self, verb: Verb) -> String {
        let text = verb.text();
        if self.has_capitals {
            text.to_owned()
        } else {
            text.to_lowercase()
        }
    }

    /// Reports the outcome of a write. A request that the write gate refused is no failure that
    /// users should see. Upstream: `recordPodEvent`.
    fn pod_event(&self, of: Of<'_>, verb: Verb, pod: &str, failure: Option<&PodError>) {
        let text = self.text(verb);
        let set = &of.set.meta.name;
        match failure {
            None => {
                let message = format!("{text} Pod {pod} in StatefulSet {set} successful");
                self.event(of, EventType::Normal, verb.reason(true), message);
            }
            Some(error) if ApiError::within(error).is_some_and(ApiError::is_fenced) => {}
            Some(error) => {
                let message =
                    format!("{text} Pod {pod} in StatefulSet {set} failed error: {error}");
                self.event(of, EventType::Warning, verb.reason(false), message);
            }
        }
    }

    /// Records an Event about the set.
    pub(super) fn event(&self, of: Of<'_>, kind: EventType, reason: &'static str, message: String) {
        self.recorder
            .event(ObjectReference::of(of.set), kind, reason, message);
    }
}

/// The changes that a pod needs. All false is possible: then only claims are wrong.
struct Repair {
    ordinal: i64,
    identity: bool,
    storage: bool,
}

/// Records the resource version in `answer`, so that the next sync waits for it. The answer to a
/// deletion lacks a version if the object is gone already. Upstream: the calls of `WroteAt`.
fn record(cache: &TrackedCache, key: &ObjectKey, answer: &[u8]) {
    match Identity::decode(answer) {
        Ok(Identity {
            // The object is gone, and no cache will show this version.
            resource_version: 0,
            ..
        }) => {}
        Ok(stored) => cache.wrote_at(key, stored.resource_version),
        Err(error) => {
            tracing::warn!(%error, "the answer to a write has no resource version; the next sync may repeat the write");
        }
    }
}
