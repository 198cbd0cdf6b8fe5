//! The cached view of a pod, with the fields that upstream's controllers read.
//!
//! Large clusters have more than 100,000 pods, far more than objects of any other cached type.
//! Pods therefore decide the memory of the process. A pod has four parts, which keep it small:
//!
//! | part | content | cost |
//! |---|---|---|
//! | [`Pod`] | fields that nearly every pod has, with different values | per pod |
//! | [`PodSpec`] | members of the spec that are equal for all pods of a template | per template |
//! | [`PodVolume`] | volumes with a claim, or attached without one | per pod with such volumes |
//! | [`PodDetails`] | fields that few pods have | per pod with such a field |
//!
//! Add a new field where it costs least. Use `PodSpec` if pods of one template have equal values,
//! and `PodDetails` if most pods lack the field. All other fields go to `Pod`. The example
//! `pod_cache` measures the cost.
//!
//! Upstream: `Pod` of `k8s.io/api/core/v1`, and predicates of `pkg/controller/controller_utils.go`.

mod availability;
mod claims;
mod details;
mod placement;
mod spec;
mod volumes;

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use steersman_values::intern::{SharedSlice, Sym};
use steersman_values::resource::{self, ResourceType};

pub use self::availability::next_availability_check;
pub use self::claims::PodClaimName;
pub use self::details::{
    ActualResources, PodCondition, PodDetails, PodResourceClaimStatus, TerminatedContainer,
};
pub(crate) use self::placement::{
    WireNodeSelector, WirePlacement, WireRequirement, WireTemplate, WireTerm,
};
use self::spec::SpecWire;
pub use self::spec::{
    Container, ContainerPort, PodAffinities, PodAffinity, PodAffinityTerm, PodResourceClaim,
    PodSpec, Present, ResourceList, Resources, SchedulingGroup, Toleration,
    WeightedPodAffinityTerm,
};
pub(crate) use self::volumes::shared_volumes;
pub use self::volumes::{PodVolume, VolumeSource};
use super::Object;
use super::condition_states::Conditions;
use super::document::Document;
use super::meta::Meta;
use super::time::Time;
use super::wire::{DecodeError, MetaWire, Text, lenient_time, nullable, parse, time_of};
use crate::view;

/// A pod: the fields that upstream's controllers read.
#[derive(Debug, Clone)]
pub struct Pod {
    /// Metadata. The view drops all annotations except the deletion cost and those of Jobs.
    pub meta: Meta,
    /// The part of the spec that pods of one template share.
    pub spec: Arc<PodSpec>,
    /// Volumes that controllers attach, protect or create claims for.
    pub volumes: SharedSlice<PodVolume>,
    /// `spec.nodeName`; unset until the pod is bound.
    pub node: Option<Sym>,
    /// `spec.hostname`. In StatefulSets it equals the name of the pod, and then shares its memory.
    pub hostname: Option<Arc<str>>,
    /// `status.podIPs`, joined with commas to save allocations; see [`Pod::ips`].
    ips: Box<str>,
    /// `status.phase`.
    pub phase: Phase,
    /// `status.qosClass`; API servers set it.
    pub qos_class: Option<QosClass>,
    /// `status.reason`, such as `Evicted`.
    pub reason: Option<Sym>,
    /// `status.startTime`.
    pub start_time: Option<Time>,
    /// `status.observedGeneration`.
    pub observed_generation: Option<i64>,
    /// The first condition of type `Ready`.
    pub ready: Readiness,
    /// Types and statuses of all conditions, in the served order.
    pub conditions: Conditions,
    /// Highest restart count of the containers; orders pods for deletion.
    pub restarts: i32,
    /// Highest restart count of the restartable init containers (sidecars); orders pods likewise.
    pub sidecar_restarts: i32,
    /// Annotation `controller.kubernetes.io/pod-deletion-cost`; 0 when missing or malformed.
    pub deletion_cost: i32,
    /// Whether the pod has the finalizer [`JOB_TRACKING`].
    pub has_job_tracking: bool,
    /// Fields that few pods have; see [`Pod::details`].
    details: Option<Box<PodDetails>>,
}

