//! Owner references: the objects of an owner, and their adoption and release.
//!
//! An index finds the objects of an owner by the UID in their controller reference. [`decide`] is
//! the pure claim table; [`claim`] sends its patches. Each patch carries the UID of the candidate,
//! so that it cannot change another object of the same name. A live read of the owner comes before
//! the first adoption, since a deleted owner in a stale cache must not adopt.
//!
//! Upstream: `controller_ref_manager.go` in `pkg/controller`.

mod dependents;

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Serialize, Serializer};

use steersman_client::{ApiClient, ApiError, Decision, PatchKind, Target};
use steersman_objects::{DecodeError, Identity, Meta, Object, OwnerReference, Uid};
use steersman_values::labels::Selector;

use crate::informer::{Index, IndexKey, Store};

pub use self::dependents::{DependentEvent, dependent_events, owner_of};

/// Name of the index that finds objects by their controller.
const CONTROLLER_INDEX: &str = "controller";

/// The value of [`CONTROLLER_INDEX`] for `object`: the UID of its controller reference, or
/// [`orphans_key`] of its namespace when it has none.
fn controller_index<T: Object>(object: &T) -> Vec<IndexKey> {
    let meta = object.meta();
    vec![match meta.controller() {
        Some(owner) => IndexKey::new(&owner.uid.to_string()),
        None => orphans_key(&meta.namespace),
    }]
}

/// Whether two states of an object have one controller. The namespace of an object never changes,
/// so the UIDs decide.
fn has_same_controller<T: Object>(a: &T, b: &T) -> bool {
    let uid = |object: &T| object.meta().controller().map(|owner| owner.uid.clone());
    uid(a) == uid(b)
}

/// The value of [`CONTROLLER_INDEX`] for all objects of `namespace` without a controller reference.
/// It cannot equal a UID, because of the slash.
fn orphans_key(namespace: &str) -> IndexKey {
    IndexKey::new(&format!("orphans/{namespace}"))
}

/// The objects of type `T`, indexed by their controller reference.
pub struct ByController<T> {
    index: Index<T>,
}

impl<T> Clone for ByController<T> {
    fn clone(&self) -> Self {
        Self {
            index: self.index.clone(),
        }
    }
}

impl<T: Object> ByController<T> {
    /// Adds the index to `store` and reads from it. A second call for one store returns the same
    /// index. Upstream: `AddPodControllerIndexer`.
    pub fn of(store: &Store<T>) -> Self {
        Self {
            index: store.add_index_over(CONTROLLER_INDEX, has_same_controller, controller_index),
        }
    }

    /// The cache under the index.
    pub fn store(&self) -> &Store<T> {
        self.index.store()
    }

    /// The objects whose controller reference has the UID, kind and name of `owner`, of type `O`,
    /// in the owner's namespace. References are valid only within a namespace, so an object
    /// elsewhere with the owner's UID is ignored.
    pub fn controlled_by<O: Object>(&self, owner: &Meta) -> Vec<Arc<T>> {
        let mut found = self.index.get(&owner.uid.to_string());
        found.retain(|object| refers_to::<O>(object.meta(), owner));
        found
    }

    /// The objects whose controller reference has this UID. Kind and name of the reference are not
    /// checked.
    pub fn controlled_by_uid(&self, uid: &Uid) -> Vec<Arc<T>> {
        self.index.get(&uid.to_string())
    }

    /// The candidates of [`claim`] for `owner`: its own objects, and the orphans of its namespace.
    /// Upstream: `FilterPodsByOwner` with orphans.
    pub fn candidates<O: Object>(&self, owner: &Meta) -> Vec<Arc<T>> {
        let mut candidates = self.controlled_by::<O>(owner);
        candidates.extend(self.orphans(&owner.namespace));
        candidates
    }

    /// The objects of `namespace` without a controller reference.
    pub fn orphans(&self, namespace: &str) -> Vec<Arc<T>> {
        self.index.get(&orphans_key(namespace))
    }
}

