//! A cluster whose managers hand over to each other, and the look for their writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steersman::ControllerRegistry;
use steersman_releases::Release;

use super::manifests::{SENTINEL, certificate_request, define};
use super::snapshot::{Resource, Snapshot, resources};
use super::states::{DONE, wait_for_all};
use crate::harness::{Cluster, assets};
use crate::support::{Clients, LIMIT, Program, steersman};

/// A time of which yearly CronJobs have missed runs since.
const LONG_AGO: &str = "2024-06-01T00:00:00Z";

/// Makes the latest run of a CronJob due.
pub(super) fn make_due(cluster: &Cluster, name: &str) {
    let status = json!({"status": {"lastScheduleTime": LONG_AGO}});
    cluster.kubectl(&format!(
        "patch cronjob/{name} --subresource=status --type=merge -p {status}"
    ));
}

/// The program of the other manager; `None` if it is Steersman, too.
pub(super) fn other_program() -> Option<PathBuf> {
    let named = std::env::var_os("STEERSMAN_TAKEOVER_OTHER").map(PathBuf::from);
    let of_assets = || Some(assets()?.join("kube-controller-manager")).filter(|path| path.exists());
    named.or_else(of_assets)
}

pub(super) fn other() -> Command {
    other_program().map_or_else(|| steersman(&[]), Command::new)
}

