//! Stories of whole clusters: the embedded metrics APIs, targets of several kinds, and failures.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{self, Matcher};
use steersman_options::features::{self, FeatureGates};
use steersman_releases::Release;
use tokio::time::Instant;

use crate::podautoscaler::DESCRIPTOR;
use crate::testing::NAMESPACE;
use crate::testing::world::{World, condition_of};
use crate::{deployment, replicaset};

/// Name of the target, and of its autoscaler.
const NAME: &str = "web";

/// An autoscaler of the object `kind` with these fields of its spec.
fn autoscaler(kind: &str, fields: Value) -> Value {
    let api_version = if kind == "Shop" {
        "example.com/v1"
    } else {
        "apps/v1"
    };
    let mut spec = json!({
        "scaleTargetRef": {"kind": kind, "name": NAME, "apiVersion": api_version},
        "minReplicas": 1, "maxReplicas": 6,
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec,
    })
}

/// `metrics` with one entry: mean use of CPU in percent of the requests.
fn cpu(percent: i32) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]})
}

/// A Deployment or ReplicaSet. Each container requests half a core and uses `used`.
fn workload(kind: &str, replicas: i32, used: &str) -> Value {
    let container =
        json!({"name": "main", "image": "i", "resources": {"requests": {"cpu": "500m"}}});
    let template = json!({
        "metadata": {"labels": {"app": NAME}, "annotations": {"simulate.steersman.dev/cpu": used}},
        "spec": {"containers": [container]},
    });
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": NAME}}, "template": template},
    })
}

/// A cluster with metrics APIs and this controller, without nodes.
async fn bare() -> World {
    let mut world = World::bare().await;
    world.cluster.serve_metrics();
    world.restart(&[DESCRIPTOR]).await;
    world
}

/// A ready pod of the target without a controller.
async fn add_pod(world: &World, name: &str, used: &str) {
    let template = workload("ReplicaSet", 1, used)["spec"]["template"].clone();
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"],
    });
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!(NAMESPACE);
    pod["spec"]["nodeName"] = json!("node");
    world.create(pod).await;
    let started = world.clock.now_seconds() - Duration::from_secs(3600);
    let ready =
        json!([{"type": "Ready", "status": "True", "lastTransitionTime": started.to_string()}]);
    let status = json!({"phase": "Running", "startTime": started.to_string(), "conditions": ready});
    world.pod_status(name, status).await;
}

fn found(world: &World) -> Value {
    world.find("horizontalpodautoscalers", NAME).unwrap()
}

fn size(world: &World, plural: &str) -> Value {
    world.find(plural, NAME).unwrap()["spec"]["replicas"].clone()
}

/// Waits until the ReplicaSet has this size.
async fn until_size(world: &World, replicas: i32) {
    let has = |rs: &Value| rs["spec"]["replicas"] == replicas;
    world
        .until("the size", |state| state.replica_sets.iter().any(has))
        .await;
}

/// Waits until a condition of the autoscaler has this status and reason.
async fn until_condition(world: &World, kind: &str, expected: (&str, &str)) {
    world
        .until(expected.1, |_| {
            condition_of(&found(world), kind) == Some(expected)
        })
        .await;
}

