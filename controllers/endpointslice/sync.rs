//! One sync of one Service: read pods, nodes and slices, plan, set hints, write.
//!
//! The address types are planned first. If a plan has writes, a new leader then compares its caches
//! with the API server. A sync on old caches ends here, and leaves no trace in metrics, Events and
//! memories.
//!
//! Each address type is written on its own. A failure of one type does not stop the other. The first
//! failed write of a type ends the writes of this type.
//!
//! Upstream: `syncService` of `pkg/controller/endpointslice`, and `Reconcile` of
//! `k8s.io/endpointslice`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_client::live::LiveError;
use steersman_client::{ApiClient, ApiError, Target};
use steersman_helpers::endpointslice::{
    AddressType, MANAGED_BY, NewSlice, PodsByLabel, PortOrder, SERVICE_NAME, SliceBody,
    SliceTotals, SliceWriter, SliceWrites, SlicesByService, TRIGGER_TIME, TriggerTimes,
    generate_name,
};
use steersman_objects::{EndpointSlice, Node, Object, ObjectKey, ObjectReference, Pod, Service};
use steersman_runtime::consistency::{Age, TrackedCache, Unconfirmed, confirmed};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_values::labels::Labels;

use super::address_types::address_types;
use super::desired::{Form, Nodes};
use super::error::{Failure, Failures, SyncError};
use super::hints::{self, Distribution, topology_enabled};
use super::metrics::{SliceMetrics, TrafficDistributions};
use super::missing_nodes::MissingNodes;
use super::plan::{Draft, Plan, Planned, Rewrite, plan};
use super::topology::{Hinted, Notice, Topology};
use super::{MANAGER, labels};

/// Syncs the slices of Services.
pub(super) struct Slices {
    pub(super) pods: PodsByLabel,
    pub(super) slices: SlicesByService,
    pub(super) nodes: Store<Node>,
    /// Maximum of endpoints per slice.
    pub(super) max: usize,
    pub(super) order: PortOrder,
    /// The CPU of zones, and the hints that earlier syncs set.
    pub(super) topology: Arc<Topology>,
    /// Takes up the nodes that a sync missed.
    pub(super) missing_nodes: Arc<MissingNodes>,
    /// The cache of Services, to compare its age with the leadership term.
    pub(super) services_cache: TrackedCache,
    /// The same for the cache of pods.
    pub(super) pods_cache: TrackedCache,
    /// The same for the cache of nodes.
    pub(super) nodes_cache: TrackedCache,
    pub(super) writer: SliceWriter,
    /// The times of the last changes, for the annotation that measures programming latency.
    pub(super) times: Arc<TriggerTimes>,
    pub(super) totals: Arc<SliceTotals<AddressType>>,
    pub(super) distributions: Arc<TrafficDistributions>,
    /// The feature gate `PreferSameTrafficDistribution`.
    pub(super) prefers_same: bool,
    pub(super) metrics: SliceMetrics,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
}

impl ObjectSyncer for Slices {
    type Object = Service;
    type Error = SyncError;

    /// A sync on a stale cache has no Event: users cannot act on it, and the next sync follows
    /// soon.
    async fn sync(&self, key: &ObjectKey, service: Arc<Service>) -> Result<Requeue, SyncError> {
        let Err(error) = self.sync_service(key, &service).await else {
            self.metrics.synced("success");
            return Ok(Requeue::Never);
        };
        if error.is_stale() {
            self.metrics.synced("stale");
            return Err(error);
        }
        self.metrics.synced("error");
        // A process that has lost its leadership sends no Event about its refused writes.
        if !ApiError::within(&error).is_some_and(ApiError::is_fenced) {
            let message = format!("Error updating Endpoint Slices for Service {key}: {error}");
            self.event(
                &service,
                EventType::Warning,
                "FailedToUpdateEndpointSlices",
                message,
            );
        }
        Err(error)
    }

    async fn clean_up(&self, _key: &ObjectKey) -> Result<Requeue, SyncError> {
        // The garbage collector deletes the slices of a deleted Service.
        self.metrics.synced("success");
        Ok(Requeue::Never)
    }

    fn retry(&self, error: &SyncError, _request: Option<&ApiError>, failures: u32) -> Retry {
        error.retry(failures)
    }
}

