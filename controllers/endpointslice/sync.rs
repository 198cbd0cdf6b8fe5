//! One sync of one Service: read pods, nodes and slices, plan, set hints, write.
//!
//! Each address type is planned and written on its own. A failure of one type does not stop the
//! other. The first failed write of a type ends the writes of this type.
//!
//! Upstream: `syncService` of `pkg/controller/endpointslice`, and `Reconcile` of
//! `k8s.io/endpointslice`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_runtime::client::{ApiClient, ApiError, Target};
use steersman_runtime::endpointslice::{
    AddressType, MANAGED_BY, NewSlice, PodsByLabel, SERVICE_NAME, SliceBody, SliceTotals,
    SlicesByService, TRIGGER_TIME, Totals, TriggerTimes, WrittenSlices, generate_name,
};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::labels::Labels;
use steersman_runtime::live::{self, LiveError};
use steersman_runtime::object::{
    EndpointSlice, Identity, Node, Object, ObjectKey, ObjectReference, Pod, Service,
};
use steersman_runtime::own_writes::WritesTo;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_runtime::writes::Delete;

use super::address_types::address_types;
use super::desired::Nodes;
use super::error::{Failure, SyncError};
use super::hints::{self, Distribution, topology_enabled};
use super::metrics::{SliceMetrics, TrafficDistributions};
use super::missing_nodes::MissingNodes;
use super::plan::{Draft, Plan, Planned, Rewrite, Writes, plan};
use super::topology::{Notice, Topology};
use super::{MANAGER, labels};

/// Syncs the slices of Services.
pub(super) struct Slices {
    pub(super) pods: PodsByLabel,
    pub(super) slices: SlicesByService,
    pub(super) nodes: Store<Node>,
    /// Maximum of endpoints per slice.
    pub(super) max: usize,
    pub(super) topology: Arc<Topology>,
    pub(super) missing_nodes: Arc<MissingNodes>,
    /// The cache of Services, to compare its age with the leadership term.
    pub(super) services_seen: WritesTo,
    /// The same for the cache of pods.
    pub(super) pods_seen: WritesTo,
    /// The same for the cache of nodes.
    pub(super) nodes_seen: WritesTo,
    pub(super) writes: WritesTo,
    pub(super) written: Arc<WrittenSlices>,
    pub(super) times: Arc<TriggerTimes>,
    pub(super) totals: Arc<SliceTotals<AddressType>>,
    pub(super) distributions: Arc<TrafficDistributions>,
    pub(super) metrics: SliceMetrics,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
}

impl ObjectSyncer for Slices {
    type Object = Service;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, service: Arc<Service>) -> Result<Requeue, SyncError> {
        let failures = self.sync_service(key, &service).await;
        if failures.is_empty() {
            self.metrics.synced("success");
            return Ok(Requeue::Never);
        }
        let error = SyncError(failures);
        if error.is_behind() {
            self.metrics.synced("stale");
            return Err(error);
        }
        self.metrics.synced("error");
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

/// A Service in a sync.
pub(super) struct Synced<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) service: &'a Service,
    pub(super) pods: &'a [Arc<Pod>],
    /// All slices of the Service in the cache.
    pub(super) slices: &'a [Arc<EndpointSlice>],
    pub(super) trigger_time: Option<Timestamp>,
}

impl Slices {
    async fn sync_service(&self, key: &ObjectKey, service: &Service) -> Vec<Failure> {
        let spec = &service.spec;
        // The slices of such a Service stay, and users may add their own.
        if spec.service_type == *"ExternalName" || spec.selector.is_empty() {
            return Vec::new();
        }
        let pods = self.pods.selected(&key.namespace, &spec.selector);
        let cached = self.slices.managed(key, MANAGER);
        let mut slices = self.written.existing(key, cached.clone());
        slices.retain(|slice| !slice.meta.is_terminating());
        let trigger_time = self.times.observe(key, service, &pods);
        let synced = Synced {
            key,
            service,
            pods: &pods,
            slices: &cached,
            trigger_time,
        };
        self.reconcile(&synced, slices).await
    }

