//! The ranges and mask sizes in the flags, with upstream's checks in upstream's order.
//!
//! Upstream: `startNodeIpamController`, `processCIDRs` and `setNodeCIDRMaskSizes` in
//! `cmd/kube-controller-manager/app/core.go`, and `NewNodeIpamController`.

use steersman_options::Options;
use steersman_values::cidr::{Cidr, Family, InvalidCidr};

/// The most IPv6 blocks of one range, as bits of their number. Upstream: `clusterSubnetMaxDiff`.
/// Upstream's bitmap has a bit for each block from the start.
const MAX_V6_BITS: u8 = 16;

/// The ranges that the allocator divides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ranges {
    /// `--cluster-cidr`, in the order of the flag.
    pub(super) clusters: Vec<Cidr>,
    /// The prefix length of a node's block, for each range of `clusters`.
    pub(super) node_masks: Vec<u8>,
    /// `--service-cluster-ip-range`. Nodes get no block of these ranges.
    pub(super) services: Vec<Cidr>,
}

/// The flags contradict each other. The texts are upstream's, except `MaskTooLong`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RangeError {
    /// An entry of `--cluster-cidr` is no range.
    #[error("invalid CIDR[{0}]: <nil> ({1})")]
    Cluster(usize, #[source] InvalidCidr),
    /// Several ranges, all of one family.
    #[error(
        "len of ClusterCIDRs=={0} and they are not configured as dual stack (at least one from each IPFamily"
    )]
    NotDualStack(usize),
    /// More than two ranges.
    #[error("length of clusterCIDRs is:{0} more than max allowed of 2")]
    TooMany(usize),
    /// Two service ranges of one family.
    #[error("serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)")]
    Services,
    /// The mask size without a family, in a dual-stack cluster.
    #[error("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")]
    MaskOfDualStack,
    /// Mask sizes with and without a family.
    #[error(
        "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags"
    )]
    TwoMasks,
    /// The mask size of a family that the cluster lacks.
    #[error("usage of --node-cidr-mask-size-{0} is not allowed for a single-stack {1} cluster")]
    OtherFamily(&'static str, &'static str),
    /// A node's block is larger than the cluster's range.
    #[error(
        "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured for CIDR family"
    )]
    MaskTooShort,
    /// A mask size above the bits of an address.
    #[error("the node CIDR mask size {mask} of cluster CIDR {cluster} must be at most {bits}")]
    MaskTooLong {
        /// The mask size.
        mask: i64,
        /// The range.
        cluster: Cidr,
        /// Bits of an address.
        bits: u8,
    },
    /// `--cidr-allocator-type` is empty. Checks of the options reject all other types.
    #[error("invalid CIDR allocator type: ")]
    AllocatorType,
    /// An IPv6 range has too many blocks.
    #[error("New CIDR set failed; the node CIDR size is too big")]
    TooManyBlocks,
}

impl Ranges {
    /// The ranges in the flags; `None` without `--allocate-node-cidrs`.
    pub(super) fn from_flags(options: &Options) -> Result<Option<Self>, RangeError> {
        if !options.bool("allocate-node-cidrs") {
            return Ok(None);
        }
        let clusters = clusters(&options.text("cluster-cidr"))?;
        let services = services(&options.text("service-cluster-ip-range"))?;
        let node_masks = node_masks(options, &clusters)?;
        if options.text("cidr-allocator-type").is_empty() {
            return Err(RangeError::AllocatorType);
        }
        for (cluster, mask) in clusters.iter().zip(&node_masks) {
            if cluster.family() == Family::V6 && mask - cluster.length() > MAX_V6_BITS {
                return Err(RangeError::TooManyBlocks);
            }
        }
        Ok(Some(Self {
            clusters,
            node_masks,
            services,
        }))
    }
}

/// At most one range per family. Upstream: `processCIDRs`.
fn clusters(text: &str) -> Result<Vec<Cidr>, RangeError> {
    let entries = text.trim().split(',').enumerate();
    let parsed: Result<Vec<Cidr>, _> = entries
        .map(|(at, entry)| Cidr::parse(entry).map_err(|error| RangeError::Cluster(at, error)))
        .collect();
    let clusters = parsed?;
    let is_dual_stack = has(&clusters, Family::V4) && has(&clusters, Family::V6);
    if clusters.len() > 1 && !is_dual_stack {
        return Err(RangeError::NotDualStack(clusters.len()));
    }
    if clusters.len() > 2 {
        return Err(RangeError::TooMany(clusters.len()));
    }
    Ok(clusters)
}

/// The service ranges. As upstream, a malformed one only causes a warning.
fn services(text: &str) -> Result<Vec<Cidr>, RangeError> {
    let given = text
        .split(',')
        .take(2)
        .filter(|text| !text.trim().is_empty());
    let parse = |text: &str| match Cidr::parse(text) {
        Ok(cidr) => Some(cidr),
        Err(error) => {
            tracing::info!(cidr = text, %error, "Warning: unsuccessful parsing of service CIDR");
            None
        }
    };
    let services: Vec<Cidr> = given.filter_map(parse).collect();
    match services[..] {
        [a, b] if a.family() == b.family() => Err(RangeError::Services),
        _ => Ok(services),
    }
}