/// True if the controller reference of `object` is a reference to `owner`, of type `O`.
fn refers_to<O: Object>(object: &Meta, owner: &Meta) -> bool {
    let is_owner = |reference: &OwnerReference| {
        *reference.kind == *O::RESOURCE.kind
            && *reference.name == *owner.name
            && reference.uid == owner.uid
    };
    object.namespace == owner.namespace && object.controller().is_some_and(is_owner)
}

/// The decision on one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Leave the candidate as it is.
    Keep {
        /// True if it belongs to the owner.
        ours: bool,
    },
    /// Add the controller reference to an orphan that matches. It then belongs to the owner.
    Adopt,
    /// Remove the controller reference of the owner, since the candidate no longer matches.
    Release,
}

/// The claim table of upstream's `ClaimObject`, for one candidate from the cache.
pub fn decide(owner: &Meta, selector: &Selector, candidate: &Meta) -> Claim {
    decide_where(owner, || selector.matches(&candidate.labels), candidate)
}

/// The same, for owners with another condition than a selector.
fn decide_where(owner: &Meta, matches: impl Fn() -> bool, candidate: &Meta) -> Claim {
    match candidate.controller() {
        Some(reference) if reference.uid != owner.uid => Claim::Keep { ours: false },
        // Also while one of them is terminating: a dependent belongs to its owner until it is gone.
        Some(_) if matches() => Claim::Keep { ours: true },
        Some(_) if owner.is_terminating() => Claim::Keep { ours: false },
        Some(_) => Claim::Release,
        None => {
            let elsewhere = !owner.namespace.is_empty() && owner.namespace != candidate.namespace;
            let adopt =
                !owner.is_terminating() && !candidate.is_terminating() && !elsewhere && matches();
            if adopt {
                Claim::Adopt
            } else {
                Claim::Keep { ours: false }
            }
        }
    }
}

/// Candidates that belong to the owner.
#[derive(Debug)]
pub struct Claimed<T> {
    /// Cached copies. Those of adopted objects lack the new controller reference. In the order of
    /// the candidates.
    pub objects: Vec<Arc<T>>,
    /// Resource versions that the adoption patches produced. The next sync waits until the cache
    /// shows the highest.
    pub written: Vec<u64>,
}

/// A candidate could not be adopted or released. The message has upstream's texts.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ClaimError {
    /// The text upstream logs.
    pub message: String,
    /// The failed request or the decision behind it, where there is one.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// The decision not to adopt, because a live read shows the deletion of the owner.
pub const OWNER_DELETED: Decision = Decision("owner_deleted");

impl ClaimError {
    /// See [`ApiError::is_fenced`].
    pub fn is_fenced(&self) -> bool {
        ApiError::within(self).is_some_and(ApiError::is_fenced)
    }
}

/// Claims `candidates` for `owner`: adopts and releases as [`decide`] says, with one live check of
/// the owner before the first adoption.
///
/// A failure does not end the loop, and the first one is returned at the end. Only a refusal by the
/// write gate ends it at once, since all further writes would be refused too.
///
/// Upstream: `ClaimPods` and its siblings, which return all errors together.
pub async fn claim<O: Object, T: Object>(
    client: &ApiClient,
    owner: &O,
    selector: &Selector,
    candidates: Vec<Arc<T>>,
) -> Result<Claimed<T>, ClaimError> {
    claim_with_finalizer(client, owner, selector, candidates, None).await
}

/// Like [`claim`]. Adopted objects also get `finalizer`, and released ones lose it.
pub async fn claim_with_finalizer<O: Object, T: Object>(
    client: &ApiClient,
    owner: &O,
    selector: &Selector,
    candidates: Vec<Arc<T>>,
    finalizer: Option<&'static str>,
) -> Result<Claimed<T>, ClaimError> {
    let matches = |candidate: &T| selector.matches(&candidate.meta().labels);
    claim_all(client, owner, matches, candidates, finalizer).await
}

