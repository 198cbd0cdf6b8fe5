//! The order of versions in a group: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then all other
//! names in alphabetical order.
//!
//! Upstream: `k8s.io/apimachinery/pkg/version`.

use std::cmp::{Ordering, Reverse};

/// Compares two versions; the smaller one is preferred by discovery.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability (0 is stable), then both numbers, higher ones first. `None` for other names.
fn parse(version: &str) -> Option<(u8, Reverse<u32>, Reverse<u32>)> {
    let number = |digits: &str| {
        digits
            .parse()
            .ok()
            .filter(|_| !digits.starts_with(['0', '+']))
    };
    let rest = version.strip_prefix('v')?;
    for (stability, word) in [(1, "beta"), (2, "alpha")] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, Reverse(number(major)?), Reverse(number(minor)?)));
        }
    }
    Some((0, Reverse(number(rest)?), Reverse(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_newer_before_older() {
        let mut versions = [
            "foo10",
            "v1alpha1",
            "v10",
            "v1beta2",
            "v11alpha2",
            "foo1",
            "v3beta1",
            "v2",
            "v1",
            "v10beta3",
            "v01",
        ];
        versions.sort_by(|a, b| compare(a, b));
        let expected = [
            "v10",
            "v2",
            "v1",
            "v10beta3",
            "v3beta1",
            "v1beta2",
            "v11alpha2",
            "v1alpha1",
            "foo1",
            "foo10",
            "v01",
        ];
        assert_eq!(versions, expected);
    }
}
