//! Maps the kinds of owner references to resources, with a discovery that is repeated from time to
//! time.
//!
//! A request needs the plural name of a resource, and an owner reference has only the kind. The
//! first lookup reads the discovery of the API server, and later lookups share it until it is
//! [`MAX_AGE`] old. A new custom resource is therefore known after at most that time.
//!
//! Upstream: the `RESTMapper` of the `ControllerContext`, a `DeferredDiscoveryRESTMapper` that is
//! reset every 30 s (`cmd/kube-controller-manager/app/controllermanager.go`).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use steersman_values::resource::ResourceType;

use super::{Discovery, GroupVersion, INCOMPLETE, ServedResource, discover};
use crate::{ApiClient, ApiError, Decision};

/// Age at which a lookup reads the discovery again.
const MAX_AGE: Duration = Duration::from_secs(30);

/// Finds resources by kind. Lookups at the same time share one discovery.
pub struct RestMapper {
    client: ApiClient,
    found: Mutex<Option<(Instant, Arc<Discovery>)>>,
}

/// A kind could not be mapped to a resource.
#[derive(Debug, thiserror::Error)]
pub enum MappingError {
    /// `apiVersion` has more than one slash.
    #[error("unexpected GroupVersion string: {0}")]
    ApiVersion(String),
    /// The discovery has no such kind.
    #[error("no matches for kind {kind:?} in version \"{api_version}\"")]
    NoMatch {
        /// The kind.
        kind: String,
        /// Group and version of the lookup.
        api_version: GroupVersion,
        /// True if the discovery of this version failed. A later lookup may find the kind.
        discovery_failed: bool,
    },
    /// The discovery has no such kind in any version of the group.
    #[error("no matches for kind {kind:?} in group {group:?}")]
    NoMatchInGroup {
        /// The kind.
        kind: String,
        /// API group of the lookup; empty for core.
        group: String,
        /// Set if the discovery of a version of the group failed.
        #[source]
        incomplete: Option<Decision>,
    },
    /// The API server did not answer the discovery.
    #[error("{0}")]
    Discovery(#[source] ApiError),
}

/// A kind of one version, as a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The resource in the version of the lookup.
    pub resource: ResourceType,
    /// The same resource in the version that the server prefers for it.
    pub preferred: ResourceType,
}

impl MappingError {
    /// True if a later lookup may succeed although the served kinds do not change.
    pub fn is_failed_request(&self) -> bool {
        match self {
            Self::ApiVersion(_) => false,
            Self::NoMatch {
                discovery_failed, ..
            } => *discovery_failed,
            Self::NoMatchInGroup { incomplete, .. } => incomplete.is_some(),
            Self::Discovery(_) => true,
        }
    }
}

impl RestMapper {
    /// A mapper that reads the discovery with `client`. Sends no request before the first lookup.
    pub fn new(client: ApiClient) -> Self {
        let found = Mutex::default();
        Self { client, found }
    }

    /// The resource of `kind` in `api_version`.
    pub async fn mapping(&self, api_version: &str, kind: &str) -> Result<Mapping, MappingError> {
        let (group, version) = split_api_version(api_version)?;
        let discovery = self.discovery().await.map_err(MappingError::Discovery)?;
        map(&discovery, group, version, kind).ok_or_else(|| {
            let api_version = GroupVersion {
                group: group.to_owned(),
                version: version.to_owned(),
            };
            MappingError::NoMatch {
                kind: kind.to_owned(),
                discovery_failed: discovery.failures.contains_key(&api_version),
                api_version,
            }
        })
    }

    /// The resources of `kind` in all versions of `group`, each once and in its preferred version.
    /// The first one is of the first version that has the kind. Never empty.
    ///
    /// Upstream: `RESTMappings` for a group and a kind.
    pub async fn resources(
        &self,
        group: &str,
        kind: &str,
    ) -> Result<Vec<ResourceType>, MappingError> {
        let discovery = self.discovery().await.map_err(MappingError::Discovery)?;
        let found = resources(&discovery, group, kind);
        if found.is_empty() {
            let has_failed = discovery.failures.keys().any(|of| of.group == group);
            return Err(MappingError::NoMatchInGroup {
                kind: kind.to_owned(),
                group: group.to_owned(),
                incomplete: has_failed.then_some(INCOMPLETE),
            });
        }
        Ok(found)
    }

