//! Requests in the process and through HTTPS use the same store.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::{Matcher, RequestFault};
use steersman_devcluster::https::Serving;
use steersman_devcluster::status::{Qualified, Status};
use steersman_values::clock::Clock;

fn cluster() -> DevCluster {
    DevCluster::new(Clock::runtime(
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap(),
    ))
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "1"}})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn load_stores_objects_unchanged() {
    let cluster = cluster();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "a", "namespace": "elsewhere", "uid": "u-1", "resourceVersion": "4711", "generation": 3,
            "creationTimestamp": "2025-01-01T00:00:00Z", "deletionTimestamp": "2025-01-02T00:00:00Z", "finalizers": ["x/y"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u-2"}],
        },
        "spec": {"unknown": true},
        "status": {"phase": "Failed", "reason": "Evicted"},
    });
    let mut stored = pod.clone();
    for revision in [cluster.revision() + 1, cluster.revision() + 2] {
        cluster.load(pod.clone()).unwrap();
        stored["metadata"]["resourceVersion"] = json!(revision.to_string());
        assert_eq!(cluster.objects("pods"), [stored.clone()]);
    }
    assert!(cluster.requests().is_empty());

    let mut nameless = pod.clone();
    nameless["metadata"]["name"].take();
    let mut without_namespace = pod.clone();
    without_namespace["metadata"]["namespace"].take();
    for unfit in [
        json!({"apiVersion": "v1", "kind": "Unheard", "metadata": {"name": "a"}}),
        nameless,
        without_namespace,
    ] {
        assert_eq!(cluster.load(unfit).unwrap_err().code, 400);
    }
}

