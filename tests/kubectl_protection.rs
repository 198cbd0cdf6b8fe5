//! Volumes that finalizers protect, under the commands of the real kubectl.

use crate::harness::Cluster;

/// A claim, and a pod that uses it.
const USED: &str = "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: app}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
";

/// A pod with a claim of its own.
const EPHEMERAL: &str = "apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: app}]
  volumes:
  - name: scratch
    ephemeral:
      volumeClaimTemplate:
        metadata: {labels: {app: web}}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

fn cluster() -> Option<Cluster> {
    Cluster::start()?.embedded("a provisioner of volumes is necessary")
}

#[test]
fn a_used_claim_is_terminating_until_its_pod_is_gone() {
    let Some(cluster) = cluster() else { return };
    cluster.apply(USED);
    cluster.kubectl("wait --for=condition=Ready pod/user --timeout=60s");
    let volume = cluster.get("pvc/data", "{.spec.volumeName}");
    cluster.kubectl("delete pvc data --wait=false");
    cluster.eventually("get pvc data", |shown| shown.contains("Terminating"));
    let described = cluster.kubectl("describe pvc data");
    assert!(described.contains("Used By:       user"), "{described}");
    assert!(
        described.contains("[kubernetes.io/pvc-protection]"),
        "{described}"
    );
    cluster.kubectl(&format!("delete pv {volume} --wait=false"));
    cluster.eventually(&format!("get pv {volume}"), |shown| {
        shown.contains("Terminating")
    });

    cluster.kubectl("delete pod user");
    cluster.kubectl("wait --for=delete pvc/data --timeout=60s");
    cluster.kubectl(&format!("wait --for=delete pv/{volume} --timeout=60s"));
}

#[test]
fn a_class_is_terminating_until_no_claim_names_it() {
    let Some(cluster) = cluster() else { return };
    let class = format!("gold-{}", cluster.namespace());
    cluster.apply(&format!(
        "apiVersion: storage.k8s.io/v1\nkind: VolumeAttributesClass\nmetadata: {{name: {class}}}\ndriverName: d\n\
         parameters: {{iops: '1'}}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data}}\nspec:\n  \
         volumeAttributesClassName: {class}\n  accessModes: [ReadWriteOnce]\n  resources: {{requests: {{storage: 1Gi}}}}\n"
    ));
    cluster.kubectl(&format!("delete vac {class} --wait=false"));
    let finalizers = format!("get vac {class} -o jsonpath={{.metadata.finalizers}}");
    assert_eq!(
        cluster.kubectl(&finalizers),
        r#"["kubernetes.io/vac-protection"]"#
    );
    cluster.kubectl("delete pvc data");
    cluster.kubectl(&format!("wait --for=delete vac/{class} --timeout=60s"));
}

#[test]
fn a_pod_with_an_ephemeral_volume_waits_for_its_claim_and_takes_it_along() {
    let Some(cluster) = cluster() else { return };
    cluster.apply(EPHEMERAL);
    cluster.kubectl("wait --for=condition=Ready pod/user --timeout=60s");
    assert_eq!(cluster.get("pvc/user-scratch", "{.status.phase}"), "Bound");
    assert_eq!(
        cluster.get("pvc/user-scratch", "{.metadata.labels.app}"),
        "web"
    );
    cluster.kubectl("delete pod user");
    cluster.kubectl("wait --for=delete pvc/user-scratch --timeout=60s");
}
