//! The Services with pods on nodes that the cache lacks.
//!
//! A sync leaves such pods out, and its retries come later and later. Here the node's arrival
//! enqueues the Service. Upstream only retries, 15 times in a row.

use std::collections::{HashMap, HashSet};

use parking_lot::{Mutex, MutexGuard};

use steersman_objects::ObjectKey;
use steersman_runtime::consistency::Memory;
use steersman_values::intern::Sym;

/// Services by the names of the nodes that they miss.
#[derive(Default)]
pub(super) struct MissingNodes(Mutex<HashMap<Sym, HashSet<ObjectKey>>>);

impl MissingNodes {
    /// Records that a sync of `service` did not find `node`. The record stays if a later sync finds
    /// no such pod. The only cost is one needless sync when the node arrives.
    pub(super) fn add(&self, service: &ObjectKey, node: &Sym) {
        let mut services = self.lock();
        services
            .entry(node.clone())
            .or_default()
            .insert(service.clone());
    }

    /// Removes and returns the Services that miss `node`.
    pub(super) fn take(&self, node: &str) -> HashSet<ObjectKey> {
        self.lock().remove(node).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Sym, HashSet<ObjectKey>>> {
        self.0.lock()
    }
}

impl Memory for MissingNodes {
    fn forget(&self, service: &ObjectKey) {
        self.lock().retain(|_, services| {
            services.remove(service);
            !services.is_empty()
        });
    }

    /// Nodes of the former history may still arrive.
    fn history_went_back(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrival_of_a_node_returns_the_services_that_miss_it_once() {
        let missing = MissingNodes::default();
        let [web, db] = ["web", "db"].map(|name| ObjectKey::new("ns", name));
        let [one, two] = ["one", "two"].map(Sym::new);
        for (service, node) in [(&web, &one), (&web, &one), (&web, &two), (&db, &two)] {
            missing.add(service, node);
        }
        assert_eq!(missing.take("one"), HashSet::from([web.clone()]));
        assert_eq!(missing.take("one"), HashSet::new());
        missing.forget(&web);
        assert_eq!(missing.take("two"), HashSet::from([db]));
    }
}