fn reasons(world: &World) -> Vec<String> {
    let events = world.state().events_about(NAME);
    events.into_iter().map(|(reason, _)| reason).collect()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_follows_its_load() {
    let controllers = [DESCRIPTOR, deployment::DESCRIPTOR, replicaset::DESCRIPTOR];
    let world = World::with(&controllers).await;
    world.cluster.serve_metrics();
    world.create(workload("Deployment", 2, "450m")).await;
    world.create(autoscaler("Deployment", cpu(50))).await;
    let has = |replicas: i32| {
        move |state: &crate::testing::world::State| {
            state.deployments[0]["spec"]["replicas"] == replicas
        }
    };
    world.until("the upper limit", has(6)).await;
    let begin = world.clock.now();
    for pod in world.state().pods {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let annotations = json!({"simulate.steersman.dev/cpu": "10m"});
        let changes = json!({"metadata": {"annotations": annotations}});
        world.patch("pods", name, changes).await;
    }
    until_condition(&world, "AbleToScale", ("True", "ScaleDownStabilized")).await;
    world.until("the lower limit", has(1)).await;
    let took = world.clock.now().duration_since(begin).as_secs();
    assert!((280..400).contains(&took), "stabilized for {took} s");
    let hpa = found(&world);
    assert_eq!(
        condition_of(&hpa, "ScalingActive"),
        Some(("True", "ValidMetricFound"))
    );
    assert!(
        reasons(&world)
            .iter()
            .all(|reason| reason != "FailedRescale")
    );
    assert_eq!(
        hpa["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"],
        2
    );
}

/// A load that rises by 0.8 thousandths of a core per period changes the status in most periods, not
/// in all.
#[tokio::test(start_paused = true)]
async fn a_status_is_written_once_per_period_and_only_after_a_change() {
    let controllers = [DESCRIPTOR, deployment::DESCRIPTOR, replicaset::DESCRIPTOR];
    let world = World::with(&controllers).await;
    world.cluster.serve_metrics();
    world
        .create(workload("Deployment", 1, "2m..18m/300s"))
        .await;
    world.create(autoscaler("Deployment", cpu(2))).await;
    until_condition(&world, "ScalingActive", ("True", "ValidMetricFound")).await;
    world.clear_requests();
    let mut version = found(&world)["metadata"]["resourceVersion"].clone();
    let mut changes = 0;
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let next = found(&world)["metadata"]["resourceVersion"].clone();
        if next != version {
            version = next;
            changes += 1;
        }
    }
    let writes = world.writes_by("horizontal-pod-autoscaler");
    let is_status = |write: &&String| write.contains("/status");
    assert_eq!(writes.iter().filter(is_status).count(), changes);
    assert!(
        (20..40).contains(&changes),
        "{changes} changes of the status"
    );
}

