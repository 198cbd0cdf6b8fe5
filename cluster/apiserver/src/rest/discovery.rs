//! Discovery: groups, resources, version and OpenAPI documents.
//!
//! Upstream is `apiserver/pkg/endpoints/discovery`, with the aggregated form in its package
//! `aggregated`.

use std::sync::Arc;

use http::Response;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::request::Parts;
use serde_json::{Map, Value, json};
use steersman_releases::Release;

use super::query::Query;
use super::{Body, Server, health};
use crate::kinds::{Storage, Subresource};
use crate::openapi;
use crate::registry::{Group, Registered};
use crate::route::Route;
use crate::status::Status;

/// Media type of aggregated discovery. Clients fall back to the other form if the answer has any
/// other type.
pub(super) const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The document at `/version`.
pub(super) fn version(release: Release) -> Value {
    let (major, minor) = release.parts();
    let (oldest_major, oldest_minor) = release.previous().parts();
    json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": oldest_major,
        "minCompatibilityMinor": oldest_minor,
        "gitVersion": release.git_version(),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": platform(),
    })
}

/// Platform of this build, in Go's notation such as `linux/amd64`.
fn platform() -> String {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{machine}", std::env::consts::OS)
}

impl Server {
    /// The document at `/`: all paths.
    pub(super) fn paths(&self) -> Value {
        const FIXED: [&str; 10] = [
            "/.well-known/openid-configuration",
            "/api",
            "/apis",
            "/apis/",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/openapi/v3/",
            "/openid/v1/jwks",
            "/version",
        ];
        let mut paths: Vec<String> = FIXED.map(str::to_owned).into();
        for probe in health::PROBES {
            paths.push(format!("/{probe}"));
            let checks = health::checks(probe);
            paths.extend(checks.iter().map(|check| format!("/{probe}/{check}")));
        }
        for group in self.all_groups() {
            let place = if group.name.is_empty() {
                "/api".to_owned()
            } else {
                format!("/apis/{}", group.name)
            };
            paths.extend(
                group
                    .versions
                    .iter()
                    .map(|version| format!("{place}/{version}")),
            );
            paths.push(place);
        }
        paths.sort_unstable();
        paths.dedup();
        json!({"paths": paths})
    }

