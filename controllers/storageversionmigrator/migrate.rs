//! Rewrites the objects of a migration by requests without a change.
//!
//! Upstream: `storageversionmigrator.go`.
//!
//! Without admission, up to 1.35, the migrator itself marks a migration as running.
//!
//! An apply or merge patch without fields keeps the object as it is. The API server decodes it and stores it
//! anew, unless the stored bytes are equal. Other versions have other bytes.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;
use steersman_client::discovery::{self, RestMapper};
use steersman_client::live::Pages;
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{ObjectKey, StorageVersionMigration};
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::Requeue;
use steersman_values::resource::ResourceType;

use super::NAME;
use super::error::SyncError;
use super::resource_version::{Resource, resource_of};
use super::status::{Change, RUNNING, SUCCEEDED, Statuses, is_terminal};

/// Syncs migrations with a resource version.
pub(super) struct Migrator {
    pub(super) client: ApiClient,
    /// Shared with the loop of resource versions.
    pub(super) mapper: Arc<RestMapper>,
    pub(super) statuses: Statuses,
    /// Whether later objects are skipped, and failed requests repeated. Releases up to 1.34 do neither.
    pub(super) checks: bool,
    /// Whether objects are patched. Releases up to 1.36 apply them.
    pub(super) patches: bool,
}

/// The reason for which a migration fails.
#[derive(Debug)]
enum Failure {
    /// The resource is not served.
    Missing,
    /// The API server refused an object.
    Refused(ApiError),
}

impl Failure {
    /// The message of the condition. Upstream: `failMigration`, and `sync` up to 1.34.
    fn message(&self, checks: bool) -> Cow<'static, str> {
        match self {
            Self::Missing if checks => {
                "migration encountered unhandled error: unable to obtain GVR from discovery".into()
            }
            Self::Missing => "resource not found".into(),
            Self::Refused(error) if checks => {
                format!("migration encountered unhandled error: {error}").into()
            }
            Self::Refused(_) => "migration encountered unhandled error".into(),
        }
    }
}

/// The metadata of an object to rewrite.
#[derive(Debug, serde::Deserialize)]
struct Listed {
    metadata: ListedMeta,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedMeta {
    name: String,
    #[serde(default)]
    namespace: String,
    uid: String,
    resource_version: String,
}

impl ObjectSyncer for Migrator {
    type Object = StorageVersionMigration;
    type Error = SyncError;

    /// Upstream: `sync` of `SVMController`. Success is the last write. A failure in between starts over
    /// with all objects, and objects that were rewritten before meet the comparison of versions.
    async fn sync(
        &self,
        _key: &ObjectKey,
        mut migration: Arc<StorageVersionMigration>,
    ) -> Result<Requeue, SyncError> {
        if is_terminal(&migration) || migration.status.resource_version.is_empty() {
            return Ok(Requeue::Never);
        }
        let resource = match resource_of(&migration, &self.mapper, &self.statuses).await? {
            Resource::Served(served) => served.resource,
            Resource::NotYet => return Err(SyncError::UnknownResource(discovery::INCOMPLETE)),
            Resource::Missing => {
                self.fail(&migration, &Failure::Missing).await?;
                return Ok(Requeue::Never);
            }
        };
        if !self.statuses.admits {
            let running = Change::Add {
                kind: RUNNING,
                reason: "StorageVersionMigrationInProgress",
                message: "",
            };
            migration = self.statuses.write(&migration, running).await?;
        }
        let limit = &*migration.status.resource_version;
        match self.rewrite_all(&resource, limit).await? {
            None => {
                let succeeded = Change::Add {
                    kind: SUCCEEDED,
                    reason: "StorageVersionMigrationSucceeded",
                    message: "",
                };
                self.statuses.write(&migration, succeeded).await?;
            }
            Some(refusal) => self.fail(&migration, &Failure::Refused(refusal)).await?,
        }
        Ok(Requeue::Never)
    }
}

impl Migrator {
    /// The migration stays failed; a user creates another one to try again.
    async fn fail(
        &self,
        migration: &StorageVersionMigration,
        failure: &Failure,
    ) -> Result<(), SyncError> {
        let message = failure.message(self.checks);
        let failed = self.statuses.write(migration, Change::fail(&message));
        failed.await.map(drop)
    }

