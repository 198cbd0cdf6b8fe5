//! Upstream's tables of `cidrset/cidr_set_test.go`, and the operations on one set in
//! `testdata/node-cidrs.json`.

use serde::Deserialize;
use steersman_options::Options;

use super::super::config::Ranges;
use super::*;

const EXHAUSTED: &str =
    "CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range";

fn cidr(text: &str) -> Cidr {
    Cidr::parse(text).unwrap()
}

fn set(cluster: &str, mask: u8) -> CidrSet {
    CidrSet::new(cidr(cluster), mask)
}

impl CidrSet {
    fn allocate(&mut self) -> Option<String> {
        let (index, _) = self.take_next()?;
        Some(self.block(index).to_string())
    }

    fn occupy(&mut self, range: &str) -> Result<(), OutOfRange> {
        self.blocks_of(cidr(range))?.for_each(|block| {
            self.take(block);
        });
        Ok(())
    }

    fn release(&mut self, range: &str) -> Result<(), OutOfRange> {
        self.blocks_of(cidr(range))?.for_each(|block| {
            self.give_back(block);
        });
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    #[serde(rename = "clusterCIDR")]
    cluster: String,
    node_mask_size: u8,
    #[serde(rename = "maxCIDRs", default)]
    max: u64,
    #[serde(default)]
    ops: Vec<Operation>,
    new_error: Option<String>,
}

#[derive(Deserialize)]
struct Operation {
    op: String,
    #[serde(default)]
    count: usize,
    #[serde(default)]
    cidr: String,
    #[serde(default)]
    result: Vec<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "cidrSets")]
    sets: Vec<Case>,
}

#[test]
fn every_case_that_upstream_computed() {
    let data = include_str!("../testdata/node-cidrs.json");
    let Data { sets } = serde_json::from_str(data).unwrap();
    assert_eq!(sets.len(), 30);
    for case in sets {
        let name = &case.name;
        let mut options = Options::default();
        options.set("allocate-node-cidrs", "true").unwrap();
        options.set("cluster-cidr", &case.cluster).unwrap();
        let mask = case.node_mask_size.to_string();
        options.set("node-cidr-mask-size", &mask).unwrap();
        let ranges = Ranges::from_flags(&options).map_err(|error| error.to_string());
        if let Some(error) = case.new_error {
            assert_eq!(ranges, Err(error), "{name}");
            continue;
        }
        let ranges = ranges.unwrap().unwrap();
        let mut set = CidrSet::new(ranges.clusters[0], ranges.node_masks[0]);
        assert_eq!(set.size(), case.max, "{name}");
        for operation in case.ops {
            let error = match operation.op.as_str() {
                "allocate" => {
                    let found: Vec<_> =
                        (0..operation.count).map_while(|_| set.allocate()).collect();
                    assert_eq!(found, operation.result, "{name}");
                    (found.len() < operation.count).then(|| EXHAUSTED.to_owned())
                }
                "occupy" => set.occupy(&operation.cidr).err().map(|e| e.to_string()),
                "release" => set.release(&operation.cidr).err().map(|e| e.to_string()),
                other => panic!("{name}: unknown operation {other}"),
            };
            assert_eq!(error, operation.error, "{name}");
        }
    }
}

