//! The cached view of a StatefulSet.
//!
//! The view keeps the served [`Document`], because upstream PUTs the status with the whole object.
//! Pods, claims and revisions are built from the document too. Upstream: `k8s.io/api/apps/v1`.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use steersman_values::intern::Sym;
use steersman_values::labels::{Selector, SelectorError, WireSelector};
use steersman_values::resource::STATEFUL_SETS;

use super::deployment::{IntOrPercent, is_zero};
use super::wire::{Text, nullable};
use crate::view;

view! {
    /// A StatefulSet: the fields that its controller reads, and the document for its writes.
    pub struct StatefulSet: STATEFUL_SETS, keeps document {
        /// Spec.
        pub spec: StatefulSetSpec,
        /// Status.
        pub status: StatefulSetStatus,
    }
}

/// `spec` of a StatefulSet. The pod template is in the document.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "SpecWire<'de>")]
pub struct StatefulSetSpec {
    /// Desired number of pods; 1 when unset.
    pub replicas: i32,
    /// Parsed selector, or the error of parsing it.
    pub selector: Result<Selector, SelectorError>,
    /// Name of the Service that gives the pods their DNS names; may be empty.
    pub service_name: Sym,
    /// Order in which pods are created and deleted.
    pub pod_management: PodManagement,
    /// Strategy that replaces old pods with new ones.
    pub update_strategy: UpdateStrategy,
    /// Number of unused revisions to keep. A negative number keeps all.
    pub revision_history_limit: i32,
    /// Seconds for which a pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
    /// Ordinal of the first pod.
    pub start_ordinal: i32,
    /// The fate of claims of deleted sets and of removed pods.
    pub claim_retention: ClaimRetention,
    /// Names of the claim templates, once each. The API server accepts several templates of one
    /// name; the last one counts, and gives the name its place in the order.
    pub claim_templates: Vec<Sym>,
}

/// `spec.podManagementPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodManagement {
    /// One pod at a time: creations in the order of ordinals, deletions in the reverse order. Every
    /// policy but `Parallel` means this.
    OrderedReady,
    /// All pods at once.
    Parallel,
}

/// `spec.updateStrategy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// The controller deletes old pods one by one, highest ordinal first.
    RollingUpdate {
        /// `rollingUpdate.partition`, the number of pods that keep the current revision; `None` if
        /// `rollingUpdate` is unset. A type without parameters is valid and gets no default.
        partition: Option<i32>,
        /// `rollingUpdate.maxUnavailable`.
        max_unavailable: Option<IntOrPercent>,
    },
    /// A pod is replaced after a user deletes it.
    OnDelete,
    /// All old pods end before the first new one is created. API servers since 1.37 accept it, with the feature
    /// gate `StatefulSetRecreateStrategy`.
    Recreate,
    /// A type that the validation of the API server rejects. It has the parameters of a rolling
    /// update, as in upstream.
    Other {
        /// `rollingUpdate.partition`; `None` if `rollingUpdate` is unset.
        partition: Option<i32>,
    },
}

/// `spec.persistentVolumeClaimRetentionPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRetention {
    /// Policy when the set is deleted.
    pub when_deleted: Retention,
    /// Policy when the set is scaled down.
    pub when_scaled: Retention,
}

/// A policy for claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retention {
    /// The claims stay.
    #[default]
    Retain,
    /// The claims are deleted.
    Delete,
    /// A value that the validation of the API server rejects.
    Other,
}

/// `status` of a StatefulSet. It serialises in the order of upstream's Go type, and omits the
/// fields that Go omits. The controller replaces the whole status, so unknown fields are lost with
/// each write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetStatus {
    /// Generation of the spec from which the controller computed this status.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Number of pods. Always serialised.
    pub replicas: i32,
    /// Number of running and ready pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Number of pods of the current revision that are not terminating.
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    /// Number of pods of the update revision that are not terminating.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// Name of the revision of the pods that the roll-out has not reached.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "nullable"
    )]
    pub current_revision: String,
    /// Name of the revision of the current template.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "nullable"
    )]
    pub update_revision: String,
    /// Number of collisions of revision names so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Conditions as served, also those of other clients. The controller writes `Progressing` during an update
    /// with the strategy `Recreate`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<Value>,
    /// Number of pods that have been ready for `minReadySeconds`. Always serialised.
    pub available_replicas: i32,
}

impl StatefulSet {
    /// `spec.template` as served.
    pub fn template(&self) -> Value {
        #[derive(Deserialize)]
        struct Object {
            spec: Spec,
        }
        #[derive(Deserialize)]
        struct Spec {
            #[serde(default)]
            template: Value,
        }
        let found: Result<Object, _> = serde_json::from_str(&self.document.text());
        found.map_or(Value::Null, |object| object.spec.template)
    }
}

