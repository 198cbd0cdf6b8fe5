//! Syncs of single objects: live reads of the object and its owners, then the write that follows.
//!
//! graph node -> classification of each reference (live GETs) -> decision -> PATCH or DELETE with
//! preconditions
//!
//! The graph selects the objects to check. Their owners are always read live. The object itself is
//! read live too, or its write carries the resource version that the graph has seen. If a live read
//! fails, the object stays and its sync is retried. Upstream: `garbagecollector.go`.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use steersman_client::writes::{Delete, Propagation};
use steersman_client::{Aggregate, ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{CollectorFinalizers, ObjectReference, OwnerReference, Uid};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::workers::{Requeue, Retry, Syncer};
use steersman_runtime::workqueue::{ImmediateQueue, WorkQueue};
use steersman_values::intern::Sym;
use steersman_values::resource::ResourceType;
use tokio::time::Instant;

use super::attempt_to_delete::{Decision, Standing, decide};
use super::coordinates::Coordinates;
use super::error::SyncError;
use super::foreground::{self, Step};
use super::graph::{Effects, Graph, NodeKey, NodeView};
use super::invariants;
use super::kinds::Kinds;
use super::live::{self, Live};
use super::unseen::{Reference, Watched};

/// Attempts to remove a finalizer before a conflict counts as a failure. Upstream:
/// `retry.DefaultBackoff`, with the same steps and pauses, and a jitter of 10 %.
const FINALIZER_TRIES: usize = 4;
/// Pause after the first conflict. Each further pause is five times as long.
const FINALIZER_PAUSE: Duration = Duration::from_millis(10);
/// Failures of a key after which unseen dependents are logged as an error. With doubling pauses
/// they take more than two minutes, and a healthy cache catches up in less.
const LATE_TRIES: u32 = 15;

/// The graph, its queues, and the clients.
pub(super) struct Collector {
    pub(super) graph: Mutex<Graph>,
    /// Upstream: `restMapper`.
    pub(super) kinds: Kinds,
    /// Upstream: `attemptToDelete`, with objects in place of keys.
    pub(super) to_delete: WorkQueue<NodeKey>,
    /// Upstream: `attemptToOrphan`.
    pub(super) to_orphan: WorkQueue<NodeKey>,
    /// Upstream's queue of graph changes, for its metrics. Handlers update the graph directly.
    pub(super) changes: ImmediateQueue,
    /// Client for reads and patches whose answers have metadata only. The graph needs no spec, and
    /// objects may be large.
    pub(super) metadata: ApiClient,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
    pub(super) watched: Watched,
}

/// Syncs the queue of objects that may have to be deleted.
pub(super) struct Deleting(pub(super) Arc<Collector>);

/// Syncs the queue of owners in orphaning deletion.
pub(super) struct Orphaning(pub(super) Arc<Collector>);

impl Syncer<NodeKey> for Deleting {
    type Error = SyncError;

    async fn sync(&self, key: &NodeKey) -> Result<Requeue, SyncError> {
        self.0.attempt_to_delete(key).await.map(|()| Requeue::Never)
    }

    fn retry(&self, error: &SyncError, failures: u32) -> Retry {
        retry(error, failures)
    }
}

impl Syncer<NodeKey> for Orphaning {
    type Error = SyncError;

    async fn sync(&self, key: &NodeKey) -> Result<Requeue, SyncError> {
        self.0.attempt_to_orphan(key).await.map(|()| Requeue::Never)
    }

    fn retry(&self, error: &SyncError, failures: u32) -> Retry {
        retry(error, failures)
    }
}

/// Unseen dependents are expected for a while after the start of a term, and an error later.
fn retry(error: &SyncError, failures: u32) -> Retry {
    let is_stuck = matches!(error, SyncError::UnseenDependents(_)) && failures > LATE_TRIES;
    if error.is_expected() && !is_stuck {
        Retry::Quietly
    } else {
        Retry::BackOff
    }
}

/// An object whose type is served, so that a live read is possible.
struct Place<'a> {
    coordinates: &'a Coordinates,
    resource: Arc<ResourceType>,
    /// The namespace to look in. Cluster-scoped types ignore it.
    namespace: Sym,
}

