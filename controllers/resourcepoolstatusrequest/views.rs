//! Partitions of a pool that still fit, and the free capacity of its shared devices. Since 1.37.
//!
//! Partitions of a device exclude each other by counters that they share. Upstream: `views.go`.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use steersman_objects::{PoolDevice, PoolSlice};
use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;

/// The most items of a list in an answer, as the API server checks. Upstream: `maxStatusListItems`.
const MOST_ITEMS: usize = 32;

/// The most bytes of an error in an answer.
const MOST_BYTES: usize = 256;

/// A pool with all its slices, of which there is at least one.
pub(super) struct Pool<'a> {
    pub(super) slices: &'a [&'a PoolSlice],
    /// The attribute that groups partitions, if no slice names one.
    pub(super) default_attribute: Option<&'a Sym>,
    /// The devices of claims, without those that claims only observe.
    pub(super) in_use: &'a HashSet<&'a str>,
    /// The capacity that claims use, by name.
    pub(super) consumed: &'a BTreeMap<&'a str, Quantity>,
}

/// The views of a pool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Views {
    pub(super) partitions: Vec<PartitionType>,
    pub(super) shareable: Option<Shareable>,
    pub(super) error: Option<String>,
}

/// Partitions of one type. Types exclude each other, so a sum over them has no meaning.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartitionType {
    attribute: String,
    #[serde(rename = "type")]
    kind: String,
    total: usize,
    allocatable: usize,
}

/// The devices that several claims can share.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shareable {
    fully_available_devices: usize,
    partially_available_devices: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    capacity: Vec<SharedCapacity>,
}

/// A capacity of all shared devices.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct SharedCapacity {
    name: String,
    total: String,
    consumed: String,
    available: String,
}

/// The reason for which a view is absent. The texts are part of the answer.
#[derive(Debug, thiserror::Error)]
enum ViewError {
    #[error(
        "PartitionTypeMissing: pool {0} declares partitionTypeAttribute but publishes no sharedCounters"
    )]
    NoCounters(String),
    #[error(
        "PartitionTypeMissing: device {device:?} in pool {pool} does not carry partition type attribute {attribute:?}"
    )]
    NoType {
        device: String,
        pool: String,
        attribute: String,
    },
    #[error(
        "PartitionCostMismatch: devices of partition type {kind:?} in pool {pool} consume different counters"
    )]
    Costs { kind: String, pool: String },
    #[error(
        "PartitionSummaryOverCap: pool {pool} has {found} partition types, exceeding the maximum of {}",
        MOST_ITEMS
    )]
    ManyTypes { pool: String, found: usize },
    #[error(
        "ShareableSummaryOverCap: pool {pool} has {found} shareable capacity keys, exceeding the maximum of {}",
        MOST_ITEMS
    )]
    ManyCapacities { pool: String, found: usize },
}

/// A counter by the name of its set and its own name.
type Counter<'a> = (&'a str, &'a str);

/// Partitions of a type.
struct Group<'a> {
    /// The counters that one of them uses up.
    cost: Vec<(Counter<'a>, Quantity)>,
    total: usize,
    unused: usize,
}

impl<'a> Pool<'a> {
    /// The views of the pool. An error hides the partitions. Upstream: `computePoolViews`.
    pub(super) fn views(&self) -> Views {
        let partitions = self.partitions();
        let shareable = self.shareable();
        let mut views = Views::default();
        let mut errors = Vec::new();
        match partitions {
            Ok(partitions) => views.partitions = partitions,
            Err(error) => errors.push(error),
        }
        match shareable {
            Ok(shareable) => views.shareable = shareable,
            Err(error) => errors.push(error),
        }
        if let Some(first) = errors.first() {
            views.partitions.clear();
            views.error = Some(cut(first.to_string()));
        }
        views
    }

