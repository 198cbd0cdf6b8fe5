//! Pods with claims, as the API server lists them.
//!
//! A namespace may have thousands of pods, and thousands of its claims may be deleted at once. So
//! queued claims share a list. A list that is younger than the deletion of a claim shows each pod
//! that got its node before: the scheduler binds no pod with a deleted claim. If a shared list shows
//! a user, the user may be gone, and the caller lists again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use steersman_client::ApiClient;
use steersman_client::live::Live;
use steersman_objects::{PersistentVolumeClaim, Pod};
use steersman_values::intern::Sym;

use super::super::{SyncError, list};
use super::usage::Usage;

/// The last list of each namespace with queued claims.
///
/// Upstream: `LazyLivePodList`, which serves one batch of claims of a namespace.
pub(super) struct LivePods {
    client: ApiClient,
    /// By namespace. Each list has only the pods with volumes; the others cannot use a claim.
    lists: Mutex<HashMap<Sym, Arc<Live<Pod>>>>,
}

impl LivePods {
    pub(super) fn new(client: ApiClient) -> Self {
        let lists = Mutex::default();
        Self { client, lists }
    }

    /// Whether a pod of the API server uses `claim`.
    ///
    /// Upstream: `askAPIServer`. A "no" from a shared list is final only if the list is as new as the
    /// claim's last change. A "yes" is confirmed by a list of its own.
    pub(super) async fn any(
        &self,
        claim: &PersistentVolumeClaim,
        usage: Usage,
    ) -> Result<bool, SyncError> {
        let namespace = &claim.meta.namespace;
        let is_used = |pods: &Live<Pod>| pods.objects.iter().any(|pod| usage(pod, claim));
        let known = self.lists().get(namespace).cloned();
        let younger = known.filter(|pods| pods.version >= claim.meta.resource_version);
        if younger.is_some_and(|pods| !is_used(&pods)) {
            return Ok(false);
        }
        let pods = list(&self.client, namespace, |pod: &Pod| !pod.volumes.is_empty()).await?;
        let is_used = is_used(&pods);
        // The new list serves the claims that wait behind this one.
        self.lists().insert(namespace.clone(), Arc::new(pods));
        Ok(is_used)
    }

    /// Drops all lists.
    ///
    /// Lists of a large namespace take memory, so they live only as long as claims are queued.
    pub(super) fn forget(&self) {
        self.lists().clear();
    }

    fn lists(&self) -> MutexGuard<'_, HashMap<Sym, Arc<Live<Pod>>>> {
        self.lists.lock()
    }
}
