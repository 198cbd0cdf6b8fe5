//! An API server with a manager and without nodes, and a client with one request per call.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_client::{connect, load_config};
use steersman_controlplane::{ControlPlane, Settings};
use steersman_releases::Release;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::harness::assets;
use crate::support::{Program, steersman};

/// Upstream's limit for a wait, `pollTimeout` in `test/integration/deployment/util.go`.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// The controllers of all scenes. No other one, so that nothing but the scene changes pods.
const CONTROLLERS: &str =
    "--controllers=deployment-controller,replicaset-controller,job-controller";

/// The path of a program to play in place of Steersman, such as kube-controller-manager.
const OTHER: &str = "SCENES_MANAGER";

/// A server and its manager. Concurrent scenes share it, each in its own namespace.
pub(super) struct Stage {
    _running: Mutex<Running>,
    kubeconfig: PathBuf,
    _home: TempDir,
}

/// The processes. They end in the order of the fields: the manager before its server.
struct Running {
    _manager: Program,
    _server: Server,
}

/// The API server of a stage.
enum Server {
    Embedded { _program: Program },
    Real { _control_plane: ControlPlane },
}

static SHARED: Mutex<Weak<Stage>> = Mutex::new(Weak::new());

impl Stage {
    /// The shared stage, started unless another scene still plays on it. `KUBEBUILDER_ASSETS`
    /// selects a real API server.
    pub(super) fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock();
        shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Self::start());
            *shared = Arc::downgrade(&started);
            started
        })
    }

    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let (server, kubeconfig) = match assets() {
            Some(assets) => real(&assets, home.path()),
            None => embedded(home.path()),
        };
        let running = Running {
            _manager: manager(&kubeconfig),
            _server: server,
        };
        Self {
            _running: Mutex::new(running),
            kubeconfig,
            _home: home,
        }
    }
}

fn real(assets: &Path, home: &Path) -> (Server, PathBuf) {
    let settings = Settings {
        assets,
        home,
        // No controller of a scene makes ServiceAccounts.
        disabled_plugins: &["ServiceAccount", "TaintNodesByCondition"],
        flags: &[],
        audited: false,
    };
    let start = ControlPlane::start(&settings);
    // A thread of its own, because a runtime of the test may run on this one.
    let control_plane = std::thread::scope(|threads| {
        let started = threads.spawn(|| tokio::runtime::Runtime::new().unwrap().block_on(start));
        started.join().unwrap().unwrap()
    });
    let kubeconfig = control_plane.kubeconfig();
    let server = Server::Real {
        _control_plane: control_plane,
    };
    (server, kubeconfig)
}

fn embedded(home: &Path) -> (Server, PathBuf) {
    let kubeconfig = home.join("kubeconfig");
    let path = kubeconfig.to_str().unwrap();
    let arguments = [
        "apiserver",
        "--nodes=0",
        "--controllers=",
        "--write-kubeconfig",
        path,
    ];
    let mut program = Program::start(&arguments);
    program.wait_until("ready", || kubeconfig.exists());
    (Server::Embedded { _program: program }, kubeconfig)
}

/// Starts the manager without a limit of its requests, as upstream's integration tests do.
fn manager(kubeconfig: &Path) -> Program {
    let path = kubeconfig.to_str().unwrap();
    let flags = [
        "--kubeconfig",
        path,
        "--secure-port=0",
        "--leader-elect=false",
        "--kube-api-qps=10000",
        "--kube-api-burst=10000",
        CONTROLLERS,
    ];
    match std::env::var_os(OTHER) {
        Some(program) => Program::spawn(Command::new(program).args(flags)),
        None => Program::spawn(&mut steersman(&flags)),
    }
}

/// The client of one scene, in a namespace of its own. Each method is one request, unless it says
/// otherwise.
pub(super) struct Scene {
    client: Client,
    namespace: String,
    release: Release,
    _stage: Arc<Stage>,
}

impl Scene {
    /// Creates the namespace `name`.
    pub(super) async fn begin(name: &str) -> Self {
        let stage = tokio::task::block_in_place(Stage::shared);
        let config = load_config(Some(&stage.kubeconfig), None).unwrap();
        let client = Client::from(connect(&config).unwrap());
        let version = client.apiserver_version().await.unwrap();
        let scene = Self {
            client,
            namespace: name.to_owned(),
            release: Release::in_version(&version.git_version).unwrap(),
            _stage: stage,
        };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let path = "/api/v1/namespaces";
        scene.send(Method::POST, path, &namespace).await.unwrap();
        scene
    }

