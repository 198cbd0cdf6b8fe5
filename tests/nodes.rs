//! `steersman nodes` with an API server that also has other nodes.

use std::path::Path;

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;

use crate::support::cluster::wait_for_count;
use crate::support::{LIMIT, Program, output, steersman};

/// A pod with the behaviour `flaky`, which the table of stages defines.
fn pod(name: &str, node: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": {"simulate.steersman.dev/behaviour": "flaky"}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "web"}]}
    })
}

/// Restart count, reason of the last end, and readiness of the only container of a pod.
fn container(pods: &[Value], name: &str) -> Option<(u64, String, bool)> {
    let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name)?;
    let status = &pod["status"]["containerStatuses"][0];
    let reason = status["lastState"]["terminated"]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    Some((
        status["restartCount"].as_u64()?,
        reason,
        status["ready"] == true,
    ))
}

/// Starts an API server, and `steersman nodes` that connects to it.
async fn started(arguments: &[&str], directory: &Path) -> (DevCluster, HttpsDoor, Program) {
    let cluster = DevCluster::builder().start().await.unwrap();
    let door = cluster
        .serve_https("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let kubeconfig = directory.join("kubeconfig");
    std::fs::write(&kubeconfig, door.kubeconfig()).unwrap();
    let more = [
        "nodes",
        "--latency=0s",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ];
    let program = Program::spawn(&mut steersman(&[&more, arguments].concat()));
    (cluster, door, program)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_follow_the_stages_on_simulated_nodes_only() {
    let directory = tempfile::tempdir().unwrap();
    let stages = directory.path().join("stages.yaml");
    let table = "stages:\n- {name: crash, state: ready, behaviour: flaky, then: crash-loop, reason: OOMKilled}\n\
                 - {name: restart, state: waiting, behaviour: flaky, after: 10ms, then: running}\n\
                 - {name: recover, state: running, behaviour: flaky, then: ready}\n";
    std::fs::write(&stages, table).unwrap();
    let arguments = [
        "--count=2",
        "--prefix=sim-",
        "--stages",
        stages.to_str().unwrap(),
    ];
    let (cluster, _door, mut program) = started(&arguments, directory.path()).await;
    wait_for_count(&cluster, "nodes", 2).await;
    for (name, node) in [
        ("ours", Some("sim-1")),
        ("theirs", Some("real-0")),
        ("nobodys", None),
    ] {
        cluster.create(pod(name, node)).await.unwrap();
    }
    let restarted = |pods: &[Value]| {
        container(pods, "ours").is_some_and(|(restarts, _, ready)| restarts >= 2 && ready)
    };
    let pods = cluster.wait_for("pods", LIMIT, restarted).await.unwrap();
    assert_eq!(container(&pods, "ours").unwrap().1, "OOMKilled");

    cluster
        .delete(&cluster.path("pods", "default", "ours"))
        .await
        .unwrap();
    let gone = |pods: &[Value]| container(pods, "ours").is_none();
    let rest = cluster.wait_for("pods", LIMIT, gone).await.unwrap();
    assert!(
        rest.iter().all(|pod| pod["status"]["phase"] == "Pending"),
        "{rest:#?}"
    );
    assert!(
        rest.iter().all(|pod| pod["spec"]["nodeName"] != "sim-0"),
        "{rest:#?}"
    );
    program.signal("TERM");
    assert_eq!(program.end(), Some(0));
    assert_eq!(cluster.count("nodes"), 2, "the Node objects remain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_schedule_unscheduled_pods_are_spread_over_the_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, _door, _program) = started(&["--count=3", "--schedule"], directory.path()).await;
    let objects = (0..6).map(|n| pod(&format!("p{n}"), None));
    cluster.create_all(objects).await.unwrap();
    let running = |pods: &[Value]| {
        pods.iter()
            .filter(|pod| pod["status"]["phase"] == "Running")
            .count()
            == 6
    };
    let pods = cluster.wait_for("pods", LIMIT, running).await.unwrap();
    for node in ["simulated-0", "simulated-1", "simulated-2"] {
        assert_eq!(
            pods.iter()
                .filter(|pod| pod["spec"]["nodeName"] == node)
                .count(),
            2,
            "{node}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_existing_node_is_not_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = DevCluster::builder();
    let cluster = cluster
        .object(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real-0"}}))
        .start()
        .await
        .unwrap();
    let door = cluster
        .serve_https("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, door.kubeconfig()).unwrap();
    let arguments = [
        "nodes",
        "--prefix=real-",
        "--count=1",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ];
    let output = tokio::task::block_in_place(|| output(&arguments));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said.trim(),
        "Error: node real-0 exists and is not simulated; choose another prefix"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn invalid_input_leads_to_one_error() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("stages.yaml");
    std::fs::write(&table, "stages: [{name: a, state: asleep, then: ready}]\n").unwrap();
    let table = table.to_str().unwrap();
    let wrong = format!("Error: {table}: table of stages: unknown variant `asleep`");
    // (arguments, beginning of the error)
    let cases: [(&[&str], &str); 5] = [
        (
            &["--count=some"],
            "error: invalid value 'some' for '--count <N>'",
        ),
        (
            &["--latency=1"],
            "error: invalid value '1' for '--latency <DURATION>'",
        ),
        (
            &["--stages", "/nowhere.yaml"],
            "Error: read /nowhere.yaml: No such file or directory",
        ),
        (&["--stages", table], &wrong),
        (&["--kubeconfig", "/nowhere/config"], "Error: "),
    ];
    for (arguments, expected) in cases {
        let output = output(&[&["nodes"], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with(expected), "{arguments:?} said: {said}");
    }
}
