//! Objects of a request in the version that a policy or webhook wants to see.
//!
//! Upstream: `ConvertVersionedAttributes` in `pkg/admission` of `k8s.io/apiserver`.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::matching::Matched;
use super::request::Request;
use crate::Server;
use crate::status::Status;

/// An object in the version of `matched`, in the form of its JSON.
pub(super) async fn shown(
    server: &Server,
    matched: &Matched,
    object: &Value,
) -> Result<Value, Status> {
    let resource = &matched.resource;
    let object = resource.in_version(object.clone(), server).await?;
    let object = resource.converted(object);
    Ok(match resource.encoded(&object) {
        Cow::Owned(encoded) => encoded,
        Cow::Borrowed(_) => object,
    })
}

/// Fields that the server sets after the mutating plugins.
const SET_LATER: [&str; 3] = ["uid", "creationTimestamp", "generation"];

/// The object as mutating plugins see it: a new object has no identity yet.
pub(super) async fn unfinished(
    server: &Server,
    request: &Request<'_>,
    matched: &Matched,
    object: &Value,
) -> Result<Value, Status> {
    let mut object = shown(server, matched, object).await?;
    if request.old.is_none()
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.retain(|field, _| !SET_LATER.contains(&field.as_str()));
    }
    Ok(object)
}

/// The reverse of [`unfinished`] after a change of the object, which was `before`: the object in
/// the kept version of the request, with defaults.
pub(super) async fn finished(
    server: &Server,
    request: &Request<'_>,
    matched: &Matched,
    before: &Value,
    mut object: Value,
) -> Result<Value, Status> {
    let resource = &matched.resource;
    let requested = request.target.resource();
    resource.drop_unknown(&mut object);
    let mut object = resource.to_kept(object);
    if !Arc::ptr_eq(matched, &request.target.entry) {
        object = requested.in_version(object, server).await?;
    }
    if request.old.is_none() {
        for field in SET_LATER {
            if let Some(value) = before["metadata"].get(field) {
                object["metadata"][field] = value.clone();
            }
        }
    }
    requested.complete(&mut object);
    Ok(object)
}
