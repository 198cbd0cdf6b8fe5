//! The slices that this process wrote last, so that the watch events of own writes enqueue nothing.
//!
//! [`steersman_runtime::consistency`] waits for the cache. This record only tells own events from
//! foreign ones, and remembers deletions until the cache shows them.
//! Upstream: `EndpointSliceTracker` of `k8s.io/endpointslice/util`, which compares generations. Here
//! resource versions are compared, so a foreign annotation leads to a sync without a write.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use steersman_objects::{EndpointSlice, ObjectKey, Uid};
use steersman_runtime::consistency::Memory;
use steersman_values::sync::{Mutex, MutexGuard};

/// Written and deleted slices by the key of their Service.
#[derive(Default)]
pub struct WrittenSlices(Mutex<HashMap<ObjectKey, HashMap<Uid, Written>>>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    /// The last own write gave the slice this resource version.
    Version(u64),
    /// The API server has accepted the deletion of the slice.
    Deleted,
}

impl WrittenSlices {
    /// Records that a write for `service` gave the slice with `uid` this resource version.
    pub fn wrote(&self, service: &ObjectKey, uid: Uid, version: u64) {
        self.record(service, uid, Written::Version(version));
    }

    /// Records that a slice of `service` was deleted.
    pub fn deleted(&self, service: &ObjectKey, slice: &EndpointSlice) {
        self.record(service, slice.meta.uid.clone(), Written::Deleted);
    }

    /// Whether the cached state of `slice` comes from the last own write, or from before it.
    pub fn is_own(&self, service: &ObjectKey, slice: &EndpointSlice) -> bool {
        match self.written(service, slice) {
            Some(Written::Version(version)) => slice.meta.resource_version <= version,
            Some(Written::Deleted) | None => false,
        }
    }

    /// Handles the event of the deletion of `slice`. Returns whether this process deleted it.
    pub fn take_deletion(&self, service: &ObjectKey, slice: &EndpointSlice) -> bool {
        let mut all = self.all();
        let Some(slices) = all.get_mut(service) else {
            return false;
        };
        let written = slices.remove(&slice.meta.uid);
        if slices.is_empty() {
            all.remove(service);
        }
        written == Some(Written::Deleted)
    }

    /// `cached`, the slices of `service` in the cache, without those that this process deleted.
    /// Drops the records of slices that the cache lacks.
    pub fn existing(
        &self,
        service: &ObjectKey,
        mut cached: Vec<Arc<EndpointSlice>>,
    ) -> Vec<Arc<EndpointSlice>> {
        let mut all = self.all();
        if let Some(slices) = all.get_mut(service) {
            let known: HashSet<&Uid> = cached.iter().map(|slice| &slice.meta.uid).collect();
            slices.retain(|uid, _| known.contains(uid));
            cached.retain(|slice| slices.get(&slice.meta.uid) != Some(&Written::Deleted));
            if slices.is_empty() {
                all.remove(service);
            }
        }
        cached
    }

    fn written(&self, service: &ObjectKey, slice: &EndpointSlice) -> Option<Written> {
        self.all().get(service)?.get(&slice.meta.uid).copied()
    }

    fn record(&self, service: &ObjectKey, uid: Uid, written: Written) {
        self.all()
            .entry(service.clone())
            .or_default()
            .insert(uid, written);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, HashMap<Uid, Written>>> {
        self.0.lock()
    }
}

impl Memory for WrittenSlices {
    fn forget(&self, owner: &ObjectKey) {
        self.all().remove(owner);
    }

    fn history_went_back(&self) {
        self.all().clear();
    }
}
