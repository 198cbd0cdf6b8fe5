//! Tests of the ResourceClaim controller against the in-memory API server: upstream's table of
//! syncs, stories, and caches that are older than the cluster.

mod groups;
mod staleness;
mod stories;
mod syncs;

use std::time::Duration;

use serde_json::{Value, json};

use super::{DESCRIPTOR, IDENTITY};
use crate::testing::world::{World, begin};

const POD: &str = "my-pod";
const UID: &str = "uid-of-my-pod";
const POD_CLAIM: &str = "acme";
const CLAIM: &str = "my-pod-acme-1";
const TEMPLATE: &str = "my-template";
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// A pod without a node that names the template.
fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": POD, "namespace": "default", "uid": UID},
        "spec": {
            "containers": [{"name": "main", "image": "nginx"}],
            "resourceClaims": [{"name": POD_CLAIM, "resourceClaimTemplateName": TEMPLATE}],
        },
        "status": {"phase": "Pending"},
    })
}

/// The same pod, whose status names [`CLAIM`].
fn pod_with_claim() -> Value {
    with(
        pod(),
        &["status", "resourceClaimStatuses"],
        json!([{"name": POD_CLAIM, "resourceClaimName": CLAIM}]),
    )
}

/// The same pod after its containers have ended.
fn finished_pod() -> Value {
    with(pod_with_claim(), &["status", "phase"], json!("Succeeded"))
}

/// The same pod on a node.
fn bound_pod() -> Value {
    with(pod_with_claim(), &["spec", "nodeName"], json!("worker"))
}

fn requests() -> Value {
    json!([{"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}}])
}

fn template() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": TEMPLATE, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": requests()}}},
    })
}

/// The claim that was made for the pod.
fn claim() -> Value {
    let owner =
        json!({"apiVersion": "v1", "kind": "Pod", "name": POD, "uid": UID, "controller": true});
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": CLAIM, "namespace": "default", "uid": "uid-of-claim",
            "annotations": {"resource.kubernetes.io/pod-claim-name": POD_CLAIM},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests()}},
        "status": {},
    })
}

/// A claim that a user made.
fn user_claim() -> Value {
    let claim = with(claim(), &["metadata", "ownerReferences"], json!([]));
    with(claim, &["metadata", "annotations"], json!({}))
}

fn allocated(claim: Value) -> Value {
    let device =
        json!({"request": "r", "driver": "driver.example.com", "pool": "p", "device": "x"});
    with(
        claim,
        &["status", "allocation"],
        json!({"devices": {"results": [device]}}),
    )
}

/// An allocated claim that these consumers may use.
fn reserved(claim: Value, consumers: &[Value]) -> Value {
    with(
        allocated(claim),
        &["status", "reservedFor"],
        json!(consumers),
    )
}

fn consumer(pod: &str) -> Value {
    json!({"resource": "pods", "name": pod, "uid": format!("uid-of-{pod}")})
}

/// A claim that the scheduler allocated: it has the finalizer.
fn protected(claim: Value) -> Value {
    with(claim, &["metadata", "finalizers"], json!([FINALIZER]))
}

fn terminating(object: Value) -> Value {
    with(
        object,
        &["metadata", "deletionTimestamp"],
        json!(begin().to_string()),
    )
}

fn with(mut object: Value, path: &[&str], value: Value) -> Value {
    let field = path.iter().fold(&mut object, |at, name| &mut at[*name]);
    *field = value;
    object
}

/// A cluster, and the controller in it.
struct Claims(World);

impl Claims {
    /// A cluster with these objects, in which the controller starts.
    async fn with(objects: &[Value]) -> Self {
        let mut claims = Self::stopped(objects).await;
        claims.start().await;
        claims
    }

    /// The same without the controller.
    async fn stopped(objects: &[Value]) -> Self {
        let claims = Self(World::bare().await);
        objects
            .iter()
            .for_each(|object| claims.load(object.clone()));
        claims
    }

    /// Starts the controller, and waits until it is at rest.
    async fn start(&mut self) {
        self.0.restart(&[DESCRIPTOR]).await;
        self.rest().await;
    }

