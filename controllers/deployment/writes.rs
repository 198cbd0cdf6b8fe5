//! The requests of the Deployment controller.
//!
//! Each write returns the object as the API server stored it. A sync continues with that object, so
//! that its next write has the right resource version.
//!
//! Each PUT carries the resource version of the object that it changes, so a write never overwrites a newer
//! state.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};
use steersman_client::live::{self, LiveError};
use steersman_client::writes::{Delete, OnFailure, StatusError, write_status};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{Deployment, DeploymentStatus, Document, Object, ObjectKey, ReplicaSet};
use steersman_runtime::consistency::TrackedCache;

use super::annotations::REVISION;
use super::document::set_annotations;
use super::replica_sets::ReplicaSets;

/// Sends the writes of the controller.
pub(super) struct Writer {
    client: ApiClient,
}

impl Writer {
    pub(super) fn new(client: ApiClient) -> Self {
        Self { client }
    }

    /// The client, for requests of other files.
    pub(super) fn client(&self) -> &ApiClient {
        &self.client
    }

    /// PUTs the status of `d` together with its revision annotation. The status endpoint stores
    /// annotations too, and does not increase the generation. So one request does the work of two. Upstream
    /// does the same in `UpdateStatus`.
    pub(super) async fn put_status(
        &self,
        d: &Deployment,
        status: &DeploymentStatus,
        revision: Option<&str>,
    ) -> Result<Deployment, StatusError> {
        let document = with_revision(d, revision);
        let return_it = OnFailure::Return;
        let answer =
            write_status::<Deployment>(&self.client, &d.meta, &document, status, return_it).await?;
        Deployment::decode(&answer).map_err(StatusError::Answer)
    }

    /// PUTs the Deployment itself.
    pub(super) async fn put_deployment(
        &self,
        d: &Deployment,
        object: &Map<String, Value>,
    ) -> Result<Deployment, ApiError> {
        self.put(Target::of::<Deployment>(&d.meta), object).await
    }

    /// PUTs a ReplicaSet.
    pub(super) async fn put_replica_set(
        &self,
        rs: &ReplicaSet,
        object: &Map<String, Value>,
    ) -> Result<ReplicaSet, ApiError> {
        self.put(Target::of::<ReplicaSet>(&rs.meta), object).await
    }

    /// POSTs a ReplicaSet.
    pub(super) async fn create_replica_set(
        &self,
        namespace: &str,
        object: &Map<String, Value>,
    ) -> Result<ReplicaSet, ApiError> {
        let target = Target::collection::<ReplicaSet>(namespace);
        decoded("POST", &self.client.create(target, object).await?)
    }

    /// DELETEs a ReplicaSet, if its UID and resource version are still those of `rs`. It has no
    /// pods, so the default propagation policy is enough. Returns whether the answer tells the version of the
    /// deletion, which is then recorded for the Deployment `owner`.
    pub(super) async fn delete_replica_set(
        &self,
        owner: &ObjectKey,
        rs: &ReplicaSet,
        cache: &TrackedCache,
    ) -> Result<bool, ApiError> {
        let options = Delete::exactly(&rs.meta).unchanged_since(rs.meta.resource_version);
        let target = Target::of::<ReplicaSet>(&rs.meta);
        let answer = self.client.delete(target, &options).await?;
        Ok(cache.deleted(owner, &answer))
    }

    /// True if the API server has `d` and exactly the ReplicaSets `sets`, all in these versions.
    ///
    /// A new leader alone asks it. A list by the selector costs one request for all ReplicaSets.
    pub(super) async fn is_current(
        &self,
        d: &Deployment,
        sets: &ReplicaSets,
    ) -> Result<bool, LiveError> {
        let Ok(selector) = &d.spec.selector else {
            return Ok(false);
        };
        if !live::is_current::<Deployment>(&self.client, &d.meta).await? {
            return Ok(false);
        }
        let live = live::matching::<ReplicaSet>(&self.client, &d.meta.namespace, selector).await?;
        let ours = live
            .objects
            .iter()
            .filter(|rs| rs.meta.is_controlled_by(&d.meta.uid));
        let versions: HashSet<_> = ours
            .map(|rs| (&rs.meta.uid, rs.meta.resource_version))
            .collect();
        Ok(versions
            == sets
                .all()
                .map(|rs| (&rs.meta.uid, rs.meta.resource_version))
                .collect())
    }

