//! Types of values that libraries of Kubernetes add.

pub(super) mod authz;
pub(super) mod cidr;
pub(super) mod format;
pub(super) mod semver;
pub(super) mod url;
