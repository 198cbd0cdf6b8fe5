//! Fields that few pods have, behind one pointer. A running pod of a Deployment has none of them.
//!
//! Add a field here if most pods lack it, such as the completion index of pods of a Job. Fields of
//! most pods belong to [`Pod`](super::Pod), where each byte costs memory for every cached pod.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::placement::WireNodeAffinity;
use super::spec::{ResourceList, Resources, SpecWire};
use super::{ContainerStatusWire, StatusWire};

use steersman_values::intern::Sym;

use crate::document::Document;
use crate::view;

/// Fields that few pods have. A field that a pod lacks has its default.
#[derive(Debug, Clone, PartialEq)]
pub struct PodDetails {
    /// `metadata.deletionGracePeriodSeconds`.
    pub deletion_grace_period_seconds: Option<i64>,
    /// The complete `DisruptionTarget` condition.
    pub disruption: Option<PodCondition>,
    /// The served JSON of a pod whose `DisruptionTarget` condition may become stale. The disruption
    /// controller PUTs the status of such a pod if it stays. Upstream:
    /// `nonTerminatingPodHasStaleDisruptionCondition`.
    pub disrupted: Option<Document>,
    /// Name of the node to which the affinity of an unbound DaemonSet pod restricts the pod.
    pub target_node: Option<Sym>,
    /// Terminated containers, in the order of their statuses. Init containers come last.
    pub terminated: Vec<TerminatedContainer>,
    /// Time at which the last container ended, once all of them have; see
    /// [`containers_finished`].
    pub containers_finished: Option<Timestamp>,
    /// Restarts of all containers and init containers, minus [`Pod::restarts`](super::Pod). It is 0
    /// unless two containers were restarted.
    pub further_restarts: i32,
    /// Whether the pod is deleted, and one of its containers still runs; see
    /// [`Pod::is_terminated`](super::Pod::is_terminated).
    pub runs_while_deleted: bool,
    /// Annotation `batch.kubernetes.io/job-completion-index`; `None` when missing or malformed.
    pub completion_index: Option<i64>,
    /// Annotation `batch.kubernetes.io/job-index-failure-count`; `None` when missing or malformed.
    pub index_failures: Option<i32>,
    /// Annotation `batch.kubernetes.io/job-index-ignored-failure-count`; `None` when missing or
    /// malformed.
    pub index_ignored_failures: Option<i32>,
    /// Resources of running containers, where they differ from the spec: during a resize.
    pub actual_resources: Vec<ActualResources>,
    /// Whether the node can never do the pending resize. Upstream: `IsPodResizeInfeasible`.
    pub is_resize_infeasible: bool,
    /// ResourceClaims that were created for the pod.
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
    /// Name of the ResourceClaim for the extended resources of the pod.
    pub extended_resource_claim: Option<Sym>,
}

impl PodDetails {
    /// No details.
    pub(super) const NONE: Self = Self {
        deletion_grace_period_seconds: None,
        disruption: None,
        disrupted: None,
        target_node: None,
        terminated: Vec::new(),
        containers_finished: None,
        further_restarts: 0,
        runs_while_deleted: false,
        completion_index: None,
        index_failures: None,
        index_ignored_failures: None,
        actual_resources: Vec::new(),
        is_resize_infeasible: false,
        resource_claim_statuses: Vec::new(),
        extended_resource_claim: None,
    };
}

/// A complete pod condition as served.
#[derive(Debug, Clone, PartialEq)]
pub struct PodCondition(pub Map<String, Value>);

/// A container in the state `terminated`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminatedContainer {
    /// Name.
    pub name: Sym,
    /// Whether it is an init container.
    pub init: bool,
    /// Exit code.
    pub exit_code: i32,
    /// Time at which the container terminated.
    pub finished_at: Option<Timestamp>,
}

/// Resources in the status of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActualResources {
    /// Name of the container.
    pub name: Sym,
    /// `resources`: requests and limits in effect.
    pub resources: Resources,
    /// `allocatedResources`: the requests that the node reserves.
    pub allocated: ResourceList,
}

view! {
    /// The ResourceClaim that was created for a claim of the pod.
    pub struct PodResourceClaimStatus {
        /// Name of the claim within the pod.
        pub name: Sym,
        /// Name of the ResourceClaim; unset if the claim needed none.
        pub resource_claim_name: Option<Sym>,
    }
}

/// The complete `DisruptionTarget` condition of the pod `json`. Few pods have it, so a second pass
/// over the text is cheaper than to keep all conditions complete.
pub(super) fn disruption(
    status: &StatusWire<'_>,
    json: &str,
) -> Result<Option<PodCondition>, serde_json::Error> {
    const TYPE: &str = "DisruptionTarget";
    #[derive(Deserialize)]
    struct Outer {
        status: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        conditions: Vec<Map<String, Value>>,
    }
    if status.conditions.iter().all(|c| &*c.kind != TYPE) {
        return Ok(None);
    }
    let Outer { status } = serde_json::from_str(json)?;
    let mut conditions = status.conditions.into_iter();
    let found = conditions.find(|c| c.get("type").is_some_and(|kind| kind == TYPE));
    Ok(found.map(PodCondition))
}