    /// The discovery document of a route. `aggregated` requests all groups in one document.
    pub(super) fn discovery(&self, route: &Route, aggregated: bool) -> Result<Value, Status> {
        let unavailable = || Status::new(503, "ServiceUnavailable", "service unavailable");
        if self.faults.is_hidden(crate::faults::EVERY_GROUP) {
            return Err(unavailable());
        }
        let groups = self.all_groups();
        Ok(match route {
            Route::CoreVersions if aggregated => {
                self.aggregated(groups.iter().filter(|group| group.name.is_empty()))
            }
            Route::Groups if aggregated => {
                self.aggregated(groups.iter().filter(|group| !group.name.is_empty()))
            }
            Route::CoreVersions => json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
            }),
            Route::Groups => {
                let groups: Vec<Value> = groups
                    .iter()
                    .filter(|group| !group.name.is_empty())
                    .map(group_entry)
                    .collect();
                json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
            }
            Route::Group(name) => {
                let group = groups
                    .iter()
                    .find(|group| group.name == *name)
                    .ok_or_else(Status::no_such_resource)?;
                let Value::Object(entry) = group_entry(group) else {
                    return Err(Status::no_such_resource());
                };
                let mut document = Map::new();
                document.insert("kind".to_owned(), Value::from("APIGroup"));
                document.insert("apiVersion".to_owned(), Value::from("v1"));
                document.extend(entry);
                Value::from(document)
            }
            Route::GroupVersion(group, _) if self.faults.is_hidden(group) => {
                return Err(unavailable());
            }
            Route::GroupVersion(group, version) => self.resource_list(group, version),
            _ => return Err(Status::no_such_resource()),
        })
    }

    /// The resources and subresources of a group version.
    fn resource_list(&self, group: &str, version: &str) -> Value {
        let mut resources = Vec::new();
        for entry in self.by_name(group, version) {
            resources.push(resource_entry(&entry));
            resources.extend(
                entry
                    .resource
                    .subresources
                    .iter()
                    .map(|part| part_entry(&entry, part)),
            );
        }
        let mut list = Map::new();
        list.insert("kind".to_owned(), Value::from("APIResourceList"));
        if !group.is_empty() {
            // Upstream's list of the core group has no apiVersion.
            list.insert("apiVersion".to_owned(), Value::from("v1"));
        }
        list.insert(
            "groupVersion".to_owned(),
            Value::from(group_version(group, version)),
        );
        list.insert("resources".to_owned(), Value::from(resources));
        Value::from(list)
    }

    /// Aggregated discovery. Fault rules can mark a group as stale, like one with an unreachable
    /// server.
    fn aggregated<'a>(&self, groups: impl Iterator<Item = &'a Group>) -> Value {
        let items: Vec<Value> = groups
            .map(|group| {
                let versions: Vec<Value> = group
                    .versions
                    .iter()
                    .map(|version| {
                        if self.faults.is_hidden(&group.name) {
                            return json!({"version": version, "freshness": "Stale"});
                        }
                        if let Some(entry) = self.remote_entry(&group.name, version) {
                            return entry;
                        }
                        let resources: Vec<Value> = self
                            .by_name(&group.name, version)
                            .iter()
                            .map(|entry| aggregated_entry(entry))
                            .collect();
                        json!({"version": version, "resources": resources, "freshness": "Current"})
                    })
                    .collect();
                let metadata = if group.name.is_empty() {
                    json!({})
                } else {
                    json!({"name": group.name})
                };
                json!({"metadata": metadata, "versions": versions})
            })
            .collect();
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
    }

    fn by_name(&self, group: &str, version: &str) -> Vec<Arc<Registered>> {
        self.registry.resources(group, version)
    }

    /// The document at `/openapi/v2`, as JSON or as a protobuf message.
    pub(super) fn older_openapi(&self, parts: &Parts) -> Response<Body> {
        let mut document = openapi::older_document(&self.registry);
        self.merge_remote_documents(&mut document);
        let accepted = super::header(parts, &ACCEPT);
        let wants_protobuf = accepted
            .split(',')
            .map(super::decode::media_type)
            .any(|kind| matches!(kind, MESSAGE | REQUESTED_MESSAGE));
        let kind = if wants_protobuf {
            MESSAGE
        } else {
            "application/json"
        };
        let tag = format!("\"{}\"", document.hash);
        let mut response = if super::header(parts, &IF_NONE_MATCH) == tag {
            super::respond(304, kind, Body::Whole(None))
        } else if wants_protobuf {
            super::respond(200, kind, Body::whole(openapi::message(&document.json)))
        } else {
            super::respond(200, kind, Body::whole(document.json.to_string()))
        };
        let headers = response.headers_mut();
        headers.insert(
            ETAG,
            HeaderValue::try_from(tag).expect("a quoted number is a header value"),
        );
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        response
    }

    /// The OpenAPI document of a group version. Clients may cache it for good if the `hash` of the
    /// request is current.
    pub(super) fn openapi(
        &self,
        path: &str,
        parts: &Parts,
        query: &Query,
    ) -> Result<Response<Body>, Status> {
        let own = || openapi::document(&self.registry, path);
        let document = self.converted_document(path).or_else(own);
        let document = document.ok_or_else(Status::no_such_resource)?;
        let tag = format!("\"{}\"", document.hash);
        let mut response = if super::header(parts, &IF_NONE_MATCH) == tag {
            super::respond(304, "application/json", Body::Whole(None))
        } else {
            super::respond(
                200,
                "application/json",
                Body::whole(document.json.to_string()),
            )
        };
        let headers = response.headers_mut();
        headers.insert(
            ETAG,
            HeaderValue::try_from(tag).expect("a quoted number is a header value"),
        );
        if query.text("hash") == document.hash {
            headers.insert(
                CACHE_CONTROL,
                HeaderValue::from_static("public, immutable, max-age=31536000"),
            );
        }
        Ok(response)
    }
}

