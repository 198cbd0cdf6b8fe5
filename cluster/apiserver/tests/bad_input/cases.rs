//! Shared by all tests: a cluster with one object of each kind, and requests that must change no
//! object.

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use crate::support::{Answer, ask, both_doors, clock};

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const MAP: &str = "/api/v1/namespaces/default/configmaps/a";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const POD: &str = "/api/v1/namespaces/default/pods/a";
pub(crate) const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/a";
pub(crate) const WIDGETS: &str = "/apis/test.dev/v1/namespaces/default/widgets";

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

pub(crate) fn pod() -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

pub(crate) fn deployment() -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})
}

/// A cluster with one object called `a` of each kind in the cases.
pub(crate) async fn cluster() -> DevCluster {
    let cluster = DevCluster::with_managed_fields(clock());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.test.dev"},
        "spec": {
            "group": "test.dev", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    cluster.create(definition).await.unwrap();
    let of = |api_version: &str, kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "default"}});
        for (key, value) in rest.as_object().unwrap() {
            if key != "metadata" {
                object[key] = value.clone();
            }
        }
        object
    };
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let objects = [
        of(
            "v1",
            "ConfigMap",
            json!({"data": {"k": "v"}, "immutable": true}),
        ),
        of("v1", "Pod", pod()),
        of("apps/v1", "Deployment", deployment()),
        of("batch/v1", "Job", json!({"spec": {"template": template}})),
        of("v1", "Service", json!({"spec": {"ports": [{"port": 80}]}})),
        of("v1", "Secret", json!({"type": "Opaque"})),
        of("v1", "PersistentVolumeClaim", json!({"spec": claim})),
        of("test.dev/v1", "Widget", json!({"spec": {}})),
    ];
    for object in objects {
        cluster.create(object).await.unwrap();
    }
    cluster
}

/// One request that must change no object, and the expected answer.
pub(crate) struct Case {
    why: &'static str,
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
    code: u16,
    reason: &'static str,
    /// Part of the message.
    says: &'static str,
}

pub(crate) fn case(
    why: &'static str,
    request: (&'static str, &str),
    content_type: &'static str,
    body: impl Into<Vec<u8>>,
) -> Case {
    let (method, path) = request;
    Case {
        why,
        method,
        path: path.to_owned(),
        content_type,
        body: body.into(),
        code: 0,
        reason: "",
        says: "",
    }
}

impl Case {
    pub(crate) fn is(mut self, code: u16, reason: &'static str, says: &'static str) -> Self {
        self.code = code;
        self.reason = reason;
        self.says = says;
        self
    }
}

/// Sends every case in the process and through HTTPS.
pub(crate) async fn refused(cluster: &DevCluster, cases: &[Case]) {
    let (doors, _open) = both_doors(cluster).await;
    let mut wrong = Vec::new();
    for (door, client) in &doors {
        for case in cases {
            let before = cluster.revision();
            let Answer { code, body, .. } = ask(
                client,
                case.method,
                &case.path,
                case.content_type,
                &case.body,
            )
            .await;
            let reason = body["reason"].as_str().unwrap_or("");
            let message = body["message"].as_str().unwrap_or("");
            if (code, reason) != (case.code, case.reason) || !message.contains(case.says) {
                wrong.push(format!("{door}: {}: {code} {reason:?} {message}", case.why));
            }
            if cluster.revision() != before {
                wrong.push(format!("{door}: {}: an object changed", case.why));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