/// Like [`claim`], for owners with another condition than a selector. Pods of a StatefulSet, for
/// example, also need a matching name.
pub async fn claim_where<O: Object, T: Object>(
    client: &ApiClient,
    owner: &O,
    matches: impl Fn(&T) -> bool,
    candidates: Vec<Arc<T>>,
) -> Result<Claimed<T>, ClaimError> {
    claim_all(client, owner, matches, candidates, None).await
}

async fn claim_all<O: Object, T: Object>(
    client: &ApiClient,
    owner: &O,
    matches: impl Fn(&T) -> bool,
    candidates: Vec<Arc<T>>,
    finalizer: Option<&'static str>,
) -> Result<Claimed<T>, ClaimError> {
    let mut claimed = Claimed {
        objects: Vec::with_capacity(candidates.len()),
        written: Vec::new(),
    };
    let mut first_error = None;
    // The live check is made for the first adoption only. Upstream: `canAdoptOnce`.
    let mut recheck = None;
    for candidate in candidates {
        let decision = decide_where(owner.meta(), || matches(&candidate), candidate.meta());
        let outcome = match decision {
            Claim::Keep { ours: true } => {
                claimed.objects.push(candidate);
                continue;
            }
            Claim::Keep { ours: false } => continue,
            Claim::Release => release(client, owner.meta(), &*candidate, finalizer).await,
            Claim::Adopt => {
                match adopt(client, owner, &*candidate, finalizer, &mut recheck).await {
                    Ok(Some(version)) => {
                        claimed.objects.push(candidate);
                        claimed.written.push(version);
                        continue;
                    }
                    Ok(None) => continue,
                    Err(error) => Err(error),
                }
            }
        };
        if let Err(error) = outcome {
            if error.is_fenced() {
                return Err(error);
            }
            first_error.get_or_insert(error);
        }
    }
    first_error.map_or(Ok(claimed), Err)
}

/// The result of the live check of an owner, kept for one [`claim`]. The error is its text.
type Recheck = Option<Result<(), String>>;

/// The reason why the live owner may not adopt. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum RecheckError {
    /// The live read failed.
    #[error("can't recheck DeletionTimestamp: {0}")]
    Request(#[source] ApiError),
    /// The answer is not an object.
    #[error("can't recheck DeletionTimestamp: {0}")]
    Answer(#[source] DecodeError),
    /// Another object has the name of the owner now.
    #[error(
        "can't recheck DeletionTimestamp: original {kind} {owner} is gone: got uid {found}, wanted {wanted}"
    )]
    Replaced {
        /// Kind of the owner.
        kind: String,
        /// Namespace and name of the owner.
        owner: String,
        /// UID of the other object.
        found: Uid,
        /// UID of the cached owner.
        wanted: Uid,
    },
    /// The deletion of the owner has started.
    #[error("{owner} has just been deleted at {at}")]
    Deleted {
        /// Namespace and name of the owner.
        owner: String,
        /// Time of the deletion.
        at: String,
        /// The decision not to adopt.
        #[source]
        decision: Decision,
    },
}

/// Checks by a live read that `owner`, of type `O`, may adopt: it is the same object, and its
/// deletion has not started.
pub async fn check_live<O: Object>(client: &ApiClient, owner: &Meta) -> Result<(), RecheckError> {
    let answer = client.get(Target::of::<O>(owner)).await;
    recheck_live::<O>(owner, &answer.map_err(RecheckError::Request)?)
}

/// Adds the controller reference of `owner`, of type `O`, to `candidate`, of type `T`. Returns the
/// object as stored, in JSON.
pub async fn add_reference<O: Object, T: Object>(
    client: &ApiClient,
    owner: &Meta,
    candidate: &Meta,
    finalizer: Option<&'static str>,
) -> Result<Bytes, ApiError> {
    let patch = adoption_patch::<O>(owner, candidate, finalizer);
    let target = Target::of::<T>(candidate);
    client.patch(target, PatchKind::Strategic, &patch).await
}

