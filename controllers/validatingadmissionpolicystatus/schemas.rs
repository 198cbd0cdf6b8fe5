//! The types of kinds, from the schemas that the API server publishes.
//!
//! A type is kept until the API server publishes another document for its group version.
//!
//! Upstream: `ClientDiscoveryResolver` of `k8s.io/apiserver/pkg/cel/openapi/resolver`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use steersman_cel::types::Type;
use steersman_client::{ApiClient, ApiError, ApiPath};
use tokio::sync::Mutex;

use super::kinds::Kind;
use super::openapi::Document;

/// Path of the index of documents. It has one path per group version.
const INDEX: &str = "/openapi/v3";

/// Finds the types of kinds.
pub(super) struct Schemas {
    client: ApiClient,
    /// By the path of the document, which contains a hash of its content. `None` stands for a kind
    /// without a schema. Entries of documents that the index no longer has are dropped, so the map
    /// stays small.
    known: Mutex<HashMap<String, HashMap<Kind, Option<Type>>>>,
}

/// The index of documents.
#[derive(Debug, Deserialize)]
struct Index {
    #[serde(default)]
    paths: HashMap<String, Published>,
}

#[derive(Debug, Deserialize)]
struct Published {
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

impl Schemas {
    pub(super) fn new(client: ApiClient) -> Self {
        Self {
            client,
            known: Mutex::default(),
        }
    }

    /// The types of these kinds; kinds without a schema are left out. Fails only if the API server
    /// does not answer. The index is read for each call: it shows changed documents by their path.
    pub(super) async fn types_of(
        &self,
        kinds: BTreeSet<Kind>,
    ) -> Result<BTreeMap<Kind, Type>, ApiError> {
        // The lock is held during requests, so that syncs at the same time share one document.
        let mut known = self.known.lock().await;
        let index = self.index().await?;
        known.retain(|path, _| index.paths.values().any(|document| document.url == *path));
        let mut found = BTreeMap::new();
        for kind in kinds {
            let Some(document) = index.paths.get(&path(&kind)) else {
                continue;
            };
            let types = known.entry(document.url.clone()).or_default();
            if !types.contains_key(&kind) {
                let ty = self.read(&document.url, &kind).await?;
                types.insert(kind.clone(), ty);
            }
            if let Some(Some(ty)) = types.get(&kind) {
                found.insert(kind, ty.clone());
            }
        }
        Ok(found)
    }

    /// The index of documents. A refused or malformed one is empty, so a policy then has no
    /// warnings.
    async fn index(&self) -> Result<Index, ApiError> {
        let empty = Index {
            paths: HashMap::new(),
        };
        let Some(body) = allowed(self.client.get_path(INDEX).await)? else {
            return Ok(empty);
        };
        Ok(serde_json::from_slice(&body).unwrap_or_else(|error| {
            tracing::debug!(%error, "malformed index of OpenAPI documents");
            empty
        }))
    }

    /// The type of `kind` in the document at `url`. `None` covers refused and malformed documents
    /// too. It is kept until the document changes, so that no policy repeats the failure.
    async fn read(&self, url: &str, kind: &Kind) -> Result<Option<Type>, ApiError> {
        let path = match ApiPath::served(url) {
            Ok(path) => path,
            Err(error) => {
                tracing::debug!(%error, kind = kind.kind, "schema resolution failure");
                return Ok(None);
            }
        };
        let Some(body) = allowed(self.client.get_path(path).await)? else {
            return Ok(None);
        };
        let read = |body| serde_json::from_slice::<Document<'_>>(body)?.type_of(kind);
        Ok(read(&body).unwrap_or_else(|error| {
            tracing::debug!(%error, %url, kind = kind.kind, "schema resolution failure");
            None
        }))
    }
}

/// The answer; `None` if the API server refuses the request. Such an API server publishes no
/// documents, or RBAC forbids them. Retries would not help, and admission works without warnings.
fn allowed<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(body) => Ok(Some(body)),
        Err(error) if error.is_not_found() || error.is_forbidden() => {
            tracing::debug!(%error, "schemas are not available");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The name of the document of a group version. Upstream: `resourcePathFromGV`.
fn path(kind: &Kind) -> String {
    match &*kind.group {
        "" => format!("api/{}", kind.version),
        group => format!("apis/{group}/{}", kind.version),
    }
}
