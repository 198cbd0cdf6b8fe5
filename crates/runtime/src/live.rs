//! Live reads: requests to the API server for decisions that a stale cache would get wrong.
//!
//! Controllers read from caches. They use live reads only if a cache may lack a write: after a
//! change of leader, after an unanswered write, or before a deletion. Lists come in pages, so that
//! the size of an answer is bounded.
//!
//! Upstream: the uncached client calls in the controllers, such as `canAdoptFunc`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::client::{ApiClient, ApiError, Target};
use crate::labels::Selector;
use crate::object::{DecodeError, Identity, Meta, Object};
use crate::resource::ResourceType;

/// Objects per page of a list. Upstream's controllers list everything at once, which has no bound
/// on memory.
const PAGE: &str = "limit=500";

/// A live read failed.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The request failed.
    #[error("{0}")]
    Request(#[source] ApiError),
    /// The answer is not a list.
    #[error("{0}")]
    List(#[source] serde_json::Error),
    /// The answer, or an item of it, is not an object of the type.
    #[error("{0}")]
    Object(#[source] DecodeError),
}

/// True if the API server has the object of type `T` with the name and resource version of `meta`.
pub async fn is_current<T: Object>(client: &ApiClient, meta: &Meta) -> Result<bool, LiveError> {
    match client.get(Target::of::<T>(meta)).await {
        Ok(live) => Ok(Identity::decode(&live)
            .map_err(LiveError::Object)?
            .resource_version
            == meta.resource_version),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(LiveError::Request(error)),
    }
}

/// Objects as the API server has them.
#[derive(Debug)]
pub struct Live<T> {
    /// The requested objects.
    pub objects: Vec<T>,
    /// The resource version of the list.
    pub version: u64,
}

/// The objects of type `T` in a namespace that `selector` matches.
pub async fn matching<T: Object>(
    client: &ApiClient,
    namespace: &str,
    selector: &Selector,
) -> Result<Live<T>, LiveError> {
    let target = Target::collection::<T>(namespace);
    let answer = client
        .list(target, &label_query(selector))
        .await
        .map_err(LiveError::Request)?;
    let List { items } = serde_json::from_slice(&answer).map_err(LiveError::List)?;
    let version = Identity::decode(&answer)
        .map_err(LiveError::Object)?
        .resource_version;
    let objects: Result<Vec<T>, DecodeError> = items
        .iter()
        .map(|item| T::decode(item.get().as_bytes()))
        .collect();
    Ok(Live {
        objects: objects.map_err(LiveError::Object)?,
        version,
    })
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// The query for the objects that `selector` matches.
fn label_query(selector: &Selector) -> String {
    format!("labelSelector={}", escaped(&selector.to_string()))
}

/// The characters that have to be escaped in a value of a query.
const OUTSIDE_VALUES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// `text` escaped for a value of a query.
fn escaped(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, OUTSIDE_VALUES)
}

/// A page of a list could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The request failed.
    #[error("{0}")]
    Request(#[from] ApiError),
    /// The answer is not a list.
    #[error("decode {resource}: {source}")]
    Decode {
        /// The resource of the list.
        resource: Box<ResourceType>,
        /// The syntax error in the answer.
        source: serde_json::Error,
    },
}

impl PageError {
    /// True if the resource does not exist (any more) or does not support lists.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_method_not_allowed() || error.is_not_found())
    }
}

/// A consistent list of the latest state, page by page.
pub struct Pages<'a> {
    client: &'a ApiClient,
    resource: &'a ResourceType,
    namespace: Option<&'a str>,
    /// The query for the next page; `None` after the last.
    query: Option<String>,
}

impl<'a> Pages<'a> {
    /// A list of all objects in `namespace`; `None` lists all namespaces.
    pub fn new(
        client: &'a ApiClient,
        resource: &'a ResourceType,
        namespace: Option<&'a str>,
    ) -> Self {
        Self {
            client,
            resource,
            namespace,
            query: Some(PAGE.to_owned()),
        }
    }

    /// The items of the next page; `None` after the last page.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<Vec<T>>, PageError> {
        let Some(query) = self.query.take() else {
            return Ok(None);
        };
        let target = Target {
            resource: self.resource,
            namespace: self.namespace,
            name: None,
            subresource: None,
        };
        let body = self.client.list(target, &query).await?;
        let decode = |source| PageError::Decode {
            resource: Box::new(self.resource.clone()),
            source,
        };
        let Page { metadata, items } = serde_json::from_slice(&body).map_err(decode)?;
        if !metadata.next.is_empty() {
            self.query = Some(format!("{PAGE}&continue={}", escaped(&metadata.next)));
        }
        Ok(Some(items.unwrap_or_default()))
    }
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    #[serde(default)]
    metadata: PageMeta,
    /// Go writes an empty list as `null`.
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    /// Token for the next page; empty on the last one.
    #[serde(rename = "continue", default)]
    next: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_may_be_the_last_and_may_be_empty() {
        let page = |json: &str| {
            let Page { metadata, items } = serde_json::from_str::<Page<u8>>(json).unwrap();
            (metadata.next, items.unwrap_or_default())
        };
        assert_eq!(
            page(r#"{"metadata":{"continue":"t"},"items":[1,2]}"#),
            ("t".to_owned(), vec![1, 2])
        );
        assert_eq!(
            page(r#"{"metadata":{},"items":null}"#),
            (String::new(), vec![])
        );
        assert_eq!(page(r#"{"items":[3]}"#), (String::new(), vec![3]));
    }

    #[test]
    fn values_of_a_query_are_escaped() {
        assert_eq!(
            escaped("a in (b,c), !d_-.~=é").to_string(),
            "a%20in%20%28b%2Cc%29%2C%20%21d_-.~%3D%C3%A9"
        );
    }
}
