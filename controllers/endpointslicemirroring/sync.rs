//! One sync of one Endpoints object: mirror it, or delete its slices.
//!
//! A new leader compares its caches with the API server before the first write. A sync on old caches
//! ends there, and leaves no trace in metrics and Events.
//!
//! Upstream: `syncEndpoints`, `reconcile`, `finalize` and `deleteEndpoints` of
//! `pkg/controller/endpointslicemirroring`.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_client::live::LiveError;
use steersman_client::{ApiClient, ApiError};
use steersman_helpers::endpointslice::{
    MANAGED_BY, NewSlice, PortOrder, SERVICE_NAME, SliceBody, SliceTotals, SliceWriter,
    SliceWrites, SlicesByService, Totals, generate_name,
};
use steersman_objects::{EndpointSlice, Endpoints, ObjectKey, ObjectReference, Service};
use steersman_runtime::consistency::{Age, Memory, TrackedCache, confirmed};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_values::labels::Labels;
use tokio::time::Instant;

use super::MANAGER;
use super::desired::{Desired, desired};
use super::error::SyncError;
use super::handlers::is_mirrored;
use super::metrics::MirroringMetrics;
use super::plan::{Draft, annotations, labels, plan};

/// Syncs the slices that mirror Endpoints.
pub(super) struct Mirroring {
    /// A Service decides by its selector whether its Endpoints are mirrored.
    pub(super) services: Store<Service>,
    /// The caches of Endpoints and Services, to compare their age with the leadership term.
    pub(super) endpoints_cache: TrackedCache,
    pub(super) services_cache: TrackedCache,
    /// The slices of this controller and of others, by Service. `managed` picks the own ones.
    pub(super) slices: SlicesByService,
    /// Maximum of mirrored addresses per subset. Flag `--mirroring-max-endpoints-per-subset`.
    pub(super) max: usize,
    pub(super) order: PortOrder,
    /// It remembers its writes, so that a sync counts slices that the cache lacks.
    pub(super) writer: SliceWriter,
    /// One entry for both address types, as in upstream.
    pub(super) totals: Arc<SliceTotals<()>>,
    pub(super) metrics: MirroringMetrics,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
}

impl ObjectSyncer for Mirroring {
    type Object = Endpoints;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, endpoints: Arc<Endpoints>) -> Result<Requeue, SyncError> {
        self.sync_key(key, Some(&endpoints)).await
    }

    /// The garbage collector would delete the slices as well, but later.
    async fn clean_up(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        self.sync_key(key, None).await
    }

    fn retry(&self, error: &SyncError, _request: Option<&ApiError>, failures: u32) -> Retry {
        error.retry(failures)
    }
}

/// The cached objects of a sync, and the ages of their caches.
struct Cached<'a> {
    key: &'a ObjectKey,
    endpoints: Option<&'a Endpoints>,
    endpoints_age: Age,
    service_age: Age,
    service: Option<Arc<Service>>,
    slices_age: Age,
    /// The slices that mirror the Endpoints.
    slices: Vec<Arc<EndpointSlice>>,
}

impl Mirroring {
    /// Decides by Endpoints and Service whether to mirror. In all other cases the slices are
    /// deleted: without Endpoints, without a Service, and with a selector, for which another
    /// controller makes slices.
    async fn sync_key(
        &self,
        key: &ObjectKey,
        endpoints: Option<&Endpoints>,
    ) -> Result<Requeue, SyncError> {
        let began = Instant::now();
        let slices = || self.slices.managed(key, MANAGER);
        // The fields are evaluated in this order: Service and slices are read after the ages of
        // their caches.
        let cached = Cached {
            key,
            endpoints,
            endpoints_age: self.endpoints_cache.age(),
            service_age: self.services_cache.age(),
            service: self.services.get(key),
            slices_age: self.writer.cache.age(),
            slices: self.writer.written.existing(key, slices()),
        };
        let service = cached.service.as_ref();
        let has_no_selector = service.is_some_and(|service| service.spec.selector.is_empty());
        let synced = match endpoints.filter(|endpoints| is_mirrored(endpoints)) {
            Some(endpoints) if has_no_selector => self.mirror(&cached, endpoints).await,
            _ => self.delete_all(&cached).await,
        };
        // After a failure too. Upstream observes the duration in a `defer`.
        self.metrics.synced(began.elapsed());
        synced.map(|()| Requeue::Never)
    }

