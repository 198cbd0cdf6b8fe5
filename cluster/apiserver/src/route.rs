//! Maps paths and methods to resources, objects and verbs.
//!
//! Upstream is `apiserver/pkg/endpoints/request/requestinfo.go` and the routes of
//! `apiserver/pkg/endpoints/installer.go`.

use std::sync::Arc;

use http::Method;
use percent_encoding::percent_decode_str;

use crate::kinds::{Resource, Subresource};
use crate::registry::{Registered, Registry};
use crate::status::Status;

/// The verb of a request for objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Stream changes of a collection.
    Watch,
    /// `POST`.
    Create,
    /// `PUT`.
    Update,
    /// `PATCH`.
    Patch,
    /// `DELETE` of one object.
    Delete,
    /// `DELETE` of a collection.
    DeleteCollection,
}

impl Verb {
    /// Name of the verb in RBAC and discovery.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// The resource, object or subresource that a path names.
#[derive(Debug, Clone)]
pub struct Target {
    /// The resource.
    pub entry: Arc<Registered>,
    /// Namespace; empty for cluster-scoped resources and for collections over all namespaces.
    pub namespace: String,
    /// Name of the object; empty for collections.
    pub name: String,
    /// The subresource, if the path names one.
    pub subresource: Option<&'static Subresource>,
    /// Whether the path has the deprecated `/watch/` prefix.
    pub(crate) legacy_watch: bool,
}

impl Target {
    /// The resource in the table of kinds.
    pub fn resource(&self) -> &Resource {
        &self.entry.resource
    }

    /// Name of the resource for RBAC and logs: `pods` or `pods/status`.
    pub fn resource_name(&self) -> String {
        let plural = &self.resource().plural;
        self.subresource.map_or_else(
            || plural.to_string(),
            |part| format!("{plural}/{}", part.name),
        )
    }

    /// Key of the object in the store.
    pub fn key(&self) -> String {
        self.key_of(&self.name)
    }

    /// Key of another object in the same namespace.
    pub fn key_of(&self, name: &str) -> String {
        if self.namespace.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.namespace)
        }
    }

    /// Prefix of all keys of the collection.
    pub fn prefix(&self) -> String {
        if self.namespace.is_empty() {
            String::new()
        } else {
            format!("{}/", self.namespace)
        }
    }

    /// The verb of a method; 405 if the resource does not support it, and 404 for a name of what is only created.
    pub fn verb(&self, method: &Method, watch: bool) -> Result<Verb, Status> {
        let collection = self.name.is_empty();
        if !collection && self.subresource.is_none() && self.resource().verbs == ["create"] {
            return Err(Status::no_such_resource());
        }
        let verb = match (method.as_str(), collection) {
            ("GET", _) if self.legacy_watch => Verb::Watch,
            ("GET", true) if watch => Verb::Watch,
            ("GET", true) => Verb::List,
            ("GET", false) => Verb::Get,
            ("POST", true) => Verb::Create,
            ("POST", false) if self.subresource.is_some() => Verb::Create,
            ("PUT", false) => Verb::Update,
            ("PATCH", false) => Verb::Patch,
            ("DELETE", false) => Verb::Delete,
            ("DELETE", true) => Verb::DeleteCollection,
            _ => return Err(Status::method_not_allowed()),
        };
        let resource = self.resource();
        let verbs = self.subresource.map_or(resource.verbs, |sub| sub.verbs);
        if verb == Verb::Watch && !verbs.contains(&"watch") && verbs.contains(&"list") {
            return Err(Status::method_not_supported(resource.named(), "watch"));
        }
        let everywhere = collection && resource.namespaced && self.namespace.is_empty();
        if !verbs.contains(&verb.as_str())
            || (everywhere && !matches!(verb, Verb::List | Verb::Watch))
        {
            return Err(Status::method_not_allowed());
        }
        Ok(verb)
    }
}

/// The values of a custom or external metric.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricPath {
    /// Group and version of the metrics API.
    pub api_version: String,
    /// Namespace.
    pub namespace: String,
    /// The described objects, such as `ingresses.networking.k8s.io`; empty for external metrics.
    pub resource: String,
    /// Name of the described object, or `*`.
    pub name: String,
    /// Name of the metric.
    pub metric: String,
}

impl MetricPath {
    /// Whether the metric describes no object.
    pub fn is_external(&self) -> bool {
        self.resource.is_empty()
    }

    /// The values at a path below a group version; `None` for other groups and paths.
    fn parse(group: &str, version: &str, rest: &[&str]) -> Option<Self> {
        let (resource, name, (namespace, metric)) = match (group, rest) {
            ("custom.metrics.k8s.io", ["namespaces", namespace, "metrics", metric]) => {
                ("namespaces", *namespace, (namespace, metric))
            }
            ("custom.metrics.k8s.io", ["namespaces", namespace, resource, name, metric]) => {
                (*resource, *name, (namespace, metric))
            }
            ("external.metrics.k8s.io", ["namespaces", namespace, metric]) => {
                ("", "", (namespace, metric))
            }
            _ => return None,
        };
        Some(Self {
            api_version: format!("{group}/{version}"),
            namespace: percent_decode(namespace),
            resource: percent_decode(resource),
            name: percent_decode(name),
            metric: percent_decode(metric),
        })
    }
}

