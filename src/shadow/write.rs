//! A held-back write, in the words of the API.
//!
//! [`HeldWrite`] (method, path, bytes) -> [`Write`] (verb, resource, name, body)

use http::Method;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use steersman_client::HeldWrite;

use super::context::Context;

/// The change that a write asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Verb {
    /// POST of an object with a name.
    Create,
    /// POST of an object whose name the API server completes.
    Generate,
    /// PUT.
    Update,
    /// PATCH whose lists replace lists.
    Merge,
    /// PATCH whose lists merge by key: a strategic merge patch, or server-side apply.
    Strategic,
    /// PATCH by operations.
    JsonPatch,
    /// DELETE of one object, or an eviction.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

impl Verb {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create | Self::Generate => "create",
            Self::Update => "update",
            Self::Merge | Self::Strategic | Self::JsonPatch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// A write that was held back.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Write {
    pub(super) verb: Verb,
    /// `pods`, `deployments.apps`.
    pub(super) resource: String,
    pub(super) subresource: Option<String>,
    pub(super) namespace: Option<String>,
    /// `None` for collections and generated names.
    pub(super) name: Option<String>,
    /// Path of the object, or of the collection, at the API server.
    pub(super) path: String,
    pub(super) body: Value,
    /// The controller, and the sync that decided on the write.
    pub(super) context: Context,
}

/// Identifies the same write when a controller sends it again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    controller: String,
    verb: Verb,
    path: String,
    subresource: Option<String>,
    /// The owner of an object with a generated name; the fields of a patch.
    shape: String,
}

/// The parts of a path.
struct Place<'a> {
    group: &'a str,
    namespace: Option<&'a str>,
    resource: &'a str,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
}

fn place(path: &str) -> Option<Place<'_>> {
    let mut parts = path.strip_prefix('/')?.split('/');
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    let _version = parts.next()?;
    let parts: Vec<&str> = parts.collect();
    let (namespace, rest) = match parts.as_slice() {
        // A subresource of the namespace itself.
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, &parts[..]),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        all => (None, all),
    };
    let (resource, name, subresource) = match *rest {
        [resource] => (resource, None, None),
        [resource, name] => (resource, Some(name), None),
        [resource, name, subresource] => (resource, Some(name), Some(subresource)),
        _ => return None,
    };
    Some(Place {
        group,
        namespace,
        resource,
        name,
        subresource,
    })
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

impl Write {
    /// Reads `held`. `None` if its effect is not compared: Events differ in name and time, and a
    /// token is an answer rather than an object.
    pub(super) fn read(held: &HeldWrite, context: Context) -> Option<Self> {
        let place = place(&held.path)?;
        if place.resource == "events" || place.subresource == Some("token") {
            return None;
        }
        let body: Value = serde_json::from_slice(&held.body).unwrap_or(Value::Null);
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
        let named = text("/metadata/name").filter(|name| !name.is_empty());
        let is_eviction = place.subresource == Some("eviction");
        let verb = match (&held.method, held.content_type.as_str()) {
            (&Method::POST, _) if is_eviction => Verb::Delete,
            (&Method::POST, _) if place.name.is_none() && named.is_none() => Verb::Generate,
            (&Method::POST, _) => Verb::Create,
            (&Method::PUT, _) => Verb::Update,
            (&Method::PATCH, "application/merge-patch+json") => Verb::Merge,
            (&Method::PATCH, "application/json-patch+json") => Verb::JsonPatch,
            (&Method::PATCH, _) => Verb::Strategic,
            (&Method::DELETE, _) if place.name.is_none() => Verb::DeleteCollection,
            (&Method::DELETE, _) => Verb::Delete,
            _ => return None,
        };
        let resource = match place.group {
            "" => place.resource.to_owned(),
            group => format!("{}.{group}", place.resource),
        };
        let path = match place.subresource {
            Some(part) => held.path.strip_suffix(&format!("/{part}"))?.to_owned(),
            None => match (verb, named) {
                (Verb::Create, Some(name)) => format!("{}/{name}", held.path),
                _ => held.path.clone(),
            },
        };
        let name = match verb {
            Verb::Create => named.map(str::to_owned),
            _ => place.name.map(decoded),
        };
        Some(Self {
            verb,
            resource,
            subresource: place
                .subresource
                .filter(|_| !is_eviction)
                .map(str::to_owned),
            namespace: place.namespace.map(decoded),
            name: name.or_else(|| place.name.map(decoded)),
            path,
            body,
            context,
        })
    }

    pub(super) fn key(&self) -> Key {
        let shape = match self.verb {
            Verb::Generate => self.owner_uid().or(self.prefix()).unwrap_or("").to_owned(),
            Verb::Merge | Verb::Strategic | Verb::JsonPatch => {
                let mut names = Vec::new();
                leaves(&self.body, "", &mut names);
                names.join(" ")
            }
            _ => String::new(),
        };
        Key {
            controller: self.context.controller.clone(),
            verb: self.verb,
            path: self.path.clone(),
            subresource: self.subresource.clone(),
            shape,
        }
    }

    /// UID of the controller in the owner references of a new object.
    pub(super) fn owner(&self) -> Option<&Value> {
        let owners = self.body.pointer("/metadata/ownerReferences")?.as_array()?;
        let is_controller = |owner: &&Value| owner["controller"] == Value::Bool(true);
        owners.iter().find(is_controller).or(owners.first())
    }

    /// The UID of that owner.
    pub(super) fn owner_uid(&self) -> Option<&str> {
        self.owner()?["uid"].as_str()
    }

    pub(super) fn prefix(&self) -> Option<&str> {
        self.body.pointer("/metadata/generateName")?.as_str()
    }

