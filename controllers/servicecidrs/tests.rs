//! Whole syncs against the in-memory API server, under paused time. The tests allocate addresses, in
//! place of the API server's own loop.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, internal_error};
use steersman_devcluster::status::Status;

use super::DESCRIPTOR;
use crate::testing::world::{World, condition_of};

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

fn service_cidr(name: &str, cidrs: &[&str]) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": name}, "spec": {"cidrs": cidrs},
    })
}

fn address(name: &str) -> Value {
    let family = if name.contains(':') { "IPv6" } else { "IPv4" };
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": name, "labels": {
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            "ipaddress.kubernetes.io/ip-family": family,
        }},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}},
    })
}

impl World {
    async fn service_cidrs() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    fn ready(&self, name: &str) -> Option<(String, String)> {
        let cidr = self.find("servicecidrs", name)?;
        let (status, reason) = condition_of(&cidr, "Ready")?;
        Some((status.to_owned(), reason.to_owned()))
    }

    async fn remove(&self, plural: &str, name: &str) {
        let path = format!("/apis/networking.k8s.io/v1/{plural}/{name}");
        self.cluster.delete(&path).await.unwrap();
    }

    async fn until_gone(&self, name: &str) {
        let gone = |_: &_| self.find("servicecidrs", name).is_none();
        self.until(&format!("{name} is gone"), gone).await;
    }

    async fn until_reason(&self, name: &str, reason: &str) {
        let has_reason = |_: &_| self.ready(name).is_some_and(|(_, found)| found == reason);
        self.until(&format!("{name} has {reason:?}"), has_reason)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_service_cidr_gets_finalizer_and_condition() {
    let world = World::service_cidrs().await;
    world.create(service_cidr("c1", &["10.96.0.0/24"])).await;
    world.until_reason("c1", "").await;
    world.at_rest().await;
    let cidr = world.find("servicecidrs", "c1").unwrap();
    assert_eq!(cidr["metadata"]["finalizers"], json!([FINALIZER]));
    let condition = &cidr["status"]["conditions"][0];
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["message"], "Kubernetes Service CIDR is ready");
    assert_eq!(
        world.writes(),
        [
            "patch /apis/networking.k8s.io/v1/servicecidrs/c1 200",
            "patch /apis/networking.k8s.io/v1/servicecidrs/c1/status?fieldManager=service-cidr-controller&force=true 200",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_condition_of_another_writer_is_replaced_once() {
    let mut world = World::bare().await;
    let mut cidr = service_cidr("kubernetes", &["10.96.0.0/24"]);
    cidr["metadata"]["finalizers"] = json!(["example.com/first", FINALIZER]);
    world.create(cidr).await;
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    });
    world
        .cluster
        .patch(
            "/apis/networking.k8s.io/v1/servicecidrs/kubernetes/status",
            json!({"status": {"conditions": [ready]}}),
        )
        .await
        .unwrap();
    world.restart(&[DESCRIPTOR]).await;
    world.at_rest().await;
    assert_eq!(world.writes().len(), 1, "{:#?}", world.writes());
    world.restart(&[DESCRIPTOR]).await;
    world.at_rest().await;
    assert_eq!(world.writes().len(), 1, "{:#?}", world.writes());
}

#[tokio::test(start_paused = true)]
async fn an_unused_service_cidr_goes_after_the_grace_period() {
    let world = World::service_cidrs().await;
    world.create(service_cidr("c1", &["10.96.0.0/24"])).await;
    world.until_reason("c1", "").await;
    world.remove("servicecidrs", "c1").await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(world.find("servicecidrs", "c1").is_some());
    assert_eq!(world.writes().len(), 2, "{:#?}", world.writes());
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert!(world.find("servicecidrs", "c1").is_none());
    assert_eq!(world.writes().len(), 3, "{:#?}", world.writes());
}

/// A proxy that cannot reach the API server answers 404 as well.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_only_a_proxy_has_removed_is_removed_again() {
    let world = World::service_cidrs().await;
    world.create(service_cidr("c1", &["10.96.0.0/24"])).await;
    world.until_reason("c1", "").await;
    let proxy = Status::new(404, "NotFound", "default backend - 404");
    let patch = Matcher::new("patch", "servicecidrs");
    world.cluster.faults().reject(patch, proxy, Some(2));
    world.remove("servicecidrs", "c1").await;
    world.until_gone("c1").await;
}

#[tokio::test(start_paused = true)]
async fn a_used_service_cidr_goes_with_its_last_address() {
    let world = World::service_cidrs().await;
    world
        .create(service_cidr("c1", &["10.96.0.0/24", "fd00::/112"]))
        .await;
    world.until_reason("c1", "").await;
    world.create(address("10.96.0.7")).await;
    world.create(address("fd00::7")).await;
    world.at_rest().await;
    world.remove("servicecidrs", "c1").await;
    world.until_reason("c1", "Terminating").await;
    world.remove("ipaddresses", "10.96.0.7").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let cidr = world.find("servicecidrs", "c1").unwrap();
    let condition = &cidr["status"]["conditions"][0];
    assert_eq!(condition["status"], "False");
    assert_eq!(
        condition["message"],
        "There are still IPAddresses referencing the ServiceCIDR, please remove them or create \
         a new ServiceCIDR"
    );
    world.remove("ipaddresses", "fd00::7").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.find("servicecidrs", "c1").is_none());
}

