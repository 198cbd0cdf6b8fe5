//! One sync of one Endpoints object: mirror it, or delete its slices.
//!
//! Upstream: `syncEndpoints`, `reconcile`, `finalize` and `deleteEndpoints` of
//! `pkg/controller/endpointslicemirroring`.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_runtime::client::{ApiClient, ApiError, Target};
use steersman_runtime::endpointslice::{
    MANAGED_BY, NewSlice, SERVICE_NAME, SliceBody, SliceTotals, SlicesByService, Totals,
    WrittenSlices, generate_name,
};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::labels::Labels;
use steersman_runtime::live::{self, LiveError};
use steersman_runtime::object::{
    EndpointSlice, Endpoints, Identity, Object, ObjectKey, ObjectReference, Service,
};
use steersman_runtime::own_writes::{Memory, WritesTo};
use steersman_runtime::workers::{Requeue, Retry};
use steersman_runtime::writes::Delete;
use tokio::time::Instant;

use super::MANAGER;
use super::desired::{Desired, desired};
use super::error::SyncError;
use super::handlers::is_mirrored;
use super::metrics::MirroringMetrics;
use super::plan::{Draft, Plan, annotations, labels, plan};

/// Syncs the slices that mirror Endpoints.
pub(super) struct Mirroring {
    pub(super) endpoints: Store<Endpoints>,
    pub(super) services: Store<Service>,
    /// The caches of Endpoints and Services, to compare their age with the leadership term.
    pub(super) endpoints_seen: WritesTo,
    pub(super) services_seen: WritesTo,
    pub(super) slices: SlicesByService,
    /// Maximum of mirrored addresses per subset.
    pub(super) max: usize,
    pub(super) writes: WritesTo,
    pub(super) written: Arc<WrittenSlices>,
    pub(super) totals: Arc<SliceTotals<()>>,
    pub(super) metrics: MirroringMetrics,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
}

impl ObjectSyncer for Mirroring {
    type Object = Endpoints;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, endpoints: Arc<Endpoints>) -> Result<Requeue, SyncError> {
        let began = Instant::now();
        let service = self.services.get(key);
        let has_no_selector = |service: Arc<Service>| service.spec.selector.is_empty();
        let synced = if is_mirrored(&endpoints) && service.is_some_and(has_no_selector) {
            self.mirror(key, &endpoints).await
        } else {
            self.delete_all(key).await
        };
        self.metrics.synced(began.elapsed());
        synced.map(|()| Requeue::Never)
    }

    async fn clean_up(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        let began = Instant::now();
        let deleted = self.delete_all(key).await;
        self.metrics.synced(began.elapsed());
        deleted.map(|()| Requeue::Never)
    }

    fn retry(&self, error: &SyncError, _request: Option<&ApiError>, failures: u32) -> Retry {
        error.retry(failures)
    }
}

impl Mirroring {
    /// The slices that mirror the Endpoints with this key.
    fn existing(&self, key: &ObjectKey) -> Vec<Arc<EndpointSlice>> {
        self.written
            .existing(key, self.slices.managed(key, MANAGER))
    }

    /// Makes the slices mirror `endpoints`.
    async fn mirror(&self, key: &ObjectKey, endpoints: &Endpoints) -> Result<(), SyncError> {
        let Desired {
            groups,
            invalid,
            skipped,
        } = desired(&endpoints.subsets, self.max);
        self.metrics.skipped(skipped);
        self.report(endpoints, invalid, skipped);
        let plan = plan(endpoints, groups, self.existing(key), self.max);
        self.metrics.changed_endpoints(plan.changes);
        let totals = Totals::of(plan.counts.iter().copied(), self.max);
        self.totals.set(key, BTreeMap::from([((), totals)]));
        self.write(key, endpoints, &plan).await
    }

