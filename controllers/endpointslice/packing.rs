//! The distribution of endpoints with equal ports over slices.
//!
//! Endpoints stay in their slice. New ones go into slices that change anyway, fullest first. If
//! fewer than the maximum remain, one unchanged slice takes all of them, or else new slices do.
//! Slices are not merged, and slices above a lowered maximum stay as they are until they change.
//!
//! Examples with a maximum of 3: seven new endpoints give slices of 3, 3 and 1. Two slices with 2
//! endpoints each and two new endpoints give a third slice with 2.
//!
//! Upstream: `reconcileByPortMapping` and `getSliceToFill` of `k8s.io/endpointslice`.

use std::collections::HashMap;
use std::sync::Arc;

use steersman_helpers::endpointslice::{EndpointKey, is_unchanged};
use steersman_objects::{Endpoint, EndpointSlice};

/// A copy of a slice with other endpoints or labels.
pub(super) struct Update {
    pub(super) slice: Arc<EndpointSlice>,
    pub(super) endpoints: Vec<Endpoint>,
    /// Whether the copy gets the labels of the Service.
    pub(super) relabel: bool,
}

/// The slices of one group of ports.
#[derive(Default)]
pub(super) struct Packed {
    /// Endpoints of each new slice.
    pub(super) create: Vec<Vec<Endpoint>>,
    pub(super) update: Vec<Update>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
    /// Number of desired endpoints, equal ones counted once.
    pub(super) endpoints: usize,
    /// Endpoints that no slice had before.
    pub(super) added: usize,
    /// Endpoints that left a slice that became shorter.
    pub(super) removed: usize,
}

/// A slice in work. Numbers are positions in the list of desired endpoints.
struct Draft {
    slice: Arc<EndpointSlice>,
    /// The endpoints to keep; `None` keeps those of the slice as they are. The latter is for a
    /// slice that only changes labels or takes further endpoints.
    kept: Option<Vec<usize>>,
    appended: Vec<usize>,
    relabel: bool,
}

impl Draft {
    fn len(&self) -> usize {
        let kept = self.kept.as_ref();
        kept.map_or(self.slice.endpoints.len(), Vec::len) + self.appended.len()
    }
}

