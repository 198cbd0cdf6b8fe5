//! The ranges of pod addresses in `--cluster-cidr`, with upstream's checks.
//!
//! Upstream: `startRouteController` and `processCIDRs` in `app/core.go` of the cloud provider
//! library, and `isResponsibleForRoute`.

use steersman_values::cidr::{Cidr, Family, InvalidCidr};

/// The ranges, at least one.
#[derive(Debug, Clone)]
pub(super) struct Ranges(Vec<Cidr>);

/// `--cluster-cidr` is unusable. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RangeError {
    #[error("invalid CIDR[{0}]: <nil> ({1})")]
    Entry(usize, #[source] InvalidCidr),
    #[error(
        "len of ClusterCIDRs=={0} and they are not configured as dual stack (at least one from each IPFamily"
    )]
    NotDualStack(usize),
    #[error("length of clusterCIDRs is:{0} more than max allowed of 2")]
    TooMany(usize),
}

impl Ranges {
    /// The ranges in the value of the flag.
    pub(super) fn parse(text: &str) -> Result<Self, RangeError> {
        let entries = text.trim().split(',').enumerate();
        let parsed: Result<Vec<Cidr>, _> = entries
            .map(|(at, entry)| Cidr::parse(entry).map_err(|error| RangeError::Entry(at, error)))
            .collect();
        let ranges = parsed?;
        let has = |family| ranges.iter().any(|range| range.family() == family);
        match ranges.len() {
            count @ 2.. if !(has(Family::V4) && has(Family::V6)) => {
                Err(RangeError::NotDualStack(count))
            }
            count @ 3.. => Err(RangeError::TooMany(count)),
            _ => Ok(Self(ranges)),
        }
    }

    /// Whether a route to `destination` is one of the cluster: its first or last address is in a
    /// range.
    pub(super) fn are_responsible_for(&self, destination: &str) -> bool {
        let Ok(route) = Cidr::parse(destination) else {
            tracing::error!(destination, "Ignoring route, unparsable CIDR");
            return false;
        };
        self.0.iter().any(|range| {
            let numbers = range.first()..=range.last();
            range.family() == route.family()
                && (numbers.contains(&route.first()) || numbers.contains(&route.last()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_as_upstream_does() {
        // (flag, error)
        let cases = [
            ("10.0.0.0/8", None),
            (" 10.0.0.0/8,a00::/16", None),
            ("", Some("invalid CIDR[0]: <nil> (invalid CIDR address: )")),
            (
                "10.0.0.0/8,x",
                Some("invalid CIDR[1]: <nil> (invalid CIDR address: x)"),
            ),
            (
                "10.0.0.0/8,11.0.0.0/8",
                Some(
                    "len of ClusterCIDRs==2 and they are not configured as dual stack (at least one from each IPFamily",
                ),
            ),
            (
                "10.0.0.0/8,11.0.0.0/8,a00::/16",
                Some("length of clusterCIDRs is:3 more than max allowed of 2"),
            ),
        ];
        for (flag, expected) in cases {
            let error = Ranges::parse(flag).err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), expected, "{flag:?}");
        }
    }

    /// Upstream: `TestIsResponsibleForRoute`.
    #[test]
    fn routes_in_a_cluster_range_are_ours() {
        // (ranges, destination, ours)
        let cases = [
            ("10.244.0.0/16", "10.244.0.0/24", true),
            ("10.244.0.0/16", "10.244.10.0/24", true),
            ("10.244.0.0/16", "10.244.255.0/24", true),
            ("10.244.0.0/14", "10.244.0.0/24", true),
            ("10.244.0.0/14", "10.247.255.0/24", true),
            ("a00:100::/10", "a00:100::/24", true),
            ("10.244.0.0/16", "10.224.0.0/24", false),
            ("10.244.0.0/16", "10.0.10.0/24", false),
            ("10.244.0.0/16", "10.255.255.0/24", false),
            ("10.244.0.0/14", "10.248.0.0/24", false),
            ("10.244.0.0/14", "10.243.255.0/24", false),
            ("a00:100::/10", "b00:100::/24", false),
            ("10.244.0.0/16", "a00:100::/24", false),
            ("10.244.0.0/16", "10.0.0.0/8", false),
            ("10.244.0.0/16", "10.244.0.0/15", true),
            ("10.244.0.0/16", "nonsense", false),
            ("10.244.0.0/16,a00:100::/10", "10.244.0.0/24", true),
            ("10.244.0.0/16,a00:100::/10", "a00:100::/24", true),
            ("10.244.0.0/16,a00:100::/10", "11.244.0.0/24", false),
        ];
        for (ranges, destination, expected) in cases {
            let ranges = Ranges::parse(ranges).unwrap();
            assert_eq!(
                ranges.are_responsible_for(destination),
                expected,
                "{destination} in {ranges:?}"
            );
        }
    }
}
