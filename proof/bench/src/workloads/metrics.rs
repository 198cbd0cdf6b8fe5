//! `metrics.k8s.io` for the load `autoscalers`, on clusters without a metrics server.
//!
//! ready pods of the load -> copies in an embedded API server -> its metrics API -> APIService
//!
//! The embedded API server computes the metrics from the annotations of the copies.

use std::borrow::Cow;
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;
use steersman_objects::{Object, Pod, Service};
use steersman_runtime::informer::Store;
use steersman_values::clock::Clock;
use steersman_values::resource::ResourceType;
use tokio::task::JoinHandle;

use super::{NAMESPACE, target};

/// The path of the metrics API.
const PATH: &str = "/apis/metrics.k8s.io/v1beta1";
/// Name of the Service and of other objects.
const NAME: &str = "bench-metrics";
/// Time between two comparisons of the pods with their copies.
const PERIOD: Duration = Duration::from_secs(1);
/// Time for the API server to find the metrics API available, or gone.
const LIMIT: Duration = Duration::from_secs(60);

static API_SERVICES: ResourceType = ResourceType {
    group: Cow::Borrowed("apiregistration.k8s.io"),
    version: Cow::Borrowed("v1"),
    kind: Cow::Borrowed("APIService"),
    plural: Cow::Borrowed("apiservices"),
    namespaced: false,
};

/// A metrics server for the pods of the load, on this machine.
pub(super) struct MetricsServer {
    client: ApiClient,
    door: HttpsDoor,
    copies: JoinHandle<Result<()>>,
}

impl MetricsServer {
    /// Starts a metrics server, unless the cluster serves the metrics API. Pods have the metrics of
    /// `template`. The API server must be on this machine.
    pub(super) async fn start(
        client: &ApiClient,
        pods: Store<Pod>,
        template: &Value,
    ) -> Result<Option<Self>> {
        match client.get_path(PATH).await {
            Err(error) if error.is_not_found() => {}
            found => {
                found.context("look for the metrics API")?;
                return Ok(None);
            }
        }
        let cluster = DevCluster::builder()
            .clock(Clock::system())
            .managed_fields(false)
            .start()
            .await?;
        // A kube-apiserver without a client certificate for aggregation is anonymous.
        cluster.create(everything_for_anonymous()).await?;
        let door = cluster
            .serve_https(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await?;
        let server = Self {
            client: client.clone(),
            copies: tokio::spawn(copy(cluster, pods, template.clone())),
            door,
        };
        server.register().await?;
        Ok(Some(server))
    }

    /// Makes the metrics API a part of the cluster's API, and waits until it is available.
    async fn register(&self) -> Result<()> {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        let created = self.client.create(target::<Service>(None), &service).await;
        created.context("create the Service of the metrics API")?;
        let port = self.door.address().port();
        let api_service = json!({
            "apiVersion": API_SERVICES.api_version(), "kind": API_SERVICES.kind,
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io", "version": "v1beta1",
                "groupPriorityMinimum": 100, "versionPriority": 100,
                "service": {"name": NAME, "namespace": NAMESPACE, "port": port},
                "insecureSkipTLSVerify": true,
            },
        });
        let created = self.client.create(api_services(None), &api_service).await;
        created.context("create the APIService of the metrics API")?;
        self.wait(Result::is_ok)
            .await
            .context("the metrics API is not available")
    }

    /// Waits until a request for the metrics API has this answer.
    async fn wait(&self, is_expected: fn(&Result<Bytes, ApiError>) -> bool) -> Result<()> {
        let answered = async {
            while !is_expected(&self.client.get_path(PATH).await) {
                tokio::time::sleep(PERIOD).await;
            }
        };
        tokio::time::timeout(LIMIT, answered)
            .await
            .context("the API server has no other answer")
    }

    /// Removes the metrics API from the cluster.
    ///
    /// # Errors
    /// If the copies of the pods were not up to date, or the API server keeps the metrics API.
    pub(super) async fn stop(self) -> Result<()> {
        if self.copies.is_finished() {
            return self.copies.await?;
        }
        self.copies.abort();
        let name = "v1beta1.metrics.k8s.io";
        self.client
            .delete(api_services(Some(name)), &json!({}))
            .await?;
        self.client
            .delete(target::<Service>(Some(NAME)), &json!({}))
            .await?;
        let is_gone =
            |answer: &Result<Bytes, ApiError>| matches!(answer, Err(error) if error.is_not_found());
        self.wait(is_gone)
            .await
            .context("the metrics API is still there")?;
        self.door.stop().await;
        Ok(())
    }
}

fn api_services(name: Option<&str>) -> Target<'_> {
    Target {
        resource: &API_SERVICES,
        namespace: None,
        name,
        subresource: None,
    }
}

fn everything_for_anonymous() -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "system:anonymous"}],
    })
}

/// Keeps a copy of each ready pod of the load in `cluster`.
async fn copy(cluster: DevCluster, pods: Store<Pod>, template: Value) -> Result<()> {
    let mut copied: HashSet<Box<str>> = HashSet::new();
    loop {
        let listed = pods.list();
        let ready: Vec<&Arc<Pod>> = listed
            .iter()
            .filter(|pod| *pod.meta.namespace == *NAMESPACE && pod.is_ready())
            .collect();
        for pod in &ready {
            if copied.insert((&*pod.meta.name).into())
                && let Err(status) = cluster.load(copy_of(pod, &template))
            {
                bail!("copy pod {}: {}", pod.meta.name, status.message);
            }
        }
        let names: HashSet<&str> = ready.iter().map(|pod| &*pod.meta.name).collect();
        let gone: Vec<Box<str>> = copied.extract_if(|name| !names.contains(&**name)).collect();
        for name in gone {
            let path = cluster.path("pods", NAMESPACE, &name);
            let at_once = json!({"gracePeriodSeconds": 0});
            cluster.delete_with(&path, at_once).await?;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// A running pod with the name and the labels of `pod`, made from `template`.
fn copy_of(pod: &Pod, template: &Value) -> Value {
    let labels: serde_json::Map<String, Value> = pod
        .meta
        .labels
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_str().into()))
        .collect();
    json!({
        "apiVersion": Pod::RESOURCE.api_version(), "kind": Pod::RESOURCE.kind,
        "metadata": {
            "name": &*pod.meta.name, "namespace": NAMESPACE, "labels": labels,
            "annotations": template["metadata"]["annotations"],
        },
        "spec": template["spec"], "status": {"phase": "Running"},
    })
}
