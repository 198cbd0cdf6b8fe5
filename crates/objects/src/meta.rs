//! Object metadata in the form that all views keep.
//!
//! A cache holds the metadata of every object, so each field has a small form. Strings and lists
//! of owners are shared, a UID takes 24 bytes and a time 8, and two flags replace the list of finalizers.
//! Upstream: `ObjectMeta` of `k8s.io/apimachinery/pkg/apis/meta/v1`.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use steersman_values::intern::{Interner, SharedSlice, Sym};
use steersman_values::labels::Labels;

use super::time::Time;

static OWNERS: Interner<SharedSlice<OwnerReference>> = Interner::new();

/// The fields of `ObjectMeta` that controllers read. Views never keep `managedFields`.
#[derive(Debug, Clone)]
pub struct Meta {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Sym,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Uid,
    /// Resource version: the object's position in the server's history. Kubernetes guarantees its
    /// order since 1.35.
    pub resource_version: u64,
    /// `generation`, the version of the spec; 0 for types without it.
    pub generation: i64,
    /// `creationTimestamp`.
    pub created: Option<Time>,
    /// `deletionTimestamp`; set from the start of the deletion.
    pub deleted: Option<Time>,
    /// Labels.
    pub labels: Labels,
    /// Owner references, in the served order.
    pub owners: Owners,
    /// The finalizers of the garbage collector that the object has.
    pub finalizers: CollectorFinalizers,
}

impl Meta {
    /// Whether the deletion of the object has started.
    pub fn is_terminating(&self) -> bool {
        self.deleted.is_some()
    }

    /// The controller reference: the first owner reference with `controller: true`.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller)
    }

    /// Whether the controller reference names the object with this UID.
    pub fn is_controlled_by(&self, uid: &Uid) -> bool {
        self.controller().is_some_and(|owner| owner.uid == *uid)
    }
}

/// The two finalizers that decide about the dependents of a deleted object. Views drop all other
/// finalizers, because only the garbage collector reads finalizers from a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectorFinalizers {
    /// `foregroundDeletion`: the dependents are deleted before the object.
    pub foreground: bool,
    /// `orphan`: the dependents stay and lose their owner reference.
    pub orphan: bool,
}

impl CollectorFinalizers {
    /// Name of the finalizer of a foreground deletion.
    pub const FOREGROUND: &'static str = "foregroundDeletion";
    /// Name of the finalizer of an orphaning deletion.
    pub const ORPHAN: &'static str = "orphan";

    /// The flags for the list `finalizers` of an object.
    pub fn among<'a>(finalizers: impl Iterator<Item = &'a str>) -> Self {
        finalizers.fold(Self::default(), |found, name| Self {
            foreground: found.foreground || name == Self::FOREGROUND,
            orphan: found.orphan || name == Self::ORPHAN,
        })
    }
}

/// The annotations of an object, except `kubectl.kubernetes.io/last-applied-configuration`. That
/// one takes kilobytes, and no controller reads it.
///
/// Deployments and ReplicaSets keep them, because the Deployment controller copies annotations
/// between them. Objects with equal annotations share one allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotations(Labels);

impl Annotations {
    /// The annotation that kubectl keeps for `kubectl apply`.
    pub const LAST_APPLIED: &'static str = "kubectl.kubernetes.io/last-applied-configuration";

    /// The shared set with the pairs `pairs`. For a repeated key, the last value wins.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let kept = pairs
            .into_iter()
            .filter(|(key, _)| *key != Self::LAST_APPLIED);
        Self(Labels::new(kept))
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(Sym::as_str)
    }

    /// All pairs of key and value, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// One entry of `ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerReference {
    /// API version of the owner, such as `apps/v1`.
    pub api_version: Sym,
    /// Kind of the owner, such as `ReplicaSet`.
    pub kind: Sym,
    /// Name of the owner, which is in the same namespace or cluster-scoped.
    pub name: Sym,
    /// UID of the owner.
    pub uid: Uid,
    /// Whether this reference is the controller reference.
    pub controller: bool,
    /// Whether foreground deletion of the owner waits for this object.
    pub block_owner_deletion: bool,
}

/// The owner references of one object. Objects with equal references, such as the pods of one
/// ReplicaSet, share one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners(SharedSlice<OwnerReference>);

impl Owners {
    /// The shared list with the entries `owners`.
    pub fn new(owners: &[OwnerReference]) -> Self {
        Self(OWNERS.intern(owners))
    }
}

impl std::ops::Deref for Owners {
    type Target = [OwnerReference];
    fn deref(&self) -> &[OwnerReference] {
        &self.0
    }
}

/// The UID of an object. Its order is the order of its string form.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Uid {
    /// A UUID in lower case, the form that API servers generate.
    Uuid(uuid::Uuid),
    /// Any other string.
    Other(Sym),
}

impl Uid {
    /// The UID with the string form `text`.
    pub fn new(text: &str) -> Self {
        match uuid::Uuid::try_parse(text) {
            Ok(uuid) if uuid.hyphenated().encode_lower(&mut [0; 36]) == text => Self::Uuid(uuid),
            _ => Self::Other(Sym::new(text)),
        }
    }
}

impl PartialOrd for Uid {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Uid {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            // Lower-case hexadecimal digits of fixed width sort like the number.
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            _ => self.to_string().cmp(&other.to_string()),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => uuid.hyphenated().fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UidVisitor;
        impl serde::de::Visitor<'_> for UidVisitor {
            type Value = Uid;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Uid, E> {
                Ok(Uid::new(text))
            }
        }
        deserializer.deserialize_str(UidVisitor)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
