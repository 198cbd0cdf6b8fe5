//! Operations in OpenAPI version 2, compared with those of kube-apiserver 1.36.2.
//!
//! `scripts/record-openapi.py` wrote `operations.txt.gz`.

use std::collections::BTreeSet;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;
use steersman_devcluster::DevCluster;

use crate::support::clock;

const RECORDED: &[u8] = include_bytes!("operations.txt.gz");

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
    let mut recorded = String::new();
    GzDecoder::new(RECORDED)
        .read_to_string(&mut recorded)
        .unwrap();
    let expected: BTreeSet<&str> = recorded.lines().collect();
    assert!(expected.len() > 1_000, "{}", expected.len());

    let cluster = DevCluster::new(clock());
    let document = cluster.get("/openapi/v2").await.unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let found: BTreeSet<String> = paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().iter();
            methods.map(|(method, value)| line(&document, path, method, value, item))
        })
        .collect();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let missing: Vec<&&str> = expected.difference(&found).collect();
    let extra: Vec<&&str> = found.difference(&expected).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing: {missing:#?}\nextra: {extra:#?}"
    );
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
