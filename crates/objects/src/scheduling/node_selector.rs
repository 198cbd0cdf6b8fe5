//! Node selectors: the terms of a required node affinity.
//!
//! A node matches a selector if it matches one of its terms. It matches a term if it meets all
//! requirements of the term, on labels and on fields. A term that is empty or malformed matches no
//! node. Upstream: `nodeaffinity/nodeaffinity.go`.

use serde::{Deserialize, Deserializer};

use steersman_values::intern::Sym;
use steersman_values::labels::{Requirement, is_label_key, is_label_value};

use crate::{Node, WireNodeSelector, WireRequirement, WireTerm};

/// The only field of nodes that requirements can name.
const NAME: &str = "metadata.name";

/// A parsed node selector. Terms that match no node are omitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

/// A requirement on a field of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldRequirement {
    field: Sym,
    value: Sym,
    /// True for `In`, false for `NotIn`.
    equal: bool,
}

impl NodeSelector {
    /// Parses a served selector.
    pub(crate) fn new(wire: &WireNodeSelector) -> Self {
        let terms = wire.node_selector_terms.iter().filter_map(Term::new);
        Self {
            terms: terms.collect(),
        }
    }

    /// Whether `node` matches one of the terms.
    pub fn matches(&self, node: &Node) -> bool {
        self.terms.iter().any(|term| term.matches(node))
    }

    /// The names of the only nodes that can match. `None` unless each term names a node, as the
    /// terms of DaemonSet pods do. Terms that name two nodes add none, so the list can be empty.
    /// Upstream: `PreFilter` of the scheduler's plugin NodeAffinity.
    pub fn node_names(&self) -> Option<Vec<&str>> {
        let terms = self.terms.iter().map(Term::node_names);
        let names: Option<Vec<_>> = terms.collect();
        let names = names.filter(|names| !names.is_empty())?;
        Some(names.into_iter().flatten().collect())
    }
}

impl<'de> Deserialize<'de> for NodeSelector {
    /// Parses a served selector.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        WireNodeSelector::deserialize(deserializer).map(|wire| Self::new(&wire))
    }
}

impl Term {
    /// `None` for a term that is empty or malformed.
    fn new(wire: &WireTerm) -> Option<Self> {
        if wire.match_expressions.is_empty() && wire.match_fields.is_empty() {
            return None;
        }
        let labels: Option<_> = wire.match_expressions.iter().map(on_label).collect();
        let fields: Option<_> = wire.match_fields.iter().map(on_field).collect();
        Some(Self {
            labels: labels?,
            fields: fields?,
        })
    }

    /// `None` if a node may have any name; otherwise the one that it must have, or none if it would
    /// need two.
    fn node_names(&self) -> Option<Option<&str>> {
        let fields = self.fields.iter();
        let mut names = fields.filter(|field| field.equal && field.field == *NAME);
        let first = &names.next()?.value;
        let is_only = names.all(|other| other.value == *first);
        Some(is_only.then_some(first))
    }

    fn matches(&self, node: &Node) -> bool {
        let labels = &node.meta.labels;
        self.labels.iter().all(|label| label.matches(labels))
            && self.fields.iter().all(|field| field.matches(node))
    }
}

/// The requirement on a label; `None` if it is malformed. Upstream: `NewRequirement` of
/// `k8s.io/apimachinery/pkg/labels`.
fn on_label(wire: &WireRequirement) -> Option<Requirement> {
    let WireRequirement {
        key,
        operator,
        values,
    } = wire;
    if !is_label_key(key) || !values.iter().all(|value| is_label_value(value)) {
        return None;
    }
    let key = key.clone();
    let requirement = match (operator.as_str(), &values[..]) {
        ("In", [_, ..]) => Requirement::In(key, values.clone().into()),
        ("NotIn", [_, ..]) => Requirement::NotIn(key, values.clone().into()),
        ("Exists", []) => Requirement::Exists(key),
        ("DoesNotExist", []) => Requirement::DoesNotExist(key),
        ("Gt", [bound]) => Requirement::GreaterThan(key, bound.parse().ok()?),
        ("Lt", [bound]) => Requirement::LessThan(key, bound.parse().ok()?),
        _ => return None,
    };
    Some(requirement)
}

