//! Feature gates: each gate that a controller reads changes its behaviour.

use std::time::Duration;

use prometheus::Registry;
use serde_json::{Value, json};
use steersman_devcluster::Admission;
use steersman_devcluster::definitions::definition;
use steersman_objects::Node;
use steersman_options::features::{self, FeatureGates, Gate};
use steersman_runtime::informer::InformerFactory;

use super::NAMESPACE;
use super::world::World;
use crate::nodelifecycle::tests::leases::ready_beside_an_old_cache_of_leases;
use crate::selinuxwarning::tests::conflicts_with;
use crate::{
    daemonset, deployment, devicetainteviction, endpointslice, job, namespace, podautoscaler,
    podgc, protection, replicaset, resourceclaim, resourcequota, statefulset,
    storageversionmigrator,
};

const KEEP: &str = "example.com/keep";

/// A cluster with all controllers that read gates. All gates except `gate` are enabled.
async fn world(gate: Gate, is_on: bool) -> World {
    // The server counts for quotas as if every gate were on.
    let mut world = World::with_admission(Admission {
        quota_controller: true,
        ..Admission::default()
    })
    .await;
    let controllers = [
        daemonset::DESCRIPTOR,
        deployment::DESCRIPTOR,
        devicetainteviction::DESCRIPTOR,
        endpointslice::DESCRIPTOR,
        job::DESCRIPTOR,
        namespace::DESCRIPTOR,
        podautoscaler::DESCRIPTOR,
        podgc::DESCRIPTOR,
        protection::claims::DESCRIPTOR,
        replicaset::DESCRIPTOR,
        resourceclaim::DESCRIPTOR,
        resourcequota::DESCRIPTOR,
        statefulset::DESCRIPTOR,
    ];
    // The API server has these types by definitions.
    let types = [
        ("scheduling.k8s.io", "Workload", "v1alpha2", "Namespaced"),
        ("scheduling.k8s.io", "PodGroup", "v1alpha2", "Namespaced"),
        ("resource.k8s.io", "DeviceTaintRule", "v1beta2", "Cluster"),
    ];
    for (group, kind, version, scope) in types {
        world
            .create(definition(group, kind, &[version], scope))
            .await;
    }
    let set = |name: &str| if name == gate.name { is_on } else { true };
    world
        .restart_with(&controllers, |mut context| {
            context.features = FeatureGates::new(set);
            context
        })
        .await;
    world
}

fn pod(name: &str, namespace: &str, spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "finalizers": [KEEP]},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// A Deployment or ReplicaSet of two pods.
fn web(kind: &str) -> Value {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    })
}

/// `terminatingReplicas` in the status of a Deployment and of its ReplicaSet.
async fn terminating_replicas(world: &World) -> Value {
    world.create(web("Deployment")).await;
    let state = world.at_rest().await;
    let count = |object: &Value| object["status"]["terminatingReplicas"].clone();
    json!([
        count(state.deployment("web")),
        count(state.replica_set("i"))
    ])
}

/// Whether a namespace's ConfigMap is deleted while a pod remains in the namespace.
async fn deleted_beside_a_pod(world: &World) -> Value {
    world
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))
        .await;
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}});
    world.create(settings).await;
    world.create(pod("kept", "shop", json!({}))).await;
    world
        .cluster
        .delete("/api/v1/namespaces/shop")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    json!(world.find("configmaps", "a").is_none())
}

/// Whether a Job that ran keeps its start time while it is suspended.
async fn suspended_job_keeps_start_time(world: &World) -> Value {
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}});
    world
        .create(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web", "namespace": NAMESPACE}, "spec": {"template": template}}))
        .await;
    world.until("a pod", |state| !state.pods.is_empty()).await;
    world
        .patch("jobs", "web", json!({"spec": {"suspend": true}}))
        .await;
    world.until("no pod", |state| state.pods.is_empty()).await;
    world.at_rest().await;
    let job = world.find("jobs", "web").expect("the test created the Job");
    json!(!job["status"]["startTime"].is_null())
}

