//! Whole syncs against the in-memory API server, under paused time.

mod claims;
mod classes;
mod pod_groups;
mod stories;
mod volumes;

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, internal_error};
use steersman_options::features::FeatureGates;
use steersman_releases::Release;
use steersman_runtime::controller::Descriptor;

use crate::testing::NAMESPACE;
use crate::testing::world::World;

/// The identity of the informers.
const INFORMERS: &str = "shared-informers";

/// A controller, and the objects that it finds.
struct Story {
    descriptor: Descriptor,
    objects: Vec<Value>,
    /// The definition of a type that the API server lacks.
    definition: Option<Value>,
    /// Further objects of a type, which the cache lacks.
    uncached: Option<(&'static str, Vec<Value>)>,
    /// The verb and the type of requests of the controller, of which the first ones fail.
    failing: Option<(&'static str, &'static str, usize)>,
    gates: fn(&str) -> bool,
    release: Release,
}

impl Story {
    fn of(descriptor: Descriptor, objects: impl IntoIterator<Item = Value>) -> Self {
        Self {
            descriptor,
            objects: objects.into_iter().collect(),
            definition: None,
            uncached: None,
            failing: None,
            gates: |_| false,
            release: Release::DEFAULT,
        }
    }

    fn of_release(mut self, minor: u64) -> Self {
        self.release = Release::of_minor(minor);
        self
    }

    fn with_type(mut self, definition: Value) -> Self {
        self.definition = Some(definition);
        self
    }

    fn uncached(mut self, plural: &'static str, objects: impl IntoIterator<Item = Value>) -> Self {
        self.uncached = Some((plural, objects.into_iter().collect()));
        self
    }

    fn failing(mut self, verb: &'static str, plural: &'static str, times: usize) -> Self {
        self.failing = Some((verb, plural, times));
        self
    }

    fn with_gates(mut self) -> Self {
        self.gates = |_| true;
        self
    }

    /// Starts the controller, and waits until it no longer writes.
    async fn begin(self) -> World {
        let mut world = World::bare().await;
        if let Some(definition) = self.definition {
            world.create(definition).await;
        }
        for object in self.objects {
            world.cluster.load(object).unwrap();
        }
        if let Some((plural, objects)) = self.uncached {
            let before = world.cluster.revision();
            for object in objects {
                world.cluster.load(object).unwrap();
            }
            for verb in ["list", "watch"] {
                let informers = Matcher::new(verb, plural).client(INFORMERS);
                world.cluster.faults().hold_view(informers, before);
            }
        }
        if let Some((verb, plural, times)) = self.failing {
            let mut requests = Matcher::new(verb, plural).client(self.descriptor.identity);
            requests.subresource = None;
            let faults = world.cluster.faults();
            faults.reject(requests, internal_error(), Some(times));
        }
        world
            .restart_with(&[self.descriptor], |mut context| {
                context.features = FeatureGates::new(self.gates);
                context.release = self.release;
                context
            })
            .await;
        world.at_rest().await;
        world
    }
}

impl World {
    /// The requests of `identity`, in the order of their texts: verb, path below the namespace or
    /// version, and the status code of a failure.
    fn sent_by(&self, identity: &str) -> Vec<String> {
        let short = |request: &String| {
            let mut words = request.split(' ');
            let verb = words.next()?;
            let path = words.next()?;
            let status = words.next()?;
            let path = path.split('?').next()?;
            let below = path
                .split_once("/namespaces/")
                .map_or_else(|| path.split("/v1/").last(), |(_, below)| Some(below))?;
            let failure = if status < "300" { "" } else { status };
            Some(format!("{verb} {below} {failure}").trim_end().to_owned())
        };
        let mut sent: Vec<String> = self
            .requests_of(identity)
            .iter()
            .filter_map(short)
            .collect();
        sent.sort_unstable();
        sent
    }

    /// Deletes a pod at once.
    async fn remove_and_rest(&self, pod: &str) {
        self.kill(pod).await;
        self.at_rest().await;
    }

    /// Stores an object, and waits until the controller no longer writes.
    async fn store_and_rest(&self, object: Value) {
        self.cluster.load(object).unwrap();
        self.at_rest().await;
    }

    fn finalizers(&self, plural: &str, name: &str) -> Option<Value> {
        let object = self.find(plural, name)?;
        Some(object["metadata"]["finalizers"].clone())
    }

    /// Waits until the object is gone.
    async fn until_object_gone(&self, plural: &str, name: &str) {
        let is_gone = |_: &_| self.find(plural, name).is_none();
        self.until(&format!("{name} is gone"), is_gone).await;
    }
}

/// The object with this finalizer.
fn protected(mut object: Value, finalizer: &str) -> Value {
    object["metadata"]["finalizers"] = json!([finalizer]);
    object
}

/// The object after its deletion began.
fn deleted(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = json!("2023-11-14T22:13:00Z");
    object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    object
}

/// A pod on a node, with this volume.
fn pod_with(name: &str, volume: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}")},
        "spec": {
            "nodeName": "node", "containers": [{"name": "main", "image": "i"}],
            "volumes": [volume, {"name": "empty", "emptyDir": {}}],
        },
        "status": {"phase": "Pending"},
    })
}

/// A pod on a node that uses the claim.
fn user(name: &str, claim: &str) -> Value {
    pod_with(
        name,
        json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}}),
    )
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}")},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    })
}

fn volume(name: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "d", "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
        },
        "status": {"phase": phase},
    })
}

/// Sets the field of an object.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

/// Longer than all pauses of the controllers.
const A_MINUTE: Duration = Duration::from_secs(60);