/// Distributes `desired` over the slices `existing`, all with the same ports. A slice takes at most
/// `max` endpoints. `relabel` tells whether a slice has other labels than its Service.
///
/// The order of the steps keeps the number of writes low: first remove and change, then fill slices
/// that are written anyway, then at most one further slice, and new slices at last. The order of
/// `existing` and `desired` decides ties, so equal inputs give equal slices.
pub(super) fn pack(
    existing: &[Arc<EndpointSlice>],
    desired: Vec<Endpoint>,
    max: usize,
    relabel: impl Fn(&EndpointSlice) -> bool,
) -> Packed {
    let mut packed = Packed::default();
    let mut drafts = Vec::new();
    let mut unchanged = Vec::new();
    let mut waiting = vec![true; desired.len()];
    let mut positions = HashMap::with_capacity(desired.len());
    for (position, endpoint) in desired.iter().enumerate() {
        // Of two endpoints with one identity, the later one counts.
        if let Some(earlier) = positions.insert(EndpointKey::of(endpoint), position) {
            waiting[earlier] = false;
        }
    }
    packed.endpoints = positions.len();

    for slice in existing {
        let mut kept = Vec::new();
        let mut changed = false;
        for endpoint in &slice.endpoints {
            let position = positions.get(&EndpointKey::of(endpoint));
            // A placed endpoint is not placed again in a later slice.
            if let Some(position) = position.copied().filter(|position| waiting[*position]) {
                waiting[position] = false;
                changed |= !is_unchanged(endpoint, &desired[position]);
                kept.push(position);
            }
        }
        let removed = slice.endpoints.len() - kept.len();
        let relabel = relabel(slice);
        packed.removed += removed;
        let draft = |kept| Draft {
            slice: Arc::clone(slice),
            kept,
            appended: Vec::new(),
            relabel: true,
        };
        // A slice that loses all endpoints is deleted even if its labels differ. An empty slice
        // without a change is kept as unchanged, and the caller decides about placeholders.
        match (changed || removed > 0, kept.is_empty()) {
            (true, true) => packed.delete.push(Arc::clone(slice)),
            (true, false) => drafts.push(draft(Some(kept))),
            (false, _) if relabel => drafts.push(draft(None)),
            (false, _) => unchanged.push(slice),
        }
    }
    drop(positions);

    let left: Vec<usize> = (0..desired.len()).filter(|at| waiting[*at]).collect();
    packed.added = left.len();
    let mut left = left.into_iter();
    let mut fullest_first: Vec<&mut Draft> = drafts.iter_mut().collect();
    fullest_first.sort_by_key(|draft| std::cmp::Reverse(draft.len()));
    for draft in fullest_first {
        // A slice above a lowered maximum has no room, and keeps the endpoints it has.
        let room = max.saturating_sub(draft.len());
        draft.appended.extend(left.by_ref().take(room));
    }

    let mut created = Vec::new();
    while left.len() > 0 {
        // A full set of endpoints gets a slice of its own without a search.
        let fitting = (left.len() < max)
            .then(|| best_fit(&unchanged, left.len(), max))
            .flatten();
        match fitting {
            Some(position) => drafts.push(Draft {
                slice: Arc::clone(unchanged.remove(position)),
                kept: None,
                appended: left.by_ref().collect(),
                relabel: false,
            }),
            None => created.push(left.by_ref().take(max).collect::<Vec<_>>()),
        }
    }

    let mut desired: Vec<Option<Endpoint>> = desired.into_iter().map(Some).collect();
    // Each position is placed at most once, so `take` moves the endpoint and copies nothing.
    let mut take = |positions: Vec<usize>| -> Vec<Endpoint> {
        positions
            .into_iter()
            .filter_map(|at| desired[at].take())
            .collect()
    };
    packed.create = created.into_iter().map(&mut take).collect();
    packed.update = drafts
        .into_iter()
        .map(|draft| {
            let mut endpoints = match draft.kept {
                Some(kept) => take(kept),
                None => draft.slice.endpoints.clone(),
            };
            endpoints.extend(take(draft.appended));
            Update {
                slice: draft.slice,
                endpoints,
                relabel: draft.relabel,
            }
        })
        .collect();
    packed
}

