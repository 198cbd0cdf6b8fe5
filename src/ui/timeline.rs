//! The last writes of the controllers: time, controller, object, and the reason.
//!
//! client -> witness -> ring -> parsed for a reader, without objects that the caller may not get
//!
//! The reason of a write is the object whose sync sent it. The reason of an Event is its own.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use steersman_client::Write;
use steersman_values::resource::ResourceType;

use super::Shared;
use crate::access::Caller;

/// Writes in the ring.
const WRITES: usize = 1000;
/// The longest text of a write, in bytes; with [`WRITES`] and [`BYTES`] it limits the memory.
const LONGEST: usize = 300;
/// The texts of all writes together, in bytes.
const BYTES: usize = 96 * 1024;
/// Namespaces in which the rights of a caller are asked for, for one answer.
const REVIEWS: usize = 200;

/// The ring. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Timeline(Shared<Ring>);

#[derive(Default)]
struct Ring {
    writes: VecDeque<Kept>,
    bytes: usize,
    /// One text per client.
    clients: Vec<String>,
}

/// A write as it is kept, in few bytes.
struct Kept {
    at: i64,
    /// Its place in [`Ring::clients`].
    client: u16,
    method: Method,
    code: u16,
    /// Path, key of the sync, reason and message, with line ends between them.
    text: Box<str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    Create,
    Replace,
    Patch,
    Delete,
}

/// A write as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Shown {
    at: i64,
    by: String,
    verb: &'static str,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    code: u16,
    /// The object of the sync.
    sync: String,
    reason: String,
    message: String,
}

/// The parts of an answer that name the object and the reason.
#[derive(Deserialize, Default)]
struct Answered {
    #[serde(default)]
    metadata: Named,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default, rename = "involvedObject")]
    involved: Involved,
}

#[derive(Deserialize, Default)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize, Default)]
struct Involved {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
}

impl Timeline {
    /// Keeps `write`.
    pub(super) fn record(&self, now: Timestamp, write: &Write<'_>) {
        let method = match write.method {
            "POST" => Method::Create,
            "PUT" => Method::Replace,
            "PATCH" => Method::Patch,
            _ => Method::Delete,
        };
        // Reviews are questions, not changes.
        let is_question = write.path.contains("/apis/authorization.k8s.io/")
            || write.path.contains("/apis/authentication.k8s.io/");
        if is_question {
            return;
        }
        let text = text_of(write, method);
        let mut ring = self.0.lock();
        let client = ring.client(write.client);
        ring.push(Kept {
            at: now.as_millisecond(),
            client,
            method,
            code: write.code.unwrap_or_default(),
            text,
        });
    }

    /// The writes that name no object which `caller` may not get, newest first.
    pub(super) async fn view(&self, caller: &Caller) -> Value {
        let shown: Vec<Shown> = {
            let ring = self.0.lock();
            ring.shown().collect()
        };
        let mut rights = Rights {
            caller,
            known: HashMap::new(),
        };
        let mut items = Vec::new();
        let mut withheld = 0;
        for write in shown {
            if rights.allow(&write).await {
                items.push(write);
            } else {
                withheld += 1;
            }
        }
        json!({ "items": items, "withheld": withheld })
    }
}

/// Path, key, reason and message of a write, not longer than [`LONGEST`].
fn text_of(write: &Write<'_>, method: Method) -> Box<str> {
    let is_event = write.path.ends_with("/events") || write.path.contains("/events/");
    let is_create = method == Method::Create;
    let has_name = write.code.is_some_and(|code| code < 300) && (is_create || is_event);
    let answered: Answered = if has_name {
        serde_json::from_slice(write.answer).unwrap_or_default()
    } else {
        Answered::default()
    };
    let mut path = write.path.to_owned();
    // The name of a created object is in the answer. Subresources such as `token` have theirs in the
    // path.
    if is_create && !answered.metadata.name.is_empty() && is_collection(&path) {
        path = format!("{path}/{}", answered.metadata.name);
    }
    let sync = write.sync.as_deref().unwrap_or_default();
    let mut text = if is_event {
        let involved = answered.involved;
        let kind = involved.kind.to_lowercase();
        let object = format!("{kind}/{}", involved.name);
        format!(
            "{path}\n{object}\n{}\n{}",
            answered.reason, answered.message
        )
    } else {
        format!("{path}\n{sync}")
    };
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
    }
    text.into_boxed_str()
}

