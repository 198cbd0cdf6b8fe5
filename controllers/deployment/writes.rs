//! The requests of the Deployment controller. Each write answers with the object as stored, to be
//! carried on.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use steersman_runtime::client::{ApiClient, ApiError, Target};
use steersman_runtime::live::{self, LiveError};
use steersman_runtime::object::{Deployment, DeploymentStatus, Meta, Object, ReplicaSet};

use super::annotations::REVISION;
use super::document::set_annotations;
use super::replica_sets::ReplicaSets;

/// Sends writes as `deployment-controller`.
pub(super) struct Writer {
    client: ApiClient,
}

impl Writer {
    pub(super) fn new(client: ApiClient) -> Self {
        Self { client }
    }

    /// For requests that are not writes of this file.
    pub(super) fn client(&self) -> &ApiClient {
        &self.client
    }

    /// PUTs the status of `d`, and its revision along with it: the status endpoint stores
    /// annotations too, without raising the generation.
    pub(super) async fn put_status(
        &self,
        d: &Deployment,
        status: &DeploymentStatus,
        revision: Option<&str>,
    ) -> Result<Deployment, ApiError> {
        let target = Target {
            subresource: Some("status"),
            ..named::<Deployment>(&d.meta)
        };
        self.put(target, &with_status(d, status, revision)).await
    }

    /// PUTs the Deployment itself.
    pub(super) async fn put_deployment(
        &self,
        d: &Deployment,
        object: &Map<String, Value>,
    ) -> Result<Deployment, ApiError> {
        self.put(named::<Deployment>(&d.meta), object).await
    }

    /// PUTs a ReplicaSet.
    pub(super) async fn put_replica_set(
        &self,
        rs: &ReplicaSet,
        object: &Map<String, Value>,
    ) -> Result<ReplicaSet, ApiError> {
        self.put(named::<ReplicaSet>(&rs.meta), object).await
    }

    /// POSTs a ReplicaSet.
    pub(super) async fn create_replica_set(
        &self,
        namespace: &str,
        object: &Map<String, Value>,
    ) -> Result<ReplicaSet, ApiError> {
        let target = Target {
            resource: ReplicaSet::RESOURCE,
            namespace: Some(namespace),
            name: None,
            subresource: None,
        };
        decoded("POST", &self.client.create(target, object).await?)
    }

    /// DELETEs a ReplicaSet, if it is still as it was seen. Its pods, of which there are none,
    /// would follow in the background.
    pub(super) async fn delete_replica_set(&self, rs: &ReplicaSet) -> Result<(), ApiError> {
        let seen = json!({"uid": rs.meta.uid.to_string(), "resourceVersion": rs.meta.resource_version.to_string()});
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": seen});
        self.client
            .delete(named::<ReplicaSet>(&rs.meta), &options)
            .await
            .map(drop)
    }

    /// Whether the API server has `d` and its ReplicaSets just as they are here, no more and no
    /// fewer.
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

/// `object` with its type, if it lacks that: items of a list do not carry it.
fn typed<T: Object>(object: &Map<String, Value>) -> Option<Map<String, Value>> {
    if object.contains_key("kind") && object.contains_key("apiVersion") {
        return None;
    }
    let mut typed = object.clone();
    typed.insert("apiVersion".to_owned(), T::RESOURCE.api_version().into());
    typed.insert("kind".to_owned(), Value::from(&*T::RESOURCE.kind));
    Some(typed)
}

fn named<T: Object>(meta: &Meta) -> Target<'_> {
    Target {
        resource: T::RESOURCE,
        namespace: Some(&meta.namespace),
        name: Some(&meta.name),
        subresource: None,
    }
}

fn decoded<T: Object>(verb: &str, answer: &[u8]) -> Result<T, ApiError> {
    let request = || format!("{verb} {}", T::RESOURCE);
    T::decode(answer).map_err(|source| ApiError::Decode {
        request: request(),
        source: Box::new(source),
    })
}

fn with_status(
    d: &Deployment,
    status: &DeploymentStatus,
    revision: Option<&str>,
) -> Map<String, Value> {
    let mut object = d.document.to_object();
    if let Some(revision) = revision {
        set_annotations(&mut object, [(REVISION, revision.to_owned())]);
    }
    let status =
        serde_json::to_value(status).expect("a status has string keys and no maps that could fail");
    object.insert("status".to_owned(), status);
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::deployment;

    #[test]
    fn an_item_of_a_list_is_written_with_its_type() {
        let mut item = deployment("web").build().document.to_object();
        assert_eq!(typed::<Deployment>(&item), None);
        let whole = item.clone();
        item.remove("kind");
        item.remove("apiVersion");
        assert_eq!(typed::<Deployment>(&item), Some(whole));
    }

    #[test]
    fn a_status_write_changes_nothing_but_status_and_revision() {
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
