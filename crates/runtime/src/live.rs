//! What the API server itself says, for decisions that must not rest on a cache that may be behind.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::{ApiClient, ApiError, Target};
use crate::labels::Selector;
use crate::object::{DecodeError, Identity, Meta, Object};

/// Why nobody can tell what there is.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The API server did not say.
    #[error("{0}")]
    Request(#[source] ApiError),
    /// What it said is no list.
    #[error("{0}")]
    List(#[source] serde_json::Error),
    /// What it said is no object.
    #[error("{0}")]
    Object(#[source] DecodeError),
}

impl LiveError {
    /// The request that failed, where one did.
    pub fn request(&self) -> Option<&ApiError> {
        match self {
            Self::Request(error) => Some(error),
            Self::List(_) | Self::Object(_) => None,
        }
    }
}

/// Whether the API server has the object of type `T` just as it was when it had this `meta`.
pub async fn is_current<T: Object>(client: &ApiClient, meta: &Meta) -> Result<bool, LiveError> {
    let namespace = T::RESOURCE.namespaced.then_some(&*meta.namespace);
    let target = Target { resource: T::RESOURCE, namespace, name: Some(&meta.name), subresource: None };
    match client.get(target).await {
        Ok(live) => Ok(Identity::decode(&live).map_err(LiveError::Object)?.resource_version == meta.resource_version),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(LiveError::Request(error)),
    }
}

/// Objects as the API server has them.
#[derive(Debug)]
pub struct Live<T> {
    /// All that were asked for.
    pub objects: Vec<T>,
    /// The version of the list.
    pub version: u64,
}

/// The objects of type `T` in a namespace that `selector` matches.
pub async fn matching<T: Object>(client: &ApiClient, namespace: &str, selector: &Selector) -> Result<Live<T>, LiveError> {
    let target = Target { resource: T::RESOURCE, namespace: Some(namespace), name: None, subresource: None };
    let answer = client.list(target, &label_query(selector)).await.map_err(LiveError::Request)?;
    let List { items } = serde_json::from_slice(&answer).map_err(LiveError::List)?;
    let version = Identity::decode(&answer).map_err(LiveError::Object)?.resource_version;
    let objects: Result<Vec<T>, DecodeError> = items.iter().map(|item| T::decode(item.get().as_bytes())).collect();
    Ok(Live { objects: objects.map_err(LiveError::Object)?, version })
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// The query that lists what `selector` matches.
fn label_query(selector: &Selector) -> String {
    let mut query = String::from("labelSelector=");
    for byte in selector.to_string().bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => query.push(char::from(byte)),
            _ => query.push_str(&format!("%{byte:02X}")),
        }
    }
    query
}
