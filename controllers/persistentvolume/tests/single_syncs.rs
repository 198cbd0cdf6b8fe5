//! Upstream's tables of unit tests: single syncs (`binder_test.go`), and annotations and finalizers
//! (`pv_controller_test.go`).

use serde_json::{Map, Value, json};
use steersman_objects::{Object, PersistentVolume, PersistentVolumeClaim};
use steersman_options::features::VOLUME_ATTRIBUTES_CLASS;

use super::fake::Fake;
use crate::persistentvolume::migration;

const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

/// The member `field` of `row`, if it is set.
fn put(object: &mut Value, pointer: &str, row: &Value, field: &str) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    // A volume without the name of a claim has no `claimRef`.
    if let Some(value) = row.get(field)
        && let Some(parent) = object.pointer_mut(parent)
    {
        parent[name] = value.clone();
    }
}

/// A volume of the tables. Its source is an in-tree disk.
fn volume(row: &Value) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": row["name"], "resourceVersion": "1"},
        "spec": {
            "capacity": {"storage": row["capacity"]},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": row["policy"],
            "gcePersistentDisk": {"pdName": ""}, "volumeMode": "Filesystem",
        },
        "status": {},
    });
    if row.get("claim").is_some() {
        let of =
            json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default"});
        volume["spec"]["claimRef"] = of;
    }
    for (pointer, field) in [
        ("/metadata/annotations", "annotations"),
        ("/metadata/labels", "labels"),
        ("/spec/claimRef/name", "claim"),
        ("/spec/claimRef/uid", "uid"),
        ("/spec/storageClassName", "class"),
        ("/spec/volumeAttributesClassName", "attributesClass"),
        ("/spec/volumeMode", "mode"),
        ("/status/phase", "phase"),
        ("/status/message", "message"),
    ] {
        put(&mut volume, pointer, row, field);
    }
    volume
}

/// A claim of the tables. A bound one has the status of a volume of its size.
fn claim(row: &Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": row["name"], "namespace": "default", "resourceVersion": "1"},
        "spec": {
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "resources": {"requests": {"storage": row["request"]}}, "volumeMode": "Filesystem",
        },
        "status": {},
    });
    for (pointer, field) in [
        ("/metadata/annotations", "annotations"),
        ("/metadata/uid", "uid"),
        ("/spec/accessModes", "modes"),
        ("/spec/storageClassName", "class"),
        ("/spec/volumeAttributesClassName", "attributesClass"),
        ("/spec/volumeMode", "mode"),
        ("/spec/volumeName", "volume"),
        ("/status/phase", "phase"),
        (
            "/status/currentVolumeAttributesClassName",
            "currentAttributesClass",
        ),
    ] {
        put(&mut claim, pointer, row, field);
    }
    if let Some(labels) = row.get("selector") {
        claim["spec"]["selector"] = json!({ "matchLabels": labels });
    }
    if row["phase"] == "Bound" {
        claim["status"]["accessModes"] = json!(["ReadWriteOnce", "ReadOnlyMany"]);
        let capacity = row.get("capacity").unwrap_or(&row["request"]);
        claim["status"]["capacity"] = json!({ "storage": capacity });
    }
    claim
}

/// An object without the parts that upstream's comparison ignores.
fn comparable(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    let annotations = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.remove("SKIP");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    if let Some(Value::Object(of)) = object["spec"].get_mut("claimRef") {
        of.remove("resourceVersion");
    }
    object
}

fn rows<'a>(side: &'a Value, list: &str) -> &'a [Value] {
    side[list].as_array().unwrap()
}

/// Upstream: `TestSync` and `TestSyncBlockVolume`. Most cases have the same result without the gate
/// `VolumeAttributesClass`; the others name its state.
#[tokio::test(start_paused = true)]
async fn single_syncs_have_the_results_of_upstream() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../testdata/state-machine.json")).unwrap();
    assert_eq!(cases.len(), 75);
    for is_on in [true, false] {
        let of_state = |case: &&Value| {
            let state = case.get("attributesClasses");
            state.is_none_or(|state| *state == is_on)
        };
        single_syncs(cases.iter().filter(of_state), is_on).await;
    }
}