impl ClaimRetention {
    /// Whether claims stay in both cases, so that the controller gives them no owner.
    pub fn retains_all(self) -> bool {
        (self.when_deleted, self.when_scaled) == (Retention::Retain, Retention::Retain)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct SpecWire<'a> {
    replicas: Option<i32>,
    selector: Option<WireSelector>,
    #[serde(borrow)]
    service_name: Option<Text<'a>>,
    #[serde(borrow)]
    pod_management_policy: Option<Text<'a>>,
    #[serde(default, deserialize_with = "nullable")]
    update_strategy: StrategyWire,
    revision_history_limit: Option<i32>,
    #[serde(default, deserialize_with = "nullable")]
    min_ready_seconds: i32,
    #[serde(default, deserialize_with = "nullable")]
    ordinals: OrdinalsWire,
    #[serde(default, deserialize_with = "nullable")]
    persistent_volume_claim_retention_policy: RetentionWire,
    #[serde(borrow, default, deserialize_with = "nullable")]
    volume_claim_templates: Vec<ClaimWire<'a>>,
}

impl Default for StatefulSetSpec {
    fn default() -> Self {
        SpecWire::default().into()
    }
}

impl From<SpecWire<'_>> for StatefulSetSpec {
    fn from(wire: SpecWire<'_>) -> Self {
        let retention = wire.persistent_volume_claim_retention_policy;
        Self {
            replicas: wire.replicas.unwrap_or(1),
            selector: Selector::parse(wire.selector.as_ref()),
            service_name: Sym::new(wire.service_name.as_deref().unwrap_or_default()),
            pod_management: match wire.pod_management_policy.as_deref() {
                Some("Parallel") => PodManagement::Parallel,
                _ => PodManagement::OrderedReady,
            },
            update_strategy: wire.update_strategy.into(),
            revision_history_limit: wire.revision_history_limit.unwrap_or(10),
            min_ready_seconds: wire.min_ready_seconds,
            start_ordinal: wire.ordinals.start,
            claim_retention: ClaimRetention {
                when_deleted: retention.when_deleted(),
                when_scaled: retention.when_scaled(),
            },
            claim_templates: claim_templates(&wire.volume_claim_templates),
        }
    }
}

