//! The answer to a request: the devices of each pool, and how many of them are allocated.
//!
//! Slices of older generations are outdated. A pool whose driver has yet to publish some slices has
//! no answer. Upstream: `calculatePoolStatus`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use steersman_objects::{ResourceClaim, ResourcePoolStatusRequestSpec, ResourceSlice};
use steersman_values::intern::Sym;

/// The most pools in an answer. Upstream: `ResourcePoolStatusRequestLimitDefault`.
///
/// The constant is in `k8s.io/api/resource/v1alpha3`. A request may ask for another limit.
const DEFAULT_LIMIT: i32 = 100;

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
    /// Results of allocations, so a device that several claims share with admin access counts more than
    /// once.
    pub(super) allocated_devices: usize,
    /// Never below 0: a claim may still name devices that the newest generation lacks.
    available_devices: usize,
    /// Always 0, as upstream: taints and conditions of devices have no influence.
    unavailable_devices: usize,
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
    slices: &[Arc<ResourceSlice>],
    claims: &[Arc<ResourceClaim>],
    now: Timestamp,
) -> Result<Answer, IncompletePool> {
    let pools = newest_slices(request, slices);
    let allocated = allocated_devices(&request.driver, claims);
    let limit = usize::try_from(request.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or_default();
    let shown = pools.iter().take(limit).map(|(name, slices)| {
        let allocated = allocated.get(name).copied().unwrap_or_default();
        status_of(slices, allocated)
    });
    let shown: Vec<PoolStatus> = shown.collect::<Result<_, _>>()?;
    let message = format!("Calculated status for {} pools", shown.len());
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
    slices: &'a [Arc<ResourceSlice>],
) -> BTreeMap<&'a str, Vec<&'a ResourceSlice>> {
    let wanted = request.pool_name.as_deref().unwrap_or_default();
    let mut pools: BTreeMap<&str, Vec<&ResourceSlice>> = BTreeMap::new();
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

/// The number of allocations from each pool of `driver`.
///
/// Claims in each namespace count, reserved or not. Results of other drivers are left out.
fn allocated_devices<'a>(
    driver: &Sym,
    claims: &'a [Arc<ResourceClaim>],
) -> HashMap<&'a str, usize> {
    let allocations = claims
        .iter()
        .filter_map(|claim| claim.status.allocation.as_ref());
    let devices = allocations.flat_map(|allocation| &allocation.devices.results);
    let mut counts = HashMap::new();
    for device in devices.filter(|device| device.driver == *driver) {
        *counts.entry(&*device.pool).or_default() += 1;
    }
    counts
}

/// The status of the pool with these slices, of which there is at least one.
///
/// Slices of a pool without a node name, or of several nodes, give no node name. More slices than
/// announced are no error, since the driver may be about to raise the generation.
fn status_of(slices: &[&ResourceSlice], allocated: usize) -> Result<PoolStatus, IncompletePool> {
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
    let total = slices
        .iter()
        .map(|slice| slice.spec.devices.names.len())
        .sum();
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
        allocated_devices: allocated,
        available_devices: total.saturating_sub(allocated),
        unavailable_devices: 0,
    })
}