/// Whether the pod with the lower deletion cost is deleted, although the other one was restarted.
async fn cheaper_pod_is_deleted(world: &World) -> Value {
    world.create(web("ReplicaSet")).await;
    let state = world.until("two pods", |state| state.pods.len() == 2).await;
    let names: Vec<&str> = state
        .pods
        .iter()
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .collect();
    let cost =
        json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}});
    world.patch("pods", names[0], cost).await;
    let restarted =
        json!([{"name": "main", "restartCount": 5, "image": "", "imageID": "", "ready": false}]);
    world
        .pod_status(names[1], json!({"containerStatuses": restarted}))
        .await;
    world.at_rest().await;
    world
        .patch("replicasets", "web", json!({"spec": {"replicas": 1}}))
        .await;
    let left = world.until("one pod", |state| state.pods.len() == 1).await;
    json!(left.pods[0]["metadata"]["name"] == names[1])
}

/// `observedGeneration` in the status and in the condition of an orphaned pod.
async fn observed_generation(world: &World) -> Value {
    world
        .create(pod("orphan", NAMESPACE, json!({"nodeName": "gone"})))
        .await;
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    let state = world
        .until("the pod failed", |state| state.pods.iter().any(failed))
        .await;
    let status = &state.pods[0]["status"];
    let disrupted = status["conditions"]
        .as_array()
        .and_then(|all| all.iter().find(|c| c["type"] == "DisruptionTarget"));
    json!([
        status["observedGeneration"],
        disrupted.map(|condition| condition["observedGeneration"].clone())
    ])
}

/// The number of pods of a parallel set that an update with this strategy replaces at once.
async fn replaced_at_once(world: &World, strategy: Value) -> Value {
    let mut set = web("StatefulSet");
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    world.create(set).await;
    world.until("two pods", |state| state.pods.len() == 2).await;
    for pod in ["web-0", "web-1"] {
        world.make_ready(pod).await;
    }
    world.at_rest().await;
    // The embedded API server has the gates of both strategies off.
    let mut set = world.find("statefulsets", "web").unwrap();
    set["metadata"]["generation"] = json!(2);
    set["spec"]["updateStrategy"] = strategy;
    set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("j");
    world.cluster.load(set).unwrap();
    let state = world.at_rest().await;
    let is_new = |pod: &&Value| pod["spec"]["containers"][0]["image"] == "j";
    json!(state.pods.iter().filter(is_new).count())
}

/// The number of revisions of a StatefulSet whose first revision another version stored.
async fn revisions_beside_an_older_form(world: &World) -> Value {
    let metadata = json!({"creationTimestamp": null, "labels": {"app": "web"}});
    let spec = json!({"containers": [{"name": "main", "image": "i"}]});
    let template = json!({"$patch": "replace", "metadata": metadata, "spec": spec});
    let data = json!({"spec": {"template": template}});
    let metadata = json!({"name": "web-1", "namespace": NAMESPACE, "labels": {"app": "web"}});
    world
        .create(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "data": data, "revision": 1}))
        .await;
    world.create(web("StatefulSet")).await;
    world.at_rest().await;
    json!(world.cluster.objects("controllerrevisions").len())
}

/// The number of nodes for a DaemonSet that tolerates taints with a value above 750. The taint of
/// the node has the value 950.
async fn nodes_above(world: &World) -> Value {
    let taint = json!({"key": "sla", "value": "950", "effect": "NoSchedule"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": [taint]}});
    world.create(node).await;
    let mut ds = web("DaemonSet");
    ds["spec"].as_object_mut().unwrap().remove("replicas");
    ds["metadata"]["uid"] = json!("u");
    ds["metadata"]["generation"] = json!(1);
    let toleration =
        json!({"key": "sla", "operator": "Gt", "value": "750", "effect": "NoSchedule"});
    ds["spec"]["template"]["spec"]["tolerations"] = json!([toleration]);
    // The API server refuses the operator, since its own gate is off.
    world.cluster.load(ds).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let ds = world.find("daemonsets", "web").unwrap();
    ds["status"]["desiredNumberScheduled"].clone()
}

/// Whether a pod leaves the tainted device of its PodGroup.
async fn leaves_the_device_of_its_group(world: &World) -> Value {
    let taint = json!({"key": "k", "effect": "NoExecute", "timeAdded": "2020-01-01T00:00:00Z"});
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
        "spec": {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "x", "taints": [taint]}]},
    });
    let owner = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "uid": "u",
        "controller": true,
    });
    let consumer =
        json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"});
    let device = json!({"driver": "d", "pool": "p", "device": "x"});
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": NAMESPACE, "ownerReferences": [owner]},
        "status": {"allocation": {"devices": {"results": [device]}}, "reservedFor": [consumer]},
    });
    let mut user = pod(
        "user",
        NAMESPACE,
        json!({
            "nodeName": "n", "schedulingGroup": {"podGroupName": "g"},
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        }),
    );
    let status = json!([{"name": "gpu", "resourceClaimName": "c"}]);
    user["status"] = json!({"phase": "Running", "resourceClaimStatuses": status});
    for object in [slice, user, claim] {
        world.cluster.load(object).unwrap();
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let pods = world.cluster.objects("pods");
    json!(pods[0]["metadata"]["deletionTimestamp"].is_string())
}