/// The document or objects at a path.
#[derive(Debug)]
pub enum Route {
    /// Objects of a resource.
    Objects(Target),
    /// Values of a custom or external metric.
    MetricValues(MetricPath),
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/<group>`.
    Group(String),
    /// `/api/v1`, `/apis/<group>/<version>`.
    GroupVersion(String, String),
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3` and below, with the rest of the path.
    OpenApi(String),
    /// `/`.
    Root,
    /// `/.well-known/openid-configuration`.
    Issuer,
    /// `/openid/v1/jwks`.
    KeySet,
    /// `/metrics`.
    Metrics,
    /// `/version`.
    Version,
    /// `/healthz`, `/livez` or `/readyz`, or one check of it.
    Health {
        /// `healthz`, `livez` or `readyz`.
        probe: String,
        /// Name of the check, such as `ping` or `poststarthook/rbac/bootstrap-roles`.
        check: Option<String>,
    },
    /// A path outside the API. Upstream answers in plain text.
    Nothing,
    /// A subresource that custom resources do not have.
    NoSuchPart(Target),
    /// A path below a known group that is not served.
    NoSuchResource,
}

impl Route {
    /// Whether the route is a discovery document: groups, versions or resources.
    pub(crate) fn is_discovery(&self) -> bool {
        matches!(
            self,
            Self::CoreVersions | Self::Groups | Self::Group(_) | Self::GroupVersion(..)
        )
    }

    /// The route of `path`.
    pub fn parse(registry: &Registry, path: &str) -> Self {
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        let segments: Vec<&str> = path.split('/').collect();
        match segments.as_slice() {
            ["api" | "apis", ..] if segments.contains(&"") => Self::NoSuchResource,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["api", version, rest @ ..] => Self::below(registry, "", version, rest),
            ["apis", group]
                if registry
                    .groups()
                    .iter()
                    .any(|known| !group.is_empty() && known.name == *group) =>
            {
                Self::Group((*group).to_owned())
            }
            ["apis", group, version, rest @ ..] => Self::below(registry, group, version, rest),
            [""] => Self::Root,
            [".well-known", "openid-configuration"] => Self::Issuer,
            ["openid", "v1", "jwks"] => Self::KeySet,
            ["metrics"] => Self::Metrics,
            ["version"] => Self::Version,
            [probe @ ("healthz" | "livez" | "readyz"), check @ ..] => Self::Health {
                probe: (*probe).to_owned(),
                check: (!check.is_empty()).then(|| check.join("/")),
            },
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3", rest @ ..] => Self::OpenApi(rest.join("/")),
            _ => Self::Nothing,
        }
    }

    /// The route of a path below a group version. An unknown group is a plain 404, an unknown
    /// version a 404 with a Status.
    fn below(registry: &Registry, group: &str, version: &str, rest: &[&str]) -> Self {
        match registry.has_version(group, version) {
            None => return Self::Nothing,
            Some(false) => return Self::NoSuchResource,
            Some(true) => {}
        }
        if rest.is_empty() {
            return Self::GroupVersion(group.to_owned(), version.to_owned());
        }
        if let Some(path) = MetricPath::parse(group, version, rest) {
            return Self::MetricValues(path);
        }
        match target(registry, group, version, rest) {
            Some((target, "")) => Self::Objects(target),
            Some((target, _)) if target.resource().custom.is_some() => Self::NoSuchPart(target),
            _ => Self::NoSuchResource,
        }
    }
}

/// The target of a path, and the name of a subresource that the resource lacks.
fn target<'a>(
    registry: &Registry,
    group: &str,
    version: &str,
    rest: &[&'a str],
) -> Option<(Target, &'a str)> {
    let (legacy_watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, plural, rest) = match rest {
        ["namespaces", namespace, part]
            if group.is_empty() && matches!(*part, "status" | "finalize") =>
        {
            ("", "namespaces", &[*namespace, *part][..])
        }
        ["namespaces", namespace, plural, rest @ ..] => (*namespace, *plural, rest),
        [plural, rest @ ..] => ("", *plural, rest),
        [] => return None,
    };
    let entry = registry.find(group, version, plural)?;
    let (name, part) = match rest {
        [] => ("", ""),
        [name] => (*name, ""),
        [name, part] => (*name, *part),
        // The rest of the path belongs to the program behind the proxy.
        [name, "proxy", ..] => (*name, "proxy"),
        _ => return None,
    };
    let namespaced = entry.resource.namespaced;
    if (!namespaced && !namespace.is_empty())
        || (namespaced && namespace.is_empty() && !name.is_empty())
    {
        return None;
    }
    let subresource = entry.resource.subresource(part);
    let unknown = if subresource.is_none() { part } else { "" };
    Some((
        Target {
            namespace: percent_decode(namespace),
            name: percent_decode(name),
            subresource,
            legacy_watch,
            entry,
        },
        unknown,
    ))
}

