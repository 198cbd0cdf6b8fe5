//! The limit of 1000 addresses of an Endpoints object.
//!
//! Ready addresses have priority. Within the limit, each subset keeps its share, rounded up, and the
//! last subsets get the rest. Example: 700 and 501 ready addresses become 583 and 417, because
//! 700 / 1201 of 1000 is 582.8.
//!
//! Upstream: `truncateEndpoints`. It can leave a subset without addresses, which the API server
//! rejects; here such a subset is left out.

use steersman_objects::{Annotations, EndpointAddress, EndpointSubset};

/// The most addresses of an Endpoints object. Upstream: `maxCapacity`.
const MAX: usize = 1000;

/// Annotation of an Endpoints object that lacks addresses because of the limit. Consumers can tell
/// by it that addresses are missing. Its value is `truncated`.
pub(super) const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Number of ready and of not ready addresses.
fn counts(subsets: &[EndpointSubset]) -> (usize, usize) {
    let ready = subsets.iter().map(|subset| subset.addresses.len());
    let not_ready = subsets
        .iter()
        .map(|subset| subset.not_ready_addresses.len());
    (ready.sum(), not_ready.sum())
}

/// Removes the addresses beyond the limit. True if there were any. Longer objects cost every
/// watcher much, and may exceed the size limit of etcd. The caller compares before it truncates, so
/// a Service above the limit is written in each sync, as in upstream.
pub(super) fn truncate(subsets: &mut Vec<EndpointSubset>) -> bool {
    let (ready, not_ready) = counts(subsets);
    if ready + not_ready <= MAX {
        return false;
    }
    // Too many ready addresses leave no room for others.
    let cuts_ready = ready > MAX;
    let (limit, total) = if cuts_ready {
        (MAX, ready)
    } else {
        (MAX - ready, not_ready)
    };
    let mut left = limit;
    for subset in &mut *subsets {
        if cuts_ready {
            subset.not_ready_addresses.clear();
            keep_share(&mut subset.addresses, total, limit, &mut left);
        } else {
            keep_share(&mut subset.not_ready_addresses, total, limit, &mut left);
        }
    }
    subsets.retain(|subset| !subset.addresses.is_empty() || !subset.not_ready_addresses.is_empty());
    true
}

/// Keeps the first addresses of a list: its share of `limit` for `total` addresses, but at most
/// `left`.
fn keep_share(list: &mut Vec<EndpointAddress>, total: usize, limit: usize, left: &mut usize) {
    // As upstream: double precision, and the division comes first.
    let share = (list.len() as f64 / total as f64 * limit as f64).ceil();
    list.truncate((share as usize).min(*left));
    *left -= list.len();
}

/// True if a stored object is within the limit and says so. Upstream:
/// `capacityAnnotationSetCorrectly`. An object with the annotation is therefore written in each
/// sync, as in upstream.
pub(super) fn is_within(subsets: &[EndpointSubset], annotations: &Annotations) -> bool {
    let (ready, not_ready) = counts(subsets);
    ready + not_ready <= MAX && annotations.get(OVER_CAPACITY).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: usize) -> Vec<EndpointAddress> {
        vec![EndpointAddress::default(); count]
    }

    /// Upstream: `TestTruncateEndpoints`, and the table of the reference.
    #[test]
    fn truncate_endpoints() {
        // (ready and not ready addresses by subset, expected)
        let cases: [(&[(usize, usize)], &[(usize, usize)]); 12] = [
            (&[], &[]),
            (
                &[(50, 50), (100, 100), (100, 100), (100, 100), (100, 100)],
                &[(50, 50), (100, 100), (100, 100), (100, 100), (100, 100)],
            ),
            (
                &[(100, 100), (100, 100), (100, 100), (100, 100), (100, 100)],
                &[(100, 100), (100, 100), (100, 100), (100, 100), (100, 100)],
            ),
            (
                &[(90, 101), (110, 200), (50, 200), (10, 201), (20, 298)],
                &[(90, 73), (110, 144), (50, 144), (10, 145), (20, 214)],
            ),
            (
                &[(205, 100), (400, 200), (402, 200), (400, 200), (693, 300)],
                &[(98, 0), (191, 0), (192, 0), (191, 0), (328, 0)],
            ),
            (&[(501, 500)], &[(501, 499)]),
            (&[(1001, 0)], &[(1000, 0)]),
            (&[(900, 200)], &[(900, 100)]),
            (&[(1100, 50)], &[(1000, 0)]),
            (&[(700, 0), (501, 0)], &[(583, 0), (417, 0)]),
            // Shares are rounded up, so the last subset gets none.
            (&[(600, 0), (600, 0), (1, 0)], &[(500, 0), (500, 0)]),
            // Only not ready addresses, beside too many ready ones.
            (&[(0, 10), (1001, 0)], &[(1000, 0)]),
        ];
        for (before, expected) in cases {
            let subset = |(ready, not_ready): &(usize, usize)| EndpointSubset {
                addresses: list(*ready),
                not_ready_addresses: list(*not_ready),
                ports: Vec::new(),
            };
            let mut subsets: Vec<_> = before.iter().map(subset).collect();
            let is_truncated = truncate(&mut subsets);
            let counts = |subset: &EndpointSubset| {
                (subset.addresses.len(), subset.not_ready_addresses.len())
            };
            let found: Vec<_> = subsets.iter().map(counts).collect();
            assert_eq!(found, expected, "{before:?}");
            assert_eq!(is_truncated, before != expected, "{before:?}");
        }
    }

    /// Upstream: the annotations of `TestSyncServiceOverCapacity`.
    #[test]
    fn the_annotation_must_agree_with_the_count() {
        let truncated = Annotations::new([(OVER_CAPACITY, "truncated")]);
        let warning = Annotations::new([(OVER_CAPACITY, "warning")]);
        let other = Annotations::new([("other", "x")]);
        // (addresses, annotations, correct)
        let cases = [
            (1000, &other, true),
            (1000, &truncated, false),
            (1001, &other, false),
            (1001, &truncated, false),
            (999, &warning, false),
            (0, &truncated, false),
        ];
        for (count, annotations, expected) in cases {
            let subset = EndpointSubset {
                addresses: list(count),
                ..EndpointSubset::default()
            };
            assert_eq!(is_within(&[subset], annotations), expected, "{count}");
        }
    }
}
