//! `--use-service-account-credentials`: each controller uses its own service account. The API
//! server enforces RBAC with the default roles of every cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use steersman::Connection;
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::User;
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;

use crate::election::{Running, cluster, start_over};
use crate::support::cluster::{deployment, held, wait_for_count, wait_for_lease};

/// A manager as kubeadm runs it: its user and its controllers' service accounts have their default
/// roles.
async fn start(cluster: &DevCluster) -> Running {
    let user = User::new("system:kube-controller-manager", [""; 0]);
    let connection = Connection::in_process(cluster.client_as(user), "devcluster");
    let manager = start_over(
        cluster,
        connection,
        &[("use-service-account-credentials", "true")],
    );
    wait_for_lease(cluster, held).await;
    manager
}

/// Users and resources of all successful writes except Events.
fn writers(cluster: &DevCluster) -> BTreeSet<(String, String)> {
    let requests = cluster.requests().into_iter();
    let writes = requests
        .filter(|r| !matches!(r.verb.as_str(), "get" | "list" | "watch") && r.resource != "events");
    writes
        .filter(|r| r.user != "admin" && r.status < 300)
        .map(|r| (r.user, r.resource))
        .collect()
}

/// Requests that were rejected or denied.
fn refusals(cluster: &DevCluster) -> Vec<String> {
    let requests = cluster.requests().into_iter();
    requests
        .filter(|r| matches!(r.status, 401 | 403))
        .map(|r| format!("{} {} {} by {}", r.status, r.verb, r.path, r.user))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn controllers_use_their_own_accounts_within_the_default_roles() {
    let cluster = cluster();
    let manager = start(&cluster).await;
    cluster.create(deployment("web", 3)).await.unwrap();
    wait_for_count(&cluster, "pods", 3).await;
    let path = cluster.path("deployments", "default", "web");
    cluster
        .patch(&path, serde_json::json!({"spec": {"replicas": 1}}))
        .await
        .unwrap();
    wait_for_count(&cluster, "pods", 1).await;
    cluster.delete(&path).await.unwrap();
    wait_for_count(&cluster, "pods", 0).await;
    manager.stop().await.unwrap();

    let account = |name: &str, resource: &str| {
        (
            format!("system:serviceaccount:kube-system:{name}"),
            resource.to_owned(),
        )
    };
    let own = |resource: &str| {
        (
            "system:kube-controller-manager".to_owned(),
            resource.to_owned(),
        )
    };
    let expected = [
        account("clusterrole-aggregation-controller", "clusterroles"),
        account("deployment-controller", "deployments/status"),
        account("deployment-controller", "replicasets"),
        account("generic-garbage-collector", "pods"),
        account("generic-garbage-collector", "replicasets"),
        account("replicaset-controller", "pods"),
        account("replicaset-controller", "replicasets/status"),
        account("root-ca-cert-publisher", "configmaps"),
        account("service-account-controller", "serviceaccounts"),
        own("leases"),
        own("serviceaccounts"),
        own("serviceaccounts/token"),
    ];
    assert_eq!(writers(&cluster), BTreeSet::from(expected));
    assert_eq!(refusals(&cluster), [""; 0]);
}

/// Scales the Deployment and waits for the pods. Returns how many tokens the ReplicaSet controller
/// has requested so far.
async fn tokens_after_scaling(cluster: &DevCluster, replicas: usize) -> usize {
    let path = cluster.path("deployments", "default", "web");
    cluster
        .patch(&path, serde_json::json!({"spec": {"replicas": replicas}}))
        .await
        .unwrap();
    wait_for_count(cluster, "pods", replicas).await;
    let path = "/api/v1/namespaces/kube-system/serviceaccounts/replicaset-controller/token";
    cluster.requests().iter().filter(|r| r.path == path).count()
}

#[tokio::test(start_paused = true)]
async fn a_token_is_used_for_four_fifths_of_its_lifetime() {
    let cluster = cluster();
    let manager = start(&cluster).await;
    cluster.create(deployment("web", 1)).await.unwrap();
    for (minutes, replicas, tokens) in [(0, 2, 1), (46, 3, 1), (3, 4, 2)] {
        tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
        assert_eq!(
            tokens_after_scaling(&cluster, replicas).await,
            tokens,
            "{minutes} minutes later"
        );
    }
    manager.stop().await.unwrap();
    assert_eq!(refusals(&cluster), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn deleted_accounts_are_recreated_and_failed_token_requests_are_retried() {
    let cluster = cluster();
    let manager = start(&cluster).await;
    cluster.create(deployment("web", 1)).await.unwrap();
    assert_eq!(tokens_after_scaling(&cluster, 2).await, 1);

    cluster
        .delete(&cluster.path("serviceaccounts", "kube-system", "replicaset-controller"))
        .await
        .unwrap();
    assert_eq!(tokens_after_scaling(&cluster, 3).await, 2);
    assert!(
        refusals(&cluster)
            .iter()
            .all(|refusal| refusal.starts_with("401 ")),
        "{:#?}",
        refusals(&cluster)
    );

    cluster
        .delete(&cluster.path("serviceaccounts", "kube-system", "replicaset-controller"))
        .await
        .unwrap();
    let down = Matcher::new("create", "serviceaccounts").subresource("token");
    cluster
        .faults()
        .reject(down, Status::internal("no tokens today"), Some(7));
    assert_eq!(tokens_after_scaling(&cluster, 4).await, 10);
    manager.stop().await.unwrap();
}
