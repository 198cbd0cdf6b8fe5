//! The answer to a request: the devices of each pool, and how many of them are allocated.
//!
//! Slices of older generations are outdated. A pool whose driver has yet to publish some slices has
//! no answer. Upstream: `calculatePoolStatus`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use steersman_objects::{DeviceTaintRule, PoolSlice, ResourceClaim, ResourcePoolStatusRequestSpec};
use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;

use super::views::{PartitionType, Pool, Shareable};

/// The most pools in an answer. Upstream: `ResourcePoolStatusRequestLimitDefault`.
///
/// The constant is in `k8s.io/api/resource/v1alpha3`. A request may ask for another limit.
const DEFAULT_LIMIT: i32 = 100;

/// How devices are counted.
#[derive(Clone, Copy)]
pub(super) enum Accounting<'a> {
    /// Each result of an allocation counts. The rule of 1.36.
    Results,
    /// Each device counts once, and the taints of slices and of these rules make devices unavailable. Since 1.37.
    Devices(&'a [Arc<DeviceTaintRule>]),
}

/// `status` of a ResourcePoolStatusRequest, as written.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    /// Number of all matching pools, also of those beyond the limit.
    pub(super) pool_count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) pools: Vec<PoolStatus>,
    /// Upstream also has `Failed`, for caches that cannot be listed. Such a failure does not exist
    /// here.
    conditions: [Complete; 1],
}

/// A pool with all its slices.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolStatus {
    driver: Sym,
    pub(super) pool_name: Sym,
    /// Set if all slices are of one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_name: Option<Sym>,
    /// The generation of the slices that count. A client compares it with a later answer.
    generation: i64,
    resource_slice_count: usize,
    pub(super) total_devices: usize,
    /// In 1.36, a device that several claims share counts more than once.
    pub(super) allocated_devices: usize,
    /// Never below 0: a claim may still name devices that the newest generation lacks. A tainted device in use is
    /// missing twice, as upstream.
    pub(super) available_devices: usize,
    /// Always 0 in 1.36, where taints have no influence.
    pub(super) unavailable_devices: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partition_summary: Vec<PartitionType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shareable_summary: Option<Shareable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) validation_error: Option<String>,
}

/// The condition of an answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Complete {
    #[serde(rename = "type")]
    kind: &'static str,
    status: &'static str,
    last_transition_time: Timestamp,
    reason: &'static str,
    message: String,
}

/// Some slices of a pool are missing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "incomplete pools detected, requeueing: pool {driver}/{pool} is incomplete: observed {observed}/{expected} slices at generation {generation}"
)]
pub(super) struct IncompletePool {
    driver: Sym,
    pool: Sym,
    observed: usize,
    expected: i64,
    generation: i64,
}

/// The answer to `request` at `now`.
///
/// Pools are ordered by name, and only those within the limit are shown and checked. An incomplete pool
/// beyond the limit therefore blocks no answer. Upstream puts the same order and limit before the check
/// in `syncRequest`.
pub(super) fn answer(
    request: &ResourcePoolStatusRequestSpec,
    slices: &[Arc<PoolSlice>],
    claims: &[Arc<ResourceClaim>],
    accounting: Accounting<'_>,
    now: Timestamp,
) -> Result<Answer, IncompletePool> {
    let pools = newest_slices(request, slices);
    let allocated = allocated_devices(&request.driver, claims);
    let nothing = Allocated::default();
    let limit = usize::try_from(request.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or_default();
    let shown = pools.iter().take(limit).map(|(name, slices)| {
        let allocated = allocated.get(name).unwrap_or(&nothing);
        let status = counted(slices, allocated);
        status.map(|status| match accounting {
            Accounting::Results => status,
            Accounting::Devices(rules) => {
                let default = request.default_partition_type_attribute.as_ref();
                status.accounted(slices, allocated, rules, default)
            }
        })
    });
    let shown: Vec<PoolStatus> = shown.collect::<Result<_, _>>()?;
    let invalid = shown
        .iter()
        .filter(|pool| pool.validation_error.is_some())
        .count();
    let suffix = match invalid {
        0 => String::new(),
        invalid => format!(" ({invalid} incomplete)"),
    };
    let message = format!("Calculated status for {} pools{suffix}", shown.len());
    Ok(Answer {
        pool_count: pools.len(),
        pools: shown,
        conditions: [Complete {
            kind: "Complete",
            status: "True",
            last_transition_time: now,
            reason: "CalculationComplete",
            message,
        }],
    })
}

/// The slices that `request` is about, of the highest generation of each pool.
///
/// An empty or absent pool name means all pools of the driver. Upstream makes two passes over the
/// slices; one is enough, as a higher generation discards the slices before it.
fn newest_slices<'a>(
    request: &ResourcePoolStatusRequestSpec,
    slices: &'a [Arc<PoolSlice>],
) -> BTreeMap<&'a str, Vec<&'a PoolSlice>> {
    let wanted = request.pool_name.as_deref().unwrap_or_default();
    let mut pools: BTreeMap<&str, Vec<&PoolSlice>> = BTreeMap::new();
    for slice in slices
        .iter()
        .filter(|slice| slice.spec.driver == request.driver)
    {
        let pool = &slice.spec.pool;
        if !wanted.is_empty() && pool.name != *wanted {
            continue;
        }
        let newest = pools.entry(&pool.name).or_default();
        let known = newest
            .first()
            .map_or(pool.generation, |one| one.spec.pool.generation);
        if pool.generation > known {
            newest.clear();
        }
        if pool.generation >= known {
            newest.push(slice);
        }
    }
    pools
}