    /// Whether the feature gate is on by default in the release of the API server.
    pub(super) fn has(&self, gate: &str) -> bool {
        self.release.enables(gate)
    }

    pub(super) async fn get(&self, plural: &str, name: &str) -> Value {
        let path = self.path(plural, name);
        self.send(Method::GET, &path, &Value::Null).await.unwrap()
    }

    pub(super) async fn list(&self, plural: &str) -> Vec<Value> {
        let path = self.path(plural, "");
        let mut list = self.send(Method::GET, &path, &Value::Null).await.unwrap();
        match list["items"].take() {
            Value::Array(items) => items,
            other => panic!("a list of {plural} without items: {other}"),
        }
    }

    pub(super) async fn create(&self, plural: &str, object: &Value) -> Value {
        let path = self.path(plural, "");
        self.send(Method::POST, &path, object).await.unwrap()
    }

    /// Reads an object and writes it as `change` makes it, again after a conflict.
    pub(super) async fn update(
        &self,
        plural: &str,
        name: &str,
        change: impl Fn(&mut Value),
    ) -> Value {
        loop {
            let mut object = self.get(plural, name).await;
            change(&mut object);
            match self
                .send(Method::PUT, &self.path(plural, name), &object)
                .await
            {
                Ok(updated) => return updated,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("update {plural} {name}: {error}"),
            }
        }
    }

    /// Writes the status of an object that the test has read.
    pub(super) async fn update_status(
        &self,
        plural: &str,
        object: &Value,
    ) -> Result<Value, kube::Error> {
        let path = format!("{}/status", self.path(plural, name(object)));
        self.send(Method::PUT, &path, object).await
    }

    /// Deletes an object with this grace period. It may be gone already.
    pub(super) async fn delete(&self, plural: &str, name: &str, grace: u64) {
        let options = json!({"gracePeriodSeconds": grace});
        let path = self.path(plural, name);
        match self.send(Method::DELETE, &path, &options).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("delete {plural} {name}: {error}"),
        }
    }

    /// Deletes all objects of a type.
    pub(super) async fn delete_all(&self, plural: &str) {
        let path = self.path(plural, "");
        let deleted = self.send(Method::DELETE, &path, &Value::Null).await;
        deleted.unwrap();
    }

    /// Reads an object every `interval` until it `holds`. Panics with the last one after [`LIMIT`].
    pub(super) async fn until(
        &self,
        (plural, name): (&str, &str),
        interval: Duration,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let started = Instant::now();
        loop {
            let object = self.get(plural, name).await;
            if holds(&object) {
                return object;
            }
            assert!(started.elapsed() < LIMIT, "{plural} {name}: {object:#}");
            tokio::time::sleep(interval).await;
        }
    }

    fn path(&self, plural: &str, name: &str) -> String {
        let root = match plural {
            "deployments" | "replicasets" => "apis/apps/v1",
            "jobs" => "apis/batch/v1",
            _ => "api/v1",
        };
        let collection = format!("/{root}/namespaces/{}/{plural}", self.namespace);
        if name.is_empty() {
            collection
        } else {
            format!("{collection}/{name}")
        }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(bytes)
            .unwrap();
        let sent = tokio::time::timeout(LIMIT, self.client.request(request));
        sent.await.expect("an answer in time")
    }
}

/// The name of an object.
pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Whether the deletion of an object has begun.
pub(super) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether the controller of `object` is `owner`.
pub(super) fn is_controlled_by(object: &Value, owner: &Value) -> bool {
    let references = object["metadata"]["ownerReferences"].as_array();
    references.into_iter().flatten().any(|reference| {
        reference["controller"] == true && reference["uid"] == owner["metadata"]["uid"]
    })
}

/// The gate of `terminatingReplicas` in the status of Deployments and ReplicaSets.
pub(super) const COUNTS_TERMINATING: &str = "DeploymentReplicaSetTerminatingReplicas";

/// Whether the numbers of a status are these; an absent one is 0.
pub(super) fn counts(object: &Value, expected: &Value) -> bool {
    let fields = expected.as_object().unwrap();
    fields.iter().all(|(field, count)| {
        let found = object["status"][field].as_i64().unwrap_or(0);
        count.as_i64() == Some(found)
    })
}

/// The present time, as a kubelet writes it.
pub(super) fn now() -> String {
    steersman_values::clock::Clock::system()
        .now_seconds()
        .to_string()
}
