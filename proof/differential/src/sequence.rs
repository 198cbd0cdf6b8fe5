//! Random sequences of writes to one object.

use std::sync::LazyLock;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value, json};

use crate::sample::{Extent, pointers, sample};

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let kinds: Vec<Value> =
        serde_json::from_str(include_str!("kinds.json")).expect("kinds are JSON");
    kinds.into_iter().map(Kind::parse).collect()
});

/// A kind of objects, in one or more versions.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: String,
    /// The spec of its definition, for a custom kind.
    pub(crate) definition: Option<Value>,
    versions: Vec<Value>,
}

impl Kind {
    fn parse(kind: Value) -> Self {
        Self {
            name: kind["name"].as_str().unwrap_or_default().to_owned(),
            definition: kind.get("definition").cloned(),
            versions: kind["versions"].as_array().cloned().unwrap_or_default(),
        }
    }
}

/// All kinds.
pub(crate) fn kinds() -> &'static [Kind] {
    &KINDS
}

/// One request. `NAME` in the path and the body stands for the object's name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Value,
    /// The body is merged into the object that the server answered last, and is sent whole.
    pub(crate) onto_last: bool,
}

/// Writes to one object.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) kind: &'static Kind,
    pub(crate) steps: Vec<Step>,
}

const MANAGERS: [&str; 4] = ["a", "b", "c", "kubectl"];
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Sequence {
    /// The sequence of this number.
    pub(crate) fn random(seed: u64, only: Option<&str>) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let kinds: Vec<&'static Kind> = KINDS
            .iter()
            .filter(|kind| only.is_none_or(|only| kind.name == only))
            .collect();
        let kind = kinds.choose(&mut random).expect("some kind has that name");
        let count = random.random_range(2..=7);
        let steps = (0..count)
            .map(|at| step(kind, at == 0, &mut random))
            .collect();
        Self { kind, steps }
    }
}

fn step(kind: &Kind, is_first: bool, random: &mut StdRng) -> Step {
    let version = kind.versions.choose(random).expect("a kind has versions");
    let text = |field: &str| version[field].as_str().unwrap_or_default();
    let extent = if is_first || random.random_bool(0.4) {
        Extent::New
    } else {
        Extent::Part
    };
    let template = &version["body"];
    let has_status = template.get("status").is_some();
    let mut part = "";
    if has_status && !is_first && random.random_bool(0.15) {
        part = "/status";
    }
    let mut body = sample(template, extent, random);
    if let Some(fields) = body.as_object_mut() {
        if part.is_empty() && !random.random_bool(0.1) {
            fields.remove("status");
        }
        if part == "/status" && random.random_bool(0.7) {
            fields.remove("spec");
        }
    }
    let mut metadata = if random.random_bool(0.5) {
        sample(&json!("$metadata"), extent, random)
    } else {
        json!({})
    };
    let manager = *MANAGERS.choose(random).expect("there are managers");
    let force = random.random_bool(0.35);
    let collection = format!("{}/namespaces/default/{}", text("path"), text("plural"));
    let object = format!("{collection}/NAME{part}");
    let strict = [
        "",
        "",
        "",
        "&fieldValidation=Strict",
        "&fieldValidation=Ignore",
    ]
    .choose(random)
    .unwrap_or(&"");
    let whole = |mut metadata: Value, mut body: Value| {
        metadata["name"] = json!("NAME");
        body["apiVersion"] = json!(text("apiVersion"));
        body["kind"] = json!(text("kind"));
        body["metadata"] = metadata;
        body
    };
    let with_metadata = |metadata: Value, mut body: Value| {
        if metadata
            .as_object()
            .is_some_and(|fields| !fields.is_empty())
        {
            body["metadata"] = metadata;
        }
        body
    };
    let query = format!("?fieldManager={manager}{strict}");
    let make = |method, path: String, content_type, body, onto_last| Step {
        method,
        path,
        content_type,
        body,
        onto_last,
    };
    if is_first && random.random_bool(0.35) {
        let manager = if random.random_bool(0.3) {
            "kubectl-client-side-apply"
        } else {
            manager
        };
        if manager == "kubectl-client-side-apply" {
            let applied = whole(metadata.clone(), body.clone()).to_string();
            match metadata["annotations"].as_object_mut() {
                Some(annotations) => {
                    drop(annotations.insert(LAST_APPLIED.to_owned(), applied.into()))
                }
                None => metadata["annotations"] = json!({LAST_APPLIED: applied}),
            }
        }
        let path = format!("{collection}?fieldManager={manager}{strict}");
        return make(
            "POST",
            path,
            "application/json",
            whole(metadata, body),
            false,
        );
    }
    match random.random_range(0..100) {
        _ if is_first => apply(make, object, manager, force, whole(metadata, body)),
        0..45 => apply(make, object, manager, force, whole(metadata, body)),
        45..60 => {
            let body = with_metadata(metadata, body);
            make(
                "PATCH",
                object + &query,
                "application/merge-patch+json",
                body,
                false,
            )
        }
        60..74 => {
            let mut body = with_metadata(metadata, body);
            if random.random_bool(0.2) {
                delete_something(&mut body, random);
            }
            let kind = "application/strategic-merge-patch+json";
            make("PATCH", object + &query, kind, body, false)
        }
        74..86 => {
            let body = operations(&with_metadata(metadata, body), random);
            make(
                "PATCH",
                object + &query,
                "application/json-patch+json",
                body,
                false,
            )
        }
        _ => {
            let mut body = with_metadata(metadata, body);
            if random.random_bool(0.1) {
                body["metadata"]["managedFields"] = [json!([]), json!([{}]), Value::Null]
                    .choose(random)
                    .cloned()
                    .unwrap_or_default();
            }
            make("PUT", object + &query, "application/json", body, true)
        }
    }
}

fn apply(
    make: impl Fn(&'static str, String, &'static str, Value, bool) -> Step,
    path: String,
    manager: &str,
    force: bool,
    body: Value,
) -> Step {
    let path = format!("{path}?fieldManager={manager}&force={force}");
    make("PATCH", path, "application/apply-patch+yaml", body, false)
}

/// Makes one list element a deletion.
fn delete_something(body: &mut Value, random: &mut StdRng) {
    let all = pointers(body);
    let elements: Vec<&String> = all
        .iter()
        .filter(|pointer| body.pointer(pointer).is_some_and(Value::is_object))
        .collect();
    if let Some(pointer) = elements.choose(random)
        && let Some(Value::Object(fields)) = body.pointer_mut(pointer)
    {
        fields.insert("$patch".to_owned(), json!("delete"));
    }
}

/// A JSON patch with operations at places of `body`.
fn operations(body: &Value, random: &mut StdRng) -> Value {
    let all = pointers(body);
    let mut operations = Vec::new();
    for _ in 0..random.random_range(1..=3) {
        let Some(pointer) = all.choose(random) else {
            break;
        };
        let value = body.pointer(pointer).cloned().unwrap_or_default();
        let mut operation = Map::new();
        let name = ["add", "add", "replace", "remove", "test"]
            .choose(random)
            .unwrap_or(&"add");
        operation.insert("op".to_owned(), json!(name));
        operation.insert("path".to_owned(), json!(pointer));
        if *name != "remove" {
            operation.insert("value".to_owned(), value);
        }
        operations.push(Value::Object(operation));
    }
    Value::Array(operations)
}
