//! A manager with work for every metric, on a cluster with injected failures.

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::User;
use steersman_devcluster::faults::{Matcher, throttled};
use steersman_devcluster::status::Status;
use steersman_values::clock::Clock;

use crate::support::cluster::deployment;
use crate::support::secured::Secured;
use crate::support::{Identity, LIMIT};

/// The bearer token of the scraper.
pub(super) const TOKEN: &str = "scraper";

/// A leader, with a scraper that has access to its metrics.
pub(super) struct Busy {
    pub(super) secured: Secured,
}

impl Busy {
    /// Starts a manager, and waits until it leads.
    pub(super) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// As [`Busy::start`], with more flags.
    pub(super) async fn start_with(more: &[&str]) -> Self {
        let cluster = DevCluster::new(Clock::system());
        cluster.serve_metrics();
        cluster.add_token(TOKEN, User::new("prometheus", ["system:monitoring"]));
        for name in ["done-1", "done-2", "done-3"] {
            let spec = json!({"containers": [{"name": "c", "image": "i"}], "nodeName": "gone"});
            let meta = json!({"name": name, "namespace": "default"});
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Succeeded"}});
            cluster.load(pod).unwrap();
        }
        let faults = cluster.faults();
        faults.reject(
            Matcher::new("delete", "pods"),
            Status::internal("no deletions yet"),
            Some(1),
        );
        faults.reject(Matcher::new("create", "replicasets"), throttled(1), Some(1));
        faults.reject(
            Matcher::new("create", "events"),
            Status::new(302, "Found", "elsewhere"),
            Some(1),
        );

        let flags = [
            "--terminated-pod-gc-threshold=1",
            "--kube-api-qps=50",
            "--kube-api-burst=2",
            "--horizontal-pod-autoscaler-sync-period=1s",
            "--enable-hostpath-provisioner=true",
        ];
        Self {
            secured: Secured::start_with_plugin(cluster, &[&flags, more].concat()).await,
        }
    }