    fn devices(&self) -> impl Iterator<Item = &'a PoolDevice> {
        self.slices.iter().flat_map(|slice| &slice.spec.devices)
    }

    /// The pool in errors.
    fn text(&self) -> String {
        let spec = &self.slices[0].spec;
        format!("{}/{}", spec.driver, spec.pool.name)
    }

    /// The devices with the attribute that groups them. The request decides only if no slice does.
    ///
    /// Upstream: `resolveDevicePartitions`.
    fn grouped(&self) -> Vec<(&'a Sym, &'a PoolDevice)> {
        let own = |slice: &'a PoolSlice| {
            let attribute = slice.spec.partition_type_attribute.as_ref();
            attribute.filter(|name| !name.is_empty())
        };
        let mut declaring = self.slices.iter().filter(|slice| own(slice).is_some());
        let is_declared = declaring.any(|slice| !slice.spec.devices.is_empty());
        let default = self
            .default_attribute
            .filter(|name| !is_declared && !name.is_empty());
        let slices = self.slices.iter();
        let of_slice = slices.flat_map(|slice| {
            let attribute = own(slice).or(default);
            let devices = slice.spec.devices.iter();
            devices.filter_map(move |device| Some((attribute?, device)))
        });
        of_slice.collect()
    }

    /// Upstream: `computePartitionSummary`.
    fn partitions(&self) -> Result<Vec<PartitionType>, ViewError> {
        let grouped = self.grouped();
        let has_counters = self
            .slices
            .iter()
            .any(|slice| !slice.spec.shared_counters.is_empty());
        if !grouped.is_empty() && !has_counters {
            return Err(ViewError::NoCounters(self.text()));
        }
        let mut groups: BTreeMap<(&Sym, &Sym), Group<'_>> = BTreeMap::new();
        for (attribute, device) in grouped {
            if device.consumes_counters.is_empty() {
                continue;
            }
            let kind = self.kind_of(attribute, device)?;
            let cost = cost_of(device);
            let group = groups.entry((attribute, kind)).or_insert_with(|| Group {
                cost: cost.clone(),
                total: 0,
                unused: 0,
            });
            if !is_same(&group.cost, &cost) {
                return Err(ViewError::Costs {
                    kind: kind.to_string(),
                    pool: self.text(),
                });
            }
            group.total += 1;
            group.unused += usize::from(!self.in_use.contains(&*device.name));
        }
        if groups.len() > MOST_ITEMS {
            return Err(ViewError::ManyTypes {
                pool: self.text(),
                found: groups.len(),
            });
        }
        let left = self.counters_left();
        let types = groups
            .into_iter()
            .map(|((attribute, kind), group)| PartitionType {
                attribute: attribute.to_string(),
                kind: kind.to_string(),
                total: group.total,
                allocatable: group.fitting(left.clone()),
            });
        Ok(types.collect())
    }

    /// The text of `attribute` of `device`. An attribute without a domain is one of the driver.
    ///
    /// Upstream: `resolvePartitionType`.
    fn kind_of(&self, attribute: &'a Sym, device: &'a PoolDevice) -> Result<&'a Sym, ViewError> {
        let driver = &self.slices[0].spec.driver;
        let bare = || {
            let name = attribute.strip_prefix(&**driver)?.strip_prefix('/')?;
            device.attributes.get(&Sym::new(name))
        };
        let found = device.attributes.get(attribute).or_else(bare);
        let text = found.and_then(|attribute| attribute.string.as_ref());
        text.ok_or_else(|| ViewError::NoType {
            device: device.name.to_string(),
            pool: self.text(),
            attribute: attribute.to_string(),
        })
    }

    /// The counters of the pool without those of devices in use. A device counts once, also if several claims share
    /// it, as in the scheduler.
    fn counters_left(&self) -> BTreeMap<Counter<'a>, Quantity> {
        let sets = self
            .slices
            .iter()
            .flat_map(|slice| &slice.spec.shared_counters);
        let counters = sets.flat_map(|set| {
            let counters = set.counters.iter();
            counters.map(move |(name, amount)| ((&*set.name, &**name), amount.quantity()))
        });
        let mut left: BTreeMap<_, _> = counters.collect();
        let in_use = self
            .devices()
            .filter(|device| self.in_use.contains(&*device.name));
        for device in in_use {
            deduct(&mut left, &cost_of(device));
        }
        left
    }

    /// Upstream: `computeShareableSummary`.
    fn shareable(&self) -> Result<Option<Shareable>, ViewError> {
        let shared: Vec<_> = self
            .devices()
            .filter(|device| device.allow_multiple_allocations)
            .collect();
        if shared.is_empty() {
            return Ok(None);
        }
        let mut totals: BTreeMap<&Sym, Quantity> = BTreeMap::new();
        for (name, amount) in shared.iter().flat_map(|device| &device.capacity) {
            let total = totals.entry(name).or_insert_with(|| Quantity::whole(0));
            *total = total.plus(amount.quantity());
        }
        if totals.len() > MOST_ITEMS {
            return Err(ViewError::ManyCapacities {
                pool: self.text(),
                found: totals.len(),
            });
        }
        let capacity = totals.into_iter().map(|(name, total)| {
            let consumed = self.consumed.get(&**name).copied();
            let consumed = consumed.unwrap_or_else(|| Quantity::whole(0));
            SharedCapacity {
                name: name.to_string(),
                total: total.canonical(),
                consumed: consumed.canonical(),
                available: total.beyond(consumed).canonical(),
            }
        });
        let is_used = |device: &&&PoolDevice| self.in_use.contains(&*device.name);
        let used = shared.iter().filter(is_used).count();
        Ok(Some(Shareable {
            fully_available_devices: shared.len() - used,
            partially_available_devices: used,
            capacity: capacity.collect(),
        }))
    }
}

