//! The metrics of a busy manager, compared with upstream's and checked with Prometheus.

mod busy;
mod exposition;
mod prometheus;
mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use busy::Busy;
use exposition::Family;
use prometheus::Query;

/// The table of expected families, and names for its long lists of bounds.
const FAMILIES: &str = include_str!("families.txt");
const BOUNDS: &[(&str, &str)] = &[
    (
        "B1",
        "1e-08, 1e-07, 1e-06, 9.999999999999999e-06, 9.999999999999999e-05, 0.001, 0.01, 0.1, 1, 10",
    ),
    ("B2", "0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60"),
    (
        "B3",
        "64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1.048576e+06, 4.194304e+06, 1.6777216e+07",
    ),
    (
        "D15",
        "2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768",
    ),
    (
        "E15",
        "0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384",
    ),
    (
        "V",
        "0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600",
    ),
];

/// Upstream's names of the work queues that exist with `--client-ca-file` and `--cert-dir`.
const QUEUES: &[&str] = &[
    "ClusterRoleAggregator",
    "DynamicCABundle-client-ca-bundle",
    "DynamicCABundle-serving-cert",
    "DynamicConfigMapCABundle-client-ca",
    "DynamicServingCertificateController",
    "RequestHeaderAuthRequestController",
    "certificate",
    "claims",
    "cronjob",
    "daemonset",
    "daemonset-node-updates",
    "deployment",
    "device-taint-eviction-controller",
    "disruption",
    "disruption_recheck",
    "endpoint",
    "endpoint_slice",
    "endpoint_slice_mirroring",
    "ephemeral_volume",
    "garbage_collector_attempt_to_delete",
    "garbage_collector_attempt_to_orphan",
    "garbage_collector_graph_changes",
    "horizontalpodautoscaler",
    "ipaddresses",
    "job",
    "job_orphan_pod",
    "namespace",
    "node_lifecycle_controller",
    "node_lifecycle_controller_pods",
    "noexec_taint_node",
    "noexec_taint_pod",
    "orphaned_pods_nodes",
    "pvcprotection",
    "pvcs",
    "pvprotection",
    "replicaset",
    "replicationmanager",
    "resource_claim",
    "resource_quota_controller_resource_changes",
    "resourcequota_primary",
    "resourcequota_priority",
    "root_ca_cert_publisher",
    "serviceaccount",
    "stale_pod_disruption",
    "statefulset",
    "ttl_jobs_to_delete",
    "ttlcontroller",
    "vacprotection",
    "validatingadmissionpolicy-status",
    "volume_expand",
    "volumes",
];

/// The expected families of one page, by name.
fn expected(page: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::new();
    for line in FAMILIES.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [on, name, kind, labels, bounds] = cells[..] else {
            panic!("{line:?} has not five cells")
        };
        if on == page {
            families.insert(name.to_owned(), Family::new(kind, labels, bounds));
        }
    }
    families
}

/// The families of `expected` that are missing in `shown` or differ.
fn differences(
    expected: BTreeMap<String, Family>,
    shown: &BTreeMap<String, Family>,
) -> Vec<String> {
    let differs = |(name, wanted): (String, Family)| match shown.get(&name) {
        None => Some(format!("{name} is missing")),
        Some(found) if *found != wanted => Some(format!("{name}: {found:?} instead of {wanted:?}")),
        Some(_) => None,
    };
    expected.into_iter().filter_map(differs).collect()
}

/// The families in the PromQL queries of a page.
fn queried(page: &str) -> BTreeSet<&str> {
    let mut pieces: Vec<&str> = page.split("{job=\"steersman\"").collect();
    pieces.pop();
    pieces
        .into_iter()
        .map(|piece| {
            let sample = piece
                .rsplit(|c: char| !c.is_ascii_lowercase() && c != '_')
                .next()
                .unwrap_or_default();
            let family = sample.strip_suffix("_bucket");
            family
                .or_else(|| sample.strip_suffix("_count"))
                .unwrap_or(sample)
        })
        .collect()
}

