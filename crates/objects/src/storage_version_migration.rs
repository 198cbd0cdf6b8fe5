//! StorageVersionMigrations, which rewrite all objects of a resource in its storage version.
//!
//! The view keeps the served [`Document`](super::Document), because the controller PUTs the status.
//! Upstream: `k8s.io/api/storagemigration/v1beta1`.

use std::fmt;

use serde::Deserialize;

use steersman_values::intern::Sym;
use steersman_values::resource::STORAGE_VERSION_MIGRATIONS;

use super::Conditions;
use super::wire::nullable;
use crate::view;

view! {
    /// A StorageVersionMigration.
    pub struct StorageVersionMigration: STORAGE_VERSION_MIGRATIONS, keeps document {
        /// `spec`.
        pub spec: StorageVersionMigrationSpec,
        /// `status`.
        pub status: StorageVersionMigrationStatus,
    }

    /// `spec` of a StorageVersionMigration.
    pub struct StorageVersionMigrationSpec {
        /// The resource whose objects are rewritten.
        pub resource: GroupResource,
    }

    /// `status` of a StorageVersionMigration.
    pub struct StorageVersionMigrationStatus {
        /// Objects with a later resource version need no rewrite; empty until it is known.
        pub resource_version: Box<str>,
        /// Conditions.
        pub conditions: Conditions,
    }
}

/// A resource without its version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct GroupResource {
    /// API group; empty for core.
    #[serde(deserialize_with = "nullable")]
    pub group: Sym,
    /// Plural name.
    #[serde(deserialize_with = "nullable")]
    pub resource: Sym,
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}
