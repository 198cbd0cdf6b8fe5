//! Object metadata as views keep it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::intern::{Interner, Sym};
use crate::labels::Labels;

static OWNERS: Interner<[OwnerReference]> = Interner::new();

/// The part of `ObjectMeta` that controllers read. `managedFields` is dropped on entry.
#[derive(Debug, Clone)]
pub struct Meta {
    /// Empty for cluster-scoped objects.
    pub namespace: Sym,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Uid,
    /// Position in the server's history, comparable since Kubernetes 1.35.
    pub resource_version: u64,
    /// Version of the spec; 0 where the type has none.
    pub generation: i64,
    /// When the server stored it first.
    pub created: Option<Timestamp>,
    /// Set once deletion has begun.
    pub deleted: Option<Timestamp>,
    /// Labels.
    pub labels: Labels,
    /// Owner references, in order.
    pub owners: Owners,
    /// Which of the garbage collector's finalizers it has.
    pub finalizers: CollectorFinalizers,
}

impl Meta {
    /// True once deletion has begun.
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

/// The two finalizers that say what a deletion makes of an object's dependents; others are not
/// kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectorFinalizers {
    /// `foregroundDeletion`: dependents go first.
    pub foreground: bool,
    /// `orphan`: dependents stay, without their reference.
    pub orphan: bool,
}

impl CollectorFinalizers {
    /// Text of the finalizer of a foreground deletion.
    pub const FOREGROUND: &'static str = "foregroundDeletion";
    /// Text of the finalizer of a deletion that orphans.
    pub const ORPHAN: &'static str = "orphan";

    /// Those among `finalizers`.
    pub fn among<'a>(finalizers: impl Iterator<Item = &'a str>) -> Self {
        finalizers.fold(Self::default(), |found, name| Self {
            foreground: found.foreground || name == Self::FOREGROUND,
            orphan: found.orphan || name == Self::ORPHAN,
        })
    }
}

/// Annotations of an object whose annotations are cached (Deployments, ReplicaSets).
pub type Annotations = BTreeMap<String, String>;

/// One entry of `ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerReference {
    /// `apps/v1`.
    pub api_version: Sym,
    /// `ReplicaSet`.
    pub kind: Sym,
    /// Owner's name, in the same namespace or cluster-scoped.
    pub name: Sym,
    /// Owner's UID.
    pub uid: Uid,
    /// Whether this is the controller reference.
    pub controller: bool,
    /// Whether foreground deletion of the owner waits for this object.
    pub block_owner_deletion: bool,
}

/// The owner references of one object; siblings share one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners(Arc<[OwnerReference]>);

impl Owners {
    /// The shared list with these entries.
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

/// An object's UID. Ordered as its text is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Uid {
    /// A lower-case UUID, which is what API servers make.
    Uuid(uuid::Uuid),
    /// Anything else.
    Other(Sym),
}

impl Uid {
    /// The UID with this text.
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
            // Lower-case hex digits of fixed width order like the number they spell.
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

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
