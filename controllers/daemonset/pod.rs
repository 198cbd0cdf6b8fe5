//! The body of a new pod: the template, with the label of its revision, the added tolerations, and
//! an affinity to one node.
//!
//! The scheduler binds the pod to that node. The affinity replaces the required affinity of the
//! template, which was evaluated before. All other parts are the bytes of the template, so fields
//! unknown to this program survive.
//!
//! Upstream: `CreatePodTemplate` and `ReplaceDaemonSetPodNodeNameNodeAffinity` in
//! `util/daemonset_util.go`.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use steersman_helpers::history::REVISION_LABEL;
use steersman_objects::DaemonSet;
use steersman_runtime::pod_control::{TemplateError, from_template};

use super::tolerations;
use super::updated::{Current, TEMPLATE_GENERATION_LABEL};

/// The members of a JSON object, as text.
///
/// Values stay raw text, so numbers and unknown fields are sent as they were served.
type Members = BTreeMap<String, Box<RawValue>>;

/// The bodies of new pods of one DaemonSet. They differ only by their node.
///
/// The template is split once per sync. Each creation joins the parts again, instead of parsing the template.
pub(super) struct Bodies {
    /// All members of the pod except `spec`.
    pod: Members,
    /// All members of the spec except `affinity`.
    spec: Members,
    /// All members of the affinity except `nodeAffinity`.
    affinity: Members,
    /// All members of the affinity to nodes except the required one.
    node_affinity: Members,
}

impl Bodies {
    /// The bodies of pods with the template of `ds`, which is the revision `current`.
    ///
    /// Fails only for a template that API validation would reject.
    pub(super) fn new(ds: &DaemonSet, current: &Current) -> Result<Self, TemplateError> {
        let labels = ds.spec.template.labels();
        let template = from_template::<DaemonSet>(&ds.meta, labels, &ds.document)?;
        let constraints = &ds.spec.constraints;
        Self::changed(&template, current, constraints.host_network)
            .map_err(TemplateError::Malformed)
    }

    /// The split template. The labels and tolerations are changed before the split, as they do not depend on
    /// the node.
    fn changed(
        template: &RawValue,
        current: &Current,
        host_network: bool,
    ) -> Result<Self, serde_json::Error> {
        let mut pod: Members = serde_json::from_str(template.get())?;
        let mut metadata: Members = taken(&mut pod, "metadata")?;
        let mut labels: BTreeMap<String, String> = taken(&mut metadata, "labels")?;
        if let Some(generation) = &current.generation {
            labels.insert(TEMPLATE_GENERATION_LABEL.to_owned(), generation.clone());
        }
        if !current.hash.is_empty() {
            labels.insert(REVISION_LABEL.to_owned(), current.hash.clone());
        }
        metadata.insert("labels".to_owned(), to_raw_value(&labels)?);
        pod.insert("metadata".to_owned(), to_raw_value(&metadata)?);

        let mut spec: Members = taken(&mut pod, "spec")?;
        let tolerations: Vec<Value> = taken(&mut spec, "tolerations")?;
        let merged = tolerations::merged(tolerations, host_network);
        spec.insert("tolerations".to_owned(), to_raw_value(&merged)?);
        let mut affinity: Members = taken(&mut spec, "affinity")?;
        let node_affinity = taken(&mut affinity, "nodeAffinity")?;
        Ok(Self {
            pod,
            spec,
            affinity,
            node_affinity,
        })
    }

    /// The body of the pod for `node`.
    ///
    /// The field selector of the affinity names the node by its name, since the label
    /// `kubernetes.io/hostname` may differ.
    pub(super) fn on(&self, node: &str) -> Box<RawValue> {
        let term = json!({
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
        });
        let required = raw(&json!({ "nodeSelectorTerms": [term] }));
        let node_affinity = with(
            &self.node_affinity,
            "requiredDuringSchedulingIgnoredDuringExecution",
            &required,
        );
        let affinity = with(&self.affinity, "nodeAffinity", &node_affinity);
        let spec = with(&self.spec, "affinity", &affinity);
        with(&self.pod, "spec", &spec)
    }
}

/// Removes the member `name`. An absent member and `null` are the default.
fn taken<T: DeserializeOwned + Default>(
    object: &mut Members,
    name: &str,
) -> Result<T, serde_json::Error> {
    let member = object.remove(name);
    let text = member.as_ref().map_or("null", |raw| raw.get());
    Ok(serde_json::from_str::<Option<T>>(text)?.unwrap_or_default())
}

/// The object with the members `object` and one more.
fn with(object: &Members, name: &str, value: &RawValue) -> Box<RawValue> {
    let members = object.iter().map(|(key, value)| (key.as_str(), &**value));
    let all: BTreeMap<&str, &RawValue> = members.chain([(name, value)]).collect();
    raw(&all)
}