    /// Causes every event that a metric counts.
    pub(super) async fn do_everything_once(&self) {
        let cluster = &self.secured.cluster;
        cluster.create(deployment("web", 3)).await.unwrap();
        // The status shows that the cache has all pods, so no expectations remain.
        let counted = |sets: &[Value]| sets.iter().any(|set| set["status"]["replicas"] == 3);
        cluster
            .wait_for("replicasets", LIMIT, counted)
            .await
            .unwrap();
        // With a stale cache of pods, the ReplicaSet cannot be synced again.
        cluster.faults().stall_watches("pods");
        // The third batch has four creations at once, more than the throttle lets through.
        self.scale(10).await;
        self.wait_for_pods(10).await;
        self.scale(11).await;
        self.until(r#"replicaset_controller_stale_sync_skips_total{group="",resource="pods"}"#)
            .await;
        cluster.faults().resume_watches("pods");
        self.wait_for_pods(11).await;
        self.use_services().await;
        self.use_autoscaler().await;
        self.use_volumes().await;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}});
        cluster.create(node).await.unwrap();
        self.until("node_collector_zone_size{").await;
        self.until("node_collector_evictions_total{").await;
        // After a foreign update of the Lease, the next renewal must read it first.
        let lease = cluster.path("leases", "kube-system", "kube-controller-manager");
        cluster
            .patch(&lease, json!({"metadata": {"labels": {"touched": "yes"}}}))
            .await
            .unwrap();
        self.until("leader_election_slowpath_total{").await;
        let (head, _) = self.ask("/healthz", None);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }

    /// Creates a Service with a selector, and one with Endpoints in place of it.
    async fn use_services(&self) {
        let service = |name: &str, fields: Value| {
            let mut spec = json!({"ports": [{"port": 80}]});
            for (field, value) in fields.as_object().into_iter().flatten() {
                spec[field] = value.clone();
            }
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
        };
        let selector = json!({"selector": {"app": "web"}, "trafficDistribution": "PreferSameZone"});
        let subset = json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]});
        let endpoints = json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "db", "namespace": "default"}, "subsets": [subset],
        });
        for object in [
            service("web", selector),
            service("db", json!({})),
            endpoints,
        ] {
            self.secured.cluster.create(object).await.unwrap();
        }
        for family in [
            "endpoint_slice_controller_changes{",
            "endpoint_slice_mirroring_controller_changes{",
        ] {
            self.until(family).await;
        }
    }

    /// Creates an autoscaler that keeps its target at one pod.
    async fn use_autoscaler(&self) {
        let values = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "queue", "namespace": "default",
                "labels": {"simulate.steersman.dev/metrics": "external"},
            },
            "data": {"queue": "3"},
        });
        let target = json!({"type": "AverageValue", "averageValue": "10"});
        let metric = json!({"metric": {"name": "queue"}, "target": target});
        let autoscaler = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "scaled", "namespace": "default"},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "scaled", "apiVersion": "apps/v1"},
                "maxReplicas": 1, "metrics": [{"type": "External", "external": metric}],
            },
        });
        for object in [values, deployment("scaled", 1), autoscaler] {
            self.secured.cluster.create(object).await.unwrap();
        }
        self.until("horizontal_pod_autoscaler_controller_desired_replicas{")
            .await;
    }

    /// Creates a volume and a claim that do not match, and a claim that gets a folder at the second
    /// try.
    async fn use_volumes(&self) {
        let cluster = &self.secured.cluster;
        let updates = Matcher::new("update", "persistentvolumeclaims").name("data");
        let refused = Status::internal("no claims yet");
        let rule = cluster.faults().reject(updates, refused, None);
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "folder"},
            "provisioner": "kubernetes.io/host-path",
        });
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "free"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "hostPath": {"path": "/tmp/x"},
            },
        });
        let claim = |name: &str, class: &str, storage: &str| {
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                    "resources": {"requests": {"storage": storage}},
                },
            })
        };
        for object in [
            class,
            volume,
            claim("waiting", "", "9Gi"),
            claim("data", "folder", "1Gi"),
        ] {
            cluster.create(object).await.unwrap();
        }
        self.until("volume_operation_errors_total{").await;
        cluster.faults().remove(rule);
        self.until("volume_operation_total_seconds_count{").await;
        let claim = cluster.path("persistentvolumeclaims", "default", "data");
        cluster.delete(&claim).await.unwrap();
        self.until(r#"operation_name="volume_delete""#).await;
        cluster
            .create(json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "free", "namespace": "default"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }))
            .await
            .unwrap();
        self.until("pv_collector_bound_pv_count{").await;
        let second = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "second"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "hostPath": {"path": "/tmp/y"},
            },
        });
        cluster.create(second).await.unwrap();
        self.until("pv_collector_unbound_pv_count{").await;
    }

    /// Causes a little more work.
    pub(super) async fn do_something(&self) {
        for replicas in [2, 4] {
            self.scale(replicas).await;
            self.wait_for_pods(replicas).await;
        }
        self.ask("/healthz", None);
    }

    async fn scale(&self, replicas: usize) {
        let path = self.secured.cluster.path("deployments", "default", "web");
        self.secured
            .cluster
            .patch(&path, json!({"spec": {"replicas": replicas}}))
            .await
            .unwrap();
    }

    async fn wait_for_pods(&self, count: usize) {
        let is_ours = |pod: &&Value| pod["metadata"]["labels"]["app"] == "web";
        let waited = self
            .secured
            .cluster
            .wait_for("pods", LIMIT, |pods| {
                pods.iter().filter(is_ours).count() == count
            })
            .await;
        waited.unwrap_or_else(|pods| panic!("not {count} pods: {pods:#?}"));
    }

    /// Waits until `/metrics` contains `part`.
    async fn until(&self, part: &str) {
        let started = std::time::Instant::now();
        loop {
            let page = self.get("/metrics");
            if page.contains(part) {
                return;
            }
            assert!(started.elapsed() < LIMIT, "no {part:?} in\n{page}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// A page as Prometheus receives it; it must exist.
    pub(super) fn get(&self, path: &str) -> String {
        // A request with a client certificate as well, for the metrics of certificates.
        self.ask(path, Some(&self.secured.clients.master()));
        let (head, body) = self.ask(path, None);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{body}");
        body
    }

    fn ask(&self, path: &str, identity: Option<&Identity>) -> (String, String) {
        self.secured.ask(
            &format!("GET {path}"),
            &format!("authorization: Bearer {TOKEN}\r\n"),
            "",
            identity,
        )
    }

    pub(super) async fn stop(self) {
        self.secured.stop().await;
    }
}
