//! The Secrets that pods name.
//!
//! Upstream: `VisitPodSecretNames` in `pkg/api/v1/pod`. A pod of any phase counts.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_client::ApiClient;
use steersman_client::live::{PageError, Pages};
use steersman_values::resource::PODS;

/// The lists of containers in the spec of a pod.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Lists of a container, and the Secret that an item names.
const OF_CONTAINERS: [(&str, &str); 2] = [
    ("envFrom", "/secretRef/name"),
    ("env", "/valueFrom/secretKeyRef/name"),
];

/// The Secret that a volume names.
const OF_VOLUMES: [&str; 10] = [
    "/azureFile/secretName",
    "/cephfs/secretRef/name",
    "/cinder/secretRef/name",
    "/csi/nodePublishSecretRef/name",
    "/flexVolume/secretRef/name",
    "/iscsi/secretRef/name",
    "/rbd/secretRef/name",
    "/scaleIO/secretRef/name",
    "/secret/secretName",
    "/storageos/secretRef/name",
];

/// The names of all Secrets that pods in `namespace` name, as the API server has them now.
pub(super) async fn secrets_of_pods(
    client: &ApiClient,
    namespace: &str,
) -> Result<BTreeSet<String>, PageError> {
    let mut names = BTreeSet::new();
    let mut pages = Pages::new(client, &PODS, Some(namespace));
    while let Some(pods) = pages.next::<Value>().await? {
        for pod in &pods {
            names.extend(secrets(&pod["spec"]).map(str::to_owned));
        }
    }
    Ok(names)
}

/// The names of the Secrets in the spec of a pod.
fn secrets(spec: &Value) -> impl Iterator<Item = &str> {
    let of_pod = at(list(spec, "imagePullSecrets"), "/name");
    let containers = CONTAINERS.into_iter().flat_map(|kind| list(spec, kind));
    let of_containers = containers.flat_map(|container| {
        let lists = OF_CONTAINERS.into_iter();
        lists.flat_map(|(field, name)| at(list(container, field), name))
    });
    let of_volumes = OF_VOLUMES
        .into_iter()
        .flat_map(|name| at(list(spec, "volumes"), name));
    let projected = list(spec, "volumes")
        .flat_map(|volume| at(list(&volume["projected"], "sources"), "/secret/name"));
    of_pod
        .chain(of_containers)
        .chain(of_volumes)
        .chain(projected)
}

/// The items of the list `field`.
fn list<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    object[field].as_array().into_iter().flatten()
}

/// The texts at `pointer` in all `objects` that have one.
fn at<'a>(
    objects: impl Iterator<Item = &'a Value>,
    pointer: &'static str,
) -> impl Iterator<Item = &'a str> {
    objects.filter_map(move |object| object.pointer(pointer)?.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_reference_to_a_secret_is_found() {
        let container = |kind: &str| {
            json!([{
                "name": "c",
                "envFrom": [
                    {"secretRef": {"name": format!("{kind}-from")}}, {"configMapRef": {"name": "x"}},
                ],
                "env": [
                    {"name": "a", "valueFrom": {"secretKeyRef": {"name": format!("{kind}-env"), "key": "k"}}},
                    {"name": "b", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}},
                    {"name": "c", "value": "x"},
                ],
            }])
        };
        let by_reference = |kind: &str| json!({ kind: {"secretRef": {"name": kind}} });
        let spec = json!({
            "imagePullSecrets": [{"name": "pull"}],
            "containers": container("main"), "initContainers": container("init"),
            "ephemeralContainers": container("debug"),
            "volumes": [
                {"secret": {"secretName": "secret"}}, {"azureFile": {"secretName": "azureFile"}},
                {"csi": {"nodePublishSecretRef": {"name": "csi"}}}, {"emptyDir": {}},
                {"projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "x"}}]}},
                by_reference("cephfs"), by_reference("cinder"), by_reference("flexVolume"),
                by_reference("iscsi"), by_reference("rbd"), by_reference("scaleIO"),
                by_reference("storageos"),
            ],
        });
        let found: BTreeSet<&str> = secrets(&spec).collect();
        let expected = [
            "azureFile",
            "cephfs",
            "cinder",
            "csi",
            "debug-env",
            "debug-from",
            "flexVolume",
            "init-env",
            "init-from",
            "iscsi",
            "main-env",
            "main-from",
            "projected",
            "pull",
            "rbd",
            "scaleIO",
            "secret",
            "storageos",
        ];
        assert_eq!(found, BTreeSet::from(expected));
        for spec in [
            Value::Null,
            json!({"containers": null, "volumes": [{"secret": null}]}),
        ] {
            assert_eq!(secrets(&spec).count(), 0, "{spec}");
        }
    }
}
