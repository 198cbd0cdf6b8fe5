//! The failures of syncs, and the retries after them.

use steersman_client::ApiError;
use steersman_client::live::LiveError;
use steersman_objects::DecodeError;
use steersman_runtime::workers::Retry;

use super::token::SignError;

/// Retries after which a refused request rests until the next event. Upstream: `maxRetries`, for
/// all requests.
const MAX_RETRIES: u32 = 10;

/// The operation of a sync that failed. No variant contains a Secret or a token.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The annotation cannot be the name of an object.
    #[error("invalid resource name {0:?}")]
    AccountName(Box<str>),
    /// The account could not be read.
    #[error("{0}")]
    Account(#[source] LiveError),
    /// The Secret could not be read, written or deleted.
    #[error("{0}")]
    Secret(#[source] ApiError),
    /// The reference of an account to a Secret could not be removed.
    #[error("{0}")]
    Reference(#[source] ApiError),
    /// An answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
    /// An answer of the API server is no JSON object.
    #[error("the answer is no object")]
    Json,
    /// The key did not sign.
    #[error("{0}")]
    Sign(#[source] SignError),
}

impl SyncError {
    /// The treatment of a key after `failures` earlier failures in a row.
    pub(super) fn retry(&self, failures: u32) -> Retry {
        let request = ApiError::within(self);
        match self {
            Self::AccountName(_) | Self::Sign(_) => Retry::Drop,
            _ if failures >= MAX_RETRIES && request.is_some_and(is_refused) => Retry::Drop,
            _ => Retry::after_request(request),
        }
    }
}

/// Whether the API server understood the request and will refuse it again.
fn is_refused(error: &ApiError) -> bool {
    error.is_forbidden() || error.is_invalid()
}