/// Runs `cases` with the gate `VolumeAttributesClass` in the state `is_on`.
async fn single_syncs(cases: impl Iterator<Item = &Value>, is_on: bool) {
    let gate = (!is_on).then_some(VOLUME_ATTRIBUTES_CLASS.name);
    let waiting = json!({
        "kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "wait"},
        "provisioner": "kubernetes.io/mock-volume", "volumeBindingMode": "WaitForFirstConsumer",
    });
    for case in cases {
        let name = &case["name"];
        let before = &case["before"];
        let volumes = rows(before, "volumes").iter().map(volume);
        let claims: Vec<Value> = rows(before, "claims").iter().map(claim).collect();
        let only_in_api: Vec<String> = claims
            .iter()
            .filter(|claim| !claim["metadata"]["annotations"]["SKIP"].is_null())
            .map(|claim| format!("default/{}", claim["metadata"]["name"].as_str().unwrap()))
            .collect();
        let objects: Vec<Value> = volumes.chain(claims).chain([waiting.clone()]).collect();
        let options = json!({ "onlyInAPI": only_in_api, "gateOff": gate });
        let fake = Fake::new(&objects, &options);
        let kind = case["sync"].as_str().unwrap();
        let synced = &before[format!("{kind}s")][0]["name"];
        let key = match kind {
            "claim" => format!("default/{}", synced.as_str().unwrap()),
            _ => synced.as_str().unwrap().to_owned(),
        };
        let error = fake.sync(kind, &key).await;
        fake.finish().await;
        assert_eq!(
            error.is_some(),
            case["fails"] == true,
            "{name} {is_on}: {error:?}"
        );
        let after = &case["after"];
        for row in rows(after, "volumes") {
            let found = fake.object(&format!(
                "persistentvolumes/{}",
                row["name"].as_str().unwrap()
            ));
            assert_eq!(comparable(found), comparable(volume(row)), "{name}");
        }
        for row in rows(after, "claims") {
            let path = format!(
                "persistentvolumeclaims/default/{}",
                row["name"].as_str().unwrap()
            );
            assert_eq!(
                comparable(fake.object(&path)),
                comparable(claim(row)),
                "{name}"
            );
        }
        let events: Vec<String> = fake
            .events()
            .iter()
            .map(|event| format!("{} {}", event["type"], event["reason"]).replace('"', ""))
            .collect();
        for expected in case["events"].as_array().unwrap() {
            assert!(
                events.contains(&expected.as_str().unwrap().to_owned()),
                "{name}: {events:?}"
            );
        }
    }
}