/// The mask size for each range. 0 means that a flag is unset.
fn node_masks(options: &Options, clusters: &[Cidr]) -> Result<Vec<u8>, RangeError> {
    let any = options.int("node-cidr-mask-size");
    let v4 = options.int("node-cidr-mask-size-ipv4");
    let v6 = options.int("node-cidr-mask-size-ipv6");
    match clusters {
        [_, _, ..] if any != 0 => return Err(RangeError::MaskOfDualStack),
        [_] if any != 0 && (v4 != 0 || v6 != 0) => return Err(RangeError::TwoMasks),
        [only] if any == 0 && only.family() == Family::V6 && v4 != 0 => {
            return Err(RangeError::OtherFamily("ipv4", "IPv6"));
        }
        [only] if any == 0 && only.family() == Family::V4 && v6 != 0 => {
            return Err(RangeError::OtherFamily("ipv6", "IPv4"));
        }
        _ => {}
    }
    // Upstream's defaults are 24 and 64 bits.
    let or = |value: i64, default: i64| if value == 0 { default } else { value };
    let of_family = |family| match family {
        Family::V4 => or(any, or(v4, 24)),
        Family::V6 => or(any, or(v6, 64)),
    };
    clusters
        .iter()
        .map(|cluster| checked(*cluster, of_family(cluster.family())))
        .collect()
}

/// A block must fit into its cluster CIDR, and the mask into an address.
fn checked(cluster: Cidr, mask: i64) -> Result<u8, RangeError> {
    if mask < i64::from(cluster.length()) {
        return Err(RangeError::MaskTooShort);
    }
    let bits = cluster.family().bits();
    let short = u8::try_from(mask).ok().filter(|mask| *mask <= bits);
    short.ok_or(RangeError::MaskTooLong {
        mask,
        cluster,
        bits,
    })
}

fn has(ranges: &[Cidr], family: Family) -> bool {
    ranges.iter().any(|range| range.family() == family)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(flags: &[(&str, &str)]) -> Result<Option<Ranges>, String> {
        let mut options = Options::default();
        options.set("allocate-node-cidrs", "true").unwrap();
        for (flag, value) in flags {
            options.set(flag, value).unwrap();
        }
        Ranges::from_flags(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn without_allocation_no_flag_is_checked() {
        let flags = [("allocate-node-cidrs", "false"), ("cluster-cidr", "x")];
        assert_eq!(parsed(&flags), Ok(None));
    }

    #[test]
    fn contradicting_flags_are_refused_with_upstreams_texts() {
        let v4 = ("cluster-cidr", "10.0.0.0/16");
        let v6 = ("cluster-cidr", "fd00::/48");
        // (flags, error)
        let cases: [(&[(&str, &str)], &str); 7] = [
            (
                &[("cluster-cidr", " 10.0.0.0/16, fd00::/48")],
                "invalid CIDR[1]: <nil> (invalid CIDR address:  fd00::/48)",
            ),
            (
                &[v4, ("cidr-allocator-type", "")],
                "invalid CIDR allocator type: ",
            ),
            (
                &[v4, ("node-cidr-mask-size", "33")],
                "the node CIDR mask size 33 of cluster CIDR 10.0.0.0/16 must be at most 32",
            ),
            (
                &[v6, ("node-cidr-mask-size-ipv6", "300")],
                "the node CIDR mask size 300 of cluster CIDR fd00::/48 must be at most 128",
            ),
            (
                &[v4, ("node-cidr-mask-size", "-1")],
                "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than \
                 or equal to --node-cidr-mask-size configured for CIDR family",
            ),
            (
                &[
                    v6,
                    ("node-cidr-mask-size", "64"),
                    ("node-cidr-mask-size-ipv4", "24"),
                ],
                "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not \
                 allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset \
                 it and use IPFamily specific flags",
            ),
            (
                &[v4, ("service-cluster-ip-range", "10.1.0.0/16,10.2.0.0/16")],
                "serviceCIDR and secondaryServiceCIDR are not dualstack (from different \
                 IPfamiles)",
            ),
        ];
        for (flags, error) in cases {
            assert_eq!(parsed(flags), Err(error.to_owned()), "{flags:?}");
        }
    }

    #[test]
    fn malformed_service_ranges_are_ignored() {
        // (flag, ranges)
        let cases: [(&str, &[&str]); 5] = [
            ("", &[]),
            (" ,fd00::/112", &["fd00::/112"]),
            ("10.96.0.0/12, fd00::/112", &["10.96.0.0/12"]),
            ("x,10.96.0.0/12", &["10.96.0.0/12"]),
            ("10.96.0.0/12,fd00::/112", &["10.96.0.0/12", "fd00::/112"]),
        ];
        for (flag, expected) in cases {
            let flags = [
                ("cluster-cidr", "10.0.0.0/16"),
                ("service-cluster-ip-range", flag),
            ];
            let services = parsed(&flags).unwrap().unwrap().services;
            let services: Vec<_> = services.iter().map(ToString::to_string).collect();
            assert_eq!(services, expected, "{flag}");
        }
    }
}