/// Whether a pod leaves the device that a DeviceTaintRule taints.
async fn leaves_the_device_of_a_rule(world: &World) -> Value {
    let taint = json!({"key": "k", "effect": "NoExecute", "timeAdded": "2020-01-01T00:00:00Z"});
    let rule = json!({
        "apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule",
        "metadata": {"name": "r"}, "spec": {"deviceSelector": {"driver": "d"}, "taint": taint},
    });
    let device = json!({"driver": "d", "pool": "p", "device": "x"});
    let consumer = json!({"resource": "pods", "name": "user", "uid": "u"});
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": NAMESPACE},
        "status": {"allocation": {"devices": {"results": [device]}}, "reservedFor": [consumer]},
    });
    let claims = json!([{"name": "gpu", "resourceClaimName": "c"}]);
    let mut user = pod(
        "user",
        NAMESPACE,
        json!({"nodeName": "n", "resourceClaims": claims}),
    );
    user["metadata"]["uid"] = json!("u");
    user["status"] = json!({"phase": "Running"});
    for object in [rule, user, claim] {
        world.cluster.load(object).unwrap();
    }
    world.a_minute().await;
    let pods = world.cluster.objects("pods");
    json!(pods[0]["metadata"]["deletionTimestamp"].is_string())
}

/// Whether a pod gets a claim from a template that lists alternatives.
async fn has_claim_for_alternatives(world: &World) -> Value {
    let alternative = json!({"name": "a", "deviceClassName": "c"});
    let requests = json!([{"name": "r", "firstAvailable": [alternative]}]);
    let template = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": requests}}},
    });
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]);
    for object in [
        template,
        pod("user", NAMESPACE, json!({ "resourceClaims": claims })),
    ] {
        world.create(object).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    json!(world.cluster.objects("resourceclaims").len())
}

/// The size to which an autoscaler moves a target of `replicas`. The target has one pod, which uses
/// 110 thousandths of a core and has these fields in its spec. The autoscaler has `behavior`.
async fn autoscaled(world: &World, replicas: i32, behavior: Value, of_pod: Value) -> Value {
    world.cluster.serve_metrics();
    let since = "2020-01-01T00:00:00Z";
    let condition = |kind| json!({"type": kind, "status": "True", "lastTransitionTime": since});
    let labels = json!({"app": "scaled"});
    let mut user = pod("user", NAMESPACE, of_pod);
    user["metadata"]["labels"] = labels.clone();
    user["metadata"]["annotations"] = json!({"simulate.steersman.dev/cpu": "110m"});
    user["spec"]["nodeName"] = json!("n");
    user["status"] =
        json!({"phase": "Running", "startTime": since, "conditions": [condition("Ready")]});
    let metadata = json!({"name": "scaled", "namespace": NAMESPACE});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    let target = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": metadata,
        "spec": {"replicas": replicas, "selector": labels, "template": template},
    });
    world.create(target).await;
    let value = json!({"type": "Utilization", "averageUtilization": 50});
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata,
        "spec": {
            "scaleTargetRef": {"kind": "ReplicationController", "name": "scaled", "apiVersion": "v1"},
            "minReplicas": 1, "maxReplicas": 9, "behavior": behavior,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": value}}],
        },
        "status": {"conditions": [condition("ScaledToZero")]},
    });
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    for object in [node, user, autoscaler] {
        world.cluster.load(object).unwrap();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let target = world.find("replicationcontrollers", "scaled").unwrap();
    target["spec"]["replicas"].clone()
}

