//! Compares the pure functions of the server with answers recorded from a real server, request by
//! request. `replay.rs` compares the answers that need the store.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_apiserver::fielderror::FieldError;
use steersman_apiserver::schema::{decode, typed_form};
use steersman_apiserver::{defaults, go_format, patch, tables, validate};
use steersman_releases::Release;

/// A request to one object or collection, with the answer of the real server.
struct Step {
    scenario: String,
    id: String,
    method: String,
    path: String,
    content_type: String,
    body: Value,
    status: u64,
    answer: Value,
}

/// All recorded requests; empty without the recordings.
fn steps(scenarios: &[&str]) -> Vec<Step> {
    let shared = std::env::var_os("STEERSMAN_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let folder = shared.join("reference/data/api-recordings");
    if !folder.is_dir() {
        println!("skipped: no recordings in {}", folder.display());
        return Vec::new();
    }
    scenarios
        .iter()
        .flat_map(|scenario| read(&folder, scenario))
        .collect()
}

const UID: &str = "22222222-2222-2222-2222-222222222222";

/// The UID that a client sends. The recordings replace it with a placeholder like any other UID.
const CLIENT_UID: &str = "11111111-1111-1111-1111-111111111111";

/// Values in place of the recordings' placeholders, which stand for values that differ between
/// servers.
const PLACEHOLDERS: [(&str, &str); 5] = [
    ("<uid>", UID),
    ("<time>", "2024-06-01T00:00:00Z"),
    ("<ip>", "10.96.0.7"),
    ("<suffix>", "abcde"),
    ("<rv>", "7"),
];

fn read(folder: &std::path::Path, scenario: &str) -> Vec<Step> {
    let file = folder.join(format!("{scenario}.json"));
    let text = PLACEHOLDERS
        .iter()
        .fold(fs::read_to_string(file).unwrap(), |text, (from, to)| {
            text.replace(from, to)
        });
    let recording: Value = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let requests = recording["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|step| step["request"].is_object())
        // These Events are converted to the core group first, so only `replay.rs` compares them.
        .filter(|step| !text(&step["request"]["path"]).contains("/events.k8s.io/"));
    requests
        .map(|step| Step {
            scenario: scenario.to_owned(),
            id: text(&step["id"]),
            method: text(&step["request"]["method"]),
            path: text(&step["request"]["path"]),
            content_type: text(&step["request"]["contentType"]),
            body: step["request"]["body"].clone(),
            status: step["response"]["status"].as_u64().unwrap_or(0),
            answer: step["response"]["body"].clone(),
        })
        .collect()
}

impl Step {
    fn name(&self) -> String {
        format!(
            "{} {} {} {}",
            self.scenario, self.id, self.method, self.path
        )
    }

    fn kind(&self) -> &str {
        self.answer["kind"].as_str().unwrap_or("")
    }
}

/// Metadata that the server sets, which the recordings replace with placeholders.
const SERVER_SET: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "namespace",
    "name",
    "generateName",
];

fn without_server_set(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        SERVER_SET
            .iter()
            .for_each(|name| drop(metadata.remove(*name)));
    }
    object
}

const WRITES: [&str; 13] = [
    "configmap-crud",
    "deletion",
    "deployment",
    "eviction-pdb",
    "generate-name",
    "leases-events",
    "namespaces",
    "nodes",
    "patch",
    "pod",
    "replicaset",
    "replicationcontroller",
    "tables",
];

