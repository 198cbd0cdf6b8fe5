//! The load on the API server: requests that create, patch, delete and watch pods.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, PatchKind, Query, Target};
use steersman_values::resource::PODS;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Number of tasks that send requests; each has one request at a time.
const TASKS: usize = 32;

/// Size of a stored pod in bytes, managed fields included.
const SIZE: usize = 3_000;

/// Limit of each wait.
const LIMIT: Duration = Duration::from_secs(600);

type Frames = BoxStream<'static, Result<Bytes, ApiError>>;

pub(super) fn pods(name: Option<&str>) -> Target<'_> {
    Target {
        resource: &PODS,
        namespace: Some("default"),
        name,
        subresource: None,
    }
}

fn name(index: usize) -> String {
    format!("pod-{index:06}")
}

/// Creates pods like those of workloads, each of [`SIZE`] bytes in the store.
pub(super) struct Pods {
    client: ApiClient,
    /// The manifest before and after the name of the pod.
    manifest: [String; 2],
}

impl Pods {
    /// Creates and deletes a probe. Its stored size gives the padding for [`SIZE`] bytes.
    pub(super) async fn on(client: ApiClient) -> Result<Arc<Self>> {
        let probe = manifest("");
        client
            .create(pods(None), &RawValue::from_string(probe.join("probe"))?)
            .await
            .context("create a pod")?;
        let stored = client.get(pods(Some("probe"))).await?.len();
        let padding = SIZE.checked_sub(stored).with_context(|| {
            format!("a pod without padding has {stored} bytes, more than {SIZE}")
        })?;
        client
            .delete(pods(Some("probe")), &json!({ "gracePeriodSeconds": 0 }))
            .await?;
        Ok(Arc::new(Self {
            client,
            manifest: manifest(&"x".repeat(padding)),
        }))
    }

    /// Creates the pod of this number.
    pub(super) async fn create(&self, index: usize) -> Result<()> {
        let body = RawValue::from_string(self.manifest.join(&name(index)))?;
        self.client
            .create(pods(None), &body)
            .await
            .context("create a pod")?;
        Ok(())
    }

    /// Creates a pod, patches its status, and deletes it.
    pub(super) async fn life_cycle(&self, index: usize) -> Result<()> {
        self.create(index).await?;
        let name = name(index);
        let status = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
        let target = Target {
            subresource: Some("status"),
            ..pods(Some(&name))
        };
        self.client
            .patch(target, PatchKind::Merge, &status)
            .await
            .context("patch a pod")?;
        self.client
            .delete(pods(Some(&name)), &json!({ "gracePeriodSeconds": 0 }))
            .await
            .context("delete a pod")?;
        Ok(())
    }

    /// Creates the pods of these numbers.
    pub(super) async fn create_all(self: &Arc<Self>, range: Range<usize>) -> Result<()> {
        let next = Arc::new(AtomicUsize::new(range.start));
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let pods = Arc::clone(self);
            let next = Arc::clone(&next);
            let end = range.end;
            tasks.spawn(async move {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= end {
                        return anyhow::Ok(());
                    }
                    pods.create(index).await?;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

/// A pod with the usual labels, ports and resources of a workload.
fn manifest(padding: &str) -> [String; 2] {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "NAME",
            "labels": { "app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "bench", "pod-template-hash": "5d4f8c7b9d" },
            "annotations": { "bench.steersman.dev/padding": padding },
        },
        "spec": {
            // The volume of a token would take more bytes than the padding.
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "main", "image": "registry.example/web:v1",
                "ports": [{ "containerPort": 8080, "name": "http" }],
                "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "512Mi" } },
            }],
        },
    });
    let text = pod.to_string();
    let (before, after) = text
        .split_once("NAME")
        .expect("the name is in the manifest");
    [before.to_owned(), after.to_owned()]
}

/// Open watches of all pods, and the number of events that they received together. A watch that
/// ends is an error.
#[derive(Default)]
pub(super) struct Watches {
    /// One task per watch, which returns the reason why the watch ended.
    tasks: JoinSet<anyhow::Error>,
    counted: Arc<Counted>,
}

#[derive(Default)]
struct Counted {
    events: AtomicUsize,
    changed: Notify,
}

impl Counted {
    fn events(&self) -> usize {
        self.events.load(Ordering::Relaxed)
    }

    /// Counts the events of a watch, and returns the reason why the watch ended.
    async fn count(&self, mut frames: Frames) -> anyhow::Error {
        loop {
            match frames.next().await {
                Some(Ok(frame)) if frame.starts_with(b"{\"type\":\"ERROR\"") => {
                    return anyhow!("{}", String::from_utf8_lossy(&frame).trim_end().to_owned());
                }
                Some(Ok(frame)) => {
                    if frame.starts_with(b"{\"type\":\"ADDED\"")
                        || frame.starts_with(b"{\"type\":\"MODIFIED\"")
                    {
                        self.events.fetch_add(1, Ordering::Relaxed);
                        self.changed.notify_one();
                    }
                }
                Some(Err(error)) => return error.into(),
                None => return anyhow!("the server closed the stream"),
            }
        }
    }
}

impl Watches {
    /// Opens `count` watches from the latest resource version on, at most 64 at once.
    pub(super) async fn open(
        client: &ApiClient,
        count: usize,
        query: &'static str,
    ) -> Result<Self> {
        let list = client.list(pods(None), "limit=1").await?;
        let list: Value = serde_json::from_slice(&list)?;
        let version = list["metadata"]["resourceVersion"]
            .as_str()
            .context("a list has a version")?;
        let query = Query::default()
            .with("resourceVersion", version)
            .and(&Query::from(query));
        let opened = stream::iter(0..count)
            .map(|_| client.watch(pods(None), &query))
            .buffer_unordered(64);
        let mut watches = Self::default();
        for frames in opened.try_collect::<Vec<_>>().await? {
            let counted = Arc::clone(&watches.counted);
            watches
                .tasks
                .spawn(async move { counted.count(frames).await });
        }
        Ok(watches)
    }

    /// Waits until the watches have received this many events together.
    pub(super) async fn received(&mut self, events: usize) -> Result<()> {
        let counted = Arc::clone(&self.counted);
        let all = async {
            while counted.events() < events {
                counted.changed.notified().await;
            }
        };
        tokio::select! {
            biased;
            () = all => Ok(()),
            ended = self.ended() => Err(ended.context(format!("received {} of {events} events", counted.events()))),
            () = tokio::time::sleep(LIMIT) => bail!("received {} of {events} events in {LIMIT:?}", counted.events()),
        }
    }

    /// Waits until a watch ends, and returns the reason.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        match self.tasks.join_next().await {
            Some(Ok(why)) => why.context("a watch ended"),
            Some(Err(panicked)) => panicked.into(),
            None => std::future::pending().await,
        }
    }
}