impl Place<'_> {
    fn target(&self) -> Target<'_> {
        Target {
            resource: &self.resource,
            namespace: self.resource.namespaced.then_some(&*self.namespace),
            name: Some(&self.coordinates.name),
            subresource: None,
        }
    }

    /// True if the type is namespaced, but the namespace is unknown. Such an object cannot exist.
    /// Upstream: `namespacedOwnerOfClusterScopedObjectErr`.
    fn is_nowhere(&self) -> bool {
        self.resource.namespaced && self.namespace.is_empty()
    }
}

impl Collector {
    pub(super) fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock()
    }

    /// Changes the graph, and enqueues the objects that the change affects. The keys are enqueued
    /// after the lock of the graph is free, since a queue has its own lock.
    pub(super) fn apply(&self, change: impl FnOnce(&mut Graph) -> Effects) {
        let started = Instant::now();
        let Effects {
            delete,
            delete_later,
            orphan,
            out_of_reach,
        } = change(&mut self.graph());
        delete.into_iter().for_each(|key| self.to_delete.add(key));
        delete_later
            .into_iter()
            .for_each(|key| self.to_delete.add_rate_limited(key));
        orphan.into_iter().for_each(|key| self.to_orphan.add(key));
        out_of_reach
            .iter()
            .for_each(|(dependent, reference)| self.report_out_of_reach(dependent, reference));
        self.changes.processed(started.elapsed());
    }

    /// Reports a reference to an owner in another namespace as an Event.
    fn report_out_of_reach(&self, dependent: &Coordinates, reference: &OwnerReference) {
        let owner = Coordinates::of_owner(reference, &dependent.namespace);
        tracing::debug!(item = %dependent, %owner, "item references an owner but does not match namespaces");
        let message = format!(
            "ownerRef {owner} does not exist in namespace {:?}",
            &*dependent.namespace
        );
        let object = ObjectReference {
            api_version: dependent.api_version.to_string(),
            kind: dependent.kind.to_string(),
            namespace: dependent.namespace.to_string(),
            name: dependent.name.to_string(),
            uid: dependent.uid.to_string(),
            resource_version: String::new(),
        };
        self.recorder.event(
            object,
            EventType::Warning,
            "OwnerRefInvalidNamespace",
            message,
        );
    }

    /// Checks an object of the queue, and deletes it if it has no solid owner. An owner in
    /// foreground deletion only waits for its blocking dependents.
    ///
    /// The order of the checks is upstream's, with the shortcut of `settle_as_observed` before the
    /// live read. A terminating object needs no second deletion, unless its dependents must go
    /// first. A proof of absence comes from a 404 or from another UID under the name. Upstream:
    /// `attemptToDeleteWorker` and `attemptToDeleteItem`.
    async fn attempt_to_delete(&self, key: &NodeKey) -> Result<(), SyncError> {
        // As in upstream, a node that has left the graph is forgotten.
        let Some(node) = self.graph().get(key) else {
            return Ok(());
        };
        // Its own deletion will enqueue its dependents.
        if node.being_deleted && !node.deleting_dependents {
            return Ok(());
        }
        let place = self.place(&node.coordinates)?;
        // Only a cluster-scoped dependent can name such an owner. No retry would find it.
        if place.is_nowhere() {
            return Ok(());
        }
        if !node.deleting_dependents && self.settle_as_observed(&place, key).await? {
            return Ok(());
        }
        // Upstream: `enqueueVirtualDeleteEvent`. The dependents of the absent object come next.
        let Some(live) = self.read(&place).await?.filter(|live| live.is(&key.uid)) else {
            self.apply(|graph| graph.proven_absent(&node.coordinates));
            return Ok(());
        };
        if node.deleting_dependents {
            return self.delete_when_dependents_are_gone(&node).await;
        }
        if !self.delete_unless_owned(&place, live).await? {
            return Ok(());
        }
        // The object exists. Its informer shows it soon, or another check finds it absent. A node
        // for an object that came and went in a gap of the watch would stay for ever otherwise.
        if node.is_virtual {
            Err(SyncError::NotObserved(Box::new(node.coordinates)))
        } else {
            Ok(())
        }
    }

    /// Keeps, patches or deletes the object as its state in the graph demands, without a live read
    /// of it. Returns false if a live read has to decide.
    ///
    /// Upstream reads each object before it writes. Here UID and resource version are preconditions
    /// of the write, and the API server refuses it if the object has changed. So most writes need
    /// one request in place of two.
    async fn settle_as_observed(
        &self,
        place: &Place<'_>,
        key: &NodeKey,
    ) -> Result<bool, SyncError> {
        let Some(observed) = self.graph().observed(key) else {
            return Ok(false);
        };
        // An informer shows later references with an event of their own.
        if observed.owners.is_empty() {
            return Ok(true);
        }
        let coordinates = place.coordinates;
        let mut owners = Vec::with_capacity(observed.owners.len());
        for reference in observed.owners.iter() {
            match self
                .standing(coordinates, &place.resource, reference)
                .await?
            {
                Some(standing) => owners.push((reference.uid.clone(), standing)),
                None => return Ok(false),
            }
        }
        let dependents = self.graph().about_dependents(&key.uid);
        let is_outdated = |error: &ApiError| error.is_conflict() || error.is_object_not_found();
        let item = || Box::new(coordinates.clone());
        match decide(&owners, dependents, observed.finalizers) {
            // An owner was seen alive a moment ago. Its later end enqueues the object again.
            Decision::Keep => Ok(true),
            // The patch of the references needs all their fields.
            Decision::Delete { unblock: true, .. } => Ok(false),
            Decision::Delete {
                policy,
                unblock: false,
            } => {
                self.permit(place, &observed.owners, &owners)?;
                tracing::debug!(item = %coordinates, propagationPolicy = ?policy, "Deleting item");
                let options = Delete::uid(&key.uid)
                    .propagation(policy)
                    .unchanged_since(observed.version);
                match self.client.delete(place.target(), &options).await {
                    Ok(_) => Ok(true),
                    // Another client changed the object, so its references have to be read again.
                    Err(error) if is_outdated(&error) => Ok(false),
                    Err(source) => Err(SyncError::Delete {
                        coordinates: item(),
                        source,
                    }),
                }
            }
            Decision::DropReferences(useless) => {
                let references = useless.len();
                tracing::debug!(item = %coordinates, references, "remove dangling references and waiting references for item");
                // With the same version the object still has its solid owner. Without one, it would
                // lose the reference by which a waiting owner deletes it.
                let mut patch = live::without_owners(&key.uid, &useless);
                patch["metadata"]["resourceVersion"] = observed.version.to_string().into();
                let target = place.target();
                let kind = PatchKind::Strategic;
                match self.metadata.patch(target, kind, &patch).await {
                    Ok(_) => Ok(true),
                    // A custom resource answers 415, and needs a patch of its live references.
                    Err(ApiError::Status { code: 415, .. }) => Ok(false),
                    Err(error) if is_outdated(&error) => Ok(false),
                    Err(source) => Err(SyncError::Patch {
                        coordinates: item(),
                        source,
                    }),
                }
            }
        }
    }

    /// Deletes the object if it has no solid owner. Returns false if a retry is useless. Upstream:
    /// the second half of `attemptToDeleteItem`.
    async fn delete_unless_owned(&self, place: &Place<'_>, live: Live) -> Result<bool, SyncError> {
        let coordinates = place.coordinates;
        let references = live.owners();
        if references.is_empty() {
            tracing::debug!(item = %coordinates, "item doesn't have an owner, continue on next item");
            return Ok(true);
        }
        let mut owners = Vec::with_capacity(references.len());
        for reference in &references {
            match self
                .standing(coordinates, &place.resource, reference)
                .await?
            {
                Some(standing) => owners.push((reference.uid.clone(), standing)),
                None => {
                    tracing::debug!(item = %coordinates, "item is cluster-scoped, but refers to a namespaced owner");
                    return Ok(false);
                }
            }
        }
        let dependents = self.graph().about_dependents(&coordinates.uid);
        match decide(&owners, dependents, live.collector_finalizers()) {
            Decision::Keep => {
                tracing::debug!(item = %coordinates, "item has at least one existing owner, will not garbage collect");
            }
            Decision::DropReferences(useless) => {
                let references = useless.len();
                tracing::debug!(item = %coordinates, references, "remove dangling references and waiting references for item");
                // Without a version: the patch names the references by UID, so later ones stay.
                let patch = live::without_owners(&coordinates.uid, &useless);
                let merge = |live: &Live| live::merge_without_owners(live, &useless);
                self.patch(place, &patch, Some(&live), merge).await?;
            }
            Decision::Delete { policy, unblock } => {
                self.permit(place, &references, &owners)?;
                // Before the deletion, so that no owner waits for this object any more.
                if unblock {
                    let patch = live::unblocked(&coordinates.uid, &live);
                    self.patch(place, &patch, Some(&live), |live| {
                        Some(live::merge_unblocked(live))
                    })
                    .await?;
                }
                return self.delete(place, &live, policy).await;
            }
        }
        Ok(true)
    }

    /// Refuses the deletion of an object with one of these owners if that may live.
    fn permit(
        &self,
        place: &Place<'_>,
        references: &[OwnerReference],
        owners: &[(Uid, Standing)],
    ) -> Result<(), SyncError> {
        let checked = invariants::has_no_living_owner(references, owners);
        let permitted = self.client.permit(place.target(), checked);
        permitted.map_err(|source| SyncError::Delete {
            coordinates: Box::new(place.coordinates.clone()),
            source,
        })
    }

    /// The state of the owner of `dependent` behind `reference`. `None` for a cluster-scoped
    /// dependent of a namespaced owner: the namespace of such an owner is unknown. A cached absence
    /// needs no request. Upstream: `isDangling` and `classifyReferences`.
    async fn standing(
        &self,
        dependent: &Coordinates,
        resource: &ResourceType,
        reference: &OwnerReference,
    ) -> Result<Option<Standing>, SyncError> {
        let namespace = if resource.namespaced {
            dependent.namespace.clone()
        } else {
            Sym::new("")
        };
        let clustered = Coordinates::of_owner(reference, &Sym::new(""));
        let beside = Coordinates::of_owner(reference, &namespace);
        // Before the lookup of the type, the scope of the owner is unknown, so both forms are
        // tried.
        let is_absent = {
            let absent = &mut self.graph().absent;
            absent.contains(&clustered) || absent.contains(&beside)
        };
        if is_absent {
            return Ok(Some(Standing::Dangling));
        }
        let mut place = self.place(&beside)?;
        if place.is_nowhere() {
            return Ok(None);
        }
        if !place.resource.namespaced {
            place.coordinates = &clustered;
        }
        Ok(Some(
            match self
                .read(&place)
                .await?
                .filter(|live| live.is(&reference.uid))
            {
                Some(live) if live.waits_for_dependents() => Standing::Waiting,
                Some(_) => Standing::Solid,
                None => {
                    self.graph().absent.insert(place.coordinates);
                    Standing::Dangling
                }
            },
        ))
    }

    /// Removes the foreground finalizer if no dependent blocks `node`. Otherwise enqueues the
    /// blocking dependents. The dependents are asked for twice, since some may arrive during the
    /// live check. Upstream: `processDeletingDependentsItem`.
    async fn delete_when_dependents_are_gone(&self, node: &NodeView) -> Result<(), SyncError> {
        let blocking = || self.graph().blocking_dependents(&node.key);
        if blocking().is_empty() {
            self.require_all_dependents(&node.coordinates).await?;
        }
        match foreground::next(&blocking()) {
            Step::Finish => {
                self.remove_finalizer(&node.coordinates, CollectorFinalizers::FOREGROUND)
                    .await
            }
            Step::WaitFor(dependents) => {
                // Only those that do not wait for their own dependents yet are enqueued.
                let waiting = dependents.len();
                tracing::debug!(item = %node.coordinates, dependents = waiting, "item waits for its dependents to be deleted");
                dependents
                    .into_iter()
                    .for_each(|key| self.to_delete.add(key));
                Ok(())
            }
        }
    }

    /// Removes the owner reference from all dependents, then the orphan finalizer from the owner.
    /// If a dependent fails, the finalizer stays and the key is retried. Upstream:
    /// `attemptToOrphanWorker` and `orphanDependents`.
    async fn attempt_to_orphan(&self, key: &NodeKey) -> Result<(), SyncError> {
        let Some(node) = self.graph().get(key) else {
            return Ok(());
        };
        self.require_all_dependents(&node.coordinates).await?;
        let dependents = self.graph().dependents(key);
        let owner = [key.uid.clone()];
        // All at once, as in upstream; the client limits their rate.
        let outcomes = join_all(
            dependents
                .iter()
                .map(|dependent| self.drop_references(&dependent.coordinates, &owner)),
        )
        .await;
        let errors: Vec<SyncError> = outcomes.into_iter().filter_map(Result::err).collect();
        // Dependents that were patched stay patched: a repeated patch has no effect.
        if !errors.is_empty() {
            return Err(SyncError::Orphan {
                owner: Box::new(node.coordinates),
                errors: Aggregate(errors),
            });
        }
        let orphans = dependents.len();
        tracing::debug!(owner = %node.coordinates, dependents = orphans, "successfully updated all dependents");
        self.remove_finalizer(&node.coordinates, CollectorFinalizers::ORPHAN)
            .await
    }

    /// Removes the references to `owners` from `dependent`. A deleted dependent is a success. The
    /// UID in the patch protects another object of the same name.
    async fn drop_references(
        &self,
        dependent: &Coordinates,
        owners: &[Uid],
    ) -> Result<(), SyncError> {
        let place = self.place(dependent)?;
        let patch = live::without_owners(&dependent.uid, owners);
        match self
            .patch(&place, &patch, None, |live| {
                live::merge_without_owners(live, owners)
            })
            .await
        {
            Err(SyncError::Patch { source, .. }) if source.is_object_not_found() => Ok(()),
            outcome => outcome,
        }
    }

    /// Finds the resource of the kind of `coordinates`. Fails for a kind that discovery does not
    /// know, so that its objects stay.
    fn place<'a>(&self, coordinates: &'a Coordinates) -> Result<Place<'a>, SyncError> {
        let Coordinates {
            api_version,
            kind,
            namespace,
            ..
        } = coordinates;
        let resource = self.kinds.resource(api_version, kind);
        let unknown = || SyncError::UnknownKind {
            api_version: api_version.to_string(),
            kind: kind.to_string(),
        };
        Ok(Place {
            coordinates,
            resource: resource.ok_or_else(unknown)?,
            namespace: namespace.clone(),
        })
    }

    /// A live read of the object, which may have another UID. `None` if the API server has no
    /// object of that name.
    async fn read(&self, place: &Place<'_>) -> Result<Option<Live>, SyncError> {
        let coordinates = || Box::new(place.coordinates.clone());
        match self.metadata.get(place.target()).await {
            Ok(body) => match Live::decode(&body) {
                Ok(live) => Ok(Some(live)),
                Err(source) => Err(SyncError::Decode {
                    coordinates: coordinates(),
                    source,
                }),
            },
            Err(error) if error.is_object_not_found() => Ok(None),
            Err(source) => Err(SyncError::Read {
                coordinates: coordinates(),
                source,
            }),
        }
    }

    /// Deletes the object `live`, with its UID and resource version as preconditions. If only other
    /// fields than its references changed since then, deletes it by UID alone. Returns false if it
    /// is gone. Without the deletion by UID alone, a client that updates the object all the time
    /// would keep it alive. Upstream: `deleteObject`.
    async fn delete(
        &self,
        place: &Place<'_>,
        live: &Live,
        policy: Propagation,
    ) -> Result<bool, SyncError> {
        let coordinates = place.coordinates;
        let uid = &coordinates.uid;
        let options = Delete::uid(uid).propagation(policy);
        tracing::debug!(item = %coordinates, propagationPolicy = ?policy, "Deleting item");
        let mut outcome = self
            .client
            .delete(
                place.target(),
                &options.clone().unchanged_since(live.version()),
            )
            .await
            .map(drop);
        if outcome.as_ref().is_err_and(ApiError::is_conflict) {
            // A conflict tells nothing about its reason, so a live read compares UID and
            // references.
            let now = self.read(place).await?;
            let has_same_owners = |now: &Live| {
                now.version() != live.version() && now.references() == live.references()
            };
            match now {
                None => {
                    self.apply(|graph| graph.proven_absent(coordinates));
                    return Ok(false);
                }
                // Another client changes the object often, but not its references.
                Some(now) if now.is(uid) && has_same_owners(&now) => {
                    outcome = self.client.delete(place.target(), &options).await.map(drop);
                }
                Some(_) => {}
            }
        }
        match outcome {
            Ok(()) => Ok(true),
            Err(error) if error.is_object_not_found() => {
                self.apply(|graph| graph.proven_absent(coordinates));
                Ok(false)
            }
            Err(source) => Err(SyncError::Delete {
                coordinates: Box::new(coordinates.clone()),
                source,
            }),
        }
    }

    /// Sends the strategic merge patch `strategic`. Custom resources answer 415; then sends the
    /// merge patch that `merge` makes of `live`, or of a live read. Sends none if `merge` returns
    /// `None`. Upstream: `patch` in `patch.go`, whose merge patch comes from a cache if there is
    /// one.
    async fn patch(
        &self,
        place: &Place<'_>,
        strategic: &Value,
        live: Option<&Live>,
        merge: impl Fn(&Live) -> Option<Value>,
    ) -> Result<(), SyncError> {
        let failed = |source| SyncError::Patch {
            coordinates: Box::new(place.coordinates.clone()),
            source,
        };
        match self
            .metadata
            .patch(place.target(), PatchKind::Strategic, strategic)
            .await
        {
            Err(ApiError::Status { code: 415, .. }) => {}
            outcome => return outcome.map(drop).map_err(failed),
        }
        let now = match live {
            Some(live) => Some(live.clone()),
            None => self
                .read(place)
                .await?
                .filter(|live| live.is(&place.coordinates.uid)),
        };
        let Some(patch) = now.as_ref().and_then(merge) else {
            return Ok(());
        };
        self.metadata
            .patch(place.target(), PatchKind::Merge, &patch)
            .await
            .map(drop)
            .map_err(failed)
    }

    /// Fails if the graph lacks dependents that `owner` had at the start of this leadership term.
    async fn require_all_dependents(&self, owner: &Coordinates) -> Result<(), SyncError> {
        let knows = |reference: Reference<'_>| self.graph().knows(reference);
        match self
            .watched
            .lacks_dependents(&self.metadata, &owner.namespace, &owner.uid, knows)
            .await
        {
            Ok(false) => Ok(()),
            Ok(true) => Err(SyncError::UnseenDependents(Box::new(owner.clone()))),
            Err(source) => Err(SyncError::Dependents {
                owner: Box::new(owner.clone()),
                source,
            }),
        }
    }

    /// Removes a finalizer of `owner`. Retries after conflicts. A missing object or finalizer is a
    /// success. Upstream: `removeFinalizer`.
    async fn remove_finalizer(
        &self,
        owner: &Coordinates,
        finalizer: &str,
    ) -> Result<(), SyncError> {
        let place = self.place(owner)?;
        let mut pause = FINALIZER_PAUSE;
        for attempt in 0..FINALIZER_TRIES {
            if attempt > 0 {
                tokio::time::sleep(pause).await;
                pause *= 5;
            }
            let Some(live) = self.read(&place).await?.filter(|live| live.is(&owner.uid)) else {
                return Ok(());
            };
            let Some(patch) = live::without_finalizer(&live, finalizer) else {
                return Ok(());
            };
            tracing::debug!(item = %owner, finalizer, "remove finalizer for item");
            match self
                .metadata
                .patch(place.target(), PatchKind::Merge, &patch)
                .await
            {
                Ok(_) => return Ok(()),
                Err(error) if error.is_object_not_found() => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(source) => {
                    return Err(SyncError::Patch {
                        coordinates: Box::new(owner.clone()),
                        source,
                    });
                }
            }
        }
        Err(SyncError::MaxRetries {
            owner: Box::new(owner.clone()),
            tries: FINALIZER_TRIES,
        })
    }
}
