//! Unseen dependents: dependents that the caches of a new leader lack.
//!
//! The caches of a new leader may be older than writes of the previous leader. An owner must keep
//! its finalizer while the graph lacks a dependent of it:
//!
//! * With foreground deletion, the owner would disappear before that dependent.
//! * With orphaning, that dependent would keep its reference and be deleted later.
//!
//! Each type must therefore reach the resource version at which this leadership term began. Before
//! that, the collector lists the type in the namespace of the owner, at the latest version, before
//! it removes a finalizer. Upstream trusts its caches here.
//!
//! Three cases are not covered:
//!
//! * Types that never synced: one unreadable type would block all deletions.
//! * Leadership without a Lease: the resource version of its start is unknown.
//! * Types that fail to be listed for [`LIST_LIMIT`]: collection continues, as upstream's does.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use steersman_client::live::{PageError, Pages};
use steersman_client::{ApiClient, Category};
use steersman_objects::Uid;
use steersman_runtime::informer::MetadataInformer;
use steersman_values::intern::Sym;
use steersman_values::resource::ResourceType;
use tokio::time::Instant;

/// Time after the start of the leadership term during which owners wait for a type that cannot be
/// listed. The caches of all other types are current by then, because bookmarks arrive every
/// minute. Without a limit, a broken type would block all foreground deletions of its namespace.
const LIST_LIMIT: Duration = Duration::from_secs(120);

/// The watched types, and how far their caches are.
pub(super) struct Watched {
    /// The monitors add and remove them.
    informers: Mutex<HashMap<ResourceType, MetadataInformer>>,
    complete: Mutex<Complete>,
    /// Resource version at which this leadership term began.
    term_start_rv: u64,
    /// Time at which this leadership term began.
    term_start: Instant,
}

/// Lists after which the graph needs no further check.
#[derive(Default)]
struct Complete {
    /// Types and namespaces (empty for all) for which the graph had every reference of a list.
    lists: HashSet<(ResourceType, Sym)>,
    /// Number of rewinds. A list that started before a rewind must not be added to `lists`.
    rewinds: u64,
}

/// A reference from `dependent` to `owner`, as a live list shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference<'a> {
    /// UID of the object with the reference.
    pub(super) dependent: &'a Uid,
    /// UID in the reference.
    pub(super) owner: &'a Uid,
    /// `blockOwnerDeletion`.
    pub(super) blocks: bool,
}

impl Watched {
    /// No types yet. `term_start_rv` is the resource version at which this leadership term begins.
    pub(super) fn new(term_start_rv: u64) -> Self {
        Self {
            informers: Mutex::default(),
            complete: Mutex::default(),
            term_start_rv,
            term_start: Instant::now(),
        }
    }

    /// The informers of all watched types.
    pub(super) fn informers(&self) -> MutexGuard<'_, HashMap<ResourceType, MetadataInformer>> {
        self.informers.lock()
    }

    /// Discards all complete lists, because the server's resource versions went back.
    pub(super) fn rewound(&self) {
        let mut complete = self.complete();
        complete.lists.clear();
        complete.rewinds += 1;
    }

    fn complete(&self) -> MutexGuard<'_, Complete> {
        self.complete.lock()
    }

    /// Whether a synced informer has not reached the start of the leadership term. Only types that
    /// have synced once count; see the module.
    fn is_behind(&self, informer: &MetadataInformer) -> bool {
        informer.is_synced() && informer.observed_version() < self.term_start_rv
    }

    /// The types of which the graph may lack dependents in this namespace, or in all namespaces if
    /// it is empty.
    fn types_behind(&self, namespace: &Sym) -> Vec<ResourceType> {
        let informers = self.informers();
        let behind: Vec<&ResourceType> = informers
            .iter()
            .filter(|(_, informer)| self.is_behind(informer))
            .map(|(resource, _)| resource)
            .collect();
        let mut complete = self.complete();
        // Caches only move forward, so the lists are needed no longer.
        if behind.is_empty() {
            complete.lists = HashSet::new();
        }
        let is_complete = |of: &ResourceType| {
            [namespace.clone(), Sym::new("")]
                .into_iter()
                .any(|namespace| complete.lists.contains(&(of.clone(), namespace)))
        };
        // Cluster-scoped objects cannot depend on an owner in a namespace.
        let may_depend = behind
            .into_iter()
            .filter(|resource| namespace.is_empty() || resource.namespaced);
        may_depend
            .filter(|resource| !is_complete(resource))
            .cloned()
            .collect()
    }

    /// Whether the API server has a dependent of `owner` that `knows` does not report. `namespace`
    /// is that of the owner.
    ///
    /// The caller must read the graph after this call, because dependents may arrive during it.
    pub(super) async fn lacks_dependents(
        &self,
        client: &ApiClient,
        namespace: &Sym,
        owner: &Uid,
        knows: impl Fn(Reference<'_>) -> bool,
    ) -> Result<bool, PageError> {
        for resource in self.types_behind(namespace) {
            // The informer may have caught up during the lists of other types.
            let still_behind = self
                .informers()
                .get(&resource)
                .is_some_and(|informer| self.is_behind(informer));
            if !still_behind {
                continue;
            }
            match self
                .lacks_dependents_of_type(client, &resource, namespace, owner, &knows)
                .await
            {
                Ok(false) => {}
                // The type was removed, or it lacks the verb `list`.
                Err(error) if error.is_unsupported() => {}
                Err(error) if self.term_start.elapsed() > LIST_LIMIT => {
                    let category = Category::of(&error).as_str();
                    tracing::warn!(%resource, category, %error, "dependents of this type may be unknown, and it cannot be listed");
                }
                answer => return answer,
            }
        }
        Ok(false)
    }

    /// The same for one type. It records the list as complete if the graph has all references.
    async fn lacks_dependents_of_type(
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
                    // The graph lacks a reference to another owner, so this list does not help the
                    // next check.
                    is_complete = false;
                }
            }
        }
        let mut complete = self.complete();
        // A complete list answers for all owners of the namespace, which saves one list per owner.
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
