//! A manager follows the release of its API servers: in-process, against a cluster in memory.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use steersman::{Connection, RunError};
use steersman_devcluster::DevCluster;
use steersman_releases::Release;
use tokio::time::{Instant, timeout};

use crate::election::{cluster, start_over};
use crate::support::cluster::{deployment, held, wait_for_count, wait_for_lease};

/// The minor releases of the API servers behind one address. Each answer comes from the next one.
type Servers = Arc<Mutex<Vec<u64>>>;

/// A connection to `cluster`, whose API servers have the releases of `servers`.
fn connection(cluster: &DevCluster, servers: &Servers) -> Connection {
    let client = cluster.client();
    let servers = Arc::clone(servers);
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let servers = Arc::clone(&servers);
        async move {
            if request.uri().path() != "/version" {
                return client.send(request).await;
            }
            let minor = {
                let mut servers = servers.lock();
                servers.rotate_left(1);
                servers[0]
            };
            let body = format!(r#"{{"gitVersion":"v1.{minor}.0","major":"1","minor":"{minor}"}}"#);
            Ok(Response::new(Body::from(body.into_bytes())))
        }
    });
    Connection::in_process(kube::Client::new(service, "default"), "devcluster")
}

fn servers(minors: &[u64]) -> Servers {
    Arc::new(Mutex::new(minors.to_vec()))
}

/// The release that the manager asks to start again as.
fn changed(ended: Result<(), RunError>) -> Release {
    match ended {
        Err(RunError::ReleaseChanged(release)) => release,
        other => panic!("the manager ended with {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_is_newer_than_its_server_ends_before_it_leads() {
    let cluster = cluster();
    let manager = start_over(&cluster, connection(&cluster, &servers(&[34])), &[]);
    assert_eq!(changed(manager.ended().await), Release::of_minor(34));
    assert!(cluster.objects("leases").is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_older_server_behind_the_same_address_leads_to_a_hand_over() {
    let cluster = cluster();
    let servers = servers(&[36]);
    let manager = start_over(&cluster, connection(&cluster, &servers), &[]);
    cluster.create(deployment("web", 3)).await.unwrap();
    wait_for_count(&cluster, "pods", 3).await;
    wait_for_lease(&cluster, held).await;

    *servers.lock() = vec![36, 35, 36];
    let began = Instant::now();
    assert_eq!(changed(manager.ended().await), Release::of_minor(35));
    assert!(began.elapsed() <= Duration::from_secs(100));
    let lease = wait_for_lease(&cluster, |_| true).await;
    assert_eq!(lease["holderIdentity"].as_str(), Some(""), "it is released");

    // After the release, another manager may lead.
    let versions = |kind: &str| {
        let objects = cluster.objects(kind);
        let version =
            |object: &serde_json::Value| object["metadata"]["resourceVersion"].to_string();
        objects.iter().map(version).collect::<Vec<_>>()
    };
    let before = (versions("deployments"), versions("replicasets"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((versions("deployments"), versions("replicasets")), before);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_is_followed_when_the_last_old_server_is_gone() {
    let cluster = cluster();
    let servers = servers(&[34]);
    // Newer releases refuse this value, so the manager begins as 1.34.
    let flags = [("feature-gates", "JobManagedBy=false")];
    let manager = start_over(&cluster, connection(&cluster, &servers), &flags);
    wait_for_lease(&cluster, held).await;

    let mut ended = std::pin::pin!(manager.ended());
    *servers.lock() = vec![34, 35];
    let mixed = timeout(Duration::from_secs(1200), &mut ended).await;
    assert!(mixed.is_err(), "an old server is left: {mixed:?}");
    *servers.lock() = vec![35];
    let began = Instant::now();
    assert_eq!(changed(ended.await), Release::of_minor(35));
    let took = began.elapsed().as_secs();
    assert!((240..=360).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_the_user_sets_is_kept() {
    let cluster = cluster();
    let flags = [("emulated-version", "1.35")];
    let manager = start_over(&cluster, connection(&cluster, &servers(&[33])), &flags);
    wait_for_lease(&cluster, held).await;
    tokio::time::sleep(Duration::from_secs(1200)).await;
    manager.stop().await.unwrap();
}
