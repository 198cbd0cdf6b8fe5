//! What the controllers ask of the API server, word for word: stories whose requests are kept as
//! files below `tests/golden`, to be reviewed when they change.
//!
//! `STEERSMAN_GOLDEN=write cargo test -p steersman-controllers golden` writes them anew. Each file
//! tells the requests of one controller, step by step; `git diff tests/golden` then shows what a
//! change of the code changes for the API server.

mod deployment;
mod podgc;
mod replicas;

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::requests::RequestRecord;
use steersman_devcluster::transcript::Transcript;
use steersman_runtime::controller::Descriptor;

use super::world::World;

/// Set to `write` to write the files instead of comparing them.
const MODE: &str = "STEERSMAN_GOLDEN";

/// A file without its ending, what it is about, and what happens.
type Scenario = (&'static str, &'static str, fn(Story) -> Told);

/// A story that is being told.
type Told = Pin<Box<dyn Future<Output = Story>>>;

/// The controllers of some stories, and the client whose requests they tell.
struct Cast {
    folder: &'static str,
    controllers: &'static [Descriptor],
    client: &'static str,
}

/// A cluster in which things happen, and the transcript of what one controller does about them.
struct Story {
    world: World,
    transcript: Transcript,
    client: &'static str,
}

impl Story {
    async fn begin(cast: &Cast, title: &str) -> Self {
        let mut world = World::recorded().await;
        let begin = world.clock.now();
        world.restart(cast.controllers).await;
        Self {
            world,
            transcript: Transcript::new(title, begin),
            client: cast.client,
        }
    }

    /// Tells what the controller asked since the last step, once nobody writes any more.
    async fn then(&mut self, what: &str) {
        self.world.at_rest().await;
        self.tell(what);
    }

    /// Tells what the controller asks in the next while.
    async fn within(&mut self, what: &str, a_while: Duration) {
        tokio::time::sleep(a_while).await;
        self.tell(what);
    }

    fn tell(&mut self, what: &str) {
        self.step(what, |client, request| {
            request.user_agent.rsplit('/').next() == Some(client)
        });
    }

    /// Waits until nobody writes any more, and tells nothing.
    async fn untold(&mut self, what: &str) {
        self.world.at_rest().await;
        self.step(&format!("{what} (not told)"), |_, _| false);
    }

    fn step(&mut self, what: &str, told: impl Fn(&str, &RequestRecord) -> bool) {
        let client = self.client;
        self.transcript
            .step(what, &self.world.cluster.requests(), |request| {
                told(client, request)
            });
        self.world.cluster.clear_requests();
    }

    async fn create(&self, object: Value) {
        self.world.create(object).await;
    }

    async fn patch(&self, plural: &str, name: &str, changes: Value) {
        self.world.patch(plural, name, changes).await;
    }

    /// Active pods with the image, in order of their names.
    fn pods(&self, image: &str) -> Vec<Value> {
        let mut pods = self.world.state().pods;
        pods.retain(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && pod["spec"]["containers"][0]["image"] == image
        });
        pods
    }

    /// Makes one more pod with the image ready.
    async fn ready_one(&self, image: &str) {
        let waiting = self
            .pods(image)
            .into_iter()
            .find(|pod| pod["status"]["phase"] != "Running")
            .unwrap();
        self.world
            .make_ready(waiting["metadata"]["name"].as_str().unwrap())
            .await;
    }

    /// Makes all pods with the image ready, each in a second of its own, so that there is a
    /// youngest.
    async fn ready_all(&mut self, image: &str) {
        for pod in self.pods(image) {
            self.world
                .make_ready(pod["metadata"]["name"].as_str().unwrap())
                .await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.untold("all pods are ready").await;
    }

    /// The story with, at the end, whom the server takes for the manager of which part of which
    /// kind.
    fn end(mut self) -> String {
        let mut managers = BTreeSet::new();
        for plural in [
            "deployments",
            "replicasets",
            "replicationcontrollers",
            "pods",
            "events",
        ] {
            for object in self.world.cluster.objects(plural) {
                for entry in object["metadata"]["managedFields"]
                    .as_array()
                    .into_iter()
                    .flatten()
                {
                    let text = |field: &str| entry[field].as_str().unwrap_or("-").to_owned();
                    let manager = text("manager");
                    if manager == "kube-controller-manager" {
                        managers.insert(format!(
                            "{plural}: {manager} {} {}",
                            text("operation"),
                            text("subresource")
                        ));
                    }
                }
            }
        }
        self.transcript
            .remark("field managers: name, operation, subresource", managers);
        self.transcript.text().to_owned()
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden")
        .join(name)
}

/// Plays the scenarios, and compares each with its file.
async fn play(cast: &Cast, scenarios: &[Scenario]) {
    let folder = folder(cast.folder);
    let write = std::env::var(MODE).is_ok_and(|mode| mode == "write");
    if write {
        std::fs::create_dir_all(&folder).unwrap();
    }
    let mut wrong = Vec::new();
    for (name, title, scenario) in scenarios {
        println!("scenario {name}");
        let story = Story::begin(cast, title).await;
        let text = scenario(story).await.end();
        let file = folder.join(format!("{name}.txt"));
        if write {
            std::fs::write(&file, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        if let Some(at) = first_difference(&expected, &text) {
            wrong.push(format!("{}: {at}", file.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\n({MODE}=write writes the files anew; see git diff then)",
        wrong.join("\n")
    );
    let told: BTreeSet<String> = scenarios
        .iter()
        .map(|(name, ..)| format!("{name}.txt"))
        .collect();
    let there = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(
        there.collect::<BTreeSet<_>>(),
        told,
        "files that no scenario tells are to be deleted"
    );
}

/// The first line that differs, with its number.
fn first_difference(expected: &str, found: &str) -> Option<String> {
    let (mut expected, mut found) = (expected.lines(), found.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (expected.next(), found.next()) {
            (None, None) => return None,
            (expected, found) if expected == found => {}
            (expected, found) => {
                let end = "the end";
                return Some(format!(
                    "line {number}\n  - {}\n  + {}",
                    expected.unwrap_or(end),
                    found.unwrap_or(end)
                ));
            }
        }
    }
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}