/// The status of the condition `Unused` of a claim without pods.
async fn unused(world: &World) -> Value {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    world.create(claim).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let claim = world.find("persistentvolumeclaims", "data").unwrap();
    claim["status"]["conditions"][0]["status"].clone()
}

/// The `spec` of a pod whose containers request `cpu`.
fn requesting(cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    json!({"containers": [{"name": "main", "image": "i", "resources": resources}]})
}

/// The usage of an extended resource that a claim for devices requests.
async fn counted_devices(world: &World, name: &str) -> Value {
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    });
    let metadata = json!({"name": "counted", "namespace": NAMESPACE});
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata,
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    });
    for object in [class, claim] {
        world.cluster.load(object).unwrap();
    }
    let spec = json!({"hard": {name: "9", "pods": "9"}});
    counted(world, spec).await[name].clone()
}

/// The usage in the status of a new quota with this spec.
async fn counted(world: &World, spec: Value) -> Value {
    let metadata = json!({"name": "counted", "namespace": NAMESPACE});
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec,
    });
    world.cluster.load(quota).unwrap();
    let quota = || world.find("resourcequotas", "counted").unwrap();
    world
        .until("a count", |_| !quota()["status"]["used"].is_null())
        .await;
    quota()["status"]["used"].clone()
}

/// The claims and the storage of a claim without a VolumeAttributesClass, which an expansion has enlarged. The quota
/// selects claims without such a class.
async fn counted_claim(world: &World, resource: &str, scopes: Value) -> Value {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": NAMESPACE},
        "spec": {"resources": {"requests": {"storage": "5G"}}},
        "status": {"allocatedResources": {"storage": "10G"}},
    });
    world.cluster.load(claim).unwrap();
    let spec = json!({"hard": {resource: "90G"}, "scopeSelector": scopes});
    counted(world, spec).await[resource].clone()
}

/// Whether a pod gets a claim from a template that asks for admin access.
async fn has_claim_with_admin_access(world: &World) -> Value {
    let exactly = json!({"deviceClassName": "c", "adminAccess": true});
    let template = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}},
    });
    world.cluster.load(template).unwrap();
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]);
    let user = pod("user", NAMESPACE, json!({ "resourceClaims": claims }));
    world.create(user).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let is_told = |event: &Value| {
        event["message"].as_str().is_some_and(|text| {
            text.contains("admin access is requested, but the feature is disabled")
        })
    };
    let events = world.cluster.objects("events");
    json!(!events.iter().any(is_told))
}

/// The usage of a quota with a pod that holds more than it requests now.
async fn counted_while_resized(world: &World) -> Value {
    let mut user = pod("user", NAMESPACE, requesting("1"));
    let held = json!({"requests": {"cpu": "2"}});
    user["status"] =
        json!({"phase": "Running", "containerStatuses": [{"name": "main", "resources": held}]});
    world.cluster.load(user).unwrap();
    let spec = json!({"hard": {"requests.cpu": "9"}});
    counted(world, spec).await["requests.cpu"].clone()
}

/// A Job of one pod, with these fields in its spec.
async fn create_job(world: &World, spec: Value) {
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}});
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "web", "namespace": NAMESPACE}, "spec": {"template": template},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    world.create(job).await;
}

/// The number of lists that fill a cache of nodes.
async fn lists_to_fill(world: &World, features: &FeatureGates) -> Value {
    let context = world.context();
    let client = context.client("lists-nodes");
    let informers =
        InformerFactory::with_features(client, Duration::ZERO, &Registry::new(), features);
    let informers = informers.unwrap();
    informers.shared::<Node>();
    informers.start(&context.tasks, &context.stop);
    assert!(informers.wait_synced(&context.stop).await);
    let requests = world.requests_of("lists-nodes");
    let lists = requests
        .iter()
        .filter(|request| request.starts_with("list "));
    json!(lists.count())
}