async fn crud(client: kube::Client) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let created = maps
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    let version = created.metadata.resource_version.clone().unwrap();
    let mut frames = maps
        .watch(&WatchParams::default().timeout(60), &version)
        .await
        .unwrap()
        .boxed();

    let patched = maps
        .patch(
            "a",
            &PatchParams::default(),
            &Patch::Merge(json!({"data": {"k": "2"}})),
        )
        .await
        .unwrap();
    assert_eq!(patched.data.unwrap()["k"], "2");
    assert_eq!(
        maps.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
    let stale = maps
        .replace("a", &PostParams::default(), &created)
        .await
        .unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.is_conflict()));
    maps.delete("a", &DeleteParams::default()).await.unwrap();

    let modified = frames.try_next().await.unwrap().unwrap();
    assert!(
        matches!(modified, WatchEvent::Modified(map) if map.data.as_ref().unwrap()["k"] == "2")
    );
    let deleted = frames.try_next().await.unwrap().unwrap();
    assert!(
        matches!(deleted, WatchEvent::Deleted(map) if map.metadata.name.as_deref() == Some("a"))
    );
    let namespaces: Api<Namespace> = Api::all(client);
    assert_eq!(
        namespaces
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        4
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_in_the_process_uses_the_api() {
    let cluster = cluster();
    crud(cluster.client()).await;
    let verbs: Vec<String> = cluster
        .requests()
        .into_iter()
        .map(|record| record.verb)
        .collect();
    assert_eq!(
        verbs,
        [
            "create", "watch", "patch", "list", "update", "delete", "list"
        ]
    );
}

#[tokio::test]
async fn a_client_with_the_kubeconfig_uses_the_api_over_https() {
    let cluster = cluster();
    let door = cluster
        .serve_https("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&door.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let client = kube::Client::try_from(config).unwrap();
    crud(client.clone()).await;

    cluster.faults().on_request(
        Matcher::new("create", "configmaps"),
        RequestFault::LoseAnswer,
        Some(1),
    );
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let lost = maps
        .create(&PostParams::default(), &config_map("lost"))
        .await
        .unwrap_err();
    assert!(!matches!(lost, kube::Error::Api(_)), "{lost}");
    assert!(
        maps.get("lost").await.is_ok(),
        "the object is stored, and the client reconnects"
    );
    tokio::time::timeout(Duration::from_secs(5), door.stop())
        .await
        .expect("no connection outlives its requests");
}

/// Cluster address and node port of `service`.
fn holdings(service: &Service) -> (String, i32) {
    let spec = service.spec.as_ref().unwrap();
    (
        spec.cluster_ip.clone().unwrap(),
        spec.ports.as_ref().unwrap()[0].node_port.unwrap(),
    )
}

#[tokio::test]
async fn a_port_marks_its_clients() {
    let cluster = cluster();
    let serving = Serving {
        client_mark: "(first)".to_owned(),
        ..Serving::from(SocketAddr::from(([127, 0, 0, 1], 0)))
    };
    let door = cluster.serve_https_as(serving).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&door.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let marked = kube::Client::try_from(config).unwrap();
    let refused = Matcher::default().client("(first)");
    cluster
        .faults()
        .reject(refused, Status::expired("marked"), None);
    for (client, is_refused) in [(marked, true), (cluster.client(), false)] {
        let maps = Api::<ConfigMap>::default_namespaced(client);
        let listed = maps.list(&ListParams::default()).await;
        assert_eq!(listed.is_err(), is_refused);
    }
    let agents = cluster
        .requests()
        .into_iter()
        .map(|request| request.user_agent);
    let marked: Vec<bool> = agents.map(|agent| agent.starts_with("(first) ")).collect();
    assert_eq!(marked, [true, false]);
    assert_eq!(cluster.count("services"), 0);
}

/// Some creations request an address and port, each pair twice. Others get assigned ones, which may
/// be the requested ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_services_get_unique_addresses_and_ports() {
    const WANTED: u8 = 30;
    let cluster = cluster();
    let door = cluster
        .serve_https("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&door.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let doors = [cluster.client(), kube::Client::try_from(config).unwrap()]
        .map(Api::<Service>::default_namespaced);
    let service = |name: String, wanted: Option<(String, i32)>| -> Service {
        let (address, port) = wanted.unzip();
        let ports = json!([{"port": 80, "nodePort": port}]);
        serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"type": "NodePort", "clusterIP": address, "ports": ports},
        }))
        .unwrap()
    };
    let creations = (0..WANTED).flat_map(|n| {
        let wanted = (format!("10.96.0.{}", 3 + 2 * n), 30_001 + 2 * i32::from(n));
        [Some(wanted.clone()), None, Some(wanted), None]
            .into_iter()
            .enumerate()
            .map(move |(which, wanted)| (n, which, wanted))
    });
    let tasks: Vec<_> = creations
        .map(|(n, which, wanted)| {
            let services = doors[which / 2].clone();
            let asked = wanted.is_some();
            let new = service(format!("s-{n}-{which}"), wanted);
            tokio::spawn(
                async move { (asked, services.create(&PostParams::default(), &new).await) },
            )
        })
        .collect();
    let mut given = Vec::new();
    let mut refused = 0;
    for task in tasks {
        match task.await.unwrap() {
            (_, Ok(service)) => given.push(holdings(&service)),
            (true, Err(kube::Error::Api(status))) if status.code == 422 => refused += 1,
            (_, Err(error)) => panic!("{error}"),
        }
    }
    assert_eq!(given.len() + refused, 4 * usize::from(WANTED));
    // Creations without a request may have been assigned a requested pair first.
    assert!(refused >= usize::from(WANTED), "{refused}");
    let (addresses, ports): (BTreeSet<String>, BTreeSet<i32>) = given.iter().cloned().unzip();
    assert_eq!(
        (addresses.len(), ports.len()),
        (given.len(), given.len()),
        "{given:?}"
    );

    // Numbers are free again after a deletion, or after a change to a type without node ports.
    let services = &doors[0];
    let freed = services
        .get("s-0-1")
        .await
        .map(|service| holdings(&service))
        .unwrap();
    services
        .delete("s-0-1", &DeleteParams::default())
        .await
        .unwrap();
    let again = services
        .create(
            &PostParams::default(),
            &service("again".to_owned(), Some(freed.clone())),
        )
        .await
        .unwrap();
    assert_eq!(holdings(&again), freed);
    let closed = Patch::Merge(json!({"spec": {"type": "ClusterIP"}}));
    let closed = services
        .patch("again", &PatchParams::default(), &closed)
        .await
        .unwrap();
    assert_eq!(closed.spec.unwrap().ports.unwrap()[0].node_port, None);
    let wanted: Service = serde_json::from_value(
        json!({"metadata": {"name": "x"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": freed.1}]}}),
    )
    .unwrap();
    services
        .create(&PostParams::default(), &wanted)
        .await
        .unwrap();
}

#[tokio::test]
async fn anonymous_requests_are_forbidden_and_stop_ends_watches() {
    let cluster = cluster();
    let door = cluster
        .serve_https("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let mut kubeconfig = Kubeconfig::from_yaml(&door.kubeconfig()).unwrap();
    let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    user.client_certificate_data = None;
    user.client_key_data = None;
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default())
            .await
            .unwrap();
    let anonymous: Api<ConfigMap> =
        Api::default_namespaced(kube::Client::try_from(config).unwrap());
    let refused = anonymous.get("a").await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));

    let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    user.token = Some(door.token().to_owned().into());
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let admin: Api<ConfigMap> = Api::default_namespaced(kube::Client::try_from(config).unwrap());
    let mut frames = admin
        .watch(&WatchParams::default(), &cluster.revision().to_string())
        .await
        .unwrap()
        .boxed();
    tokio::time::timeout(Duration::from_secs(5), door.stop())
        .await
        .expect("stop does not wait for open watches");
    assert!(frames.next().await.is_none_or(|frame| frame.is_err()));
}