/// The finalizer that a pod of a Job keeps until its end is in the status of the Job.
pub const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// `status.phase`. Empty and unknown strings become [`Phase::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// The API server accepted the pod; some containers have not started yet.
    Pending,
    /// The pod is bound to a node, and all containers exist.
    Running,
    /// All containers ended with exit code 0.
    Succeeded,
    /// All containers ended, at least one of them with a failure; or the system ended the pod.
    Failed,
    /// The state of the pod is unknown, because its node does not respond.
    Unknown,
    /// Any other string.
    #[default]
    Other,
}

impl Phase {
    /// Whether all containers have ended for good.
    fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// `status.qosClass`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QosClass {
    /// Limits of all containers equal their requests.
    Guaranteed,
    /// Some container has requests or limits.
    Burstable,
    /// No container has requests or limits.
    BestEffort,
}

/// Status and time of the `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Whether its status is `True`.
    pub is_true: bool,
    /// Its `lastTransitionTime`.
    pub since: Option<Time>,
}

impl Pod {
    /// Whether the pod is active: neither finished nor terminating. Upstream: `IsPodActive`.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && !self.meta.is_terminating()
    }

    /// Whether the pod is terminating and has not finished yet. Upstream: `IsPodTerminating`.
    pub fn is_terminating(&self) -> bool {
        !self.is_finished() && self.meta.is_terminating()
    }

    /// Whether the phase is `Succeeded` or `Failed`.
    pub fn is_finished(&self) -> bool {
        self.phase.is_final()
    }

    /// Whether the pod no longer uses its volumes: it has finished, or it is deleted and none of its
    /// containers runs. Upstream: `IsPodTerminated` in `pkg/volume/util`.
    pub fn is_terminated(&self) -> bool {
        self.is_finished() || (self.meta.is_terminating() && !self.details().runs_while_deleted)
    }

    /// Whether the `Ready` condition is `True`.
    pub fn is_ready(&self) -> bool {
        self.ready.is_true
    }

    /// The IP addresses of `status.podIPs`, as strings in the served order.
    pub fn ips(&self) -> impl Iterator<Item = &str> {
        self.ips.split(',').filter(|ip| !ip.is_empty())
    }

    /// Fields that few pods have. Fields that this pod lacks have their default.
    pub fn details(&self) -> &PodDetails {
        static NONE: PodDetails = PodDetails::NONE;
        self.details.as_deref().unwrap_or(&NONE)
    }
}

view! {
    /// The annotations that the decoder reads.
    struct PodAnnotations {
        /// Deletion cost as served.
        #[serde(rename = "controller.kubernetes.io/pod-deletion-cost")]
        deletion_cost: Option<String>,
        /// Index of a pod of an Indexed Job as served.
        #[serde(rename = "batch.kubernetes.io/job-completion-index")]
        completion_index: Option<String>,
        /// Counted failures of the index before this pod, as served.
        #[serde(rename = "batch.kubernetes.io/job-index-failure-count")]
        index_failures: Option<String>,
        /// Ignored failures of the index before this pod, as served.
        #[serde(rename = "batch.kubernetes.io/job-index-ignored-failure-count")]
        index_ignored_failures: Option<String>,
    }
}

#[derive(Deserialize)]
struct PodWire<'a> {
    #[serde(borrow)]
    metadata: MetaWire<'a, PodAnnotations>,
    #[serde(borrow, default)]
    spec: SpecWire<'a>,
    #[serde(borrow, default)]
    status: StatusWire<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
    #[serde(borrow)]
    qos_class: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient_time")]
    start_time: Option<Timestamp>,
    observed_generation: Option<i64>,
    #[serde(borrow, rename = "podIPs", deserialize_with = "nullable")]
    pod_ips: Vec<IpWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    conditions: Vec<ConditionWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    container_statuses: Vec<ContainerStatusWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    init_container_statuses: Vec<ContainerStatusWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    ephemeral_container_statuses: Vec<ContainerStatusWire<'a>>,
    #[serde(deserialize_with = "nullable")]
    resource_claim_statuses: Vec<PodResourceClaimStatus>,
    #[serde(borrow)]
    extended_resource_claim_status: Option<ExtendedClaimWire<'a>>,
}

