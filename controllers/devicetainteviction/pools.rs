//! The tainted devices of all pools, by the slices that drivers publish.
//!
//! A driver replaces the slices of a pool one by one. The slices of the newest generation count,
//! also while some of them are missing.
//!
//! Upstream: `pool` and `handleSliceChange` in `device_taint_eviction.go`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use steersman_objects::{AllocatedDevice, DeviceTaint, DeviceTaintRule, ResourceSlice};
use steersman_values::intern::Sym;

use super::rules;

/// A pool: the name of a driver, and the name of its pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PoolId {
    pub(super) driver: Sym,
    pub(super) name: Sym,
}

impl PoolId {
    /// The pool of an allocated device.
    pub(super) fn of(device: &AllocatedDevice) -> Self {
        Self {
            driver: device.driver.clone(),
            name: device.pool.clone(),
        }
    }

    fn of_slice(slice: &ResourceSlice) -> Self {
        Self {
            driver: slice.spec.driver.clone(),
            name: slice.spec.pool.name.clone(),
        }
    }
}

/// The slices of all pools.
#[derive(Debug, Default)]
pub(super) struct Pools(HashMap<PoolId, Pool>);

/// The slices of one pool by name.
#[derive(Debug, Default)]
struct Pool(BTreeMap<Arc<str>, Arc<ResourceSlice>>);

/// Devices of a pool with their taints.
///
/// Only devices with NoExecute taints are in it.
type Tainted = BTreeMap<Sym, Vec<DeviceTaint>>;

/// Devices whose taints have changed.
///
/// Upstream: `modifiedDevices`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pool: PoolId,
    devices: BTreeSet<Sym>,
}

impl Changed {
    /// Whether no device has other taints.
    pub(super) fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Whether `device` is one of them.
    pub(super) fn includes(&self, device: &AllocatedDevice) -> bool {
        device.driver == self.pool.driver
            && device.pool == self.pool.name
            && self.devices.contains(&device.device)
    }
}

impl Pools {
    /// Stores a new or changed slice. Returns the devices with other taints than before.
    pub(super) fn set(&mut self, slice: &Arc<ResourceSlice>) -> Changed {
        self.change(PoolId::of_slice(slice), |pool| {
            pool.0
                .insert(Arc::clone(&slice.meta.name), Arc::clone(slice));
        })
    }

    /// Removes a slice. Returns the devices with other taints than before.
    pub(super) fn remove(&mut self, slice: &ResourceSlice) -> Changed {
        self.change(PoolId::of_slice(slice), |pool| {
            pool.0.remove(&slice.meta.name);
        })
    }

    /// Upstream: `handleSliceChange`, which compares sorted lists of taints. A map by device gives the
    /// same answer. An empty pool is dropped, since drivers come and go.
    fn change(&mut self, id: PoolId, apply: impl FnOnce(&mut Pool)) -> Changed {
        let pool = self.0.entry(id.clone()).or_default();
        let before = pool.tainted();
        apply(pool);
        let after = pool.tainted();
        if pool.0.is_empty() {
            self.0.remove(&id);
        }
        let names = before.keys().chain(after.keys());
        let changed = names.filter(|name| before.get(*name) != after.get(*name));
        Changed {
            pool: id,
            devices: changed.cloned().collect(),
        }
    }

    /// The taints of a device in the first current slice that shows it tainted.
    ///
    /// Empty for a device that no current slice shows. Its taints are unknown then, and it keeps its
    /// pods. Upstream: `getDevice`.
    pub(super) fn taints(&self, device: &AllocatedDevice) -> &[DeviceTaint] {
        let pool = self.0.get(&PoolId::of(device));
        let slices = pool.into_iter().flat_map(Pool::current);
        let mut devices = slices.flat_map(|slice| &slice.spec.devices.tainted);
        let found = devices.find(|found| found.name == device.device);
        found.map_or(&[], |found| &found.taints)
    }

    /// The number of devices in current slices that `rule` selects.
    ///
    /// Upstream: `countTaintedDevices`.
    pub(super) fn count_selected(&self, rule: &DeviceTaintRule) -> usize {
        let of_pool = |(id, pool): (&PoolId, &Pool)| {
            let names = pool.current().flat_map(|slice| &slice.spec.devices.names);
            let selected = names.filter(|name| rules::selects(rule, &id.driver, &id.name, name));
            selected.count()
        };
        self.0.iter().map(of_pool).sum()
    }

    /// The node to which the devices of `pool` are local, if there is one.
    ///
    /// The API defines `nodeName` as the node of the whole pool, so the first slice answers.
    pub(super) fn node(&self, pool: &PoolId) -> Option<&Sym> {
        self.0.get(pool)?.current().next()?.spec.node_name.as_ref()
    }

    /// The names of all slices.
    #[cfg(test)]
    pub(super) fn slices(&self) -> BTreeSet<&str> {
        let pools = self.0.values();
        pools
            .flat_map(|pool| pool.0.keys().map(|name| &**name))
            .collect()
    }
}

impl Pool {
    /// The slices of the newest generation, by name.
    ///
    /// A removed slice may make an older generation the newest again, as upstream.
    fn current(&self) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        let generation = |slice: &Arc<ResourceSlice>| slice.spec.pool.generation;
        let newest = self.0.values().map(generation).max();
        let slices = self.0.values();
        slices.filter(move |slice| Some(generation(slice)) == newest)
    }

    /// Upstream: `getTaintedDevices`.
    fn tainted(&self) -> Tainted {
        let mut tainted = Tainted::new();
        for device in self.current().flat_map(|slice| &slice.spec.devices.tainted) {
            let taints = tainted.entry(device.name.clone()).or_default();
            taints.extend_from_slice(&device.taints);
        }
        tainted
    }
}