/// A created object before it is stored, with the server's metadata from the recorded answer.
fn before_storage(step: &Step) -> Value {
    let mut object = step.body.clone();
    typed_form::prune_unknown(Release::DEFAULT, step.kind(), &mut object);
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in SERVER_SET {
        if let Some(value) = step.answer["metadata"]
            .get(name)
            .filter(|value| **value != json!("<managedFields>"))
        {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    object
}

#[test]
fn created_objects_equal_the_recorded_ones() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    let steps = steps(&WRITES);
    for step in steps.iter().filter(|step| {
        step.method == "POST" && step.status == 201 && step.body["metadata"].is_object()
    }) {
        if [
            "Binding",
            "Eviction",
            "Status",
            "PartialObjectMetadata",
            "Table",
            "CustomResourceDefinition",
        ]
        .contains(&step.kind())
        {
            continue;
        }
        let mut object = before_storage(step);
        if step.kind() == "Service" {
            // The server allocates these together.
            for field in ["clusterIP", "ipFamilies", "ipFamilyPolicy"] {
                object["spec"][field] = step.answer["spec"][field].clone();
            }
        }
        defaults::on_create(Release::DEFAULT, step.kind(), &mut object);
        typed_form::normalize(step.kind(), &mut object);
        compared += 1;
        let mut got = without_server_set(&object);
        let mut wanted = without_server_set(&step.answer);
        got.as_object_mut().unwrap().remove("kind");
        got.as_object_mut().unwrap().remove("apiVersion");
        wanted.as_object_mut().unwrap().remove("kind");
        wanted.as_object_mut().unwrap().remove("apiVersion");
        if got != wanted {
            wrong.push(format!(
                "{}\n  got    {got}\n  wanted {wanted}",
                step.name()
            ));
        }
        let errors = validate::create(Release::DEFAULT, step.kind(), &object);
        if !errors.is_empty() {
            wrong.push(format!("{}\n  refused: {errors:?}", step.name()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        steps.is_empty() || compared > 50,
        "only {compared} compared"
    );
}

/// The causes of an error answer, as (field, reason, message).
fn causes(answer: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let causes = answer["details"]["causes"].as_array().into_iter().flatten();
    causes
        .map(|cause| {
            (
                text(&cause["field"]),
                text(&cause["reason"]),
                text(&cause["message"]),
            )
        })
        .collect()
}

/// The same for errors of this server. Only the first line of upstream's diff of pods counts.
fn found(errors: &[FieldError]) -> Vec<(String, String, String)> {
    errors
        .iter()
        .map(|error| {
            (
                error.field.clone(),
                error.reason().to_owned(),
                error.detail().replace(CLIENT_UID, UID),
            )
        })
        .collect()
}

fn without_diff(mut causes: Vec<(String, String, String)>) -> Vec<(String, String, String)> {
    for (_, _, message) in &mut causes {
        if message.contains("pod updates may not change fields") {
            *message = message.split('\n').next().unwrap().to_owned();
        }
    }
    causes
}

/// Restores the metadata of an updated object that the server restores before validation.
fn restored(object: &mut Value, old: &Value) {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "namespace",
    ] {
        match old["metadata"].get(name) {
            Some(value) => drop(metadata.insert(name.to_owned(), value.clone())),
            None => drop(metadata.remove(name)),
        }
    }
    metadata
        .entry("uid")
        .or_insert_with(|| old["metadata"]["uid"].clone());
}

#[test]
fn refusals_equal_the_recorded_ones() {
    let mut world = World::default();
    let mut compared = 0;
    let mut wrong = Vec::new();
    let steps = steps(&WRITES);
    for step in &steps {
        let wanted = causes(&step.answer);
        // The store compares versions, and other functions check options and decoding.
        let is_validation_error = step.status == 422
            && !wanted.is_empty()
            && !["DeleteOptions", "PatchOptions", "Scale", ""]
                .contains(&step.answer["details"]["kind"].as_str().unwrap_or(""));
        if !is_validation_error
            || wanted
                .iter()
                .any(|(field, ..)| field == "metadata.resourceVersion")
            || step.path.contains("ephemeralcontainers")
        {
            world.see(step);
            continue;
        }
        let kind = step.answer["details"]["kind"].as_str().unwrap();
        let mut object = step.body.clone();
        let errors = match (step.method.as_str(), world.object(&step.path)) {
            ("POST", _) => {
                if !object["metadata"].is_object() {
                    object["metadata"] = json!({});
                }
                if let Some(namespace) = step
                    .path
                    .split("/namespaces/")
                    .nth(1)
                    .and_then(|rest| rest.split_once('/'))
                {
                    object["metadata"]["namespace"] = json!(namespace.0);
                }
                if let Some(prefix) = object["metadata"]["generateName"].as_str() {
                    object["metadata"]["name"] = json!(format!("{prefix}abcde"));
                }
                defaults::on_create(Release::DEFAULT, kind, &mut object);
                validate::create(Release::DEFAULT, kind, &object)
            }
            (method, Some(old)) => {
                let mut new = if method == "PATCH" {
                    old.clone()
                } else {
                    object.clone()
                };
                match (method, step.content_type.as_str()) {
                    ("PATCH", "application/json-patch+json") => {
                        patch::json(&mut new, &object).unwrap()
                    }
                    ("PATCH", "application/merge-patch+json") => patch::merge(&mut new, &object),
                    ("PATCH", _) => patch::strategic(kind, &mut new, &object).unwrap(),
                    _ => {}
                }
                restored(&mut new, old);
                let subresource = ["status", "finalize"]
                    .into_iter()
                    .find(|s| step.path.ends_with(&format!("/{s}")));
                defaults::apply(Release::DEFAULT, kind, &mut new);
                if subresource.is_none() {
                    defaults::on_update(Release::DEFAULT, kind, &mut new, old);
                }
                validate::update(Release::DEFAULT, kind, subresource, &new, old)
            }
            (_, None) => continue,
        };
        compared += 1;
        let got = without_diff(found(&errors));
        let wanted = without_diff(wanted);
        if got != wanted {
            wrong.push(format!(
                "{}\n  got    {got:#?}\n  wanted {wanted:#?}",
                step.name()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        steps.is_empty() || compared > 50,
        "only {compared} compared"
    );
}

/// Objects by path, from the latest answers.
#[derive(Default)]
struct World(Map<String, Value>);

impl World {
    /// The path of the object, without a subresource.
    fn key(path: &str) -> String {
        let path = path.split('?').next().unwrap_or(path);
        path.trim_end_matches("/status")
            .trim_end_matches("/finalize")
            .to_owned()
    }

    fn see(&mut self, step: &Step) {
        let partial = ["PartialObjectMetadata", "Table", "Scale"].contains(&step.kind());
        if step.status >= 300 || !step.answer["metadata"]["uid"].is_string() || partial {
            return;
        }
        let path = match step.method.as_str() {
            "POST" => format!(
                "{}/{}",
                Self::key(&step.path),
                step.answer["metadata"]["name"].as_str().unwrap_or("")
            ),
            _ => Self::key(&step.path),
        };
        self.0.insert(path, step.answer.clone());
    }

    /// The object called `name` in the collection at `path`, or at `path` itself.
    fn named(&self, path: &str, name: &str) -> Option<&Value> {
        let path = Self::key(path);
        self.0.get(&format!("{path}/{name}")).or_else(|| {
            self.0
                .get(&path)
                .filter(|object| object["metadata"]["name"] == name)
        })
    }

    fn object(&self, path: &str) -> Option<&Value> {
        self.0.get(&Self::key(path))
    }
}

#[test]
fn patched_objects_equal_the_recorded_ones() {
    let mut world = World::default();
    let mut compared = 0;
    let mut wrong = Vec::new();
    let steps = steps(&[
        "patch",
        "deployment",
        "replicaset",
        "replicationcontroller",
        "pod",
        "nodes",
        "leases-events",
        "tables",
    ]);
    for step in &steps {
        if step.method == "PATCH"
            && !step.path.contains("/scale")
            && let Some(old) = world.object(&step.path)
            && !step.body.is_null()
            && !step.body.to_string().contains("${")
        {
            let kind = old["kind"].as_str().unwrap();
            let mut object = old.clone();
            let result = match step.content_type.as_str() {
                "application/json-patch+json" => patch::json(&mut object, &step.body),
                "application/merge-patch+json" => {
                    patch::check_object(&step.body).map(|()| patch::merge(&mut object, &step.body))
                }
                "application/strategic-merge-patch+json" => {
                    patch::strategic(kind, &mut object, &step.body)
                }
                _ => continue,
            };
            let message = step.answer["message"].as_str().unwrap_or("");
            match result {
                Ok(()) if step.status == 200 => {
                    typed_form::prune_unknown(Release::DEFAULT, kind, &mut object);
                    defaults::apply(Release::DEFAULT, kind, &mut object);
                    let only_status = step.path.ends_with("/status");
                    if !only_status {
                        defaults::on_update(Release::DEFAULT, kind, &mut object, old);
                    }
                    typed_form::normalize(kind, &mut object);
                    let mut got = without_server_set(&object);
                    let mut wanted = without_server_set(&step.answer);
                    if only_status {
                        // The store restores the other fields for this endpoint.
                        got = got["status"].take();
                        wanted = wanted["status"].take();
                    } else if let Some(status) = old.get("status") {
                        got["status"] = status.clone();
                    }
                    compared += 1;
                    if got != wanted {
                        wrong.push(format!(
                            "{}\n  got    {got}\n  wanted {wanted}",
                            step.name()
                        ));
                    }
                    restored(&mut object, old);
                    let subresource = only_status.then_some("status");
                    let errors =
                        validate::update(Release::DEFAULT, kind, subresource, &object, old);
                    if !errors.is_empty() {
                        wrong.push(format!("{}\n  refused: {errors:?}", step.name()));
                    }
                }
                Err(error) if step.status != 200 => {
                    compared += 1;
                    if error.to_string() != message {
                        wrong.push(format!(
                            "{}\n  got    {error}\n  wanted {message}",
                            step.name()
                        ));
                    }
                }
                Ok(()) => {}
                Err(error) => wrong.push(format!(
                    "{}\n  got    {error}\n  wanted success",
                    step.name()
                )),
            }
        }
        world.see(step);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        steps.is_empty() || compared > 50,
        "only {compared} compared"
    );
}

#[test]
fn tables_equal_the_recorded_ones() {
    let mut world = World::default();
    let mut compared = 0;
    let mut wrong = Vec::new();
    let now: Timestamp = "2024-06-01T00:00:05Z".parse().unwrap();
    let steps = steps(&["tables", "nodes"]);
    for step in &steps {
        if step.kind() != "Table" {
            world.see(step);
            continue;
        }
        for row in step.answer["rows"].as_array().unwrap() {
            let Some(object) = world.named(
                &step.path,
                row["object"]["metadata"]["name"].as_str().unwrap_or(""),
            ) else {
                continue;
            };
            let kind = object["kind"].as_str().unwrap();
            compared += 1;
            let mut columns = tables::columns(kind);
            let mut cells = tables::cells(kind, object, now);
            for (cell, column) in cells.iter_mut().zip(&columns) {
                if ["Age", "Last Seen", "First Seen"].contains(&column["name"].as_str().unwrap()) {
                    *cell = json!("<age>");
                }
            }
            let conditions = tables::row_conditions(kind, object).unwrap_or_default();
            if json!(cells) != row["cells"] || conditions != row["conditions"] {
                wrong.push(format!(
                    "{}\n  got    {cells:?} {conditions}\n  wanted {row}",
                    step.name()
                ));
            }
            if let Some(wanted) = step.answer["columnDefinitions"]
                .as_array()
                .filter(|wanted| **wanted != columns)
            {
                columns.retain(|column| !wanted.contains(column));
                wrong.push(format!("{}\n  columns {columns:?}", step.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        steps.is_empty() || compared > 30,
        "only {compared} compared"
    );
}

#[test]
fn decoding_errors_equal_the_recorded_ones() {
    let mut compared = 0;
    let steps = steps(&[
        "configmap-crud",
        "deployment",
        "leases-events",
        "dryrun-fieldvalidation",
        "patch",
    ]);
    for step in &steps {
        let message = step.answer["message"].as_str().unwrap_or("");
        let kind = step.body["kind"].as_str().unwrap_or("Deployment");
        if let Some((_, list)) = message.split_once(": strict decoding error: ")
            && step.status == 400
            && !list.contains("duplicate")
        {
            let unknown = typed_form::prune_unknown(Release::DEFAULT, kind, &mut step.body.clone());
            let mut got: Vec<String> = unknown
                .iter()
                .map(|path| format!("unknown field {path:?}"))
                .collect();
            let mut wanted: Vec<&str> = list.split(", ").collect();
            got.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(got, wanted, "{}", step.name());
            compared += 1;
        } else if step.status == 400
            && (message.contains("json: cannot unmarshal") && step.body.is_object()
                || message.contains("parsing time")
                || message.contains("quantities"))
            && !message.starts_with("error decoding patch")
        {
            assert_eq!(
                decode::decode_check(kind, &step.body),
                Err(message.to_owned()),
                "{}",
                step.name()
            );
            compared += 1;
        } else if step.status == 422
            && step.method == "PATCH"
            && message.contains("cannot unmarshal")
            && step.body.is_object()
        {
            let error = decode::decode_error("Deployment", &step.body).unwrap();
            assert!(
                message.ends_with(&format!(": {error}")),
                "{}: {error}",
                step.name()
            );
            compared += 1;
        } else if step.status == 422 && message.contains("cannot restore") {
            let error = decode::restore_error("Deployment", &step.body).unwrap();
            assert_eq!(
                message,
                format!(
                    " \"\" is invalid: patch: Invalid value: {:?}: {error}",
                    go_format::printed(&step.body)
                ),
                "{}",
                step.name()
            );
            compared += 1;
        } else if step.status == 201 && step.body.is_object() {
            assert_eq!(
                decode::decode_check(kind, &step.body),
                Ok(()),
                "{}",
                step.name()
            );
        }
    }
    assert!(
        steps.is_empty() || compared >= 9,
        "only {compared} compared"
    );
}