    /// Waits longer than all retries of one failure.
    async fn rest(&self) {
        tokio::time::sleep(Duration::from_secs(20)).await;
    }

    /// Stores an object, also one that the API server would refuse.
    fn load(&self, object: Value) {
        self.0.cluster.load(object).unwrap();
    }

    /// Removes an object at once.
    async fn remove(&self, plural: &str, name: &str) {
        let path = self.0.cluster.path(plural, "default", name);
        let now = json!({"gracePeriodSeconds": 0});
        self.0.cluster.delete_with(&path, now).await.unwrap();
    }

    /// Requests of the controller without their queries, and without watches and Events.
    fn requests(&self) -> Vec<String> {
        let requests = self.0.cluster.requests();
        let own = requests.iter().filter(|request| {
            request.user_agent.ends_with(IDENTITY)
                && request.resource != "events"
                && request.verb != "watch"
        });
        own.map(|request| {
            let path = request.path.split('?').next().unwrap();
            let path = path.rsplit("/v1/").next().unwrap();
            let path = path.trim_start_matches("namespaces/default/");
            format!("{} {path} {}", request.verb, request.status)
        })
        .collect()
    }

    /// The state of each claim: its reservations, then `allocated` and `protected` if it is.
    fn states(&self) -> Vec<String> {
        let state = |claim: &Value| {
            let consumers = claim["status"]["reservedFor"].as_array();
            let names = consumers.into_iter().flatten();
            let mut words: Vec<&str> = names.map(|of| of["name"].as_str().unwrap()).collect();
            if claim["status"]["allocation"].is_object() {
                words.push("allocated");
            }
            let finalizers = claim["metadata"]["finalizers"].as_array();
            if finalizers.is_some_and(|all| all.contains(&json!(FINALIZER))) {
                words.push("protected");
            }
            words.join(" ")
        };
        self.0
            .cluster
            .objects("resourceclaims")
            .iter()
            .map(state)
            .collect()
    }

    /// Names of the claims of each pod in its status, with those of the cluster as `yes`.
    fn named(&self) -> Vec<String> {
        let claims = self.0.cluster.objects("resourceclaims");
        let exists = |name: &Value| {
            claims
                .iter()
                .any(|claim| claim["metadata"]["name"] == *name)
        };
        let pods = self.0.cluster.objects("pods");
        let statuses = pods.iter().flat_map(|pod| {
            let statuses = pod["status"]["resourceClaimStatuses"].as_array();
            statuses.cloned().unwrap_or_default()
        });
        statuses
            .map(|status| {
                let is_there = exists(&status["resourceClaimName"]);
                format!("{} {is_there}", status["name"].as_str().unwrap())
            })
            .collect()
    }

    /// Messages of the Events.
    fn events(&self) -> Vec<String> {
        let events = self.0.cluster.objects("events");
        let messages = events.iter().map(|event| {
            assert_eq!(event["reason"], "FailedResourceClaimCreation");
            assert_eq!(event["source"]["component"], "resource_claim");
            event["message"].as_str().unwrap().to_owned()
        });
        messages.collect()
    }

    /// The samples of a metric: the values of its labels, sorted by name, and its value.
    fn metric(&self, name: &str) -> Vec<(String, f64)> {
        let gather = self.0.registry.gather();
        // Releases before and since 1.37.
        let names = [
            "resourceclaim_controller_",
            "dynamic_resource_allocation_resourceclaim_",
        ];
        let names = names.map(|prefix| format!("{prefix}{name}"));
        let mut families = gather.iter();
        let family = families.find(|family| names.iter().any(|name| family.name() == name));
        let samples = family.into_iter().flat_map(|family| family.get_metric());
        samples
            .map(|sample| {
                let labels = sample.get_label().iter();
                let labels: Vec<&str> = labels.map(|label| label.value()).collect();
                let value = sample.get_counter().get_value() + sample.get_gauge().get_value();
                (labels.join(","), value)
            })
            .collect()
    }
}
