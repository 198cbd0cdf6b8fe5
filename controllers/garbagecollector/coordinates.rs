//! Who an object is, or is said to be by a reference.

use std::fmt;
use std::sync::Arc;

use steersman_runtime::intern::Sym;
use steersman_runtime::object::{OwnerReference, Uid};

/// Type, place and UID of an object. Ordered by kind first, as the search for another identity wants it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Coordinates {
    pub(super) kind: Sym,
    pub(super) api_version: Sym,
    /// Empty for cluster-scoped objects, and where it is not known.
    pub(super) namespace: Sym,
    pub(super) name: Arc<str>,
    pub(super) uid: Uid,
}

impl Coordinates {
    /// What `reference` says of the owner of an object in `namespace`.
    pub(super) fn of_owner(reference: &OwnerReference, namespace: &Sym) -> Self {
        Self {
            kind: reference.kind.clone(),
            api_version: reference.api_version.clone(),
            namespace: namespace.clone(),
            name: reference.name.to_arc(),
            uid: reference.uid.clone(),
        }
    }

    /// Whether `reference` means the object with these coordinates, its namespace aside.
    pub(super) fn are_meant_by(&self, reference: &OwnerReference) -> bool {
        reference.uid == self.uid
            && *reference.name == *self.name
            && reference.kind == self.kind
            && reference.api_version == self.api_version
    }

    /// Whether nothing in `namespace` (empty: nothing cluster-scoped) can have this as its owner.
    pub(super) fn is_out_of_reach_of(&self, namespace: &Sym) -> bool {
        !self.namespace.is_empty() && self.namespace != *namespace
    }
}

/// API group (empty for core) and version of an `apiVersion`.
pub(super) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, api_version, namespace, name, uid } = self;
        write!(f, "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
    }
}