/// Time for which to look for unexpected writes. On a real control plane, it has three rounds of the pod garbage
/// collector. There a manager takes a silent node for lost after 50 s.
fn window() -> Duration {
    let default = if assets().is_some() { 60 } else { 2 };
    let seconds = std::env::var("STEERSMAN_TAKEOVER_WINDOW")
        .map_or(default, |text| text.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

/// The release of the API server.
pub(super) fn release(cluster: &Cluster) -> Release {
    let version: Value = serde_json::from_str(&cluster.kubectl("version -o json")).unwrap();
    let version = version["serverVersion"]["gitVersion"].as_str().unwrap();
    Release::in_version(version).expect("the API server has a version")
}

/// Writes the keys of a manager to `home`. Returns the flags with which kubeadm names them, and its other flags
/// that matter without a port.
fn kubeadm_flags(home: &Path) -> Vec<String> {
    let authority = Clients::new(home);
    let accounts = home.join("accounts.key");
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(&accounts, key.serialize_pem()).unwrap();
    let mut files = vec![
        ("cluster-signing-cert-file", &authority.bundle),
        ("cluster-signing-key-file", &authority.key),
        ("root-ca-file", &authority.bundle),
    ];
    // The embedded API server runs the token controller itself, with keys of its own.
    if assets().is_some() {
        files.push(("service-account-private-key-file", &accounts));
    }
    let fixed = [
        "--allocate-node-cidrs",
        "--cluster-cidr=10.244.0.0/16",
        "--cluster-name=kubernetes",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--use-service-account-credentials",
    ];
    let files = files
        .iter()
        .map(|(flag, file)| format!("--{flag}={}", file.display()));
    let files = files.chain(fixed.map(str::to_owned));
    // Tests on the embedded API server run on each change, so the managers need not save its time.
    let quick = [
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--horizontal-pod-autoscaler-sync-period=1s",
    ];
    let quick = quick
        .map(str::to_owned)
        .into_iter()
        .filter(|_| assets().is_none());
    files.chain(quick).collect()
}

/// A cluster that managers hand over to each other.
pub(super) struct Scene {
    pub(super) cluster: Cluster,
    pub(super) resources: Vec<Resource>,
    controllers: Vec<&'static str>,
    flags: Vec<String>,
    /// Has the files of `flags`.
    _home: tempfile::TempDir,
}

impl Scene {
    /// All managers get `flags` besides those of kubeadm.
    pub(super) fn new(cluster: Cluster, flags: &[String]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let release = release(&cluster);
        define(&cluster);
        let names = ControllerRegistry::builtin().names().into_iter();
        Self {
            controllers: names.filter(|name| release.has_controller(name)).collect(),
            resources: resources(&cluster),
            flags: [&kubeadm_flags(home.path()), flags].concat(),
            cluster,
            _home: home,
        }
    }

    /// Whether the API server has this resource, such as `deployments.apps`.
    pub(super) fn serves(&self, name: &str) -> bool {
        self.resources.iter().any(|resource| resource.name == name)
    }

    /// All objects except for those of sentinels.
    pub(super) fn look(&self) -> Snapshot {
        Snapshot::of(&self.cluster, &self.resources, is_of_sentinel)
    }

    /// Waits until nothing changes.
    pub(super) fn at_rest(&self) {
        let started = Instant::now();
        let mut before = self.look();
        loop {
            std::thread::sleep(Duration::from_secs(2));
            let now = self.look();
            let changes = before.changes(&now);
            if changes.is_empty() {
                return;
            }
            assert!(
                started.elapsed() < LIMIT,
                "not at rest\n{}",
                listed(&changes)
            );
            before = now;
        }
    }

    /// The resources that a controller reads or writes, and of which no object exists.
    pub(super) fn missing(&self) -> Vec<&Resource> {
        let descriptors = steersman_controllers::ALL.iter();
        let rules = descriptors
            .filter(|one| self.controllers.contains(&one.name))
            .flat_map(steersman_runtime::controller::Descriptor::all_rules);
        let mut handled = BTreeSet::new();
        for rule in rules {
            for (resource, group) in rule
                .resources
                .iter()
                .flat_map(|resource| rule.groups.iter().map(move |group| (resource, group)))
            {
                let (plural, _) = resource.split_once('/').unwrap_or((resource, ""));
                handled.insert(format!("{plural}.{group}").trim_end_matches('.').to_owned());
            }
        }
        if assets().is_none() {
            // The embedded API server makes no object for the address of a Service.
            handled.remove("ipaddresses.networking.k8s.io");
        }
        let now = self.look();
        let is_missing =
            |resource: &&Resource| handled.contains(&resource.name) && !now.has(resource);
        self.resources.iter().filter(is_missing).collect()
    }

    /// Starts a manager in the settled cluster. Waits until it has synced all objects, and for the [`window`]. Then
    /// asserts that only sentinels have changed, and the fields that kube-controller-manager of `upstream` writes at
    /// each start.
    pub(super) fn take_over(
        &self,
        program: Command,
        sentinel: &str,
        upstream: Option<Release>,
    ) -> Manager {
        let cluster = &self.cluster;
        let before = self.look();
        let manager = Manager::start(self, program);
        // Workqueues are first in, first out: once the sentinel is done, all older objects have been
        // synced.
        let manifest = SENTINEL.replace("REQUEST", &certificate_request("system:node:any"));
        cluster.apply(&manifest.replace("SENTINEL", sentinel));
        make_due(cluster, sentinel);
        cluster.eventually(
            &format!("get cronjob {sentinel} -o jsonpath={{.status.lastSuccessfulTime}}"),
            |time| !time.is_empty(),
        );
        for (object, path, value) in DONE {
            let object = object.replace("SENTINEL", sentinel);
            wait_for_all(cluster, &[(&object, path, value)]);
        }
        std::thread::sleep(window());
        let mut changes = before.changes(&self.look());
        if let Some(release) = upstream {
            changes.retain(|object, lines| !is_usual(object, lines, release));
        }
        assert!(
            changes.is_empty(),
            "the takeover changed\n{}",
            listed(&changes)
        );
        manager
    }
}

/// Whether kube-controller-manager of `release` makes these changes at each start. The causes are in docs/releases.md.
fn is_usual(object: &str, lines: &str, release: Release) -> bool {
    let fields: &[&str] = if object == "v1 Node /lost" {
        &["timeAdded"]
    } else if object.contains(" EndpointSlice ")
        && object.contains("/portless-")
        && release < Release::of_minor(36)
    {
        &["generation", "resourceVersion", "time"]
    } else if object.contains(" ServiceCIDR ") && release < Release::of_minor(34) {
        &["lastTransitionTime", "resourceVersion", "time"]
    } else {
        &[]
    };
    lines.lines().all(|line| {
        let field = line.split('"').nth(1).unwrap_or_default();
        fields.contains(&field)
    })
}

/// The changes with the names of the objects as headings.
fn listed(changes: &BTreeMap<String, String>) -> String {
    let texts = changes
        .iter()
        .map(|(object, lines)| format!("{object}\n{lines}\n"));
    texts.collect()
}

/// Whether a sentinel causes changes of the object.
fn is_of_sentinel(object: &Value) -> bool {
    let metadata = &object["metadata"];
    // Controllers get their account before the first write. The embedded API server makes the ServiceAccounts of
    // namespaces, too, so this controller seldom writes.
    if assets().is_none() && metadata["name"] == "service-account-controller" {
        return true;
    }
    // The API server makes an IPAddress for each Service.
    let names = [
        &metadata["name"],
        &metadata["namespace"],
        &object["spec"]["parentRef"]["name"],
    ];
    let mut names = names.into_iter().filter_map(Value::as_str);
    names.any(|name| name.starts_with("sentinel"))
}

/// A running manager. All managers use the same Lease, so two never write at the same time.
pub(super) struct Manager(Program);

impl Manager {
    pub(super) fn start(scene: &Scene, mut program: Command) -> Self {
        Self(Program::spawn(
            program
                .arg("--kubeconfig")
                .arg(scene.cluster.kubeconfig())
                .arg(format!("--controllers={}", scene.controllers.join(",")))
                .arg("--secure-port=0")
                .args(&scene.flags),
        ))
    }

    pub(super) fn end(mut self) {
        self.0.assert_running();
        self.0.signal("TERM");
        // Ignore the exit status: upstream's manager reports the loss of the Lease by it.
        self.0.end();
    }
}
