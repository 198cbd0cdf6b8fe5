//! Status updates: PUT to the subresource `status`.
//!
//! Upstream sends the whole object, and its roles grant `update` but not `patch`. The body is the
//! served document with another status, so that fields unknown to this program survive.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Map;

use steersman_objects::{DecodeError, Document, Identity, Meta, Object, Uid};

use super::member::with_member;
use crate::{ApiClient, ApiError, Target};

/// A status was not written.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The API server refused a request, or did not answer.
    #[error("{0}")]
    Request(#[source] ApiError),
    /// The answer of the API server could not be decoded as the object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
    /// Another object has the name now.
    #[error("got uid {0}: another object has the name now")]
    Replaced(Uid),
}

impl StatusError {
    /// True if the object does not exist. The cache will show its deletion, so a retry is useless.
    pub fn is_object_not_found(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_object_not_found())
    }
}

/// The reaction to a failed PUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// The error is returned.
    Return,
    /// A live read of the object and one more PUT follow, as in upstream's ReplicaSet controller.
    /// An object with another UID is left unchanged.
    RepeatOnLiveObject,
}

/// PUTs `status` on the object of type `T` that has the metadata `seen` and the served text
/// `document`. Returns the object as stored, in JSON.
pub async fn write_status<T: Object>(
    client: &ApiClient,
    seen: &Meta,
    document: &Document,
    status: &impl Serialize,
    on_failure: OnFailure,
) -> Result<Bytes, StatusError> {
    let object = Target::of::<T>(seen);
    let put = async |document: &Document| {
        let body = with_member::<T>(document, "status", status);
        client.replace(object.status(), &body).await
    };
    let written = match put(document).await {
        Err(error) if !error.is_fenced() && on_failure == OnFailure::RepeatOnLiveObject => {
            tracing::debug!(%error, "status update failed, retrying with the live object");
            put(&read::<T>(client, seen).await?).await
        }
        first => first,
    };
    written.map_err(StatusError::Request)
}

/// The object `seen` as the API server has it now.
async fn read<T: Object>(client: &ApiClient, seen: &Meta) -> Result<Document, StatusError> {
    let live = client
        .get(Target::of::<T>(seen))
        .await
        .map_err(StatusError::Request)?;
    let uid = Identity::decode(&live).map_err(StatusError::Answer)?.uid;
    if uid != seen.uid {
        return Err(StatusError::Replaced(uid));
    }
    let malformed = |source| {
        StatusError::Answer(DecodeError::Json {
            kind: "live object",
            source,
        })
    };
    let live: Map<String, _> = serde_json::from_slice(&live).map_err(malformed)?;
    Ok(Document::new(live))
}
