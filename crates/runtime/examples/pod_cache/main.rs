//! Measures the cost of a cached pod, Deployment and ReplicaSet: resident memory, indexes of
//! controllers included, and the time to decode one object.
//!
//! Run: `cargo run --profile dist -p steersman-runtime --example pod_cache [pods]`. Linux only.
//!
//! A simulated server sends the objects as watch events, and the real client and informer receive
//! them. The server creates each event when the client reads it. Memory that stays resident is
//! therefore memory of the cache.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use prometheus::Registry;
use steersman_client::{ApiClient, ClientMetrics, ClientSettings};
use steersman_objects::{Deployment, Object, Pod, ReplicaSet};
use steersman_runtime::informer::{IndexKey, InformerFactory, Store};
use steersman_runtime::owner::ByController;
use steersman_runtime::tasks::{CancellationToken, Tasks};

const PODS_PER_SET: usize = 20;
const PODS_PER_NODE: usize = 100;
const SETS_PER_NAMESPACE: usize = 50;

/// Number of objects for the measurement of time, and number of rounds in which all are decoded.
const SAMPLE: usize = 100;
const ROUNDS: usize = 500;

/// Replaces the placeholders `@...@` of a JSON template.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let fill = |text: String, (mark, value): &(&str, String)| text.replace(mark, value);
    values.iter().fold(template.to_owned(), fill)
}

/// The JSON of the running pod `i` of `pods`. Each ReplicaSet has [`PODS_PER_SET`] pods.
fn pod(pods: usize, template: &str, i: usize) -> String {
    let set = i / PODS_PER_SET;
    let node = i % pods.div_ceil(PODS_PER_NODE);
    let values = [
        ("@APP@", format!("app-{}", set % SETS_PER_NAMESPACE)),
        ("@HASH@", hash(set)),
        ("@SUFFIX@", format!("{i:05x}")),
        ("@NAMESPACE@", format!("team-{}", set / SETS_PER_NAMESPACE)),
        ("@UID@", format!("{i:08x}-1111-4222-8333-{i:012x}")),
        ("@OWNER@", format!("{set:08x}-5555-4666-8777-{set:012x}")),
        ("@VERSION@", format!("{}", 1_000 + i)),
        ("@NODE@", format!("node-{node}")),
        // The API server generates the name of the token volume for each pod.
        ("kube-api-access-abcde", format!("kube-api-access-{i:05x}")),
    ];
    fill(template, &values)
}

/// The JSON of workload `i`: a Deployment, or a ReplicaSet. Each owner has `sets_per_deployment`
/// ReplicaSets.
fn workload(sets_per_deployment: usize, template: &str, i: usize) -> String {
    let owner = i / sets_per_deployment;
    let values = [
        ("@APP@", format!("app-{}", owner % SETS_PER_NAMESPACE)),
        ("@HASH@", hash(i)),
        (
            "@NAMESPACE@",
            format!("team-{}", owner / SETS_PER_NAMESPACE),
        ),
        ("@UID@", format!("{i:08x}-1111-4222-8333-{i:012x}")),
        (
            "@OWNER@",
            format!("{owner:08x}-5555-4666-8777-{owner:012x}"),
        ),
        ("@VERSION@", format!("{}", 1_000 + i)),
    ];
    fill(template, &values)
}

/// A value of the label `pod-template-hash`, different for each ReplicaSet.
fn hash(set: usize) -> String {
    format!("{:010x}", set * 2_654_435_761 % 0xff_ffff_ffff)
}

/// Line `i` of the watch: first all objects, then the bookmark that ends the initial state.
fn frame(count: usize, object: impl Fn(usize) -> String, i: usize) -> String {
    if i < count {
        return format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", object(i));
    }
    let end = r#"{"resourceVersion":"9000000","annotations":{"k8s.io/initial-events-end":"true"}}"#;
    format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{end}}}}}\n")
}

