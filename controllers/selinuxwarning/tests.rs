//! Stories of the SELinux warning controller against the in-memory API server.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_options::features::FeatureGates;
use steersman_runtime::controller::ControllerContext;
use tokio::time::Instant;

use super::DESCRIPTOR;
use crate::testing::NAMESPACE;
use crate::testing::world::World;

const DRIVER: &str = "csi.example.com";

fn driver(mounts: bool) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
        "spec": {"seLinuxMount": mounts},
    })
}

fn volume() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {
            "accessModes": ["ReadWriteMany"], "csi": {"driver": DRIVER, "volumeHandle": "h"},
            "claimRef": {"namespace": NAMESPACE, "name": "claim", "uid": "claim-uid"},
        },
    })
}

fn claim() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim", "namespace": NAMESPACE, "uid": "claim-uid"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
    })
}

/// A pod that mounts the claim in containers of these levels.
fn pod(name: &str, levels: &[&str]) -> Value {
    let container = |level: &&str| {
        json!({
            "name": format!("c{level}"), "image": "i",
            "securityContext": {"seLinuxOptions": {"level": level}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        })
    };
    let containers: Vec<Value> = levels.iter().map(container).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}")},
        "spec": {
            "containers": containers,
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}],
        },
        "status": {"phase": "Running"},
    })
}

struct Warnings(World);

impl Warnings {
    async fn with(objects: &[Value]) -> Self {
        Self::gated(FeatureGates::default(), objects).await
    }

    async fn gated(features: FeatureGates, objects: &[Value]) -> Self {
        let mut world = World::bare().await;
        for object in objects {
            world.cluster.load(object.clone()).unwrap();
        }
        let configure = |mut context: ControllerContext| {
            context.features = features.clone();
            context
        };
        world.restart_with(&[DESCRIPTOR], configure).await;
        Self(world)
    }

    /// The Events: pod, type, reason and message.
    fn events(&self) -> Vec<String> {
        let events = self.0.cluster.objects("events");
        let text = |event: &Value| {
            let part = |field: &str| event[field].as_str().unwrap().to_owned();
            assert_eq!(event["source"]["component"], "selinux_warning");
            let pod = event["involvedObject"]["name"].as_str().unwrap();
            format!(
                "{pod} {} {} {}",
                part("type"),
                part("reason"),
                part("message")
            )
        };
        let mut events: Vec<String> = events.iter().map(text).collect();
        events.sort_unstable();
        events
    }

