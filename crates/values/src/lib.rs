//! Values of the Kubernetes API, and the small containers that hold many of them. No I/O.
//!
//! Strings that many objects share are interned ([`intern`]), and label sets and selectors are
//! kept in that form ([`labels`], [`label_selector`]). Upstream: `apimachinery/pkg/labels`,
//! `api/resource`, `util/validation` and `k8s.io/utils/net`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

pub mod capacity;
pub mod cidr;
pub mod clock;
pub mod gotime;
pub mod intern;
pub mod label_selector;
pub mod labels;
pub mod lru;
pub mod quantity;
pub mod resource;
pub mod sync;
pub mod text;
pub mod validation;
pub mod version;
