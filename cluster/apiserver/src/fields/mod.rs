//! Managers of fields: the model of `metadata.managedFields` and server-side apply.
//!
//! [`set`]: sets of field paths; [`shape`]: which values can have their own manager; [`compare`]:
//! the fields that a write changed; [`merge`]: an applied configuration merged into the live
//! object; [`managed`]: the entries of an object.
//!
//! Upstream: `sigs.k8s.io/structured-merge-diff` and `k8s.io/apimachinery/pkg/util/managedfields`.

mod apply;
mod atomic;
mod compare;
mod managed;
mod merge;
mod set;
mod shape;

pub(crate) use apply::{Applied, Conflicts, apply};
pub(crate) use atomic::atomics;
pub(crate) use compare::{compare, declared, typed};
pub(crate) use managed::{Author, Managed, Operation, is_reset};
pub(crate) use merge::merged;
pub(crate) use set::FieldSet;
pub(crate) use shape::Shape;