    /// Writes the slices of all address types, and deletes those of other types.
    pub(super) async fn reconcile(
        &self,
        synced: &Synced<'_>,
        mut slices: Vec<Arc<EndpointSlice>>,
    ) -> Vec<Failure> {
        let mut failures = Vec::new();
        let mut nodes = Nodes::new(&self.nodes);
        if let Err(source) = self.complete(&mut nodes, synced.pods).await {
            let service = synced.key.clone();
            return vec![Failure::Check { service, source }];
        }
        let mut totals = BTreeMap::new();
        let families = address_types(synced.service);
        let has_type =
            |slice: &EndpointSlice, family: &AddressType| slice.address_type == family.as_str();
        for family in [AddressType::IPv4, AddressType::IPv6] {
            // Slices of the type `FQDN` have no hints.
            if !families.contains(&family) && slices.iter().any(|slice| has_type(slice, &family)) {
                self.topology.forget_hints(synced.key, family);
            }
        }
        for family in families {
            let (existing, others) = slices
                .into_iter()
                .partition(|slice| has_type(slice, &family));
            slices = others;
            let total = self.reconcile_type(synced, &mut nodes, existing, family, &mut failures);
            totals.insert(family, total.await);
        }
        self.totals.set(synced.key, totals);
        for slice in slices {
            if let Err(source) = self.delete(synced.key, &slice).await {
                failures.push(Failure::DeleteOtherType {
                    service: synced.key.clone(),
                    slice: slice.meta.name.to_string(),
                    source,
                });
            }
        }
        failures
    }

    /// Reads the nodes of `pods` that the cache of a new leader lacks. Without them, the sync would
    /// remove the endpoints of ready pods.
    async fn complete(&self, nodes: &mut Nodes<'_>, pods: &[Arc<Pod>]) -> Result<(), LiveError> {
        if !self.nodes_seen.predates_term() {
            return Ok(());
        }
        for name in nodes.missing(pods) {
            match self.client.get(Target::named::<Node>("", &name)).await {
                Ok(live) => nodes.add(&Node::decode(&live).map_err(LiveError::Object)?),
                Err(error) if error.is_object_not_found() => {}
                Err(error) => return Err(LiveError::Request(error)),
            }
        }
        Ok(())
    }

    /// Plans and writes the slices of one address type.
    async fn reconcile_type(
        &self,
        synced: &Synced<'_>,
        nodes: &mut Nodes<'_>,
        existing: Vec<Arc<EndpointSlice>>,
        family: AddressType,
        failures: &mut Vec<Failure>,
    ) -> Totals {
        let Synced {
            key, service, pods, ..
        } = *synced;
        let Planned {
            mut plan,
            totals,
            added,
            removed,
            without_node,
        } = plan(service, pods, nodes, existing, (family, self.max));
        for missing in without_node {
            self.missing_nodes.add(key, &missing.node);
            failures.push(Failure::MissingNode {
                service: key.clone(),
                pod: missing.pod.to_string(),
                node: missing.node,
            });
        }
        self.metrics.changed_endpoints(added, removed);
        let notice = self.set_hints(key, service, family, &mut plan);
        let writes = plan.into_writes(service);
        let written = self.write(synced, family, &writes).await;
        failures.extend(written.err());
        if let Some(notice) = notice {
            self.notify(service, family, &notice);
        }
        totals
    }

    /// Sets the hints of `plan`, or removes them.
    fn set_hints(
        &self,
        key: &ObjectKey,
        service: &Service,
        family: AddressType,
        plan: &mut Plan,
    ) -> Option<Notice> {
        let distribution = Distribution::of(service);
        self.distributions.set(key, distribution);
        if topology_enabled(service) {
            return self.topology.add_hints(key, family, plan);
        }
        match distribution {
            Some(distribution) => hints::distribute(plan, distribution),
            None => hints::remove(plan),
        }
        let had_hints = self.topology.forget_hints(key, family);
        had_hints.then(|| Notice::Disabled("Topology Aware Hints has been disabled".to_owned()))
    }

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

