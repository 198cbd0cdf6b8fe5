//! The versions in which the API server has types whose version depends on the release.
//!
//! Controllers name such a type in one version. A list that finds no type asks the API server for
//! the other versions ([`ResourceType::other_versions`]). All later requests use the version that it
//! has, in paths and in bodies, until a list finds no type again: a control plane may be upgraded.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use steersman_values::resource::ResourceType;

use super::{ApiClient, ApiError, ApiPath};

/// The found versions of one API server, by `plural.group`. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Versions(Arc<Mutex<HashMap<String, &'static str>>>);

impl Versions {
    /// The version of `resource`, if it differs from the named one.
    pub(super) fn other(&self, resource: &ResourceType) -> Option<&'static str> {
        if resource.other_versions().is_empty() {
            return None;
        }
        self.0.lock().get(&resource.to_string()).copied()
    }

    /// `resource` in the version that the API server has.
    pub(super) fn served<'a>(&self, resource: &'a ResourceType) -> Cow<'a, ResourceType> {
        match self.other(resource) {
            None => Cow::Borrowed(resource),
            Some(version) => Cow::Owned(ResourceType {
                version: Cow::Borrowed(version),
                ..resource.clone()
            }),
        }
    }

    /// Remembers the version of `resource`. Returns whether it is another one than before.
    fn set(&self, resource: &ResourceType, version: Option<&'static str>) -> bool {
        let key = resource.to_string();
        let mut found = self.0.lock();
        let before = match version {
            Some(version) => found.insert(key, version),
            None => found.remove(&key),
        };
        before != version
    }
}

impl ApiClient {
    /// `resource` in the version that the API server has, as far as lists have shown it.
    pub fn served<'a>(&self, resource: &'a ResourceType) -> Cow<'a, ResourceType> {
        self.versions().served(resource)
    }

    /// Looks for `resource` in its versions, after a list that found none. Returns whether requests
    /// now use another version than before.
    pub(super) async fn finds_other_version(
        &self,
        resource: &ResourceType,
    ) -> Result<bool, ApiError> {
        let others = resource.other_versions();
        if others.is_empty() {
            return Ok(false);
        }
        if self.has(resource, &resource.version).await? {
            return Ok(self.versions().set(resource, None));
        }
        for other in others {
            let version = other.version;
            if self.has(resource, version).await? {
                tracing::info!(%resource, version, "The API server has the type in another version");
                return Ok(self.versions().set(resource, Some(version)));
            }
        }
        Ok(false)
    }

    /// Whether the API server has `resource` in this version.
    async fn has(&self, resource: &ResourceType, version: &str) -> Result<bool, ApiError> {
        let path = ApiPath::of_version(&resource.group, version)?;
        match self.get_path(path).await {
            Ok(list) => Ok(lists(&list, &resource.plural)),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether the APIResourceList `answer` has a resource of this name.
fn lists(answer: &[u8], plural: &str) -> bool {
    #[derive(Deserialize)]
    struct Resources<'a> {
        #[serde(borrow)]
        resources: Vec<Named<'a>>,
    }
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    let list: Result<Resources<'_>, _> = serde_json::from_slice(answer);
    list.is_ok_and(|list| list.resources.iter().any(|one| one.name == plural))
}

/// The object `body` with the `apiVersion` of `resource`. A body without one keeps its bytes.
pub(super) fn in_version(body: Bytes, resource: &ResourceType) -> Bytes {
    const FIELD: &str = "apiVersion";
    let version = to_raw_value(&resource.api_version()).expect("a string is JSON");
    let Ok(mut object) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(&body) else {
        return body;
    };
    if object.contains_key(FIELD) {
        object.insert(FIELD.to_owned(), &version);
    }
    match serde_json::to_vec(&object) {
        Ok(json) => Bytes::from(json),
        Err(_) => body,
    }
}
