//! Measures two features of API servers of 1.38, in bytes and CPU time of the whole process: lists and caches of
//! pods with and without managed fields, and deletions that tell their version or not.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use prometheus::Registry;
use serde_json::json;
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, user_agent};
use steersman_devcluster::{Builder, DevCluster};
use steersman_objects::Pod;
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::clock::Clock;

const OBJECTS: usize = 2_000;
const SYNCS: usize = 20;

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    for on in [false, true, false, true] {
        measure_lists(on).await?;
    }
    for on in [false, true, false, true] {
        measure_deletions(on).await?;
    }
    Ok(())
}

/// A cluster without objects. The log of requests would count as memory and CPU time of the server.
fn builder() -> Builder {
    let clock = Clock::runtime(Timestamp::now());
    DevCluster::builder().clock(clock).kept_requests(0)
}

async fn measure_lists(opt_out: bool) -> Result<(), Error> {
    let mut builder = builder();
    if opt_out {
        builder = builder.managed_fields_opt_out();
    }
    let cluster = builder.start().await?;
    for n in 0..OBJECTS {
        cluster.create(pod(n)).await?;
        let path = cluster.path("pods", "default", &format!("p{n}/status"));
        let ready = json!({"type": "Ready", "status": "True"});
        let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
        cluster.patch(&path, status).await?;
    }
    let client = client(&cluster)?;
    let start = cpu_time()?;
    let mut bytes = 0;
    for _ in 0..SYNCS {
        bytes = list_bytes(&cluster).await?;
    }
    let listed = cpu_time()?;
    for _ in 0..SYNCS {
        sync(&client).await?;
    }
    let times = u32::try_from(SYNCS)?;
    let answer = (listed - start) / times;
    let cache = (cpu_time()? - listed) / times;
    println!(
        "ManagedFieldsOptOut {opt_out}: {bytes} bytes in a list of {OBJECTS} pods, CPU {answer:?} for the answer, {cache:?} for a cache"
    );
    Ok(())
}

/// Deletes objects that no finalizer keeps, so each answer is a Status.
async fn measure_deletions(versions: bool) -> Result<(), Error> {
    let mut builder = builder();
    if versions {
        builder = builder.deletion_versions();
    }
    let cluster = builder.start().await?;
    for n in 0..OBJECTS {
        let metadata = json!({"name": format!("m{n}")});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        cluster.create(map).await?;
    }
    let client = cluster.client();
    let start = cpu_time()?;
    let mut bytes = 0;
    for n in 0..OBJECTS {
        let path = cluster.path("configmaps", "default", &format!("m{n}"));
        let request = http::Request::delete(path).body(Vec::new())?;
        bytes += client.request_text(request).await?.len();
    }
    let deleted = cpu_time()? - start;
    println!(
        "versions of deletions {versions}: {bytes} bytes in the answers to {OBJECTS} deletions, CPU {deleted:?}"
    );
    Ok(())
}

/// A pod as a Deployment makes it.
fn pod(n: usize) -> serde_json::Value {
    let probe = json!({"httpGet": {"path": "/", "port": 8080}});
    let container = json!({
        "name": "c", "image": "app:v1", "ports": [{"containerPort": 8080}], "readinessProbe": probe,
        "env": [{"name": "A", "value": "a"}, {"name": "B", "value": "b"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    });
    let labels = json!({"app": "web", "pod-template-hash": "5d4f6"});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{n}"), "labels": labels},
        "spec": {"containers": [container]},
    })
}

fn client(cluster: &DevCluster) -> Result<ApiClient, Error> {
    let settings = ClientSettings {
        user_agent: user_agent("measurement"),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(30),
    };
    let metrics = ClientMetrics::register(&Registry::new())?;
    Ok(ApiClient::new(cluster.client(), settings, metrics))
}

/// Fills a new cache with all pods.
async fn sync(client: &ApiClient) -> Result<(), Error> {
    let informers = InformerFactory::new(client.clone(), Duration::ZERO, &Registry::new())?;
    let pods = informers.shared::<Pod>();
    let tasks = Arc::new(Tasks::default());
    let stop = CancellationToken::new();
    informers.start(&tasks, &stop);
    informers.wait_synced(&stop).await;
    assert_eq!(pods.store().list().len(), OBJECTS);
    stop.cancel();
    tasks.join(Duration::from_secs(5)).await;
    Ok(())
}

/// The size of a list of all pods, as informers ask for it.
async fn list_bytes(cluster: &DevCluster) -> Result<usize, Error> {
    let accept = "application/json;drop=metadata.managedFields";
    let request = http::Request::get("/api/v1/pods").header(http::header::ACCEPT, accept);
    let client = cluster.client();
    let text = client.request_text(request.body(Vec::new())?).await?;
    Ok(text.len())
}

/// CPU time of this process, in steps of 10 ms.
fn cpu_time() -> Result<Duration, Error> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.split(' ').collect();
    let ticks: u64 = fields[13].parse::<u64>()? + fields[14].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}