    /// Sends the writes of one address type in their order. Ends with the first failure, and without
    /// a failure if the namespace is terminating.
    async fn write(
        &self,
        synced: &Synced<'_>,
        family: AddressType,
        writes: &Writes,
    ) -> Result<(), Failure> {
        let key = synced.key;
        if writes.len() > 0 && !self.is_current(synced).await? {
            let service = key.clone();
            return Err(Failure::Behind { service });
        }
        // The garbage collector deletes the slices of a terminating Service, and a new one would
        // be missed.
        let create = if synced.service.meta.is_terminating() {
            &[][..]
        } else {
            &writes.create[..]
        };
        for draft in create {
            let body = synced.new_slice(family, draft, None);
            let target = Target::collection::<EndpointSlice>(&key.namespace);
            match self.client.create(target, &body).await {
                Ok(answer) => self.record(key, &answer, "create")?,
                Err(error) if error.has_cause("NamespaceTerminating") => return Ok(()),
                Err(source) => {
                    let service = key.clone();
                    return Err(Failure::Create { service, source });
                }
            }
        }
        for update in &writes.update {
            let (slice, body) = match update {
                Rewrite::Copy(update) => {
                    let mut body = SliceBody::copy(&update.slice, &update.endpoints);
                    if update.relabel {
                        body = body.with_labels(&labels::computed(synced.service));
                    }
                    (&update.slice, synced.stamped(body))
                }
                Rewrite::Recycled { slice, draft } => (
                    slice,
                    synced.new_slice(family, draft, Some(&slice.meta.name)),
                ),
            };
            let target = Target::of::<EndpointSlice>(&slice.meta);
            let answer = self.client.replace(target, &body).await;
            let answer = answer.map_err(|source| Failure::Update {
                service: key.clone(),
                slice: slice.meta.name.to_string(),
                source,
            })?;
            self.record(key, &answer, "update")?;
        }
        for slice in &writes.delete {
            let deleted = self.delete(key, slice).await;
            deleted.map_err(|source| Failure::Delete {
                service: key.clone(),
                slice: slice.meta.name.to_string(),
                source,
            })?;
        }
        self.metrics.changed_slices(synced.service, writes.len());
        Ok(())
    }

    /// Whether the caches show the Service, its pods and its slices as the API server has them. Only the
    /// caches of a new leader may be too old. A write by such caches could remove the endpoint of a
    /// ready pod, or repeat a write of the previous leader.
    async fn is_current(&self, synced: &Synced<'_>) -> Result<bool, Failure> {
        let Synced {
            key,
            service,
            pods,
            slices,
            ..
        } = *synced;
        let check = async {
            if self.services_seen.predates_term()
                && !live::is_current::<Service>(&self.client, &service.meta).await?
            {
                return Ok(false);
            }
            if self.pods_seen.predates_term() {
                let labels = &service.spec.selector;
                if !live::are_current(&self.client, &key.namespace, labels, pods).await? {
                    return Ok(false);
                }
            }
            if !self.writes.predates_term() {
                return Ok(true);
            }
            let labels = Labels::new([(SERVICE_NAME, &*key.name), (MANAGED_BY, MANAGER)]);
            live::are_current(&self.client, &key.namespace, &labels, slices).await
        };
        check.await.map_err(|source| Failure::Check {
            service: key.clone(),
            source,
        })
    }

    /// Records the slice in `answer`, which `operation` wrote.
    fn record(&self, key: &ObjectKey, answer: &[u8], operation: &str) -> Result<(), Failure> {
        self.metrics.wrote(operation);
        let written = Identity::decode(answer).map_err(|source| Failure::Answer {
            service: key.clone(),
            source,
        })?;
        self.written
            .wrote(key, written.uid, written.resource_version);
        self.writes.record(key, written.resource_version);
        Ok(())
    }

    async fn delete(&self, key: &ObjectKey, slice: &EndpointSlice) -> Result<(), ApiError> {
        let target = Target::of::<EndpointSlice>(&slice.meta);
        self.client
            .delete(target, &Delete::exactly(&slice.meta))
            .await?;
        self.written.deleted(key, slice);
        self.metrics.wrote("delete");
        Ok(())
    }

    fn event(&self, service: &Service, kind: EventType, reason: &'static str, message: String) {
        self.recorder
            .event(ObjectReference::of(service), kind, reason, message);
    }
}

impl Synced<'_> {
    /// The body of a new slice; `name` is the name that it takes over.
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

    /// `body` with the annotation of the trigger time, or without it.
    fn stamped<'b>(&self, body: SliceBody<'b>) -> SliceBody<'b> {
        body.with_annotation(TRIGGER_TIME, self.trigger_time.map(|time| time.to_string()))
    }
}
