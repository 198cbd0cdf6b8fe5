//! Live reads: requests to the API server for decisions that a stale cache would get wrong.
//!
//! Controllers read from caches. They use live reads only if a cache may lack a write: after a
//! change of leader, after an unanswered write, or before a deletion. Lists come in pages, so that
//! the size of an answer is bounded.
//!
//! Upstream: the uncached client calls in the controllers, such as `canAdoptFunc`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use steersman_objects::{DecodeError, Identity, Meta, Object, ObjectKey, Parsed, Uid};
use steersman_values::labels::{Labels, Selector};
use steersman_values::resource::ResourceType;

use crate::{ApiClient, ApiError, Query, Target};

/// Objects per page of a list. Upstream's controllers list everything at once, which has no bound
/// on memory.
const PAGE: &str = "limit=500";

/// A live read failed.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The request failed.
    #[error("{0}")]
    Request(#[source] ApiError),
    /// A page of a list could not be read.
    #[error("{0}")]
    Page(#[source] PageError),
    /// The answer, or an item of it, is not an object of the type.
    #[error("{0}")]
    Object(#[source] DecodeError),
}

/// True if the API server has the object of type `T` with the name and resource version of `meta`.
///
/// A 404 that does not name the object is an error, as in [`version`].
pub async fn is_current<T: Object>(client: &ApiClient, meta: &Meta) -> Result<bool, LiveError> {
    let live = version::<T>(client, &meta.namespace, &meta.name).await?;
    Ok(live == Some(meta.resource_version))
}

/// The object of type `T` with this name. `None` if there is none.
///
/// A 404 that does not name the object is an error, as in [`version`].
pub async fn object<T: Object>(
    client: &ApiClient,
    namespace: &str,
    name: &str,
) -> Result<Option<T>, LiveError> {
    match client.get(Target::named::<T>(namespace, name)).await {
        Ok(live) => T::decode(&live).map(Some).map_err(LiveError::Object),
        Err(error) if error.is_object_not_found() => Ok(None),
        Err(error) => Err(LiveError::Request(error)),
    }
}

/// The resource version of the object of type `T` with this name. `None` if there is none.
///
/// A 404 that does not name the object is an error. A caller may rely on the event of the deletion,
/// and a proxy that cannot reach the API server is followed by no event.
pub async fn version<T: Object>(
    client: &ApiClient,
    namespace: &str,
    name: &str,
) -> Result<Option<u64>, LiveError> {
    match client.get(Target::named::<T>(namespace, name)).await {
        Ok(live) => {
            let live = Identity::decode(&live).map_err(LiveError::Object)?;
            Ok(Some(live.resource_version))
        }
        Err(error) if error.is_object_not_found() => Ok(None),
        Err(error) => Err(LiveError::Request(error)),
    }
}

/// True if the API server has the object with this key as `cached`, or has none if `cached` is unset.
///
/// A 404 that does not name the object is an error, as in [`version`].
pub async fn is_as_cached<T: Object>(
    client: &ApiClient,
    key: &ObjectKey,
    cached: Option<&T>,
) -> Result<bool, LiveError> {
    let live = version::<T>(client, &key.namespace, &key.name).await?;
    Ok(live == cached.map(|object| object.meta().resource_version))
}

/// True if the API server has exactly the objects `cached` with these labels, in these versions. An
/// empty `namespace` means all namespaces, or none.
pub async fn are_current<T: Object>(
    client: &ApiClient,
    namespace: &str,
    labels: &Labels,
    cached: &[Arc<T>],
) -> Result<bool, LiveError> {
    let query = label_query(&Selector::of_labels(labels));
    let mut pages = pages::<T>(client, namespace).filtered(query);
    let version = |meta: &Meta| (meta.uid.clone(), meta.resource_version);
    let mut unseen: HashSet<_> = cached.iter().map(|object| version(object.meta())).collect();
    while let Some(items) = pages
        .next::<Box<RawValue>>()
        .await
        .map_err(LiveError::Page)?
    {
        for item in items {
            let live = Identity::decode(item.get().as_bytes()).map_err(LiveError::Object)?;
            if !unseen.remove(&(live.uid, live.resource_version)) {
                return Ok(false);
            }
        }
    }
    Ok(unseen.is_empty())
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
    listed(client, namespace, label_query(selector)).await
}

/// The object of type `T` with this name, or nothing. For types that a controller may list and may
/// not get.
pub async fn named<T: Object>(
    client: &ApiClient,
    namespace: &str,
    name: &str,
) -> Result<Live<T>, LiveError> {
    with_fields(client, namespace, &format!("metadata.name={name}")).await
}

/// Whether a deletion that failed with `error` found no object of type `T` with the UID of `meta`. A
/// conflict may have other reasons, so the object is read; if that fails, too, it counts as present.
pub async fn is_gone<T: Object>(client: &ApiClient, meta: &Meta, error: &ApiError) -> bool {
    if !error.is_conflict() {
        return error.is_object_not_found();
    }
    let live = named::<T>(client, &meta.namespace, &meta.name).await;
    live.is_ok_and(|live| {
        live.objects
            .iter()
            .all(|object| object.meta().uid != meta.uid)
    })
}

/// The objects of type `T` that the field selector `fields` matches.
pub async fn with_fields<T: Object>(
    client: &ApiClient,
    namespace: &str,
    fields: &str,
) -> Result<Live<T>, LiveError> {
    let query = Query::default().with("fieldSelector", fields);
    listed(client, namespace, query).await
}

/// All objects of type `T`, in all namespaces.
pub async fn all<T: Object>(client: &ApiClient) -> Result<Live<T>, LiveError> {
    listed(client, "", Query::default()).await
}

/// The objects of type `T` in `namespace` that `keep` accepts; an empty `namespace` means all
/// namespaces. Others are dropped page by page, so that a large namespace takes little memory.
pub async fn kept<T: Object>(
    client: &ApiClient,
    namespace: &str,
    keep: impl Fn(&T) -> bool,
) -> Result<Live<T>, LiveError> {
    collected(pages::<T>(client, namespace), keep).await
}

async fn listed<T: Object>(
    client: &ApiClient,
    namespace: &str,
    query: Query,
) -> Result<Live<T>, LiveError> {
    collected(pages::<T>(client, namespace).filtered(query), |_| true).await
}

fn pages<'a, T: Object>(client: &'a ApiClient, namespace: &'a str) -> Pages<'a> {
    let namespace = (!namespace.is_empty()).then_some(namespace);
    Pages::new(client, T::RESOURCE, namespace)
}

async fn collected<T: Object>(
    mut pages: Pages<'_>,
    keep: impl Fn(&T) -> bool,
) -> Result<Live<T>, LiveError> {
    let mut objects = Vec::new();
    while let Some(items) = pages
        .next::<Box<RawValue>>()
        .await
        .map_err(LiveError::Page)?
    {
        for item in items {
            let object = T::decode(item.get().as_bytes()).map_err(LiveError::Object)?;
            if keep(&object) {
                objects.push(object);
            }
        }
    }
    Ok(Live {
        objects,
        version: pages.version(),
    })
}

/// The changes that a cache lacks, in comparison with a live list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lag {
    /// The cache agrees with the list as soon as it has this resource version.
    Until(u64),
    /// The cache shows an object that is gone. A list does not tell the version of a deletion. Its
    /// own version can be that of another type, and then arrives with a bookmark, up to a minute
    /// later.
    Deletion,
}

/// The changes that `cached` lacks, in comparison with the objects `live` of a list. `None` if
/// `cached` agrees. A deletion precedes all other changes.
pub fn lag<'a>(
    live: impl Iterator<Item = &'a Meta>,
    cached: impl Iterator<Item = &'a Meta>,
) -> Option<Lag> {
    let with_version = |meta: &'a Meta| (&meta.uid, meta.resource_version);
    let cached: HashMap<&Uid, u64> = cached.map(with_version).collect();
    let live: HashMap<&Uid, u64> = live.map(with_version).collect();
    if cached.keys().any(|uid| !live.contains_key(*uid)) {
        return Some(Lag::Deletion);
    }
    let newer = live
        .iter()
        .filter(|(uid, version)| cached.get(*uid).is_none_or(|shown| shown < *version));
    newer.map(|(_, version)| *version).max().map(Lag::Until)
}

