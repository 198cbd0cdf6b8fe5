//! Who manages which field: the model behind `metadata.managedFields` and server-side apply.
//!
//! [`set`]: sets of field paths; [`shape`]: what of a value can have an owner; [`compare`]: what a
//! write touched; [`merge`]: an applied configuration laid over the live object; [`managed`]: the
//! entries of an object, and what writes do to them.

mod apply;
mod compare;
mod managed;
mod merge;
mod set;
mod shape;

pub(crate) use apply::{Applied, Conflicts, apply};
pub(crate) use compare::{compare, declared};
pub(crate) use managed::{Author, Managed, Operation, is_reset};
pub(crate) use set::FieldSet;
pub(crate) use shape::Shape;