/// The devices and capacity of a pool that claims use.
#[derive(Default)]
struct Allocated<'a> {
    /// Number of results of allocations.
    results: usize,
    /// The devices, without those that claims only observe.
    devices: HashSet<&'a str>,
    /// The capacity of these devices that claims use, by name.
    consumed: BTreeMap<&'a str, Quantity>,
}

/// The same for each pool of `driver`.
///
/// Claims in each namespace count, reserved or not. Results of other drivers are left out.
fn allocated_devices<'a>(
    driver: &Sym,
    claims: &'a [Arc<ResourceClaim>],
) -> HashMap<&'a str, Allocated<'a>> {
    let allocations = claims
        .iter()
        .filter_map(|claim| claim.status.allocation.as_ref());
    let devices = allocations.flat_map(|allocation| &allocation.devices.results);
    let mut pools: HashMap<&str, Allocated<'_>> = HashMap::new();
    for device in devices.filter(|device| device.driver == *driver) {
        let pool = pools.entry(&*device.pool).or_default();
        pool.results += 1;
        if device.admin_access {
            continue;
        }
        pool.devices.insert(&device.device);
        for (name, text) in &device.consumed_capacity {
            let amount = Quantity::parse(text).unwrap_or_else(|| Quantity::whole(0));
            let sum = pool
                .consumed
                .entry(name)
                .or_insert_with(|| Quantity::whole(0));
            *sum = sum.plus(amount);
        }
    }
    pools
}

/// The status of the pool with these slices, of which there is at least one, by the rule of 1.36.
///
/// Slices of a pool without a node name, or of several nodes, give no node name. More slices than
/// announced are no error, since the driver may be about to raise the generation.
fn counted(slices: &[&PoolSlice], allocated: &Allocated<'_>) -> Result<PoolStatus, IncompletePool> {
    let first = &slices[0].spec;
    let observed = slices.len();
    if i64::try_from(observed).is_ok_and(|observed| observed < first.pool.resource_slice_count) {
        return Err(IncompletePool {
            driver: first.driver.clone(),
            pool: first.pool.name.clone(),
            observed,
            expected: first.pool.resource_slice_count,
            generation: first.pool.generation,
        });
    }
    let total = slices.iter().map(|slice| slice.spec.devices.len()).sum();
    let is_of_one_node = slices
        .iter()
        .all(|slice| slice.spec.node_name == first.node_name);
    let node_name = first
        .node_name
        .clone()
        .filter(|name| is_of_one_node && !name.is_empty());
    Ok(PoolStatus {
        driver: first.driver.clone(),
        pool_name: first.pool.name.clone(),
        node_name,
        generation: first.pool.generation,
        resource_slice_count: observed,
        total_devices: total,
        allocated_devices: allocated.results,
        available_devices: total.saturating_sub(allocated.results),
        unavailable_devices: 0,
        partition_summary: Vec::new(),
        shareable_summary: None,
        validation_error: None,
    })
}

impl PoolStatus {
    /// The same by the rules of 1.37. `default` is the attribute that groups partitions if no slice names one.
    fn accounted(
        self,
        slices: &[&PoolSlice],
        allocated: &Allocated<'_>,
        rules: &[Arc<DeviceTaintRule>],
        default: Option<&Sym>,
    ) -> Self {
        let used = allocated.devices.len();
        let unavailable = unavailable_devices(slices, rules);
        let views = Pool {
            slices,
            default_attribute: default,
            in_use: &allocated.devices,
            consumed: &allocated.consumed,
        }
        .views();
        Self {
            allocated_devices: used,
            unavailable_devices: unavailable,
            available_devices: self.total_devices.saturating_sub(used + unavailable),
            partition_summary: views.partitions,
            shareable_summary: views.shareable,
            validation_error: views.error,
            ..self
        }
    }
}

/// The number of devices that a taint keeps new pods from. Upstream: `deviceUnavailable`.
fn unavailable_devices(slices: &[&PoolSlice], rules: &[Arc<DeviceTaintRule>]) -> usize {
    let of_slice = |slice: &&PoolSlice| {
        let spec = &slice.spec;
        let devices = spec.devices.iter().filter(|device| {
            let name = &device.name;
            let mut rules = rules.iter();
            device.is_tainted()
                || rules.any(|rule| {
                    rule.spec
                        .keeps_pods_from(&spec.driver, &spec.pool.name, name)
                })
        });
        devices.count()
    };
    slices.iter().map(of_slice).sum()
}
