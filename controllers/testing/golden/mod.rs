//! Golden files: transcripts of all requests that a controller sends in a scenario.
//!
//! Each file below `tests/golden` records the requests of one controller, step by step, with their
//! bodies. A change of the code that changes a request fails here until the file is reviewed.
//! `STEERSMAN_GOLDEN=write cargo test -p steersman-controllers golden` writes the files again;
//! `git diff tests/golden` then shows the changed requests.
//!
//! Titles and step names are part of the golden files.
//!
//! Each scenario runs for several releases. A file below a folder such as `1.34` exists if the transcript of that
//! release differs from the one of 1.36.

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
use steersman_releases::Release;
use steersman_runtime::controller::Descriptor;

use super::world::World;

/// The environment variable that selects writing (`write`) instead of comparing.
const MODE: &str = "STEERSMAN_GOLDEN";

/// The releases besides 1.36 that were held against a real control plane.
const OTHERS: [Release; 2] = [Release::of_minor(34), Release::of_minor(35)];

/// Name of the file without its extension, title, and the steps.
type Scenario = (&'static str, &'static str, fn(Recording) -> Steps);

/// The steps of a scenario. They end with the recording.
type Steps = Pin<Box<dyn Future<Output = Recording>>>;

/// Scenarios of one controller.
struct Suite {
    /// Folder below `tests/golden`.
    folder: &'static str,
    /// The controllers that run.
    controllers: &'static [Descriptor],
    /// The client with the recorded requests: the last part of its user agent.
    client: &'static str,
}

/// A cluster, and the transcript of one client's requests in it.
struct Recording {
    world: World,
    transcript: Transcript,
    client: &'static str,
}

impl Recording {
    async fn begin(suite: &Suite, title: &str, release: Release) -> Self {
        let mut world = if release == Release::DEFAULT {
            World::recorded().await
        } else {
            World::recorded_of(release).await
        };
        let begin = world.clock.now();
        world.restart(suite.controllers).await;
        Self {
            world,
            transcript: Transcript::new(title, begin),
            client: suite.client,
        }
    }

    /// Waits until the controllers are at rest, and records the requests since the last step.
    async fn then(&mut self, step: &str) {
        self.world.at_rest().await;
        self.record(step);
    }

    /// Waits for `duration`, and records the requests since the last step.
    async fn within(&mut self, step: &str, duration: Duration) {
        tokio::time::sleep(duration).await;
        self.record(step);
    }

    /// Records the requests since the last step.
    fn record(&mut self, step: &str) {
        self.step(step, |client, request| {
            request.user_agent.rsplit('/').next() == Some(client)
        });
    }

    /// Waits until the controllers are at rest, and discards the requests since the last step. The
    /// transcript marks such a step as not recorded.
    async fn skip(&mut self, step: &str) {
        self.world.at_rest().await;
        self.step(&format!("{step} (not recorded)"), |_, _| false);
    }

    fn step(&mut self, step: &str, is_recorded: impl Fn(&str, &RequestRecord) -> bool) {
        let client = self.client;
        self.transcript
            .step(step, &self.world.cluster.requests(), |request| {
                is_recorded(client, request)
            });
        self.world.clear_requests();
    }

    async fn create(&self, object: Value) {
        self.world.create(object).await;
    }

    async fn patch(&self, plural: &str, name: &str, changes: Value) {
        self.world.patch(plural, name, changes).await;
    }

    /// The pods with this image that are not terminating, ordered by name.
    fn pods(&self, image: &str) -> Vec<Value> {
        let mut pods = self.world.state().pods;
        pods.retain(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && pod["spec"]["containers"][0]["image"] == image
        });
        pods
    }

    /// Makes one more pod with this image ready.
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

    /// Makes all pods with this image ready, one per second, so that their ready times differ.
    async fn ready_all(&mut self, image: &str) {
        for pod in self.pods(image) {
            self.world
                .make_ready(pod["metadata"]["name"].as_str().unwrap())
                .await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.skip("all pods are ready").await;
    }

    /// The text of the transcript. It ends with the field managers of the controllers.
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

/// Runs the scenarios for each release, and compares each transcript with its file.
async fn run(suite: &Suite, scenarios: &[Scenario]) {
    let mut files = Files::new(suite);
    for (name, title, scenario) in scenarios {
        println!("scenario {name}");
        let recording = Recording::begin(suite, title, Release::DEFAULT).await;
        let text = scenario(recording).await.end();
        files.compare(Path::new(&format!("{name}.txt")), &text);
        for release in OTHERS {
            let recording = Recording::begin(suite, title, release).await;
            let other = scenario(recording).await.end();
            // Another release has a file of its own only if it needs one.
            if other != text {
                files.compare(Path::new(&format!("{release}/{name}.txt")), &other);
            }
        }
    }
    files.end();
}

/// The golden files of a suite.
struct Files {
    folder: PathBuf,
    /// Whether files are written instead of compared.
    write: bool,
    /// The files with a transcript.
    expected: BTreeSet<PathBuf>,
    wrong: Vec<String>,
}

impl Files {
    fn new(suite: &Suite) -> Self {
        Self {
            folder: folder(suite.folder),
            write: std::env::var(MODE).is_ok_and(|mode| mode == "write"),
            expected: BTreeSet::new(),
            wrong: Vec::new(),
        }
    }

    /// Compares the file at `path` in the folder with `text`, or writes it.
    fn compare(&mut self, path: &Path, text: &str) {
        let file = self.folder.join(path);
        if self.write {
            std::fs::create_dir_all(file.parent().expect("it is in the folder")).unwrap();
            std::fs::write(&file, text).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        if let Some(at) = first_difference(&expected, text) {
            self.wrong.push(format!("{}: {at}", file.display()));
        }
        self.expected.insert(path.to_owned());
    }

    /// Fails if a file differs, or has no transcript.
    fn end(self) {
        assert!(
            self.wrong.is_empty(),
            "{}\n({MODE}=write writes the files again; review them with git diff)",
            self.wrong.join("\n")
        );
        let found: BTreeSet<PathBuf> = files_in(&self.folder)
            .into_iter()
            .map(|file| file.strip_prefix(&self.folder).unwrap().to_owned())
            .collect();
        assert_eq!(
            found, self.expected,
            "delete the files without a transcript of their own"
        );
    }
}

/// All files in this folder and below it.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let files = paths.flat_map(|path| {
        if path.is_dir() {
            files_in(&path)
        } else {
            vec![path]
        }
    });
    files.collect()
}

/// The first different line, with its number.
fn first_difference(expected: &str, found: &str) -> Option<String> {
    let mut expected = expected.lines();
    let mut found = found.lines();
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
