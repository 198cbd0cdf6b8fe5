//! A change of leader in the middle of trouble: silent nodes, violated budgets, failing Jobs,
//! detaching volumes, refused writes.
//!
//! Each [`Trouble`] runs twice. In both runs one leader brings the cluster into the trouble. Then the
//! first run goes on, and in the second run a new leader takes over. The new leader may write only
//! what the first one would have written anyway, and the listed writes, which upstream's new leader
//! makes too.

mod access;
mod network;
mod nodes;
mod objects;
mod storage;
mod workloads;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;
use steersman_runtime::controller::{ControllerContext, Descriptor};
use tokio::time::Instant;

use crate::testing::world::World;

/// The time at which the first leader starts.
const BEGIN: &str = "2026-11-21T03:00:00Z";

/// The time of all changes before that.
const CHANGED: &str = "2026-11-21T02:50:00Z";

/// The time in which both runs are compared: longer than the back-off after several failures, and
/// than all periodic passes but the clean-up of tokens.
const COMPARED: Duration = Duration::from_secs(1800);

/// Time in which the trouble has to come.
const LIMIT: Duration = Duration::from_secs(900);

/// A cluster in trouble.
struct Trouble {
    why: &'static str,
    controllers: Vec<Descriptor>,
    objects: Vec<Value>,
    /// Nodes whose kubelets renew their Leases.
    living: Vec<&'static str>,
    refused: Vec<(Matcher, Status)>,
    /// Definitions of custom kinds, which exist before the objects.
    definitions: Vec<Value>,
    configure: fn(ControllerContext) -> ControllerContext,
    /// True once the trouble is there.
    is_reached: fn(&World) -> bool,
    /// Time from then to the change of leader.
    settles: Duration,
    /// Writes with this part count as one, because the order of the objects is random.
    alike: Option<&'static str>,
    /// Writes of the new leader only: a part of their text, and the place in upstream's code that
    /// makes the same one.
    listed: Vec<(&'static str, &'static str)>,
}

impl Trouble {
    fn new(why: &'static str, controllers: &[Descriptor]) -> Self {
        Self {
            why,
            controllers: controllers.to_vec(),
            objects: Vec::new(),
            living: Vec::new(),
            refused: Vec::new(),
            definitions: Vec::new(),
            configure: |context| context,
            is_reached: |_| true,
            settles: Duration::from_secs(60),
            alike: None,
            listed: Vec::new(),
        }
    }

    fn with(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        self.objects.extend(objects);
        self
    }

