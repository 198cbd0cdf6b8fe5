//! Takeover of ResourceQuotas at rest.

use std::time::Duration;

use serde_json::json;
use steersman_devcluster::Admission;

use crate::resourcequota;
use crate::testing::NAMESPACE;
use crate::testing::world::World;

/// Longer than several full resyncs.
const AN_HOUR: Duration = Duration::from_secs(3600);

/// Upstream's manager leaves quotas whose amounts have other texts than sums have.
#[tokio::test(start_paused = true)]
async fn quotas_at_rest_are_taken_over_without_a_write() {
    let admission = Admission {
        quota_controller: true,
        ..Admission::default()
    };
    let mut world = World::with_admission(admission).await;
    let metadata = |name: &str| json!({"name": name, "namespace": NAMESPACE});
    let requests = json!({"cpu": "500m", "memory": "1Gi"});
    let container = json!({"name": "c", "image": "i", "resources": {"requests": requests}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata("web"),
        "spec": {"containers": [container]}, "status": {"phase": "Running"},
    });
    let hard = json!({"pods": "5", "cpu": "2", "requests.memory": "4Gi", "count/configmaps": "3", "x.example.com/y": "1"});
    let used = json!({"pods": "1", "cpu": "0.5", "requests.memory": "1073741824", "count/configmaps": "0"});
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata("q"),
        "spec": {"hard": hard}, "status": {"hard": hard, "used": used},
    });
    for object in [pod, quota] {
        world.cluster.load(object).unwrap();
    }
    world.restart(&[resourcequota::DESCRIPTOR]).await;
    tokio::time::sleep(AN_HOUR).await;
    assert_eq!(world.all_writes(), Vec::<String>::new());
}
