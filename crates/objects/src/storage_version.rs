//! StorageVersions: the versions in which API servers store a resource, by server.
//!
//! The view keeps the served [`Document`](super::Document), because the controller PUTs the status.
//! Upstream: `k8s.io/api/apiserverinternal/v1alpha1`.

use steersman_values::resource::STORAGE_VERSIONS;

use crate::view;

view! {
    /// A StorageVersion.
    pub struct StorageVersion: STORAGE_VERSIONS, keeps document {
        /// `status`.
        pub status: StorageVersionStatus,
    }

    /// `status` of a StorageVersion.
    pub struct StorageVersionStatus {
        /// One entry per API server.
        pub storage_versions: Vec<ServerStorageVersion>,
    }

    /// The entry of one API server.
    pub struct ServerStorageVersion {
        /// Name of the identity Lease of the API server.
        #[serde(rename = "apiServerID")]
        pub api_server_id: Box<str>,
    }
}
