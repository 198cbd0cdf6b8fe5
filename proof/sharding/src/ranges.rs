//! Ranges of the hashes of namespaces, as `shardRange` of KEP-5866 takes them.

/// One more than the largest hash.
const END: u128 = 1 << 64;

/// The 64-bit FNV-1a hash of a namespace. API servers hash `metadata.namespace` so.
pub fn hash(namespace: &str) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    namespace.bytes().fold(OFFSET_BASIS, mix)
}

/// The hashes from `start` on, up to but without `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first hash.
    pub start: u128,
    /// One more than the last hash. It may be 2^64, so it needs more than 64 bits.
    pub end: u128,
}

impl Range {
    /// Whether the objects of `namespace` belong to this range.
    pub fn contains(&self, namespace: &str) -> bool {
        let hash = u128::from(hash(namespace));
        self.start <= hash && hash < self.end
    }

    /// The value of the query parameter `shardSelector`.
    pub fn selector(&self) -> String {
        format!(
            "shardRange(object.metadata.namespace, '0x{:016x}', '0x{:016x}')",
            self.start, self.end
        )
    }
}

/// Cuts the hashes into `count` ranges of equal length.
pub fn equal(count: u32) -> Vec<Range> {
    let bound = |index: u32| u128::from(index) * END / u128::from(count);
    between((0..=count).map(bound).collect())
}

/// Cuts the hashes into at most `count` ranges of about equal weight, such as the number of pods. A namespace is never
/// cut. There are fewer ranges than `count` if there are fewer namespaces, or if a heavy one is among the last. Without
/// any weight, nothing tells where to cut, and there is one range.
pub fn weighted(namespaces: &[(&str, u64)], count: u32) -> Vec<Range> {
    let mut sorted: Vec<(u64, u64)> = namespaces
        .iter()
        .map(|(name, weight)| (hash(name), *weight))
        .collect();
    sorted.sort_unstable();
    let total: u64 = sorted.iter().map(|(_, weight)| weight).sum();
    if total == 0 {
        return equal(1);
    }
    let mut bounds = vec![0];
    let mut before = 0;
    for (hash, weight) in sorted {
        let next = bounds.len() as u64;
        if next < u64::from(count) && before * u64::from(count) >= total * next {
            bounds.push(u128::from(hash));
        }
        before += weight;
    }
    bounds.push(END);
    between(bounds)
}

fn between(bounds: Vec<u128>) -> Vec<Range> {
    let range = |pair: &[u128]| Range {
        start: pair[0],
        end: pair[1],
    };
    bounds.windows(2).map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of `count` tenants, such as `tenant-07`.
    fn tenants(count: u32) -> Vec<String> {
        (0..count)
            .map(|tenant| format!("tenant-{tenant:02}"))
            .collect()
    }

    /// The number of namespaces in each range.
    fn counts(ranges: &[Range], names: &[String]) -> Vec<usize> {
        let members = |range: &Range| names.iter().filter(|name| range.contains(name)).count();
        ranges.iter().map(members).collect()
    }

    #[test]
    fn hashes_are_those_of_the_published_test_vectors() {
        // (text, hash)
        let cases = [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ];
        for (text, expected) in cases {
            assert_eq!(hash(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_selector_names_both_bounds() {
        let ranges = equal(2);
        assert_eq!(
            ranges[1].selector(),
            "shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')"
        );
    }

    #[test]
    fn ranges_have_each_namespace_once() {
        let names = tenants(100);
        let weights: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        for ranges in [equal(1), equal(3), equal(64), weighted(&weights, 8)] {
            for name in &names {
                let owners = ranges.iter().filter(|range| range.contains(name)).count();
                assert_eq!(owners, 1, "{name} in {ranges:?}");
            }
        }
    }

    #[test]
    fn equal_ranges_keep_similar_names_together() {
        let filled = |count: u32| {
            let counts = counts(&equal(count), &tenants(100));
            counts.iter().filter(|count| **count > 0).count()
        };
        assert_eq!([filled(8), filled(64), filled(256)], [1, 1, 1]);
    }

    #[test]
    fn weighted_ranges_spread_similar_names() {
        let names = tenants(100);
        let weights: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 10)).collect();
        assert_eq!(
            counts(&weighted(&weights, 8), &names),
            [13, 12, 13, 12, 13, 12, 13, 12]
        );
    }

    #[test]
    fn a_heavy_namespace_is_in_one_range() {
        let ranges = weighted(&[("tenant-01", 900), ("tenant-02", 1), ("tenant-03", 1)], 3);
        let heavy = ranges.iter().filter(|range| range.contains("tenant-01"));
        assert_eq!(heavy.count(), 1, "{ranges:?}");
        assert!(ranges.len() <= 3, "{ranges:?}");
    }

    #[test]
    fn few_or_late_weights_give_fewer_ranges() {
        // (weights, ranges)
        let cases: [(&[(&str, u64)], usize); 5] = [
            (&[], 1),
            (&[("tenant-01", 0), ("tenant-02", 0)], 1),
            (&[("tenant-01", 5)], 1),
            (&[("tenant-01", 5), ("tenant-02", 5)], 2),
            // The hash of `tenant-03` is the largest, so all bounds would come after it.
            (&[("tenant-01", 1), ("tenant-02", 1), ("tenant-03", 900)], 1),
        ];
        for (weights, expected) in cases {
            let ranges = weighted(weights, 3);
            assert_eq!(ranges.len(), expected, "{weights:?}");
        }
    }
}
