//! Dependents that no cache shows: who begins to lead may do so with caches that lack what the
//! leader before did.
//!
//! An owner that is let go while they are unknown is gone before those it was to wait for, and
//! those that were to be orphaned are deleted after it. So as long as the graph has not heard of
//! all of a type up to the revision our leadership began with, owners are let go only after a list
//! of that type, of the latest state, in their namespace. Upstream trusts its caches here.
//!
//! Not covered are types that never synced, as nobody waits for what cannot be read; leadership
//! without a Lease, which begins at no known revision; and types that cannot be listed for long:
//! collection goes on then, as it does upstream.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use steersman_runtime::client::ApiClient;
use steersman_runtime::informer::MetadataInformer;
use steersman_runtime::intern::Sym;
use steersman_runtime::live::{PageError, Pages};
use steersman_runtime::object::Uid;
use steersman_runtime::resource::ResourceType;
use tokio::time::Instant;

/// How long after our leadership began owners wait for a type that cannot be listed. The caches of
/// all others are up to date by then: bookmarks come every minute.
const PATIENCE: Duration = Duration::from_secs(120);

/// The types that are followed, and how far.
pub(super) struct Watched {
    informers: Mutex<HashMap<ResourceType, MetadataInformer>>,
    complete: Mutex<Complete>,
    /// The revision our leadership began with, and when it did.
    since: u64,
    begun: Instant,
}

/// Types and namespaces (empty for all) whose lists had nothing that the graph did not know.
#[derive(Default)]
struct Complete {
    lists: HashSet<(ResourceType, Sym)>,
    /// How often everything was forgotten.
    rewinds: u64,
}

/// A reference to `owner` that the API server has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference<'a> {
    pub(super) dependent: &'a Uid,
    pub(super) owner: &'a Uid,
    pub(super) blocks: bool,
}

impl Watched {
    /// Nothing yet; `since` is the revision our leadership begins with.
    pub(super) fn new(since: u64) -> Self {
        Self {
            informers: Mutex::default(),
            complete: Mutex::default(),
            since,
            begun: Instant::now(),
        }
    }

    pub(super) fn informers(&self) -> MutexGuard<'_, HashMap<ResourceType, MetadataInformer>> {
        self.informers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// No list counts as complete any more: the server's history went back.
    pub(super) fn rewound(&self) {
        let mut complete = self.complete();
        complete.lists.clear();
        complete.rewinds += 1;
    }

    fn complete(&self) -> MutexGuard<'_, Complete> {
        self.complete.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_late(&self, informer: &MetadataInformer) -> bool {
        informer.is_synced() && informer.told_version() < self.since
    }

    /// The types of which the graph may lack objects in this namespace, or anywhere when it is
    /// empty, that were there when we began.
    fn late_types(&self, namespace: &Sym) -> Vec<ResourceType> {
        let informers = self.informers();
        let late: Vec<&ResourceType> = informers
            .iter()
            .filter(|(_, informer)| self.is_late(informer))
            .map(|(resource, _)| resource)
            .collect();
        let mut complete = self.complete();
        if late.is_empty() {
            complete.lists = HashSet::new();
        }
        let is_complete = |of: &ResourceType| {
            [namespace.clone(), Sym::new("")]
                .into_iter()
                .any(|namespace| complete.lists.contains(&(of.clone(), namespace)))
        };
        // Nobody outside of a namespace can refer to an owner in it.
        let may_depend = late
            .into_iter()
            .filter(|resource| namespace.is_empty() || resource.namespaced);
        may_depend
            .filter(|resource| !is_complete(resource))
            .cloned()
            .collect()
    }

    /// Whether the API server has a dependent of `owner`, which is in this namespace, that `knows`
    /// does not. What it knows must be read after this: it may have come meanwhile.
    pub(super) async fn lacks_dependents(
        &self,
        client: &ApiClient,
        namespace: &Sym,
        owner: &Uid,
        knows: impl Fn(Reference<'_>) -> bool,
    ) -> Result<bool, PageError> {
        for resource in self.late_types(namespace) {
            let still_late = self
                .informers()
                .get(&resource)
                .is_some_and(|informer| self.is_late(informer));
            if !still_late {
                continue;
            }
            match self
                .lacks_of_type(client, &resource, namespace, owner, &knows)
                .await
            {
                Ok(false) => {}
                // The type is gone, or none of its objects can be asked for.
                Err(error) if error.is_unsupported() => {}
                Err(error) if self.begun.elapsed() > PATIENCE => {
                    tracing::warn!(%resource, %error, "dependents of this type may be unknown, and it cannot be listed");
                }
                answer => return answer,
            }
        }
        Ok(false)
    }

    async fn lacks_of_type(
        &self,
        client: &ApiClient,
        resource: &ResourceType,
        namespace: &Sym,
        owner: &Uid,
        knows: &impl Fn(Reference<'_>) -> bool,
    ) -> Result<bool, PageError> {
        let rewinds = self.complete().rewinds;
        let mut is_complete = true;
        let inside = Some(&**namespace).filter(|namespace| !namespace.is_empty());
        let mut pages = Pages::new(client, resource, inside);
        while let Some(items) = pages.next::<Item>().await? {
            for Metadata {
                uid,
                owner_references,
            } in items.into_iter().map(|item| item.metadata)
            {
                let dependent = Uid::new(&uid);
                for OwnerReference {
                    uid,
                    block_owner_deletion,
                } in owner_references.unwrap_or_default()
                {
                    let to = Uid::new(&uid);
                    let reference = Reference {
                        dependent: &dependent,
                        owner: &to,
                        blocks: block_owner_deletion == Some(true),
                    };
                    if knows(reference) {
                        continue;
                    }
                    if to == *owner {
                        return Ok(true);
                    }
                    is_complete = false;
                }
            }
        }
        let mut complete = self.complete();
        if is_complete && complete.rewinds == rewinds {
            complete.lists.insert((resource.clone(), namespace.clone()));
        }
        Ok(false)
    }
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    uid: String,
    block_owner_deletion: Option<bool>,
}
