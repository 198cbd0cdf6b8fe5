//! Operations and types in OpenAPI, compared with those of kube-apiserver 1.36.2.
//!
//! `scripts/record-openapi.py` wrote `operations.txt.gz`, `definitions.txt.gz` (version 2) and `schemas.txt.gz`
//! (version 3).

use std::collections::BTreeSet;
use std::io::Read;

use flate2::Crc;
use flate2::read::GzDecoder;
use serde_json::Value;
use steersman_devcluster::DevCluster;

use crate::support::clock;

const OPERATIONS: &[u8] = include_bytes!("operations.txt.gz");
const DEFINITIONS: &[u8] = include_bytes!("definitions.txt.gz");
const SCHEMAS: &[u8] = include_bytes!("schemas.txt.gz");

/// The lines of a recorded file.
fn recorded(file: &[u8]) -> BTreeSet<String> {
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn check(found: &BTreeSet<String>, expected: &BTreeSet<String>) {
    assert!(expected.len() > 1_000, "{}", expected.len());
    let missing: Vec<&String> = expected.difference(found).collect();
    let extra: Vec<&String> = found.difference(expected).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing: {missing:#?}\nextra: {extra:#?}"
    );
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn last(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or_default()
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

fn joined(value: &Value, field: &str) -> String {
    let texts: Vec<&str> = items(value, field)
        .map(|one| one.as_str().unwrap())
        .collect();
    texts.join(",")
}

/// Names, places and types of the parameters in `holder`.
fn parameters(document: &Value, holder: &Value) -> String {
    let shown = |one: &Value| {
        let one = match one["$ref"].as_str() {
            Some(reference) => &document["parameters"][last(reference)],
            None => one,
        };
        assert!(
            text(one, "in") == "body" || !text(one, "description").is_empty(),
            "{one}"
        );
        let kind = one["type"]
            .as_str()
            .unwrap_or_else(|| last(text(&one["schema"], "$ref")));
        let required = if one["required"] == true { "!" } else { "" };
        format!("{}:{}:{kind}{required}", text(one, "name"), text(one, "in"))
    };
    let all: Vec<String> = items(holder, "parameters").map(shown).collect();
    all.join(" ")
}

fn answers(operation: &Value) -> String {
    let all = operation["responses"].as_object().unwrap().iter();
    let all: Vec<String> = all
        .map(|(code, answer)| {
            let schema = &answer["schema"];
            let kind = schema["$ref"].as_str().unwrap_or(text(schema, "type"));
            format!("{code}={}", last(kind))
        })
        .collect();
    all.join(" ")
}

/// An operation, or the parameters of a path, as a line of the recorded file.
fn line(document: &Value, path: &str, method: &str, value: &Value, item: &Value) -> String {
    if method == "parameters" {
        return format!("{path}\t{method}\t{}", parameters(document, item));
    }
    let kind = &value["x-kubernetes-group-version-kind"];
    let kind = match kind {
        Value::Null => String::new(),
        kind => ["group", "version", "kind"]
            .map(|field| text(kind, field))
            .join("/"),
    };
    let columns = [
        path,
        method,
        text(value, "operationId"),
        text(value, "description"),
        &joined(value, "tags"),
        text(value, "x-kubernetes-action"),
        &kind,
        &joined(value, "consumes"),
        &joined(value, "produces"),
        &parameters(document, value),
        &answers(value),
    ];
    columns.join("\t")
}

#[tokio::test(start_paused = true)]
async fn operations_equal_those_of_a_real_server() {
    let cluster = DevCluster::new(clock());
    let document = cluster.get("/openapi/v2").await.unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let found = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(|(method, value)| line(&document, path, method, value, item))
    });
    check(&found.collect(), &recorded(OPERATIONS));
}

/// The descriptions of lists are not those of upstream: k8s-openapi has one type for all lists.
const LISTS: &str = "List";

/// A type or one of its fields as a line of the recorded file, where the meanings of values are left out.
fn definition(name: &str, field: &str, schema: &Value) -> String {
    let mut schema = schema.as_object().unwrap().clone();
    let mut described = Crc::new();
    if let Some(description) = schema.remove("description") {
        described.update(description.as_str().unwrap().trim_end().as_bytes());
    }
    schema.remove("properties");
    if let Some(required) = schema.get_mut("required") {
        let names = required.as_array_mut().unwrap();
        names.sort_by_key(|name| name.as_str().unwrap().to_owned());
    }
    let mut schema = Value::from(schema);
    schema.sort_all_objects();
    format!("{name}\t{field}\t{schema}\t{:08x}", described.sum())
}

/// Types and their fields, as far as they are comparable.
fn types(schemas: &Value) -> BTreeSet<String> {
    let schemas = schemas.as_object().into_iter().flatten();
    let lines = schemas.flat_map(|(name, schema)| {
        let fields = schema["properties"].as_object().into_iter().flatten();
        let own = definition(name, "", schema);
        let of_fields = fields.map(|(field, schema)| definition(name, field, schema));
        std::iter::once(own).chain(of_fields.collect::<Vec<_>>())
    });
    lines.map(comparable).collect()
}

/// A line without the checksum of a description that differs.
fn comparable(line: String) -> String {
    let (rest, _) = line.rsplit_once('\t').unwrap();
    let (name, _) = line.split_once('\t').unwrap();
    if name.ends_with(LISTS) {
        rest.to_owned()
    } else {
        line
    }
}

#[tokio::test(start_paused = true)]
async fn types_of_version_2_equal_those_of_a_real_server() {
    let cluster = DevCluster::new(clock());
    let document = cluster.get("/openapi/v2").await.unwrap();
    let expected = recorded(DEFINITIONS).into_iter().map(comparable);
    check(&types(&document["definitions"]), &expected.collect());
}

#[tokio::test(start_paused = true)]
async fn types_of_version_3_equal_those_of_a_real_server() {
    let cluster = DevCluster::new(clock());
    let index = cluster.get("/openapi/v3").await.unwrap();
    let mut found = BTreeSet::new();
    for (path, entry) in index["paths"].as_object().unwrap() {
        let document = cluster.get(text(entry, "serverRelativeURL")).await.unwrap();
        let schemas = &document["components"]["schemas"];
        let names = schemas.as_object().into_iter().flatten();
        let names: BTreeSet<&str> = names.map(|(name, _)| name.as_str()).collect();
        let names = [&**path].into_iter().chain(names);
        found.insert(names.collect::<Vec<_>>().join("\t"));
        found.extend(types(schemas));
    }
    // The other lines are those of documents.
    let is_document = |line: &str| !line.starts_with("io.k8s.");
    let expected = recorded(SCHEMAS).into_iter().map(|line| {
        if is_document(&line) {
            line
        } else {
            comparable(line)
        }
    });
    check(&found, &expected.collect());
}

#[tokio::test(start_paused = true)]
async fn every_parameter_that_operations_share_is_defined_once() {
    let cluster = DevCluster::new(clock());
    let document = cluster.get("/openapi/v2").await.unwrap();
    let shared = document["parameters"].as_object().unwrap();
    let contents: BTreeSet<String> = shared.values().map(Value::to_string).collect();
    assert_eq!(contents.len(), shared.len());
    // Tests of other projects look for these texts.
    let whole = document.to_string();
    for part in [
        "list of returned",
        "List of services",
        "Watch for changes to the described resources",
    ] {
        assert!(whole.contains(part), "{part}");
    }
}
