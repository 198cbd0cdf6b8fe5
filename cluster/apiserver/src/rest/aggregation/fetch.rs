//! Requests of the server itself to a program: discovery, and documents of OpenAPI.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::super::discovery::AGGREGATED;
use super::Program;
use crate::calls::exchange::send_and_read;
use crate::openapi::Document;

/// Longest wait for an answer, as upstream's.
const LIMIT: Duration = Duration::from_secs(5);
/// The largest answer: as much as the largest documents of OpenAPI need.
const MAX_ANSWER: usize = 32 << 20;

impl Program {
    /// Asks for the resources of the group version at `path`. The error has the words of the condition
    /// `Available`.
    pub(super) async fn check(&self, path: &str) -> Result<(), String> {
        let url = format!("https://{}{path}", self.authority());
        let failed =
            |why: String| format!("failing or missing response from {url}: Get {url:?}: {why}");
        let answer = self.get(path, "application/json").await.map_err(failed)?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            code => Err(format!(
                "failing or missing response from {url}: bad status from {url}: {code}"
            )),
        }
    }

    /// The entry of a version in aggregated discovery: as the program has it, or made from its list of
    /// resources.
    pub(super) async fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let whole = self.get("/apis", AGGREGATED).await.ok()?;
        let kind = whole.headers().get(CONTENT_TYPE);
        let is_aggregated = kind
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.contains("as=APIGroupDiscoveryList"));
        if whole.status() == 200 && is_aggregated {
            let whole: Value = serde_json::from_slice(whole.body()).ok()?;
            let mut groups = whole["items"].as_array()?.iter();
            let group = groups.find(|known| known["metadata"]["name"] == group)?;
            let mut versions = group["versions"].as_array()?.iter();
            let version = versions.find(|known| known["version"] == version)?;
            return Some(version["resources"].clone());
        }
        let path = format!("/apis/{group}/{version}");
        let list = self.get(&path, "application/json").await.ok()?;
        let list: Value = serde_json::from_slice(list.body()).ok()?;
        list["resources"].as_array().map(|list| aggregated(list))
    }

    /// The documents of a group version in OpenAPI version 3, by path. `None` if the program lacks that version.
    pub(super) async fn documents(&self, path: &str) -> Option<Map<String, Value>> {
        let Ok(index) = self.get("/openapi/v3", "application/json").await else {
            return Some(Map::new());
        };
        if index.status() == StatusCode::NOT_FOUND {
            return None;
        }
        let index: Value = serde_json::from_slice(index.body()).unwrap_or_default();
        let paths = index["paths"].as_object().into_iter().flatten();
        let own = paths.filter(|(name, _)| path.strip_prefix('/') == Some(name.as_str()));
        let own = own.map(|(name, entry)| (name.clone(), entry.clone()));
        Some(own.collect())
    }

    /// The document of OpenAPI version 2.
    pub(super) async fn older_document(&self) -> Option<Document> {
        let answer = self.get("/openapi/v2", "application/json").await.ok()?;
        let is_there = answer.status() == StatusCode::OK;
        is_there.then(|| Document::of_program(answer.body()))?
    }

    /// Sends a GET in the name of the aggregator.
    async fn get(&self, path: &str, accept: &str) -> Result<Response<Bytes>, String> {
        let request = Request::get(path)
            .header(HOST, self.authority())
            .header(USER_AGENT, "Go-http-client/1.1")
            .header(ACCEPT, accept)
            .header("x-remote-user", "system:kube-aggregator")
            .header("x-remote-group", "system:masters")
            .body(Full::default())
            .map_err(|why| why.to_string())?;
        let exchange = async { send_and_read(self.open().await?, request, MAX_ANSWER).await };
        let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        timeout(LIMIT, exchange)
            .await
            .unwrap_or_else(|_| Err(late.to_owned()))
    }
}

/// Resources in aggregated discovery, from those of an APIResourceList. Upstream:
/// `ConvertGroupVersionIntoToDiscovery` of `apiserver/pkg/endpoints`.
fn aggregated(list: &[Value]) -> Value {
    let kind = |resource: &Value| {
        let text = |field: &str| resource[field].as_str().unwrap_or_default();
        json!({"group": text("group"), "version": text("version"), "kind": text("kind")})
    };
    let mut parts: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for part in list {
        let name = part["name"].as_str().unwrap_or_default();
        if let Some((own, subresource)) = name.split_once('/') {
            parts.entry(own).or_default().push(json!({
                "subresource": subresource, "responseKind": kind(part), "verbs": part["verbs"],
            }));
        }
    }
    let named = list
        .iter()
        .map(|resource| (resource["name"].as_str().unwrap_or_default(), resource));
    let whole = named.filter(|(name, _)| !name.contains('/'));
    let entry = |(own, resource): (&str, &Value)| {
        let scope = if resource["namespaced"] == true {
            "Namespaced"
        } else {
            "Cluster"
        };
        let mut entry = json!({
            "resource": own, "responseKind": kind(resource), "scope": scope,
            "singularResource": resource["singularName"], "verbs": resource["verbs"],
        });
        for field in ["shortNames", "categories"] {
            if let Some(names) = resource.get(field) {
                entry[field] = names.clone();
            }
        }
        if let Some(parts) = parts.get(own) {
            entry["subresources"] = Value::from(parts.clone());
        }
        entry
    };
    whole.map(entry).collect()
}
