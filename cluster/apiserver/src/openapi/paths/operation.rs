//! One operation: its ID, description, parameters, body and answers.
//!
//! Upstream is `registerResourceHandlers` of `apiserver/pkg/endpoints/installer.go`, and for custom
//! kinds `buildRoute` of `apiextensions-apiserver/pkg/controller/openapi/builder`.

use serde_json::{Map, Value, json};

use super::parameters;
use crate::kinds::{DeleteAnswer, Resource};
use crate::openapi::schemas::{self, Schemas};

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

pub(super) const JSON: &str = "application/json";
pub(super) const YAML: &str = "application/yaml";
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media types of streams, beside those of objects.
const STREAMS: [&str; 2] = [
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const ANY: &str = "*/*";

/// The action of an operation. The names are upstream's, as in `x-kubernetes-action`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    List,
    Post,
    DeleteCollection,
    Get,
    Put,
    Patch,
    Delete,
    WatchList,
    Watch,
    /// With the HTTP method.
    Connect(&'static str),
}

impl Action {
    /// The verb in discovery; empty for connections, which discovery shows as other verbs.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Post => "create",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::Put => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::WatchList | Self::Watch => "watch",
            Self::Connect(_) => "",
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::List | Self::Get | Self::WatchList | Self::Watch => "get",
            Self::Post => "post",
            Self::DeleteCollection | Self::Delete => "delete",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Connect(method) => method,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Post => "post",
            Self::Put => "put",
            Self::WatchList => "watchlist",
            Self::Connect(_) => "connect",
            other => other.verb(),
        }
    }

    /// The first word of operation IDs.
    fn word(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Post => "create",
            Self::DeleteCollection | Self::Delete => "delete",
            Self::Get => "read",
            Self::Put => "replace",
            Self::Patch => "patch",
            Self::WatchList | Self::Watch => "watch",
            Self::Connect(_) => "connect",
        }
    }

    /// The codes of the answers with an object.
    fn codes(self, custom: bool) -> &'static [(&'static str, &'static str)] {
        const OK: (&str, &str) = ("200", "OK");
        const CREATED: (&str, &str) = ("201", "Created");
        const ACCEPTED: (&str, &str) = ("202", "Accepted");
        match self {
            Self::Post => &[OK, CREATED, ACCEPTED],
            Self::Patch if custom => &[OK],
            Self::Put | Self::Patch => &[OK, CREATED],
            Self::Delete => &[OK, ACCEPTED],
            _ => &[OK],
        }
    }
}

/// The place of an operation: an object, a part of it, or a collection.
pub(super) struct Place<'a> {
    pub(super) resource: &'a Resource,
    /// The subresource; empty for the object itself.
    pub(super) part: &'a str,
    /// The end of the operation ID: `ForAllNamespaces` or `WithPath`.
    pub(super) suffix: &'a str,
    /// The kind of the bodies: group, version and name.
    pub(super) kind: (&'a str, &'a str, &'a str),
    /// The name of this kind in the document; `None` for bodies that are no objects.
    pub(super) definition: Option<&'a str>,
}