/// The version the adoption produced; `None` when the candidate is gone.
async fn adopt<O: Object, T: Object>(
    client: &ApiClient,
    owner: &O,
    candidate: &T,
    finalizer: Option<&'static str>,
    recheck: &mut Recheck,
) -> Result<Option<u64>, ClaimError> {
    let mut source = None;
    if recheck.is_none() {
        let checked = check_live::<O>(client, owner.meta()).await;
        *recheck = Some(checked.map_err(|error| {
            let text = error.to_string();
            source = Some(error.into());
            text
        }));
    }
    let meta = candidate.meta();
    if let Some(Err(cause)) = recheck {
        let kind = &T::RESOURCE.kind;
        return Err(ClaimError {
            message: format!(
                "can't adopt {kind} {}/{} ({}): {cause}",
                meta.namespace, meta.name, meta.uid
            ),
            source,
        });
    }
    tracing::debug!(kind = &*T::RESOURCE.kind, object = %candidate.key(), "Patching object to add its controllerRef");
    match add_reference::<O, T>(client, owner.meta(), meta, finalizer).await {
        Ok(answer) => match Identity::decode(&answer) {
            Ok(identity) => Ok(Some(identity.resource_version)),
            Err(error) => Err(ClaimError {
                message: error.to_string(),
                source: None,
            }),
        },
        // Upstream ignores a candidate that is gone, too: its deletion is the next event.
        Err(error) if error.is_object_not_found() => Ok(None),
        Err(error) => Err(ClaimError {
            message: error.to_string(),
            source: Some(error.into()),
        }),
    }
}

/// Whether the owner as served now may still adopt: the same object, and not being deleted.
/// Upstream: `RecheckDeletionTimestamp`, and the check of the UID in each controller's
/// `canAdoptFunc`.
fn recheck_live<O: Object>(owner: &Meta, answer: &[u8]) -> Result<(), RecheckError> {
    let live = Identity::decode(answer).map_err(RecheckError::Answer)?;
    let name = || format!("{}/{}", owner.namespace, owner.name);
    if live.uid != owner.uid {
        return Err(RecheckError::Replaced {
            kind: O::RESOURCE.kind.to_string(),
            owner: name(),
            found: live.uid,
            wanted: owner.uid.clone(),
        });
    }
    match live.deleted {
        Some(at) => Err(RecheckError::Deleted {
            owner: name(),
            at: at.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string(),
            decision: OWNER_DELETED,
        }),
        None => Ok(()),
    }
}

/// Releases `candidate`. It also counts as released if it is gone, if another object has its name,
/// or if its reference was removed already. Upstream: `ReleasePod`.
async fn release<T: Object>(
    client: &ApiClient,
    owner: &Meta,
    candidate: &T,
    finalizer: Option<&'static str>,
) -> Result<(), ClaimError> {
    let meta = candidate.meta();
    tracing::debug!(kind = &*T::RESOURCE.kind, object = %candidate.key(), "Patching object to remove its controllerRef");
    match client
        .patch(
            Target::of::<T>(meta),
            PatchKind::Strategic,
            &release_patch(owner, meta, finalizer),
        )
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if error.is_object_not_found() || error.is_invalid() => Ok(()),
        Err(error) => Err(ClaimError {
            message: error.to_string(),
            source: Some(error.into()),
        }),
    }
}

/// An owner reference with `controller: true`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerReference<'a> {
    api_version: Cow<'a, str>,
    kind: &'a str,
    name: &'a str,
    #[serde(serialize_with = "as_text")]
    uid: &'a Uid,
    controller: bool,
    /// The garbage collector then deletes the object before an owner in foreground deletion.
    block_owner_deletion: bool,
}

