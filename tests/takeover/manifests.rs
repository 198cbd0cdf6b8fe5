//! The objects of a cluster that is handed over.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::snapshot::Resource;
use crate::harness::Cluster;

/// Workloads, budgets and Services, in addition to those of [`manifests`].
pub(super) const WORKLOADS: &str = include_str!("workloads.yaml");

/// Volumes, devices, quotas, autoscalers and policies; `NAMESPACE` is the place of the namespace.
pub(super) const STORAGE: &str = include_str!("storage.yaml");

/// Accounts, tokens, roles, address ranges and a lost node.
pub(super) const CLUSTER: &str = include_str!("cluster.yaml");

/// The objects of a sentinel; `SENTINEL` is the place of its name, `REQUEST` of a request for a certificate.
pub(super) const SENTINEL: &str = include_str!("sentinel.yaml");

/// Commands that create objects outside the namespace of the test.
pub(super) const ELSEWHERE: [&str; 2] = [
    "create secret generic bootstrap-token-abcdef -n kube-system --type=bootstrap.kubernetes.io/token \
     --from-literal=token-id=abcdef --from-literal=token-secret=0123456789abcdef \
     --from-literal=expiration=2099-01-01T00:00:00Z --from-literal=usage-bootstrap-signing=true",
    "create configmap cluster-info -n kube-public --from-literal=kubeconfig={}",
];

/// Annotation of nodes whose volumes the attach-detach controller attaches.
pub(super) const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// Annotation with the behaviour of simulated pods.
const BEHAVIOUR: &str = "simulate.steersman.dev/behaviour";

/// A workload object of the group `apps`, or a ReplicationController.
fn object(kind: &str, name: &str, spec: Value) -> Value {
    let api_version = if kind == "ReplicationController" {
        "v1"
    } else {
        "apps/v1"
    };
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn template(name: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

/// The spec of a workload with `replicas` pods; `more` overrides fields.
fn spec(name: &str, replicas: u32, more: Value) -> Value {
    let mut spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, "app:v1")});
    for (field, value) in more.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    spec
}

/// A template with quantities that the API server does not print in this form. Its hash must not
/// depend on the form.
fn unusual_quantities() -> Value {
    let mut template = template("odd", "app:v1");
    template["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": "1000m", "memory": "1048576Ki"}, "requests": {"cpu": 0.25}});
    template["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {"sizeLimit": "64Mi"}}]);
    template
}

/// The objects that exist before the first manager starts: ReplicaSets to adopt, and Deployments of
/// every kind.
pub(super) fn manifests() -> Vec<Value> {
    let mut stalled = template("stalled", "registry.invalid/never:v1");
    stalled["metadata"]["annotations"] = json!({BEHAVIOUR: "never-ready"});
    let deployment =
        |name: &str, replicas, more| object("Deployment", name, spec(name, replicas, more));
    vec![
        object("ReplicaSet", "orphan", spec("adopted", 1, json!({}))),
        deployment("adopted", 1, json!({})),
        deployment("complete", 3, json!({})),
        deployment("rolled", 2, json!({"minReadySeconds": 1})),
        deployment(
            "undone",
            2,
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}}),
        ),
        deployment("recreated", 2, json!({"strategy": {"type": "Recreate"}})),
        deployment(
            "stalled",
            2,
            json!({"progressDeadlineSeconds": 2, "template": stalled}),
        ),
        deployment("endless", 1, json!({"progressDeadlineSeconds": i32::MAX})),
        deployment("born-paused", 1, json!({"paused": true})),
        deployment("paused", 1, json!({})),
        deployment("zero", 0, json!({})),
        deployment("odd", 1, json!({"template": unusual_quantities()})),
        object(
            "ReplicaSet",
            "set",
            spec("set", 2, json!({"minReadySeconds": 1})),
        ),
        object(
            "ReplicationController",
            "controller",
            spec("controller", 2, json!({"selector": {"app": "controller"}})),
        ),
        object(
            "ReplicationController",
            "patient",
            spec(
                "patient",
                1,
                json!({"selector": {"app": "patient"}, "minReadySeconds": 1}),
            ),
        ),
    ]
}

/// Deployments without pods, with templates of every group of fields, and the template hashes that
/// upstream computes.
pub(super) fn hashed() -> Vec<(Value, String)> {
    let lines = include_str!("../../crates/objects/src/template/testdata/cases.jsonl").lines();
    let cases = lines.map(|line| serde_json::from_str::<Value>(line).expect("a case a line"));
    let is_plain = |case: &Value| {
        case["collisionCount"].is_null()
            && !case["name"].as_str().is_some_and(|name| name.contains(' '))
    };
    let made = cases.filter(is_plain).map(|case| {
        let app = case["template"]["metadata"]["labels"]["app"].clone();
        let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": app}}, "template": case["template"]});
        let name = case["name"].as_str().expect("a name");
        (object("Deployment", &format!("hash-{name}"), spec), case["hash"].as_str().expect("a hash").to_owned())
    });
    made.collect()
}

