//! Compares the simulated scheduler with kube-scheduler: pods that fit no node, for all kinds of
//! reasons, and pods that fit one.
//!
//! `world.yaml` holds the nodes and classes of all cases, and `cases.yaml` the pods. `answers.json`
//! holds the condition `PodScheduled`, the node and the Events of each pod, as kube-scheduler wrote
//! them. `known.txt` lists the cases with another answer, with the reason. The test fails for an
//! unlisted difference, and for a listed case without one. `scripts/record-scheduling.sh` records
//! the answers anew.

mod answer;
mod cluster;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::nodes::NodesConfig;

use answer::Answer;
use cluster::Cluster;

#[derive(Deserialize)]
struct Case {
    name: String,
    #[serde(default)]
    with: Vec<Value>,
    #[serde(default)]
    labels: Value,
    pod: Value,
    /// Changes after the first attempt. Each causes a further attempt.
    #[serde(default)]
    then: Vec<Value>,
    /// The change that restores the world.
    back: Option<Value>,
    #[serde(default)]
    silent: bool,
}

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scheduling");
    folder.join(name)
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    serde_saphyr::from_str(&std::fs::read_to_string(file(name)).unwrap()).unwrap()
}

/// The answers of a cluster to all cases, by name.
async fn answers(cluster: &Cluster) -> BTreeMap<String, Answer> {
    for object in read::<Vec<Value>>("world.yaml") {
        cluster.create("default", object).await;
    }
    let mut answers = BTreeMap::new();
    for (index, case) in read::<Vec<Case>>("cases.yaml").into_iter().enumerate() {
        let namespace = format!("case-{index}");
        let name = case.name.clone();
        let answer = answer_of(cluster, &namespace, case).await;
        assert!(
            answers.insert(name.clone(), answer).is_none(),
            "{name} twice"
        );
    }
    answers
}

async fn answer_of(cluster: &Cluster, namespace: &str, case: Case) -> Answer {
    let space = json!({"kind": "Namespace", "metadata": {"name": namespace}});
    cluster.create("", space).await;
    for object in &case.with {
        cluster.create(namespace, object.clone()).await;
    }
    cluster.settle().await;
    let mut pod = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": case.pod});
    if case.labels.is_object() {
        pod["metadata"]["labels"] = case.labels;
    }
    cluster.create(namespace, pod).await;
    if case.silent {
        // The next pod in the queue has its answer, and so this one has had its turn.
        let next = json!({"kind": "Pod", "metadata": {"name": "next"}, "spec": {}});
        cluster.create(namespace, next).await;
        cluster.attempted(namespace, "next", 0).await;
    } else {
        cluster.attempted(namespace, "p", 0).await;
    }
    for change in case.then.iter().cloned() {
        let attempts = cluster.attempts(namespace, "p").await;
        cluster.change(namespace, change).await;
        cluster.attempted(namespace, "p", attempts).await;
    }
    cluster.settle().await;
    let answer = cluster.answer(namespace, "p").await;
    if let Some(change) = case.back {
        cluster.change(namespace, change).await;
    }
    for object in case.with.iter().chain(&case.then).rev() {
        cluster.remove(namespace, object).await;
    }
    for name in ["p", "next"] {
        let pod = json!({"kind": "Pod", "metadata": {"name": name}});
        cluster.remove(namespace, &pod).await;
    }
    cluster.settle().await;
    answer
}

#[tokio::test(start_paused = true)]
async fn answers_equal_those_of_kube_scheduler() {
    let nodes = NodesConfig {
        count: 1,
        events: true,
        binds_claims: false,
        ..NodesConfig::default()
    };
    let server = DevCluster::builder().simulated_nodes(nodes);
    let server = server.start().await.unwrap();
    // Scheduler and kubelets serve the nodes of the cases as well.
    server.delete("/api/v1/nodes/node-0").await.unwrap();
    let found = answers(&Cluster::new(server.client())).await;
    let recorded: BTreeMap<String, Answer> = read("answers.json");
    let asked: Vec<_> = found.keys().collect();
    let answered: Vec<_> = recorded.keys().collect();
    assert!(
        asked == answered,
        "the cases differ from the recorded ones: run scripts/record-scheduling.sh"
    );
    let list = std::fs::read_to_string(file("known.txt")).unwrap();
    let known: BTreeMap<&str, &str> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(": ").unwrap())
        .collect();
    let mut problems = String::new();
    for ((name, recorded), found) in recorded.iter().zip(found.values()) {
        match (recorded == found, known.contains_key(name.as_str())) {
            (false, false) => writeln!(problems, "{name}\n{}", recorded.difference(found)),
            (true, true) => writeln!(problems, "{name}\n  listed as different, but equal"),
            _ => Ok(()),
        }
        .unwrap();
    }
    let stale = known.keys().find(|name| !recorded.contains_key(**name));
    assert!(
        problems.is_empty() && stale.is_none(),
        "{stale:?}\n{problems}"
    );
}

#[tokio::test]
#[ignore = "records the answers of the real cluster that KUBECONFIG names"]
async fn record() {
    let kubeconfig = Kubeconfig::from_env().unwrap().unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options);
    let client = kube::Client::try_from(config.await.unwrap()).unwrap();
    let answers = answers(&Cluster::new(client)).await;
    let text = serde_json::to_string_pretty(&answers).unwrap() + "\n";
    std::fs::write(file("answers.json"), text).unwrap();
    println!("{} answers recorded", answers.len());
}