#[derive(Deserialize)]
struct IpWire<'a> {
    #[serde(borrow, default)]
    ip: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct ConditionWire<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    status: Option<Text<'a>>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
    /// Kept as a string. A pod has five or more conditions, and the view needs one of the times.
    #[serde(rename = "lastTransitionTime", borrow)]
    since: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatusWire<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(default)]
    restart_count: i32,
    #[serde(default, deserialize_with = "nullable")]
    state: StateWire,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
    #[serde(borrow)]
    allocated_resources: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct StateWire {
    waiting: Option<Present>,
    terminated: Option<TerminatedWire>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminatedWire {
    #[serde(default, deserialize_with = "nullable")]
    exit_code: i32,
    #[serde(default, deserialize_with = "lenient_time")]
    finished_at: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExtendedClaimWire<'a> {
    #[serde(borrow)]
    resource_claim_name: Option<Text<'a>>,
}

impl Object for Pod {
    const RESOURCE: &'static ResourceType = &resource::PODS;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let (wire, text): (PodWire<'_>, &str) = parse(json, "Pod")?;
        wire.into_pod(text)
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn heap_size(&self) -> usize {
        self.meta.name.len()
            + self.ips.len()
            + self.details.as_ref().map_or(0, |details| {
                size_of::<PodDetails>() + details.disrupted.as_ref().map_or(0, Document::size)
            })
    }
}

impl PodWire<'_> {
    /// The view of the pod. `json` is the text of the pod, for parts that need a second pass.
    fn into_pod(self, json: &str) -> Result<Pod, DecodeError> {
        let error = |source| DecodeError::Json {
            kind: "Pod",
            source,
        };
        let Self {
            metadata,
            spec,
            mut status,
        } = self;
        let shared = spec.shared(json).map_err(error)?;
        let node = spec.node_name.as_deref().filter(|name| !name.is_empty());
        let is_sidecar = |name: &str| {
            shared
                .init_containers
                .iter()
                .any(|c| c.restarts_always() && c.name == *name)
        };
        let annotations = &metadata.annotations;
        let disruption = details::disruption(&status, json).map_err(error)?;
        let phase = parse_phase(status.phase.as_deref().unwrap_or_default());
        let is_active = !metadata.is_terminating() && !phase.is_final();
        let disrupted = details::disrupted(disruption.as_ref(), is_active, json);
        let details = PodDetails {
            deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
            disruption,
            disrupted: disrupted.map_err(error)?,
            target_node: match node {
                // A bound pod is on its node, so its affinity no longer matters.
                Some(_) => None,
                None => {
                    let affinity = spec.affinity.node_affinity.map_or("{}", RawValue::get);
                    details::target_node(affinity).map_err(error)?
                }
            },
            terminated: details::terminated(&status),
            containers_finished: details::containers_finished(&status, is_sidecar),
            further_restarts: details::further_restarts(&status),
            runs_while_deleted: metadata.is_terminating() && details::has_running(&status),
            completion_index: parse_annotation(&annotations.completion_index),
            index_failures: parse_annotation(&annotations.index_failures),
            index_ignored_failures: parse_annotation(&annotations.index_ignored_failures),
            actual_resources: details::actual_resources(&status, &spec).map_err(error)?,
            is_resize_infeasible: details::is_resize_infeasible(&status),
            resource_claim_statuses: std::mem::take(&mut status.resource_claim_statuses),
            extended_resource_claim: status
                .extended_resource_claim_status
                .and_then(|claim| claim.resource_claim_name)
                .map(|name| Sym::new(&name)),
        };
        let states = status
            .conditions
            .iter()
            .map(|c| (&*c.kind, c.status.as_deref().unwrap_or_default()));
        let ready = status.conditions.iter().find(|c| &*c.kind == "Ready");
        let sidecars = status
            .init_container_statuses
            .iter()
            .filter(|s| is_sidecar(&s.name));
        let deletion_cost = annotations
            .deletion_cost
            .as_deref()
            .map_or(0, parse_deletion_cost);
        let ips: Vec<&str> = status
            .pod_ips
            .iter()
            .filter_map(|ip| ip.ip.as_deref())
            .collect();
        let has_job_tracking = metadata.has_finalizer(JOB_TRACKING);
        let meta = metadata.into_meta("Pod")?;
        Ok(Pod {
            volumes: volumes::shared(spec.volumes),
            node: node.map(Sym::new),
            hostname: spec.hostname.as_deref().map(|name| {
                if *name == *meta.name {
                    Arc::clone(&meta.name)
                } else {
                    Arc::from(name)
                }
            }),
            ips: ips.join(",").into(),
            phase,
            qos_class: status.qos_class.as_deref().and_then(parse_qos_class),
            reason: status.reason.as_deref().map(Sym::new),
            start_time: status.start_time.map(Time::from),
            observed_generation: status.observed_generation,
            ready: Readiness {
                is_true: ready.is_some_and(|c| c.status.as_deref() == Some("True")),
                since: ready.and_then(|c| Some(time_of(c.since.as_ref()?).into())),
            },
            conditions: Conditions::new(states),
            restarts: max_restarts(status.container_statuses.iter()),
            sidecar_restarts: max_restarts(sidecars),
            deletion_cost,
            has_job_tracking,
            details: (details != PodDetails::NONE).then(|| Box::new(details)),
            spec: shared,
            meta,
        })
    }
}