    fn metric(&self) -> Vec<String> {
        let families = self.0.registry.gather();
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&families)
            .unwrap();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("selinux_warning_controller"));
        lines.map(str::to_owned).collect()
    }

    async fn until(&self, expected: &str, holds: impl Fn(&Self) -> bool) {
        let limit = Instant::now() + Duration::from_mins(10);
        while !holds(self) {
            assert!(
                Instant::now() < limit,
                "no {expected}: {:#?}",
                self.events()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

const END: &str = "If both pods land on the same node, only one of them may access the volume.";

#[tokio::test(start_paused = true)]
async fn two_labels_of_one_volume_are_a_conflict_until_a_pod_ends() {
    let objects = [
        driver(true),
        volume(),
        claim(),
        pod("a", &["s0:c1,c2"]),
        pod("b", &["s0:c98,c99"]),
    ];
    let warnings = Warnings::with(&objects).await;
    warnings
        .until("two Events", |warnings| warnings.events().len() == 2)
        .await;
    let event = |pod: &str, own: &str, other: &str, level: &str| {
        format!(
            "{pod} Normal SELinuxLabelConflict SELinuxLabel \":::{own}\" conflicts with pod {other} that uses the same volume as this pod with SELinuxLabel \":::{level}\". {END}"
        )
    };
    let expected = [
        event("a", "s0:c1,c2", "b", "s0:c98,c99"),
        event("b", "s0:c98,c99", "a", "s0:c1,c2"),
    ];
    assert_eq!(warnings.events(), expected);
    let expected = format!(
        "selinux_warning_controller_selinux_volume_conflict{{pod1_name=\"a\",pod1_namespace=\"{NAMESPACE}\",pod1_value=\":::s0:c1,c2\",pod2_name=\"b\",pod2_namespace=\"{NAMESPACE}\",pod2_value=\":::s0:c98,c99\",property=\"SELinuxLabel\"}} 1"
    );
    assert_eq!(
        (warnings.metric().len(), &warnings.metric()[0]),
        (2, &expected)
    );
    let path = format!("{}/status", warnings.0.cluster.path("pods", NAMESPACE, "b"));
    let ended = json!({"status": {"phase": "Succeeded"}});
    warnings.0.cluster.patch(&path, ended).await.unwrap();
    warnings
        .until("end of the conflict", |warnings| {
            warnings.metric().is_empty()
        })
        .await;
}

/// The number of Events about two pods and one volume, and about a pod with two labels, and the size of the metric.
pub(crate) async fn conflicts_with(features: FeatureGates) -> (usize, usize) {
    let objects = [
        driver(true),
        volume(),
        claim(),
        pod("a", &["s0:c1,c2"]),
        pod("b", &["s0:c98,c99"]),
        pod("c", &["s0:c3", "s0:c4"]),
    ];
    let warnings = Warnings::gated(features, &objects).await;
    warnings.0.a_minute().await;
    (warnings.events().len(), warnings.metric().len())
}

/// Without the support of the driver, volumes are labelled one file after the other.
#[tokio::test(start_paused = true)]
async fn drivers_decide_whether_labels_matter() {
    let objects = [
        volume(),
        claim(),
        pod("a", &["s0:c1"]),
        pod("b", &["s0:c2"]),
    ];
    let warnings = Warnings::with(&objects).await;
    warnings.0.a_minute().await;
    assert!(warnings.events().is_empty() && warnings.metric().is_empty());
    warnings.0.cluster.load(driver(true)).unwrap();
    // The first pod that changes differs from the other one in its policy, too.
    warnings
        .until("conflicts", |warnings| warnings.metric().len() == 2)
        .await;
    let path = warnings.0.cluster.path("csidrivers", "", DRIVER);
    warnings.0.cluster.delete(&path).await.unwrap();
    warnings
        .until("no conflicts", |warnings| warnings.metric().is_empty())
        .await;
}

#[tokio::test(start_paused = true)]
async fn containers_of_one_pod_must_agree() {
    let objects = [
        driver(true),
        volume(),
        claim(),
        pod("a", &["s0:c1", "s0:c2"]),
    ];
    let warnings = Warnings::with(&objects).await;
    warnings
        .until("an Event", |warnings| !warnings.events().is_empty())
        .await;
    let expected = "a Warning MultipleSELinuxLabels Volume \"data\" is mounted twice with different SELinux labels inside this pod";
    assert_eq!(warnings.events(), [expected]);
    warnings.0.a_minute().await;
    let count = warnings.0.cluster.objects("events")[0]["count"].as_u64();
    assert!(count < Some(30), "{count:?}");
}

/// Upstream checks the labels before it looks for the plugin.
#[tokio::test(start_paused = true)]
async fn containers_must_agree_about_volumes_that_no_node_attaches() {
    for source in [
        json!({"emptyDir": {}}),
        json!({"configMap": {"name": "c"}}),
        json!({"hostPath": {"path": "/tmp/a"}}),
        json!({"nfs": {"server": "s", "path": "/"}}),
        json!({"csi": {"driver": DRIVER}}),
    ] {
        let with_source = |name: &str, levels: &[&str]| {
            let mut pod = pod(name, levels);
            pod["spec"]["volumes"][0] = source.clone();
            pod["spec"]["volumes"][0]["name"] = json!("data");
            pod
        };
        let objects = [
            driver(true),
            with_source("a", &["s0:c1", "s0:c2"]),
            with_source("b", &["s0:c1"]),
            with_source("c", &["s0:c2"]),
        ];
        let warnings = Warnings::with(&objects).await;
        warnings.0.a_minute().await;
        let expected = "a Warning MultipleSELinuxLabels Volume \"data\" is mounted twice with different SELinux labels inside this pod";
        assert_eq!(warnings.events(), [expected], "{source}");
        assert_eq!(warnings.metric(), [""; 0], "{source}");
    }
}

#[tokio::test(start_paused = true)]
async fn claims_may_be_bound_later() {
    let objects = [driver(true), pod("a", &["s0:c1"]), pod("b", &["s0:c2"])];
    let warnings = Warnings::with(&objects).await;
    warnings.0.a_minute().await;
    assert!(warnings.events().is_empty());
    warnings.0.cluster.load(volume()).unwrap();
    warnings.0.cluster.load(claim()).unwrap();
    warnings
        .until("two Events", |warnings| warnings.events().len() == 2)
        .await;
    warnings
        .0
        .cluster
        .delete(&warnings.0.cluster.path("pods", NAMESPACE, "a"))
        .await
        .unwrap();
    warnings
        .until("end of the conflict", |warnings| {
            warnings.metric().is_empty()
        })
        .await;
}