/// Media type of the protobuf answer to client-go.
const MESSAGE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Media type that client-go requests. It is no valid `Content-Type`, because of the `@`; Go's
/// parser would reject it in an answer.
const REQUESTED_MESSAGE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn group_entry(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| json!({"groupVersion": group_version(&group.name, version), "version": version}))
        .collect();
    json!({"name": group.name, "versions": versions, "preferredVersion": versions.first()})
}

fn put_names(entry: &Registered, into: &mut Map<String, Value>) {
    for (key, names) in [
        ("shortNames", &entry.resource.short_names),
        ("categories", &entry.resource.categories),
    ] {
        if !names.is_empty() {
            into.insert(key.to_owned(), json!(names));
        }
    }
}

fn resource_entry(entry: &Registered) -> Value {
    let resource = &entry.resource;
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(resource.plural));
    fields.insert("singularName".to_owned(), json!(resource.singular));
    fields.insert("namespaced".to_owned(), json!(resource.namespaced));
    fields.insert("kind".to_owned(), json!(resource.kind));
    fields.insert("verbs".to_owned(), json!(resource.verbs));
    put_names(entry, &mut fields);
    if resource.verbs.contains(&"watch") {
        // The hash is of the stored version, so all versions with one stored form share it.
        let (group, version) = match resource.storage {
            Storage::Converted(kept) => (kept.group, kept.version),
            Storage::Own | Storage::OtherVersion => (&*resource.group, &*resource.version),
        };
        // `StorageVersionHash` of `apiserver/pkg/endpoints/discovery`.
        let stored = format!("{group}/{version}/{}", resource.kind);
        let hash = ring::digest::digest(&ring::digest::SHA256, stored.as_bytes());
        let hash = base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            &hash.as_ref()[..8],
        );
        fields.insert("storageVersionHash".to_owned(), Value::from(hash));
    }
    Value::from(fields)
}

fn part_entry(entry: &Registered, part: &Subresource) -> Value {
    let resource = &entry.resource;
    let mut fields = Map::new();
    fields.insert(
        "name".to_owned(),
        Value::from(format!("{}/{}", resource.plural, part.name)),
    );
    fields.insert("singularName".to_owned(), json!(""));
    fields.insert("namespaced".to_owned(), json!(resource.namespaced));
    if let Some((group, version)) = part.group_version {
        fields.insert("group".to_owned(), json!(group));
        fields.insert("version".to_owned(), json!(version));
    }
    fields.insert("kind".to_owned(), json!(resource.kind_at(part)));
    fields.insert("verbs".to_owned(), json!(part.verbs));
    Value::from(fields)
}

fn aggregated_entry(entry: &Registered) -> Value {
    let resource = &entry.resource;
    let mut fields = Map::new();
    fields.insert("resource".to_owned(), json!(resource.plural));
    // An empty group and version mean those of the resource.
    fields.insert(
        "responseKind".to_owned(),
        json!({"group": "", "version": "", "kind": resource.kind}),
    );
    fields.insert(
        "scope".to_owned(),
        json!(if resource.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        }),
    );
    fields.insert("singularResource".to_owned(), json!(resource.singular));
    fields.insert("verbs".to_owned(), json!(resource.verbs));
    put_names(entry, &mut fields);
    let parts: Vec<Value> = resource
        .subresources
        .iter()
        .map(|part| {
            let (group, version) = part.group_version.unwrap_or_default();
            let kind = json!({"group": group, "version": version, "kind": resource.kind_at(part)});
            json!({"subresource": part.name, "responseKind": kind, "verbs": part.verbs})
        })
        .collect();
    if !parts.is_empty() {
        fields.insert("subresources".to_owned(), Value::from(parts));
    }
    Value::from(fields)
}

/// The FNV-1a hash, good enough to tell discovery documents apart.
pub(super) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