/// The names of `templates`, without those that a later template has too.
fn claim_templates(templates: &[ClaimWire<'_>]) -> Vec<Sym> {
    let names = templates
        .iter()
        .map(|claim| claim.metadata.name.as_deref().unwrap_or_default());
    let mut names: Vec<Sym> = names.map(Sym::new).collect();
    let mut seen = HashSet::new();
    // From the end, so that the last template of a name keeps its place.
    names.reverse();
    names.retain(|name| seen.insert(name.clone()));
    names.reverse();
    names
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct StrategyWire {
    #[serde(rename = "type", default)]
    kind: String,
    rolling_update: Option<RollingUpdateWire>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdateWire {
    #[serde(deserialize_with = "nullable")]
    partition: i32,
    max_unavailable: Option<IntOrPercent>,
}

impl From<StrategyWire> for UpdateStrategy {
    fn from(wire: StrategyWire) -> Self {
        let partition = wire.rolling_update.as_ref().map(|limits| limits.partition);
        match &*wire.kind {
            "RollingUpdate" => Self::RollingUpdate {
                partition,
                max_unavailable: wire
                    .rolling_update
                    .and_then(|limits| limits.max_unavailable),
            },
            "OnDelete" => Self::OnDelete,
            "Recreate" => Self::Recreate,
            _ => Self::Other { partition },
        }
    }
}

#[derive(Deserialize, Default)]
struct OrdinalsWire {
    #[serde(default)]
    start: i32,
}

/// An absent policy retains claims. A present one has both fields, by validation; an empty text
/// there is an unknown policy.
#[derive(Deserialize, Default)]
struct RetentionWire {
    #[serde(rename = "whenDeleted")]
    deleted: Option<String>,
    #[serde(rename = "whenScaled")]
    scaled: Option<String>,
}

impl RetentionWire {
    fn when_deleted(&self) -> Retention {
        retention(self.deleted.as_deref())
    }

    fn when_scaled(&self) -> Retention {
        retention(self.scaled.as_deref())
    }
}

fn retention(text: Option<&str>) -> Retention {
    match text {
        None | Some("Retain") => Retention::Retain,
        Some("Delete") => Retention::Delete,
        Some(_) => Retention::Other,
    }
}

/// The API server stores templates without a name, although no claim can be made from them.
#[derive(Deserialize, Default)]
struct ClaimWire<'a> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    metadata: ClaimMetaWire<'a>,
}

#[derive(Deserialize, Default)]
struct ClaimMetaWire<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;

    fn set(spec: Value) -> StatefulSet {
        let json = json!({"metadata": {"name": "web", "managedFields": [{}]}, "spec": spec});
        StatefulSet::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn absent_fields_have_the_defaults_of_the_server() {
        let StatefulSetSpec {
            replicas,
            service_name,
            pod_management,
            update_strategy,
            revision_history_limit,
            start_ordinal,
            claim_retention,
            claim_templates,
            ..
        } = set(json!({})).spec;
        assert_eq!(
            (replicas, revision_history_limit, start_ordinal),
            (1, 10, 0)
        );
        assert_eq!((&*service_name, claim_templates.len()), ("", 0));
        assert_eq!(pod_management, PodManagement::OrderedReady);
        assert_eq!(update_strategy, UpdateStrategy::Other { partition: None });
        assert!(claim_retention.retains_all());
    }

    #[test]
    fn update_strategies_are_decoded() {
        let rolling = |partition, max_unavailable| UpdateStrategy::RollingUpdate {
            partition,
            max_unavailable,
        };
        let half = IntOrPercent::Percent("50%".to_owned());
        // (served, decoded)
        let cases = [
            (json!({"type": "OnDelete"}), UpdateStrategy::OnDelete),
            (json!({"type": "Recreate"}), UpdateStrategy::Recreate),
            (json!({"type": "RollingUpdate"}), rolling(None, None)),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {}}),
                rolling(Some(0), None),
            ),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2, "maxUnavailable": "50%"}}),
                rolling(Some(2), Some(half)),
            ),
        ];
        for (served, expected) in cases {
            let found = set(json!({"updateStrategy": served})).spec.update_strategy;
            assert_eq!(found, expected, "{served}");
        }
    }

    #[test]
    fn claims_ordinals_and_policies_are_decoded() {
        let set = set(json!({
            "replicas": 0, "serviceName": "db", "podManagementPolicy": "Parallel", "ordinals": {"start": 5},
            "minReadySeconds": 7, "revisionHistoryLimit": -1,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Keep"},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}, {"metadata": {"name": "log"}}],
            "template": {"spec": {"x": 1}},
        }));
        let StatefulSetSpec {
            replicas,
            service_name,
            pod_management,
            start_ordinal,
            min_ready_seconds,
            revision_history_limit,
            claim_retention,
            claim_templates,
            ..
        } = &set.spec;
        assert_eq!((*replicas, *start_ordinal, *min_ready_seconds), (0, 5, 7));
        assert_eq!((&**service_name, *revision_history_limit), ("db", -1));
        assert_eq!(*pod_management, PodManagement::Parallel);
        let policy = (claim_retention.when_deleted, claim_retention.when_scaled);
        assert_eq!(policy, (Retention::Delete, Retention::Other));
        assert_eq!(claim_templates[..], [Sym::new("data"), Sym::new("log")]);
        assert_eq!(set.template(), json!({"spec": {"x": 1}}));
    }

    #[test]
    fn claim_templates_are_named_once_each() {
        // (templates, names)
        let cases: [(Value, &[&str]); 5] = [
            (json!(null), &[]),
            (json!([{"metadata": {"name": "a"}}]), &["a"]),
            (
                json!([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}]),
                &["b", "a"],
            ),
            (json!([{}]), &[""]),
            (
                json!([{"metadata": null}, {"metadata": {"name": null}}]),
                &[""],
            ),
        ];
        for (templates, expected) in cases {
            let found = set(json!({ "volumeClaimTemplates": templates })).spec;
            let names: Vec<&str> = found.claim_templates.iter().map(|name| &**name).collect();
            assert_eq!(names, expected, "{templates}");
        }
    }

    #[test]
    fn a_status_omits_the_fields_that_go_omits() {
        let status = StatefulSetStatus {
            collision_count: Some(0),
            ..StatefulSetStatus::default()
        };
        let expected = r#"{"replicas":0,"collisionCount":0,"availableReplicas":0}"#;
        assert_eq!(serde_json::to_string(&status).unwrap(), expected);
    }

    #[test]
    fn conditions_keep_their_unknown_fields() {
        let served = r#"{"replicas":1,"conditions":[{"type":"Checked","by":"someone"}],"availableReplicas":0}"#;
        let status: StatefulSetStatus = serde_json::from_str(served).unwrap();
        assert_eq!(serde_json::to_string(&status).unwrap(), served);
        let absent: StatefulSetStatus = serde_json::from_str(r#"{"conditions":null}"#).unwrap();
        assert_eq!(absent, StatefulSetStatus::default());
    }
}
