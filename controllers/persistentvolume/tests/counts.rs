//! The metrics that are computed at each scrape.

use serde_json::{Value, json};

use super::fake::Fake;

fn volume(name: &str, source: &str, phase: &str) -> Value {
    json!({
        "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {source: {"path": "/x"}, "storageClassName": "fast", "volumeMode": "Filesystem"},
        "status": {"phase": phase},
    })
}

fn claim(name: &str, phase: &str) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "ns"},
        "spec": {"storageClassName": "fast", "volumeAttributesClassName": "gold"},
        "status": {"phase": phase},
    })
}

/// Upstream: `pvAndPVCCountCollector`.
#[tokio::test(start_paused = true)]
async fn claims_and_volumes_are_counted_at_each_scrape() {
    let objects = [
        volume("a", "hostPath", "Bound"),
        volume("b", "nfs", "Available"),
        volume("c", "csi", "Available"),
        claim("d", "Bound"),
        claim("e", "Pending"),
        claim("f", "Lost"),
    ];
    let fake = Fake::new(&objects, &Value::Null);
    let mut found = Vec::new();
    for family in fake.registry.gather() {
        let Some(name) = family.name().strip_prefix("pv_collector_") else {
            continue;
        };
        for metric in family.get_metric() {
            let labels: Vec<&str> = metric
                .get_label()
                .iter()
                .map(|label| label.value())
                .collect();
            let count = metric.get_gauge().get_value();
            found.push(format!("{name} {} {count}", labels.join(",")));
        }
    }
    assert_eq!(
        found,
        [
            "bound_pv_count fast 1",
            "bound_pvc_count ns,fast,gold 1",
            "total_pv_count N/A,Filesystem 1",
            "total_pv_count kubernetes.io/host-path,Filesystem 1",
            "total_pv_count kubernetes.io/nfs,Filesystem 1",
            "unbound_pv_count fast 2",
            "unbound_pvc_count ns,fast,gold 2",
        ]
    );
    fake.finish().await;
}