impl<'a> ControllerReference<'a> {
    /// The reference to `owner`, of type `O`.
    pub fn to<O: Object>(owner: &'a Meta) -> Self {
        Self {
            api_version: O::RESOURCE.api_version(),
            kind: &O::RESOURCE.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: true,
            block_owner_deletion: true,
        }
    }
}

fn as_text<S: Serializer>(uid: &Uid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(uid)
}

// The fields of the patches are in upstream's order, so that the bytes are equal.

#[derive(Serialize)]
struct Patch<M> {
    metadata: M,
}

/// A strategic merge patch adds this reference to those of the object, by its UID.
#[derive(Serialize)]
struct Adoption<'a> {
    #[serde(rename = "ownerReferences")]
    owners: [ControllerReference<'a>; 1],
    #[serde(serialize_with = "as_text")]
    uid: &'a Uid,
    #[serde(skip_serializing_if = "Option::is_none")]
    finalizers: Option<[&'static str; 1]>,
}

#[derive(Serialize)]
struct Release<'a> {
    #[serde(serialize_with = "as_text")]
    uid: &'a Uid,
    #[serde(rename = "ownerReferences")]
    owners: [Removal<'a>; 1],
    #[serde(
        rename = "$deleteFromPrimitiveList/finalizers",
        skip_serializing_if = "Option::is_none"
    )]
    removed_finalizers: Option<[&'static str; 1]>,
}

/// A strategic merge patch removes the reference with this UID, and keeps all others.
#[derive(Serialize)]
struct Removal<'a> {
    #[serde(rename = "$patch")]
    directive: &'static str,
    #[serde(serialize_with = "as_text")]
    uid: &'a Uid,
}

/// The UID of the candidate is a precondition. The server refuses to change a UID, so the patch
/// fails on another object of the same name. Upstream: `ownerRefControllerPatch`.
fn adoption_patch<'a, O: Object>(
    owner: &'a Meta,
    candidate: &'a Meta,
    finalizer: Option<&'static str>,
) -> Patch<Adoption<'a>> {
    Patch {
        metadata: Adoption {
            owners: [ControllerReference::to::<O>(owner)],
            uid: &candidate.uid,
            finalizers: finalizer.map(|name| [name]),
        },
    }
}

/// Removes the owner reference with the owner's UID. The UID of the candidate is a precondition.
/// Upstream: `GenerateDeleteOwnerRefStrategicMergeBytes`.
fn release_patch<'a>(
    owner: &'a Meta,
    candidate: &'a Meta,
    finalizer: Option<&'static str>,
) -> Patch<Release<'a>> {
    Patch {
        metadata: Release {
            uid: &candidate.uid,
            owners: [Removal {
                directive: "delete",
                uid: &owner.uid,
            }],
            removed_finalizers: finalizer.map(|name| [name]),
        },
    }
}

#[cfg(test)]
mod claim_tests;

#[cfg(test)]
mod controller_index_tests {
    use steersman_objects::Pod;

    use super::*;

    #[test]
    fn objects_are_indexed_by_controller_or_as_orphans_of_their_namespace() {
        let reference = |uid: &str, controller: bool| serde_json::json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": controller});
        let uid = "0e5f2a64-56c0-4c6e-a4bd-6d5d8f7d8a01";
        // (why, owner references, index value)
        let cases = [
            ("no owner", vec![], "orphans/shop"),
            (
                "an owner that does not control",
                vec![reference("u1", false)],
                "orphans/shop",
            ),
            (
                "a controller after another owner",
                vec![reference("u1", false), reference(uid, true)],
                uid,
            ),
        ];
        for (why, owners, expected) in cases {
            let json = serde_json::json!({"metadata": {"name": "p", "namespace": "shop", "uid": "p", "ownerReferences": owners}});
            let pod = Pod::decode(json.to_string().as_bytes()).unwrap();
            assert_eq!(controller_index(&pod), [IndexKey::new(expected)], "{why}");
        }
    }
}
