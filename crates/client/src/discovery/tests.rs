use std::collections::HashMap;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use prometheus::Registry;
use serde_json::{Value, json};

use super::*;
use crate::{ClientMetrics, ClientSettings};

fn client(base: kube::Client) -> ApiClient {
    let settings = ClientSettings {
        user_agent: "test".to_owned(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(5),
    };
    ApiClient::new(
        base,
        settings,
        ClientMetrics::register(&Registry::new()).unwrap(),
    )
}

/// A server that answers each path with its document. It answers 503 for a `null` document, and
/// 404 for an unknown path.
fn serving(documents: &[(&str, Value)]) -> ApiClient {
    let documents: HashMap<String, Value> = documents
        .iter()
        .map(|(path, body)| ((*path).to_owned(), body.clone()))
        .collect();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, body) = match documents.get(request.uri().path()) {
            Some(Value::Null) => (503, "service unavailable".to_owned()),
            Some(document) => (200, document.to_string()),
            None => (404, "404 page not found".to_owned()),
        };
        async move {
            Ok::<_, std::io::Error>(
                Response::builder()
                    .status(code)
                    .body(Body::from(body.into_bytes()))
                    .unwrap(),
            )
        }
    });
    client(kube::Client::new(service, "default"))
}

fn named(discovery: &Discovery) -> Vec<String> {
    let name = |served: &&ServedResource| {
        format!(
            "{} {}",
            served.resource.api_version(),
            served.resource.plural
        )
    };
    discovery.preferred().iter().map(name).collect()
}

fn aggregated(items: Value) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn entry(plural: &str, verbs: &[&str]) -> Value {
    let kind = json!({"group": "", "version": "", "kind": plural.to_uppercase()});
    json!({"resource": plural, "responseKind": kind, "scope": "Namespaced", "verbs": verbs})
}

#[tokio::test]
async fn each_resource_is_listed_once_in_the_preferred_version() {
    let pods = json!([{"metadata": {}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
        entry("pods", &["delete"]), {"resource": "only-parts", "subresources": []},
    ]}]}]);
    let named_groups = json!([
        {"metadata": {"name": "x.io"}, "versions": [
            {"version": "v2", "freshness": "Current", "resources": [entry("both", &["list"])]},
            {"version": "v1", "freshness": "Current", "resources": [entry("both", &[]), entry("old", &[])]},
        ]},
        {"metadata": {"name": "none.io"}, "versions": [{"version": "v1", "resources": null}]},
    ]);
    let client = serving(&[
        ("/api", aggregated(pods)),
        ("/apis", aggregated(named_groups)),
    ]);
    let found = discover(&client).await.unwrap();
    assert_eq!(named(&found), ["v1 pods", "x.io/v2 both", "x.io/v1 old"]);
    assert_eq!(found.failure(), None);
    let both = found.resource_of_kind("x.io", "v1", "BOTH").unwrap();
    assert!(!both.allows("list") && found.preferred()[1].allows("list"));
    assert_eq!(found.resource_of_kind("x.io", "v3", "BOTH"), None);
}

#[tokio::test]
async fn stale_versions_are_failures_and_other_versions_are_listed() {
    let groups = json!([
        {"metadata": {"name": "broken.example.com"}, "versions": [{"version": "v1", "freshness": "Stale", "resources": []}]},
        {"metadata": {"name": "fine.example.com"}, "versions": [{"version": "v1", "resources": [entry("things", &[])]}]},
        {"metadata": {"name": "also.example.com"}, "versions": [{"version": "v1", "freshness": "Stale"}]},
    ]);
    let found = discover(&serving(&[("/apis", aggregated(groups))]))
        .await
        .unwrap();
    assert_eq!(named(&found), ["fine.example.com/v1 things"]);
    let expected = "unable to retrieve the complete list of server APIs: \
                    also.example.com/v1: stale GroupVersion discovery: also.example.com/v1, \
                    broken.example.com/v1: stale GroupVersion discovery: broken.example.com/v1";
    assert_eq!(found.failure().unwrap().to_string(), expected);
}

#[tokio::test]
async fn the_older_form_is_read_with_one_request_per_version() {
    let group = |name: &str, versions: &[&str], preferred: &str| {
        let version = |v: &&str| json!({"groupVersion": format!("{name}/{v}"), "version": v});
        json!({
            "name": name,
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
            "preferredVersion": version(&preferred),
        })
    };
    let list = |names: &[&str]| {
        let resource =
            |n: &&str| json!({"name": n, "kind": "K", "namespaced": true, "verbs": ["delete"]});
        json!({"kind": "APIResourceList", "resources": names.iter().map(resource).collect::<Vec<_>>()})
    };
    let mut groups = vec![
        group("x.io", &["v1beta1", "v1"], "v1"),
        group("broken.io", &["v1"], "v1"),
    ];
    groups.push(json!({"name": "odd", "versions": [{"groupVersion": "a/b/c", "version": "c"}]}));
    let client = serving(&[
        ("/api", json!({"kind": "APIVersions", "versions": ["v1"]})),
        ("/apis", json!({"kind": "APIGroupList", "groups": groups})),
        ("/api/v1", list(&["pods", "pods/status"])),
        ("/apis/x.io/v1beta1", list(&["both", "old"])),
        ("/apis/x.io/v1", list(&["both"])),
        ("/apis/broken.io/v1", Value::Null),
    ]);
    let found = discover(&client).await.unwrap();
    assert_eq!(
        named(&found),
        ["v1 pods", "x.io/v1 both", "x.io/v1beta1 old"]
    );
    let expected = "unable to retrieve the complete list of server APIs: \
                    broken.io/v1: the server is currently unable to handle the request";
    assert_eq!(found.failure().unwrap().to_string(), expected);
    assert_eq!(found.unparsable, ["a/b/c"]);
}

#[tokio::test]
async fn an_unreadable_root_document_is_an_error() {
    let error = discover(&serving(&[("/apis", Value::Null)]))
        .await
        .unwrap_err();
    assert_eq!(error.request(), "GET /apis");
    let error = discover(&serving(&[
        ("/api", Value::Null),
        ("/apis", aggregated(json!([]))),
    ]))
    .await
    .unwrap_err();
    assert_eq!(error.request(), "GET /api");
    let error = discover(&serving(&[("/apis", json!("?"))]))
        .await
        .unwrap_err();
    assert!(matches!(error, ApiError::Decode { .. }), "{error}");
}
