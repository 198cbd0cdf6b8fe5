//! StorageVersionMigrations, which rewrite all objects of a resource in its storage version.
//!
//! The view keeps the served [`Document`](super::Document), because the controller PUTs the status.
//! Upstream: `k8s.io/api/storagemigration` in the versions `v1alpha1` (1.33 and 1.34), `v1beta1` and `v1`.

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

impl StorageVersionMigration {
    /// The field of a condition with its time. Only migrations of `v1alpha1` name the version of their resource.
    pub fn time_of_conditions(&self) -> &'static str {
        if self.spec.resource.version.is_empty() {
            "lastTransitionTime"
        } else {
            "lastUpdateTime"
        }
    }
}

/// A resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct GroupResource {
    /// API group; empty for core.
    #[serde(deserialize_with = "nullable")]
    pub group: Sym,
    /// API version in `v1alpha1`, and empty in later versions of StorageVersionMigrations.
    #[serde(deserialize_with = "nullable")]
    pub version: Sym,
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