/// The highest restart count; 0 for an empty list.
fn max_restarts<'a>(statuses: impl Iterator<Item = &'a ContainerStatusWire<'a>>) -> i32 {
    statuses
        .map(|status| status.restart_count)
        .max()
        .unwrap_or(0)
}

fn parse_phase(text: &str) -> Phase {
    match text {
        "Pending" => Phase::Pending,
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        "Unknown" => Phase::Unknown,
        _ => Phase::Other,
    }
}

fn parse_qos_class(text: &str) -> Option<QosClass> {
    match text {
        "Guaranteed" => Some(QosClass::Guaranteed),
        "Burstable" => Some(QosClass::Burstable),
        "BestEffort" => Some(QosClass::BestEffort),
        _ => None,
    }
}

/// Parses the deletion cost: an int32 in its shortest form, so `+5` and `007` give 0 like any other
/// malformed value. Upstream: `GetDeletionCostFromPodAnnotations`.
fn parse_deletion_cost(text: &str) -> i32 {
    let canonical = text == "0" || text.starts_with(|c: char| c == '-' || ('1'..='9').contains(&c));
    if canonical {
        text.parse().unwrap_or(0)
    } else {
        0
    }
}

/// The number in an annotation of a pod of a Job. Upstream reads it with Go's `Atoi`, which accepts
/// a leading `+` and zeros, and treats negative numbers like malformed ones.
fn parse_annotation<T: TryFrom<i64>>(text: &Option<String>) -> Option<T> {
    let number: i64 = text.as_deref()?.parse().ok()?;
    T::try_from(number).ok().filter(|_| number >= 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_view_holds_the_fields_that_controllers_read() {
        let json = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-1", "namespace": "default", "uid": "0e5f2a64-56c0-4c6e-a4bd-6d5d8f7d8a01", "resourceVersion": "42",
                "generation": 3, "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"app": "w\u{e9}b \"x\""},
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-7", "other": "x"},
                "managedFields": [{"manager": "m"}],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": true}]
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]},
            "status": {
                "phase": "Running", "observedGeneration": 2,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:05:00Z"},
                               {"type": "DisruptionTarget", "status": "True", "reason": "X", "lastTransitionTime": null}],
                "containerStatuses": [{"name": "c", "restartCount": 4}, {"name": "d"}],
                "initContainerStatuses": [{"name": "s", "restartCount": 2}, {"name": "i", "restartCount": 9}]
            }
        });
        let pod = Pod::decode(json.to_string().as_bytes()).unwrap();
        assert_eq!(pod.key().to_string(), "default/web-1");
        assert_eq!((pod.meta.resource_version, pod.meta.generation), (42, 3));
        assert_eq!(
            pod.meta.labels.get("app").unwrap().as_str(),
            "w\u{e9}b \"x\""
        );
        assert_eq!(pod.meta.controller().unwrap().name.as_str(), "web");
        assert!(pod.meta.is_controlled_by(&Uid::new("u1")));
        assert_eq!(pod.node.as_deref(), Some("n1"));
        assert_eq!(
            (
                pod.phase,
                pod.restarts,
                pod.sidecar_restarts,
                pod.deletion_cost
            ),
            (Phase::Running, 4, 2, -7)
        );
        assert!(pod.is_ready() && pod.is_active());
        assert_eq!(pod.details().disruption.as_ref().unwrap().0["reason"], "X");
        assert_eq!(pod.conditions.len(), 2);
    }

    #[test]
    fn deletion_costs_are_parsed_like_upstream() {
        for (text, cost) in [
            ("0", 0),
            ("5", 5),
            ("-3", -3),
            ("+5", 0),
            ("007", 0),
            ("2147483648", 0),
            ("x", 0),
            ("", 0),
            ("-", 0),
        ] {
            assert_eq!(parse_deletion_cost(text), cost, "{text:?}");
        }
    }

    #[test]
    fn a_deleted_pod_is_terminated_when_no_container_runs() {
        let running = json!({"running": {}});
        let waiting = json!({"waiting": {}});
        let terminated = json!({"terminated": {"exitCode": 0}});
        // (phase, deleted, containers, init containers, ephemeral containers, terminated)
        let cases = [
            ("Running", false, vec![&running], vec![], vec![], false),
            ("Running", false, vec![&terminated], vec![], vec![], false),
            ("Failed", false, vec![&running], vec![], vec![], true),
            ("Running", true, vec![], vec![], vec![], true),
            ("Running", true, vec![&running], vec![], vec![], false),
            (
                "Running",
                true,
                vec![&waiting, &terminated],
                vec![],
                vec![],
                true,
            ),
            ("Running", true, vec![], vec![&running], vec![], false),
            ("Running", true, vec![], vec![], vec![&running], false),
        ];
        for (phase, deleted, containers, init, ephemeral, expected) in cases {
            let statuses = |states: Vec<&Value>| -> Vec<Value> {
                let status = |state: &Value| json!({"name": "c", "state": state});
                states.into_iter().map(status).collect()
            };
            let mut pod = json!({
                "metadata": {"name": "web"},
                "status": {
                    "phase": phase, "containerStatuses": statuses(containers),
                    "initContainerStatuses": statuses(init),
                    "ephemeralContainerStatuses": statuses(ephemeral),
                },
            });
            if deleted {
                pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
            }
            let view = Pod::decode(pod.to_string().as_bytes()).unwrap();
            assert_eq!(view.is_terminated(), expected, "{pod}");
        }
    }

    /// Upstream's `TestActivePodFiltering` and `TestCountTerminatingPods`.
    #[test]
    fn active_and_terminating_pods() {
        // (phase, deletion started, active, terminating)
        let cases = [
            ("Succeeded", false, false, false),
            ("Failed", false, false, false),
            ("Pending", true, false, true),
            ("Running", true, false, true),
            ("Failed", true, false, false),
            ("Running", false, true, false),
            ("", false, true, false),
        ];
        for (phase, deleted, active, terminating) in cases {
            let deletion = deleted.then_some("2026-01-02T03:04:05Z");
            let json = serde_json::json!({"metadata": {"name": "p", "deletionTimestamp": deletion}, "status": {"phase": phase}});
            let pod = Pod::decode(json.to_string().as_bytes()).unwrap();
            assert_eq!(
                (pod.is_active(), pod.is_terminating()),
                (active, terminating),
                "{phase}, deletion started: {deleted}"
            );
        }
    }

    use super::super::Uid;

    #[test]
    fn a_readiness_time_after_the_year_9999_is_decoded() {
        // (time, kept unchanged)
        let cases = [
            ("2026-01-02T03:04:05Z", true),
            ("9999-12-31T23:59:59Z", false),
            ("10000-01-01T11:59:59Z", false),
        ];
        for (text, kept) in cases {
            let ready =
                serde_json::json!({"type": "Ready", "status": "True", "lastTransitionTime": text});
            let pod =
                serde_json::json!({"metadata": {"name": "a"}, "status": {"conditions": [ready]}});
            let since = Pod::decode(pod.to_string().as_bytes())
                .unwrap()
                .ready
                .since
                .unwrap();
            let expected = if kept {
                text.parse().unwrap()
            } else {
                Timestamp::MAX
            };
            assert_eq!(since, Time::from(expected), "{text}");
        }
    }

    fn decode(json: &Value) -> Pod {
        Pod::decode(json.to_string().as_bytes()).unwrap()
    }

    /// A pod of a template. Name, node, hostname, token volume and node affinity depend on `name`.
    fn pod_of_template(name: &str, container: &Value) -> Value {
        let token = format!("kube-api-access-{name}");
        let mut main = container.clone();
        main["volumeMounts"] = json!([{"name": token, "mountPath": "/var/run"}]);
        json!({
            "metadata": {"name": name},
            "spec": {
                "nodeName": format!("node-of-{name}"), "hostname": name,
                "containers": [main],
                "volumes": [{"name": token, "projected": {"sources": []}}],
                "affinity": {"nodeAffinity": {"of": name}},
            },
        })
    }

    #[test]
    fn pods_of_one_template_share_their_spec() {
        let container = json!({"name": "main", "ports": [{"containerPort": 80}]});
        let one = decode(&pod_of_template("web-0", &container));
        let other = decode(&pod_of_template("web-1", &container));
        assert!(Arc::ptr_eq(&one.spec, &other.spec));
        assert_eq!(one.spec.containers[0].ports[0].container_port, 80);
        assert_eq!(one.hostname.as_deref(), Some("web-0"));
        assert!(one.volumes.is_empty() && one.details() == &PodDetails::NONE);
    }

    #[test]
    fn pods_with_different_values_of_a_shared_field_have_separate_specs() {
        let main = json!({"name": "main"});
        let base = decode(&pod_of_template("web-0", &main)).spec;
        let with = |path: &str, value: Value| {
            let mut pod = pod_of_template("web-0", &main);
            *pod.pointer_mut("/spec").unwrap().pointer_mut(path).unwrap() = value;
            decode(&pod).spec
        };
        let spec = |key: &str, value: Value| {
            let mut pod = pod_of_template("web-0", &main);
            pod["spec"][key] = value;
            decode(&pod).spec
        };
        let term = json!({"namespaceSelector": {}});
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let specs = [
            with("/containers/0", json!({"name": "other"})),
            with(
                "/containers/0",
                json!({"name": "main", "ports": [{"name": "http"}]}),
            ),
            with(
                "/containers/0",
                json!({"name": "main", "resources": {"requests": {"cpu": "1"}}}),
            ),
            spec("initContainers", json!([{"name": "main"}])),
            spec(
                "initContainers",
                json!([{"name": "main", "restartPolicy": "Always"}]),
            ),
            spec("resources", json!({"limits": {"cpu": "1"}})),
            spec("overhead", json!({"cpu": "1"})),
            spec("tolerations", json!([{"operator": "Exists"}])),
            spec(
                "tolerations",
                json!([{"operator": "Exists", "tolerationSeconds": 5}]),
            ),
            spec(
                "resourceClaims",
                json!([{"name": "gpu", "resourceClaimName": "a"}]),
            ),
            spec("schedulingGroup", json!({"podGroupName": "g"})),
            spec("subdomain", json!("web")),
            spec("priorityClassName", json!("high")),
            spec("activeDeadlineSeconds", json!(5)),
            spec("affinity", json!({"podAffinity": {required: [term]}})),
            spec("affinity", json!({"podAntiAffinity": {required: [term]}})),
        ];
        for (i, one) in specs.iter().enumerate() {
            assert!(**one != *base, "{i}");
            assert!(specs[..i].iter().all(|other| other != one), "{i}");
        }
        assert!(specs[4].init_containers[0].restarts_always());
    }

    #[test]
    fn only_volumes_with_a_claim_or_an_attachable_source_are_kept() {
        let json = json!({"metadata": {"name": "db-0"}, "spec": {"volumes": [
            {"name": "files", "configMap": {"name": "a"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}},
            {"ephemeral": {"volumeClaimTemplate": {}}, "name": "scratch"},
            {"name": "disk", "iscsi": {"lun": 0}, "emptyDir": null},
            {"name": "none", "persistentVolumeClaim": null, "iscsi": null},
            {"name": "unnamed claim", "persistentVolumeClaim": {"readOnly": true}},
            {"name": "null claim", "persistentVolumeClaim": {"claimName": null}},
        ]}});
        let volume = |name, source| PodVolume {
            name: Sym::new(name),
            source,
        };
        let expected = [
            volume("data", VolumeSource::Claim(Sym::new("data-db-0"))),
            volume(
                "scratch",
                VolumeSource::Ephemeral(Sym::new(r#"{"volumeClaimTemplate":{}}"#)),
            ),
            volume(
                "disk",
                VolumeSource::Inline {
                    kind: Sym::new("iscsi"),
                    source: Sym::new(r#"{"lun":0}"#),
                },
            ),
        ];
        assert_eq!(&*decode(&json).volumes, expected);
    }

    #[test]
    fn details_are_kept_for_pods_that_have_them() {
        let field =
            |values: Value| json!({"key": "metadata.name", "operator": "In", "values": values});
        let term = |values| json!({"matchFields": [field(values)]});
        let affinity = |terms: &[Value]| {
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": terms}}})
        };
        let exit = json!({"exitCode": 3, "finishedAt": "2026-01-02T03:04:05Z"});
        let status = json!({
            "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "startTime": "2026-01-02T03:04:00Z",
            "containerStatuses": [{"name": "a", "state": {"terminated": exit}}, {"name": "b", "state": {"running": {}}}],
            "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0, "finishedAt": null}}}],
            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu-x"}, {"name": "none"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
        });
        let terms = [json!({}), term(json!(["n1"])), term(json!(["n2"]))];
        let pod = decode(&json!({
            "metadata": {"name": "a", "deletionGracePeriodSeconds": 30},
            "spec": {"affinity": affinity(&terms)},
            "status": status,
        }));
        assert!(pod.ips().eq(["10.0.0.1", "fd00::1"]) && pod.start_time.is_some());
        let details = pod.details();
        assert_eq!(details.deletion_grace_period_seconds, Some(30));
        assert_eq!(details.target_node, Some(Sym::new("n1")));
        let ends: Vec<_> = details
            .terminated
            .iter()
            .map(|end| {
                (
                    &*end.name,
                    end.init,
                    end.exit_code,
                    end.finished_at.is_some(),
                )
            })
            .collect();
        assert_eq!(ends, [("a", false, 3, true), ("i", true, 0, false)]);
        let claim = &details.resource_claim_statuses[0];
        assert_eq!(claim.resource_claim_name, Some(Sym::new("gpu-x")));
        assert_eq!(details.resource_claim_statuses[1].resource_claim_name, None);
        assert_eq!(details.extended_resource_claim, Some(Sym::new("extended")));

        // (node, terms, target node)
        let cases = [
            ("n9", vec![term(json!(["n1"]))], None),
            (
                "",
                vec![term(json!(["n1", "n2"])), term(json!(["n3"]))],
                None,
            ),
            ("", vec![], None),
        ];
        for (node, terms, expected) in cases {
            let spec = json!({"nodeName": node, "affinity": affinity(&terms)});
            let pod = decode(&json!({"metadata": {"name": "a"}, "spec": spec}));
            assert_eq!(pod.details().target_node, expected, "{spec}");
        }
    }

    #[test]
    fn null_means_the_default_everywhere() {
        let metadata = json!({
            "name": "a", "namespace": null, "uid": null, "resourceVersion": null,
            "creationTimestamp": null, "deletionTimestamp": null, "labels": null,
            "deletionGracePeriodSeconds": null, "annotations": null, "ownerReferences": null,
            "finalizers": null,
        });
        let container =
            json!({"name": "c", "ports": null, "resources": null, "restartPolicy": null});
        let resources = json!({"requests": null, "limits": null});
        let spec = json!({
            "nodeName": null, "hostname": null, "volumes": null, "affinity": null,
            "containers": [container, {"resources": resources, "ports": [{"name": null}]}],
            "initContainers": null, "resources": null, "overhead": null, "tolerations": null,
            "resourceClaims": null, "schedulingGroup": null, "subdomain": null,
            "priorityClassName": null, "activeDeadlineSeconds": null,
        });
        let container_status = json!({"name": "c", "state": {"terminated": null}});
        let status = json!({
            "phase": null, "reason": null, "startTime": null, "observedGeneration": null,
            "podIPs": [{"ip": null}], "conditions": [{"type": "Ready", "status": null}],
            "containerStatuses": [container_status, {"name": "d", "state": null}],
            "initContainerStatuses": null, "resourceClaimStatuses": null,
            "extendedResourceClaimStatus": null,
        });
        let pod = decode(&json!({"metadata": metadata, "spec": spec, "status": status}));
        assert_eq!((pod.spec.containers.len(), pod.ips().count()), (2, 0));
        assert_eq!(pod.spec.containers[0].resources, Resources::default());
        assert!(pod.details() == &PodDetails::NONE && !pod.is_ready());
    }

    #[test]
    fn annotations_of_jobs_are_parsed_as_go_parses_them() {
        // (annotation, completion index, failures)
        let cases = [
            (json!("0"), Some(0), Some(0)),
            (json!("+7"), Some(7), Some(7)),
            (json!("007"), Some(7), Some(7)),
            (json!("2147483648"), Some(2_147_483_648), None),
            (json!("-1"), None, None),
            (json!("1 "), None, None),
            (json!(""), None, None),
            (json!(null), None, None),
        ];
        for (text, index, failures) in cases {
            let annotations = json!({
                "batch.kubernetes.io/job-completion-index": text,
                "batch.kubernetes.io/job-index-failure-count": text,
                "batch.kubernetes.io/job-index-ignored-failure-count": text,
            });
            let finalizers = json!(["a/b", JOB_TRACKING]);
            let metadata =
                json!({"name": "p", "annotations": annotations, "finalizers": finalizers});
            let pod = decode(&json!({ "metadata": metadata }));
            let details = pod.details();
            let found = (details.completion_index, details.index_failures);
            assert_eq!(found, (index, failures), "{text}");
            assert_eq!(details.index_ignored_failures, failures, "{text}");
            assert!(pod.has_job_tracking);
        }
        assert!(!decode(&json!({"metadata": {"name": "p"}})).has_job_tracking);
    }

    #[test]
    fn malformed_pods_are_errors() {
        for text in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"metadata":{"name":1}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"x"}}"#,
        ] {
            assert!(Pod::decode(text.as_bytes()).is_err(), "{text}");
        }
    }
}
