//! `steersman dev --apply --once`, as scripts use it.

use crate::support::output;

/// A ReplicationController and a ReplicaSet of two pods each, whose simulated pods behave as told.
fn manifest(behaviour: &str) -> String {
    let template = format!(
        "template: {{metadata: {{labels: {{app: web}}, annotations: {{simulate.steersman.dev/behaviour: {behaviour}}}}}, \
         spec: {{containers: [{{name: main, image: app}}]}}}}"
    );
    format!(
        "apiVersion: v1\nkind: ReplicationController\nmetadata: {{name: old}}\nspec: {{replicas: 2, selector: {{app: web}}, {template}}}\n\
         ---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: young}}\n\
         spec: {{replicas: 2, selector: {{matchLabels: {{app: web}}}}, {template}}}\n"
    )
}

fn once(manifest: &str, timeout: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("manifest.yaml");
    std::fs::write(&file, manifest).unwrap();
    let output = output(&["dev", "--once", "--latency", "100ms", "--timeout", timeout, "--apply", file.to_str().unwrap()]);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn what_keeps_pods_counts_as_available_with_all_of_them() {
    let (status, said) = once(&manifest("normal"), "15s");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("everything is available"), "{said}");
}

#[test]
fn what_is_not_available_in_time_is_named() {
    let (status, said) = once(&manifest("fail"), "3s");
    assert_eq!(status, Some(1), "{said}");
    for expected in
        ["replicaset default/young: 0 of 2 pods available", "replicationcontroller default/old: 0 of 2 pods available"]
    {
        assert!(said.contains(expected), "no {expected:?} in:\n{said}");
    }
}
