//! Measures the cost of recording managed fields: time per create and status patch, and size.

use http::Method;
use jiff::Timestamp;
use serde_json::json;
use steersman_devcluster::DevCluster;
use steersman_devcluster::status::Status;
use steersman_values::clock::Clock;

#[tokio::main]
async fn main() -> Result<(), Status> {
    let container = json!({
        "name": "c", "image": "app:v1", "env": (0..8).map(|n| json!({"name": format!("S{n}"), "value": "v"})).collect::<Vec<_>>(),
        "ports": [{"containerPort": 8080}], "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}},
    });
    for _ in 0..2 {
        for (name, cluster) in [
            ("without", DevCluster::new(Clock::system())),
            ("with", DevCluster::with_managed_fields(Clock::system())),
        ] {
            let pod = |n: usize| {
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{n}"), "labels": {"a": "b"}},
                       "spec": {"containers": [container, {"name": "d", "image": "e"}]}})
            };
            let pods = "/api/v1/namespaces/default/pods";
            let started = Clock::system().now();
            for n in 0..5_000 {
                cluster
                    .call(Method::POST, pods, "application/json", pod(n).to_string())
                    .await?;
            }
            let created = Clock::system().now();
            let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}).to_string();
            for n in 0..5_000 {
                let path = format!("{pods}/p{n}/status");
                cluster
                    .call(
                        Method::PATCH,
                        &path,
                        "application/merge-patch+json",
                        status.clone(),
                    )
                    .await?;
            }
            let patched = Clock::system().now();
            let size = cluster
                .call(Method::GET, &format!("{pods}/p0"), "", "")
                .await?
                .to_string()
                .len();
            let micros =
                |from: Timestamp, to: Timestamp| to.duration_since(from).as_micros() / 5_000;
            println!(
                "{name}: create {} us, status patch {} us, {size} bytes",
                micros(started, created),
                micros(created, patched)
            );
        }
    }
    Ok(())
}