    fn living(mut self, nodes: &[&'static str]) -> Self {
        self.living = nodes.to_vec();
        self
    }

    fn defining(mut self, group: &str, kind: &str, version: &str) -> Self {
        self.definitions
            .push(definition(group, kind, &[version], "Cluster"));
        self
    }

    /// The API server refuses these requests from the start on.
    fn refusing(mut self, requests: Matcher, status: Status) -> Self {
        self.refused.push((requests, status));
        self
    }

    fn configured(mut self, configure: fn(ControllerContext) -> ControllerContext) -> Self {
        self.configure = configure;
        self
    }

    fn reached(mut self, is_reached: fn(&World) -> bool) -> Self {
        self.is_reached = is_reached;
        self
    }

    fn settled_after(mut self, seconds: u64) -> Self {
        self.settles = Duration::from_secs(seconds);
        self
    }

    /// Counts all writes together that have the text `prefix` before the name of an object.
    fn alike(mut self, prefix: &'static str) -> Self {
        self.alike = Some(prefix);
        self
    }

    fn listing(mut self, write: &'static str, place: &'static str) -> Self {
        self.listed.push((write, place));
        self
    }

    /// The writes from the trouble on, with their number.
    async fn writes(&self, hands_over: bool) -> Result<BTreeMap<String, u64>, String> {
        let begin: Timestamp = BEGIN.parse().unwrap();
        let mut world = World::bare_at(begin).await;
        for definition in &self.definitions {
            world.create(definition.clone()).await;
        }
        for object in &self.objects {
            world.cluster.load(defaulted(object.clone())).unwrap();
        }
        for (requests, status) in &self.refused {
            world
                .cluster
                .faults()
                .reject(requests.clone(), status.clone(), None);
        }
        super::nodes::renew_named(&world, self.living.iter().copied());
        let configure = self.configure;
        world.restart_with(&self.controllers, configure).await;
        let limit = Instant::now() + LIMIT;
        while !(self.is_reached)(&world) {
            if Instant::now() > limit {
                let writes = world.counted_writes();
                return Err(format!("the trouble does not come: {writes:#?}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(self.settles).await;
        let events = world.event_counts();
        world.clear_requests();
        if hands_over {
            let term_start_rv = world.cluster.revision();
            world
                .restart_with(&self.controllers, |context| {
                    let mut context = configure(context);
                    context.term_start_rv = term_start_rv;
                    context
                })
                .await;
        }
        tokio::time::sleep(COMPARED).await;
        let new_events = world
            .event_counts()
            .into_iter()
            .filter_map(|(event, count)| {
                let before = events.get(&event).copied().unwrap_or(0);
                (count > before).then(|| (event, count - before))
            });
        let mut writes = BTreeMap::new();
        for (write, count) in world.counted_writes().into_iter().chain(new_events) {
            let shared = self.alike.and_then(|prefix| {
                let end = write.find(prefix)? + prefix.len();
                Some(write[..end].to_owned())
            });
            *writes.entry(shared.unwrap_or(write)).or_default() += count;
        }
        Ok(writes)
    }

    /// The writes of a new leader that neither the first leader makes nor the table lists.
    async fn check(&self) -> Result<(), String> {
        let stays = self.writes(false).await?;
        let mut comes = self.writes(true).await?;
        for (listed, place) in &self.listed {
            let before = comes.len();
            comes.retain(|write, count| !write.contains(listed) || stays.get(write) == Some(count));
            if comes.len() == before {
                return Err(format!(
                    "the new leader does not write {listed}, as {place} does"
                ));
            }
        }
        // A new leader starts its back-off anew, so it sends failing requests more often. Its periods
        // start anew too, so a repeated write may come once more.
        comes.retain(|write, count| match stays.get(write) {
            Some(_) if write.starts_with("failed ") || write.starts_with("Event ") => false,
            Some(1) => *count > 1,
            Some(number) => *count > *number + 1,
            None => true,
        });
        if comes.is_empty() {
            return Ok(());
        }
        Err(format!(
            "only the new leader writes {comes:#?}; the first one: {stays:#?}"
        ))
    }
}

impl World {
    /// Successful and failed writes of all controllers without Events, with their number.
    fn counted_writes(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        let requests = self.cluster.requests();
        let writes = requests.iter().filter(|request| {
            !matches!(&*request.verb, "get" | "list" | "watch")
                && request.user.starts_with("confined:")
                && request.resource != "events"
        });
        for request in writes {
            let result = if request.status < 300 {
                "done"
            } else {
                "failed"
            };
            let text = format!("{result} {} {}", request.verb, request.path);
            *counts.entry(text).or_default() += 1;
        }
        counts
    }

    /// The Events so far by reason and object, with their number.
    fn event_counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for event in self.cluster.objects("events") {
            let object = &event["involvedObject"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let name = format!(
                "Event {} {} {}",
                text(&event["reason"]),
                text(&object["kind"]),
                text(&object["name"])
            );
            *counts.entry(name).or_default() += event["count"].as_u64().unwrap_or(1);
        }
        counts
    }
}

/// `object` as an API server stores it. Pods get the defaults of their spec, without which the API
/// server refuses patches of them.
fn defaulted(mut object: Value) -> Value {
    if object["kind"] != "Pod" {
        return object;
    }
    let fill = |object: &mut Value, defaults: Value| {
        for (field, value) in defaults.as_object().into_iter().flatten() {
            if object[field].is_null() {
                object[field] = value.clone();
            }
        }
    };
    let spec = &mut object["spec"];
    fill(
        spec,
        json!({
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "enableServiceLinks": true,
            "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        }),
    );
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        fill(
            container,
            json!({
                "imagePullPolicy": "Always", "resources": {}, "terminationMessagePolicy": "File",
                "terminationMessagePath": "/dev/termination-log",
            }),
        );
    }
    object
}

/// An object in the namespace `default`.
fn object(api_version: &str, kind: &str, name: &str, fields: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-of-{kind}-{name}"),
            "generation": 1, "creationTimestamp": CHANGED,
        },
    });
    merge(&mut object, fields);
    object
}

/// The same without a namespace.
fn cluster_object(api_version: &str, kind: &str, name: &str, fields: Value) -> Value {
    let mut object = object(api_version, kind, name, fields);
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("namespace");
    object
}

/// Adds `fields` to `object`; objects are merged, all other values are replaced.
fn merge(object: &mut Value, fields: Value) {
    match (object, fields) {
        (Value::Object(object), Value::Object(fields)) => {
            for (name, value) in fields {
                merge(object.entry(name).or_insert(Value::Null), value);
            }
        }
        (object, fields) => *object = fields,
    }
}

/// The condition of an object: its status and its reason.
fn is_condition(world: &World, plural: &str, name: &str, expected: (&str, &str, &str)) -> bool {
    let (kind, status, reason) = expected;
    let found = world.find(plural, name);
    let found = found.as_ref();
    let condition = found.and_then(|object| crate::testing::world::condition_of(object, kind));
    condition == Some((status, reason))
}

/// All troubles.
fn all() -> Vec<Trouble> {
    [
        access::troubles(),
        network::troubles(),
        nodes::troubles(),
        objects::troubles(),
        storage::troubles(),
        workloads::troubles(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[tokio::test(start_paused = true)]
async fn access_is_in_trouble() {
    check(access::troubles()).await;
}

#[tokio::test(start_paused = true)]
async fn the_network_is_in_trouble() {
    check(network::troubles()).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_are_in_trouble() {
    check(nodes::troubles()).await;
}

#[tokio::test(start_paused = true)]
async fn objects_are_in_trouble() {
    check(objects::troubles()).await;
}

#[tokio::test(start_paused = true)]
async fn storage_is_in_trouble() {
    check(storage::troubles()).await;
}

#[tokio::test(start_paused = true)]
async fn workloads_are_in_trouble() {
    check(workloads::troubles()).await;
}

async fn check(troubles: Vec<Trouble>) {
    let mut failures = Vec::new();
    for trouble in troubles {
        if let Err(failure) = trouble.check().await {
            failures.push(format!("{}: {failure}", trouble.why));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_controller_that_writes_has_a_trouble() {
    let named: Vec<&str> = all()
        .iter()
        .flat_map(|trouble| trouble.controllers.iter().map(|controller| controller.name))
        .collect();
    let is_write = |verb: &&str| !matches!(*verb, "get" | "list" | "watch");
    for controller in crate::ALL {
        let mut verbs = controller.rules.iter().flat_map(|rule| rule.verbs);
        if verbs.any(is_write) {
            assert!(named.contains(&controller.name), "{}", controller.name);
        }
    }
}
