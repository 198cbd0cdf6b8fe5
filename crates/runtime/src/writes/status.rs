//! Status updates: PUT to the subresource `status`.
//!
//! Upstream sends the whole object, and its roles grant `update` but not `patch`. The body is the
//! served document with another status, so that fields unknown to this program survive.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Map;
use serde_json::value::{RawValue, to_raw_value};

use crate::client::{ApiClient, ApiError, Target};
use crate::object::{DecodeError, Document, Identity, Meta, Object, Uid};

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
        client
            .replace(object.status(), &replacement::<T>(document, status))
            .await
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

/// The body of a PUT: the object of type `T` in `document`, with another status.
pub fn replacement<T: Object>(document: &Document, status: &impl Serialize) -> Box<RawValue> {
    let text = |text: &str| to_raw_value(text).expect("a string is JSON");
    let (api_version, kind) = (text(&T::RESOURCE.api_version()), text(&T::RESOURCE.kind));
    let status = to_raw_value(status).expect("a status has string keys only");
    let mut object: BTreeMap<String, &RawValue> =
        serde_json::from_str(document.as_str()).expect("a document is a JSON object");
    // Objects in a list lack these two fields.
    object
        .entry("apiVersion".to_owned())
        .or_insert(&api_version);
    object.entry("kind".to_owned()).or_insert(&kind);
    object.insert("status".to_owned(), &status);
    to_raw_value(&object).expect("raw JSON under string keys is JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::{ReplicaSet, ReplicaSetStatus};

    #[test]
    fn a_replacement_keeps_everything_but_the_status() {
        let json = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "managedFields": [{}], "x": 1},
            "spec": {"replicas": 2, "selector": {}, "template": {}, "fromTheFuture": {"a": [1.50]}},
            "status": {"replicas": 0}
        });
        let rs = ReplicaSet::decode(json.to_string().as_bytes()).unwrap();
        let status = ReplicaSetStatus {
            replicas: 2,
            terminating_replicas: Some(0),
            ..rs.status.clone()
        };
        let found: Value =
            serde_json::from_str(replacement::<ReplicaSet>(&rs.document, &status).get()).unwrap();
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "x": 1},
            "spec": {"replicas": 2, "selector": {}, "template": {}, "fromTheFuture": {"a": [1.50]}},
            "status": {"replicas": 2, "terminatingReplicas": 0}
        });
        assert_eq!(found, expected);
    }
}
