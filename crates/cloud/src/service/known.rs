//! The Services that the controller has seen, and the nodes behind their load balancers.
//!
//! A Service without finalizer may vanish before its load balancer. So the last seen object stays
//! here until the load balancer is deleted. Upstream: `serviceCache` and `lastSyncedNodes`.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use parking_lot::{Mutex, MutexGuard};
use steersman_objects::ObjectKey;

use crate::served::Served;

#[derive(Default)]
pub(super) struct Known(Mutex<HashMap<ObjectKey, Entry>>);

struct Entry {
    service: Arc<Served<Service>>,
    /// The nodes of the last call of the provider, also of a failed one; `None` before the first.
    nodes: Option<Vec<Arc<Node>>>,
}

impl Known {
    fn entries(&self) -> MutexGuard<'_, HashMap<ObjectKey, Entry>> {
        self.0.lock()
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Served<Service>>> {
        self.entries()
            .get(key)
            .map(|entry| Arc::clone(&entry.service))
    }

    pub(super) fn all(&self) -> Vec<(ObjectKey, Arc<Served<Service>>)> {
        let entries = self.entries();
        let pair = |(key, entry): (&ObjectKey, &Entry)| (key.clone(), Arc::clone(&entry.service));
        entries.iter().map(pair).collect()
    }

    /// Remembers the object. The nodes of the key stay.
    pub(super) fn remember(&self, key: &ObjectKey, service: &Arc<Served<Service>>) {
        let mut entries = self.entries();
        let service = Arc::clone(service);
        match entries.get_mut(key) {
            Some(entry) => entry.service = service,
            None => {
                let nodes = None;
                entries.insert(key.clone(), Entry { service, nodes });
            }
        }
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.entries().remove(key);
    }

    /// Remembers the nodes with which the load balancer is ensured now.
    pub(super) fn set_nodes(&self, key: &ObjectKey, nodes: &[Arc<Node>]) {
        if let Some(entry) = self.entries().get_mut(key) {
            entry.nodes = Some(nodes.to_vec());
        }
    }

    /// Remembers the nodes of an update, and returns those of the last call. `None` before the
    /// first one: the load balancer gets its nodes when it is ensured.
    pub(super) fn swap_nodes(
        &self,
        key: &ObjectKey,
        nodes: &[Arc<Node>],
    ) -> Option<Vec<Arc<Node>>> {
        let mut entries = self.entries();
        let last = entries.get_mut(key)?.nodes.as_mut()?;
        Some(std::mem::replace(last, nodes.to_vec()))
    }
}