/// Whether `path` ends with a plural name.
fn is_collection(path: &str) -> bool {
    parse(path).is_some_and(|(_, name)| name.is_empty())
}

impl Ring {
    /// The place of the client with this user agent.
    fn client(&mut self, agent: &str) -> u16 {
        let name = agent.rsplit(['/', ':']).next().unwrap_or(agent);
        let known = self.clients.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            self.clients.push(name.to_owned());
            self.clients.len() - 1
        });
        // A manager has some dozen clients.
        u16::try_from(place).unwrap_or(u16::MAX)
    }

    /// The writes, newest first.
    fn shown(&self) -> impl Iterator<Item = Shown> {
        self.writes.iter().rev().map(|kept| {
            let client = self.clients.get(usize::from(kept.client));
            Shown::of(kept, client.map(String::as_str).unwrap_or_default())
        })
    }

    fn push(&mut self, write: Kept) {
        self.bytes += write.text.len();
        self.writes.push_back(write);
        while self.writes.len() > WRITES || self.bytes > BYTES {
            let Some(oldest) = self.writes.pop_front() else {
                return;
            };
            self.bytes -= oldest.text.len();
        }
    }
}

/// The type of a path and the rest: namespace, name, subresource.
fn parse(path: &str) -> Option<(Place<'_>, &str)> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, version, rest) = match &parts[..] {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        // `namespaces/x/status` and `namespaces/x/finalize` are about the namespace itself.
        ["namespaces", namespace, resource, rest @ ..]
            if !matches!(*resource, "status" | "finalize") =>
        {
            (*namespace, [&[*resource], rest].concat())
        }
        rest => ("", rest.to_vec()),
    };
    let part = |at: usize| rest.get(at).copied().unwrap_or_default();
    let place = Place {
        group,
        version,
        namespace,
        resource: part(0),
        subresource: part(2),
    };
    Some((place, part(1)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place<'a> {
    group: &'a str,
    version: &'a str,
    namespace: &'a str,
    resource: &'a str,
    subresource: &'a str,
}

impl Shown {
    fn of(kept: &Kept, client: &str) -> Self {
        let mut lines = kept.text.split('\n');
        let path = lines.next().unwrap_or_default();
        let sync = lines.next();
        let reason = lines.next();
        let message: Vec<&str> = lines.collect();
        let (place, name) = parse(path).unwrap_or((
            Place {
                group: "",
                version: "",
                namespace: "",
                resource: path,
                subresource: "",
            },
            "",
        ));
        Self {
            at: kept.at,
            by: client.to_owned(),
            verb: match kept.method {
                Method::Create => "create",
                Method::Replace => "update",
                Method::Patch => "patch",
                Method::Delete => "delete",
            },
            group: place.group.to_owned(),
            resource: place.resource.to_owned(),
            subresource: place.subresource.to_owned(),
            namespace: place.namespace.to_owned(),
            name: name.to_owned(),
            code: kept.code,
            sync: sync.unwrap_or_default().to_owned(),
            reason: reason.unwrap_or_default().to_owned(),
            message: message.join(" "),
        }
    }
}

/// The rights of a caller, asked for once per type and namespace.
struct Rights<'a> {
    caller: &'a Caller,
    known: HashMap<(String, String, String), bool>,
}