impl<'a> Group<'a> {
    /// The number of unused partitions that fit into the counters that are `left`.
    fn fitting(&self, mut left: BTreeMap<Counter<'a>, Quantity>) -> usize {
        let fits = |left: &BTreeMap<Counter<'a>, Quantity>| {
            let mut cost = self.cost.iter();
            cost.all(|(counter, amount)| left.get(counter).is_some_and(|left| left >= amount))
        };
        let mut fitting = 0;
        while fitting < self.unused && fits(&left) {
            deduct(&mut left, &self.cost);
            fitting += 1;
        }
        fitting
    }
}

/// The counters that `device` uses up, in the order of their names.
fn cost_of(device: &PoolDevice) -> Vec<(Counter<'_>, Quantity)> {
    let sets = device.consumes_counters.iter();
    let counters = sets.flat_map(|of| {
        let counters = of.counters.iter();
        counters.map(move |(name, amount)| ((&*of.counter_set, &**name), amount.quantity()))
    });
    let mut cost: Vec<_> = counters.collect();
    cost.sort_by_key(|(counter, _)| *counter);
    cost
}

/// Whether two costs have the same texts: an amount in another format differs. Upstream: `consumesCountersKey`.
fn is_same(one: &[(Counter<'_>, Quantity)], other: &[(Counter<'_>, Quantity)]) -> bool {
    let text = |((set, name), amount): &(Counter<'_>, Quantity)| {
        format!("{set}/{name}={}", amount.canonical())
    };
    one.iter().map(text).eq(other.iter().map(text))
}

/// Takes `cost` from the counters that are `left`. Unknown counters are left out.
fn deduct<'a>(left: &mut BTreeMap<Counter<'a>, Quantity>, cost: &[(Counter<'a>, Quantity)]) {
    for (counter, amount) in cost {
        if let Some(left) = left.get_mut(counter) {
            *left = left.plus(amount.negated());
        }
    }
}

/// `text` up to the length that an answer may have.
fn cut(mut text: String) -> String {
    let mut end = text.len().min(MOST_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