    /// Records the addresses that are not mirrored.
    fn report(&self, endpoints: &Endpoints, invalid: usize, skipped: usize) {
        let event = |reason: &'static str, message: String| {
            let object = ObjectReference::of(endpoints);
            self.recorder
                .event(object, EventType::Warning, reason, message);
        };
        if invalid > 0 {
            let message =
                format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            event("InvalidIPAddress", message);
        }
        if skipped > invalid {
            let message = format!(
                "A max of {} addresses can be mirrored to EndpointSlices per Endpoints subset. \
                 {skipped} addresses were skipped",
                self.max
            );
            event("TooManyAddressesToMirror", message);
        }
    }

    /// Sends the writes in their order. Ends with the first failure, and without a failure if the
    /// namespace is terminating.
    async fn write(
        &self,
        key: &ObjectKey,
        endpoints: &Endpoints,
        plan: &Plan,
    ) -> Result<(), SyncError> {
        let writes = plan.create.len() + plan.update.len() + plan.delete.len();
        if writes > 0 {
            self.check_caches(key).await?;
        }
        // The garbage collector deletes the slices of terminating Endpoints, and a new one would be
        // missed.
        let create = if endpoints.meta.is_terminating() {
            &[][..]
        } else {
            &plan.create[..]
        };
        for draft in create {
            let body = body(endpoints, draft, None);
            let body = body.with_generate_name(&generate_name(&endpoints.meta.name));
            let target = Target::collection::<EndpointSlice>(&key.namespace);
            match self.client.create(target, &body).await {
                Ok(answer) => self.record(key, &answer, "create")?,
                Err(error) if error.has_cause("NamespaceTerminating") => return Ok(()),
                Err(source) => {
                    let key = key.clone();
                    return Err(SyncError::Create { key, source });
                }
            }
        }
        for (slice, draft) in &plan.update {
            let body = body(endpoints, draft, Some(&slice.meta.name));
            let target = Target::of::<EndpointSlice>(&slice.meta);
            let answer = self.client.replace(target, &body).await;
            let answer = answer.map_err(|source| SyncError::Update {
                key: key.clone(),
                slice: slice.meta.name.to_string(),
                source,
            })?;
            self.record(key, &answer, "update")?;
        }
        for slice in &plan.delete {
            let deleted = self.delete(key, slice).await;
            deleted.map_err(|source| SyncError::Delete {
                key: key.clone(),
                slice: slice.meta.name.to_string(),
                source,
            })?;
            self.metrics.wrote("delete");
        }
        Ok(())
    }

    /// Deletes all slices that mirror the Endpoints with this key. Tries all of them.
    async fn delete_all(&self, key: &ObjectKey) -> Result<(), SyncError> {
        self.totals.forget(key);
        let slices = self.existing(key);
        if !slices.is_empty() {
            self.check_caches(key).await?;
        }
        let mut failures = Vec::new();
        for slice in &slices {
            failures.extend(self.delete(key, slice).await.err());
        }
        let failed = failures.len();
        match failures.into_iter().next() {
            None => Ok(()),
            Some(source) => Err(SyncError::CleanUp {
                key: key.clone(),
                failed,
                all: slices.len(),
                source,
            }),
        }
    }

    /// Fails if a cache does not show Endpoints, Service and slices as the API server has them. Only
    /// the caches of a new leader may be too old. A write by such caches could delete the slices of
    /// Endpoints that the cache lacks, or repeat a write of the previous leader.
    async fn check_caches(&self, key: &ObjectKey) -> Result<(), SyncError> {
        let check = async {
            if self.endpoints_seen.predates_term() && !self.has(&self.endpoints, key).await? {
                return Ok(false);
            }
            if self.services_seen.predates_term() && !self.has(&self.services, key).await? {
                return Ok(false);
            }
            if !self.writes.predates_term() {
                return Ok(true);
            }
            let labels = Labels::new([(SERVICE_NAME, &*key.name), (MANAGED_BY, MANAGER)]);
            let slices = self.slices.managed(key, MANAGER);
            live::are_current(&self.client, &key.namespace, &labels, &slices).await
        };
        match check.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(SyncError::Behind { key: key.clone() }),
            Err(source) => Err(SyncError::Check {
                key: key.clone(),
                source,
            }),
        }
    }

    /// Whether `cache` shows the object with this key as the API server has it.
    async fn has<T: Object>(&self, cache: &Store<T>, key: &ObjectKey) -> Result<bool, LiveError> {
        match cache.get(key) {
            Some(object) => live::is_current::<T>(&self.client, object.meta()).await,
            None => live::is_absent::<T>(&self.client, key).await,
        }
    }

    async fn delete(&self, key: &ObjectKey, slice: &EndpointSlice) -> Result<(), ApiError> {
        let target = Target::of::<EndpointSlice>(&slice.meta);
        self.client
            .delete(target, &Delete::exactly(&slice.meta))
            .await?;
        self.written.deleted(key, slice);
        Ok(())
    }

    /// Records the slice in `answer`, which `operation` wrote.
    fn record(&self, key: &ObjectKey, answer: &[u8], operation: &str) -> Result<(), SyncError> {
        self.metrics.wrote(operation);
        let written = Identity::decode(answer).map_err(|source| SyncError::Answer {
            key: key.clone(),
            source,
        })?;
        self.written
            .wrote(key, written.uid, written.resource_version);
        self.writes.record(key, written.resource_version);
        Ok(())
    }
}

/// The body of a slice with the content of `draft`; `name` is the name of the slice that it
/// replaces.
fn body<'a>(endpoints: &'a Endpoints, draft: &'a Draft, name: Option<&str>) -> SliceBody<'a> {
    let new = NewSlice {
        owner: &endpoints.meta,
        owner_kind: "Endpoints",
        labels: labels(endpoints),
        annotations: annotations(endpoints),
        address_type: draft.family,
        ports: &draft.ports,
        endpoints: &draft.endpoints,
    };
    new.body(name)
}
