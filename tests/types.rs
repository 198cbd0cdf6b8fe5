//! More resource types than one HTTP/2 connection has streams: hundreds of custom types, on an API
//! server with kube-apiserver's stream limit.

use std::net::SocketAddr;

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_values::clock::Clock;

use crate::support::cluster::{deployment, wait_for_count};
use crate::support::{LIMIT, Program};

const TYPES: usize = 300;

/// The API group of a type; ten types share a group, as those of real operators do.
fn group(number: usize) -> String {
    format!("g{}.example.com", number / 10)
}

fn definition(number: usize) -> Value {
    let plural = format!("widgets{number}");
    let kind = format!("Widget{number}");
    let group = group(number);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// Each type needs a watch. The manager must open further connections when the first one has no
/// stream left.
#[tokio::test(flavor = "multi_thread")]
async fn a_manager_continues_to_work_while_hundreds_of_types_are_added() {
    let cluster = DevCluster::new(Clock::system());
    let door = cluster
        .serve_https(SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, door.kubeconfig()).unwrap();
    let mut manager = Program::start(&[
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--secure-port=0",
    ]);
    cluster.create(deployment("before", 2)).await.unwrap();
    wait_for_count(&cluster, "pods", 2).await;

    for number in 0..TYPES {
        cluster.create(definition(number)).await.unwrap();
    }
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "default"}});
    let owner = cluster.create(owner).await.unwrap();
    let last = TYPES - 1;
    let widget = json!({
        "apiVersion": format!("{}/v1", group(last)), "kind": format!("Widget{last}"),
        "metadata": {
            "name": "dependent", "namespace": "default",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]},
            ],
        },
    });
    cluster.create(widget).await.unwrap();
    cluster
        .delete(&cluster.path("configmaps", "default", "owner"))
        .await
        .unwrap();
    let plural = format!("widgets{last}");
    // The garbage collector deletes only while it watches all types. It discovers new types every
    // 30 s.
    let waited = cluster
        .wait_for(&plural, LIMIT, |widgets| widgets.is_empty())
        .await;
    waited.unwrap_or_else(|widgets| panic!("{widgets:#?} remains although its owner is deleted"));

    cluster.create(deployment("after", 2)).await.unwrap();
    wait_for_count(&cluster, "pods", 4).await;
    let status = tokio::task::block_in_place(|| {
        manager.signal("TERM");
        manager.end()
    });
    assert_eq!(status, Some(0));
}
