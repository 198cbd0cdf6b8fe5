//! Upstream's names of attachable volumes, and the resolution of claims.

use serde_json::{Value, json};

use steersman_objects::{Object, ObjectKey, PersistentVolumeClaim, Pod};
use steersman_runtime::informer::Store;

use super::*;

const CASES: &str = include_str!("testdata/volume-attachment-names.json");

fn decoded<T: Object>(object: &Value) -> T {
    T::decode(object.to_string().as_bytes()).unwrap()
}

fn store<T: Object>(objects: impl IntoIterator<Item = Value>) -> Store<T> {
    let decode = |object: Value| std::sync::Arc::new(decoded(&object));
    objects.into_iter().map(decode).collect()
}

#[test]
fn migrated_sources_have_the_names_of_upstream() {
    let cases: Value = serde_json::from_str(CASES).unwrap();
    let cases = cases["migrated"].as_array().unwrap();
    assert_eq!(cases.len(), 17);
    for case in cases {
        let name = &case["case"];
        let volume = if case["inline"] == true {
            let pod = json!({
                "metadata": {"name": "p", "namespace": case["podNamespace"]},
                "spec": {"volumes": [case["source"]]},
            });
            let pod: Pod = decoded(&pod);
            let resolver = VolumeResolver::new(store([]), store([]));
            resolver
                .resolve(&pod.meta, &pod.volumes[0])
                .unwrap()
                .unwrap()
        } else {
            let volume = json!({"metadata": case["metadata"], "spec": case["source"]});
            Volume::of_persistent_volume(&decoded(&volume))
                .unwrap()
                .unwrap()
        };
        assert_eq!(
            *volume.name,
            *case["translatedName"].as_str().unwrap(),
            "{name}"
        );
        assert_eq!(
            &*volume.unique_name,
            case["uniqueVolumeName"].as_str().unwrap(),
            "{name}"
        );
        let Plugin::Csi(csi) = &volume.plugin else {
            panic!("{name} is no CSI volume");
        };
        assert_eq!(&*csi.driver, case["driver"].as_str().unwrap(), "{name}");
        assert_eq!(
            *csi.handle,
            *case["volumeHandle"].as_str().unwrap(),
            "{name}"
        );
        assert_eq!(
            CsiVolume::of_unique_name(&volume.unique_name).as_ref(),
            Some(csi),
            "{name}"
        );
        let modes = &case["translatedAccessModes"];
        assert_eq!(
            volume.is_multi_attach,
            *modes == json!(["ReadWriteMany"]),
            "{name}"
        );
        assert!(volume.is_migrated);
        if let Some(spec) = &volume.inline_spec {
            assert_eq!(spec["csi"], case["translatedCSI"], "{name}");
            assert_eq!(spec["accessModes"], *modes, "{name}");
            assert_eq!(spec["volumeMode"], "Filesystem", "{name}");
        }
    }
}

#[test]
fn unique_names_of_csi_volumes_have_driver_and_handle() {
    let cases: Value = serde_json::from_str(CASES).unwrap();
    for case in cases["names"].as_array().unwrap() {
        let csi = json!({"driver": case["driver"], "volumeHandle": case["volumeHandle"]});
        let volume = json!({"metadata": {"name": "pv"}, "spec": {"csi": csi}});
        let volume = Volume::of_persistent_volume(&decoded(&volume))
            .unwrap()
            .unwrap();
        assert_eq!(
            &*volume.unique_name,
            case["uniqueVolumeName"].as_str().unwrap()
        );
        let Plugin::Csi(csi) = &volume.plugin else {
            panic!("no CSI volume");
        };
        assert_eq!(
            CsiVolume::of_unique_name(&volume.unique_name).as_ref(),
            Some(csi)
        );
        assert_eq!(
            volume.plugin.qualified_name(),
            format!("kubernetes.io/csi:{}", csi.driver)
        );
    }
}

#[test]
fn volumes_that_every_node_reaches_have_names_too() {
    // (source, unique name)
    let cases = [
        (
            json!({"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.a", "lun": 2}}),
            Some("kubernetes.io/iscsi/10.0.0.1:3260:iqn.a:2"),
        ),
        (
            json!({"fc": {"targetWWNs": ["a", "b"], "lun": 0}}),
            Some("kubernetes.io/fc/[a b]:0"),
        ),
        (
            json!({"fc": {"wwids": ["x"]}}),
            Some("kubernetes.io/fc/[x]"),
        ),
        (json!({"fc": {"targetWWNs": ["a"]}}), None),
        (json!({"nfs": {"server": "s", "path": "/"}}), None),
        (json!({"flexVolume": {"driver": "d"}}), None),
    ];
    for (source, expected) in cases {
        let volume = json!({"metadata": {"name": "pv"}, "spec": source});
        let found = Volume::of_persistent_volume(&decoded(&volume)).unwrap();
        let found = found.map(|volume| volume.unique_name);
        assert_eq!(found.as_deref(), expected, "{source}");
    }
}

