//! Aggregated APIs: APIServices whose Service leads to a program on this machine, by `ExternalName`.
//!
//! APIServices, Services -> checks of the programs, each on its own -> condition `Available`, discovery -> proxy
//!
//! Upstream: `k8s.io/kube-aggregator` (`pkg/controllers/status/remote`, `pkg/controllers/openapi`,
//! `pkg/apiserver`).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use serde_json::{Map, Value, json};
use tokio_rustls::TlsConnector;

use super::Server;
use crate::apimachinery::errors::text;
use crate::auth::ClientCertificate;
use crate::calls::transport::{self, Open};
use crate::openapi::Document;
use crate::registry::Group;

mod availability;
mod checks;
mod fetch;
mod proxy;

pub use checks::aggregate;
pub(crate) use proxy::Unchanged;

/// The APIs of other programs, by group and version.
#[derive(Debug, Default)]
pub(crate) struct Aggregated {
    remotes: RwLock<BTreeMap<(String, String), Arc<Remote>>>,
    /// The certificate of the server as a proxy, made at its first use.
    certificate: OnceLock<Option<ClientCertificate>>,
}

/// An APIService with a Service.
#[derive(Debug)]
pub(super) struct Remote {
    group: String,
    version: String,
    /// `groupPriorityMinimum`.
    priority: i64,
    /// `None` if the Service leads to no program.
    program: Option<Arc<Program>>,
    /// The condition `Available`.
    is_available: bool,
    /// Its resources in aggregated discovery. Without them, the entry is stale.
    resources: Option<Value>,
    /// Its documents in OpenAPI version 3, by path.
    documents: Map<String, Value>,
    /// Its document in OpenAPI version 2.
    older: Option<Document>,
    /// The same in version 3, of a program without that version.
    newer: Option<Document>,
}

/// A program that serves an API.
pub(super) struct Program {
    /// In its certificate.
    name: String,
    host: String,
    port: u16,
    /// The error tells that the `caBundle` is unusable.
    tls: Result<TlsConnector, String>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Remote {
    /// The one of an APIService that leads to no program so far.
    fn of(spec: &Value) -> Self {
        Self {
            group: text(spec, "group").to_owned(),
            version: text(spec, "version").to_owned(),
            priority: spec["groupPriorityMinimum"].as_i64().unwrap_or_default(),
            program: None,
            is_available: false,
            resources: None,
            documents: Map::new(),
            older: None,
            newer: None,
        }
    }

    /// `/apis/GROUP/VERSION`.
    fn path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }
}

impl Program {
    /// `host:port`.
    fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    async fn open(&self) -> Result<Open, String> {
        let tls = self.tls.as_ref().map_err(Clone::clone)?;
        transport::open(&self.host, self.port, &self.name, tls).await
    }
}

impl Server {
    /// The other program that serves `path`. The server itself keeps its own APIs, unless an APIService
    /// for them leads to a program.
    pub(super) fn remote_of(&self, path: &str) -> Option<Arc<Remote>> {
        let remotes = self.aggregated.remotes.read();
        if remotes.is_empty() {
            return None;
        }
        let document = path.strip_prefix("/openapi/v3");
        let mut parts = document.unwrap_or(path).strip_prefix("/apis/")?.split('/');
        let key = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let remote = remotes.get(&key)?;
        let is_own = self.registry.has_version(&key.0, &key.1) == Some(true);
        let is_asked = match document {
            Some(_) => !remote.documents.is_empty(),
            None => remote.program.is_some() || !is_own,
        };
        is_asked.then(|| Arc::clone(remote))
    }

    /// The group at `path`, if it is one of other programs.
    pub(super) fn remote_group(&self, path: &str) -> Option<String> {
        let remotes = self.aggregated.remotes.read();
        let named = path.strip_prefix("/apis/")?;
        let named = named.strip_suffix('/').unwrap_or(named);
        let mut groups = remotes.keys().map(|(group, _)| group);
        groups.find(|group| *group == named).cloned()
    }

