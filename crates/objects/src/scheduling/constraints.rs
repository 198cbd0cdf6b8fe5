//! The constraints of a pod template on its nodes.

use serde_json::value::RawValue;

use steersman_values::intern::Sym;
use steersman_values::labels::Labels;

use super::NodeSelector;
use crate::{Node, Toleration, WirePlacement, WireTemplate};

/// The part of a pod template that restricts the nodes of its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraints {
    /// `spec.nodeName`; `None` when unset or empty.
    pub node_name: Option<Sym>,
    /// `spec.hostNetwork`.
    pub host_network: bool,
    /// `spec.nodeSelector`: the labels that a node must have.
    pub node_selector: Labels,
    /// The required affinity to nodes; `None` when unset.
    pub required_affinity: Option<NodeSelector>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
}

impl Constraints {
    /// The constraints of the served pod template with the JSON text `template`. An absent template
    /// has none.
    pub(crate) fn of_template(template: Option<&RawValue>) -> Result<Self, serde_json::Error> {
        let template: Option<WireTemplate> =
            serde_json::from_str(template.map_or("null", RawValue::get))?;
        Ok(Self::new(template.unwrap_or_default().spec))
    }

    /// The constraints of the served pod with the JSON text `pod`.
    pub fn of_pod(pod: &[u8]) -> Result<Self, serde_json::Error> {
        let WireTemplate { spec } = serde_json::from_slice(pod)?;
        Ok(Self::new(spec))
    }

    fn new(wire: WirePlacement) -> Self {
        let labels = wire.node_selector.iter();
        let required = wire.affinity.node_affinity.required;
        Self {
            node_name: wire.node_name.filter(|name| !name.is_empty()),
            host_network: wire.host_network,
            node_selector: Labels::new(labels.map(|(key, value)| (&**key, &**value))),
            required_affinity: required.as_ref().map(NodeSelector::new),
            tolerations: wire.tolerations,
        }
    }