#[test]
fn sources_without_a_form_in_csi_are_refused() {
    let azure = |fields: Value| json!({"azureDisk": fields});
    let cases = [
        (
            json!({"awsElasticBlockStore": {"volumeID": "aws://a/b/vol-1"}}),
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://a/b/vol-1)",
        ),
        (
            azure(json!({"diskURI": "d", "kind": "Shared"})),
            "kind(Shared) is not supported in csi migration",
        ),
        (
            json!({"azureFile": {"secretName": "s", "shareName": "x"}}),
            "could not find a secret namespace in PersistentVolumeSource or ClaimRef",
        ),
    ];
    for (source, why) in cases {
        let volume = json!({"metadata": {"name": "pv"}, "spec": source});
        let error = Volume::of_persistent_volume(&decoded(&volume)).unwrap_err();
        let expected = format!("failed to translate in-tree pv to CSI: {why}");
        assert_eq!(error.to_string(), expected);
    }
}

/// Upstream's cases of `TestIsMultiAttachAllowed`, for volumes that exist in 1.36.
#[test]
fn access_modes_decide_about_several_nodes() {
    let cases: [(&[&str], bool); 6] = [
        (&[], true),
        (&["ReadWriteOnce"], false),
        (&["ReadWriteMany"], true),
        (&["ReadOnlyMany"], true),
        (&["ReadOnlyMany", "ReadWriteOnce"], true),
        (&["ReadWriteOncePod"], false),
    ];
    for (modes, expected) in cases {
        let spec = json!({"accessModes": modes, "csi": {"driver": "d", "volumeHandle": "h"}});
        let volume = json!({"metadata": {"name": "pv"}, "spec": spec});
        let volume = Volume::of_persistent_volume(&decoded(&volume))
            .unwrap()
            .unwrap();
        assert_eq!(volume.is_multi_attach, expected, "{modes:?}");
    }
    let disk = |modes: Value| {
        let spec = json!({"accessModes": modes, "gcePersistentDisk": {"pdName": "d"}});
        let volume = json!({"metadata": {"name": "pv"}, "spec": spec});
        let volume = Volume::of_persistent_volume(&decoded(&volume))
            .unwrap()
            .unwrap();
        volume.is_multi_attach
    };
    assert!(!disk(json!(["ReadWriteMany"])) && disk(json!(["ReadOnlyMany"])));
}

#[test]
fn a_claim_leads_to_its_volume_only_when_both_agree() {
    let claim = |fields: Value| {
        let mut claim = json!({
            "metadata": {"name": "c", "namespace": "n", "uid": "claim"},
            "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
        });
        for (path, value) in fields.as_object().into_iter().flatten() {
            *claim.pointer_mut(path).unwrap() = value.clone();
        }
        claim
    };
    let volume = |claim: &str| {
        json!({
            "metadata": {"name": "pv"},
            "spec": {
                "csi": {"driver": "d", "volumeHandle": "h"},
                "claimRef": {"namespace": "n", "name": "c", "uid": claim},
            },
        })
    };
    let unbound = claim(json!({"/status/phase": "Pending"}));
    let unnamed = claim(json!({"/spec/volumeName": ""}));
    // (why, claim, volume, error)
    let cases = [
        ("bound", Some(claim(json!({}))), Some(volume("claim")), None),
        (
            "no claim",
            None,
            Some(volume("claim")),
            Some("failed to find PVC n/c"),
        ),
        (
            "pending",
            Some(unbound),
            Some(volume("claim")),
            Some("PVC n/c has non-bound phase"),
        ),
        (
            "without a volume",
            Some(unnamed),
            None,
            Some("PVC n/c has non-bound phase"),
        ),
        (
            "no volume",
            Some(claim(json!({}))),
            None,
            Some("failed to find PV \"pv\""),
        ),
        (
            "another claim",
            Some(claim(json!({}))),
            Some(volume("other")),
            Some("found PV object"),
        ),
    ];
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "pod"},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    });
    let pod: Pod = decoded(&pod);
    for (why, claim, volume, expected) in cases {
        let claims: Store<PersistentVolumeClaim> = store(claim);
        let resolver = VolumeResolver::new(claims, store(volume));
        let found = resolver.resolve(&pod.meta, &pod.volumes[0]);
        match expected {
            None => assert_eq!(
                &*found.unwrap().unwrap().unique_name,
                "kubernetes.io/csi/d^h"
            ),
            Some(error) => {
                let found = found.unwrap_err().to_string();
                assert!(found.starts_with(error), "{why}: {found}");
            }
        }
    }
}

#[test]
fn an_ephemeral_volume_needs_the_claim_of_its_pod() {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "pod"},
        "spec": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]},
    });
    let pod: Pod = decoded(&pod);
    for (owner, is_own) in [("pod", true), ("other", false)] {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": true});
        let claim = json!({
            "metadata": {"name": "p-v", "namespace": "n", "uid": "claim", "ownerReferences": [owner]},
            "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
        });
        let volume = json!({
            "metadata": {"name": "pv"},
            "spec": {"csi": {"driver": "d", "volumeHandle": "h"}, "claimRef": {"uid": "claim"}},
        });
        let resolver = VolumeResolver::new(store([claim]), store([volume]));
        let found = resolver.resolve(&pod.meta, &pod.volumes[0]);
        match found {
            Ok(found) => assert!(is_own && found.is_some()),
            Err(error) => {
                assert!(
                    !is_own && matches!(error, ResolveError::ForeignClaim(_)),
                    "{error}"
                );
                let key = ObjectKey::new("n", "p-v");
                assert!(error.to_string().contains(&key.to_string()));
            }
        }
    }
}
