//! Recycler pods and their templates.

use serde_json::{Value, json};
use steersman_objects::{Object, PersistentVolume};
use steersman_options::Options;
use steersman_options::features::FeatureGates;

use crate::persistentvolume::config::Config;

fn volume(source: Value, capacity: &str) -> PersistentVolume {
    let mut volume = json!({"metadata": {"name": "pv"}, "spec": source});
    volume["spec"]["capacity"] = json!({"storage": capacity});
    PersistentVolume::decode(volume.to_string().as_bytes()).unwrap()
}

fn config(flags: &[(&str, &str)]) -> Result<Config, String> {
    let mut options = Options::default();
    for (flag, value) in flags {
        options.set(flag, value).unwrap();
    }
    Config::of(&options, &FeatureGates::default()).map_err(|error| error.to_string())
}

/// Upstream: `TestCalculateTimeoutForVolume`.
#[test]
fn the_time_limit_of_recycler_pods_grows_with_the_volume() {
    let host_path = json!({"hostPath": {"path": "/x"}});
    let nfs = json!({"nfs": {"server": "s"}});
    // (source, capacity, seconds)
    let cases = [
        (&nfs, "40Gi", 1200),
        (&nfs, "10Gi", 300),
        (&nfs, "500M", 300),
        (&host_path, "10Gi", 300),
        (&host_path, "1Gi", 60),
        (&host_path, "1.9Gi", 60),
    ];
    let config = config(&[]).unwrap();
    for (source, capacity, seconds) in cases {
        let pod = config
            .recycler_pod(&volume(source.clone(), capacity), "r")
            .unwrap();
        assert_eq!(pod["spec"]["activeDeadlineSeconds"], seconds, "{capacity}");
    }
    let csi = volume(json!({"csi": {"driver": "d"}}), "1Gi");
    assert_eq!(config.recycler_pod(&csi, "r"), None);
}

/// A configuration with this text as the template of NFS.
fn with_template(text: &str) -> Result<Config, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    let config = config(&[("pv-recycler-pod-template-filepath-nfs", path)]);
    config.map_err(|error| error.replace(path, "FILE"))
}

#[test]
fn a_template_keeps_all_but_its_first_source() {
    let template = "
metadata: {generateName: x-, namespace: tools, labels: {a: b}}
spec:
  volumes: [{name: data, emptyDir: {}}, {name: other, emptyDir: {}}]
  containers: [{name: c, image: scrub}]
";
    let nfs = volume(json!({"nfs": {"server": "s", "path": "/p"}}), "1Gi");
    let pod = with_template(template)
        .unwrap()
        .recycler_pod(&nfs, "recycler-for-pv");
    let expected = json!({
        "metadata": {"name": "recycler-for-pv", "namespace": "tools", "labels": {"a": "b"}},
        "spec": {
            "activeDeadlineSeconds": 300,
            "volumes": [
                {"name": "data", "nfs": {"server": "s", "path": "/p"}},
                {"name": "other", "emptyDir": {}},
            ],
            "containers": [{"name": "c", "image": "scrub"}],
        },
    });
    assert_eq!(pod, Some(expected));
}

#[test]
fn an_unusable_template_prevents_the_start() {
    let error = |text| with_template(text).unwrap_err();
    assert_eq!(
        error("spec: {containers: []}"),
        "pod specification (FILE): does not contain any volume(s)"
    );
    assert!(error("{").starts_with("failed decoding file: "));
    let missing = config(&[("pv-recycler-pod-template-filepath-hostpath", "/missing")]);
    assert_eq!(
        missing.unwrap_err(),
        "failed to read file path /missing: open /missing: no such file or directory"
    );
}
