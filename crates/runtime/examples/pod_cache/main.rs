//! Measures the cost of a cached pod: its memory with the indexes of controllers, and the time to
//! decode it. Linux only.
//!
//! `cargo run --release -p steersman-runtime --example pod_cache [pods]`
//!
//! The pods arrive as frames of a watch through a real client and informer. Each frame is created
//! when it is read, so only the cache stays in memory.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use prometheus::Registry;
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings};
use steersman_runtime::informer::{IndexKey, InformerFactory};
use steersman_runtime::object::{Object, Pod};
use steersman_runtime::owner::ByController;
use steersman_runtime::tasks::{CancellationToken, Tasks};

const PODS_PER_SET: usize = 20;
const PODS_PER_NODE: usize = 100;
const SETS_PER_NAMESPACE: usize = 50;

/// A cluster of `pods` running pods of ReplicaSets.
#[derive(Clone)]
struct Cluster {
    pods: usize,
    template: String,
}

impl Cluster {
    fn new(pods: usize) -> Self {
        let template: serde_json::Value =
            serde_json::from_str(include_str!("pod.json")).expect("the template is JSON");
        Self {
            pods,
            template: template.to_string(),
        }
    }

    fn pod(&self, i: usize) -> String {
        let set = i / PODS_PER_SET;
        let values = [
            ("@APP@", format!("app-{}", set % SETS_PER_NAMESPACE)),
            (
                "@HASH@",
                format!("{:010x}", set * 2_654_435_761 % 0xff_ffff_ffff),
            ),
            ("@SUFFIX@", format!("{i:05x}")),
            ("@NAMESPACE@", format!("team-{}", set / SETS_PER_NAMESPACE)),
            ("@UID@", format!("{i:08x}-1111-4222-8333-{i:012x}")),
            ("@OWNER@", format!("{set:08x}-5555-4666-8777-{set:012x}")),
            ("@VERSION@", format!("{}", 1_000 + i)),
            (
                "@NODE@",
                format!("node-{}", i % self.pods.div_ceil(PODS_PER_NODE)),
            ),
        ];
        values
            .iter()
            .fold(self.template.clone(), |text, (mark, value)| {
                text.replace(mark, value)
            })
    }

    /// Line `i` of the watch: a pod, or after all pods the bookmark that ends the initial state.
    fn frame(&self, i: usize) -> String {
        if i < self.pods {
            return format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", self.pod(i));
        }
        let end =
            r#"{"resourceVersion":"9000000","annotations":{"k8s.io/initial-events-end":"true"}}"#;
        format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"Pod\",\"metadata\":{end}}}}}\n")
    }

    fn client(&self) -> Result<ApiClient, prometheus::Error> {
        let cluster = self.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let cluster = cluster.clone();
            async move {
                let lines = stream::iter(0..=cluster.pods).map(move |i| {
                    Ok::<_, std::io::Error>(Frame::data(Bytes::from(cluster.frame(i))))
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
}

/// Resident memory of this process in bytes.
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

fn node_index(pod: &Pod) -> Vec<IndexKey> {
    pod.node.iter().cloned().collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pods = std::env::args()
        .nth(1)
        .map_or(Ok(50_000), |count| count.parse())?;
    let cluster = Cluster::new(pods);
    println!(
        "pods            {pods}, {} bytes of JSON each",
        cluster.pod(0).len()
    );

    let factory = InformerFactory::new(cluster.client()?, Duration::ZERO, &Registry::new())?;
    let informer = factory.shared::<Pod>();
    let store = informer.store();
    drop(ByController::of(&store));
    let nodes = store.add_index("node", node_index);
    let (tasks, stop) = (Tasks::default(), CancellationToken::new());
    let before = resident()?;
    factory.start(&tasks, &stop);
    factory.wait_synced(&stop).await;
    let cached = resident()? - before;
    assert_eq!(store.len(), pods);
    assert_eq!(nodes.get("node-0").len(), pods.min(PODS_PER_NODE));
    println!("resident        {} bytes per cached pod", cached / pods);

    let sample: Vec<String> = (0..pods.min(2_000)).map(|i| cluster.pod(i)).collect();
    let started = Instant::now();
    const ROUNDS: usize = 10;
    for _ in 0..ROUNDS {
        for json in &sample {
            black_box(Pod::decode(black_box(json.as_bytes()))?);
        }
    }
    println!(
        "decode          {} ns per pod",
        started.elapsed().as_nanos() / (ROUNDS * sample.len()) as u128
    );
    stop.cancel();
    tasks.join(Duration::from_secs(5)).await;
    Ok(())
}