#[test]
fn index_to_cidr_block() {
    let cases = [
        ("127.123.3.0/16", 24, 0, "127.123.0.0/24"),
        ("127.123.0.0/16", 24, 15, "127.123.15.0/24"),
        ("192.168.5.219/28", 32, 5, "192.168.5.213/32"),
        ("2001:0db8:1234:3::/48", 64, 0, "2001:db8:1234::/64"),
        ("2001:0db8:1234::/48", 64, 15, "2001:db8:1234:f::/64"),
        (
            "2001:0db8:85a3::8a2e:0370:7334/50",
            63,
            6425,
            "2001:db8:85a3:3232::/63",
        ),
        ("2001:0db8::/32", 48, 0, "2001:db8::/48"),
        ("2001:0db8::/32", 48, 15, "2001:db8:f::/48"),
        (
            "2001:0db8:85a3::8a2e:0370:7334/32",
            48,
            6425,
            "2001:db8:1919::/48",
        ),
        ("2001:0db8:1234:ff00::/56", 72, 0, "2001:db8:1234:ff00::/72"),
        (
            "2001:0db8:1234:ff00::/56",
            72,
            15,
            "2001:db8:1234:ff00:f00::/72",
        ),
        (
            "2001:0db8:1234:ff00::0370:7334/56",
            72,
            6425,
            "2001:db8:1234:ff19:1900::/72",
        ),
        (
            "2001:0db8:1234:0:1234::/80",
            96,
            0,
            "2001:db8:1234:0:1234::/96",
        ),
        (
            "2001:0db8:1234:0:1234::/80",
            96,
            15,
            "2001:db8:1234:0:1234:f::/96",
        ),
        (
            "2001:0db8:1234:ff00::0370:7334/80",
            96,
            6425,
            "2001:db8:1234:ff00:0:1919::/96",
        ),
    ];
    for (cluster, mask, index, expected) in cases {
        let block = set(cluster, mask).block(index);
        assert_eq!(block.to_string(), expected, "{cluster} {index}");
    }
}

/// Upstream: `TestCIDRSetFullyAllocated`, `TestCIDRSet_RandomishAllocation`,
/// `TestCIDRSet_AllocationOccupied`.
#[test]
fn all_blocks_are_allocated_once_and_again_after_their_release() {
    let cases = [
        ("127.123.234.0/30", 30, 1),
        ("beef:1234::/30", 30, 1),
        ("127.123.234.0/16", 24, 256),
        ("beef:1234::/16", 24, 256),
    ];
    for (cluster, mask, size) in cases {
        let mut set = set(cluster, mask);
        let all =
            |set: &mut CidrSet| -> Vec<String> { std::iter::from_fn(|| set.allocate()).collect() };
        let first = all(&mut set);
        assert_eq!(first.len(), size, "{cluster}");
        first.iter().for_each(|block| set.release(block).unwrap());
        assert_eq!(all(&mut set), first, "{cluster}");

        first.iter().for_each(|block| set.release(block).unwrap());
        let (free, occupied) = first.split_at(size / 2);
        for block in occupied.iter().chain(occupied.first()) {
            set.occupy(block).unwrap();
        }
        assert_eq!(all(&mut set), free, "{cluster}");
    }
}

#[test]
fn double_occupy_release() {
    let mut set = set("10.42.0.0/16", 24);
    let operations = [
        ("10.42.5.0/24", true, 1),
        ("10.42.9.0/24", true, 2),
        ("10.42.8.0/22", true, 5),
        ("10.42.9.0/24", true, 5),
        ("10.42.9.0/24", false, 4),
        ("10.42.9.0/24", false, 4),
        ("10.42.4.0/22", false, 3),
    ];
    for (range, is_occupied, used) in operations {
        if is_occupied {
            set.occupy(range).unwrap();
        } else {
            set.release(range).unwrap();
        }
        assert_eq!(set.count(), used, "{range}");
    }
    let rest = std::iter::from_fn(|| set.allocate()).count();
    assert_eq!(rest, 256 - 3);
}

