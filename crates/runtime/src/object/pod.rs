//! Pods: the only type that counts by the hundred thousand, so the leanest view.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Object;
use super::meta::Meta;
use super::wire::{DecodeError, MetaWire, Pairs, Text, lenient_time, nullable};
use crate::intern::{Interner, Sym};
use crate::resource::{self, ResourceType};

static CONDITION_TYPES: Interner<[Sym]> = Interner::new();

/// Annotation that orders pods for deletion.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// What the controllers read of a pod.
#[derive(Debug, Clone)]
pub struct Pod {
    /// Metadata. Annotations are not kept, but for the deletion cost.
    pub meta: Meta,
    /// `spec.nodeName`, once bound.
    pub node: Option<Sym>,
    /// `status.phase`.
    pub phase: Phase,
    /// `status.reason`, such as `Evicted`.
    pub reason: Option<Sym>,
    /// `status.observedGeneration`.
    pub observed_generation: Option<i64>,
    /// The first condition of type `Ready`.
    pub ready: Readiness,
    /// Types of all conditions, in order.
    pub condition_types: Arc<[Sym]>,
    /// The `DisruptionTarget` condition, where there is one.
    pub disruption: Option<Box<PodCondition>>,
    /// Highest restart count of the containers.
    pub restarts: i32,
    /// Highest restart count of the restartable init containers (sidecars).
    pub sidecar_restarts: i32,
    /// Annotation `controller.kubernetes.io/pod-deletion-cost`; 0 when missing or malformed.
    pub deletion_cost: i32,
}

/// `status.phase`; empty and unknown texts are [`Phase::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Accepted, not all containers started.
    Pending,
    /// Bound, all containers created.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended, one badly; or set by the system.
    Failed,
    /// The node does not answer.
    Unknown,
    /// Anything else.
    #[default]
    Other,
}

/// The `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Whether its status is `True`.
    pub is_true: bool,
    /// Its `lastTransitionTime`.
    pub since: Option<Timestamp>,
}

/// A pod condition in full, as served.
#[derive(Debug, Clone, PartialEq)]
pub struct PodCondition(pub Map<String, Value>);

impl Pod {
    /// Neither finished nor terminating.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && !self.meta.is_terminating()
    }

    /// Terminating and not finished yet.
    pub fn is_terminating(&self) -> bool {
        !self.is_finished() && self.meta.is_terminating()
    }

    /// Phase `Succeeded` or `Failed`.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether the `Ready` condition is true.
    pub fn is_ready(&self) -> bool {
        self.ready.is_true
    }
}

#[derive(Deserialize)]
struct PodWire<'a> {
    #[serde(borrow)]
    metadata: MetaWire<'a, Pairs<'a>>,
    #[serde(borrow, default)]
    spec: SpecWire<'a>,
    #[serde(borrow, default)]
    status: StatusWire<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire<'a> {
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    init_containers: Vec<InitContainerWire<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitContainerWire<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    restart_policy: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
    observed_generation: Option<i64>,
    #[serde(borrow, deserialize_with = "nullable")]
    conditions: Vec<ConditionWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    container_statuses: Vec<ContainerStatusWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    init_container_statuses: Vec<ContainerStatusWire<'a>>,
}

#[derive(Deserialize)]
struct ConditionWire<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    status: Option<Text<'a>>,
    #[serde(
        rename = "lastTransitionTime",
        default,
        deserialize_with = "lenient_time"
    )]
    since: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatusWire<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(default)]
    restart_count: i32,
}

impl Object for Pod {
    const RESOURCE: &'static ResourceType = &resource::PODS;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let error = |source| DecodeError::Json {
            kind: "Pod",
            source,
        };
        let PodWire {
            metadata,
            spec,
            status,
        } = serde_json::from_slice(json).map_err(error)?;
        let deletion_cost = metadata
            .annotations
            .get(DELETION_COST)
            .map_or(0, parse_deletion_cost);
        let is_sidecar = |name: &str| {
            spec.init_containers
                .iter()
                .any(|c| &*c.name == name && c.restart_policy.as_deref() == Some("Always"))
        };
        let most = |statuses: &[ContainerStatusWire], counts: &dyn Fn(&str) -> bool| {
            statuses
                .iter()
                .filter(|s| counts(&s.name))
                .map(|s| s.restart_count)
                .max()
                .unwrap_or(0)
        };
        let ready = status.conditions.iter().find(|c| &*c.kind == "Ready");
        let types: Vec<Sym> = status
            .conditions
            .iter()
            .map(|c| Sym::new(&c.kind))
            .collect();
        let disruption = if types.iter().any(|t| *t == "DisruptionTarget") {
            disruption_target(json).map_err(error)?
        } else {
            None
        };
        Ok(Self {
            node: spec
                .node_name
                .as_deref()
                .filter(|n| !n.is_empty())
                .map(Sym::new),
            phase: parse_phase(status.phase.as_deref().unwrap_or_default()),
            reason: status.reason.as_deref().map(Sym::new),
            observed_generation: status.observed_generation,
            ready: Readiness {
                is_true: ready.is_some_and(|c| c.status.as_deref() == Some("True")),
                since: ready.and_then(|c| c.since),
            },
            condition_types: CONDITION_TYPES.intern(&types[..]),
            disruption,
            restarts: most(&status.container_statuses, &|_| true),
            sidecar_restarts: most(&status.init_container_statuses, &is_sidecar),
            deletion_cost,
            meta: metadata.into_meta("Pod")?,
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
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

/// Upstream's `GetDeletionCostFromPodAnnotations`: an int32 without `+` and without leading zeros,
/// else 0.
fn parse_deletion_cost(text: &str) -> i32 {
    let canonical = text == "0" || text.starts_with(|c: char| c == '-' || ('1'..='9').contains(&c));
    if canonical {
        text.parse().unwrap_or(0)
    } else {
        0
    }
}

/// Reads the whole condition, which hardly any pod has, in a second pass.
fn disruption_target(json: &[u8]) -> Result<Option<Box<PodCondition>>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Outer {
        status: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        conditions: Vec<Map<String, Value>>,
    }
    let Outer { status } = serde_json::from_slice(json)?;
    let found = status
        .conditions
        .into_iter()
        .find(|c| c.get("type").is_some_and(|t| t == "DisruptionTarget"));
    Ok(found.map(|c| Box::new(PodCondition(c))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_view_holds_what_controllers_read() {
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
        assert_eq!(pod.disruption.unwrap().0["reason"], "X");
        assert_eq!(pod.condition_types.len(), 2);
    }

    #[test]
    fn deletion_costs_are_read_as_upstream_reads_them() {
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

    /// Upstream's `TestActivePodFiltering` and `TestCountTerminatingPods`.
    #[test]
    fn active_and_terminating_pods() {
        // (phase, being deleted, active, terminating)
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
            let since = deleted.then_some("2026-01-02T03:04:05Z");
            let json = serde_json::json!({"metadata": {"name": "p", "deletionTimestamp": since}, "status": {"phase": phase}});
            let pod = Pod::decode(json.to_string().as_bytes()).unwrap();
            assert_eq!(
                (pod.is_active(), pod.is_terminating()),
                (active, terminating),
                "{phase}, being deleted: {deleted}"
            );
        }
    }

    use super::super::Uid;

    #[test]
    fn a_pod_ready_since_a_time_beyond_every_calendar_can_be_read() {
        // (text, whether it is kept as it is)
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
            assert_eq!(
                since,
                if kept {
                    text.parse().unwrap()
                } else {
                    Timestamp::MAX
                },
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_a_pod_is_an_error() {
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