#[tokio::test(start_paused = true)]
async fn faults_apply_as_often_as_configured() {
    let cluster = cluster();
    let pods = Qualified {
        group: "",
        name: "pods",
    };
    let quota = Status::forbidden(
        pods,
        "x",
        "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
    );
    let rule = cluster.faults().reject(
        Matcher::new("create", "configmaps").namespace("default"),
        quota.clone(),
        Some(2),
    );
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    assert_eq!(
        cluster.create(map("a")).await.unwrap_err().message,
        quota.message
    );
    assert_eq!(cluster.create(map("a")).await.unwrap_err().code, 403);
    cluster.create(map("a")).await.unwrap();
    assert_eq!(cluster.faults().hits(rule), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_watch_sends_missed_events_when_it_resumes() {
    let cluster = cluster();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let mut frames = maps
        .watch(&WatchParams::default(), &cluster.revision().to_string())
        .await
        .unwrap()
        .boxed();
    cluster.faults().stall_watches("configmaps");
    maps.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    assert!(
        tokio::time::timeout(Duration::from_secs(60), frames.next())
            .await
            .is_err(),
        "a stalled watch sends no frames"
    );
    cluster.faults().resume_watches("configmaps");
    assert!(matches!(
        frames.try_next().await.unwrap().unwrap(),
        WatchEvent::Added(_)
    ));
    cluster.faults().break_watches("configmaps");
    assert!(frames.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_before_the_history_gets_an_error_frame() {
    let cluster = cluster();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let created: Value = cluster.create(map).await.unwrap();
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    cluster
        .delete(&cluster.path("configmaps", "default", "a"))
        .await
        .unwrap();
    cluster.compact("configmaps");
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let mut frames = maps
        .watch(&WatchParams::default(), version)
        .await
        .unwrap()
        .boxed();
    assert!(
        matches!(frames.try_next().await.unwrap().unwrap(), WatchEvent::Error(status) if status.code == 410)
    );
    assert!(frames.next().await.is_none());
}
