//! The Node authorizer: nodes read the objects that their own pods need, and write their own Node,
//! Lease and CSINode.
//!
//! Upstream: `plugin/pkg/auth/authorizer/node`. Relations between objects and nodes are computed per
//! request, where upstream keeps a graph.

use std::sync::LazyLock;

use serde_json::Value;

use super::super::attributes::{Attributes, ResourceRequest, Wanted};
use super::super::rules::Rule;
use super::super::{User, bootstrap};
use super::{LEASES, OTHER_LEASE, node_of, other_namespace};
use crate::Server;

/// The rights of all nodes that do not depend on the object. Upstream: `NodeRules` of the bootstrap
/// policy.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let is_node_role = |object: &Value| {
        object["kind"] == "ClusterRole" && object["metadata"]["name"] == "system:node"
    };
    let objects = bootstrap::objects();
    objects
        .iter()
        .find(|object| is_node_role(object))
        .map_or_else(Vec::new, Rule::all_of)
});

/// The answer of the authorizer: it allows the request, or tells why it does not. RBAC may still
/// allow the request.
type Opinion = Result<(), String>;

/// A kind of objects that pods refer to by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Referent {
    Secret,
    ConfigMap,
    Claim,
    Account,
}

impl Referent {
    /// Whether a field of a pod refers to the object of this name.
    fn is_named_by(self, field: &str, value: &Value, name: &str) -> bool {
        match (self, field) {
            (Self::Secret, "imagePullSecrets") => {
                let mut secrets = value.as_array().into_iter().flatten();
                secrets.any(|secret| secret["name"] == name)
            }
            (Self::Secret, "secretName") | (Self::Account, "serviceAccountName") => value == name,
            (Self::Secret, field) => {
                (field == "secret" || field == "secretKeyRef" || field.ends_with("ecretRef"))
                    && value["name"] == name
            }
            (Self::ConfigMap, "configMap" | "configMapRef" | "configMapKeyRef") => {
                value["name"] == name
            }
            (Self::Claim, "persistentVolumeClaim") => value["claimName"] == name,
            _ => false,
        }
    }

    /// Whether a part of a pod refers to the object of this name.
    fn is_in(self, part: &Value, name: &str) -> bool {
        match part {
            Value::Object(fields) => fields.iter().any(|(field, value)| {
                self.is_named_by(field, value, name) || self.is_in(value, name)
            }),
            Value::Array(items) => items.iter().any(|item| self.is_in(item, name)),
            _ => false,
        }
    }
}

impl Server {
    /// The opinion of the Node authorizer. `None` for users other than nodes.
    pub(in crate::auth) fn opinion_about_node(
        &self,
        user: &User,
        wanted: &Attributes,
    ) -> Option<Opinion> {
        let node = node_of(user)?;
        if node.is_empty() {
            return Some(Err(format!("unknown node for user {:?}", user.name)));
        }
        let Wanted::Resource(object) = &wanted.object else {
            return Some(static_rules(wanted));
        };
        Some(match (object.group.as_str(), object.resource.as_str()) {
            ("", "nodes") => own_node(node, &wanted.verb, object),
            ("coordination.k8s.io", "leases") => own_lease(node, &wanted.verb, object),
            ("storage.k8s.io", "csinodes") => own_csi_node(node, &wanted.verb, object),
            ("", "secrets" | "configmaps") => self.read_of_related(node, &wanted.verb, object),
            ("", "serviceaccounts") => self.account(node, &wanted.verb, object),
            ("", "pods") => self.pods(node, &wanted.verb, object),
            ("", "persistentvolumeclaims") if object.subresource == "status" => {
                match wanted.verb.as_str() {
                    "update" | "patch" => self.related(node, object),
                    _ => no("can only get/update/patch this type"),
                }
            }
            ("", "persistentvolumeclaims" | "persistentvolumes")
            | ("resource.k8s.io", "resourceclaims")
            | ("storage.k8s.io", "volumeattachments") => {
                self.get_of_related(node, &wanted.verb, object)
            }
            ("resource.k8s.io", "resourceslices") => self.slices(node, &wanted.verb, object),
            ("certificates.k8s.io", "podcertificaterequests") => no(""),
            _ => static_rules(wanted),
        })
    }