/// A Service in a sync, with the cached objects that the sync is about.
pub(super) struct Synced<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) service: &'a Service,
    pub(super) pods: &'a [Arc<Pod>],
    /// The slices of the Service that are not terminating. The API server keeps a terminating slice
    /// until its finalizers are gone. A sync that counted it would wait for a change that may never
    /// come. Upstream: `dropEndpointSlicesPendingDeletion`.
    pub(super) slices: &'a [Arc<EndpointSlice>],
}

/// The ages of the caches when the sync read them.
#[derive(Clone, Copy)]
struct Ages {
    services: Age,
    pods: Age,
    nodes: Age,
    slices: Age,
}

/// The plans of all address types of a Service.
pub(super) struct Plans {
    families: Vec<FamilyPlan>,
    /// Slices of other address types, which are deleted. For example those of the second family of
    /// a Service that became single-stack.
    others: Vec<Arc<EndpointSlice>>,
}

/// The plan of one address type.
struct FamilyPlan {
    family: AddressType,
    planned: Planned,
    /// The result of topology hints; unset if the Service does not ask for them.
    hinted: Option<Hinted>,
}

impl Plans {
    fn has_writes(&self) -> bool {
        let mut families = self.families.iter();
        !self.others.is_empty() || families.any(|family| family.planned.plan.has_writes())
    }
}

impl Slices {
    /// Plans and writes the slices of `service`. The ages are taken before pods and slices are read,
    /// so that neither is older than its age says.
    async fn sync_service(&self, key: &ObjectKey, service: &Service) -> Result<(), SyncError> {
        let spec = &service.spec;
        // The slices of such a Service stay, and users may add their own.
        if spec.service_type == *"ExternalName" || spec.selector.is_empty() {
            return Ok(());
        }
        let ages = self.ages();
        let pods = self.pods.selected(&key.namespace, &spec.selector);
        let cached = self.slices.managed(key, MANAGER);
        // Own deletions that the cache still shows are left out. The comparison with the API server
        // needs the terminating slices as well, since a list has them.
        let existing = self.writer.written.existing(key, cached);
        let is_kept = |slice: &&Arc<EndpointSlice>| !slice.meta.is_terminating();
        let slices: Vec<_> = existing.iter().filter(is_kept).cloned().collect();
        let synced = Synced {
            key,
            service,
            pods: &pods,
            slices: &slices,
        };
        let unconfirmed = |source| SyncError::Check {
            service: key.clone(),
            source,
        };
        let mut nodes = Nodes::new(&self.nodes);
        if ages.nodes.predates_term() {
            let completed = self.complete(&mut nodes, &pods).await;
            completed.map_err(|error| unconfirmed(Unconfirmed::Read(error)))?;
        }
        let mut plans = self.plan(&synced, &mut nodes);
        let mut planned_on = [ages.services, ages.pods, ages.slices].into_iter();
        if plans.has_writes() && planned_on.any(Age::predates_term) {
            let is_current = self.is_current(&synced, &existing, ages).await;
            confirmed(is_current).map_err(unconfirmed)?;
            // The CPU of zones may have changed in the meantime.
            plans = self.plan(&synced, &mut nodes);
        }
        // After the checks, and also without writes: the tracker must see each state of the pods.
        // Upstream calls `ComputeEndpointLastChangeTriggerTime` at the same point.
        let trigger_time = self.times.observe(key, service, &pods);
        self.write(&synced, plans, trigger_time).await
    }

    fn ages(&self) -> Ages {
        Ages {
            services: self.services_cache.age(),
            pods: self.pods_cache.age(),
            nodes: self.nodes_cache.age(),
            slices: self.writer.cache.age(),
        }
    }

    /// Reads the nodes of `pods` that the cache of a new leader lacks. Without them, the sync would
    /// remove the endpoints of ready pods.
    async fn complete(&self, nodes: &mut Nodes<'_>, pods: &[Arc<Pod>]) -> Result<(), LiveError> {
        for name in nodes.missing(pods) {
            match self.client.get(Target::named::<Node>("", &name)).await {
                Ok(live) => nodes.add(&Node::decode(&live).map_err(LiveError::Object)?),
                // The node is gone indeed, and its pods are left out.
                Err(error) if error.is_object_not_found() => {}
                Err(error) => return Err(LiveError::Request(error)),
            }
        }
        Ok(())
    }