/// The number of pods of a Job that names another controller.
async fn pods_of_another_manager(world: &World) -> Value {
    create_job(world, json!({"managedBy": "example.com/queue"})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    json!(world.cluster.objects("pods").len())
}

/// Whether the pod of a Job that replaces only failed pods is replaced while it terminates, and how
/// many terminating pods the status counts.
async fn pods_beside_a_terminating_one(world: &World) -> Value {
    create_job(world, json!({"podReplacementPolicy": "Failed"})).await;
    let state = world.until("a pod", |state| !state.pods.is_empty()).await;
    let name = state.pods[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
    world.cluster.delete(&path).await.unwrap();
    // Longer than the back-off of the Job, and shorter than a round of the pod garbage collector,
    // which marks the pod as failed.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let job = world.find("jobs", "web").expect("the test created the Job");
    let pods = world.cluster.objects("pods");
    let is_replaced = pods.iter().any(|pod| pod["metadata"]["name"] != *name);
    json!([is_replaced, job["status"]["terminating"]])
}

/// The number of Workloads after the creation of a Job whose pods start together.
async fn workloads_of_a_gang(world: &World) -> Value {
    let spec = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2});
    create_job(world, spec).await;
    world.until("two pods", |state| state.pods.len() == 2).await;
    json!(world.cluster.objects("workloads").len())
}

