//! Upstream's tables of `servicecidr_test.go` and `servicecidrs_controller_test.go`.

use serde_json::json;

use super::*;

fn service_cidr(name: &str, cidrs: &[&str]) -> Arc<ServiceCidr> {
    let json = json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}});
    Arc::new(ServiceCidr::decode(json.to_string().as_bytes()).unwrap())
}

fn address(name: &str, manager: &str) -> Arc<IpAddress> {
    let family = if name.contains(':') { "IPv6" } else { "IPv4" };
    let labels = json!({MANAGED_BY: manager, FAMILY: family});
    let json = json!({"metadata": {"name": name, "labels": labels}});
    Arc::new(IpAddress::decode(json.to_string().as_bytes()).unwrap())
}

fn names(keys: BTreeSet<ObjectKey>) -> Vec<String> {
    keys.iter().map(|key| key.name.to_string()).collect()
}

const OWN: [&str; 2] = ["192.168.0.0/24", "2001:db2::/64"];
/// ServiceCIDRs of upstream's tables: name and ranges.
const KUBERNETES: (&str, [&str; 2]) = ("kubernetes", OWN);
const UNRELATED: [(&str, &[&str]); 2] = [
    ("unrelated", &["10.0.0.0/24"]),
    ("unrelated2", &["10.0.0.0/16"]),
];

fn all(others: &[(&str, &[&str])], has_own: bool) -> Vec<Arc<ServiceCidr>> {
    let own = has_own.then(|| service_cidr(KUBERNETES.0, &KUBERNETES.1));
    let others = others.iter().map(|(name, cidrs)| service_cidr(name, cidrs));
    own.into_iter().chain(others).collect()
}

/// Upstream: `TestController_canDeleteCIDR`.
#[test]
fn can_delete_cidr() {
    let overlapping = |v4| [("overlapping", [v4, OWN[1]])];
    // (case, other ServiceCIDRs, address, may go)
    let cases = [
        ("CIDR and no IPs", None, None, true),
        ("CIDR with IPs", None, Some("192.168.0.24"), false),
        ("CIDR without IPs", None, Some("192.168.1.24"), true),
        (
            "CIDR with IPv4 address referencing the subnet address",
            None,
            Some("192.168.0.0"),
            true,
        ),
        (
            "CIDR with IPv4 address referencing the broadcast address",
            None,
            Some("192.168.0.255"),
            true,
        ),
        (
            "CIDR with IPv6 address referencing the broadcast address",
            None,
            Some("2001:0db2::ffff:ffff:ffff:ffff"),
            false,
        ),
        (
            "CIDR with same range overlapping and IPs",
            Some("192.168.0.0/24"),
            Some("192.168.0.23"),
            true,
        ),
        (
            "CIDR with smaller range overlapping and IPs",
            Some("192.168.0.0/26"),
            Some("192.168.0.23"),
            true,
        ),
        (
            "CIDR with smaller range overlapping but IPs orphan",
            Some("192.168.0.0/28"),
            Some("192.168.0.23"),
            false,
        ),
        (
            "CIDR with larger range overlapping and IPs",
            Some("192.168.0.0/16"),
            Some("192.168.0.23"),
            true,
        ),
        (
            "last address of the smaller range",
            Some("192.168.0.0/28"),
            Some("192.168.0.15"),
            false,
        ),
    ];
    let own = service_cidr(KUBERNETES.0, &KUBERNETES.1);
    assert!(may_go(&[], &[], &own), "empty");
    for (case, other, ip, expected) in cases {
        let others = other.map(overlapping);
        let mut all = all(&[], true);
        for (name, cidrs) in others.into_iter().flatten() {
            all.push(service_cidr(name, &cidrs));
        }
        let ips: Vec<_> = ip.map(|ip| address(ip, ALLOCATOR)).into_iter().collect();
        assert_eq!(may_go(&all, &ips, &own), expected, "{case}");
        let foreign: Vec<_> = ip
            .map(|ip| address(ip, "example.com"))
            .into_iter()
            .collect();
        assert!(may_go(&all, &foreign, &own), "{case}, other manager");
    }
}

#[test]
fn a_dual_stack_service_cidr_needs_a_parent_for_each_family() {
    let own = service_cidr(KUBERNETES.0, &KUBERNETES.1);
    let ips = [
        address("192.168.0.1", ALLOCATOR),
        address("2001:db2::1", ALLOCATOR),
    ];
    // (ranges of others, may go)
    let cases: [(&[&str], bool); 4] = [
        (&["192.168.0.0/16", "2001:db2::/48"], true),
        (&["192.168.0.0/16"], false),
        (&["2001:db2::/64"], false),
        (&[], false),
    ];
    for (others, expected) in cases {
        let mut all = all(&[], true);
        all.push(service_cidr("other", others));
        assert_eq!(may_go(&all, &ips, &own), expected, "{others:?}");
    }
    let separate = [
        Arc::clone(&own),
        service_cidr("v4", &["192.168.0.0/16"]),
        service_cidr("v6", &["2001:db2::/48"]),
    ];
    assert!(may_go(&separate, &ips, &own));
}