/// Upstream: `TestGetBitforCIDR` and `TestOccupy`.
#[test]
fn blocks_of_a_range() {
    // (cluster, mask, range, blocks)
    let cases = [
        ("127.0.0.0/8", 16, "127.0.0.0/16", Some(0..=0)),
        ("be00::/8", 16, "be00::/16", Some(0..=0)),
        ("127.0.0.0/8", 16, "127.123.0.0/16", Some(123..=123)),
        ("be00::/8", 16, "beef::/16", Some(0xef..=0xef)),
        ("127.0.0.0/8", 16, "127.168.0.0/16", Some(168..=168)),
        ("be00::/8", 16, "be68::/16", Some(0x68..=0x68)),
        ("127.0.0.0/8", 16, "127.224.0.0/16", Some(224..=224)),
        ("be00::/8", 16, "be24::/16", Some(0x24..=0x24)),
        ("192.168.0.0/16", 24, "192.168.12.0/24", Some(12..=12)),
        ("beef::/16", 24, "beef:1200::/24", Some(0x12..=0x12)),
        ("192.168.0.0/16", 24, "192.168.151.0/24", Some(151..=151)),
        ("beef::/16", 24, "beef:9700::/24", Some(0x97..=0x97)),
        ("192.168.0.0/16", 24, "127.168.224.0/24", None),
        ("beef::/16", 24, "2001:db00::/24", None),
        ("127.0.0.0/8", 16, "127.0.0.0/8", Some(0..=255)),
        (
            "2001:beef:1200::/40",
            48,
            "2001:beef:1200::/40",
            Some(0..=255),
        ),
        ("127.0.0.0/8", 16, "127.0.0.0/2", Some(0..=255)),
        (
            "2001:beef:1200::/40",
            48,
            "2001:beef:1234::/34",
            Some(0..=255),
        ),
        (
            "2001:beef:1200::/40",
            48,
            "2001:beef:1200::/48",
            Some(0..=0),
        ),
        ("127.0.0.0/8", 32, "127.0.0.0/16", Some(0..=65535)),
        (
            "2001:beef:1200::/48",
            64,
            "2001:beef:1200::/48",
            Some(0..=65535),
        ),
        ("127.0.0.0/7", 16, "127.0.0.0/15", Some(256..=257)),
        (
            "2001:beef:7f00::/39",
            48,
            "2001:beef:7f00::/47",
            Some(256..=257),
        ),
        ("127.0.0.0/7", 15, "127.0.0.0/15", Some(128..=128)),
        (
            "2001:beef:7f00::/39",
            47,
            "2001:beef:7f00::/47",
            Some(128..=128),
        ),
        ("127.0.0.0/7", 18, "127.0.0.0/15", Some(1024..=1031)),
        (
            "2001:beef:7f00::/39",
            50,
            "2001:beef:7f00::/47",
            Some(1024..=1031),
        ),
    ];
    for (cluster, mask, range, expected) in cases {
        let found = set(cluster, mask).blocks_of(cidr(range)).ok();
        assert_eq!(found, expected, "{cluster} {range}");
    }
}

/// Upstream: `TestCIDRSetv6` and `Test_getMaxCIDRs`.
#[test]
fn first_blocks_and_sizes() {
    let cases = [
        ("127.0.0.0/8", 32, 1 << 24, ["127.0.0.0/32", "127.0.0.1/32"]),
        (
            "2001:beef:1234:369b::/60",
            64,
            16,
            ["2001:beef:1234:3690::/64", "2001:beef:1234:3691::/64"],
        ),
        ("10.0.0.0/16", 24, 256, ["10.0.0.0/24", "10.0.1.0/24"]),
        (
            "2001:db8::/48",
            64,
            65536,
            ["2001:db8::/64", "2001:db8:0:1::/64"],
        ),
        ("0.0.0.0/0", 32, 1 << 32, ["0.0.0.0/32", "0.0.0.1/32"]),
    ];
    for (cluster, mask, size, blocks) in cases {
        let mut set = set(cluster, mask);
        assert_eq!(set.size(), size, "{cluster}");
        let found = [(); 2].map(|()| set.allocate().unwrap());
        assert_eq!(found, blocks, "{cluster}");
    }
}

#[test]
fn the_search_counts_the_used_blocks_that_it_skips() {
    let mut set = set("10.0.0.0/16", 24);
    set.occupy("10.0.0.0/17").unwrap();
    assert_eq!(set.take_next(), Some((128, 128)));
    assert_eq!(set.take_next(), Some((129, 0)));
}