/// Upstream: `TestMigrateServiceCIDR`, without the allocation of addresses.
#[tokio::test(start_paused = true)]
async fn a_larger_service_cidr_frees_a_used_one() {
    let world = World::service_cidrs().await;
    world.create(service_cidr("c1", &["10.96.0.0/24"])).await;
    world.until_reason("c1", "").await;
    world.create(address("10.96.0.7")).await;
    world.at_rest().await;
    world.remove("servicecidrs", "c1").await;
    world.until_reason("c1", "Terminating").await;
    world.create(service_cidr("c2", &["10.96.0.0/16"])).await;
    world.until_gone("c1").await;
    world.until_reason("c2", "").await;
    world.remove("servicecidrs", "c2").await;
    world.until_reason("c2", "Terminating").await;
}

/// Upstream: the rows about a partial overlap of `TestServiceCIDRMigrationScenarios`.
#[tokio::test(start_paused = true)]
async fn a_smaller_service_cidr_frees_the_addresses_inside_it() {
    // (address, blocks the deletion)
    for (ip, blocks) in [
        ("10.96.0.5", false),
        ("10.96.0.15", true),
        ("10.96.0.200", true),
        ("10.97.0.1", false),
    ] {
        let world = World::service_cidrs().await;
        world.create(service_cidr("c1", &["10.96.0.0/24"])).await;
        world.create(service_cidr("c2", &["10.96.0.0/28"])).await;
        world.create(address(ip)).await;
        world.at_rest().await;
        world.remove("servicecidrs", "c1").await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(world.find("servicecidrs", "c1").is_some(), blocks, "{ip}");
        assert!(world.find("servicecidrs", "c2").is_some(), "{ip}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_condition_is_reported_and_dropped_after_fifteen_retries() {
    let world = World::service_cidrs().await;
    let status = Matcher::new("patch", "servicecidrs").subresource("status");
    let fails = world
        .cluster
        .faults()
        .reject(status, internal_error(), None);
    world.create(service_cidr("c1", &["10.96.0.0/24"])).await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(world.cluster.faults().hits(fails), 16);
    let events = world.state().events_about("c1");
    let (reason, message) = &events[0];
    assert_eq!(reason, "KubernetesServiceCIDRError");
    assert_eq!(
        message,
        "The ServiceCIDR Status can not be set to Ready=True"
    );
    assert_eq!(world.cluster.objects("events")[0]["type"], "Warning");
    world.cluster.faults().remove(fails);
    world
        .cluster
        .patch(
            "/apis/networking.k8s.io/v1/servicecidrs/c1",
            json!({"metadata": {"labels": {"touched": "1"}}}),
        )
        .await
        .unwrap();
    world.until_reason("c1", "").await;
}

/// Upstream: `TestControllerSync`.
#[tokio::test(start_paused = true)]
async fn controller_sync() {
    const OWN: [&str; 2] = ["192.168.0.0/24", "2001:db2::/64"];
    const REMOVED: (bool, bool) = (true, false);
    const BLOCKED: (bool, bool) = (false, true);
    // (case, ranges of another ServiceCIDR, address, (finalizer removed, status written))
    let cases: [(&str, Option<[&str; 2]>, Option<&str>, (bool, bool)); 11] = [
        ("must remove the finalizer", None, None, REMOVED),
        ("with IPv4 addresses", None, Some("192.168.0.1"), BLOCKED),
        (
            "same range and IPv4 addresses",
            Some(OWN),
            Some("192.168.0.1"),
            REMOVED,
        ),
        (
            "overlapping and IPv4 addresses",
            Some(["192.168.0.0/16", "2001:db2::/64"]),
            Some("192.168.0.1"),
            REMOVED,
        ),
        (
            "not overlapping and IPv4 addresses",
            Some(["192.168.255.0/26", "2001:db2::/64"]),
            Some("192.168.0.1"),
            BLOCKED,
        ),
        ("with IPv6 addresses", None, Some("2001:db2::1"), BLOCKED),
        (
            "same range and IPv6 addresses",
            Some(OWN),
            Some("2001:db2::1"),
            REMOVED,
        ),
        (
            "overlapping and IPv6 addresses",
            Some(["192.168.0.0/16", "2001:db2::/48"]),
            Some("2001:db2::1"),
            REMOVED,
        ),
        (
            "not overlapping and IPv6 addresses",
            Some(["192.168.255.0/26", "2001:db2:a:b::/64"]),
            Some("2001:db2::1"),
            BLOCKED,
        ),
        ("address of another range", None, Some("10.0.0.1"), REMOVED),
        ("subnet address", None, Some("2001:db2::"), REMOVED),
    ];
    for (case, other, ip, expected) in cases {
        let mut world = World::bare().await;
        let mut deleted = service_cidr("deleted-cidr", &OWN);
        deleted["metadata"]["finalizers"] = json!([FINALIZER]);
        world.create(deleted).await;
        if let Some(cidrs) = other {
            world.create(service_cidr("overlapping", &cidrs)).await;
        }
        if let Some(ip) = ip {
            world.create(address(ip)).await;
        }
        world.remove("servicecidrs", "deleted-cidr").await;
        tokio::time::sleep(Duration::from_secs(11)).await;
        world.restart(&[DESCRIPTOR]).await;
        world.at_rest().await;
        let sent = |end: &str| {
            let path = format!("/servicecidrs/deleted-cidr{end}");
            world.writes().iter().any(|write| write.contains(&path))
        };
        assert_eq!((sent(" 200"), sent("/status?")), expected, "{case}");
        let is_gone = world.find("servicecidrs", "deleted-cidr").is_none();
        assert_eq!(is_gone, expected.0, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_waits_for_its_caches_before_it_removes_a_finalizer() {
    let mut world = World::bare().await;
    let mut cidr = service_cidr("c1", &["10.96.0.0/24"]);
    cidr["metadata"]["finalizers"] = json!([FINALIZER]);
    let created = world.create(cidr).await;
    let version = |object: &Value| {
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
    };
    let before: u64 = version(&created).unwrap();
    world.remove("servicecidrs", "c1").await;
    let late = world.create(address("10.96.0.7")).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    // The cache of addresses is older than the address, and than the term.
    let lists = Matcher::new("list", "ipaddresses").client("shared-informers");
    let lists = world.cluster.faults().hold_view(lists, before);
    let watches = Matcher::new("watch", "ipaddresses").client("shared-informers");
    let watches = world.cluster.faults().hold_view(watches, before);
    let term: u64 = version(&late).unwrap();
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.term_start_rv = term;
            context
        })
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(world.find("servicecidrs", "c1").is_some());
    world.cluster.faults().remove(lists);
    world.cluster.faults().remove(watches);
    world.cluster.faults().break_watches("ipaddresses");
    world.until_reason("c1", "Terminating").await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_quiet_caches_asks_the_api_server() {
    let mut world = World::bare().await;
    let mut cidr = service_cidr("c1", &["10.96.0.0/24"]);
    cidr["metadata"]["finalizers"] = json!([FINALIZER]);
    world.create(cidr).await;
    world.remove("servicecidrs", "c1").await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    // No event brings the caches to the start of the term.
    let term = world.cluster.revision() + 1_000_000;
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.term_start_rv = term;
            context
        })
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.find("servicecidrs", "c1").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_removes_no_finalizer_of_a_namesake() {
    let mut world = World::bare().await;
    let mut cidr = service_cidr("c1", &["10.96.0.0/24"]);
    cidr["metadata"]["finalizers"] = json!([FINALIZER]);
    world.create(cidr.clone()).await;
    world.remove("servicecidrs", "c1").await;
    let before = world.cluster.revision();
    let path = "/apis/networking.k8s.io/v1/servicecidrs/c1";
    let nothing = json!({"metadata": {"finalizers": null}});
    world.cluster.patch(path, nothing).await.unwrap();
    world.create(cidr).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    for verb in ["list", "watch"] {
        let informers = Matcher::new(verb, "servicecidrs").client("shared-informers");
        world.cluster.faults().hold_view(informers, before);
    }
    world.restart(&[DESCRIPTOR]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let writes = world.writes();
    assert!(
        writes.iter().any(|write| write.ends_with("c1 422")),
        "{writes:#?}"
    );
    let cidr = world.find("servicecidrs", "c1").unwrap();
    assert_eq!(cidr["metadata"]["finalizers"], json!([FINALIZER]));
}

#[tokio::test(start_paused = true)]
async fn a_takeover_at_rest_writes_nothing() {
    let mut world = World::service_cidrs().await;
    world.create(service_cidr("c1", &["10.96.0.0/24"])).await;
    world.create(service_cidr("c2", &["10.97.0.0/24"])).await;
    world.create(address("10.97.0.7")).await;
    world.at_rest().await;
    world.remove("servicecidrs", "c2").await;
    world.until_reason("c2", "Terminating").await;
    world.at_rest().await;
    let before = world.writes().len();
    world.restart(&[DESCRIPTOR]).await;
    world.at_rest().await;
    assert_eq!(world.writes().len(), before, "{:#?}", world.writes());
    assert_eq!(world.ready("c1"), Some(("True".to_owned(), String::new())));
}