    /// Rights on ServiceAccounts of the node's pods, and on their tokens.
    fn account(&self, node: &str, verb: &str, object: &ResourceRequest) -> Opinion {
        match (verb, object.subresource.as_str()) {
            ("get", "") => self.read_of_related(node, verb, object),
            ("create", "token") if !object.name.is_empty() => self.related(node, object),
            ("create", _) if !object.name.is_empty() => {
                no("can only create token subresource of serviceaccount")
            }
            _ => no("can only create tokens for individual service accounts"),
        }
    }

    /// Rights on pods. Upstream's NodeRestriction limits the writes further.
    fn pods(&self, node: &str, verb: &str, object: &ResourceRequest) -> Opinion {
        match (object.subresource.as_str(), verb) {
            ("", "get") => self.get_of_related(node, verb, object),
            ("", "list" | "watch") if object.node == node => Ok(()),
            ("", "list" | "watch") if !object.name.is_empty() => self.related(node, object),
            ("", "list" | "watch") => {
                no("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            _ => no(""),
        }
    }

    fn slices(&self, node: &str, verb: &str, object: &ResourceRequest) -> Opinion {
        match verb {
            _ if !object.subresource.is_empty() => {
                no("cannot authorize ResourceSlice subresources")
            }
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.related(node, object),
            "list" | "watch" | "deletecollection" if object.node == node => Ok(()),
            "list" | "watch" | "deletecollection" => no(
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => no(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection",
            ),
        }
    }

    fn read_of_related(&self, node: &str, verb: &str, object: &ResourceRequest) -> Opinion {
        match verb {
            "get" | "list" | "watch" if !object.subresource.is_empty() => {
                no("cannot read subresource")
            }
            "get" | "list" | "watch" if object.namespace.is_empty() => {
                no("can only read namespaced object of this type")
            }
            "get" | "list" | "watch" => self.related(node, object),
            _ => no("can only read resources of this type"),
        }
    }

    fn get_of_related(&self, node: &str, verb: &str, object: &ResourceRequest) -> Opinion {
        match verb {
            "get" if !object.subresource.is_empty() => no("cannot get subresource"),
            "get" => self.related(node, object),
            _ => no("can only get individual resources of this type"),
        }
    }

    /// Whether the object belongs to the node or to one of its pods.
    fn related(&self, node: &str, object: &ResourceRequest) -> Opinion {
        if object.name.is_empty() {
            return no("No Object name found");
        }
        let namespace = &*object.namespace;
        let name = &*object.name;
        let is_on_node = |resource: &str, key: &str| {
            let found = self.object_value(&object.group, resource, key);
            found.is_some_and(|found| found["spec"]["nodeName"] == node)
        };
        let is_named = |referent| self.is_named_by_pod(node, namespace, referent, name);
        let is_related = match object.resource.as_str() {
            "pods" => is_on_node("pods", &format!("{namespace}/{name}")),
            resource @ ("volumeattachments" | "resourceslices") => is_on_node(resource, name),
            "secrets" => is_named(Referent::Secret),
            "configmaps" => is_named(Referent::ConfigMap),
            "serviceaccounts" => is_named(Referent::Account),
            "persistentvolumeclaims" => self.has_claim(node, namespace, name),
            "persistentvolumes" => {
                let volume = self.object_value("", "persistentvolumes", name);
                volume.is_some_and(|volume| {
                    let claim = &volume["spec"]["claimRef"];
                    let text = |field: &str| claim[field].as_str().unwrap_or_default();
                    self.has_claim(node, text("namespace"), text("name"))
                })
            }
            "resourceclaims" => self.pods_of(node, namespace).any(|pod| {
                let lists = [
                    &pod["spec"]["resourceClaims"],
                    &pod["status"]["resourceClaimStatuses"],
                ];
                let mut claims = lists.into_iter().filter_map(Value::as_array).flatten();
                claims.any(|claim| claim["resourceClaimName"] == name)
            }),
            _ => false,
        };
        if is_related {
            Ok(())
        } else {
            Err(format!(
                "no relationship found between node '{node}' and this object"
            ))
        }
    }

    /// Whether a pod of the node uses the claim, by name or as a generic ephemeral volume.
    fn has_claim(&self, node: &str, namespace: &str, name: &str) -> bool {
        self.pods_of(node, namespace).any(|pod| {
            let owner = pod["metadata"]["name"].as_str().unwrap_or_default();
            let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            let is_ephemeral = |volume: &Value| {
                let suffix = name
                    .strip_prefix(owner)
                    .and_then(|rest| rest.strip_prefix('-'));
                volume["ephemeral"].is_object() && volume["name"].as_str() == suffix
            };
            Referent::Claim.is_in(&pod["spec"], name) || volumes.any(is_ephemeral)
        })
    }

    fn is_named_by_pod(&self, node: &str, namespace: &str, referent: Referent, name: &str) -> bool {
        let mut pods = self.pods_of(node, namespace);
        pods.any(|pod| referent.is_in(&pod["spec"], name))
    }

    /// The pods of a namespace that are bound to the node.
    fn pods_of(&self, node: &str, namespace: &str) -> impl Iterator<Item = Value> {
        let pods = self.registry.find("", "v1", "pods");
        let prefix = format!("{namespace}/");
        let pods = pods.map(|pods| pods.store.list(&self.revisions, &prefix).objects);
        let values = pods.into_iter().flatten().map(|pod| pod.to_value());
        values.filter(move |pod| pod["spec"]["nodeName"] == node)
    }

    fn object_value(&self, group: &str, plural: &str, key: &str) -> Option<Value> {
        let entry = self.registry.find(group, "v1", plural)?;
        entry.store.get(key).map(|object| object.to_value())
    }
}

fn no(reason: &str) -> Opinion {
    Err(reason.to_owned())
}

fn static_rules(wanted: &Attributes) -> Opinion {
    if RULES.iter().any(|rule| rule.allows(wanted)) {
        Ok(())
    } else {
        no("")
    }
}

/// Rights on Nodes. [`super::restrict`] limits writes to the own one.
fn own_node(node: &str, verb: &str, object: &ResourceRequest) -> Opinion {
    match (object.subresource.as_str(), verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") => match object.name.as_str() {
            name if name == node => Ok(()),
            "" => Err(format!(
                "node '{node}' cannot read all nodes, only its own Node object"
            )),
            name => Err(format!(
                "node '{node}' cannot read '{name}', only its own Node object"
            )),
        },
        _ => no(""),
    }
}

fn own_lease(node: &str, verb: &str, object: &ResourceRequest) -> Opinion {
    if !is_single(verb) {
        return no("can only get, create, update, patch, or delete a node lease");
    }
    if object.namespace != LEASES {
        return no(&other_namespace());
    }
    if verb == "create" || object.name == node {
        Ok(())
    } else {
        no(OTHER_LEASE)
    }
}

fn own_csi_node(node: &str, verb: &str, object: &ResourceRequest) -> Opinion {
    match verb {
        verb if !is_single(verb) => no("can only get, create, update, patch, or delete a CSINode"),
        _ if !object.subresource.is_empty() => no("cannot authorize CSINode subresources"),
        verb if verb == "create" || object.name == node => Ok(()),
        _ => no("can only access CSINode with the same name as the requesting node"),
    }
}

/// Whether the verb acts on one object.
fn is_single(verb: &str) -> bool {
    ["get", "create", "update", "patch", "delete"].contains(&verb)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_refer_to_objects_in_many_fields() {
        let spec = json!({
            "serviceAccountName": "bot",
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [
                {"name": "s", "secret": {"secretName": "vs"}},
                {"name": "p", "projected": {"sources": [
                    {"secret": {"name": "ps"}}, {"configMap": {"name": "pc"}},
                ]}},
                {"name": "c", "csi": {"nodePublishSecretRef": {"name": "csi"}}},
                {"name": "v", "persistentVolumeClaim": {"claimName": "claim"}},
            ],
            "containers": [{
                "env": [
                    {"valueFrom": {"secretKeyRef": {"name": "es", "key": "k"}}},
                    {"valueFrom": {"configMapKeyRef": {"name": "ec", "key": "k"}}},
                ],
                "envFrom": [{"secretRef": {"name": "fs"}}, {"configMapRef": {"name": "fc"}}],
            }],
        });
        // (referent, names)
        let cases = [
            (
                Referent::Secret,
                vec!["pull", "vs", "ps", "csi", "es", "fs"],
            ),
            (Referent::ConfigMap, vec!["pc", "ec", "fc"]),
            (Referent::Claim, vec!["claim"]),
            (Referent::Account, vec!["bot"]),
        ];
        for (referent, names) in &cases {
            for (_, others) in &cases {
                for name in others {
                    let expected = names.contains(name);
                    assert_eq!(referent.is_in(&spec, name), expected, "{referent:?} {name}");
                }
            }
        }
    }
}
