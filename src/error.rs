//! The errors that end a manager, and their exit status.

use steersman_client::ApiError;
use steersman_runtime::controller::InitError;
use steersman_runtime::leader::ElectionConfigError;

use crate::access::AccessError;
use crate::server::ServeError;

/// The reason why a manager ended. Texts equal upstream's where it has one.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Address or credentials of the API server are missing or unreadable.
    #[error(transparent)]
    Kubeconfig(#[from] steersman_client::ConfigError),
    /// The credentials cannot be used for a connection.
    #[error(transparent)]
    Connect(#[from] steersman_client::ConnectError),
    /// A kubeconfig for reviews of requests to our port is missing or unreadable.
    #[error("failed to get delegated {what} kubeconfig: {source}")]
    DelegateKubeconfig {
        /// `authentication` or `authorization`.
        what: &'static str,
        /// The cause.
        #[source]
        source: steersman_client::ConfigError,
    },
    /// Access control of the HTTPS port cannot be set up.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The HTTPS server cannot start.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Two metrics have the same name.
    #[error("register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The host name is invalid UTF-8, so it cannot be part of the candidate's identity.
    #[error("the host name is not text: {0:?}")]
    HostName(std::ffi::OsString),
    /// The API server did not become healthy in time.
    #[error("failed to wait for apiserver being healthy: timed out waiting for the condition: API server {server}: {}", source.cause())]
    Unhealthy {
        /// Host and port of the API server.
        server: String,
        /// The error of the last attempt.
        #[source]
        source: ApiError,
    },
    /// The API server rejects the credentials or denies the request (401, 403).
    #[error("the API server {server} refuses {}: {}", source.request(), source.cause())]
    Refused {
        /// Host and port of the API server.
        server: String,
        /// The answer of the API server.
        source: ApiError,
    },
    /// The API server refuses to return the Lease.
    #[error("error retrieving resource lock {lock}: {source}")]
    Lock {
        /// Namespace and name of the Lease.
        lock: String,
        /// The answer of the API server.
        #[source]
        source: ApiError,
    },
    /// The durations of leader election contradict each other; upstream panics.
    #[error(transparent)]
    Election(#[from] ElectionConfigError),
    /// A controller could not be initialised.
    #[error(transparent)]
    Build(#[from] InitError),
    /// The Lease was lost; another process may lead.
    #[error("leaderelection lost")]
    LeaseLost,
    /// The leader made no progress for too long although it had work. It ends, so that another
    /// process can lead.
    #[error("no progress, giving up the leadership: {0}")]
    Stalled(String),
    /// `--controllers` has items but selects no controller.
    #[error("{0}")]
    NothingToRun(String),
    /// The API servers have another release. The Lease was released, and the manager shall start
    /// again as this release.
    #[error("the API servers have the release {0} now")]
    ReleaseChanged(steersman_releases::Release),
    /// A controller ended without a request to stop.
    #[error("controller {0} ended unexpectedly")]
    ControllerEnded(&'static str),
    /// These controllers did not stop within `--controller-shutdown-timeout`.
    #[error("controller shutdown timeout reached: {} still running", .0.join(", "))]
    ShutdownTimeout(Vec<String>),
}

impl RunError {
    /// The exit status of the process.
    pub fn exit_code(&self) -> u8 {
        // The exit status of a Go process that panics.
        if matches!(self, Self::Election(_)) {
            2
        } else {
            1
        }
    }
}