    /// Whether `node` has the labels of the node selector and matches the required affinity.
    /// Upstream: `GetRequiredNodeAffinity` and `Match` in `nodeaffinity.go`.
    pub fn selects(&self, node: &Node) -> bool {
        let affinity = self.required_affinity.as_ref();
        node.meta.labels.contains_all(&self.node_selector)
            && affinity.is_none_or(|affinity| affinity.matches(node))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Object;

    fn selects(spec: Value, node: &Value) -> bool {
        let template = json!({ "spec": spec }).to_string();
        let template: Box<RawValue> = serde_json::from_str(&template).unwrap();
        let constraints = Constraints::of_template(Some(&template)).unwrap();
        constraints.selects(&Node::decode(node.to_string().as_bytes()).unwrap())
    }

    /// A spec with these required terms.
    fn affinity(terms: Value) -> Value {
        let required = json!({ "nodeSelectorTerms": terms });
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    }

    /// A spec with one term of requirements on labels.
    fn on_labels(requirements: Value) -> Value {
        affinity(json!([{ "matchExpressions": requirements }]))
    }

    fn with_selector(mut spec: Value, key: &str, value: &str) -> Value {
        spec["nodeSelector"] = json!({ key: value });
        spec
    }

    #[test]
    fn pod_matches_node_selector_and_affinity_terms() {
        let foo = json!({"foo": "bar"});
        let gpu = json!({"GPU": "NVIDIA-GRID-K1"});
        let exists = |key: &str| json!({"key": key, "operator": "Exists"});
        let values = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        let named = json!({"key": "metadata.name", "operator": "In", "values": ["node_1"]});
        let is_bar = values("foo", "In", json!(["bar"]));
        let is_node = json!({ "matchFields": [named] });
        // (name, spec, node name, labels, matches)
        let cases = [
            ("no selector", json!({}), "", json!({}), true),
            (
                "missing labels",
                json!({"nodeSelector": {"foo": "bar"}}),
                "",
                json!({}),
                false,
            ),
            (
                "same labels",
                json!({"nodeSelector": {"foo": "bar"}}),
                "",
                foo.clone(),
                true,
            ),
            (
                "node labels are superset",
                json!({"nodeSelector": {"foo": "bar"}}),
                "",
                json!({"foo": "bar", "baz": "blah"}),
                true,
            ),
            (
                "node labels are subset",
                json!({"nodeSelector": {"foo": "bar", "baz": "blah"}}),
                "",
                foo.clone(),
                false,
            ),
            (
                "In operator that matches",
                on_labels(json!([values("foo", "In", json!(["bar", "value2"]))])),
                "",
                foo.clone(),
                true,
            ),
            (
                "Gt operator that matches",
                on_labels(json!([values("kernel-version", "Gt", json!(["0204"]))])),
                "",
                json!({"kernel-version": "0206"}),
                true,
            ),
            (
                "NotIn operator that matches",
                on_labels(json!([values("mem-type", "NotIn", json!(["DDR", "DDR2"]))])),
                "",
                json!({"mem-type": "DDR3"}),
                true,
            ),
            (
                "Exists operator that matches",
                on_labels(json!([exists("GPU")])),
                "",
                gpu.clone(),
                true,
            ),
            (
                "affinity that doesn't match node's labels",
                on_labels(json!([values("foo", "In", json!(["value1", "value2"]))])),
                "",
                foo.clone(),
                false,
            ),
            (
                "a nil []NodeSelectorTerm",
                affinity(Value::Null),
                "",
                foo.clone(),
                false,
            ),
            (
                "an empty []NodeSelectorTerm",
                affinity(json!([])),
                "",
                foo.clone(),
                false,
            ),
            (
                "empty MatchExpressions",
                affinity(json!([{"matchExpressions": []}])),
                "",
                foo.clone(),
                false,
            ),
            ("no Affinity", json!({}), "", foo.clone(), true),
            (
                "Affinity but nil NodeSelector",
                json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": null}}}),
                "",
                foo.clone(),
                true,
            ),
            (
                "multiple matchExpressions ANDed that match",
                on_labels(json!([
                    exists("GPU"),
                    values("GPU", "NotIn", json!(["AMD", "INTER"]))
                ])),
                "",
                gpu.clone(),
                true,
            ),
            (
                "multiple matchExpressions ANDed that do not match",
                on_labels(json!([
                    exists("GPU"),
                    values("GPU", "In", json!(["AMD", "INTER"]))
                ])),
                "",
                gpu,
                false,
            ),
            (
                "multiple NodeSelectorTerms ORed",
                affinity(json!([
                    {"matchExpressions": [values("foo", "In", json!(["bar", "value2"]))]},
                    {"matchExpressions": [values("diffkey", "In", json!(["wrong", "value2"]))]},
                ])),
                "",
                foo.clone(),
                true,
            ),
            (
                "an Affinity and a NodeSelector both match",
                with_selector(on_labels(json!([exists("foo")])), "foo", "bar"),
                "",
                foo.clone(),
                true,
            ),
            (
                "an Affinity matches, the NodeSelector does not",
                with_selector(on_labels(json!([exists("foo")])), "foo", "bar"),
                "",
                json!({"foo": "barrrrrr"}),
                false,
            ),
            (
                "an invalid value in Affinity term",
                on_labels(json!([values(
                    "foo",
                    "NotIn",
                    json!(["invalid value: ___@#$%^"])
                )])),
                "",
                foo.clone(),
                false,
            ),
            (
                "matchFields using In operator that matches",
                affinity(json!([is_node])),
                "node_1",
                json!({}),
                true,
            ),
            (
                "matchFields using In operator that does not match",
                affinity(json!([is_node])),
                "node_2",
                json!({}),
                false,
            ),
            (
                "two terms: matchFields does not match, but matchExpressions matches",
                affinity(json!([is_node, {"matchExpressions": [is_bar]}])),
                "node_2",
                foo.clone(),
                true,
            ),
            (
                "one term: matchFields does not match, but matchExpressions matches",
                affinity(json!([{"matchFields": [named], "matchExpressions": [is_bar]}])),
                "node_2",
                foo.clone(),
                false,
            ),
            (
                "one term: both match",
                affinity(json!([{"matchFields": [named], "matchExpressions": [is_bar]}])),
                "node_1",
                foo.clone(),
                true,
            ),
            (
                "two terms: both do not match",
                affinity(
                    json!([is_node, {"matchExpressions": [values("foo", "In", json!(["not-match-to-bar"]))]}]),
                ),
                "node_2",
                foo,
                false,
            ),
        ];
        for (name, spec, node, labels, expected) in cases {
            let node = json!({"metadata": {"name": node, "labels": labels}});
            assert_eq!(selects(spec, &node), expected, "{name}");
        }
    }

    #[test]
    fn an_absent_template_has_no_constraints() {
        let none = Constraints::of_template(None).unwrap();
        let empty: Box<RawValue> = serde_json::from_str("{}").unwrap();
        assert_eq!(Constraints::of_template(Some(&empty)).unwrap(), none);
        assert_eq!((none.node_name, none.required_affinity), (None, None));
    }
}