/// A client of a simulated server that sends `count` objects on every watch.
fn client<F>(count: usize, object: F) -> Result<ApiClient, prometheus::Error>
where
    F: Fn(usize) -> String + Clone + Send + Sync + 'static,
{
    let service = tower::service_fn(move |_: Request<Body>| {
        let object = object.clone();
        async move {
            let lines = stream::iter(0..=count).map(move |i| {
                Ok::<_, std::io::Error>(Frame::data(Bytes::from(frame(count, &object, i))))
            });
            Ok::<_, std::io::Error>(Response::new(StreamBody::new(
                lines.chain(stream::pending()),
            )))
        }
    });
    let settings = ClientSettings {
        user_agent: "pod-cache".to_owned(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(30),
    };
    let metrics = ClientMetrics::register(&Registry::new())?;
    Ok(ApiClient::new(
        kube::Client::new(service, "default"),
        settings,
        metrics,
    ))
}

/// Resident memory of this process in bytes, for pages of 4 KiB.
fn resident() -> std::io::Result<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages
        .map(|pages| pages * 4096)
        .ok_or_else(|| std::io::Error::other("statm has no second number"))
}

/// Resident bytes per object, with `count` objects in a cache. `index` adds the indexes.
///
/// The function leaks the cache. Otherwise a later measurement would reuse freed memory, and count
/// less than it needs.
async fn cache<T: Object>(
    count: usize,
    index: impl Fn(&Store<T>),
    object: impl Fn(usize) -> String + Clone + Send + Sync + 'static,
) -> Result<usize, Box<dyn std::error::Error>> {
    let length = object(0).len();
    let factory = InformerFactory::new(client(count, object)?, Duration::ZERO, &Registry::new())?;
    let informer = factory.shared::<T>();
    index(&informer.store());
    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    let before = resident()?;
    factory.start(&tasks, &stop);
    factory.wait_synced(&stop).await;
    let cached = (resident()? - before) / count;
    assert_eq!(informer.store().len(), count);
    let kind = &T::RESOURCE.kind;
    let objects = informer.store().list();
    let text = objects
        .iter()
        .map(|object| object.heap_size())
        .sum::<usize>()
        / count;
    println!("{count} of {kind}, {length} bytes of JSON: {cached} bytes each");
    println!("  of these, {text} bytes are the name and the compressed text");
    std::mem::forget((factory, informer, tasks));
    Ok(cached)
}

/// Prints the time to decode an object with a cached template. Takes the shortest of many rounds,
/// because other processes can only add time.
fn decode<T: Object>(object: impl Fn(usize) -> String) -> Result<(), Box<dyn std::error::Error>> {
    let sample: Vec<String> = (0..SAMPLE).map(object).collect();
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for json in &sample {
            black_box(T::decode(black_box(json.as_bytes()))?);
        }
        best = best.min(started.elapsed());
    }
    let each = best.as_nanos() / SAMPLE as u128;
    println!("{} is decoded in {each} ns", T::RESOURCE.kind);
    Ok(())
}

/// The index of pods by node, as controllers use it.
fn node_index(pod: &Pod) -> Vec<IndexKey> {
    pod.node.iter().cloned().collect()
}

/// The JSON template without white space, as API servers send JSON.
fn compact(template: &str) -> Result<String, serde_json::Error> {
    Ok(serde_json::from_str::<serde_json::Value>(template)?.to_string())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pods: usize = std::env::args()
        .nth(1)
        .map_or(Ok(50_000), |count| count.parse())?;
    let deployments = pods / 10;
    let pod_json = compact(include_str!("pod.json"))?;
    let deployment_json = compact(include_str!("deployment.json"))?;
    let set_json = compact(include_str!("replica_set.json"))?;
    let pod = move |i| pod(pods, &pod_json, i);
    let deployment = move |i| workload(1, &deployment_json, i);
    let set = move |i| workload(2, &set_json, i);

    let indexes = |store: &Store<Pod>| {
        drop(ByController::of(store));
        drop(store.add_index("node", node_index));
    };
    cache(pods, indexes, pod.clone()).await?;
    let one = cache(deployments, |_: &Store<Deployment>| (), deployment.clone()).await?;
    let index = |store: &Store<ReplicaSet>| drop(ByController::of(store));
    let two = 2 * cache(2 * deployments, index, set.clone()).await?;
    println!("a Deployment and two ReplicaSets: {} bytes", one + two);

    decode::<Pod>(pod)?;
    decode::<Deployment>(deployment)?;
    decode::<ReplicaSet>(set)
}
