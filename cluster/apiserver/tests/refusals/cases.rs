//! The cases: one valid object of each kind, and requests with a change of it.

use serde_json::{Value, json};

use super::mutations::{self, LONG};
use super::schema::{Resource, Schema};
use crate::support::recorded::mask_text;
use crate::support::{ask, try_ask};

/// Valid objects, at least one of each kind.
const SEEDS: [&str; 7] = [
    include_str!("seeds/core.yaml"),
    include_str!("seeds/workloads.yaml"),
    include_str!("seeds/network.yaml"),
    include_str!("seeds/storage.yaml"),
    include_str!("seeds/access.yaml"),
    include_str!("seeds/admission.yaml"),
    include_str!("seeds/requests.yaml"),
];

/// Changes that the schema does not suggest, as merge patches of the valid objects.
const BY_HAND: &str = include_str!("seeds/by-hand.yaml");

/// A valid object and all cases with it.
pub(crate) struct Seed {
    pub(crate) resource: Resource,
    pub(crate) object: Value,
    /// Requests while the object does not exist.
    pub(crate) before: Vec<Case>,
    /// Requests while the object exists.
    pub(crate) after: Vec<Case>,
}

/// A request. It never changes the store, because it is a dry run.
pub(crate) struct Case {
    /// The name: resource, verb, path of the change, kind of change.
    pub(crate) name: String,
    pub(crate) verb: Verb,
    pub(crate) body: Value,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Verb {
    Create,
    Update,
    Patch,
    Apply,
}

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
        }
    }
}

/// Resource and case of a name.
pub(crate) fn split(name: &str) -> (&str, &str) {
    let verbs = [Verb::Create, Verb::Update, Verb::Patch, Verb::Apply];
    let end = verbs
        .iter()
        .filter_map(|verb| name.find(&format!("/{}/", verb.name())))
        .min();
    let end = end.unwrap_or_else(|| panic!("{name} has no verb"));
    (&name[..end], &name[end + 1..])
}

/// One of so many changes is also sent as an update, a patch and an apply.
const EVERY: usize = 12;

/// Bytes at the start and at the end of long texts that are compared.
const START: usize = 60;
const END: usize = 120;

/// All seeds. Every resource of `schema` has one.
pub(crate) fn seeds(schema: Schema) -> Vec<Seed> {
    let objects: Vec<Value> = SEEDS
        .iter()
        .flat_map(|text| serde_saphyr::from_multiple::<Value>(text).unwrap())
        .collect();
    let by_hand: Vec<Value> = serde_saphyr::from_multiple(BY_HAND).unwrap();
    let all = schema.resources.iter().map(|resource| {
        let is_own = |object: &&Value| {
            object["apiVersion"] == resource.version.as_str()
                && object["kind"] == resource.kind.as_str()
        };
        let object = objects
            .iter()
            .find(is_own)
            .unwrap_or_else(|| panic!("{} has no valid object", resource.name()));
        let own: Vec<&Value> = by_hand.iter().filter(is_own).collect();
        (object.clone(), generated(&schema, resource, object, &own))
    });
    let all: Vec<_> = all.collect();
    schema
        .resources
        .into_iter()
        .zip(all)
        .map(|(resource, (object, (before, after)))| Seed {
            resource,
            object,
            before,
            after,
        })
        .collect()
}

fn generated(
    schema: &Schema,
    resource: &Resource,
    object: &Value,
    by_hand: &[&Value],
) -> (Vec<Case>, Vec<Case>) {
    let mut before = Vec::new();
    let mut after = Vec::new();
    let mut add = |verb: Verb, change: &str, body: Value| {
        let name = format!("{}/{}/{change}", resource.name(), verb.name());
        let list = if verb == Verb::Create {
            &mut before
        } else {
            &mut after
        };
        list.push(Case { name, verb, body });
    };
    for verb in [Verb::Create, Verb::Update, Verb::Apply] {
        add(verb, "valid", object.clone());
    }
    let changes = mutations::of(schema, schema.of_kind(resource), object);
    for (number, change) in changes.iter().enumerate() {
        let name = change.name();
        let changed = change.applied(object);
        add(Verb::Create, &name, changed.clone());
        if change.concerns_updates() || number % EVERY == 0 {
            add(Verb::Update, &name, changed.clone());
        }
        if number % EVERY == EVERY / 3 {
            add(Verb::Patch, &name, change.merge_patch(object));
        }
        if number % EVERY == EVERY / 2 {
            add(Verb::Apply, &name, changed);
        }
    }
    for case in by_hand {
        let name = case["name"].as_str().unwrap();
        let mut changed = object.clone();
        merge(&mut changed, &case["patch"]);
        add(Verb::Create, name, changed.clone());
        add(Verb::Update, name, changed);
        add(Verb::Patch, name, case["patch"].clone());
    }
    (before, after)
}

/// Applies a JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name.as_str()], value);
        }
    }
}