/// The zones in the hints of an endpoint whose Service prefers its node.
async fn zones_of_hints(world: &World) -> Value {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z"}},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "near", "namespace": NAMESPACE, "uid": "near"},
        "spec": {
            "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"],
            "selector": {"app": "near"}, "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}],
            "trafficDistribution": "PreferSameNode",
        },
    });
    let mut user = pod("user", NAMESPACE, json!({"nodeName": "n"}));
    user["metadata"]["labels"] = json!({"app": "near"});
    user["status"] = json!({
        "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    });
    for object in [node, user, service] {
        world.cluster.load(object).unwrap();
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let slices = world.cluster.objects("endpointslices");
    slices[0]["endpoints"][0]["hints"]["forZones"][0]["name"].clone()
}

#[tokio::test(start_paused = true)]
async fn every_gate_that_controllers_read_has_an_effect() {
    for gate in features::ALL {
        for is_on in [true, false] {
            let world = world(gate, is_on).await;
            let (found, on, off) = match gate {
                features::DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS => (
                    terminating_replicas(&world).await,
                    json!([0, 0]),
                    json!([null, null]),
                ),
                features::MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS => (
                    suspended_job_keeps_start_time(&world).await,
                    json!(false),
                    json!(true),
                ),
                features::NODE_CONTROLLER_LEASE_CIRCUIT_BREAKER => (
                    ready_beside_an_old_cache_of_leases(is_on).await,
                    json!("True"),
                    json!("Unknown"),
                ),
                features::ORDERED_NAMESPACE_DELETION => (
                    deleted_beside_a_pod(&world).await,
                    json!(false),
                    json!(true),
                ),
                features::PERSISTENT_VOLUME_CLAIM_UNUSED_SINCE_TIME => {
                    (unused(&world).await, json!("True"), Value::Null)
                }
                features::POD_DELETION_COST => (
                    cheaper_pod_is_deleted(&world).await,
                    json!(true),
                    json!(false),
                ),
                features::POD_OBSERVED_GENERATION_TRACKING => (
                    observed_generation(&world).await,
                    json!([1, 1]),
                    json!([null, null]),
                ),
                features::MAX_UNAVAILABLE_STATEFUL_SET => {
                    let rolling = json!({"maxUnavailable": 2});
                    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
                    let found = replaced_at_once(&world, strategy).await;
                    (found, json!(2), json!(1))
                }
                features::STATEFUL_SET_RECREATE_STRATEGY => {
                    let found = replaced_at_once(&world, json!({"type": "Recreate"})).await;
                    (found, json!(2), json!(1))
                }
                features::STATEFUL_SET_SEMANTIC_REVISION_COMPARISON => (
                    revisions_beside_an_older_form(&world).await,
                    json!(1),
                    json!(2),
                ),
                features::TAINT_TOLERATION_COMPARISON_OPERATORS => {
                    (nodes_above(&world).await, json!(1), json!(0))
                }
                features::DRA_DEVICE_TAINT_RULES => (
                    leaves_the_device_of_a_rule(&world).await,
                    json!(true),
                    json!(false),
                ),
                features::DRA_PRIORITIZED_LIST => {
                    (has_claim_for_alternatives(&world).await, json!(1), json!(0))
                }
                features::DRA_WORKLOAD_RESOURCE_CLAIMS => (
                    leaves_the_device_of_its_group(&world).await,
                    json!(true),
                    json!(false),
                ),
                features::DRA_EXTENDED_RESOURCE => {
                    let found = counted_devices(&world, "requests.example.com/gpu").await;
                    (found, json!("2"), json!("0"))
                }
                features::DYNAMIC_RESOURCE_ALLOCATION => {
                    let name = "gpu.deviceclass.resource.k8s.io/devices";
                    let found = counted_devices(&world, name).await;
                    (found, json!("2"), Value::Null)
                }
                features::RECOVER_VOLUME_EXPANSION_FAILURE => {
                    let found = counted_claim(&world, "requests.storage", Value::Null).await;
                    (found, json!("10G"), json!("5G"))
                }
                features::VOLUME_ATTRIBUTES_CLASS => {
                    let scope = "VolumeAttributesClass";
                    let without = json!({"scopeName": scope, "operator": "DoesNotExist"});
                    let scopes = json!({"matchExpressions": [without]});
                    let found = counted_claim(&world, "persistentvolumeclaims", scopes).await;
                    (found, json!("1"), json!("0"))
                }
                features::HPA_CONFIGURABLE_TOLERANCE => {
                    let policy = json!({"type": "Pods", "value": 9, "periodSeconds": 15});
                    let exact = json!({"scaleUp": {"tolerance": "0", "policies": [policy]}});
                    let found = autoscaled(&world, 1, exact, requesting("200m")).await;
                    (found, json!(2), json!(1))
                }
                features::HPA_GENERATION => {
                    autoscaled(&world, 1, Value::Null, requesting("200m")).await;
                    let found = world.find("horizontalpodautoscalers", "scaled").unwrap();
                    let observed = found["status"]["observedGeneration"].clone();
                    (observed, json!(0), Value::Null)
                }
                features::HPA_SCALE_TO_ZERO => {
                    let found = autoscaled(&world, 0, Value::Null, requesting("200m")).await;
                    (found, json!(1), json!(0))
                }
                features::POD_LEVEL_RESOURCES => {
                    let mut spec = requesting("1");
                    spec["resources"] = json!({"requests": {"cpu": "100m"}});
                    let found = autoscaled(&world, 1, Value::Null, spec).await;
                    (found, json!(3), json!(1))
                }
                features::DRA_ADMIN_ACCESS => (
                    has_claim_with_admin_access(&world).await,
                    json!(true),
                    json!(false),
                ),
                features::IN_PLACE_POD_VERTICAL_SCALING => {
                    (counted_while_resized(&world).await, json!("2"), json!("1"))
                }
                features::IN_ORDER_INFORMERS => {
                    let mut context = world.context();
                    context.features = FeatureGates::new(|name| name != gate.name || is_on);
                    let built = (storageversionmigrator::DESCRIPTOR.init)(&context);
                    (json!(built.is_ok()), json!(true), json!(false))
                }
                features::SELINUX_MOUNT_READ_WRITE_ONCE_POD => {
                    let set = FeatureGates::new(|name| name != gate.name || is_on);
                    let found = json!(conflicts_with(set).await);
                    // Upstream's answer about a label is empty then, so the containers of one pod may differ, too.
                    (found, json!([3, 2]), json!([0, 0]))
                }
                features::WATCH_LIST_CLIENT => {
                    let set = FeatureGates::new(|name| name != gate.name || is_on);
                    (lists_to_fill(&world, &set).await, json!(0), json!(1))
                }
                features::JOB_MANAGED_BY => {
                    (pods_of_another_manager(&world).await, json!(0), json!(1))
                }
                features::JOB_POD_REPLACEMENT_POLICY => (
                    pods_beside_a_terminating_one(&world).await,
                    json!([false, 1]),
                    json!([true, null]),
                ),
                features::PREFER_SAME_TRAFFIC_DISTRIBUTION => {
                    (zones_of_hints(&world).await, json!("z"), Value::Null)
                }
                features::WORKLOAD_WITH_JOB => {
                    (workloads_of_a_gang(&world).await, json!(1), json!(0))
                }
                other => panic!("this test lacks a case for {}", other.name),
            };
            assert_eq!(found, if is_on { on } else { off }, "{}={is_on}", gate.name);
        }
    }
}
