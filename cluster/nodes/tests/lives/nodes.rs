//! Heartbeats of nodes, nodes that fail, and the ranges of addresses.

use super::*;

const NODE: &str = "/api/v1/nodes/node-0";

async fn nodes(config: NodesConfig) -> DevCluster {
    let builder = DevCluster::builder().simulated_nodes(config);
    builder.start().await.unwrap()
}

async fn one_node() -> DevCluster {
    nodes(NodesConfig {
        count: 1,
        ..NodesConfig::default()
    })
    .await
}

async fn behave(cluster: &DevCluster, value: Value) {
    let annotation = json!({"simulate.steersman.dev/behaviour": value});
    let change = json!({"metadata": {"annotations": annotation}});
    cluster.patch(NODE, change).await.unwrap();
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Writes of Leases and of the statuses of nodes since the last call.
struct Heartbeats {
    cluster: DevCluster,
    seen: usize,
}

impl Heartbeats {
    fn new(cluster: &DevCluster) -> Self {
        let mut heartbeats = Self {
            cluster: cluster.clone(),
            seen: 0,
        };
        heartbeats.next();
        heartbeats
    }

    fn next(&mut self) -> (usize, usize) {
        let requests = self.cluster.requests();
        let new = &requests[self.seen..];
        self.seen = requests.len();
        let count = |resource: &str, part: &str| {
            let is_it = |path: &str| path.contains(resource) && path.ends_with(part);
            let writes = new.iter().filter(|r| r.verb == "patch" && is_it(&r.path));
            writes.count()
        };
        (count("/leases/", "-0"), count("/nodes/", "/status"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_renews_its_lease_often_and_posts_its_status_seldom() {
    let cluster = one_node().await;
    pass(1).await;
    let before = cluster.get(NODE).await.unwrap()["status"]["conditions"].clone();
    let mut heartbeats = Heartbeats::new(&cluster);
    pass(280).await;
    assert_eq!(heartbeats.next(), (28, 0));
    pass(600).await;
    assert_eq!(heartbeats.next(), (60, 2));
    let after = cluster.get(NODE).await.unwrap()["status"]["conditions"].clone();
    for (before, after) in before
        .as_array()
        .unwrap()
        .iter()
        .zip(after.as_array().unwrap())
    {
        assert!(before["lastHeartbeatTime"].as_str() < after["lastHeartbeatTime"].as_str());
        assert_eq!(before["lastTransitionTime"], after["lastTransitionTime"]);
        assert_eq!(before["message"], after["message"]);
    }
}

#[tokio::test(start_paused = true)]
async fn many_nodes_renew_their_leases_evenly() {
    let config = NodesConfig {
        count: 200,
        ..NodesConfig::default()
    };
    let cluster = nodes(config).await;
    let renewals = async || {
        cluster.clear_requests();
        pass(1).await;
        let requests = cluster.requests();
        requests
            .iter()
            .filter(|r| r.path.contains("/leases/"))
            .count()
    };
    pass(20).await;
    for _ in 0..10 {
        let renewed = renewals().await;
        assert!((19..=21).contains(&renewed), "{renewed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_is_silent_and_leaves_its_pods_alone() {
    let cluster = one_node().await;
    cluster.create(pod("a")).await.unwrap();
    wait(&cluster, |pod| pod["status"]["phase"] == "Running").await;
    pass(10).await;
    behave(&cluster, json!("dead")).await;
    pass(1).await;
    let mut heartbeats = Heartbeats::new(&cluster);
    cluster.delete(PATH).await.unwrap();
    let mut late = pod("a");
    late["metadata"]["name"] = json!("late");
    cluster.create(late).await.unwrap();
    pass(3600).await;
    assert_eq!(heartbeats.next(), (0, 0));
    let pods = cluster.objects("pods");
    assert_eq!(pods.len(), 2, "the deleted pod stays");
    let late = pods.iter().find(|pod| pod["metadata"]["name"] == "late");
    assert_eq!(late.unwrap()["status"]["phase"], "Pending");

    // As the node lifecycle controller writes it.
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    cluster
        .patch(&format!("{NODE}/status"), lost)
        .await
        .unwrap();
    behave(&cluster, Value::Null).await;
    pass(1).await;
    assert_eq!(
        heartbeats.next(),
        (1, 2),
        "one of the statuses is that of the test"
    );
    let node = cluster.get(NODE).await.unwrap();
    assert_eq!(
        condition(&node, "Ready"),
        ("True".into(), "KubeletReady".into())
    );
    let pods = cluster.objects("pods");
    assert_eq!(pods.len(), 1, "{pods:#?}");
    assert_eq!(pods[0]["metadata"]["name"], "late");
    assert_eq!(pods[0]["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_ready_after_its_readiness_gates_are_fulfilled() {
    let cluster = one_node().await;
    let mut gated = pod("a");
    gated["spec"]["readinessGates"] =
        json!([{"conditionType": "example.com/a"}, {"conditionType": "example.com/b"}]);
    cluster.create(gated).await.unwrap();
    let told = |pod: &Value| -> Option<(String, String, String)> {
        let conditions = pod["status"]["conditions"].as_array()?;
        let ready = conditions.iter().find(|one| one["type"] == "Ready")?;
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason"), text("message")))
    };
    let waits = |message: &str| {
        let reason = "ReadinessGatesNotReady".to_owned();
        Some(("False".to_owned(), reason, message.to_owned()))
    };
    let missing = |gate: &str| {
        format!("corresponding condition of pod readiness gate \"{gate}\" does not exist.")
    };
    let both = format!("{}, {}", missing("example.com/a"), missing("example.com/b"));
    let seen = wait(&cluster, |pod| told(pod) == waits(&both)).await;
    assert_eq!(condition(&seen, "ContainersReady").0, "True");

    let set = async |a: &str, b: &str| {
        let mut conditions = cluster.objects("pods")[0]["status"]["conditions"].clone();
        let all = conditions.as_array_mut().unwrap();
        all.retain(|one| !one["type"].as_str().unwrap().starts_with("example.com/"));
        for (kind, status) in [("example.com/a", a), ("example.com/b", b)] {
            all.push(json!({"type": kind, "status": status}));
        }
        let path = format!("{PATH}/status");
        let body = json!({"status": {"conditions": conditions}});
        cluster.patch(&path, body).await.unwrap();
    };
    set("True", "False").await;
    let refused = "the status of pod readiness gate \"example.com/b\" is not \"True\", but False";
    wait(&cluster, |pod| told(pod) == waits(refused)).await;
    set("True", "True").await;
    wait(&cluster, |pod| condition_is(pod, "True")).await;
    set("False", "True").await;
    let refused = "the status of pod readiness gate \"example.com/a\" is not \"True\", but False";
    wait(&cluster, |pod| told(pod) == waits(refused)).await;
    // A settled pod gets no further reports.
    let version = cluster.objects("pods")[0]["metadata"]["resourceVersion"].clone();
    pass(600).await;
    assert_eq!(
        cluster.objects("pods")[0]["metadata"]["resourceVersion"],
        version
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_marked_as_not_ready_is_ready_again() {
    let cluster = one_node().await;
    cluster.create(pod("a")).await.unwrap();
    let is_ready = |pod: &Value| condition_is(pod, "True");
    wait(&cluster, is_ready).await;
    behave(&cluster, json!("dead")).await;
    let mut conditions = cluster.objects("pods")[0]["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().unwrap() {
        if condition["type"] == "Ready" {
            condition["status"] = json!("False");
        }
    }
    let marked = json!({"status": {"conditions": conditions}});
    cluster
        .patch(&format!("{PATH}/status"), marked)
        .await
        .unwrap();
    pass(600).await;
    assert!(condition_is(&cluster.objects("pods")[0], "False"));
    behave(&cluster, Value::Null).await;
    let pod = wait(&cluster, is_ready).await;
    assert_eq!(condition(&pod, "ContainersReady").0, "True");
}

/// Whether the condition `Ready` of the pod is so.
fn condition_is(pod: &Value, status: &str) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let is_it = |c: &Value| c["type"] == "Ready" && c["status"] == status;
    conditions.is_some_and(|conditions| conditions.iter().any(is_it))
}

#[tokio::test(start_paused = true)]
async fn nodes_without_status_renew_their_lease_and_flapping_ones_do_so_in_turn() {
    let cluster = one_node().await;
    pass(1).await;
    let mut heartbeats = Heartbeats::new(&cluster);
    behave(&cluster, json!("no-status")).await;
    pass(1200).await;
    let (renewed, posted) = heartbeats.next();
    assert!(
        (119..=121).contains(&renewed) && posted == 0,
        "{renewed} {posted}"
    );

    behave(&cluster, json!("flapping")).await;
    pass(1).await;
    let mut found = Vec::new();
    for _ in 0..4 {
        heartbeats.next();
        pass(60).await;
        let (renewed, posted) = heartbeats.next();
        found.push((renewed, posted));
    }
    // Each first renewal is at the end of its minute.
    assert_eq!(found, [(1, 1), (5, 0), (1, 0), (5, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_lease_posts_no_status() {
    let cluster = one_node().await;
    pass(1).await;
    let lease = cluster.path("leases", "kube-node-lease", "node-0");
    cluster.delete(&lease).await.unwrap();
    let mut heartbeats = Heartbeats::new(&cluster);
    pass(1200).await;
    assert_eq!(heartbeats.next().1, 0);
    assert_eq!(cluster.count("leases"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_behaviour_is_reported_on_the_node() {
    let cluster = one_node().await;
    behave(&cluster, json!("deaf")).await;
    let limit = Duration::from_secs(60);
    let reported = cluster.wait_for("events", limit, |events| !events.is_empty());
    let events = reported.await.unwrap();
    assert_eq!(events[0]["reason"], "UnknownBehaviour");
    assert_eq!(
        events[0]["message"],
        "annotation simulate.steersman.dev/behaviour: \"deaf\" is none of dead, flapping, no-status"
    );
    assert_eq!(events[0]["involvedObject"]["name"], "node-0");
    let mut heartbeats = Heartbeats::new(&cluster);
    pass(105).await;
    assert_eq!(heartbeats.next(), (10, 0));
    assert_eq!(cluster.count("events"), 1);
}

#[tokio::test(start_paused = true)]
async fn nodes_are_in_the_zones_in_turn() {
    for (zones, expected) in [(0, ["", "", "", ""]), (3, ["a", "b", "c", "a"])] {
        let config = NodesConfig {
            count: 4,
            zones,
            ..NodesConfig::default()
        };
        let cluster = nodes(config).await;
        let label = "topology.kubernetes.io/zone";
        let nodes = cluster.objects("nodes");
        let zone = |node: &Value| {
            let zone = node["metadata"]["labels"][label].as_str();
            zone.unwrap_or_default().to_owned()
        };
        assert_eq!(nodes.iter().map(zone).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_wait_for_the_range_of_their_node_and_get_addresses_of_each_family() {
    let config = NodesConfig {
        count: 1,
        pod_ranges: true,
        ..NodesConfig::default()
    };
    let cluster = nodes(config).await;
    let named = |name: &str, spec: Value| {
        let mut pod = pod("a");
        pod["metadata"]["name"] = json!(name);
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    cluster.create(named("a", json!({}))).await.unwrap();
    cluster
        .create(named("host", json!({"hostNetwork": true})))
        .await
        .unwrap();
    pass(60).await;
    let ips = |name: &str| {
        let pods = cluster.objects("pods");
        let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name);
        let status = pod.unwrap()["status"].clone();
        assert_eq!(status["podIP"], status["podIPs"][0]["ip"], "{status}");
        let ips = status["podIPs"].as_array().cloned().unwrap_or_default();
        let ips: Vec<String> = ips
            .iter()
            .map(|ip| ip["ip"].as_str().unwrap().to_owned())
            .collect();
        ips.join(" ")
    };
    assert_eq!(ips("a"), "", "the node has no range yet");
    assert_eq!(ips("host"), "10.0.0.1");

    let ranges = ["10.128.4.0/24", "fd00:10:0:4::/64"];
    let given = json!({"spec": {"podCIDR": ranges[0], "podCIDRs": ranges}});
    cluster.patch(NODE, given).await.unwrap();
    pass(10).await;
    assert_eq!(ips("a"), "10.128.4.2 fd00:10:0:4::2");
    cluster.create(named("b", json!({}))).await.unwrap();
    pass(10).await;
    assert_eq!(ips("b"), "10.128.4.3 fd00:10:0:4::3");

    // Other simulated nodes that start later know the addresses of these pods.
    let later = DevCluster::builder()
        .snapshot(&cluster.snapshot())
        .simulated_nodes(NodesConfig {
            count: 1,
            ..NodesConfig::default()
        });
    let later = later.start().await.unwrap();
    later.create(named("c", json!({}))).await.unwrap();
    pass(10).await;
    let pods = later.objects("pods");
    let c = pods
        .iter()
        .find(|pod| pod["metadata"]["name"] == "c")
        .unwrap();
    assert_eq!(c["status"]["podIP"], "10.128.4.4");
}
