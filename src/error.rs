//! Why a manager ends.

use steersman_runtime::client::{self, ApiError};
use steersman_runtime::controller::InitError;
use steersman_runtime::leader::ElectionConfigError;

use crate::access::AccessError;
use crate::server::ServeError;

/// Why a manager ended. Texts are upstream's where it has one.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No address or credentials of an API server.
    #[error(transparent)]
    Kubeconfig(#[from] client::ConfigError),
    /// Credentials that cannot be used.
    #[error(transparent)]
    Connect(#[from] client::ConnectError),
    /// No address or credentials of the API server that is to be asked about clients.
    #[error("failed to get delegated {what} kubeconfig: {source}")]
    DelegateKubeconfig {
        /// Authentication or authorization.
        what: &'static str,
        /// Why not.
        #[source]
        source: client::ConfigError,
    },
    /// It cannot be decided who may see what.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The HTTP server cannot start.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Two parts register a metric of the same name.
    #[error("register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The machine has no name to be a candidate under.
    #[error("the host name is not text: {0:?}")]
    HostName(std::ffi::OsString),
    /// The API server does not answer, or is not well.
    #[error("failed to wait for apiserver being healthy: timed out waiting for the condition: API server {server}: {}", source.cause())]
    Unhealthy {
        /// Where it should be.
        server: String,
        /// What came of the last attempt.
        #[source]
        source: ApiError,
    },
    /// The API server knows us and lets us do nothing, or does not know us.
    #[error("the API server {server} refuses {}: {}", source.request(), source.cause())]
    Refused {
        /// Where it is.
        server: String,
        /// Its words.
        source: ApiError,
    },
    /// The Lease may not be read.
    #[error("error retrieving resource lock {lock}: {source}")]
    Lock {
        /// Namespace and name.
        lock: String,
        /// The API server's words.
        #[source]
        source: ApiError,
    },
    /// Durations of the election that cannot work; upstream panics.
    #[error(transparent)]
    Election(#[from] ElectionConfigError),
    /// A controller could not be built.
    #[error(transparent)]
    Build(#[from] InitError),
    /// Somebody else may lead now.
    #[error("leaderelection lost")]
    LeaseLost,
    /// Nothing was done for a long time although there was work, so that another process should
    /// lead.
    #[error("no progress, giving up the leadership: {0}")]
    Stalled(String),
    /// A controller ended although nobody told it to.
    #[error("controller {0} ended unexpectedly")]
    ControllerEnded(&'static str),
    /// Controllers were still at work when their time was over.
    #[error("controller shutdown timeout reached: {} still running", .0.join(", "))]
    ShutdownTimeout(Vec<String>),
}

impl RunError {
    /// The exit status of a process that ends so.
    pub fn exit_code(&self) -> u8 {
        // A panic in Go ends with 2.
        if matches!(self, Self::Election(_)) {
            2
        } else {
            1
        }
    }
}