/// Decodes percent escapes. Text that is not a valid escape stays.
pub(crate) fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_resources_objects_and_subresources() {
        let registry = Registry::built_in();
        // (path, expected plural|namespace|name|subresource)
        let cases = [
            ("/api/v1/pods", "pods|||"),
            ("/api/v1/nodes/", "nodes|||"),
            ("/api/v1/namespaces/n/pods/p", "pods|n|p|"),
            ("/api/v1/namespaces/n/pods/p/status", "pods|n|p|status"),
            ("/api/v1/namespaces/n", "namespaces||n|"),
            ("/api/v1/namespaces/n/finalize", "namespaces||n|finalize"),
            (
                "/apis/apps/v1/namespaces/n/deployments/d/scale",
                "deployments|n|d|scale",
            ),
            ("/api/v1/watch/namespaces/n/pods/p", "pods|n|p|"),
            (
                "/api/v1/namespaces/n/services/http:s:80/proxy/a/b",
                "services|n|http:s:80|proxy",
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "clusterroles||system:node|",
            ),
        ];
        for (path, expected) in cases {
            let Route::Objects(target) = Route::parse(&registry, path) else {
                panic!("{path} names objects")
            };
            let part = target.subresource.map_or("", |sub| sub.name);
            let found = format!(
                "{}|{}|{}|{part}",
                target.resource().plural,
                target.namespace,
                target.name
            );
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn metrics_are_served_below_their_groups() {
        let registry = Registry::built_in();
        let path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/pods/*/qps";
        assert!(matches!(Route::parse(&registry, path), Route::Nothing));
        crate::kinds::metrics()
            .into_iter()
            .for_each(|row| registry.add(row));
        // (path below /apis, namespace|resource|name|metric)
        let cases = [
            (
                "custom.metrics.k8s.io/v1beta2/namespaces/n/pods/*/qps",
                "n|pods|*|qps",
            ),
            (
                "custom.metrics.k8s.io/v1beta2/namespaces/n/a.b.c/o/m",
                "n|a.b.c|o|m",
            ),
            (
                "custom.metrics.k8s.io/v1beta2/namespaces/n/metrics/m",
                "n|namespaces|n|m",
            ),
            (
                "external.metrics.k8s.io/v1beta1/namespaces/n/q%2Fa",
                "n|||q/a",
            ),
        ];
        for (path, expected) in cases {
            let Route::MetricValues(found) = Route::parse(&registry, &format!("/apis/{path}"))
            else {
                panic!("{path} names a metric")
            };
            let MetricPath {
                namespace,
                resource,
                name,
                metric,
                ..
            } = found;
            assert_eq!(format!("{namespace}|{resource}|{name}|{metric}"), expected);
        }
        let path = "/apis/metrics.k8s.io/v1beta1/namespaces/n/pods";
        assert!(matches!(Route::parse(&registry, path), Route::Objects(_)));
    }

    #[test]
    fn bindings_and_reviews_are_created_only() {
        let registry = Registry::built_in();
        for (method, path, expected) in [
            (
                Method::POST,
                "/api/v1/namespaces/n/bindings",
                Ok(Verb::Create),
            ),
            (Method::GET, "/api/v1/namespaces/n/bindings", Err(405)),
            (Method::PATCH, "/api/v1/namespaces/n/bindings/b", Err(404)),
            (
                Method::PUT,
                "/apis/authentication.k8s.io/v1/tokenreviews/t",
                Err(404),
            ),
            (
                Method::POST,
                "/api/v1/namespaces/n/pods/p/binding",
                Ok(Verb::Create),
            ),
        ] {
            let Route::Objects(target) = Route::parse(&registry, path) else {
                panic!("{path} names objects")
            };
            let verb = target.verb(&method, false);
            assert_eq!(verb.map_err(|status| status.code), expected, "{path}");
        }
    }

    #[test]
    fn names_of_health_checks_may_have_several_parts() {
        let route = Route::parse(
            &Registry::built_in(),
            "/readyz/poststarthook/rbac/bootstrap-roles",
        );
        assert!(matches!(
            route,
            Route::Health { check: Some(check), .. } if check == "poststarthook/rbac/bootstrap-roles"
        ));
    }

    #[test]
    fn only_two_hexadecimal_digits_are_an_escape() {
        for (text, expected) in [
            ("a%2Fb%2f", "a/b/"),
            ("%+f%-1%1", "%+f%-1%1"),
            ("100%", "100%"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(percent_decode(text), expected, "{text}");
        }
    }

    #[test]
    fn unknown_paths_are_outside_the_api_or_not_served() {
        let registry = Registry::built_in();
        for path in [
            "/api/v1/foos",
            "/api/v1/namespaces/n/nodes",
            "/apis/apps/v9",
            "/api//v1",
            "/api/v1/pods/p",
        ] {
            assert!(
                matches!(Route::parse(&registry, path), Route::NoSuchResource),
                "{path}"
            );
        }
        for path in ["/foo", "/apis/nope", "/apis/nope/v1/foos"] {
            assert!(
                matches!(Route::parse(&registry, path), Route::Nothing),
                "{path}"
            );
        }
    }
}
