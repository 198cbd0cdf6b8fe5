//! Whole managers with a cloud: the simulated one of the development cluster, and the example.

use std::time::Duration;

use serde_json::{Value, json};
use steersman::ControllerRegistry;
use steersman_devcluster::DevCluster;
use steersman_devcluster::cloud::{BALANCER, SimulatedCloud};
use steersman_devcluster::nodes::MACHINE;

use crate::election::start_with;

#[path = "../examples/cloud_manager.rs"]
#[allow(dead_code, reason = "`main` is for the example")]
mod cloud_manager;

/// Limit of each wait, in paused time.
const LIMIT: Duration = Duration::from_secs(600);

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    service
}

fn named<'a>(objects: &'a [Value], name: &str) -> Option<&'a Value> {
    objects
        .iter()
        .find(|object| object["metadata"]["name"] == name)
}

fn address<'a>(services: &'a [Value], name: &str) -> Option<&'a str> {
    let service = named(services, name)?;
    service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str()
}

/// Status and reason of a condition.
fn condition(node: &Value, kind: &str) -> Option<(String, String)> {
    let conditions = node["status"]["conditions"].as_array()?;
    let condition = conditions
        .iter()
        .find(|condition| condition["type"] == kind)?;
    let field = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    Some((field("status"), field("reason")))
}

fn has_shutdown_taint(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| taint["key"] == "node.cloudprovider.kubernetes.io/shutdown")
}

async fn annotate(cluster: &DevCluster, path: &str, annotation: &str, value: Option<&str>) {
    let changes = json!({"metadata": {"annotations": {annotation: value}}});
    cluster.patch(path, changes).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_simulated_cloud_serves_balances_routes_and_takes_machines_away() {
    let cluster = DevCluster::builder().nodes(3).start().await.unwrap();
    let table = steersman_cloud::controllers::<SimulatedCloud>()
        .into_iter()
        .fold(ControllerRegistry::builtin(), ControllerRegistry::with);
    let flags = [
        ("leader-elect", "false"),
        ("allocate-node-cidrs", "true"),
        ("cluster-cidr", "10.244.0.0/16"),
    ];
    let manager = start_with(&cluster, &table, &flags);

    let routed = ("False".to_owned(), "RouteCreated".to_owned());
    let all_routed = |nodes: &[Value]| {
        nodes
            .iter()
            .all(|node| condition(node, "NetworkUnavailable").as_ref() == Some(&routed))
    };
    cluster.wait_for("nodes", LIMIT, all_routed).await.unwrap();

    cluster.create(service("web", json!({}))).await.unwrap();
    let mut other = service("other", json!({}));
    other["metadata"]["annotations"] = json!({BALANCER: "fails"});
    cluster.create(other).await.unwrap();
    let served = |services: &[Value]| address(services, "web") == Some("192.0.2.1");
    cluster.wait_for("services", LIMIT, served).await.unwrap();
    assert_eq!(address(&cluster.objects("services"), "other"), None);
    let path = cluster.path("services", "default", "other");
    annotate(&cluster, &path, BALANCER, None).await;
    let served = |services: &[Value]| address(services, "other") == Some("192.0.2.2");
    cluster.wait_for("services", LIMIT, served).await.unwrap();

    annotate(&cluster, "/api/v1/nodes/node-1", MACHINE, Some("deleted")).await;
    annotate(&cluster, "/api/v1/nodes/node-2", MACHINE, Some("shutdown")).await;
    let gone = |nodes: &[Value]| named(nodes, "node-1").is_none();
    cluster.wait_for("nodes", LIMIT, gone).await.unwrap();
    let tainted = |nodes: &[Value]| named(nodes, "node-2").is_some_and(has_shutdown_taint);
    cluster.wait_for("nodes", LIMIT, tainted).await.unwrap();
    let ready = |nodes: &[Value], name: &str| {
        let node = named(nodes, name).unwrap();
        condition(node, "Ready").is_some_and(|(status, _)| status == "True")
    };
    assert!(ready(&cluster.objects("nodes"), "node-0"));
    assert!(!ready(&cluster.objects("nodes"), "node-2"));

    annotate(&cluster, "/api/v1/nodes/node-2", MACHINE, None).await;
    let back = |nodes: &[Value]| {
        ready(nodes, "node-2") && !has_shutdown_taint(named(nodes, "node-2").unwrap())
    };
    cluster.wait_for("nodes", LIMIT, back).await.unwrap();
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(
        cluster.count("nodes"),
        2,
        "a deleted machine does not come back"
    );

    cluster
        .delete(&cluster.path("services", "default", "web"))
        .await
        .unwrap();
    let gone = |services: &[Value]| named(services, "web").is_none();
    cluster.wait_for("services", LIMIT, gone).await.unwrap();
    manager.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_example_gives_services_the_addresses_of_its_list() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("addresses.txt");
    std::fs::write(&list, "10.9.0.1\n10.9.0.2\n").unwrap();
    let cluster = DevCluster::builder().start().await.unwrap();
    let flags = [
        ("leader-elect", "false"),
        ("cloud-config", list.to_str().unwrap()),
    ];
    let manager = start_with(&cluster, &cloud_manager::controllers(), &flags);

    let wishing = |ip: &str| json!({"loadBalancerIP": ip});
    cluster
        .create(service("one", wishing("10.9.0.1")))
        .await
        .unwrap();
    let served = |services: &[Value]| address(services, "one") == Some("10.9.0.1");
    cluster.wait_for("services", LIMIT, served).await.unwrap();

    cluster
        .create(service("two", wishing("10.9.0.1")))
        .await
        .unwrap();
    let refused = |events: &[Value]| {
        let text =
            "Error syncing load balancer: failed to ensure load balancer: 10.9.0.1 is in use";
        events.iter().any(|event| event["message"] == text)
    };
    cluster.wait_for("events", LIMIT, refused).await.unwrap();
    cluster
        .delete(&cluster.path("services", "default", "one"))
        .await
        .unwrap();
    let served = |services: &[Value]| address(services, "two") == Some("10.9.0.1");
    cluster.wait_for("services", LIMIT, served).await.unwrap();
    assert!(named(&cluster.objects("services"), "one").is_none());
    manager.stop().await.unwrap();
}