/// Upstream: `TestController_ipToCidrs`.
#[test]
fn ip_to_cidrs() {
    const SAME: (&str, &[&str]) = ("overlapping", &OWN);
    const LESS: (&str, &[&str]) = ("overlapping2", &["192.168.0.0/26", "2001:db2::/96"]);
    const EQUAL: (&str, &[&str]) = ("overlapping", &["192.168.0.0/24", "2001:db2::/96"]);
    // (case, other ServiceCIDRs, address, found)
    let cases: [(&str, &[(&str, &[&str])], &str, &[&str]); 7] = [
        ("one CIDR", &[], "192.168.0.23", &["kubernetes"]),
        (
            "two equal CIDR",
            &[EQUAL],
            "192.168.0.23",
            &["kubernetes", "overlapping"],
        ),
        (
            "three CIDR",
            &[SAME, LESS],
            "192.168.0.23",
            &["kubernetes", "overlapping", "overlapping2"],
        ),
        ("IPv4 subnet address", &[SAME, LESS], "192.168.0.0", &[]),
        (
            "IPv4 broadcast address",
            &[SAME, LESS],
            "192.168.0.63",
            &["kubernetes", "overlapping"],
        ),
        ("IPv6 subnet address", &[SAME, LESS], "2001:db2::", &[]),
        (
            "IPv6 broadcast address",
            &[SAME, LESS],
            "2001:0db2::ffff:ffff:ffff:ffff",
            &["kubernetes", "overlapping"],
        ),
    ];
    let ip = address("192.168.0.23", ALLOCATOR);
    assert_eq!(names(containing(&[], &ip)), [""; 0], "empty");
    for (case, others, ip, expected) in cases {
        let all = all(&[others, &UNRELATED[..]].concat(), true);
        let found = containing(&all, &address(ip, ALLOCATOR));
        assert_eq!(names(found), expected, "{case}");
        let foreign = containing(&all, &address(ip, "example.com"));
        assert_eq!(names(foreign), [""; 0], "{case}, other manager");
    }
}

/// Upstream: `TestController_cidrToCidrs`.
#[test]
fn cidr_to_cidrs() {
    const SAME: (&str, &[&str]) = ("overlapping", &OWN);
    const LESS: (&str, &[&str]) = ("overlapping2", &["192.168.0.0/26", "2001:db2::/96"]);
    const EQUAL: (&str, &[&str]) = ("overlapping", &["192.168.0.0/24", "2001:db2::/96"]);
    let own = service_cidr(KUBERNETES.0, &KUBERNETES.1);
    assert_eq!(names(overlapping(&[], &own)), [""; 0], "empty");
    // (case, other ServiceCIDRs, found)
    let cases: [(&str, &[(&str, &[&str])], &[&str]); 3] = [
        ("one CIDR", &[], &["kubernetes"]),
        ("two equal CIDR", &[EQUAL], &["kubernetes", "overlapping"]),
        (
            "three CIDR",
            &[SAME, LESS],
            &["kubernetes", "overlapping", "overlapping2"],
        ),
    ];
    for (case, others, expected) in cases {
        let all = all(&[others, &UNRELATED[..]].concat(), true);
        assert_eq!(names(overlapping(&all, &own)), expected, "{case}");
    }
}

/// Upstream: `Test_PrefixContainIP`, `TestBroadcastAddress`.
#[test]
fn prefix_contains_ip() {
    // (range, address, can be allocated)
    let cases = [
        ("192.168.0.0/24", "192.168.0.1", true),
        ("192.168.0.0/24", "192.168.0.0", false),
        ("192.168.0.0/24", "192.168.0.255", false),
        ("192.168.0.0/24", "192.168.0.254", true),
        ("192.168.0.0/24", "192.168.1.2", false),
        ("192.168.0.0/16", "192.168.0.255", true),
        ("192.168.0.0/16", "192.168.255.255", false),
        ("192.168.0.0/30", "192.168.0.3", false),
        ("192.168.0.0/32", "192.168.0.0", false),
        ("2001:db2::/96", "2001:db2::1", true),
        ("2001:db2::/96", "2001:db2::", false),
        ("2001:db2::/96", "2001:db2::ffff:ffff", true),
        ("2001:db2::/96", "2001:db2:a:b::", false),
        ("2001:db2::/96", "192.168.0.1", false),
    ];
    for (range, address, expected) in cases {
        let range = Cidr::parse(range).unwrap();
        let found = can_allocate(range, address.parse().unwrap());
        assert_eq!(found, expected, "{range} {address}");
    }
}
