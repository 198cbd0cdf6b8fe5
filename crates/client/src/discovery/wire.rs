//! Decodes discovery documents.
//!
//! The aggregated form (`apidiscovery.k8s.io/v2`) lists all resources in one document. The older
//! form has one document of group names and one of resources per group version. Upstream:
//! `client-go/discovery/aggregated_discovery.go` and `apimachinery/pkg/apis/meta/v1` `types.go`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use steersman_values::resource::ResourceType;

use super::{GroupVersion, ServedGroup, ServedResource};

/// The answer of `/api` or `/apis`.
#[derive(Debug)]
pub(super) enum Root {
    /// The aggregated form, with all resources.
    Aggregated(Aggregated),
    /// The older form, with group versions only. Each needs a request for its resources.
    Names(Vec<GroupName>),
}

impl Default for Root {
    fn default() -> Self {
        Self::Names(Vec::new())
    }
}

/// The groups and failures of one aggregated document.
#[derive(Debug)]
pub(super) struct Aggregated {
    pub(super) groups: Vec<ServedGroup>,
    pub(super) failures: BTreeMap<GroupVersion, String>,
}

/// A group of the older form.
#[derive(Debug)]
pub(super) struct GroupName {
    pub(super) name: String,
    pub(super) preferred: String,
    pub(super) versions: Vec<String>,
    pub(super) unparsable: Vec<String>,
}

/// The field that tells the forms apart.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
}

impl Root {
    pub(super) fn decode(body: &[u8]) -> Result<Self, serde_json::Error> {
        let head: Head<'_> = serde_json::from_slice(body)?;
        Ok(match &*head.kind {
            "APIGroupDiscoveryList" => Self::Aggregated(aggregated(serde_json::from_slice(body)?)),
            "APIVersions" => Self::Names(core_names(serde_json::from_slice(body)?)),
            _ => Self::Names(names(serde_json::from_slice(body)?)),
        })
    }
}

/// `APIGroupDiscoveryList`.
#[derive(Deserialize)]
struct GroupDiscoveryList {
    #[serde(default, deserialize_with = "nullable")]
    items: Vec<GroupDiscovery>,
}

/// `APIGroupDiscovery`.
#[derive(Deserialize)]
struct GroupDiscovery {
    #[serde(default)]
    metadata: Named,
    #[serde(default, deserialize_with = "nullable")]
    versions: Vec<VersionDiscovery>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    name: String,
}

/// `APIVersionDiscovery`.
#[derive(Deserialize)]
struct VersionDiscovery {
    version: String,
    #[serde(default, deserialize_with = "nullable")]
    resources: Vec<ResourceDiscovery>,
    #[serde(default)]
    freshness: String,
}

/// `APIResourceDiscovery`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    /// Absent if only subresources are served.
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default, deserialize_with = "nullable")]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    kind: String,
}

/// Reads the aggregated form. The first version of a group is the preferred one. A stale version is
/// a failure: its aggregated API server is down.
fn aggregated(list: GroupDiscoveryList) -> Aggregated {
    let mut failures = BTreeMap::new();
    let groups = list.items.into_iter().map(
        |GroupDiscovery {
             metadata: Named { name },
             versions,
         }| {
            let preferred = versions
                .first()
                .map(|first| first.version.clone())
                .unwrap_or_default();
            let mut listed = Vec::new();
            for VersionDiscovery {
                version,
                resources,
                freshness,
            } in versions
            {
                let of = GroupVersion {
                    group: name.clone(),
                    version,
                };
                if freshness == "Stale" {
                    let why = format!("stale GroupVersion discovery: {of}");
                    failures.insert(of, why);
                    continue;
                }
                let resources = resources.into_iter().filter_map(|found| {
                    let kind = found.response_kind?.kind;
                    Some(served(
                        &of,
                        kind,
                        found.resource,
                        found.scope == "Namespaced",
                        found.verbs,
                    ))
                });
                listed.push((of.version.clone(), resources.collect()));
            }
            ServedGroup {
                name,
                preferred,
                versions: listed,
            }
        },
    );
    let groups = groups.collect();
    Aggregated { groups, failures }
}

/// `APIVersions`, the older form of `/api`.
#[derive(Deserialize)]
struct ApiVersions {
    #[serde(default, deserialize_with = "nullable")]
    versions: Vec<String>,
}

fn core_names(found: ApiVersions) -> Vec<GroupName> {
    let Some(preferred) = found.versions.first().cloned() else {
        return Vec::new();
    };
    vec![GroupName {
        name: String::new(),
        preferred,
        versions: found.versions,
        unparsable: Vec::new(),
    }]
}

/// `APIGroupList`, the older form of `/apis`.
#[derive(Deserialize)]
struct ApiGroupList {
    #[serde(default, deserialize_with = "nullable")]
    groups: Vec<ApiGroup>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup {
    name: String,
    #[serde(default, deserialize_with = "nullable")]
    versions: Vec<VersionName>,
    preferred_version: Option<VersionName>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionName {
    #[serde(default)]
    group_version: String,
    version: String,
}

fn names(list: ApiGroupList) -> Vec<GroupName> {
    let groups = list.groups.into_iter().map(
        |ApiGroup {
             name,
             versions,
             preferred_version,
         }| {
            let mut parsed = Vec::new();
            let mut unparsable = Vec::new();
            for VersionName {
                group_version,
                version,
            } in versions
            {
                if group_version.matches('/').count() > 1 {
                    unparsable.push(group_version)
                } else {
                    parsed.push(version)
                }
            }
            let first = || parsed.first().cloned().unwrap_or_default();
            let preferred = preferred_version.map_or_else(first, |preferred| preferred.version);
            GroupName {
                name,
                preferred,
                versions: parsed,
                unparsable,
            }
        },
    );
    groups.collect()
}

/// `APIResourceList`, the older form of one group version.
#[derive(Deserialize)]
struct ApiResourceList {
    #[serde(default, deserialize_with = "nullable")]
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default, deserialize_with = "nullable")]
    verbs: Vec<String>,
}

/// The resources of one group version in the older form, without subresources.
pub(super) fn resources(
    body: &[u8],
    of: &GroupVersion,
) -> Result<Vec<ServedResource>, serde_json::Error> {
    let list: ApiResourceList = serde_json::from_slice(body)?;
    let whole = list
        .resources
        .into_iter()
        .filter(|found| !found.name.contains('/'));
    Ok(whole
        .map(|found| served(of, found.kind, found.name, found.namespaced, found.verbs))
        .collect())
}

fn served(
    of: &GroupVersion,
    kind: String,
    plural: String,
    namespaced: bool,
    verbs: Vec<String>,
) -> ServedResource {
    let resource = ResourceType {
        group: of.group.clone().into(),
        version: of.version.clone().into(),
        kind: kind.into(),
        plural: plural.into(),
        namespaced,
    };
    ServedResource { resource, verbs }
}

/// Go writes an empty list as `null`.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