fn annotations(pairs: &[(&str, &str)]) -> Value {
    let pairs = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// Upstream: `TestAnnealMigrationAnnotations`. A cluster has no more plugins without migration that
/// a driver can replace, so `rbd` stands for one.
#[test]
fn migrated_objects_name_their_driver() {
    const CLAIM: &str = "volume.kubernetes.io/storage-provisioner";
    const OLDER: &str = "volume.beta.kubernetes.io/storage-provisioner";
    let disk = "kubernetes.io/gce-pd";
    let driver = "pd.csi.storage.gke.io";
    let rbd = "kubernetes.io/rbd";
    let rbd_driver = "rbd.csi.ceph.com";
    // (annotation of a claim, provisioner, driver before, driver after)
    let cases = [
        (CLAIM, disk, None, Some(driver)),
        (OLDER, disk, None, Some(driver)),
        (CLAIM, disk, Some("other"), Some(driver)),
        (CLAIM, disk, Some(driver), Some(driver)),
        (CLAIM, rbd, None, None),
        (CLAIM, rbd, Some(rbd_driver), None),
        (OLDER, rbd, Some(rbd_driver), None),
        (CLAIM, "non-migrated-plugin", None, None),
        ("other", "x", None, None),
        ("other", "x", Some("kept"), Some("kept")),
    ];
    for (of_claim, provisioner, before, after) in cases {
        let of_volume = if of_claim == "other" {
            "other"
        } else {
            PROVISIONED_BY
        };
        let with = |key: &'static str, driver: Option<&'static str>| {
            let driver = driver.map(|driver| (MIGRATED_TO, driver));
            let pairs: Vec<_> = [(key, provisioner)].into_iter().chain(driver).collect();
            annotations(&pairs)
        };
        let object = |annotations: Value| {
            json!({"metadata": {"name": "x", "annotations": annotations}}).to_string()
        };
        let json = object(with(of_claim, before));
        let claim = PersistentVolumeClaim::decode(json.as_bytes()).unwrap();
        let json = object(with(of_volume, before));
        let volume = PersistentVolume::decode(json.as_bytes()).unwrap();
        let bodies = [
            (migration::annealed_claim(&claim), with(of_claim, after)),
            (migration::annealed_volume(&volume), with(of_volume, after)),
        ];
        for (body, expected) in bodies {
            assert_eq!(body.is_some(), before != after, "{provisioner} {before:?}");
            if let Some(body) = body {
                let found = serde_json::to_value(body).unwrap();
                assert_eq!(found["metadata"]["annotations"], expected, "{provisioner}");
            }
        }
    }
}

/// Upstream: `TestModifyDeletionFinalizers`.
#[test]
fn finalizers_name_the_component_that_deletes_a_volume() {
    const IN_TREE: &str = "kubernetes.io/pv-controller";
    const EXTERNAL: &str = "external-provisioner.volume.kubernetes.io/finalizer";
    const CUSTOM: &str = "test.volume.kubernetes.io/finalizer";
    let csi = "rbd.csi.ceph.com";
    let mock = "kubernetes.io/mock-volume";
    // (case, provisioner, policy, finalizers before, finalizers after)
    let cases = [
        ("13-1", csi, "Delete", vec![EXTERNAL], vec![EXTERNAL]),
        ("13-2", csi, "Delete", vec![], vec![]),
        ("13-3", mock, "Delete", vec![CUSTOM], vec![CUSTOM, IN_TREE]),
        ("13-4", mock, "Delete", vec![], vec![IN_TREE]),
        ("13-5", mock, "Delete", vec![EXTERNAL], vec![IN_TREE]),
        (
            "13-6",
            mock,
            "Delete",
            vec![EXTERNAL, CUSTOM],
            vec![CUSTOM, IN_TREE],
        ),
        (
            "13-7",
            "kubernetes.io/gce-pd",
            "Delete",
            vec![EXTERNAL, IN_TREE],
            vec![EXTERNAL],
        ),
        ("13-10", "", "Delete", vec![EXTERNAL], vec![EXTERNAL]),
        ("13-11", "", "Delete", vec![], vec![]),
        ("13-12", mock, "Retain", vec![], vec![]),
        ("13-13", mock, "Recycle", vec![], vec![]),
        ("13-14", mock, "Retain", vec![IN_TREE], vec![]),
    ];
    for (case, provisioner, policy, before, after) in cases {
        let mut volume = json!({
            "metadata": {"name": "pv", "finalizers": before},
            "spec": {"persistentVolumeReclaimPolicy": policy},
        });
        if !provisioner.is_empty() {
            let driver = "pd.csi.storage.gke.io";
            volume["metadata"]["annotations"] = annotations(&[(PROVISIONED_BY, provisioner)]);
            if provisioner.ends_with("gce-pd") {
                volume["metadata"]["annotations"][MIGRATED_TO] = json!(driver);
            }
        }
        let view = PersistentVolume::decode(volume.to_string().as_bytes()).unwrap();
        let body = migration::annealed_volume(&view);
        assert_eq!(body.is_some(), before != after, "{case}");
        if let Some(body) = body {
            let found = serde_json::to_value(body).unwrap();
            let found = found["metadata"].get("finalizers").cloned();
            assert_eq!(found.unwrap_or(json!([])), json!(after), "{case}");
        }
    }
}