    /// The path, and the query, that show whether somebody made this write.
    pub(super) fn look_up(&self) -> String {
        if self.verb != Verb::Generate {
            return self.path.clone();
        }
        let labels = self.body.pointer("/metadata/labels");
        let labels = labels.and_then(Value::as_object);
        let selector: Vec<String> = labels
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
            .collect();
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("labelSelector", &selector.join(","));
        format!("{}?{}", self.path, query.finish())
    }

    /// `deployments.apps shop/web/status`.
    pub(super) fn object(&self) -> String {
        let parts = [
            self.namespace.as_deref(),
            self.name.as_deref(),
            self.subresource.as_deref(),
        ];
        let place: Vec<&str> = parts.into_iter().flatten().collect();
        let prefix = match (self.verb, self.prefix()) {
            (Verb::Generate, Some(prefix)) => format!("/{prefix}*"),
            _ => String::new(),
        };
        format!("{} {}{prefix}", self.resource, place.join("/"))
    }

    /// Whether any of several objects does as well: a new one with a generated name, or the pod that a sync
    /// chose to delete. Equal pods have no order that both managers share.
    pub(super) fn is_one_of_many(&self) -> bool {
        let is_pod = self.resource == "pods" && !self.context.key.is_empty();
        self.verb == Verb::Generate || (self.verb == Verb::Delete && is_pod)
    }

    /// Whether values of this object must not be shown.
    pub(super) fn is_secret(&self) -> bool {
        self.resource == "secrets"
    }
}

/// The paths of all fields that a patch has, without values.
fn leaves(patch: &Value, path: &str, names: &mut Vec<String>) {
    match patch {
        Value::Object(members) => members
            .iter()
            .for_each(|(name, value)| leaves(value, &format!("{path}.{name}"), names)),
        Value::Array(items) if items.iter().all(|item| item.get("op").is_some()) => {
            let places = items.iter().filter_map(|item| item["path"].as_str());
            names.extend(places.map(str::to_owned));
        }
        _ => names.push(path.to_owned()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::shadow) fn write(method: Method, path: &str, kind: &str, body: Value) -> Write {
        let held = HeldWrite {
            method,
            path: path.to_owned(),
            query: String::new(),
            content_type: kind.to_owned(),
            body: body.to_string().into(),
            client: "c".to_owned(),
        };
        Write::read(&held, Context::of_client("c")).unwrap()
    }

    const JSON: &str = "application/json";

    #[test]
    fn a_write_is_named_by_verb_and_object() {
        let object = || serde_json::json!({"metadata": {"name": "a"}});
        let child = || serde_json::json!({"metadata": {"generateName": "a-"}});
        // (method, path, body, verb, object, look-up)
        let cases = [
            (
                Method::POST,
                "/api/v1/namespaces/n/pods",
                child(),
                Verb::Generate,
                "pods n/a-*",
                "/api/v1/namespaces/n/pods?labelSelector=",
            ),
            (
                Method::POST,
                "/apis/batch/v1/namespaces/n/jobs",
                object(),
                Verb::Create,
                "jobs.batch n/a",
                "/apis/batch/v1/namespaces/n/jobs/a",
            ),
            (
                Method::POST,
                "/api/v1/namespaces",
                object(),
                Verb::Create,
                "namespaces a",
                "/api/v1/namespaces/a",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/n/pods/p/eviction",
                object(),
                Verb::Delete,
                "pods n/p",
                "/api/v1/namespaces/n/pods/p",
            ),
            (
                Method::PUT,
                "/apis/apps/v1/namespaces/n/deployments/a/status",
                object(),
                Verb::Update,
                "deployments.apps n/a/status",
                "/apis/apps/v1/namespaces/n/deployments/a",
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/n/finalize",
                object(),
                Verb::Update,
                "namespaces n/finalize",
                "/api/v1/namespaces/n",
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/n/status",
                object(),
                Verb::Update,
                "namespaces n/status",
                "/api/v1/namespaces/n",
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/n/pods",
                object(),
                Verb::DeleteCollection,
                "pods n",
                "/api/v1/namespaces/n/pods",
            ),
            (
                Method::DELETE,
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:x",
                object(),
                Verb::Delete,
                "clusterroles.rbac.authorization.k8s.io system:x",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:x",
            ),
        ];
        for (method, path, body, verb, object, look_up) in cases {
            let write = write(method, path, JSON, body);
            assert_eq!(
                (write.verb, &*write.object(), &*write.look_up()),
                (verb, object, look_up),
                "{path}"
            );
        }
    }

    #[test]
    fn events_and_tokens_are_not_compared() {
        for path in [
            "/api/v1/namespaces/n/events",
            "/apis/events.k8s.io/v1/namespaces/n/events/e",
            "/api/v1/namespaces/n/serviceaccounts/s/token",
        ] {
            let held = HeldWrite {
                method: Method::POST,
                path: path.to_owned(),
                query: String::new(),
                content_type: JSON.to_owned(),
                body: "{}".into(),
                client: String::new(),
            };
            assert_eq!(Write::read(&held, Context::of_client("c")), None, "{path}");
        }
    }

    #[test]
    fn patches_of_different_fields_are_different_writes() {
        let patch = |body: &str| {
            let body = serde_json::from_str(body).unwrap();
            write(
                Method::PATCH,
                "/api/v1/nodes/n",
                "application/merge-patch+json",
                body,
            )
            .key()
        };
        let first = patch(r#"{"metadata": {"labels": {"a": "1"}}}"#);
        assert_eq!(first, patch(r#"{"metadata": {"labels": {"a": "2"}}}"#));
        assert_ne!(first, patch(r#"{"metadata": {"labels": {"b": "1"}}}"#));
    }
}