    /// Rewrites all objects up to the resource version `limit`. Returns the refusal of an object, with
    /// which the migration fails.
    ///
    /// Upstream: `runMigration`. Objects with a later version are in the storage version already, as
    /// the limit was read when that version was in use.
    async fn rewrite_all(
        &self,
        resource: &ResourceType,
        limit: &str,
    ) -> Result<Option<ApiError>, SyncError> {
        let metadata = self.client.metadata_only();
        let mut pages = Pages::new(&metadata, resource, None);
        while let Some(objects) = pages.next::<Listed>().await.map_err(SyncError::List)? {
            for Listed { metadata: object } in objects {
                if self.checks && is_later(&object.resource_version, limit) {
                    continue;
                }
                match self.rewrite(resource, &object).await {
                    Ok(()) => {}
                    Err(error) if !self.checks || is_refusal(&error) => return Ok(Some(error)),
                    Err(error) => return Err(SyncError::Rewrite(error)),
                }
            }
        }
        Ok(None)
    }

    /// Makes the API server store the object again, without a change.
    ///
    /// Upstream: the body of the loop in `runMigration`.
    async fn rewrite(&self, resource: &ResourceType, object: &ListedMeta) -> Result<(), ApiError> {
        let target = Target {
            resource,
            namespace: resource.namespaced.then_some(&*object.namespace),
            name: Some(&object.name),
            subresource: None,
        };
        // A changed object meets a conflict each time: another client has stored, deleted or
        // replaced it since the list. The repetition tells this from a conflict in passing.
        let mut answer = self.store(target, object).await;
        if is_conflict(&answer) {
            answer = self.store(target, object).await;
        }
        // A deleted object needs no migration. Applies meet a conflict. A 404 without the object's name tells of the
        // type or of a proxy.
        if self.patches && answer.as_ref().is_err_and(ApiError::is_object_not_found) {
            return Ok(());
        }
        if is_conflict(&answer) {
            return Ok(());
        }
        answer
    }

    async fn store(&self, target: Target<'_>, object: &ListedMeta) -> Result<(), ApiError> {
        let ListedMeta {
            uid,
            resource_version,
            ..
        } = object;
        let mut body = json!({
            "kind": target.resource.kind, "apiVersion": target.resource.api_version(),
            "metadata": {"resourceVersion": resource_version},
        });
        if self.patches {
            let answer = self.client.patch(target, PatchKind::Merge, &body).await;
            return answer.map(drop);
        }
        // The UID excludes the creation of a deleted object. With the UID alone, an object that was
        // deleted and recreated would meet the refusal of an immutable field. The resource version
        // turns this into a conflict.
        body["metadata"]["uid"] = json!(uid);
        self.client.apply(target, NAME, &body).await.map(drop)
    }
}

fn is_conflict<T>(answer: &Result<T, ApiError>) -> bool {
    answer.as_ref().is_err_and(ApiError::is_conflict)
}

/// Whether the API server refuses the object for good. Upstream: `isRetriableError`.
///
/// An error without a code, such as a lost connection, is retried. So are overload and failures of the
/// server.
fn is_refusal(error: &ApiError) -> bool {
    // 410 tells of an old resource version, and not of the object.
    error.code().is_some_and(|code| code != 410) && !error.is_transient()
}

/// Whether a resource version is later than another one. Both are numbers of any length.
///
/// Upstream: `CompareResourceVersion` of `k8s.io/apimachinery/pkg/util/resourceversion`. A resource
/// version has no leading zeros, so the longer number is the larger one.
fn is_later(version: &str, limit: &str) -> bool {
    (version.len(), version) > (limit.len(), limit)
}

#[cfg(test)]
mod tests {
    use super::is_later;

    #[test]
    fn resource_versions_are_compared_as_numbers() {
        for (version, limit, expected) in [
            ("9", "10", false),
            ("10", "9", true),
            ("10", "10", false),
            ("18446744073709551617", "18446744073709551616", true),
        ] {
            assert_eq!(is_later(version, limit), expected, "{version} {limit}");
        }
    }
}