    /// Plans the writes of all address types, without an effect on the memories of the controller.
    /// The nodes are shared by the types, so each is looked up once. Upstream plans and writes one
    /// type after the other, so its second type may see other nodes than the first.
    pub(super) fn plan(&self, synced: &Synced<'_>, nodes: &mut Nodes<'_>) -> Plans {
        let Synced { service, pods, .. } = *synced;
        let mut others = synced.slices.to_vec();
        let mut families = Vec::new();
        for family in address_types(service) {
            let existing = others.extract_if(.., |slice| has_type(slice, family));
            let existing = existing.collect();
            let form = Form {
                family,
                max: self.max,
                order: self.order,
            };
            let mut planned = plan(service, pods, nodes, existing, form);
            let hinted = self.set_hints(service, &mut planned.plan);
            families.push(FamilyPlan {
                family,
                planned,
                hinted,
            });
        }
        Plans { families, others }
    }

    /// The traffic distribution in effect for `service`.
    fn distribution(&self, service: &Service) -> Option<Distribution> {
        Distribution::of(service, self.prefers_same)
    }

    /// Sets the hints of `plan`, or removes them. `Some` tells that the Service asks for topology
    /// hints, even if they are impossible. Upstream: `AddHints`, or else `RemoveHintsFromSlices` or
    /// `ReconcileHints`.
    fn set_hints(&self, service: &Service, plan: &mut Plan) -> Option<Hinted> {
        if topology_enabled(service) {
            return Some(self.topology.hint(plan));
        }
        match self.distribution(service) {
            Some(distribution) => hints::distribute(plan, distribution),
            None => hints::remove(plan),
        }
        None
    }

    /// Whether the caches show the Service, its pods and its slices as the API server has them. Only the
    /// caches of a new leader may be too old. A write by such caches could remove the endpoint of a
    /// ready pod, or repeat a write of the previous leader.
    ///
    /// The nodes are not compared: `complete` has read those that the cache lacks.
    async fn is_current(
        &self,
        synced: &Synced<'_>,
        existing: &[Arc<EndpointSlice>],
        ages: Ages,
    ) -> Result<bool, LiveError> {
        let Synced {
            key, service, pods, ..
        } = *synced;
        let client = &self.client;
        let namespace = &key.namespace;
        if !ages
            .services
            .shows::<Service>(client, &service.meta)
            .await?
        {
            return Ok(false);
        }
        let selector = &service.spec.selector;
        if !ages
            .pods
            .shows_all(client, namespace, selector, pods)
            .await?
        {
            return Ok(false);
        }
        let labels = Labels::new([(SERVICE_NAME, &*key.name), (MANAGED_BY, MANAGER)]);
        ages.slices
            .shows_all(client, namespace, &labels, existing)
            .await
    }

    /// Writes the slices of all address types, and deletes those of other types. Deletions come
    /// last, so that clients have the slices of the remaining types before. A failed deletion does
    /// not stop the next one. Upstream: `Reconcile`.
    pub(super) async fn write(
        &self,
        synced: &Synced<'_>,
        plans: Plans,
        trigger_time: Option<Timestamp>,
    ) -> Result<(), SyncError> {
        let Synced { key, service, .. } = *synced;
        let Plans { families, others } = plans;
        let mut failures = Vec::new();
        let mut totals = BTreeMap::new();
        for family in [AddressType::IPv4, AddressType::IPv6] {
            // Slices of the type `FQDN` have no hints.
            if others.iter().any(|slice| has_type(slice, family)) {
                self.topology.forget_hints(key, family);
            }
        }
        // Before the writes, as in upstream: the metric tells the wish of the user, even if writes
        // fail.
        self.distributions.set(key, self.distribution(service));
        let bodies = Bodies {
            service,
            trigger_time,
        };
        for plan in families {
            totals.insert(plan.family, plan.planned.totals);
            self.write_type(synced, plan, &bodies, &mut failures).await;
        }
        self.totals.set(key, totals);
        for slice in others {
            match self.writer.delete(key, &slice).await {
                Ok(()) => self.writer.count("delete"),
                Err(source) => failures.push(Failure::DeleteOtherType {
                    service: key.clone(),
                    slice: slice.meta.name.to_string(),
                    source,
                }),
            }
        }
        if failures.is_empty() {
            Ok(())
        } else {
            Err(SyncError::Failed(Failures(failures)))
        }
    }