impl Rights<'_> {
    async fn allow(&mut self, write: &Shown) -> bool {
        let group = write.group.clone();
        let plural = write.resource.clone();
        if self.may_get(&group, &plural, "").await {
            return true;
        }
        !write.namespace.is_empty() && self.may_get(&group, &plural, &write.namespace).await
    }

    async fn may_get(&mut self, group: &str, plural: &str, namespace: &str) -> bool {
        let key = (group.to_owned(), plural.to_owned(), namespace.to_owned());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if self.known.len() >= REVIEWS {
            return false;
        }
        let of = ResourceType {
            group: group.to_owned().into(),
            version: "v1".into(),
            kind: "".into(),
            plural: plural.to_owned().into(),
            namespaced: true,
        };
        let allowed = self.caller.may_get(&of, namespace, "").await;
        self.known.insert(key, allowed);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write<'a>(
        method: &'a str,
        path: &'a str,
        answer: &'a [u8],
        sync: Option<&str>,
    ) -> Write<'a> {
        Write {
            client: "kube-controller-manager/v1.36.2 (linux/amd64) kubernetes/abc/job-controller",
            method,
            path,
            code: Some(200),
            answer,
            sync: sync.map(Into::into),
        }
    }

    fn shown(write: &Write<'_>) -> Option<Shown> {
        let timeline = Timeline::default();
        timeline.record(Timestamp::UNIX_EPOCH, write);
        let ring = timeline.0.lock();
        ring.shown().next()
    }

    #[test]
    fn a_write_names_its_object_and_the_object_of_its_sync() {
        let body = br#"{"kind":"Pod","metadata":{"name":"web-x"}}"#;
        let created = write(
            "POST",
            "/api/v1/namespaces/shop/pods",
            body,
            Some("shop/web"),
        );
        let found = shown(&created).unwrap();
        assert_eq!(
            (
                found.by.as_str(),
                found.verb,
                found.resource.as_str(),
                found.name.as_str()
            ),
            ("job-controller", "create", "pods", "web-x")
        );
        assert_eq!(
            (found.namespace.as_str(), found.sync.as_str()),
            ("shop", "shop/web")
        );
        let patched = write(
            "PATCH",
            "/apis/apps/v1/namespaces/shop/deployments/web/status",
            b"",
            None,
        );
        let found = shown(&patched).unwrap();
        assert_eq!(
            (
                found.group.as_str(),
                found.name.as_str(),
                found.subresource.as_str()
            ),
            ("apps", "web", "status")
        );
        let finalized = write("PUT", "/api/v1/namespaces/shop/finalize", b"", None);
        let found = shown(&finalized).unwrap();
        assert_eq!(
            (
                found.resource.as_str(),
                found.name.as_str(),
                found.subresource.as_str()
            ),
            ("namespaces", "shop", "finalize")
        );
    }

    #[test]
    fn an_event_tells_its_reason_and_its_object() {
        let body =
            br#"{"metadata":{"name":"web.1"},"reason":"SuccessfulCreate","message":"Created\npod",
            "involvedObject":{"kind":"ReplicaSet","name":"web"}}"#;
        let event = write("POST", "/api/v1/namespaces/shop/events", body, None);
        let found = shown(&event).unwrap();
        assert_eq!(
            (found.reason.as_str(), found.sync.as_str()),
            ("SuccessfulCreate", "replicaset/web")
        );
        assert_eq!(found.message, "Created pod");
    }

    #[test]
    fn reviews_are_not_kept() {
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        assert_eq!(shown(&write("POST", path, b"{}", None)), None);
    }

    #[test]
    fn the_ring_keeps_a_thousand_writes_and_a_limited_number_of_bytes() {
        let timeline = Timeline::default();
        let name = "ü".repeat(400);
        for number in 0..3000 {
            let path = format!("/api/v1/namespaces/shop/pods/{number}-{name}");
            let path = if number < 1500 {
                "/api/v1/nodes/a"
            } else {
                &path
            };
            timeline.record(Timestamp::UNIX_EPOCH, &write("DELETE", path, b"", None));
            let ring = timeline.0.lock();
            assert!(ring.writes.len() <= WRITES && ring.bytes <= BYTES);
            if number == 1499 {
                assert_eq!(ring.writes.len(), WRITES);
            }
        }
        let ring = timeline.0.lock();
        let sum: usize = ring.writes.iter().map(|write| write.text.len()).sum();
        assert_eq!((ring.bytes, ring.clients.len()), (sum, 1));
    }
}