/// The position of the slice that is fullest with `count` more endpoints. `None` if no slice has
/// room for all of them: they are never split over unchanged slices, since each would be one more
/// write. Upstream: `getSliceToFill`.
fn best_fit(slices: &[&Arc<EndpointSlice>], count: usize, max: usize) -> Option<usize> {
    let room = |slice: &EndpointSlice| max.checked_sub(slice.endpoints.len() + count);
    let fitting = slices
        .iter()
        .enumerate()
        .filter_map(|(position, slice)| Some((room(slice)?, position)));
    fitting.min().map(|(_, position)| position)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    /// The endpoints of pods with these numbers.
    fn endpoints(pods: Range<usize>, ready: bool) -> Vec<Value> {
        pods.map(|pod| {
            json!({
                "addresses": [format!("10.0.{}.{}", pod / 250, pod % 250)], "conditions": {"ready": ready},
                "targetRef": {"kind": "Pod", "namespace": "ns", "name": format!("pod-{pod}")},
            })
        })
        .collect()
    }

    fn slice(name: usize, pods: Range<usize>) -> Arc<EndpointSlice> {
        let json = json!({"metadata": {"name": format!("web-{name}")}, "endpoints": endpoints(pods, true)});
        Arc::new(EndpointSlice::decode(json.to_string().as_bytes()).unwrap())
    }

    fn desired(pods: Vec<Value>) -> Vec<Endpoint> {
        serde_json::from_value(Value::Array(pods)).unwrap()
    }

    /// Created lengths, and lengths of updated slices by their name, and the number of deletions.
    fn lengths(packed: &Packed) -> (Vec<usize>, Vec<String>, usize) {
        let updated = packed.update.iter();
        (
            packed.create.iter().map(Vec::len).collect(),
            updated
                .map(|update| format!("{} {}", update.slice.meta.name, update.endpoints.len()))
                .collect(),
            packed.delete.len(),
        )
    }

    /// Upstream: `TestReconcileManyPods`, `TestReconcileMaxEndpointsPerSlice`, and the functions
    /// `TestReconcileEndpointSlices...` about pre-existing slices.
    #[test]
    fn endpoints_fill_as_few_changed_slices_as_possible() {
        // (upstream's case, maximum, existing slices, desired pods, created, updated)
        let cases: Vec<(
            &str,
            usize,
            Vec<Range<usize>>,
            Range<usize>,
            &[usize],
            &[&str],
        )> = vec![
            ("ManyPods", 100, vec![], 0..250, &[100, 100, 50], &[]),
            ("maximum 50", 50, vec![], 0..250, &[50, 50, 50, 50, 50], &[]),
            ("maximum 80", 80, vec![], 0..250, &[80, 80, 80, 10], &[]),
            ("maximum 150", 150, vec![], 0..250, &[150, 100], &[]),
            ("maximum 250", 250, vec![], 0..250, &[250], &[]),
            ("maximum 500", 500, vec![], 0..250, &[250], &[]),
            (
                "SomePreexisting",
                100,
                vec![0..62, 62..123],
                0..250,
                &[100],
                &["web-0 89"],
            ),
            (
                "SomePreexistingWorseAllocation",
                100,
                vec![0..74, 74..148],
                0..300,
                &[100, 52],
                &[],
            ),
            (
                "no repack",
                100,
                (0..10).map(|n| 30 * n..30 * (n + 1)).collect(),
                0..300,
                &[],
                &[],
            ),
        ];
        for (case, max, existing, pods, created, updated) in cases {
            let existing: Vec<_> = existing
                .into_iter()
                .enumerate()
                .map(|(n, pods)| slice(n, pods))
                .collect();
            let covered: usize = existing.iter().map(|slice| slice.endpoints.len()).sum();
            let packed = pack(
                &existing,
                desired(endpoints(pods.clone(), true)),
                max,
                |_| false,
            );
            let (create, update, delete) = lengths(&packed);
            assert_eq!((&create[..], delete), (created, 0), "{case}");
            assert_eq!(update, updated, "{case}");
            let numbers = (packed.endpoints, packed.added, packed.removed);
            assert_eq!(numbers, (pods.len(), pods.len() - covered, 0), "{case}");
        }
    }

    /// Upstream: `TestReconcileEndpointSlicesUpdatePacking`.
    #[test]
    fn the_fullest_of_the_changed_slices_is_filled_first() {
        let existing = [slice(0, 0..20), slice(1, 100..180)];
        let pods = [
            endpoints(0..20, false),
            endpoints(100..180, false),
            endpoints(200..215, true),
        ]
        .concat();
        let packed = pack(&existing, desired(pods), 100, |_| false);
        let expected = ["web-0 20".to_owned(), "web-1 95".to_owned()];
        assert_eq!(lengths(&packed), (vec![], expected.into(), 0));
        assert_eq!((packed.added, packed.removed), (15, 0));
    }

    #[test]
    fn removed_endpoints_shorten_their_slice_or_delete_it() {
        let existing = [slice(0, 0..3), slice(1, 3..6), slice(2, 6..9)];
        let packed = pack(&existing, desired(endpoints(2..6, true)), 3, |_| false);
        assert_eq!(lengths(&packed), (vec![], vec!["web-0 1".to_owned()], 1));
        assert_eq!((packed.added, packed.removed), (0, 5));
    }

    #[test]
    fn other_labels_alone_keep_the_endpoints() {
        let existing = [slice(0, 0..2)];
        let packed = pack(&existing, desired(endpoints(0..2, true)), 3, |_| true);
        let [update] = &packed.update[..] else {
            panic!("one update")
        };
        assert!(update.relabel && update.endpoints == existing[0].endpoints);
    }
}