/// The document of the pod `json`, if its condition `disruption` may become stale.
///
/// Such a pod is active, its condition is `True`, and another component than the kubelet has set it.
pub(super) fn disrupted(
    disruption: Option<&PodCondition>,
    is_active: bool,
    json: &str,
) -> Result<Option<Document>, serde_json::Error> {
    let may_become_stale = |condition: &PodCondition| {
        let is = |field: &str, text: &str| condition.0.get(field).is_some_and(|v| v == text);
        is("status", "True") && !is("reason", "TerminationByKubelet")
    };
    if !is_active || !disruption.is_some_and(may_become_stale) {
        return Ok(None);
    }
    serde_json::from_str(json).map(|object| Some(Document::new(object)))
}

/// The terminated containers in `status`.
pub(super) fn terminated(status: &StatusWire<'_>) -> Vec<TerminatedContainer> {
    let containers = status.container_statuses.iter().map(|s| (s, false));
    let init_containers = status.init_container_statuses.iter().map(|s| (s, true));
    let terminated = containers
        .chain(init_containers)
        .filter_map(|(status, init)| {
            let end = status.state.terminated.as_ref()?;
            Some(TerminatedContainer {
                name: Sym::new(&status.name),
                init,
                exit_code: end.exit_code,
                finished_at: end.finished_at,
            })
        });
    terminated.collect()
}

/// The time at which the last container of the pod ended. `None` while one of them runs.
///
/// Sidecars end after the other containers, so they count too. Only they count if another container
/// still runs, as in upstream's `getFinishTimeFromContainers`.
pub(super) fn containers_finished(
    status: &StatusWire<'_>,
    is_sidecar: impl Fn(&str) -> bool,
) -> Option<Timestamp> {
    fn latest<'a>(
        before: Option<Timestamp>,
        mut statuses: impl Iterator<Item = &'a ContainerStatusWire<'a>>,
    ) -> Option<Timestamp> {
        statuses.try_fold(before, |latest, status| {
            let end = status.state.terminated.as_ref()?.finished_at?;
            Some(latest.max(Some(end)))
        })?
    }
    let containers = latest(None, status.container_statuses.iter());
    let sidecars = status.init_container_statuses.iter();
    latest(
        containers,
        sidecars.filter(|status| is_sidecar(&status.name)),
    )
}

/// Whether a container of any type runs: its state is neither `waiting` nor `terminated`.
pub(super) fn has_running(status: &StatusWire<'_>) -> bool {
    let all = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    all.into_iter()
        .flatten()
        .any(|status| status.state.waiting.is_none() && status.state.terminated.is_none())
}

/// The restarts of all containers, minus the highest restart count of the regular ones.
pub(super) fn further_restarts(status: &StatusWire<'_>) -> i32 {
    let restarts = |statuses: &[ContainerStatusWire<'_>]| -> i32 {
        statuses
            .iter()
            .fold(0, |sum, status| sum.saturating_add(status.restart_count))
    };
    let all = restarts(&status.container_statuses)
        .saturating_add(restarts(&status.init_container_statuses));
    all - super::max_restarts(status.container_statuses.iter())
}

/// The resources of running containers that differ from the spec.
///
/// Kubelets report resources of every container. Nearly all equal the spec to the letter, and need
/// neither memory nor a decoder.
pub(super) fn actual_resources(
    status: &StatusWire<'_>,
    spec: &SpecWire<'_>,
) -> Result<Vec<ActualResources>, serde_json::Error> {
    let init_containers = status.init_container_statuses.iter();
    let mut differing = Vec::new();
    for container in status.container_statuses.iter().chain(init_containers) {
        let Some(actual) = container.resources else {
            continue;
        };
        let allocated = container.allocated_resources.map_or("{}", RawValue::get);
        if spec.resources_of(&container.name) == Some(actual.get())
            && (container.allocated_resources.is_none() || requests(actual)? == allocated)
        {
            continue;
        }
        differing.push(ActualResources {
            name: Sym::new(&container.name),
            resources: serde_json::from_str(actual.get())?,
            allocated: serde_json::from_str(allocated)?,
        });
    }
    Ok(differing)
}

/// The text of the member `requests`; an empty list if it is absent.
fn requests(resources: &RawValue) -> Result<&str, serde_json::Error> {
    #[derive(Deserialize)]
    struct RequestsWire<'a> {
        #[serde(borrow)]
        requests: Option<&'a RawValue>,
    }
    let wire: RequestsWire<'_> = serde_json::from_str(resources.get())?;
    Ok(wire.requests.map_or("{}", RawValue::get))
}

/// Whether the first condition `PodResizePending` has the reason `Infeasible`.
pub(super) fn is_resize_infeasible(status: &StatusWire<'_>) -> bool {
    let mut conditions = status.conditions.iter();
    let pending = conditions.find(|condition| &*condition.kind == "PodResizePending");
    pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"))
}

/// The node that the required node affinity names with a match of the field `metadata.name`. The
/// DaemonSet controller writes such a term. Upstream: `GetTargetNodeName`.
pub(super) fn target_node(node_affinity: &str) -> Result<Option<Sym>, serde_json::Error> {
    let affinity: WireNodeAffinity = serde_json::from_str(node_affinity)?;
    let fields = affinity
        .required
        .iter()
        .flat_map(|selector| &selector.node_selector_terms)
        .flat_map(|term| &term.match_fields);
    let mut names = fields.filter(|field| field.key == *"metadata.name" && field.operator == *"In");
    // Upstream reads only the first such field, and requires exactly one value.
    Ok(names.next().and_then(|field| match &field.values[..] {
        [name] => Some(name.clone()),
        _ => None,
    }))
}
