//! Compares the embedded server of each release with the recorded answers of a real one: discovery,
//! the fields of types, and `requests.json`, whose answers differ between releases.
//!
//! `1.34.json` and so on hold the answers, by `scripts/record-releases.sh`. `known.txt` lists the other
//! answers of the embedded server, with the reason. The test fails for an unlisted difference, and for
//! a listed answer without one. `STEERSMAN_GOLDEN=write` adds unlisted differences to the list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Map, Value, json};
use steersman_apiserver::auth::User;
use steersman_apiserver::{InProcess, Server};
use steersman_releases::Release;

use crate::support::recorded::{differ, known, masked};
use crate::support::{ask, clock};

/// The releases of which a real server was asked.
const RECORDED: [&str; 3] = ["1.34", "1.35", "1.36"];

/// The reason of a difference that no person has described yet.
const UNDESCRIBED: &str = "to be described";

/// Answers by the name of the request.
type Answers = BTreeMap<String, Value>;

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/releases");
    folder.join(name)
}

fn read(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file(name)).unwrap()).unwrap()
}

#[tokio::test]
async fn each_release_answers_as_the_real_server() {
    let text = std::fs::read_to_string(file("known.txt")).unwrap();
    let mut known = known(&text);
    let mut problems = String::new();
    let mut unlisted = String::new();
    for release in RECORDED {
        // A DevCluster would serve the metrics APIs, too.
        let server = Server::of_release(release.parse().unwrap(), clock(), true, None);
        let server = InProcess::new(Arc::new(server), User::admin());
        let found = answers(&kube::Client::new(server, "default")).await;
        let recorded: Answers = serde_json::from_value(read(&format!("{release}.json"))).unwrap();
        let names: BTreeSet<&String> = recorded.keys().chain(found.keys()).collect();
        for name in names {
            let wanted = recorded.get(name).unwrap_or(&Value::Null);
            let got = found.get(name).unwrap_or(&Value::Null);
            let difference = differ(wanted, got);
            let id = format!("{release}/{}", name.replace(' ', "-"));
            match (difference, known.remove(&id)) {
                (Some(difference), None) => {
                    writeln!(problems, "{id}\n{difference}").unwrap();
                    writeln!(unlisted, "{id} {UNDESCRIBED}").unwrap();
                }
                (None, Some(_)) => {
                    writeln!(problems, "{id} is listed as different, but equal").unwrap();
                }
                _ => {}
            }
        }
    }
    for id in known.keys() {
        writeln!(problems, "{id} is listed, but no answer is called so").unwrap();
    }
    if std::env::var("STEERSMAN_GOLDEN").is_ok_and(|mode| mode == "write") {
        std::fs::write(file("known.txt"), text + &unlisted).unwrap();
    }
    assert!(problems.is_empty(), "\n{problems}");
}

#[test]
#[ignore = "records the answers of the real server that KUBECONFIG names"]
fn record() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let kubeconfig = Kubeconfig::from_env().unwrap().unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let client = kube::Client::try_from(config.unwrap()).unwrap();
        let answers = answers(&client).await;
        let release = version(&answers["version"]);
        let lines: Vec<String> = answers
            .iter()
            .map(|(name, answer)| format!(" {}: {answer}", json!(name)))
            .collect();
        let text = format!("{{\n{}\n}}\n", lines.join(",\n"));
        std::fs::write(file(&format!("{release}.json")), text).unwrap();
        println!("{release}: {} answers", answers.len());
    });
}

/// The release in an answer to `/version`.
fn version(answer: &Value) -> Release {
    let version = answer["gitVersion"].as_str().unwrap();
    Release::in_version(version).unwrap()
}

/// The answers of a new server.
async fn answers(client: &kube::Client) -> Answers {
    let mut answers = Answers::new();
    let version = get(client, "/version", "application/json").await;
    answers.insert("version".to_owned(), of_release(&version));
    let groups = get(client, "/apis", "application/json").await;
    answers.insert("groups".to_owned(), masked(&groups));
    for (path, name) in group_versions(&groups) {
        let list = get(client, &path, "application/json").await;
        answers.insert(format!("resources {name}"), masked(&list));
        let document = get(client, &format!("/openapi/v3{path}"), "application/json").await;
        answers.extend(fields(&document));
    }
    for path in ["/api", "/apis"] {
        let document = get(client, path, AGGREGATED).await;
        answers.insert(format!("aggregated {path}"), masked(&document));
    }
    for request in read("requests.json").as_array().unwrap() {
        let text = |field: &str| request[field].as_str().unwrap_or_default();
        let body = match &request["body"] {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let kind = text("type");
        let answer = ask(client, text("method"), text("path"), kind, body.as_bytes()).await;
        answers.insert(
            format!("request {}", text("name")),
            json!({"code": answer.code, "warnings": answer.warnings, "body": masked(&answer.body)}),
        );
    }
    answers
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The JSON at a path.
async fn get(client: &kube::Client, path: &str, accept: &str) -> Value {
    let request = Request::get(path).header(http::header::ACCEPT, accept);
    let text = client
        .request_text(request.body(Vec::new()).unwrap())
        .await
        .unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The parts of a version that depend on the release, and not on the build.
fn of_release(version: &Value) -> Value {
    const OF_RELEASE: [&str; 7] = [
        "major",
        "minor",
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
        "gitVersion",
    ];
    let parts = OF_RELEASE.map(|field| (field.to_owned(), version[field].clone()));
    parts.into_iter().collect::<Map<_, _>>().into()
}

/// Paths and names of all group versions.
fn group_versions(groups: &Value) -> Vec<(String, String)> {
    let mut found = vec![("/api/v1".to_owned(), "v1".to_owned())];
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let name = version["groupVersion"].as_str().unwrap();
            found.push((format!("/apis/{name}"), name.to_owned()));
        }
    }
    found
}

/// The types of discovery and of watches. The embedded documents lack them in all releases.
const OF_ALL_RELEASES: [&str; 3] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.APIResource",
    "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
];

/// The names of the fields of each type in an OpenAPI document. Types of several documents have one answer.
fn fields(document: &Value) -> impl Iterator<Item = (String, Value)> {
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let compared = schemas
        .iter()
        .filter(|(name, _)| !OF_ALL_RELEASES.contains(&&***name));
    compared.filter_map(|(name, schema)| {
        let mut names: Vec<&String> = schema["properties"].as_object()?.keys().collect();
        names.sort();
        Some((format!("fields {name}"), json!(names)))
    })
}