/// A request for a client certificate of a node, in base64.
pub(super) fn certificate_request(name: &str) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, value) in [
        (rcgen::DnType::OrganizationName, "system:nodes"),
        (rcgen::DnType::CommonName, name),
    ] {
        params.distinguished_name.push(kind, value);
    }
    let key = rcgen::KeyPair::generate().unwrap();
    STANDARD.encode(params.serialize_request(&key).unwrap().pem().unwrap())
}

/// Creates requests for certificates: one that is signed, one that its signer refuses, one that is denied, and one
/// of an unknown signer.
pub(super) fn certificate_requests(cluster: &Cluster) {
    for (name, signer, usage) in [
        (
            "kubelet",
            "kubernetes.io/kube-apiserver-client-kubelet",
            "client auth",
        ),
        (
            "wrong",
            "kubernetes.io/kube-apiserver-client",
            "server auth",
        ),
        (
            "denied",
            "kubernetes.io/kube-apiserver-client",
            "client auth",
        ),
        ("pending", "example.com/unknown", "client auth"),
    ] {
        let request = certificate_request("system:node:any");
        let spec = json!({"request": request, "signerName": signer, "usages": ["digital signature", usage]});
        let kind = "CertificateSigningRequest";
        let metadata = json!({"name": name});
        let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
        cluster.apply(&object.to_string());
    }
    cluster.kubectl("certificate approve wrong");
    cluster.kubectl("certificate deny denied");
}

/// Defines a custom resource.
pub(super) fn define(cluster: &Cluster) {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    cluster.apply(
        &json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        })
        .to_string(),
    );
    cluster.kubectl("wait --for=condition=established crd/gadgets.example.com --timeout=90s");
}

/// Creates an object of the custom resource, and its owner.
pub(super) fn owned(cluster: &Cluster) {
    cluster.kubectl("create configmap owner");
    let uid = cluster.get("configmap/owner", "{.metadata.uid}");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
    cluster.apply(
        &json!({
            "apiVersion": "example.com/v1", "kind": "Gadget",
            "metadata": {"name": "owned", "ownerReferences": [owner]},
        })
        .to_string(),
    );
}

/// The manifests whose kinds the API server serves.
pub(super) fn served(manifests: &str, resources: &[Resource]) -> String {
    let is_served = |manifest: &&str| {
        let field = |name: &str| manifest.lines().find_map(|line| line.strip_prefix(name));
        let kind = [field("apiVersion: "), field("kind: ")].map(Option::unwrap_or_default);
        resources
            .iter()
            .any(|resource| resource.kind == kind.join(" "))
    };
    let manifests: Vec<&str> = manifests.split("---\n").filter(is_served).collect();
    manifests.join("---\n")
}

/// Objects of kinds that API servers do not serve by default, in the version of the server.
pub(super) fn gated(resources: &[Resource]) -> Vec<Value> {
    let objects = json!([
        {"kind": "StorageVersionMigration", "spec": {"resource": {"group": "", "resource": "configmaps"}}},
        {"kind": "ResourcePoolStatusRequest", "spec": {"driver": "gpu.example.com"}},
        {"kind": "PodGroup", "spec": {"schedulingPolicy": {"basic": {}}}},
        {"kind": "Workload", "spec": {"podGroups": [{"name": "all", "policy": {"basic": {}}}]}},
        {"kind": "DeviceTaintRule", "spec": {
            "deviceSelector": {"driver": "gpu.example.com"},
            "taint": {"key": "example.com/aged", "effect": "NoSchedule"},
        }},
    ]);
    let served = |object: &Value| {
        let kind = object["kind"].as_str()?;
        let served = |resource: &Resource| {
            let (version, served) = resource.kind.split_once(' ')?;
            (served == kind).then(|| version.to_owned())
        };
        let version = resources.iter().find_map(served)?;
        let mut object = object.clone();
        match &*version {
            "storagemigration.k8s.io/v1alpha1" => {
                object["spec"]["resource"]["version"] = json!("v1");
            }
            // Jobs of later releases make Workloads, which have other fields.
            "scheduling.k8s.io/v1alpha2" if kind == "Workload" => return None,
            _ => {}
        }
        object["apiVersion"] = json!(version);
        object["metadata"] = json!({"name": "gated"});
        Some(object)
    };
    objects
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(served)
        .collect()
}
