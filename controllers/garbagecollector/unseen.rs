//! Dependents that no cache shows: who begins to lead may do so with caches that lack what the leader before did.
//!
//! An owner that is let go while they are unknown is gone before those it was to wait for, and those that were to be orphaned are deleted
//! after it. So as long as the cache of a type has not reached the revision our leadership began with, owners are let go only after
//! a list of that type, of the latest state, in their namespace. Upstream trusts its caches here.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use steersman_runtime::client::ApiClient;
use steersman_runtime::informer::MetadataInformer;
use steersman_runtime::intern::Sym;
use steersman_runtime::live::{PageError, Pages};
use steersman_runtime::object::Uid;
use steersman_runtime::resource::ResourceType;

/// The types that are followed, and how far their caches are known to be complete.
#[derive(Default)]
pub(super) struct Followed {
    informers: Mutex<HashMap<ResourceType, MetadataInformer>>,
    /// Types and namespaces whose lists had nothing that the graph did not know.
    complete: Mutex<HashSet<(ResourceType, Sym)>>,
}

impl Followed {
    pub(super) fn informers(&self) -> MutexGuard<'_, HashMap<ResourceType, MetadataInformer>> {
        self.informers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No cache counts as complete any more: the server's history went back.
    pub(super) fn forget(&self) {
        self.complete().clear();
    }

    fn complete(&self) -> MutexGuard<'_, HashSet<(ResourceType, Sym)>> {
        self.complete.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The types of which dependents in this namespace, or anywhere when it is empty, may be unknown that were there at `since`. A type
    /// that never synced is none: nobody waits for what cannot be read.
    fn behind(&self, namespace: &Sym, since: u64) -> Vec<ResourceType> {
        let informers = self.informers();
        let late = informers.iter().filter(|(_, informer)| informer.is_synced() && informer.resource_version() < since);
        // Nobody outside of a namespace can refer to an owner in it.
        let may_depend = late.filter(|(resource, _)| namespace.is_empty() || resource.namespaced);
        let complete = self.complete();
        may_depend
            .map(|(resource, _)| resource.clone())
            .filter(|of| !complete.contains(&(of.clone(), namespace.clone())))
            .collect()
    }

    /// Whether the API server has a dependent of `owner`, which is in this namespace, that `knows` does not: it is asked for dependent
    /// and owner.
    pub(super) async fn lacks_dependents(
        &self,
        client: &ApiClient,
        namespace: &Sym,
        owner: &Uid,
        since: u64,
        knows: impl Fn(&Uid, &Uid) -> bool,
    ) -> Result<bool, PageError> {
        for resource in self.behind(namespace, since) {
            let mut is_complete = true;
            let inside = Some(&**namespace).filter(|namespace| !namespace.is_empty());
            let mut pages = Pages::new(client, &resource, inside);
            while let Some(items) = pages.next::<Item>().await? {
                for Metadata { uid, owner_references } in items.into_iter().map(|item| item.metadata) {
                    let owners = owner_references.unwrap_or_default().into_iter().map(|reference| Uid::new(&reference.uid));
                    let uid = Uid::new(&uid);
                    let unknown: Vec<Uid> = owners.filter(|owner| !knows(&uid, owner)).collect();
                    if unknown.contains(owner) {
                        return Ok(true);
                    }
                    is_complete &= unknown.is_empty();
                }
            }
            if is_complete {
                self.complete().insert((resource, namespace.clone()));
            }
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
    owner_references: Option<Vec<Reference>>,
}

#[derive(Deserialize)]
struct Reference {
    uid: String,
}
