//! Attributes of a request: verb and resource, or verb and path, as RBAC rules name them.
//!
//! The path alone determines them. Authorization therefore runs before the lookup of the resource,
//! and a refused user cannot learn which resources exist. Upstream: `RequestInfoFactory` in
//! `k8s.io/apiserver/pkg/endpoints/request`.

use http::Method;

use super::User;
use crate::route::percent_decode;
use crate::status::{Qualified, Status};

/// A verb, and the resource or path of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list` and so on; for path_request paths the lower-case HTTP method.
    pub verb: String,
    /// The object of the verb.
    pub object: Wanted,
}

/// The object of a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Objects.
    Resource(ResourceRequest),
    /// A path that names no objects.
    Path(String),
}

impl Default for Wanted {
    fn default() -> Self {
        Self::Resource(ResourceRequest::default())
    }
}

/// A resource, optionally limited to a subresource, namespace and name. An empty field means no
/// limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceRequest {
    /// API group.
    pub group: String,
    /// Plural resource.
    pub resource: String,
    /// Part of the object.
    pub subresource: String,
    /// Namespace.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The node that the field selector `spec.nodeName` requires. Only the Node authorizer reads
    /// it.
    pub node: String,
}

/// The values that the field selector of a request requires.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selected<'a> {
    /// Of `metadata.name`.
    pub name: Option<&'a str>,
    /// Of `spec.nodeName`.
    pub node: Option<&'a str>,
}

impl ResourceRequest {
    /// `pods`, or `pods/status`.
    pub fn full_name(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

impl Attributes {
    /// A verb on objects.
    pub fn resource(verb: &str, object: ResourceRequest) -> Self {
        Self {
            verb: verb.to_owned(),
            object: Wanted::Resource(object),
        }
    }

    /// Attributes of an HTTP request. `is_watch` and `selected` come from the query of a list.
    pub fn of_request(method: &Method, path: &str, is_watch: bool, selected: Selected<'_>) -> Self {
        let path_request = || Self {
            verb: method.as_str().to_lowercase(),
            object: Wanted::Path(path.to_owned()),
        };
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, parts) = match parts.as_slice() {
            ["api", _version, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _version, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => return path_request(),
        };
        let (legacy, parts) = match parts {
            [verb @ ("watch" | "proxy"), rest @ ..] if !rest.is_empty() => (Some(*verb), rest),
            parts => (None, parts),
        };
        let (namespace, parts) = match parts {
            ["namespaces", namespace, next, ..] if !matches!(*next, "status" | "finalize") => {
                (*namespace, &parts[2..])
            }
            ["namespaces", namespace, ..] => (*namespace, parts),
            parts => ("", parts),
        };
        let at = |index: usize| parts.get(index).copied().unwrap_or_default();
        let resource = at(0);
        let mut name = at(1);
        let subresource = if legacy == Some("proxy") { "" } else { at(2) };
        let verb = match (legacy, method.as_str()) {
            (Some(verb), _) => verb,
            (None, "POST") => "create",
            (None, "GET" | "HEAD") if name.is_empty() => {
                name = selected.name.unwrap_or_default();
                if is_watch { "watch" } else { "list" }
            }
            (None, "GET" | "HEAD") => "get",
            (None, "PUT") => "update",
            (None, "PATCH") => "patch",
            (None, "DELETE") if name.is_empty() => "deletecollection",
            (None, "DELETE") => "delete",
            _ => "",
        };
        Self::resource(
            verb,
            ResourceRequest {
                group: group.to_owned(),
                resource: resource.to_owned(),
                subresource: subresource.to_owned(),
                namespace: percent_decode(namespace),
                name: percent_decode(name),
                node: selected.node.unwrap_or_default().to_owned(),
            },
        )
    }

    /// The 403 answer for this user. `reason` tells why rules are missing, and may be empty.
    pub fn forbidden(&self, user: &User, reason: &str) -> Status {
        let verb = &self.verb;
        let name = &user.name;
        let mut why = match &self.object {
            Wanted::Path(path) => format!("User {name:?} cannot {verb} path {path:?}"),
            Wanted::Resource(object) => {
                let scope = match object.namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                let resource = object.full_name();
                let group = &object.group;
                format!(
                    "User {name:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}"
                )
            }
        };
        // Upstream escapes these characters, so that browsers cannot take the answer for HTML.
        why = why
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        match &self.object {
            Wanted::Path(_) => Status::forbidden_path(&why),
            Wanted::Resource(object) => Status::forbidden(
                Qualified {
                    group: &object.group,
                    name: &object.resource,
                },
                &object.name,
                &why,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_verbs_on_resources() {
        // (method, path, is watch, name in the field selector, verb group/resource namespace name)
        let cases = [
            ("GET", "/api/v1/pods", false, None, "list /pods  "),
            (
                "GET",
                "/api/v1/namespaces/n/pods",
                true,
                None,
                "watch /pods n ",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/pods",
                true,
                Some("p"),
                "watch /pods n p",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/pods/p",
                true,
                None,
                "get /pods n p",
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/n/deployments/d/status",
                false,
                None,
                "patch apps/deployments/status n d",
            ),
            (
                "POST",
                "/api/v1/namespaces/n/serviceaccounts/s/token",
                false,
                None,
                "create /serviceaccounts/token n s",
            ),
            (
                "GET",
                "/api/v1/namespaces/n",
                false,
                None,
                "get /namespaces n n",
            ),
            (
                "PUT",
                "/api/v1/namespaces/n/finalize",
                false,
                None,
                "update /namespaces/finalize n n",
            ),
            (
                "GET",
                "/api/v1/namespaces",
                false,
                None,
                "list /namespaces  ",
            ),
            (
                "DELETE",
                "/api/v1/namespaces/n/pods",
                false,
                None,
                "deletecollection /pods n ",
            ),
            ("DELETE", "/api/v1/nodes/a", false, None, "delete /nodes  a"),
            (
                "GET",
                "/api/v1/watch/namespaces/n/pods/p",
                false,
                None,
                "watch /pods n p",
            ),
            (
                "GET",
                "/apis/g.example/v9/foos/a%3Ab",
                false,
                None,
                "get g.example/foos  a:b",
            ),
            (
                "GET",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/",
                false,
                None,
                "list rbac.authorization.k8s.io/clusterroles  ",
            ),
            ("GET", "/apis/apps/v1", false, None, "get /apis/apps/v1"),
            ("GET", "/api", false, None, "get /api"),
            ("POST", "/healthz", false, None, "post /healthz"),
        ];
        for (method, path, is_watch, name, expected) in cases {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let selected = Selected { name, node: None };
            let attributes = Attributes::of_request(&method, path, is_watch, selected);
            let found = match &attributes.object {
                Wanted::Path(path) => path.clone(),
                Wanted::Resource(object) => {
                    format!(
                        "{}/{} {} {}",
                        object.group,
                        object.full_name(),
                        object.namespace,
                        object.name
                    )
                }
            };
            assert_eq!(
                format!("{} {found}", attributes.verb),
                expected,
                "{method} {path}"
            );
        }
    }
}