/// Joins members that are JSON already, so it cannot fail.
fn raw(value: &impl serde::Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("raw JSON under string keys is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DaemonSetBuilder, daemon_set};

    fn body(ds: DaemonSetBuilder, hash: &str, node: &str) -> Value {
        let ds = ds.build();
        let current = Current::new(&ds, hash.to_owned());
        let bodies = Bodies::new(&ds, &current).unwrap();
        serde_json::from_str(bodies.on(node).get()).unwrap()
    }

    /// The affinity that names only `node`.
    fn pinned(node: &str) -> Value {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        json!({"nodeSelectorTerms": [{"matchFields": [field]}]})
    }

    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

    #[test]
    fn replace_daemon_set_pod_node_name_node_affinity() {
        let term = |part: &str, key: &str, operator: &str, values: Value| json!({part: [{"key": key, "operator": operator, "values": values}]});
        let required =
            |terms: Value| json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}});
        let hostname = term(
            "matchExpressions",
            "kubernetes.io/hostname",
            "In",
            json!(["host_1"]),
        );
        let preferred = json!([{"weight": 1, "preference": hostname}]);
        let names =
            |operator: &str, names: Value| term("matchFields", "metadata.name", operator, names);
        let other = term("matchExpressions", "hostname", "In", json!(["host_1"]));
        // (affinity of the template, preferred terms of the result)
        let cases = [
            (Value::Null, None),
            (required(json!([hostname])), None),
            (
                json!({"nodeAffinity": {PREFERRED: preferred}}),
                Some(preferred.clone()),
            ),
            (
                required(json!([names("In", json!(["host_1", "host_2"]))])),
                None,
            ),
            (json!({"nodeAffinity": null}), None),
            (
                required(json!([other, names("In", json!(["host_2"]))])),
                None,
            ),
            (required(json!([names("NotIn", json!(["host_2"]))])), None),
            (
                required(json!([term(
                    "matchFields",
                    "metadata.foo",
                    "In",
                    json!(["bar"])
                )])),
                None,
            ),
        ];
        for (affinity, preferred) in cases {
            let ds = daemon_set("foo").pod_spec(json!({ "affinity": affinity }));
            let mut expected = json!({REQUIRED: pinned("host_1")});
            if let Some(preferred) = preferred {
                expected[PREFERRED] = preferred;
            }
            let found = body(ds, "h", "host_1");
            let found = &found["spec"]["affinity"];
            assert_eq!(*found, json!({ "nodeAffinity": expected }), "{affinity}");
        }
    }

    #[test]
    fn create_pod_template() {
        let generation = |number: &str| {
            daemon_set("foo").annotation("deprecated.daemonset.template.generation", number)
        };
        // (generation, hash, label of the generation, label of the hash)
        let cases = [
            ("1", "", json!("1"), json!(null)),
            ("2", "3242341807", json!("2"), json!("3242341807")),
            // Not upstream's:
            ("x", "h", json!(null), json!("h")),
        ];
        for (number, hash, generation_label, hash_label) in cases {
            let found = body(generation(number), hash, "n");
            let labels = &found["metadata"]["labels"];
            assert_eq!(
                labels[TEMPLATE_GENERATION_LABEL], generation_label,
                "{number}"
            );
            assert_eq!(labels[REVISION_LABEL], hash_label, "{number}");
        }
    }

    #[test]
    fn a_pod_has_the_rest_of_the_template() {
        let pod_affinity = json!({REQUIRED: [{"topologyKey": "zone"}]});
        let ds = daemon_set("foo").pod_spec(json!({
            "affinity": {"podAntiAffinity": pod_affinity}, "hostNetwork": true, "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "x", "operator": "Exists"}], "fromTheFuture": {"a": [1.50]},
        }));
        let found = body(ds, "h", "n1");
        let spec = &found["spec"];
        let affinity =
            json!({"podAntiAffinity": pod_affinity, "nodeAffinity": {REQUIRED: pinned("n1")}});
        assert_eq!(spec["affinity"], affinity);
        assert_eq!(spec["tolerations"].as_array().unwrap().len(), 8);
        assert_eq!(
            spec["tolerations"][0],
            json!({"key": "x", "operator": "Exists"})
        );
        assert_eq!(spec["fromTheFuture"], json!({"a": [1.5]}));
        assert_eq!(spec["nodeSelector"], json!({"a": "b"}));
        assert_eq!(
            (&spec["nodeName"], &found["kind"]),
            (&Value::Null, &json!("Pod"))
        );
        assert_eq!(found["metadata"]["generateName"], "foo-");
        assert_eq!(found["metadata"]["ownerReferences"][0]["kind"], "DaemonSet");
    }
}
