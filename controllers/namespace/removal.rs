//! Removes the objects of one type from one namespace: estimate the time, delete, list the rest.
//!
//! After a successful deletion, an object may stay for its grace period or finalizers, so only the
//! last list proves that the type is empty. Upstream:
//! `deleteAllContentForGroupVersionResource` in `deletion/namespaced_resources_deleter.go`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_client::discovery::ServedResource;
use steersman_client::live::{PageError, Pages};
use steersman_client::{ApiClient, ApiError, Decision, Target};
use steersman_values::clock::Clock;
use steersman_values::resource::{self, ResourceType};

use super::content::{self, Item, PodItem, Remains};

/// Time for the deletion of one collection.
///
/// Thousands of pods take longer than other requests, and a cancelled request would start again
/// from the first pod. The API server itself ends the request after its `--request-timeout`, by
/// default a minute. This limit, which upstream lacks, applies to a server that never answers.
const COLLECTION_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The decision to try again, because objects remain without finalizers after their grace period.
pub const CONTENT_REMAINS: Decision = Decision("content_remains");

/// The reason why objects of one type were not removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemovalError {
    /// A deletion failed.
    #[error("{0}")]
    Request(#[from] ApiError),
    /// A list failed.
    #[error("{0}")]
    List(#[from] PageError),
    /// Objects remain without finalizers, after their grace period. The text is upstream's.
    #[error("unexpected items still remain in namespace: {namespace} for gvr: {gvr}")]
    Unexpected {
        namespace: String,
        gvr: String,
        #[source]
        decision: Decision,
    },
}

impl RemovalError {
    /// Whether leadership has ended, so that no write is sent any more.
    pub(super) fn is_fenced(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_fenced())
    }

    /// Whether the type lacks the verb (405), or is no longer served (404). Then its objects are
    /// gone, or the caller tries another verb. Upstream treats both statuses alike, because of
    /// types that discovery lists without any verb (kubernetes/kubernetes#22413).
    fn is_unsupported(&self) -> bool {
        match self {
            Self::Request(error) => error.is_method_not_allowed() || error.is_not_found(),
            Self::List(error) => error.is_unsupported(),
            Self::Unexpected { .. } => false,
        }
    }
}

/// Removes the content of one namespace, one type per call.
pub(super) struct Removal<'a> {
    /// Lists pods with their spec, which has the grace period.
    pub(super) client: &'a ApiClient,
    /// Sends all other requests, answered with metadata only.
    pub(super) metadata: &'a ApiClient,
    /// The time for the estimate.
    pub(super) clock: &'a Clock,
    /// Name of the namespace.
    pub(super) namespace: &'a str,
    /// The deletion timestamp of the namespace.
    pub(super) deleted: Timestamp,
}

impl Removal<'_> {
    /// Deletes all objects of one type. Returns the remaining objects, also together with an error.
    ///
    /// A failed estimate ends the removal, as in upstream:
    /// `deleteAllContentForGroupVersionResource`.
    pub(super) async fn remove(
        &self,
        served: &ServedResource,
    ) -> (Remains, Result<(), RemovalError>) {
        let nothing = |estimate| Remains {
            estimate,
            ..Remains::default()
        };
        // Before the deletion, because pods may disappear at once and with them their grace period.
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
                let unexpected = |_| RemovalError::Unexpected {
                    namespace: self.namespace.to_owned(),
                    gvr: content::gvr(served),
                    decision: CONTENT_REMAINS,
                };
                (remains, verdict.map_err(unexpected))
            }
            // A wait needs a list of the objects.
            Ok(None) => (nothing(estimate), Ok(())),
            Err(error) => (nothing(estimate), Err(error)),
        }
    }

    /// Estimated seconds until the objects of this type are gone. Only pods have a grace period.
    /// Upstream: `estimateGracefulTermination`.
    async fn estimate(&self, served: &ServedResource) -> Result<i64, RemovalError> {
        if served.resource != resource::PODS {
            return Ok(0);
        }
        let mut longest = 0;
        let mut pages = Pages::new(self.client, &served.resource, Some(self.namespace));
        while let Some(pods) = pages.next::<PodItem>().await? {
            longest = longest.max(content::longest_grace(&pods));
        }
        Ok(content::grace_estimate(
            longest,
            self.deleted,
            self.clock.now(),
        ))
    }

    /// Deletes the collection, or each object if the type does not support that. Upstream:
    /// `deleteCollection`, or else `deleteEachItem`.
    async fn delete_all(&self, served: &ServedResource) -> Result<(), RemovalError> {
        if served.allows("deletecollection") {
            let collection = collection(&served.resource, self.namespace);
            match self
                .metadata
                .delete_collection(collection, &options(), COLLECTION_TIMEOUT)
                .await
            {
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

    /// Deletes the listed objects one by one. This needs the verb `list`; other types are left out.
    async fn delete_each(&self, served: &ServedResource) -> Result<(), RemovalError> {
        if !served.allows("list") {
            return Ok(());
        }
        let mut pages = Pages::new(self.metadata, &served.resource, Some(self.namespace));
        loop {
            let items = match pages.next::<Item>().await {
                Ok(Some(items)) => items,
                Ok(None) => return Ok(()),
                Err(error) => {
                    let error = RemovalError::from(error);
                    return if error.is_unsupported() {
                        Ok(())
                    } else {
                        Err(error)
                    };
                }
            };
            for item in items {
                let target = Target {
                    name: Some(&item.metadata.name),
                    ..collection(&served.resource, self.namespace)
                };
                match self.metadata.delete(target, &options()).await {
                    Err(error) if !error.is_not_found() && !error.is_method_not_allowed() => {
                        return Err(error.into());
                    }
                    // Deleted, gone already, or of a type without this verb.
                    _ => {}
                }
            }
        }
    }

    /// Counts the objects that exist now; `None` if the type does not support lists. Upstream:
    /// `listCollection`.
    async fn count(&self, served: &ServedResource) -> Result<Option<Remains>, RemovalError> {
        if !served.allows("list") {
            return Ok(None);
        }
        let mut remains = Remains::default();
        let mut pages = Pages::new(self.metadata, &served.resource, Some(self.namespace));
        loop {
            match pages.next::<Item>().await {
                Ok(Some(items)) => remains.count(&items),
                Ok(None) => return Ok(Some(remains)),
                Err(error) => {
                    let error = RemovalError::from(error);
                    return if error.is_unsupported() {
                        Ok(None)
                    } else {
                        Err(error)
                    };
                }
            }
        }
    }
}

/// Background, so that the API server adds no finalizer for orphaning. All objects of the namespace
/// go anyway.
fn options() -> Value {
    json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
}

fn collection<'a>(resource: &'a ResourceType, namespace: &'a str) -> Target<'a> {
    Target {
        resource,
        namespace: Some(namespace),
        name: None,
        subresource: None,
    }
}
