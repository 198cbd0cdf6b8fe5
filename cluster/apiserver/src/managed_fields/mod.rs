//! Managers of fields: the model of `metadata.managedFields` and server-side apply.
//!
//! [`set`]: sets of field paths; [`shape`]: which values can have their own manager; [`compare`]:
//! the fields that a write changed;
//! [`declared`]: the fields of a configuration; [`remove`]: fields without an owner;
//! [`versions`]: the same kind in other versions; [`merge`]: an applied configuration merged into the live
//! object; [`managed`]: the entries of an object.
//!
//! Upstream: `sigs.k8s.io/structured-merge-diff` and `k8s.io/apimachinery/pkg/util/managedfields`.

mod apply;
mod atomic_paths;
mod compare;
mod declared;
mod managed;
mod merge;
mod remove;
mod set;
mod shape;
#[cfg(test)]
mod tests;
mod versions;

pub(crate) use apply::{Applied, Conflicts, NotApplied, apply, follow_last_applied};
pub(crate) use atomic_paths::atomics;
pub(crate) use compare::compare;
pub(crate) use declared::declared;
pub(crate) use managed::{Author, Managed, Operation, is_reset, updated};
pub(crate) use merge::merged;
pub(crate) use set::FieldSet;
pub(crate) use shape::Shape;
pub(crate) use versions::{Convert, Converted, Versions};
