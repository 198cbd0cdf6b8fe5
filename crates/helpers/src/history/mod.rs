//! The history of StatefulSets and DaemonSets: their ControllerRevisions.
//!
//! - served template -> [`Proposal`] (data, hash, name) -> comparison with the stored revisions
//! - [`History`] reads the stored revisions of an owner, and sends the writes
//!
//! Data, names and labels are the same as upstream's. A takeover from kube-controller-manager
//! therefore finds its revisions, and restarts no pod.
//!
//! A deletion carries the UID of the revision. Upstream sends the name alone.
//!
//! Upstream: `pkg/controller/history`, and `pkg/controller/daemon/update.go`.

mod data;
mod proposal;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

use steersman_client::live;
use steersman_client::writes::{Delete, with_member};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{ControllerRevision, Meta, Object};
use steersman_runtime::owner::{self, ByController};
use steersman_values::labels::Selector;

pub use self::data::{Integers, data};
pub use self::proposal::{Proposal, Style};

/// The label of a pod with its revision: the name of the revision for pods of StatefulSets, its
/// hash for pods of DaemonSets. Revisions of DaemonSets have it too.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// Sorts revisions by number, then by creation time, then by name.
pub fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by(|a, b| {
        let key = |r: &ControllerRevision| (r.revision, r.meta.created);
        key(a)
            .cmp(&key(b))
            .then_with(|| a.meta.name.cmp(&b.meta.name))
    });
}

/// The number of the next revision after `sorted`; the first is 1.
pub fn next_number(sorted: &[Arc<ControllerRevision>]) -> i64 {
    sorted
        .last()
        .map_or(1, |newest| newest.revision.saturating_add(1))
}

/// The revisions of owners of one kind, in the cache and on the API server. Cheap to clone.
#[derive(Clone)]
pub struct History {
    revisions: ByController<ControllerRevision>,
    client: ApiClient,
}

impl History {
    /// The revisions in the cache behind `revisions`. Writes go through `client`.
    pub fn new(revisions: ByController<ControllerRevision>, client: ApiClient) -> Self {
        Self { revisions, client }
    }

    /// The cached revisions that `selector` matches, and that belong to `owner` or to no object.
    pub fn list<O: Object>(
        &self,
        owner: &Meta,
        selector: &Selector,
    ) -> Vec<Arc<ControllerRevision>> {
        let mut found = self.candidates::<O>(owner);
        found.retain(|revision| selector.matches(&revision.meta.labels));
        found
    }

    /// The cached revisions that belong to `owner` or to no object, with any labels. These are the
    /// candidates of [`owner::claim`].
    pub fn candidates<O: Object>(&self, owner: &Meta) -> Vec<Arc<ControllerRevision>> {
        self.revisions.candidates::<O>(owner)
    }

    /// Creates `proposal` with the first name that is free, and counts a collision for each name
    /// that is taken.
    ///
    /// A stored revision with the same data is no collision: it is returned as it is.
    pub async fn create(
        &self,
        namespace: &str,
        proposal: &Proposal<'_>,
        collision_count: &mut i32,
    ) -> Result<ControllerRevision, ApiError> {
        loop {
            let name = proposal.name(Some(*collision_count));
            match self.create_as(namespace, proposal, &name).await {
                Err(error) if error.is_already_exists() => {
                    let stored = self.get(namespace, &name).await?;
                    if proposal.equals(&stored) {
                        return Ok(stored);
                    }
                    *collision_count = collision_count.wrapping_add(1);
                }
                created => return created,
            }
        }
    }

    /// Creates `proposal` under `name`.
    pub async fn create_as(
        &self,
        namespace: &str,
        proposal: &Proposal<'_>,
        name: &str,
    ) -> Result<ControllerRevision, ApiError> {
        let target = Target::collection::<ControllerRevision>(namespace);
        let answer = self.client.create(target, &proposal.body(name)).await?;
        decoded("POST", &answer)
    }

    /// The revision `name` as the API server has it now.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<ControllerRevision, ApiError> {
        let target = Target::named::<ControllerRevision>(namespace, name);
        decoded("GET", &self.client.get(target).await?)
    }

    /// PUTs `revision` with another number.
    pub async fn renumber(
        &self,
        revision: &ControllerRevision,
        number: i64,
    ) -> Result<ControllerRevision, ApiError> {
        self.put(revision, "revision", &number.into()).await
    }

    /// PUTs `revision` with one more label.
    pub async fn label(
        &self,
        revision: &ControllerRevision,
        key: &str,
        value: &str,
    ) -> Result<ControllerRevision, ApiError> {
        let mut metadata = revision.document.to_object()["metadata"].take();
        metadata["labels"][key] = value.into();
        self.put(revision, "metadata", &metadata).await
    }

    async fn put(
        &self,
        revision: &ControllerRevision,
        member: &str,
        value: &Value,
    ) -> Result<ControllerRevision, ApiError> {
        let target = Target::of::<ControllerRevision>(&revision.meta);
        // The API server compares the bytes of the immutable data.
        let body = with_member::<ControllerRevision>(&revision.document, member, value);
        decoded("PUT", &self.client.replace(target, &body).await?)
    }

    /// Deletes `revision`. A revision that is gone is a success, also if another one has its name.
    pub async fn delete(&self, revision: &ControllerRevision) -> Result<(), ApiError> {
        let meta = &revision.meta;
        let options = Delete::exactly(meta);
        let target = Target::of::<ControllerRevision>(meta);
        match self.client.delete(target, &options).await {
            Err(error) if live::is_gone::<ControllerRevision>(&self.client, meta, &error).await => {
                Ok(())
            }
            deleted => deleted.map(drop),
        }
    }

    /// Adds the controller reference of `owner`, of type `O`, to `revision`. The caller has to
    /// check the live owner first ([`owner::check_live`]).
    pub async fn adopt<O: Object>(
        &self,
        owner: &Meta,
        revision: &ControllerRevision,
    ) -> Result<ControllerRevision, ApiError> {
        let answer = owner::add_reference::<O, ControllerRevision>(
            &self.client,
            owner,
            &revision.meta,
            None,
        )
        .await?;
        decoded("PATCH", &answer)
    }
}

fn decoded(verb: &str, answer: &[u8]) -> Result<ControllerRevision, ApiError> {
    ControllerRevision::decode(answer).map_err(|source| ApiError::Decode {
        request: format!("{verb} {}", ControllerRevision::RESOURCE),
        source: Box::new(source),
    })
}