    /// PUTs `object`, and adds its type if it came from a list.
    async fn put<T: Object>(
        &self,
        target: Target<'_>,
        object: &Map<String, Value>,
    ) -> Result<T, ApiError> {
        let answer = match typed::<T>(object) {
            Some(typed) => self.client.replace(target, &typed).await?,
            None => self.client.replace(target, object).await?,
        };
        decoded("PUT", &answer)
    }
}

/// `object` with `apiVersion` and `kind`, which objects in a list lack. `None` if it has them. Items of a
/// list lack both, and the API server demands them in a PUT.
fn typed<T: Object>(object: &Map<String, Value>) -> Option<Map<String, Value>> {
    if object.contains_key("kind") && object.contains_key("apiVersion") {
        return None;
    }
    let mut typed = object.clone();
    typed.insert("apiVersion".to_owned(), T::RESOURCE.api_version().into());
    typed.insert("kind".to_owned(), Value::from(&*T::RESOURCE.kind));
    Some(typed)
}

fn decoded<T: Object>(verb: &str, answer: &[u8]) -> Result<T, ApiError> {
    let request = || format!("{verb} {}", T::RESOURCE);
    T::decode(answer).map_err(|source| ApiError::Decode {
        request: request(),
        source: Box::new(source),
    })
}

/// The document of `d`, with the annotation `revision` if that is not `None`.
fn with_revision<'a>(d: &'a Deployment, revision: Option<&str>) -> Cow<'a, Document> {
    let Some(revision) = revision else {
        return Cow::Borrowed(&d.document);
    };
    let mut object = d.document.to_object();
    set_annotations(&mut object, [(REVISION, revision.to_owned())]);
    Cow::Owned(Document::new(object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_client::writes::with_member;

    use super::*;
    use crate::testing::deployment;

    fn with_status(
        d: &Deployment,
        status: &DeploymentStatus,
        revision: Option<&str>,
    ) -> Map<String, Value> {
        let body = with_member::<Deployment>(&with_revision(d, revision), "status", status);
        serde_json::from_str(body.get()).unwrap()
    }

    #[test]
    fn objects_from_a_list_are_written_with_their_type() {
        let mut item = deployment("web").build().document.to_object();
        assert_eq!(typed::<Deployment>(&item), None);
        let whole = item.clone();
        item.remove("kind");
        item.remove("apiVersion");
        assert_eq!(typed::<Deployment>(&item), Some(whole));
    }

    #[test]
    fn status_write_changes_only_status_and_revision() {
        let d = deployment("web")
            .annotation("team", "a")
            .spec("unknownField", "kept")
            .status("unknownToo", "kept")
            .build();
        let status = DeploymentStatus {
            replicas: 3,
            ..d.status.clone()
        };
        let mut expected = d.document.to_object();
        expected["metadata"]["annotations"] = json!({"team": "a", REVISION: "2"});
        expected["status"] = json!({"observedGeneration": 1, "replicas": 3, "unknownToo": "kept"});
        assert_eq!(with_status(&d, &status, Some("2")), expected);
        expected["metadata"]["annotations"] = json!({"team": "a"});
        assert_eq!(with_status(&d, &status, None), expected);
        let bare = deployment("web")
            .metadata("annotations", serde_json::Value::Null)
            .build();
        assert_eq!(
            with_status(&bare, &bare.status, None),
            bare.document.to_object()
        );
    }
}
