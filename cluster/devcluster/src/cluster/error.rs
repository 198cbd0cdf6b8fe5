//! [`StartError`]: the reasons for which a cluster does not start.

use steersman_apiserver::status::Status;
use steersman_nodes::NodesError;
use steersman_releases::UnknownRelease;
use steersman_runtime::controller::InitError;

use super::manifests::ManifestError;

/// A cluster could not be started as it was described.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An object does not serialise.
    #[error("an object cannot be written as JSON: {0}")]
    Serialize(#[from] serde_json::Error),
    /// An object was refused.
    #[error("{object}: {source}")]
    Object {
        /// Kind and name.
        object: String,
        /// The server's words.
        #[source]
        source: Status,
    },
    /// A manifest cannot be read or was refused.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// No controller of the table is called so.
    #[error("no controller is called {name:?}; there are {}", known.join(", "))]
    UnknownController {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: Vec<&'static str>,
    },
    /// Steersman does not know the release of Kubernetes.
    #[error(transparent)]
    UnknownRelease(#[from] UnknownRelease),
    /// A controller could not be built.
    #[error(transparent)]
    Controller(#[from] InitError),
    /// The simulated nodes could not be set up.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// Metrics of the machinery clash.
    #[error("set up controllers: {0}")]
    Metrics(#[from] prometheus::Error),
}
