//! Sets the version up to which a running migration rewrites objects: the latest one of its resource.
//!
//! Upstream: `resourceversion.go`.
//!
//! The version comes from the API server after the admission of the migration. Each object with a later
//! version was written afterwards, and thus in the current storage version.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use steersman_client::discovery::{self, RestMapper, ServedResource};
use steersman_client::{ApiClient, Target};
use steersman_objects::{GroupResource, ObjectKey, StorageVersionMigration};
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::Requeue;
use steersman_values::clock::saturating_since;
use steersman_values::resource::ResourceType;

use super::error::SyncError;
use super::status::{Change, Statuses, is_running, is_terminal};

/// A namespace that no cluster has, because its name is invalid. A list of it has no objects.
///
/// Upstream: `fakeSVMNamespaceName`.
const NO_NAMESPACE: &str = "@fake:svm_ns!";

/// The verbs that a migration needs, in the order of the message.
///
/// Upstream: `verbsRequiredForMigration`. Without them, objects cannot be listed or written again.
const VERBS: [&str; 3] = ["update", "patch", "list"];

/// The age of a migration from which an unknown resource is a failure. A younger one may be about a
/// new CustomResourceDefinition.
///
/// Upstream: the minute in `sync`, twice the period of its discovery.
const PATIENCE: Duration = Duration::from_secs(60);

/// Syncs running migrations without a resource version.
pub(super) struct ResourceVersions {
    pub(super) client: ApiClient,
    pub(super) mapper: Arc<RestMapper>,
    pub(super) statuses: Statuses,
    /// Whether unknown resources have a minute to appear, and others are checked.
    pub(super) checks: bool,
}

/// The resource of a migration.
pub(super) enum Resource {
    /// Discovery has it.
    Served(ServedResource),
    /// The resource may be served soon.
    NotYet,
    /// The resource is not served, and the migration is old.
    Missing,
}

/// Finds the resource of `migration`, in the version that `v1alpha1` names or else the API server prefers.
///
/// Upstream: `resourceFor`, and `resourceExists` up to 1.34. The version does not matter for the rewrite: each one
/// reaches the same stored object. A migration without creation time counts as old.
pub(super) async fn resource_of(
    migration: &StorageVersionMigration,
    mapper: &RestMapper,
    statuses: &Statuses,
) -> Result<Resource, SyncError> {
    let wanted = &migration.spec.resource;
    let found = mapper
        .resource(&wanted.group, &wanted.version, &wanted.resource)
        .await;
    Ok(match found.map_err(SyncError::Discovery)? {
        Some(served) => Resource::Served(served),
        None => {
            let created = migration
                .meta
                .created
                .map_or_else(Timestamp::default, Timestamp::from);
            if saturating_since(statuses.clock.now(), created) < PATIENCE {
                Resource::NotYet
            } else {
                Resource::Missing
            }
        }
    })
}

impl ObjectSyncer for ResourceVersions {
    type Object = StorageVersionMigration;
    type Error = SyncError;

    /// Upstream: `sync` of `ResourceVersionController`. The version is written once, before any
    /// rewrite; a later one would only repeat rewrites. Without admission, each migration gets one at once.
    async fn sync(
        &self,
        _key: &ObjectKey,
        migration: Arc<StorageVersionMigration>,
    ) -> Result<Requeue, SyncError> {
        let has_version = !migration.status.resource_version.is_empty();
        let is_waiting = self.statuses.admits && !is_running(&migration);
        if is_waiting || is_terminal(&migration) || has_version {
            return Ok(Requeue::Never);
        }
        let served = match resource_of(&migration, &self.mapper, &self.statuses).await? {
            Resource::Served(served) => served,
            unknown => {
                if !self.is_final(&unknown, &migration).await? {
                    return Err(SyncError::UnknownResource(discovery::INCOMPLETE));
                }
                let failed = Change::fail("resource does not exist in discovery");
                self.statuses.write(&migration, failed).await?;
                return Ok(Requeue::Never);
            }
        };
        let gvr = shown(&served.resource);
        if self.checks && !VERBS.iter().all(|verb| served.allows(verb)) {
            let verbs = VERBS.join(" ");
            let message =
                format!("resource {gvr:?} does not support discovery operations: [{verbs}]");
            let failed = Change::fail(&message);
            self.statuses.write(&migration, failed).await?;
            return Ok(Requeue::Never);
        }
        let latest = self.latest(&served.resource).await?;
        let message;
        let change = if !self.checks || is_well_formed(&latest) {
            Change::Version(&latest)
        } else {
            message = format!(
                "latest resourceVersion for {gvr} is not valid: resource version is not well formed: {latest}"
            );
            Change::fail(&message)
        };
        self.statuses.write(&migration, change).await?;
        Ok(Requeue::Never)
    }
}

impl ResourceVersions {
    /// Whether a migration of an `unknown` resource fails, rather than waits for the resource.
    ///
    /// Upstream up to 1.34 waits without a limit, except for two kinds of names. One is a singular. The other lacks the
    /// group of its resource.
    async fn is_final(
        &self,
        unknown: &Resource,
        migration: &StorageVersionMigration,
    ) -> Result<bool, SyncError> {
        if self.checks {
            return Ok(matches!(unknown, Resource::Missing));
        }
        let GroupResource {
            group,
            version,
            resource,
        } = &migration.spec.resource;
        let others = self.mapper.kinds(group, version, resource).await;
        Ok(!others.map_err(SyncError::Discovery)?.is_empty())
    }

    /// The latest resource version of a resource, from a list with at most one object.
    ///
    /// Upstream: `getLatestResourceVersion`. The version of the list counts, and its objects are
    /// ignored. An impossible namespace makes the list of a namespaced type empty and cheap.
    async fn latest(&self, resource: &ResourceType) -> Result<String, SyncError> {
        #[derive(Deserialize)]
        struct List {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            #[serde(default)]
            resource_version: String,
        }
        let target = Target {
            resource,
            namespace: resource.namespaced.then_some(NO_NAMESPACE),
            name: None,
            subresource: None,
        };
        let listed = self.client.metadata_only().list(target, "limit=1").await;
        let listed = listed.map_err(|source| SyncError::LatestVersion {
            gvr: shown(resource),
            source,
        })?;
        let list: List = serde_json::from_slice(&listed).map_err(SyncError::Malformed)?;
        Ok(list.metadata.resource_version)
    }
}

/// A resource in messages. Upstream: `GroupVersionResource.String`.
fn shown(resource: &ResourceType) -> String {
    let ResourceType {
        group,
        version,
        plural,
        ..
    } = resource;
    format!("{group}/{version}, Resource={plural}")
}

/// Whether resource versions of this form can be compared.
///
/// Upstream: `isWellFormed` of `k8s.io/apimachinery/pkg/util/resourceversion`.
///
/// The migrator compares versions by length and digits, and others would mislead it. Aggregated API
/// servers may serve such versions.
fn is_well_formed(version: &str) -> bool {
    !version.is_empty()
        && !version.starts_with('0')
        && version.bytes().all(|letter| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_versions_are_numbers() {
        for (version, expected) in [
            ("1", true),
            ("18446744073709551616", true),
            ("", false),
            ("0", false),
            ("01", false),
            ("1a", false),
        ] {
            assert_eq!(is_well_formed(version), expected, "{version}");
        }
    }
}
