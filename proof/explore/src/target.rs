//! The parts of a request that decide about its way.

use http::request::Parts;
use http::{Method, header};
use serde_json::Value;
use steersman_perturb::AGENT;

/// Media type of watches of metadata only.
const METADATA: &str = "as=PartialObjectMetadata";

/// A request of a manager.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Number of the manager.
    pub(crate) instance: usize,
    /// Identity of the controller, from the end of the user agent.
    pub(crate) identity: String,
    /// `create`, `update`, `patch`, `delete`, `get`, `list` or `watch`.
    pub(crate) verb: &'static str,
    /// Plural resource; empty for discovery.
    pub(crate) resource: String,
    /// Path without the query.
    pub(crate) path: String,
    /// The query.
    pub(crate) query: String,
    /// Whether only metadata is asked for.
    pub(crate) is_metadata: bool,
    /// The body, if it is JSON.
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn of(parts: &Parts, body: &[u8]) -> Self {
        let header = |name: header::HeaderName| {
            let value = parts.headers.get(name);
            value.and_then(|value| value.to_str().ok()).unwrap_or("")
        };
        let agent = header(header::USER_AGENT);
        let instance = agent
            .split_once(AGENT)
            .and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
        let path = parts.uri.path();
        let query = parts.uri.query().unwrap_or_default();
        let (resource, is_named) = resource_of(path);
        Self {
            instance: instance.unwrap_or(0),
            identity: agent.rsplit('/').next().unwrap_or_default().to_owned(),
            verb: verb_of(&parts.method, is_named, query),
            resource,
            path: path.to_owned(),
            query: query.to_owned(),
            is_metadata: header(header::ACCEPT).contains(METADATA),
            body: serde_json::from_slice(body).unwrap_or_default(),
        }
    }

    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }

    /// The request as actions name it. A created object without a name has the prefix of its name.
    pub(crate) fn label(&self) -> String {
        let metadata = &self.body["metadata"];
        let name = match (self.verb, &metadata["name"], &metadata["generateName"]) {
            ("create", Value::String(name), _) => format!("/{name}"),
            ("create", _, Value::String(prefix)) => format!("/{prefix}*"),
            _ => String::new(),
        };
        let path = self
            .path
            .trim_start_matches("/apis/")
            .trim_start_matches("/api/");
        format!("{} {} {path}{name}", self.identity, self.verb)
    }

    /// The name of a watch: its resource, the form and the selection.
    pub(crate) fn watch_name(&self) -> String {
        let form = if self.is_metadata { " metadata" } else { "" };
        let selection = self
            .query
            .split('&')
            .find(|part| part.starts_with("fieldSelector"))
            .map_or_else(String::new, |part| format!(" {part}"));
        format!("{}{form}{selection}", self.resource)
    }
}

fn verb_of(method: &Method, is_named: bool, query: &str) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ if query.split('&').any(|part| part == "watch=true") => "watch",
        _ if is_named => "get",
        _ => "list",
    }
}

/// The plural resource of a path, and whether the path names an object.
fn resource_of(path: &str) -> (String, bool) {
    let mut segments = path.trim_start_matches('/').split('/');
    let skipped = match segments.next() {
        Some("api") => 0,
        Some("apis") => 1,
        _ => return (String::new(), false),
    };
    // The version, and for named groups the group before it.
    let rest: Vec<&str> = segments.skip(skipped + 1).collect();
    let within = match rest.as_slice() {
        ["namespaces", _, within @ ..] if !within.is_empty() => within,
        all => all,
    };
    let resource = within.first().copied().unwrap_or_default();
    (resource.to_owned(), within.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_the_resource_and_whether_it_names_an_object() {
        // (path, resource, names an object)
        let cases = [
            ("/api/v1/pods", "pods", false),
            ("/api/v1/namespaces/default/pods", "pods", false),
            ("/api/v1/namespaces/default/pods/web", "pods", true),
            ("/api/v1/namespaces/default/pods/web/status", "pods", true),
            (
                "/apis/apps/v1/namespaces/default/replicasets/a",
                "replicasets",
                true,
            ),
            ("/api/v1/nodes/node-a", "nodes", true),
            ("/api/v1/namespaces/default", "namespaces", true),
            ("/apis/apps/v1", "", false),
            ("/openapi/v3", "", false),
        ];
        for (path, resource, is_named) in cases {
            assert_eq!(resource_of(path), (resource.to_owned(), is_named), "{path}");
        }
    }
}