    /// Makes the slices mirror `endpoints`. A terminating owner gets no new slices; see
    /// `SliceWriter::write`.
    async fn mirror(&self, cached: &Cached<'_>, endpoints: &Endpoints) -> Result<(), SyncError> {
        let Desired {
            groups,
            invalid,
            skipped,
        } = desired(&endpoints.subsets, self.max, self.order);
        let plan = plan(
            endpoints,
            groups,
            cached.slices.clone(),
            self.max,
            self.order,
        );
        // A plan without writes is harmless, so the live reads are left out.
        if plan.has_writes() {
            self.check(cached).await?;
        }
        // Metrics and Events follow the check, and come before the writes, as in upstream's
        // `reconcile`.
        self.metrics.skipped(skipped);
        self.report(endpoints, invalid, skipped);
        self.metrics.changed_endpoints(plan.changes);
        let totals = Totals::of(plan.counts.iter().copied(), self.max);
        self.totals.set(cached.key, BTreeMap::from([((), totals)]));
        let prefix = generate_name(&endpoints.meta.name);
        let writes = SliceWrites {
            create: plan
                .create
                .iter()
                .map(|draft| body(endpoints, draft, None).with_generate_name(&prefix)),
            update: plan.update.iter().map(|(slice, draft)| {
                let body = body(endpoints, draft, Some(&slice.meta.name));
                (&**slice, body)
            }),
            delete: plan.delete.iter(),
        };
        self.writer.write(&endpoints.meta, writes).await?;
        Ok(())
    }

    /// Records the addresses that are not mirrored. The second Event has the sum of both numbers,
    /// as in upstream.
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

    /// Deletes all slices that mirror the Endpoints with this key. Tries all of them. Terminating
    /// slices are among them, as in upstream; a repeated DELETE has no effect.
    async fn delete_all(&self, cached: &Cached<'_>) -> Result<(), SyncError> {
        let Cached { key, slices, .. } = cached;
        if !slices.is_empty() {
            self.check(cached).await?;
        }
        // Before the deletions, as in upstream's `deleteEndpoints`: a failure does not keep the old
        // numbers.
        self.totals.forget(key);
        let mut failures = Vec::new();
        for slice in slices {
            failures.extend(self.writer.delete(key, slice).await.err());
        }
        let failed = failures.len();
        match failures.into_iter().next() {
            None => Ok(()),
            Some(source) => Err(SyncError::CleanUp {
                key: ObjectKey::clone(key),
                failed,
                all: slices.len(),
                source,
            }),
        }
    }

    /// Fails if a cache does not show Endpoints, Service and slices as the API server has them. Only
    /// the caches of a new leader may be too old. A write by such caches could delete the slices of
    /// Endpoints that the cache lacks, or repeat a write of the previous leader.
    async fn check(&self, cached: &Cached<'_>) -> Result<(), SyncError> {
        confirmed(self.is_current(cached).await).map_err(|source| SyncError::Check {
            key: cached.key.clone(),
            source,
        })
    }

    /// The Service is compared even if it is missing, because its absence deletes slices.
    async fn is_current(&self, cached: &Cached<'_>) -> Result<bool, LiveError> {
        let client = &self.client;
        let key = cached.key;
        let age = cached.endpoints_age;
        if !age.shows_or_lacks(client, key, cached.endpoints).await? {
            return Ok(false);
        }
        let age = cached.service_age;
        let service = cached.service.as_deref();
        if !age.shows_or_lacks(client, key, service).await? {
            return Ok(false);
        }
        let age = cached.slices_age;
        let labels = Labels::new([(SERVICE_NAME, &*key.name), (MANAGED_BY, MANAGER)]);
        age.shows_all(client, &key.namespace, &labels, &cached.slices)
            .await
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