    /// The groups of the server, and those of other programs by their priority.
    pub(super) fn all_groups(&self) -> Vec<Group> {
        let mut groups = self.registry.groups();
        let remotes = self.aggregated.remotes.read();
        for ((name, version), remote) in remotes.iter() {
            if let Some(known) = groups.iter_mut().find(|known| known.name == *name) {
                if !known.versions.contains(version) {
                    known.versions.push(version.clone());
                }
                continue;
            }
            // Groups of equal priority are in the order of their names.
            let is_earlier = |other: &Group| {
                let priority = self.priority_of(other);
                priority.is_some_and(|priority| {
                    priority > remote.priority
                        || (priority == remote.priority && other.name < *name)
                })
            };
            let at = groups
                .iter()
                .rposition(is_earlier)
                .map_or(0, |last| last + 1);
            let group = Group {
                name: name.clone(),
                versions: vec![version.clone()],
            };
            groups.insert(at, group);
        }
        // The first version is the preferred one. Versions of equal priority keep their order.
        for group in &mut groups {
            if remotes.keys().any(|(name, _)| *name == group.name) {
                let name = group.name.clone();
                let priority = |version: &String| Reverse(self.version_priority(&name, version));
                group.versions.sort_by_key(priority);
            }
        }
        groups
    }

    /// `versionPriority` of an APIService. Upstream: `ByVersionPriority` of `apiregistration/v1/helper`.
    fn version_priority(&self, group: &str, version: &str) -> Option<i64> {
        let object = self
            .api_service_kind()
            .store
            .get(&format!("{version}.{group}"))?;
        object.to_value()["spec"]["versionPriority"].as_i64()
    }

    /// The priority of a group by its APIServices; `None` without any.
    fn priority_of(&self, group: &Group) -> Option<i64> {
        let entry = self.api_service_kind();
        let priorities = group.versions.iter().filter_map(|version| {
            let object = entry.store.get(&format!("{version}.{}", group.name))?;
            object.to_value()["spec"]["groupPriorityMinimum"].as_i64()
        });
        priorities.max()
    }

    /// The entry of a version in aggregated discovery, if another program serves it.
    pub(super) fn remote_entry(&self, group: &str, version: &str) -> Option<Value> {
        let remote = self.remote_of(&format!("/apis/{group}/{version}"))?;
        Some(match &remote.resources {
            Some(resources) => {
                json!({"version": version, "resources": resources, "freshness": "Current"})
            }
            None => json!({"version": version, "freshness": "Stale"}),
        })
    }

    /// Adds the documents of other programs to the index of OpenAPI version 3.
    pub(super) fn add_remote_documents(&self, index: &mut Value) {
        for remote in self.aggregated.remotes.read().values() {
            for (path, entry) in &remote.documents {
                index["paths"][path] = entry.clone();
            }
            if let Some(newer) = &remote.newer {
                let path = remote.path();
                let url = format!("/openapi/v3{path}?hash={}", newer.hash);
                let name = path.trim_start_matches('/');
                index["paths"][name] = json!({"serverRelativeURL": url});
            }
        }
    }
    /// The document of OpenAPI version 3 at `path`, such as `apis/apps/v1`, of a program without that version.
    pub(super) fn converted_document(&self, path: &str) -> Option<Document> {
        let remotes = self.aggregated.remotes.read();
        let mut remotes = remotes.values();
        let remote = remotes.find(|remote| remote.path().strip_prefix('/') == Some(path))?;
        remote.newer.clone()
    }

    /// Merges the documents of other programs into that of the server in OpenAPI version 2. Upstream:
    /// `sortByPriority` of `kube-aggregator/pkg/controllers/openapi/aggregator`, which ignores priorities
    /// of versions.
    pub(super) fn merge_remote_documents(&self, document: &mut Document) {
        let remotes: Vec<Arc<Remote>> = self.aggregated.remotes.read().values().cloned().collect();
        let of_group = |group: &str| {
            let own = remotes.iter().filter(|remote| remote.group == group);
            own.map(|remote| remote.priority).max()
        };
        let mut sorted: Vec<&Arc<Remote>> = remotes.iter().collect();
        sorted.sort_by_key(|remote| {
            let name = format!("{}.{}", remote.version, remote.group);
            (Reverse(of_group(&remote.group)), name)
        });
        for remote in sorted {
            if let Some(older) = &remote.older {
                document.merge(older, &format!("{}/", remote.path()));
            }
        }
    }
}
