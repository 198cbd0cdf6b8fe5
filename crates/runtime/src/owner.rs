//! Owner references: which objects belong to a controller, and taking (adopt) or letting go (release) those that should.
//!
//! Upstream: `controller_ref_manager.go`.

use std::sync::Arc;

use crate::client::{ApiClient, ApiError};
use crate::informer::IndexKey;
use crate::labels::Selector;
use crate::object::{Meta, Object};

/// Name of the index that finds objects by their controller; its values are those of [`controller_index`].
pub const CONTROLLER_INDEX: &str = "controller";

/// Under which value of [`CONTROLLER_INDEX`] an object is found: the UID of its controller reference, or [`orphans_key`] of its
/// namespace when it has none.
pub fn controller_index<T: Object>(object: &T) -> Vec<IndexKey> {
    let meta = object.meta();
    vec![match meta.controller() {
        Some(owner) => IndexKey::new(&owner.uid.to_string()),
        None => orphans_key(&meta.namespace),
    }]
}

/// The value of [`CONTROLLER_INDEX`] that objects of `namespace` without a controller reference have in common. No UID has a
/// slash in it.
pub fn orphans_key(namespace: &str) -> IndexKey {
    IndexKey::new(&format!("orphans/{namespace}"))
}

/// What to do with one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Already ours, or somebody else's business: no call.
    Keep {
        /// Whether it is ours.
        ours: bool,
    },
    /// An orphan that matches: ours once it carries our reference.
    Adopt,
    /// It has our reference and no longer matches: not ours, and the reference goes.
    Release,
}

/// The claim table of upstream's `ClaimObject`, for one candidate from the cache.
pub fn decide(_owner: &Meta, _selector: &Selector, _candidate: &Meta) -> Claim {
    todo!("helper: replicaset")
}

/// Candidates that belong to the owner.
#[derive(Debug)]
pub struct Claimed<T> {
    /// Cached copies, without a reference added just now.
    pub objects: Vec<Arc<T>>,
    /// Versions that our adoption patches produced.
    pub written: Vec<u64>,
}

/// A candidate could not be adopted or released; see upstream's texts in the message.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ClaimError {
    /// The text upstream logs.
    pub message: String,
    /// The request that failed, where one did.
    #[source]
    pub source: Option<ApiError>,
}

/// Claims `candidates` for `owner`: adopts and releases as [`decide`] says, with one live check of the owner before the first
/// adoption. All candidates are visited; the first failure is returned afterwards.
pub async fn claim<O: Object, T: Object>(
    _client: &ApiClient,
    _owner: &O,
    _selector: &Selector,
    _candidates: Vec<Arc<T>>,
) -> Result<Claimed<T>, ClaimError> {
    todo!("helper: replicaset")
}

#[cfg(test)]
mod controller_index_tests {
    use super::*;
    use crate::object::Pod;

    #[test]
    fn an_object_is_indexed_by_its_controller_or_among_the_orphans_of_its_namespace() {
        let reference = |uid: &str, controller: bool| serde_json::json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": controller});
        let uid = "0e5f2a64-56c0-4c6e-a4bd-6d5d8f7d8a01";
        // (why, owner references, index value)
        let cases = [
            ("no owner", vec![], "orphans/shop"),
            ("an owner that does not control", vec![reference("u1", false)], "orphans/shop"),
            ("a controller after another owner", vec![reference("u1", false), reference(uid, true)], uid),
        ];
        for (why, owners, expected) in cases {
            let json = serde_json::json!({"metadata": {"name": "p", "namespace": "shop", "uid": "p", "ownerReferences": owners}});
            let pod = Pod::decode(json.to_string().as_bytes()).unwrap();
            assert_eq!(controller_index(&pod), [IndexKey::new(expected)], "{why}");
        }
    }
}
