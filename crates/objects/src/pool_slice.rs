//! A ResourceSlice with the taints, counters and capacities of its devices. Upstream: `k8s.io/api/resource/v1`.

use std::collections::BTreeMap;

use serde::Deserialize;
use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;
use steersman_values::resource::RESOURCE_SLICES;

use super::wire::nullable;
use super::{Parsed, ResourcePool};
use crate::view;

/// Amounts by name.
pub type Amounts = BTreeMap<Sym, Amount>;

view! {
    /// A ResourceSlice with taints, counters and capacities. The view of most controllers lacks them.
    pub struct PoolSlice: RESOURCE_SLICES {
        /// `spec`.
        pub spec: PoolSliceSpec,
    }

    /// `spec` of a ResourceSlice.
    pub struct PoolSliceSpec {
        /// Name of the driver.
        pub driver: Sym,
        /// The pool.
        pub pool: ResourcePool,
        /// The node of the devices, if they are local to one.
        pub node_name: Option<Sym>,
        /// The attribute whose values group the partitions of devices.
        pub partition_type_attribute: Option<Sym>,
        /// Counters that partitions of a device share.
        pub shared_counters: Vec<CounterSet>,
        /// The devices.
        pub devices: Vec<PoolDevice>,
    }

    /// Counters that several devices use up.
    pub struct CounterSet {
        /// Name in the pool.
        pub name: Sym,
        /// The counters.
        pub counters: Amounts,
    }

    /// A device of a pool.
    pub struct PoolDevice {
        /// Name in the pool.
        pub name: Sym,
        /// Attributes by name.
        pub attributes: BTreeMap<Sym, TextAttribute>,
        /// Capacities by name.
        pub capacity: Amounts,
        /// The counters that its allocation uses up.
        pub consumes_counters: Vec<CounterConsumption>,
        /// Whether several claims can share the device.
        pub allow_multiple_allocations: bool,
        /// Taints.
        pub taints: Vec<TaintEffect>,
    }

    /// The use of a set of counters.
    pub struct CounterConsumption {
        /// Name of the set.
        pub counter_set: Sym,
        /// The amounts.
        pub counters: Amounts,
    }

    /// An attribute of a device.
    pub struct TextAttribute {
        /// The text; unset for attributes of another type.
        pub string: Option<Sym>,
    }

    /// A taint of a device.
    pub struct TaintEffect {
        /// `NoSchedule`, `NoExecute` or `None`.
        pub effect: Sym,
    }
}

/// An amount of a capacity or a counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Amount {
    /// The amount; unset if it is no quantity.
    #[serde(deserialize_with = "nullable")]
    pub value: Parsed<Quantity>,
}

impl Amount {
    /// The amount, which is zero if it is unset, as in Go.
    pub fn quantity(&self) -> Quantity {
        self.value.0.unwrap_or_else(|| Quantity::whole(0))
    }
}

impl PoolDevice {
    /// Whether a taint keeps new pods from the device. Upstream: `hasUnavailableTaint`.
    pub fn is_tainted(&self) -> bool {
        let mut taints = self.taints.iter();
        taints.any(|taint| repels(&taint.effect))
    }
}

/// Whether a taint with this effect keeps new pods from a device.
pub(crate) fn repels(effect: &Sym) -> bool {
    *effect == *"NoSchedule" || *effect == *"NoExecute"
}
