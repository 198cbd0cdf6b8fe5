//! Reads the list of served resources from the API server.
//!
//! GET /api, GET /apis (aggregated form) -> [`Discovery`]
//!
//! A server without the aggregated form gets one more request per group version. A group version
//! that cannot be listed is in [`Discovery::failures`]; the other group versions are complete. A
//! controller that deletes objects because a resource is absent must check the failures too.
//!
//! Upstream: `client-go/discovery` (`discovery_client.go`, `aggregated_discovery.go`).

mod mapper;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use futures::future;
pub use mapper::{Mapping, MappingError, RestMapper, split_api_version};

use steersman_values::resource::ResourceType;

use crate::{ApiClient, ApiError, ApiPath, Decision};

/// Group and version, such as `apps/v1`; the core group is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// API group; empty for core.
    pub group: String,
    /// API version.
    pub version: String,
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// One resource in one version, with its verbs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedResource {
    /// The type of the resource.
    pub resource: ResourceType,
    /// Verbs that the resource supports, such as `deletecollection`.
    pub verbs: Vec<String>,
}

impl ServedResource {
    /// True if the resource supports `verb`.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

/// An API group with the versions that could be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedGroup {
    /// Name; empty for core.
    pub name: String,
    /// The server's preferred version, even if it could not be listed.
    pub preferred: String,
    /// Versions in the server's order, each with its resources, without subresources.
    pub versions: Vec<(String, Vec<ServedResource>)>,
}

/// All served resources of the group versions that could be listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// The core group first, then the others in the server's order.
    pub groups: Vec<ServedGroup>,
    /// Group versions that could not be listed, with the error.
    pub failures: BTreeMap<GroupVersion, String>,
    /// Names of group versions that are malformed, such as `a/b/c`.
    pub unparsable: Vec<String>,
}

/// The decision to treat types as unknown, because discovery failed for some group versions.
pub const INCOMPLETE: Decision = Decision("discovery_incomplete");

/// Discovery failed for some group versions. The text is upstream's (`ErrGroupDiscoveryFailed`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to retrieve the complete list of server APIs: {failures}")]
pub struct IncompleteError {
    failures: String,
    #[source]
    decision: Decision,
}

impl Discovery {
    /// Each resource of each group once: in the preferred version, or else in the first version
    /// that has it.
    pub fn preferred(&self) -> Vec<&ServedResource> {
        self.groups
            .iter()
            .flat_map(ServedGroup::preferred_resources)
            .collect()
    }

    /// The resource with this group, version and kind.
    pub fn resource_of_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Option<&ServedResource> {
        let group = self.groups.iter().find(|known| known.name == group)?;
        let (_, resources) = group.versions.iter().find(|(known, _)| known == version)?;
        resources.iter().find(|served| served.resource.kind == kind)
    }

    /// The error for [`Discovery::failures`]; `None` without failures.
    pub fn failure(&self) -> Option<IncompleteError> {
        if self.failures.is_empty() {
            return None;
        }
        let mut parts: Vec<String> = self
            .failures
            .iter()
            .map(|(version, why)| format!("{version}: {why}"))
            .collect();
        parts.sort_unstable();
        Some(IncompleteError {
            failures: parts.join(", "),
            decision: INCOMPLETE,
        })
    }
}

impl ServedGroup {
    /// Each resource once. A later version replaces an earlier one only if it is the preferred
    /// version.
    fn preferred_resources(&self) -> Vec<&ServedResource> {
        let mut chosen: Vec<&ServedResource> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (version, resources) in &self.versions {
            for served in resources {
                match places.get(&*served.resource.plural) {
                    Some(&place) if *version == self.preferred => chosen[place] = served,
                    Some(_) => {}
                    None => {
                        places.insert(&served.resource.plural, chosen.len());
                        chosen.push(served);
                    }
                }
            }
        }
        chosen
    }
}

/// Media types in upstream's order of preference.
const ACCEPT: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// True if `body` is a discovery document in one of its forms. For the fuzzer.
pub(crate) fn reads(body: &[u8]) -> bool {
    let core = GroupVersion {
        group: String::new(),
        version: "v1".to_owned(),
    };
    wire::Root::decode(body).is_ok() | wire::resources(body, &core).is_ok()
}

/// Reads all served resources from the API server.
///
/// # Errors
/// When `/api` or `/apis` cannot be read at all. A 404 of `/api` is fine, because an aggregated API
/// server has no core group.
pub async fn discover(client: &ApiClient) -> Result<Discovery, ApiError> {
    let core = match root(client, "/api").await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => wire::Root::default(),
        Err(error) => return Err(error),
    };
    let named = root(client, "/apis").await?;
    let mut discovery = Discovery::default();
    for root in [core, named] {
        match root {
            wire::Root::Aggregated(found) => {
                discovery.groups.extend(found.groups);
                discovery.failures.extend(found.failures);
            }
            wire::Root::Names(groups) => list_versions(client, groups, &mut discovery).await,
        }
    }
    Ok(discovery)
}

async fn root(client: &ApiClient, path: &'static str) -> Result<wire::Root, ApiError> {
    let body = client.get_path_as(path, ACCEPT).await?;
    wire::Root::decode(&body).map_err(|source| undecodable(path, source))
}

/// Reads the older form: one request per group version, all sent at once. The client's throttle
/// limits their rate.
async fn list_versions(
    client: &ApiClient,
    groups: Vec<wire::GroupName>,
    discovery: &mut Discovery,
) {
    let lists = future::join_all(groups.iter().flat_map(|group| {
        group.versions.iter().map(move |version| async move {
            let of = GroupVersion {
                group: group.name.clone(),
                version: version.clone(),
            };
            (list_version(client, &of).await, of)
        })
    }))
    .await;
    let mut lists = lists.into_iter();
    for wire::GroupName {
        name,
        preferred,
        versions,
        unparsable,
    } in groups
    {
        let mut listed = Vec::new();
        for (list, of) in lists.by_ref().take(versions.len()) {
            match list {
                Ok(resources) => listed.push((of.version, resources)),
                Err(error) => drop(discovery.failures.insert(of, error.to_string())),
            }
        }
        discovery.groups.push(ServedGroup {
            name,
            preferred,
            versions: listed,
        });
        discovery.unparsable.extend(unparsable);
    }
}

async fn list_version(
    client: &ApiClient,
    of: &GroupVersion,
) -> Result<Vec<ServedResource>, ApiError> {
    let path = ApiPath::of_version(&of.group, &of.version)?;
    match client.get_path(path.clone()).await {
        Ok(body) => wire::resources(&body, of).map_err(|source| undecodable(path.as_str(), source)),
        // As upstream: some servers announce a core group that they do not serve.
        Err(error) if of.group.is_empty() && error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn undecodable(path: &str, source: serde_json::Error) -> ApiError {
    ApiError::Decode {
        request: format!("GET {path}"),
        source: source.into(),
    }
}