/// The requirement on a field; `None` if it is malformed.
fn on_field(wire: &WireRequirement) -> Option<FieldRequirement> {
    let equal = match wire.operator.as_str() {
        "In" => true,
        "NotIn" => false,
        _ => return None,
    };
    let [value] = &wire.values[..] else {
        return None;
    };
    Some(FieldRequirement {
        field: wire.key.clone(),
        value: value.clone(),
        equal,
    })
}

impl FieldRequirement {
    /// All fields but [`NAME`] are empty.
    fn matches(&self, node: &Node) -> bool {
        let found = if self.field == *NAME {
            &*node.meta.name
        } else {
            ""
        };
        (*self.value == *found) == self.equal
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Object;

    fn node(name: &str, labels: Value) -> Node {
        let json = json!({"metadata": {"name": name, "labels": labels}});
        Node::decode(json.to_string().as_bytes()).unwrap()
    }

    /// A term from requirements on labels and on fields, as triples of key, operator and values.
    fn term(labels: &[(&str, &str, &[&str])], fields: &[(&str, &str, &[&str])]) -> Value {
        let list = |requirements: &[(&str, &str, &[&str])]| -> Vec<Value> {
            requirements
                .iter()
                .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
                .collect()
        };
        json!({"matchExpressions": list(labels), "matchFields": list(fields)})
    }

    fn selector(terms: &[Value]) -> NodeSelector {
        let wire = json!({ "nodeSelectorTerms": terms }).to_string();
        NodeSelector::new(&serde_json::from_str(&wire).unwrap())
    }

    fn matches(terms: &[Value], node: &Node) -> bool {
        selector(terms).matches(node)
    }

    #[test]
    fn terms_may_name_the_only_nodes() {
        let named = |name: &'static str| term(&[], &[(NAME, "In", &[name])]);
        // (why, terms, names)
        let cases = [
            ("one", vec![named("a")], Some(vec!["a"])),
            ("two", vec![named("a"), named("b")], Some(vec!["a", "b"])),
            (
                "two in one term",
                vec![term(&[], &[(NAME, "In", &["a"]), (NAME, "In", &["b"])])],
                Some(vec![]),
            ),
            (
                "a term without a name",
                vec![named("a"), term(&[("zone", "Exists", &[])], &[])],
                None,
            ),
            (
                "an excluded name",
                vec![term(&[], &[(NAME, "NotIn", &["a"])])],
                None,
            ),
            ("no terms", vec![], None),
        ];
        for (why, terms, expected) in cases {
            assert_eq!(selector(&terms).node_names(), expected, "{why}");
        }
    }

    #[test]
    fn node_selector_match() {
        let host = |labels| node("host_1", labels);
        let label: &[_] = &[("label_1", "In", &["label_1_val"][..])];
        let field: &[_] = &[(NAME, "In", &["host_1"][..])];
        // (name, terms, node, matches)
        let cases = [
            (
                "invalid field selector and label selector",
                vec![
                    term(&[], &[(NAME, "In", &["host_1", "host_2"])]),
                    term(label, field),
                    term(&[("invalid key", "In", &["label_value"])], &[]),
                ],
                host(json!({"invalid key": "label_value"})),
                false,
            ),
            (
                "node matches field selector, but not labels",
                vec![term(label, field)],
                host(json!({})),
                false,
            ),
            (
                "node matches field selector and label selector",
                vec![term(label, field)],
                host(json!({"label_1": "label_1_val"})),
                true,
            ),
            (
                "second term matches",
                vec![term(label, &[]), term(&[], field)],
                host(json!({})),
                true,
            ),
        ];
        for (name, terms, node, expected) in cases {
            assert_eq!(matches(&terms, &node), expected, "{name}");
        }
    }

    #[test]
    fn match_node_selector_terms() {
        let label: &[_] = &[("label_1", "In", &["label_1_val"][..])];
        let field: &[_] = &[(NAME, "In", &["host_1"][..])];
        // (name, terms, node name, node labels, matches)
        let cases = [
            ("nil terms", vec![], "", json!({}), false),
            (
                "node label matches matchExpressions terms",
                vec![term(label, &[])],
                "",
                json!({"label_1": "label_1_val"}),
                true,
            ),
            (
                "node field matches matchFields terms",
                vec![term(&[], field)],
                "host_1",
                json!({}),
                true,
            ),
            (
                "invalid node field requirement",
                vec![term(&[], &[(NAME, "In", &["host_1", "host_2"])])],
                "host_1",
                json!({}),
                false,
            ),
            (
                "fieldSelectorTerm with node labels",
                vec![term(&[], field)],
                "not_host_1",
                json!({"metadata.name": "host_1"}),
                false,
            ),
            (
                "labelSelectorTerm with node fields",
                vec![term(&[(NAME, "In", &["host_1"])], &[])],
                "host_1",
                json!({}),
                false,
            ),
            (
                "labelSelectorTerm and fieldSelectorTerm was set, but only node fields",
                vec![term(label, field)],
                "host_1",
                json!({}),
                false,
            ),
            (
                "labelSelectorTerm and fieldSelectorTerm was set, both node fields and labels (both matched)",
                vec![term(label, field)],
                "host_1",
                json!({"label_1": "label_1_val"}),
                true,
            ),
            (
                "labelSelectorTerm and fieldSelectorTerm was set, both node fields and labels (one mismatched)",
                vec![term(label, field)],
                "host_1",
                json!({"label_1": "label_1_val-failed"}),
                false,
            ),
            (
                "multi-selector was set, both node fields and labels (one mismatched)",
                vec![term(label, &[]), term(&[], field)],
                "host_1",
                json!({"label_1": "label_1_val-failed"}),
                true,
            ),
        ];
        for (case, terms, name, labels, expected) in cases {
            assert_eq!(matches(&terms, &node(name, labels)), expected, "{case}");
        }
    }

    /// The values of upstream's `TestNodeSelectorRequirementsAsSelector`, and further operators.
    #[test]
    fn node_selector_requirements_as_selector() {
        let labels = json!({"foo": "9", "bar": "5", "text": "x", "big": "99999999999999999999"});
        let node = node("n", labels);
        // (key, operator, values, matches)
        let cases: [(&str, &str, &[&str], bool); 26] = [
            ("foo", "In", &["8", "9"], true),
            ("foo", "In", &["8"], false),
            ("foo", "In", &[], false),
            ("none", "In", &["9"], false),
            ("foo", "NotIn", &["8"], true),
            ("foo", "NotIn", &["9"], false),
            ("foo", "NotIn", &[], false),
            ("none", "NotIn", &["9"], true),
            ("foo", "Exists", &[], true),
            ("none", "Exists", &[], false),
            ("foo", "Exists", &["bar", "baz"], false),
            ("none", "DoesNotExist", &[], true),
            ("foo", "DoesNotExist", &[], false),
            ("none", "DoesNotExist", &["bar"], false),
            ("foo", "Gt", &["1"], true),
            ("foo", "Gt", &["9"], false),
            ("text", "Gt", &["1"], false),
            ("none", "Gt", &["1"], false),
            ("foo", "Gt", &["x"], false),
            ("foo", "Gt", &["1", "2"], false),
            ("bar", "Lt", &["7"], true),
            ("bar", "Lt", &["5"], false),
            ("big", "Gt", &["1"], false),
            ("bar", "Lt", &["9223372036854775807"], true),
            ("bar", "Gt", &["-1"], false),
            ("baz", "invalid", &["5"], false),
        ];
        for (key, operator, values, expected) in cases {
            let terms = [term(&[(key, operator, values)], &[])];
            let case = format!("{key} {operator} {values:?}");
            assert_eq!(matches(&terms, &node), expected, "{case}");
        }
    }

    #[test]
    fn fields_are_compared_with_exactly_one_value() {
        let node = node("n1", json!({}));
        // (field, operator, values, matches)
        let cases: [(&str, &str, &[&str], bool); 9] = [
            (NAME, "In", &["n1"], true),
            (NAME, "In", &["n2"], false),
            (NAME, "NotIn", &["n1"], false),
            (NAME, "NotIn", &["n2"], true),
            (NAME, "NotIn", &["n1", "n2"], false),
            (NAME, "Exists", &[], false),
            ("spec.unschedulable", "In", &["true"], false),
            ("spec.unschedulable", "In", &[""], true),
            ("spec.unschedulable", "NotIn", &["true"], true),
        ];
        for (field, operator, values, expected) in cases {
            let terms = [term(&[], &[(field, operator, values)])];
            let case = format!("{field} {operator} {values:?}");
            assert_eq!(matches(&terms, &node), expected, "{case}");
        }
    }
}
