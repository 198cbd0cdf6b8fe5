//! `steersman check` and `steersman shadow`, as programs, beside a cluster in memory.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::https::HttpsDoor;
use steersman_devcluster::status::Status;

use crate::support::cluster::{deployment, wait_for_count};
use crate::support::{LIMIT, Program, output, steersman};

/// Controllers without the need for files.
const CONTROLLERS: &str = "--controllers=deployment,replicaset";

async fn started(directory: &Path) -> (DevCluster, HttpsDoor, String) {
    let cluster = DevCluster::builder().start().await.unwrap();
    let door = cluster
        .serve_https("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let kubeconfig = directory.join("kubeconfig");
    std::fs::write(&kubeconfig, door.kubeconfig()).unwrap();
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    (cluster, door, flag)
}

/// The number of requests that would change something.
fn writes(cluster: &DevCluster) -> usize {
    let is_write = |verb: &str| !matches!(verb, "get" | "list" | "watch");
    let requests = cluster.requests().into_iter();
    requests
        .filter(|r| is_write(&r.verb) && !r.resource.ends_with("reviews"))
        .count()
}

/// Runs the program in another thread, since the server runs in this one.
async fn run(arguments: Vec<String>) -> (Option<i32>, String, String) {
    let ended = tokio::task::spawn_blocking(move || {
        output(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let ended = ended.await.unwrap();
    (
        ended.status.code(),
        String::from_utf8(ended.stdout).unwrap(),
        String::from_utf8(ended.stderr).unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shadow_reports_writes_that_nobody_makes_and_sends_none() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, _door, kubeconfig) = started(directory.path()).await;
    cluster.create(deployment("web", 2)).await.unwrap();
    let before = writes(&cluster);
    let line = [
        "shadow",
        &kubeconfig,
        CONTROLLERS,
        "--for=12s",
        "--grace=2s",
        "-ojson",
    ];
    let (code, text, log) = run(line.map(str::to_owned).to_vec()).await;
    assert_eq!(code, Some(1), "{text}\n{log}");
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [first, .., summary] = &records[..] else {
        panic!("{text}\n{log}");
    };
    let difference = &first["difference"];
    let found = ["verb", "resource", "namespace", "controller", "key"]
        .map(|field| difference[field].as_str().unwrap());
    let expected = [
        "create",
        "replicasets.apps",
        "default",
        "deployment-controller",
        "default/web",
    ];
    assert_eq!(found, expected, "{text}");
    assert_eq!(summary["summary"]["differences"], records.len() - 1);
    assert_eq!(writes(&cluster), before);
    assert_eq!(cluster.count("leases"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shadow_shows_nothing_beside_an_equal_manager() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, _door, kubeconfig) = started(directory.path()).await;
    let line = [&*kubeconfig, CONTROLLERS, "--secure-port=0"];
    let _manager = Program::spawn(&mut steersman(&line));
    cluster.create(deployment("web", 2)).await.unwrap();
    wait_for_count(&cluster, "pods", 2).await;
    let line = ["shadow", &kubeconfig, CONTROLLERS, "--for=8s", "--grace=3s"];
    let shadow = tokio::spawn(run(line.map(str::to_owned).to_vec()));
    cluster.create(deployment("api", 3)).await.unwrap();
    wait_for_count(&cluster, "pods", 5).await;
    let (code, text, log) = shadow.await.unwrap();
    assert_eq!(code, Some(0), "{text}\n{log}");
    assert!(text.starts_with("0 differences in "), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shadow_shows_no_creation_that_the_server_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, _door, kubeconfig) = started(directory.path()).await;
    let line = [&*kubeconfig, CONTROLLERS, "--secure-port=0"];
    let _manager = Program::spawn(&mut steersman(&line));
    let refusal = Status::new(403, "Forbidden", "exceeded quota: pods");
    cluster
        .faults()
        .reject(Matcher::new("create", "pods"), refusal, None);
    cluster.create(deployment("web", 2)).await.unwrap();
    wait_for_count(&cluster, "replicasets", 1).await;
    let line = ["shadow", &kubeconfig, CONTROLLERS, "--for=9s", "--grace=2s"];
    let (code, text, log) = run(line.map(str::to_owned).to_vec()).await;
    assert_eq!(code, Some(0), "{text}\n{log}");
    assert!(text.starts_with("0 differences in "), "{text}");
    assert!(
        text.contains("the present manager could not make a creation"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shadow_starts_anew_with_the_present_manager() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, _door, kubeconfig) = started(directory.path()).await;
    let lease = |holder: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 60},
        })
    };
    cluster.create(lease("first")).await.unwrap();
    cluster.create(deployment("web", 2)).await.unwrap();
    let line = [
        "shadow",
        &kubeconfig,
        CONTROLLERS,
        "--for=14s",
        "--grace=2s",
    ];
    let shadow = tokio::spawn(run(line.map(str::to_owned).to_vec()));
    let looks = || {
        let requests = cluster.requests().into_iter();
        requests
            .filter(|r| r.verb == "get" && r.resource == "leases")
            .count()
    };
    let began = std::time::Instant::now();
    while looks() < 2 {
        assert!(
            began.elapsed() < LIMIT,
            "the shadow does not look at the Lease"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let path = cluster.path("leases", "kube-system", "kube-controller-manager");
    let second = json!({"spec": {"holderIdentity": "second"}});
    cluster.patch(&path, second).await.unwrap();
    // Only a manager that renews its Lease has left out a write.
    let renewals = async {
        loop {
            let renewed = json!({"spec": {"renewTime": format!("{:.6}", Timestamp::now())}});
            cluster.patch(&path, renewed).await.unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let ended = tokio::select! {
        ended = shadow => ended,
        () = renewals => unreachable!(),
    };
    let (code, text, log) = ended.unwrap();
    assert_eq!(code, Some(1), "{text}\n{log}");
    assert!(
        log.contains("The present manager has a new leader."),
        "{log}"
    );
    let reports = text.matches("create replicasets.apps default/web").count();
    assert_eq!(reports, 1, "{text}\n{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_tells_failures_before_a_swap() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, _door, kubeconfig) = started(directory.path()).await;
    let missing = "--root-ca-file=/nowhere/ca.crt";
    // (why, further flags, exit code, a part of the output)
    let cases = [
        ("all well", vec![CONTROLLERS], 0, "ok      rights    all "),
        (
            "a missing file",
            vec!["--controllers=root-ca-cert-publisher", missing],
            1,
            "open /nowhere/ca.crt",
        ),
        (
            "a wrong flag",
            vec!["--controllers=nonsense"],
            1,
            "\"nonsense\" is not in the list",
        ),
        (
            "no server",
            vec![CONTROLLERS, "--master=https://127.0.0.1:1"],
            1,
            "does not answer",
        ),
    ];
    let before = writes(&cluster);
    for (why, flags, expected, part) in cases {
        let line = ["check", &kubeconfig].into_iter().chain(flags);
        let (code, text, log) = run(line.map(str::to_owned).collect()).await;
        assert_eq!(code, Some(expected), "{why}:\n{text}\n{log}");
        assert!(text.contains(part), "{why}:\n{text}\n{log}");
    }
    assert_eq!(writes(&cluster), before);
}