/// The comparable part of an answer. A success has only its code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// Field, reason and message of each cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<(String, String, String)>,
}

impl Answer {
    /// The server closed the connection. kube-apiserver does that when a handler panics.
    pub(crate) const LOST: Self = Self {
        code: 0,
        reason: String::new(),
        message: String::new(),
        causes: Vec::new(),
    };

    /// Whether code and reason are equal.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        (self.code, &self.reason) == (other.code, &other.reason)
    }
}

/// Sends all requests of a seed, and returns the answers with the names of the cases.
pub(crate) async fn answers(client: &kube::Client, seed: &Seed) -> Vec<(String, Answer)> {
    let mut answers = Vec::new();
    for case in &seed.before {
        answers.push((case.name.clone(), send(client, seed, case, "").await));
    }
    let collection = seed.resource.path();
    let object = format!(
        "{collection}/{}",
        seed.object["metadata"]["name"].as_str().unwrap()
    );
    let body = seed.object.to_string();
    let created = ask(
        client,
        "POST",
        &collection,
        "application/json",
        body.as_bytes(),
    )
    .await;
    assert_eq!(created.code, 201, "{collection}: {}", created.body);
    let version = created.body["metadata"]["resourceVersion"]
        .as_str()
        .unwrap();
    for case in &seed.after {
        let mut answer = send(client, seed, case, version).await;
        if answer.code == 409 {
            // Controllers of the server write the status of some kinds.
            let current = ask(client, "GET", &object, "", b"").await.body;
            let version = current["metadata"]["resourceVersion"].as_str().unwrap();
            answer = send(client, seed, case, version).await;
        }
        answers.push((case.name.clone(), answer));
    }
    let now = br#"{"gracePeriodSeconds":0,"propagationPolicy":"Background"}"#;
    let deleted = ask(client, "DELETE", &object, "application/json", now).await;
    assert!(deleted.code < 300, "{object}: {}", deleted.body);
    answers
}

/// Sends one request. Updates are based on `version`.
async fn send(client: &kube::Client, seed: &Seed, case: &Case, version: &str) -> Answer {
    let collection = seed.resource.path();
    let name = seed.object["metadata"]["name"].as_str().unwrap();
    let mut body = case.body.clone();
    let (method, path, content_type) = match case.verb {
        Verb::Create => ("POST", collection, "application/json"),
        Verb::Update => {
            if let Some(metadata) = body["metadata"].as_object_mut() {
                metadata.insert("resourceVersion".to_owned(), json!(version));
            }
            ("PUT", format!("{collection}/{name}"), "application/json")
        }
        Verb::Patch => (
            "PATCH",
            format!("{collection}/{name}"),
            "application/merge-patch+json",
        ),
        Verb::Apply => (
            "PATCH",
            format!("{collection}/{name}"),
            "application/apply-patch+yaml",
        ),
    };
    let force = if case.verb == Verb::Apply {
        "&force=true"
    } else {
        ""
    };
    let path = format!("{path}?dryRun=All&fieldManager=refusals{force}");
    let body = body.to_string();
    let Ok(answer) = try_ask(client, method, &path, content_type, body.as_bytes()).await else {
        return Answer::LOST;
    };
    if answer.code < 300 {
        return Answer {
            code: answer.code,
            reason: String::new(),
            message: String::new(),
            causes: Vec::new(),
        };
    }
    let causes = answer.body["details"]["causes"].as_array();
    Answer {
        code: answer.code,
        reason: text(&answer.body["reason"]),
        message: text(&message_without(&answer.body["message"], causes)),
        causes: causes
            .into_iter()
            .flatten()
            .map(|cause| {
                (
                    text(&cause["field"]),
                    text(&cause["reason"]),
                    text(&cause["message"]),
                )
            })
            .collect(),
    }
}

/// A message without the texts of its causes, which are compared by themselves.
fn message_without(message: &Value, causes: Option<&Vec<Value>>) -> Value {
    let mut message = message.as_str().unwrap_or_default().to_owned();
    for cause in causes.into_iter().flatten() {
        let part = |name: &str| cause[name].as_str().unwrap_or_default();
        message = message.replace(
            &format!("{}: {}", part("field"), part("message")),
            "<cause>",
        );
    }
    Value::from(message)
}

/// The comparable part of a text: the first line, and of a long one the start and the end. Errors
/// can quote whole objects, with the UIDs and versions of a run.
fn text(value: &Value) -> String {
    let text = mask_text(value.as_str().unwrap_or_default(), "message");
    let text = text.replace(&"a".repeat(LONG), "<long>");
    let line = text.lines().next().unwrap_or_default();
    if line.len() <= START + END {
        return line.to_owned();
    }
    let is_boundary = |at: &usize| line.is_char_boundary(*at);
    let start = (0..=START).rfind(is_boundary).unwrap();
    let end = (line.len() - END..).find(is_boundary).unwrap();
    format!("{}...{}", &line[..start], &line[end..])
}