#[test]
fn the_rules_of_the_objectives_pass_their_tests() {
    let Some(promtool) = prometheus::program("promtool") else {
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/slo");
    for arguments in [
        ["check", "rules", "rules.yaml"],
        ["test", "rules", "tests.yaml"],
    ] {
        let output = Command::new(&promtool)
            .args(arguments)
            .current_dir(&folder)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&said)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_families_of_upstream_have_its_type_labels_and_buckets() {
    let busy = Busy::start().await;
    busy.do_everything_once().await;
    let metrics = busy.get("/metrics");
    let shown = exposition::families(&metrics);
    assert_eq!(
        differences(expected("metrics"), &shown),
        [""; 0],
        "in\n{metrics}"
    );
    let slis = busy.get("/metrics/slis");
    assert_eq!(exposition::families(&slis), expected("slis"), "\n{slis}");

    // All other families are those of Steersman. Their labels have a small number of values.
    let ours: BTreeSet<&str> = shown
        .keys()
        .map(String::as_str)
        .filter(|name| !expected("metrics").contains_key(*name) && *name != "go_goroutines")
        .collect();
    assert!(
        ours.iter().all(|name| name.starts_with("steersman_")),
        "{ours:?}"
    );
    for name in ours {
        assert!(
            include_str!("../../docs/reference.md").contains(name),
            "docs/reference.md does not mention {name}"
        );
        let labels: BTreeSet<&str> = shown[name].labels.iter().map(String::as_str).collect();
        let few = BTreeSet::from([
            "client",
            "controller",
            "invariant",
            "lane",
            "name",
            "resource",
            "result",
            "version",
        ]);
        assert!(labels.is_subset(&few), "{name} has the labels {labels:?}");
    }
    for page in [
        include_str!("../../docs/slo.md"),
        include_str!("../../docs/slo/rules.yaml"),
    ] {
        let queried = queried(page);
        assert!(!queried.is_empty());
        for name in queried {
            assert!(
                shown.contains_key(name),
                "no metric {name}, which an objective queries"
            );
        }
    }
    let queues: BTreeSet<&str> = metrics
        .lines()
        .filter_map(|line| {
            line.strip_prefix("workqueue_adds_total{name=\"")?
                .split('"')
                .next()
        })
        .collect();
    assert_eq!(queues, QUEUES.iter().copied().collect());
    let series = metrics
        .lines()
        .filter(|line| line.starts_with("steersman_") && !line.contains("_bucket{"))
        .count();
    assert!(series < 700, "{series} series of our own\n{metrics}");
    for sample in [
        "steersman_reconcile_duration_seconds_count{controller=\"deployment-controller\",result=\"success\"}",
        "steersman_informer_objects{resource=\"pods\"}",
        "steersman_informer_bytes{resource=\"pods\"}",
        "steersman_informer_watch_age_seconds{resource=\"pods\"}",
        "steersman_informer_relists_total{resource=\"pods\"}",
        "steersman_own_write_skips_total{name=\"replicaset\",resource=\"pods\"}",
        "steersman_client_connections{lane=\"requests\"}",
        "steersman_client_connections{lane=\"watches\"}",
        "steersman_client_stream_wait_seconds_count{lane=\"requests\"}",
        "steersman_client_throttle_wait_seconds_total{client=\"replicaset-controller\"}",
    ] {
        let value = metrics
            .lines()
            .find_map(|line| line.strip_prefix(sample)?.trim().parse::<f64>().ok());
        assert!(
            value.is_some_and(|value| value > 0.0),
            "{sample} is {value:?} in\n{metrics}"
        );
    }
    busy.stop().await;
}

#[test]
fn the_table_of_families_equals_the_reference() {
    let Some(reference) = reference::families() else {
        return;
    };
    let mut table = expected("metrics");
    table.extend(expected("slis"));
    table.extend(expected("none"));
    for (name, wanted) in &reference {
        assert_eq!(table.get(name), Some(wanted), "{name}");
    }
    let unknown: Vec<&String> = table
        .keys()
        .filter(|name| !reference.contains_key(*name))
        .collect();
    assert!(unknown.is_empty(), "not in the reference: {unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn promtool_complains_only_about_upstreams_names() {
    let Some(promtool) = prometheus::program("promtool") else {
        return;
    };
    let busy = Busy::start().await;
    busy.do_everything_once().await;
    let known = expected("metrics");
    for page in ["/metrics", "/metrics/slis"] {
        for complaint in prometheus::lint(&promtool, &busy.get(page)) {
            let family = complaint.split_whitespace().next().unwrap_or_default();
            assert!(known.contains_key(family), "{page}: {complaint}");
        }
    }
    busy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_dashboard_panel_has_data_and_no_alert_fires() {
    let Some(program) = prometheus::program("prometheus") else {
        return;
    };
    let busy = Busy::start().await;
    busy.do_everything_once().await;
    // The first server scrapes text. The second one asks for protobuf, because it enables native
    // histograms.
    let arguments: [&[&str]; 2] = [&[], &["--enable-feature=native-histograms"]];
    let start = |arguments| {
        (
            prometheus::Server::start(&program, &busy, arguments),
            prometheus::queries().collect::<Vec<_>>(),
        )
    };
    let mut servers = arguments.map(start);
    let started = std::time::Instant::now();
    while servers.iter().any(|(_, waiting)| !waiting.is_empty()) {
        assert!(
            started.elapsed() < crate::support::LIMIT,
            "queries without the expected answer: {:#?}",
            servers.map(|(_, waiting)| waiting)
        );
        busy.do_something().await;
        for (server, waiting) in &mut servers {
            waiting.retain(|query| !server.answers(query));
        }
    }
    busy.stop().await;
}

/// Prometheus checks the buckets of a native histogram against its count, and refuses a wrong scrape.
#[tokio::test(flavor = "multi_thread")]
async fn prometheus_reads_native_histograms_behind_their_gate() {
    let Some(program) = prometheus::program("prometheus") else {
        return;
    };
    for native in [false, true] {
        let gate = format!("--feature-gates=NativeHistograms={native}");
        let busy = Busy::start_with(&[&gate]).await;
        busy.do_everything_once().await;
        let arguments = ["--enable-feature=native-histograms"];
        let mut server = prometheus::Server::start(&program, &busy, &arguments);
        let mut waiting = vec![
            Query::of(
                "histogram_count(endpoint_slice_controller_endpoints_added_per_sync) > 0",
                native,
            ),
            Query::of(
                "histogram_quantile(0.9, horizontal_pod_autoscaler_controller_reconciliation_duration_seconds) > 0",
                native,
            ),
            Query::of(
                "endpoint_slice_controller_endpoints_added_per_sync_count > 0",
                !native,
            ),
            // Upstream registers these before it reads the gate.
            Query::of("workqueue_queue_duration_seconds_count > 0", true),
            Query::of("histogram_count(workqueue_queue_duration_seconds)", false),
            Query::of("up == 0", false),
        ];
        let started = std::time::Instant::now();
        while !waiting.is_empty() {
            assert!(
                started.elapsed() < crate::support::LIMIT,
                "with native={native}, queries without the expected answer: {waiting:#?}"
            );
            busy.do_something().await;
            // All at once: a query without data is right before the first scrape.
            if waiting.iter().all(|query| server.answers(query)) {
                waiting.clear();
            }
        }
        busy.stop().await;
    }
}
