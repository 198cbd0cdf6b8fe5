//! The roles and bindings of a new cluster, from the table `bootstrap.txt`.
//!
//! The objects equal upstream's bootstrap policy, so RBAC decisions in tests match a real cluster.
//! Upstream: `plugin/pkg/auth/authorizer/rbac/bootstrappolicy`. The lines of the table:
//!
//! ```text
//! ClusterRole name [sums=admin] [into=edit]      aggregates roles with the label, or has the label
//!   verbs groups resources [names]               `core` is the group without a name
//!   verbs url paths
//! Role namespace/name
//! ClusterRoleBinding name Kind:role Kind:subject ...
//! RoleBinding namespace/name Kind:role Kind:subject ...
//! ```

use serde_json::{Map, Value, json};

use super::rules::Rule;

const TABLE: &str = include_str!("bootstrap.txt");
const GROUP: &str = "rbac.authorization.k8s.io";
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// The objects in the form in which a client creates them. The aggregated roles `admin`, `edit` and
/// `view` have no rules: those come from the ClusterRole aggregation controller.
pub(crate) fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    for line in TABLE.lines() {
        match line.strip_prefix("  ") {
            None => objects.push(head(line)),
            Some(text) => {
                let role = objects.last_mut().expect("the table begins with a role");
                role["rules"]
                    .as_array_mut()
                    .expect("only roles have rules")
                    .push(rule(text).to_value());
            }
        }
    }
    objects
}

/// A role without rules, or a binding.
fn head(line: &str) -> Value {
    let mut words = line.split(' ');
    let kind = words.next().unwrap_or_default();
    let key = words.next().unwrap_or_default();
    let (namespace, name) = if kind.starts_with("Cluster") {
        ("", key)
    } else {
        key.split_once('/').unwrap_or(("", key))
    };
    let mut object = json!({
        "kind": kind,
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = Value::from(namespace);
    }
    if kind.ends_with("Role") {
        object["rules"] = json!([]);
        for word in words {
            match word.split_once('=') {
                Some(("sums", into)) => {
                    let label =
                        Map::from_iter([(format!("{AGGREGATE}{into}"), Value::from("true"))]);
                    object["aggregationRule"] =
                        json!({"clusterRoleSelectors": [{"matchLabels": label}]});
                    object["rules"] = Value::Null;
                }
                Some(("into", into)) => {
                    object["metadata"]["labels"][format!("{AGGREGATE}{into}")] = Value::from("true")
                }
                _ => unreachable!("the table knows no {word:?}"),
            }
        }
        return object;
    }
    let mut references = words.filter_map(|word| word.split_once(':'));
    let (kind, name) = references.next().expect("a binding references a role");
    object["subjects"] = references.map(|(kind, name)| subject(kind, name)).collect();
    object["roleRef"] = json!({"apiGroup": GROUP, "kind": kind, "name": name});
    object
}

fn subject(kind: &str, name: &str) -> Value {
    match name.split_once('/') {
        Some((namespace, name)) => json!({"kind": kind, "name": name, "namespace": namespace}),
        None => json!({"kind": kind, "apiGroup": GROUP, "name": name}),
    }
}

/// Parses a line of rules.
pub(super) fn rule(text: &str) -> Rule {
    let list = |text: &str| {
        text.split(',')
            .map(|word| {
                if word == "core" {
                    String::new()
                } else {
                    word.to_owned()
                }
            })
            .collect()
    };
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        [verbs, "url", paths] => Rule {
            verbs: list(verbs),
            urls: list(paths),
            ..Rule::default()
        },
        [verbs, groups, resources, names @ ..] => Rule {
            verbs: list(verbs),
            groups: list(groups),
            resources: list(resources),
            names: names.iter().flat_map(|names| list(names)).collect(),
            urls: Vec::new(),
        },
        _ => unreachable!("the table has no rule {text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binding_is_to_a_role_of_the_table() {
        let objects = objects();
        let key = |kind: &str, namespace: &Value, name: &Value| {
            (kind.to_owned(), namespace.clone(), name.clone())
        };
        let roles: Vec<_> = objects
            .iter()
            .filter(|object| object["kind"].as_str().unwrap().ends_with("Role"))
            .map(|role| {
                key(
                    role["kind"].as_str().unwrap(),
                    &role["metadata"]["namespace"],
                    &role["metadata"]["name"],
                )
            })
            .collect();
        for binding in objects
            .iter()
            .filter(|object| object["roleRef"].is_object())
        {
            let kind = binding["roleRef"]["kind"].as_str().unwrap();
            let wanted = key(
                kind,
                &binding["metadata"]["namespace"],
                &binding["roleRef"]["name"],
            );
            assert!(roles.contains(&wanted), "{wanted:?}");
        }
        assert!(objects.len() > 130);
    }
}
