//! Removes the content of one type from one namespace: estimate, delete, look what is left.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_runtime::client::{ApiClient, ApiError, Target};
use steersman_runtime::clock::Clock;
use steersman_runtime::discovery::ServedResource;
use steersman_runtime::resource::{self, ResourceType};

use super::content::{self, Item, Page, PodItem, Remains};

/// Objects per page of a list. Upstream asks for everything at once; a namespace may be larger than what we want to hold.
const PAGE: &str = "limit=500";

/// Why the content of one type was not removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemovalError {
    #[error(transparent)]
    Request(#[from] ApiError),
    #[error("decode {resource}: {source}")]
    Decode {
        resource: ResourceType,
        #[source]
        source: serde_json::Error,
    },
    #[error("unexpected items still remain in namespace: {namespace} for gvr: {gvr}")]
    Unexpected { namespace: String, gvr: String },
}

impl RemovalError {
    /// Whether the type lacks the verb, or is not there (any more): nothing of it can be left, or it cannot be removed this way.
    fn is_unsupported(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_method_not_allowed() || error.is_not_found())
    }
}

/// The end of one namespace, as far as its content is concerned.
pub(super) struct Removal<'a> {
    /// Reads pods, whose grace is in their spec.
    pub(super) client: &'a ApiClient,
    /// Does everything else, on metadata.
    pub(super) metadata: &'a ApiClient,
    pub(super) clock: &'a Clock,
    pub(super) namespace: &'a str,
    /// When the deletion of the namespace began.
    pub(super) deleted: Timestamp,
}

impl Removal<'_> {
    /// Deletes everything of one type. What is left is known also when something about it is wrong.
    pub(super) async fn remove(&self, served: &ServedResource) -> (Remains, Result<(), RemovalError>) {
        let nothing = |estimate| Remains { estimate, ..Remains::default() };
        let estimate = match self.estimate(served).await {
            Ok(estimate) => estimate,
            Err(error) => return (nothing(0), Err(error)),
        };
        if let Err(error) = self.delete_all(served).await {
            return (nothing(estimate), Err(error));
        }
        match self.count(served).await {
            Ok(Some(counted)) => {
                let (remains, verdict) = content::judge(counted, estimate);
                let unexpected = |_| RemovalError::Unexpected { namespace: self.namespace.to_owned(), gvr: content::gvr(served) };
                (remains, verdict.map_err(unexpected))
            }
            Ok(None) => (nothing(estimate), Ok(())),
            Err(error) => (nothing(estimate), Err(error)),
        }
    }

    /// Seconds until content of this type is probably gone.
    async fn estimate(&self, served: &ServedResource) -> Result<i64, RemovalError> {
        if served.resource != resource::PODS {
            return Ok(0);
        }
        let mut longest = 0;
        let mut pages = Pages::new(self.client, &served.resource, self.namespace);
        while let Some(pods) = pages.next::<PodItem>().await? {
            longest = longest.max(content::longest_grace(&pods));
        }
        Ok(content::grace_estimate(longest, self.deleted, self.clock.now()))
    }

    async fn delete_all(&self, served: &ServedResource) -> Result<(), RemovalError> {
        if served.allows("deletecollection") {
            match self.metadata.delete(collection(&served.resource, self.namespace), &options()).await {
                Ok(_) => return Ok(()),
                Err(error) => {
                    let error = RemovalError::from(error);
                    if !error.is_unsupported() {
                        return Err(error);
                    }
                }
            }
        }
        self.delete_each(served).await
    }

    async fn delete_each(&self, served: &ServedResource) -> Result<(), RemovalError> {
        if !served.allows("list") {
            return Ok(());
        }
        let mut pages = Pages::new(self.metadata, &served.resource, self.namespace);
        loop {
            let items = match pages.next::<Item>().await {
                Ok(Some(items)) => items,
                Ok(None) => return Ok(()),
                Err(error) if error.is_unsupported() => return Ok(()),
                Err(error) => return Err(error),
            };
            for item in items {
                let target = Target { name: Some(&item.metadata.name), ..collection(&served.resource, self.namespace) };
                match self.metadata.delete(target, &options()).await {
                    Err(error) if !error.is_not_found() && !error.is_method_not_allowed() => return Err(error.into()),
                    _ => {}
                }
            }
        }
    }

    /// What is there now; `None` when that cannot be found out because the type knows no lists.
    async fn count(&self, served: &ServedResource) -> Result<Option<Remains>, RemovalError> {
        if !served.allows("list") {
            return Ok(None);
        }
        let mut remains = Remains::default();
        let mut pages = Pages::new(self.metadata, &served.resource, self.namespace);
        loop {
            match pages.next::<Item>().await {
                Ok(Some(items)) => remains.count(&items),
                Ok(None) => return Ok(Some(remains)),
                Err(error) if error.is_unsupported() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

fn options() -> Value {
    json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
}

fn collection<'a>(resource: &'a ResourceType, namespace: &'a str) -> Target<'a> {
    Target { resource, namespace: Some(namespace), name: None, subresource: None }
}

/// A consistent list, page by page.
struct Pages<'a> {
    client: &'a ApiClient,
    resource: &'a ResourceType,
    namespace: &'a str,
    /// The query for the next page; `None` after the last.
    query: Option<String>,
}

impl<'a> Pages<'a> {
    fn new(client: &'a ApiClient, resource: &'a ResourceType, namespace: &'a str) -> Self {
        Self { client, resource, namespace, query: Some(PAGE.to_owned()) }
    }

    /// The items of the next page; `None` when there is none.
    async fn next<T: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<Vec<T>>, RemovalError> {
        let Some(query) = self.query.take() else { return Ok(None) };
        let body = self.client.list(collection(self.resource, self.namespace), &query).await?;
        let decode = |source| RemovalError::Decode { resource: self.resource.clone(), source };
        let Page { metadata, items } = serde_json::from_slice(&body).map_err(decode)?;
        if !metadata.next.is_empty() {
            self.query = Some(format!("{PAGE}&continue={}", escaped(&metadata.next)));
        }
        Ok(Some(items))
    }
}

/// `token` as a value of a query.
fn escaped(token: &str) -> String {
    let mut text = String::with_capacity(token.len());
    for byte in token.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