    /// The kinds of `resource` in `version`. The core group, which is empty, stands for all groups.
    /// The name of the resource is its plural or its lower-case kind.
    ///
    /// Upstream: `KindsFor`.
    pub async fn kinds(
        &self,
        group: &str,
        version: &str,
        resource: &str,
    ) -> Result<Vec<ResourceType>, ApiError> {
        let discovery = self.discovery().await?;
        Ok(kinds(&discovery, group, version, resource))
    }

    /// The resource with this plural name in `version`, or, if that is empty, in the version that the server prefers.
    ///
    /// Upstream: `ResourcesFor`.
    pub async fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<Option<ServedResource>, ApiError> {
        let discovery = self.discovery().await?;
        Ok(resource(&discovery, group, version, plural).cloned())
    }

    /// Makes the next lookup read the discovery again.
    pub async fn reset(&self) {
        *self.found.lock().await = None;
    }

    /// The last discovery, or a new one if that is too old. A failed discovery is not kept.
    async fn discovery(&self) -> Result<Arc<Discovery>, ApiError> {
        let mut found = self.found.lock().await;
        if let Some((at, discovery)) = &*found
            && at.elapsed() < MAX_AGE
        {
            return Ok(Arc::clone(discovery));
        }
        let discovery = Arc::new(discover(&self.client).await?);
        *found = Some((Instant::now(), Arc::clone(&discovery)));
        Ok(discovery)
    }
}

/// API group (empty for core) and version of an `apiVersion`. Upstream: `ParseGroupVersion`.
pub fn split_api_version(api_version: &str) -> Result<(&str, &str), MappingError> {
    match api_version.split_once('/') {
        None => Ok(("", api_version)),
        Some((_, version)) if version.contains('/') => {
            Err(MappingError::ApiVersion(api_version.to_owned()))
        }
        Some(parts) => Ok(parts),
    }
}

fn map(discovery: &Discovery, group: &str, version: &str, kind: &str) -> Option<Mapping> {
    let found = discovery.resource_of_kind(group, version, kind)?;
    let resource = found.resource.clone();
    let served = discovery.groups.iter().find(|known| known.name == group)?;
    let preferred = served.preferred_resources().into_iter();
    let preferred = preferred
        .map(|other| &other.resource)
        .find(|other| other.plural == resource.plural)?
        .clone();
    Some(Mapping {
        resource,
        preferred,
    })
}

fn resources(discovery: &Discovery, group: &str, kind: &str) -> Vec<ResourceType> {
    let served = discovery.groups.iter().filter(|known| known.name == group);
    let mappings = served
        .flat_map(|group| group.versions.iter())
        .filter_map(|(version, _)| map(discovery, group, version, kind));
    let mut found: Vec<ResourceType> = Vec::new();
    for Mapping { preferred, .. } in mappings {
        if !found.contains(&preferred) {
            found.push(preferred);
        }
    }
    found
}

fn resource<'a>(
    discovery: &'a Discovery,
    group: &str,
    version: &str,
    plural: &str,
) -> Option<&'a ServedResource> {
    let group = discovery.groups.iter().find(|known| known.name == group)?;
    let resources = if version.is_empty() {
        group.preferred_resources()
    } else {
        let (_, resources) = group.versions.iter().find(|(known, _)| known == version)?;
        resources.iter().collect()
    };
    let mut resources = resources.into_iter();
    resources.find(|served| served.resource.plural == plural)
}