    /// Writes the slices of one address type.
    async fn write_type(
        &self,
        synced: &Synced<'_>,
        plan: FamilyPlan,
        bodies: &Bodies<'_>,
        failures: &mut Vec<Failure>,
    ) {
        let Synced { key, service, .. } = *synced;
        let FamilyPlan {
            family,
            planned,
            hinted,
        } = plan;
        // A missing node is a failure of the sync, since a retry may find it. All other pods are
        // written.
        for missing in planned.without_node {
            self.missing_nodes.add(key, &missing.node);
            failures.push(Failure::MissingNode {
                service: key.clone(),
                pod: missing.pod,
                node: missing.node,
            });
        }
        self.metrics
            .changed_endpoints(planned.added, planned.removed);
        // Before the write, as in upstream: a change of nodes during the write must find the new
        // hints.
        let notice = self.topology.record(key, family, hinted);
        let writes = planned.plan.into_writes(service);
        let written = self.writer.write(
            &service.meta,
            SliceWrites {
                create: writes
                    .create
                    .iter()
                    .map(|draft| bodies.new_slice(family, draft, None)),
                update: writes
                    .update
                    .iter()
                    .map(|rewrite| bodies.rewritten(family, rewrite)),
                delete: writes.delete.iter(),
            },
        );
        match written.await {
            Ok(true) => {
                let distribution = self.distribution(service);
                self.metrics
                    .changed_slices(service, distribution, writes.len());
            }
            // The namespace terminates. Upstream returns early as well, before it observes the
            // metric.
            Ok(false) => {}
            Err(error) => failures.push(Failure::Write(error)),
        }
        // The Event follows even after a failed write, as in upstream.
        if let Some(notice) = notice {
            self.notify(service, family, &notice);
        }
    }

    /// The Event of a change of topology hints. Upstream: `FormatWithAddressType`.
    fn notify(&self, service: &Service, family: AddressType, notice: &Notice) {
        let (kind, reason, text) = match notice {
            Notice::Enabled => (
                EventType::Normal,
                "TopologyAwareHintsEnabled",
                "Topology Aware Hints has been enabled",
            ),
            Notice::Disabled(text) => (
                EventType::Warning,
                "TopologyAwareHintsDisabled",
                text.as_str(),
            ),
        };
        self.event(
            service,
            kind,
            reason,
            format!("{text}, addressType: {family}"),
        );
    }

    fn event(&self, service: &Service, kind: EventType, reason: &'static str, message: String) {
        self.recorder
            .event(ObjectReference::of(service), kind, reason, message);
    }
}

fn has_type(slice: &EndpointSlice, family: AddressType) -> bool {
    slice.address_type == family.as_str()
}

/// Makes the bodies of the slices of a Service.
struct Bodies<'a> {
    service: &'a Service,
    trigger_time: Option<Timestamp>,
}

impl Bodies<'_> {
    /// The body of a new slice; `name` is the name that it takes over.
    ///
    /// A slice that takes over a name gets a whole new body, so the labels and annotations of its
    /// predecessor are gone. Upstream: `newEndpointSlice` and `finalize`.
    fn new_slice<'b>(
        &'b self,
        address_type: AddressType,
        draft: &'b Draft,
        name: Option<&str>,
    ) -> SliceBody<'b> {
        let new = NewSlice {
            owner: &self.service.meta,
            owner_kind: "Service",
            labels: labels::computed(self.service),
            annotations: BTreeMap::new(),
            address_type,
            ports: &draft.ports,
            endpoints: &draft.endpoints,
        };
        let prefix = generate_name(&self.service.meta.name);
        self.stamped(new.body(name).with_generate_name(&prefix))
    }

    /// The slice to replace, and the body that replaces it. A copy keeps fields that this
    /// controller does not know.
    fn rewritten<'b>(
        &'b self,
        family: AddressType,
        rewrite: &'b Rewrite,
    ) -> (&'b EndpointSlice, SliceBody<'b>) {
        match rewrite {
            Rewrite::Copy(update) => {
                let mut body = SliceBody::copy(&update.slice, &update.endpoints);
                if update.relabel {
                    body = body.with_labels(&labels::computed(self.service));
                }
                (&update.slice, self.stamped(body))
            }
            Rewrite::Recycled { slice, draft } => {
                (slice, self.new_slice(family, draft, Some(&slice.meta.name)))
            }
        }
    }

    /// `body` with the annotation of the trigger time, or without it. Without a new time the
    /// annotation goes, so that each latency is measured once. Upstream:
    /// `addTriggerTimeAnnotation`.
    fn stamped<'b>(&self, body: SliceBody<'b>) -> SliceBody<'b> {
        body.with_annotation(TRIGGER_TIME, self.trigger_time.map(|time| time.to_string()))
    }
}