/// The query for the objects that `selector` matches.
fn label_query(selector: &Selector) -> Query {
    Query::default().with("labelSelector", selector)
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
    /// The selectors of the list; empty for all objects.
    filter: Query,
    /// The query for the next page; `None` after the last.
    query: Option<Query>,
    version: u64,
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
            filter: Query::default(),
            query: Some(Query::from(PAGE)),
            version: 0,
        }
    }

    /// The same with the selectors `filter`.
    fn filtered(mut self, filter: Query) -> Self {
        self.query = Some(Query::from(PAGE).and(&filter));
        self.filter = filter;
        self
    }

    /// The resource version of the list, which all pages share; 0 before the first page.
    pub fn version(&self) -> u64 {
        self.version
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
        if let Some(version) = metadata.resource_version.0 {
            self.version = version;
        }
        if !metadata.next.is_empty() {
            let next = Query::from(PAGE).and(&self.filter);
            self.query = Some(next.with("continue", &metadata.next));
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
    #[serde(rename = "resourceVersion", default)]
    resource_version: Parsed<u64>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use steersman_objects::Pod;

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
    fn a_cache_lacks_newer_objects_up_to_a_version_and_deletions_up_to_none() {
        // (why, live, cached, lag)
        let cases: [(_, &[_], &[_], _); 6] = [
            ("none", &[], &[], None),
            ("equal", &[("a", 5)], &[("a", 5)], None),
            ("the cache is newer", &[("a", 5)], &[("a", 6)], None),
            (
                "a newer object",
                &[("a", 7), ("b", 6)],
                &[("a", 5), ("b", 6)],
                Some(Lag::Until(7)),
            ),
            (
                "a missing object",
                &[("a", 5), ("b", 6)],
                &[("a", 5)],
                Some(Lag::Until(6)),
            ),
            (
                "an object that is gone",
                &[("b", 6)],
                &[("a", 5)],
                Some(Lag::Deletion),
            ),
        ];
        let build = |objects: &[(&str, u64)]| -> Vec<Pod> {
            let decode = |(name, version): &(&str, u64)| {
                let metadata =
                    json!({"name": name, "uid": name, "resourceVersion": version.to_string()});
                Pod::decode(json!({"metadata": metadata}).to_string().as_bytes()).unwrap()
            };
            objects.iter().map(decode).collect()
        };
        for (why, live, cached, expected) in cases {
            let live = build(live);
            let cached = build(cached);
            let found = lag(
                live.iter().map(Object::meta),
                cached.iter().map(Object::meta),
            );
            assert_eq!(found, expected, "{why}");
        }
    }
}