#[tokio::test(start_paused = true)]
async fn custom_and_external_metrics_come_from_config_maps() {
    let metrics = |mark: &str, object: &str, data: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": format!("{mark}-metrics"), "namespace": NAMESPACE,
                "labels": {"simulate.steersman.dev/metrics": mark, "queue": "orders"},
                "annotations": {"simulate.steersman.dev/object": object},
            },
            "data": data,
        })
    };
    let target = |value: &str| json!({"type": "Value", "value": value});
    let average = |value: &str| json!({"type": "AverageValue", "averageValue": value});
    let service = json!({"kind": "Service", "name": NAME, "apiVersion": "v1"});
    let labels = json!({"matchLabels": {"queue": "orders"}});
    // (metric, object of the ConfigMap, value, size)
    let cases = [
        (
            json!({"type": "External", "external": {"metric": {"name": "m", "selector": labels}, "target": average("10")}}),
            "",
            "41",
            5,
        ),
        (
            json!({"type": "External", "external": {"metric": {"name": "m"}, "target": target("10")}}),
            "",
            "20",
            4,
        ),
        (
            json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": average("10")}}),
            "pods/*",
            "15",
            3,
        ),
        (
            json!({"type": "Object", "object": {"describedObject": service, "metric": {"name": "m"}, "target": target("10")}}),
            "services/web",
            "29",
            6,
        ),
    ];
    for (metric, object, value, expected) in cases {
        let world = bare().await;
        world.create(workload("ReplicaSet", 2, "0")).await;
        for name in ["a", "b"] {
            add_pod(&world, name, "0").await;
        }
        let mark = if object.is_empty() {
            "external"
        } else {
            "custom"
        };
        world
            .create(metrics(mark, object, json!({"m": value})))
            .await;
        world
            .create(autoscaler("ReplicaSet", json!({"metrics": [metric]})))
            .await;
        until_size(&world, expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_scaled_through_its_subresource() {
    let world = bare().await;
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        "subresources": {"scale": {
            "specReplicasPath": ".spec.counters", "statusReplicasPath": ".status.counters",
            "labelSelectorPath": ".status.selector",
        }, "status": {}},
    });
    world
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "shops.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "versions": [version],
                "names": {"kind": "Shop", "plural": "shops", "singular": "shop", "listKind": "ShopList"},
            },
        }))
        .await;
    world
        .create(json!({
            "apiVersion": "example.com/v1", "kind": "Shop",
            "metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": {"counters": 1},
        }))
        .await;
    let status = json!({"status": {"counters": 1, "selector": "app=web"}});
    world.patch("shops", "web/status", status).await;
    add_pod(&world, "a", "600m").await;
    world.create(autoscaler("Shop", cpu(50))).await;
    world
        .until("the size", |_| {
            world.find("shops", NAME).unwrap()["spec"]["counters"] == 3
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn limits_apply_without_metrics() {
    let mut world = World::bare().await;
    world.restart(&[DESCRIPTOR]).await;
    world.create(workload("ReplicaSet", 9, "0")).await;
    let mut hpa = cpu(50);
    hpa["minReplicas"] = json!(3);
    world.create(autoscaler("ReplicaSet", hpa)).await;
    until_size(&world, 6).await;
    world
        .patch("replicasets", NAME, json!({"spec": {"replicas": 1}}))
        .await;
    until_size(&world, 3).await;
    until_condition(
        &world,
        "ScalingActive",
        ("False", "FailedGetResourceMetric"),
    )
    .await;
    assert_eq!(size(&world, "replicasets"), 3, "no metrics, no change");
    world
        .patch("replicasets", NAME, json!({"spec": {"replicas": 0}}))
        .await;
    until_condition(&world, "ScalingActive", ("False", "ScalingDisabled")).await;
    assert_eq!(size(&world, "replicasets"), 0, "a user scaled it to zero");
}

/// Metrics APIs that are absent, slow, broken, or without samples: one attempt per period, the
/// condition and the Event of upstream, and no change of the size.
#[tokio::test(start_paused = true)]
async fn failing_metrics_are_retried_once_per_period() {
    let of_pods = || Matcher::new("list", "pods").client("horizontal-pod-autoscaler");
    let reason = "FailedGetResourceMetric";
    for case in ["absent", "refused", "silent", "no samples", "malformed"] {
        let mut world = World::bare().await;
        if case != "absent" {
            world.cluster.serve_metrics();
        }
        world.restart(&[DESCRIPTOR]).await;
        let used = if case == "malformed" { "a lot" } else { "400m" };
        world.create(workload("ReplicaSet", 2, used)).await;
        if case != "no samples" {
            for name in ["a", "b"] {
                add_pod(&world, name, used).await;
            }
        }
        let faults = world.cluster.faults();
        let rule = match case {
            "refused" => Some(faults.reject(of_pods(), faults::internal_error(), None)),
            "silent" => Some(faults.delay(of_pods(), Duration::from_secs(3600), None)),
            _ => None,
        };
        world.create(autoscaler("ReplicaSet", cpu(50))).await;
        until_condition(&world, "ScalingActive", ("False", reason)).await;
        world.cluster.clear_requests();
        let begin = world.clock.now();
        tokio::time::sleep(Duration::from_secs(600)).await;
        let requests = world.cluster.requests();
        let reads = requests.iter().filter(|r| r.path.ends_with("/scale"));
        let periods = world.clock.now().duration_since(begin).as_secs() / 15;
        let reads = i64::try_from(reads.count()).unwrap();
        assert!((5..=periods + 1).contains(&reads), "{case}: {reads} syncs");
        assert_eq!(size(&world, "replicasets"), 2, "{case}");
        assert!(
            reasons(&world).contains(&"FailedComputeMetricsReplicas".to_owned()),
            "{case}"
        );
        let writes = requests
            .iter()
            .filter(|r| r.path.ends_with("/status"))
            .count();
        assert_eq!(writes, 0, "{case}: an unchanged status is not written");
        if let Some(rule) = rule {
            world.cluster.faults().remove(rule);
            until_size(&world, 4).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_autoscalers_of_the_same_pods_leave_them_alone() {
    let world = bare().await;
    world.create(workload("ReplicaSet", 2, "0")).await;
    for name in ["a", "b"] {
        add_pod(&world, name, "400m").await;
    }
    world.create(autoscaler("ReplicaSet", cpu(80))).await;
    let mut other = autoscaler("ReplicaSet", cpu(10));
    other["metadata"]["name"] = json!("other");
    world.create(other).await;
    until_condition(&world, "ScalingActive", ("False", "AmbiguousSelector")).await;
    let hpa = found(&world);
    let message = &hpa["status"]["conditions"][1]["message"];
    assert_eq!(
        message,
        "pods by selector app=web are controlled by multiple HPAs: [default/other default/web]"
    );
    world.delete("horizontalpodautoscalers", "other").await;
    until_condition(&world, "ScalingActive", ("True", "ValidMetricFound")).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_target_is_reported() {
    let world = bare().await;
    world.create(autoscaler("ReplicaSet", cpu(50))).await;
    until_condition(&world, "AbleToScale", ("False", "FailedGetScale")).await;
    let (reason, message) = world.state().events_about(NAME).swap_remove(0);
    assert_eq!(
        (&*reason, &*message),
        ("FailedGetScale", "replicasets.apps \"web\" not found")
    );
    world.create(workload("ReplicaSet", 1, "0")).await;
    add_pod(&world, "a", "900m").await;
    until_size(&world, 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_size_that_changed_meanwhile_is_written_again() {
    let resizes = || Matcher::new("update", "replicasets").subresource("scale");
    // (conflicts, reason of the first Event)
    for (conflicts, expected) in [(4, "SuccessfulRescale"), (5, "FailedRescale")] {
        let world = bare().await;
        let faults = world.cluster.faults();
        faults.reject(resizes(), faults::conflict(), Some(conflicts));
        world.create(workload("ReplicaSet", 1, "0")).await;
        add_pod(&world, "a", "500m").await;
        world.create(autoscaler("ReplicaSet", cpu(50))).await;
        until_size(&world, 2).await;
        let first = reasons(&world).swap_remove(0);
        assert_eq!(first, expected, "{conflicts} conflicts");
    }
}

/// Upstream: `TestScalingWithRules`, as a story.
#[tokio::test(start_paused = true)]
async fn rules_limit_the_speed() {
    let world = bare().await;
    world.create(workload("ReplicaSet", 1, "0")).await;
    add_pod(&world, "a", "3").await;
    let mut fields = cpu(50);
    let policy = json!({"type": "Pods", "value": 1, "periodSeconds": 60});
    fields["behavior"] = json!({"scaleUp": {"policies": [policy]}});
    world.create(autoscaler("ReplicaSet", fields)).await;
    until_size(&world, 2).await;
    let begin = world.clock.now();
    until_condition(&world, "ScalingLimited", ("True", "ScaleUpLimit")).await;
    until_size(&world, 3).await;
    let took = world.clock.now().duration_since(begin).as_secs();
    assert!(
        (45..=75).contains(&took),
        "the next pod came after {took} s"
    );
}

/// A world of this release with an autoscaler whose lower limit is zero. Its target has `replicas` pods, and the
/// metric `value` of a queue asks for one pod by ten.
async fn with_a_queue(release: Release, gate: bool, replicas: i32, value: &str) -> World {
    let mut world = World::bare().await;
    world.cluster.serve_metrics();
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.release = release;
            context.features =
                FeatureGates::new(|name| name != "MaxUnavailableStatefulSet" && gate);
            context.with_flag("horizontal-pod-autoscaler-downscale-stabilization", "0s")
        })
        .await;
    let queue = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "queue", "namespace": NAMESPACE,
            "labels": {"simulate.steersman.dev/metrics": "external"},
        },
        "data": {"m": value},
    });
    world.create(queue).await;
    world.create(workload("ReplicaSet", replicas, "0")).await;
    let target = json!({"type": "AverageValue", "averageValue": "10"});
    let metric =
        json!({"type": "External", "external": {"metric": {"name": "m"}, "target": target}});
    let hpa = autoscaler("ReplicaSet", json!({"metrics": [metric]}));
    // The API server refuses a lower limit of zero without the gate, so the object is loaded.
    let mut stored = world.create(hpa).await;
    stored["spec"]["minReplicas"] = json!(0);
    world.cluster.load(stored).unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn with_its_gate_a_target_goes_to_zero_and_back() {
    let world = with_a_queue(Release::DEFAULT, true, 1, "0").await;
    until_size(&world, 0).await;
    until_condition(&world, "ScaledToZero", ("True", "ScaledToZero")).await;
    world
        .patch("configmaps", "queue", json!({"data": {"m": "35"}}))
        .await;
    until_size(&world, 4).await;
    until_condition(&world, "ScaledToZero", ("False", "NotScaledToZero")).await;
}

#[tokio::test(start_paused = true)]
async fn a_target_leaves_zero_by_its_lower_limit_up_to_1_35() {
    for gate in [false, true] {
        let world = with_a_queue(Release::of_minor(35), gate, 0, "35").await;
        until_size(&world, 4).await;
        let [hpa] = &world.cluster.objects("horizontalpodautoscalers")[..] else {
            panic!("there is one autoscaler");
        };
        assert!(!hpa.to_string().contains("ScaledToZero"), "{hpa}");
    }
    let world = with_a_queue(Release::DEFAULT, true, 0, "35").await;
    until_condition(&world, "ScalingActive", ("False", "ScalingDisabled")).await;
    assert_eq!(size(&world, "replicasets"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_metrics_count_autoscalers_and_syncs() {
    let world = bare().await;
    world.create(workload("ReplicaSet", 1, "0")).await;
    add_pod(&world, "a", "500m").await;
    world.create(autoscaler("ReplicaSet", cpu(50))).await;
    until_size(&world, 2).await;
    let sample = |line: &str| {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&world.registry.gather())
            .unwrap();
        let mut lines = text.lines();
        let line = lines
            .find_map(|found| found.strip_prefix(line))
            .map(str::trim);
        line.and_then(|value| value.parse::<f64>().ok())
    };
    let family = |name: &str| format!("horizontal_pod_autoscaler_controller_{name}");
    let count = family("num_horizontal_pod_autoscalers");
    assert_eq!(sample(&count), Some(1.0));
    // (sample, least value)
    for (name, least) in [
        (
            "reconciliations_total{action=\"scale_up\",error=\"none\"}",
            1.0,
        ),
        (
            "metric_computation_total{action=\"scale_up\",error=\"none\",metric_type=\"Resource\"}",
            1.0,
        ),
        (
            "reconciliation_duration_seconds_count{action=\"scale_up\",error=\"none\"}",
            1.0,
        ),
        (
            "desired_replicas{hpa_name=\"web\",namespace=\"default\"}",
            2.0,
        ),
    ] {
        let name = family(name);
        world
            .until(&name, |_| sample(&name).is_some_and(|value| value >= least))
            .await;
    }
    world.delete("horizontalpodautoscalers", NAME).await;
    world
        .until("none left", |_| sample(&count) == Some(0.0))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_period_that_is_not_positive_ends_the_start() {
    let world = World::bare().await;
    let flag = "horizontal-pod-autoscaler-sync-period";
    for (period, shown) in [("0s", "0s"), ("-1m", "-1m0s")] {
        let context = world.context().with_flag(flag, period);
        let error = (DESCRIPTOR.init)(&context).err().unwrap();
        let expected = format!("{flag} must be greater than 0, but got {shown}");
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
}

/// Releases from 1.37 on sync a new autoscaler at once, and tell the generation that the status is about. Older ones
/// wait for one period.
#[tokio::test(start_paused = true)]
async fn a_new_autoscaler_is_synced_at_once_since_1_37() {
    for (minor, seconds, observed) in [(36, 15, Value::Null), (37, 0, json!(0))] {
        let mut world = World::bare().await;
        world.cluster.serve_metrics();
        world
            .restart_with(&[DESCRIPTOR], |mut context| {
                let is_on = |name: &str| {
                    let known = features::ALL.iter().find(|gate| gate.name == name);
                    known.is_some_and(|gate| gate.default)
                        || (minor == 37 && name == features::HPA_GENERATION.name)
                };
                context.features = FeatureGates::new(is_on);
                context.release = Release::of_minor(minor);
                context
            })
            .await;
        world.create(workload("ReplicaSet", 2, "0")).await;
        for name in ["a", "b"] {
            add_pod(&world, name, "400m").await;
        }
        let began = Instant::now();
        world.create(autoscaler("ReplicaSet", cpu(80))).await;
        until_condition(&world, "ScalingActive", ("True", "ValidMetricFound")).await;
        assert_eq!(began.elapsed().as_secs(), seconds, "1.{minor}");
        let status = &found(&world)["status"];
        assert_eq!(status["observedGeneration"], observed, "1.{minor}");
    }
}