fn kinds(discovery: &Discovery, group: &str, version: &str, resource: &str) -> Vec<ResourceType> {
    let name = resource.to_lowercase();
    let groups = discovery.groups.iter();
    groups
        .filter(|known| group.is_empty() || known.name == group)
        .flat_map(|known| &known.versions)
        .filter(|(known, _)| known == version)
        .flat_map(|(_, resources)| resources)
        .map(|served| &served.resource)
        .filter(|known| *known.plural == *name || known.kind.to_lowercase() == name)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::ServedGroup;

    fn served(version: &str, plural: &str) -> ServedResource {
        let resource = ResourceType {
            group: "shop.io".into(),
            version: version.to_owned().into(),
            kind: format!("Kind-of-{plural}").into(),
            plural: plural.to_owned().into(),
            namespaced: true,
        };
        let verbs = vec!["get".to_owned()];
        ServedResource { resource, verbs }
    }

    #[test]
    fn a_kind_maps_to_its_own_and_to_the_preferred_version() {
        let versions = vec![
            ("v2".to_owned(), vec![served("v2", "carts")]),
            (
                "v1".to_owned(),
                vec![served("v1", "carts"), served("v1", "shelves")],
            ),
        ];
        let group = ServedGroup {
            name: "shop.io".to_owned(),
            preferred: "v2".to_owned(),
            versions,
        };
        let discovery = Discovery {
            groups: vec![group],
            ..Discovery::default()
        };
        // (group, version, kind, version and preferred version of the mapping)
        let cases = [
            ("shop.io", "v1", "Kind-of-carts", Some(("v1", "v2"))),
            ("shop.io", "v2", "Kind-of-carts", Some(("v2", "v2"))),
            ("shop.io", "v1", "Kind-of-shelves", Some(("v1", "v1"))),
            ("shop.io", "v2", "Kind-of-shelves", None),
            ("shop.io", "v3", "Kind-of-carts", None),
            ("other.io", "v1", "Kind-of-carts", None),
        ];
        for (group, version, kind, expected) in cases {
            let found = map(&discovery, group, version, kind);
            let versions = found
                .as_ref()
                .map(|found| (&*found.resource.version, &*found.preferred.version));
            assert_eq!(versions, expected, "{group}/{version} {kind}");
        }
        // (group, version, plural, version of the resource)
        let cases = [
            ("shop.io", "", "carts", Some("v2")),
            ("shop.io", "v1", "carts", Some("v1")),
            ("shop.io", "", "shelves", Some("v1")),
            ("shop.io", "v2", "shelves", None),
            ("shop.io", "v3", "carts", None),
            ("other.io", "", "carts", None),
        ];
        for (group, version, plural, expected) in cases {
            let found = resource(&discovery, group, version, plural);
            let found = found.map(|served| &*served.resource.version);
            assert_eq!(found, expected, "{group}/{version} {plural}");
        }
        // (group, kind, resources in their preferred versions)
        let cases: [(&str, &str, &[&str]); 4] = [
            ("shop.io", "Kind-of-carts", &["v2/carts"]),
            ("shop.io", "Kind-of-shelves", &["v1/shelves"]),
            ("shop.io", "Kind-of-walls", &[]),
            ("other.io", "Kind-of-carts", &[]),
        ];
        for (group, kind, expected) in cases {
            let found: Vec<String> = resources(&discovery, group, kind)
                .iter()
                .map(|found| format!("{}/{}", found.version, found.plural))
                .collect();
            assert_eq!(found, expected, "{group} {kind}");
        }
    }

    /// Upstream: `TestRESTMapperKindsFor`.
    #[test]
    fn a_resource_without_a_group_maps_to_the_kinds_of_all_groups() {
        let group = |name: &str| ServedGroup {
            name: name.to_owned(),
            preferred: "v1".to_owned(),
            versions: vec![("v1".to_owned(), vec![served("v1", "carts")])],
        };
        let discovery = Discovery {
            groups: vec![group(""), group("shop.io")],
            ..Discovery::default()
        };
        // (group, version, resource, number of kinds)
        let cases = [
            ("shop.io", "v1", "carts", 1),
            ("shop.io", "v1", "Carts", 1),
            ("shop.io", "v1", "kind-of-carts", 1),
            ("", "v1", "carts", 2),
            ("", "v2", "carts", 0),
            ("shop", "v1", "carts", 0),
            ("shop.io", "v1", "cart", 0),
        ];
        for (group, version, resource, expected) in cases {
            let found = kinds(&discovery, group, version, resource);
            assert_eq!(found.len(), expected, "{group}/{version} {resource}");
        }
    }

    #[test]
    fn an_api_version_has_at_most_one_slash() {
        // (apiVersion, group and version)
        let cases = [
            ("v1", Some(("", "v1"))),
            ("/v1", Some(("", "v1"))),
            ("apps/v1", Some(("apps", "v1"))),
            ("a/b/c", None),
        ];
        for (text, expected) in cases {
            assert_eq!(split_api_version(text).ok(), expected, "{text}");
        }
        let error = split_api_version("a/b/c").unwrap_err();
        assert_eq!(error.to_string(), "unexpected GroupVersion string: a/b/c");
    }
}
