//! Totals over all Services: endpoints, slices, and the number of slices with perfect packing.
//!
//! A sync replaces the numbers of its Service. Upstream counts one address type of a dual-stack
//! Service only (issue 126004 of Kubernetes); here each part of a Service counts. Upstream: the
//! packages `metrics` of `k8s.io/endpointslice` and `pkg/controller/endpointslicemirroring`.

use std::collections::{BTreeMap, HashMap};

use prometheus::IntGaugeVec;

use steersman_objects::ObjectKey;
use steersman_runtime::consistency::Memory;
use steersman_values::sync::{Mutex, MutexGuard};

/// The numbers of a part of a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Desired endpoints.
    pub endpoints: usize,
    /// Slices after the writes of the sync.
    pub slices: usize,
    /// Slices that would hold the endpoints with perfect packing.
    pub desired_slices: usize,
}

/// The numbers of one group of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceCount {
    /// Desired endpoints.
    pub endpoints: usize,
    /// Slices after the writes of the sync.
    pub slices: usize,
}

impl Totals {
    /// The sum over all groups of ports. A slice has at most `max` endpoints.
    pub fn of(groups: impl IntoIterator<Item = SliceCount>, max: usize) -> Self {
        groups
            .into_iter()
            .fold(Self::default(), |total, group| Self {
                endpoints: total.endpoints + group.endpoints,
                slices: total.slices + group.slices,
                desired_slices: total.desired_slices + group.endpoints.div_ceil(max),
            })
    }

    fn add(self, other: Self) -> Self {
        Self {
            endpoints: self.endpoints + other.endpoints,
            slices: self.slices + other.slices,
            desired_slices: self.desired_slices + other.desired_slices,
        }
    }
}

/// The numbers of all Services, shown by three gauges. `P` is a part of a Service, such as an
/// address type.
pub struct SliceTotals<P> {
    services: Mutex<Sums<P>>,
    /// Gauges without labels. As upstream's, they appear with the first sync.
    endpoints: IntGaugeVec,
    slices: IntGaugeVec,
    desired_slices: IntGaugeVec,
}

struct Sums<P> {
    by_service: HashMap<ObjectKey, BTreeMap<P, Totals>>,
    sum: Totals,
}

impl<P: Ord + Send + 'static> SliceTotals<P> {
    /// Totals that these gauges show.
    pub fn new(endpoints: IntGaugeVec, slices: IntGaugeVec, desired_slices: IntGaugeVec) -> Self {
        Self {
            services: Mutex::new(Sums {
                by_service: HashMap::new(),
                sum: Totals::default(),
            }),
            endpoints,
            slices,
            desired_slices,
        }
    }

    /// Replaces the parts of `service`.
    pub fn set(&self, service: &ObjectKey, parts: BTreeMap<P, Totals>) {
        let mut sums = self.sums();
        sums.change(service, parts);
        self.show(sums.sum);
    }

    fn sums(&self) -> MutexGuard<'_, Sums<P>> {
        self.services.lock()
    }

    fn show(&self, sum: Totals) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let none: [&str; 0] = [];
        self.endpoints
            .with_label_values(&none)
            .set(number(sum.endpoints));
        self.slices.with_label_values(&none).set(number(sum.slices));
        self.desired_slices
            .with_label_values(&none)
            .set(number(sum.desired_slices));
    }
}

impl<P: Ord> Sums<P> {
    /// Replaces the parts of `service`, of which an empty set drops the entry.
    fn change(&mut self, service: &ObjectKey, parts: BTreeMap<P, Totals>) {
        let total = |parts: &BTreeMap<P, Totals>| {
            parts
                .values()
                .fold(Totals::default(), |sum, part| sum.add(*part))
        };
        let new = total(&parts);
        let old = if parts.is_empty() {
            self.by_service.remove(service)
        } else {
            self.by_service.insert(service.clone(), parts)
        };
        let old = old.map_or(Totals::default(), |old| total(&old));
        self.sum = Totals {
            endpoints: self.sum.endpoints + new.endpoints - old.endpoints,
            slices: self.sum.slices + new.slices - old.slices,
            desired_slices: self.sum.desired_slices + new.desired_slices - old.desired_slices,
        };
    }
}

impl<P: Ord + Send + 'static> Memory for SliceTotals<P> {
    fn forget(&self, owner: &ObjectKey) {
        let mut sums = self.sums();
        if sums.by_service.contains_key(owner) {
            sums.change(owner, BTreeMap::new());
            self.show(sums.sum);
        }
    }

    fn history_went_back(&self) {
        // The next sync of each Service replaces its numbers, and none of them is awaited.
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Opts;

    use super::*;

    fn totals() -> SliceTotals<u8> {
        let gauge = |name: &str| IntGaugeVec::new(Opts::new(name, name), &[]).unwrap();
        SliceTotals::new(gauge("endpoints"), gauge("slices"), gauge("desired"))
    }

    fn shown(totals: &SliceTotals<u8>) -> [i64; 3] {
        let none: [&str; 0] = [];
        [&totals.endpoints, &totals.slices, &totals.desired_slices]
            .map(|gauge| gauge.with_label_values(&none).get())
    }

    fn part(groups: &[(usize, usize)]) -> Totals {
        let groups = groups
            .iter()
            .map(|&(endpoints, slices)| SliceCount { endpoints, slices });
        Totals::of(groups, 100)
    }

    /// Upstream: `TestNumEndpointsAndSlices` of both packages.
    #[test]
    fn syncs_replace_the_numbers_of_their_service() {
        let totals = totals();
        let [one, two] = ["one", "two"].map(|name| ObjectKey::new("ns", name));
        totals.set(&one, BTreeMap::from([(4, part(&[(45, 1), (48, 1)]))]));
        assert_eq!(shown(&totals), [93, 2, 2]);
        totals.set(
            &one,
            BTreeMap::from([(4, part(&[(45, 1), (50, 1), (99, 3)]))]),
        );
        assert_eq!(shown(&totals), [194, 5, 3]);
        totals.set(
            &two,
            BTreeMap::from([(4, part(&[(101, 4)])), (6, part(&[(101, 2)]))]),
        );
        assert_eq!(shown(&totals), [396, 11, 7], "both address types count");
        totals.forget(&one);
        assert_eq!(shown(&totals), [202, 6, 4]);
        totals.forget(&one);
        totals.forget(&two);
        assert_eq!(shown(&totals), [0, 0, 0]);
    }
}