impl Place<'_> {
    fn is_custom(&self) -> bool {
        self.resource.custom.is_some()
    }

    /// The operation with all its parameters.
    pub(super) fn operation(&self, action: Action, schemas: &mut Schemas) -> Value {
        let (group, version, kind) = self.kind;
        let answer = self.answer(action, schemas);
        let produced = self.produced(action);
        let content: Map<String, Value> = produced
            .iter()
            .map(|media| ((*media).to_owned(), json!({"schema": answer})))
            .collect();
        let codes = action.codes(self.is_custom()).iter();
        let mut answers: Map<String, Value> = codes
            .map(|(code, text)| {
                (
                    (*code).to_owned(),
                    json!({"description": text, "content": content}),
                )
            })
            .collect();
        answers.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        let mut operation = json!({
            "tags": [tag(&self.resource.group, &self.resource.version)],
            "description": self.description(action),
            "operationId": self.id(action),
            "parameters": self.parameters(action),
        });
        if let Some(body) = self.body(action, schemas) {
            operation["requestBody"] = body;
        }
        operation["responses"] = Value::from(answers);
        operation["x-kubernetes-action"] = Value::from(action.name());
        operation["x-kubernetes-group-version-kind"] =
            json!({"group": group, "version": version, "kind": kind});
        operation
    }

    /// The schema of the answer.
    fn answer(&self, action: Action, schemas: &mut Schemas) -> Value {
        let text = || json!({"type": "string"});
        let Some(definition) = self.definition else {
            return text();
        };
        // Upstream documents a Status for Namespaces, too, and answers with the Namespace.
        let returns_object =
            self.resource.delete_answer == DeleteAnswer::Object && !self.resource.is("Namespace");
        let name = match action {
            Action::List => schemas.list_of(definition, self.resource),
            Action::WatchList | Action::Watch => schemas.shape("meta.WatchEvent", WATCH_EVENT),
            Action::DeleteCollection => schemas.shape("meta.Status", STATUS),
            Action::Delete if !returns_object => schemas.shape("meta.Status", STATUS),
            Action::Connect(_) => return text(),
            _ => definition.to_owned(),
        };
        json!({"$ref": schemas::reference(&name)})
    }

    /// The media types of the answer.
    fn produced(&self, action: Action) -> Vec<&'static str> {
        let objects = [JSON, YAML, PROTOBUF];
        match action {
            Action::Connect(_) => vec![ANY],
            _ if self.is_custom() => vec![JSON, YAML],
            Action::List | Action::WatchList | Action::Watch => [&objects[..], &STREAMS].concat(),
            // Only logs are text.
            _ if self.definition.is_none() => [&["text/plain"][..], &objects].concat(),
            _ => objects.to_vec(),
        }
    }

    fn body(&self, action: Action, schemas: &mut Schemas) -> Option<Value> {
        let own: &[&str] = if self.is_custom() {
            &[JSON, YAML]
        } else {
            &[ANY]
        };
        let (media, definition): (&[&str], String) = match action {
            Action::Post | Action::Put => (own, self.definition?.to_owned()),
            Action::Patch if self.is_custom() => {
                (&PATCHES_OF_CUSTOM_KINDS, schemas.patch().to_owned())
            }
            Action::Patch => (&PATCHES, schemas.patch().to_owned()),
            Action::Delete => (own, schemas.shape("meta.DeleteOptions", DELETE_OPTIONS)),
            Action::DeleteCollection if !self.is_custom() => {
                (own, schemas.shape("meta.DeleteOptions", DELETE_OPTIONS))
            }
            _ => return None,
        };
        let schema = json!({"schema": {"$ref": schemas::reference(&definition)}});
        let content: Map<String, Value> = media
            .iter()
            .map(|media| ((*media).to_owned(), schema.clone()))
            .collect();
        let mut body = json!({"content": content});
        if !matches!(action, Action::Delete | Action::DeleteCollection) {
            body["required"] = json!(true);
        }
        Some(body)
    }

    fn parameters(&self, action: Action) -> Vec<Value> {
        let release = self.resource.release;
        let set = match action {
            Action::List | Action::WatchList | Action::Watch => "list",
            Action::DeleteCollection if self.is_custom() => "list",
            Action::DeleteCollection => {
                let mut all = parameters::of_collection_deletions(release);
                all.extend(parameters::of("pretty", release));
                return all;
            }
            Action::Post | Action::Put => "write",
            Action::Patch => "patch",
            Action::Delete => "delete",
            Action::Get if self.is_custom() => "get",
            Action::Get if self.part == "log" => "log",
            Action::Get => "",
            Action::Connect(_) => return parameters::of(self.part, release),
        };
        let mut all = parameters::of(set, release);
        all.extend(parameters::of("pretty", release));
        all
    }

    /// The operation ID, such as `patchAppsV1NamespacedDeploymentScale`.
    fn id(&self, action: Action) -> String {
        let resource = self.resource;
        let method = match action {
            Action::Connect(method) => method,
            Action::DeleteCollection => "collection",
            _ => "",
        };
        let is_namespaced = resource.namespaced && self.suffix != "ForAllNamespaces";
        let scope = if is_namespaced { "Namespaced" } else { "" };
        let list = if action == Action::WatchList {
            "List"
        } else {
            ""
        };
        format!(
            "{}{}{}{}{scope}{}{}{list}{}",
            action.word(),
            identifier(group_word(&resource.group), true),
            identifier(&resource.version, true),
            identifier(method, true),
            resource.kind,
            identifier(self.part, true),
            self.suffix,
        )
    }

    fn description(&self, action: Action) -> String {
        let kind = &*self.resource.kind;
        let a_kind = format!("{}{kind}", article(kind));
        let with_part = |whole: String, of: &str| match self.part {
            "" => whole,
            part => format!("{part} of {of}"),
        };
        let the_kind = with_part(
            format!("the specified {kind}"),
            &format!("the specified {kind}"),
        );
        let watches = self.resource.verbs.contains(&"watch") && !self.is_custom();
        match action {
            Action::List if watches => format!("list or watch objects of kind {kind}"),
            Action::List => format!("list objects of kind {kind}"),
            Action::Post => format!("create {}", with_part(a_kind.clone(), &a_kind)),
            Action::DeleteCollection => format!("delete collection of {kind}"),
            Action::Get => format!("read {the_kind}"),
            Action::Put => format!("replace {the_kind}"),
            Action::Patch => format!("partially update {the_kind}"),
            Action::Delete => format!("delete {a_kind}"),
            Action::WatchList => format!(
                "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter with a list operation instead."
            ),
            Action::Watch => format!(
                "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
            ),
            Action::Connect(method) => {
                format!(
                    "connect {} requests to {} of {kind}",
                    method.to_uppercase(),
                    self.part
                )
            }
        }
    }
}

/// The media types of patches. Custom resources have no merge keys for strategic merge patches.
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const PATCHES_OF_CUSTOM_KINDS: [&str; 3] = [PATCHES[0], PATCHES[1], PATCHES[3]];

/// The tag of a group version, such as `rbacAuthorization_v1`.
pub(super) fn tag(group: &str, version: &str) -> String {
    format!(
        "{}_{}",
        identifier(group_word(group), false),
        identifier(version, false)
    )
}

/// The group in tags and operation IDs.
pub(super) fn group_word(group: &str) -> &str {
    match group.strip_suffix(".k8s.io").unwrap_or(group) {
        "" => "core",
        group => group,
    }
}

/// The text without punctuation, in camel case: `ToValidOperationID` of
/// `apiserver/pkg/endpoints/openapi`.
pub(super) fn identifier(text: &str, capital: bool) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut is_start = capital;
    for letter in text.chars() {
        let is_kept = letter.is_alphanumeric() || letter == '_';
        if is_kept && is_start {
            plain.extend(letter.to_uppercase());
        } else if is_kept {
            plain.push(letter);
        }
        is_start = !is_kept;
    }
    plain
}

/// The article before a kind, with a space: `GetArticleForNoun` of `installer.go`.
fn article(kind: &str) -> &'static str {
    let is_plural = kind.ends_with('s') && !kind.ends_with("ss");
    match kind.to_lowercase().chars().next() {
        _ if is_plural => "",
        Some('a' | 'e' | 'i' | 'o' | 'u') => "an ",
        _ => "a ",
    }
}
