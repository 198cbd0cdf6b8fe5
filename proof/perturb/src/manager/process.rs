//! A manager that is a program of its own, such as kube-controller-manager. It reaches the cluster by
//! HTTPS, at a port of its own that marks its requests.
//!
//! It leads as soon as it has its Lease. The run deletes the Lease of a killed program, since the next one
//! would wait for its end.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use prometheus::Registry;
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::{HttpsDoor, Serving};
use steersman_runtime::controller::{ContextParts, ControllerContext};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workqueue::QueueMetrics;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::AGENT;
use super::in_process::clients;
use crate::scenario::Scenario;

/// Lines of the log in the report of an end.
const TAIL: usize = 5;
/// The Lease of the programs.
const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";

/// A program and its files. It is killed on drop.
pub(super) struct Process {
    cluster: DevCluster,
    program: PathBuf,
    flags: Vec<String>,
    number: usize,
    running: Option<Running>,
}

/// A started program.
struct Running {
    /// The port closes with the process.
    door: HttpsDoor,
    home: TempDir,
    /// The exit status, as soon as the process has ended.
    ended: watch::Receiver<Option<String>>,
    kill: CancellationToken,
}

impl Process {
    pub(super) fn new(
        cluster: DevCluster,
        scenario: &'static Scenario,
        number: usize,
        program: &Path,
    ) -> Self {
        let flags = flags_of(&cluster, scenario);
        Self {
            cluster,
            program: program.to_owned(),
            flags,
            number,
            running: None,
        }
    }

    /// Starts the program.
    ///
    /// # Panics
    /// If the machine has no free port or no room for its files, or if the program is absent.
    pub(super) async fn start(&mut self) {
        let serving = Serving {
            client_mark: format!("{AGENT}{})", self.number),
            ..Serving::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        };
        let door = self.cluster.serve_https_as(serving).await;
        let door = door.expect("a free port");
        let home = tempfile::tempdir().expect("a folder for temporary files");
        let kubeconfig = home.path().join("kubeconfig");
        std::fs::write(&kubeconfig, door.kubeconfig()).expect("a writable folder");
        let log = File::create(home.path().join("log")).expect("a writable folder");
        let errors = log.try_clone().expect("an open file");
        let child = Command::new(&self.program)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--cert-dir={}", home.path().display()))
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .kill_on_drop(true)
            .spawn();
        let child = child.unwrap_or_else(|error| panic!("{}: {error}", self.program.display()));
        let (sender, ended) = watch::channel(None);
        let kill = CancellationToken::new();
        tokio::spawn(wait_for(child, kill.clone(), sender));
        self.running = Some(Running {
            door,
            home,
            ended,
            kill,
        });
    }

    /// Waits until the process ends by itself. Returns its exit status and the last lines of its log.
    pub(super) async fn ended(&self) -> String {
        let Some(running) = &self.running else {
            return std::future::pending().await;
        };
        let mut ended = running.ended.clone();
        let status = match ended.wait_for(Option::is_some).await {
            Ok(status) => status.clone().unwrap_or_default(),
            Err(_) => return std::future::pending().await,
        };
        // The log only explains the status.
        let log = std::fs::read_to_string(running.home.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        format!("the process ({status}):\n{tail}")
    }

    /// Kills the process, waits until it is gone, and deletes its Lease. A panic would have ended it before.
    ///
    /// # Panics
    /// If the API server refuses to delete the Lease.
    pub(super) async fn kill(mut self) -> usize {
        if let Some(mut running) = self.running.take() {
            running.kill.cancel();
            // The sender is dropped after the status only.
            let _ = running.ended.wait_for(Option::is_some).await;
            running.door.stop().await;
            // A process that never led has no Lease.
            if let Err(status) = self.cluster.delete(LEASE).await {
                assert_eq!(status.code, 404, "{}", status.message);
            }
        }
        0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.kill.cancel();
        }
    }
}

/// Waits for the end of the process, and kills it when asked.
async fn wait_for(mut child: Child, kill: CancellationToken, ended: watch::Sender<Option<String>>) {
    let status = match kill.run_until_cancelled(child.wait()).await {
        Some(status) => status,
        None => child.kill().await.and(child.wait().await),
    };
    let text = status.map_or_else(|error| error.to_string(), |status| status.to_string());
    ended.send_replace(Some(text));
}

/// The flags of a scenario: its controllers, no port, no limit of requests, and the flags that its context
/// sets.
fn flags_of(cluster: &DevCluster, scenario: &'static Scenario) -> Vec<String> {
    let names: Vec<&str> = scenario
        .controllers
        .iter()
        .map(|controller| controller.name)
        .collect();
    let mut flags = vec![
        format!("--controllers={}", names.join(",")),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=2000".to_owned(),
    ];
    let plain = context(cluster);
    let configured = (scenario.configure)(context(cluster));
    let defaults: Vec<_> = plain.options.iter().collect();
    let set = configured.options.iter();
    flags.extend(
        set.filter(|flag| !defaults.contains(flag))
            .map(|(name, value)| format!("--{name}={value}")),
    );
    flags
}

/// A context that only carries flags.
fn context(cluster: &DevCluster) -> ControllerContext {
    let registry = Registry::new();
    let clients = clients(cluster.client().into(), 0);
    let informers = InformerFactory::new(clients("shared-informers"), Duration::ZERO, &registry);
    ControllerContext::new(ContextParts {
        informers: informers.expect("the registry is new"),
        clients,
        clock: cluster.clock().clone(),
        queue_metrics: QueueMetrics::register(&registry).expect("the registry is new"),
        registry,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::clock::Clock;

    use super::*;

    static SCENARIO: Scenario = Scenario {
        controller: "test",
        name: "flags",
        configure: |context| context.with_flag("terminated-pod-gc-threshold", "7"),
        ..Scenario::BLANK
    };

    fn process(program: &str) -> Process {
        let cluster = DevCluster::new(Clock::runtime(Timestamp::UNIX_EPOCH));
        Process::new(cluster, &SCENARIO, 1, Path::new(program))
    }

    #[tokio::test]
    async fn flags_of_the_scenario_reach_the_program() {
        let process = process("/bin/false");
        let of_scenario: Vec<&String> = process
            .flags
            .iter()
            .filter(|flag| flag.contains("gc"))
            .collect();
        assert_eq!(of_scenario, ["--terminated-pod-gc-threshold=7"]);
    }

    #[tokio::test]
    async fn the_next_program_finds_no_lease() {
        let mut process = process("/bin/cat");
        let cluster = process.cluster.clone();
        let metadata = json!({"name": "kube-controller-manager", "namespace": "kube-system"});
        let lease =
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
        cluster.create(lease).await.expect("a new Lease");
        process.start().await;
        process.kill().await;
        let found = cluster.get(LEASE).await.expect_err("no Lease");
        assert_eq!(found.code, 404);
    }

    #[tokio::test]
    async fn a_program_that_ends_tells_its_status() {
        let mut process = process("/bin/false");
        process.start().await;
        assert_eq!(process.ended().await, "the process (exit status: 1):\n");
        assert_eq!(process.kill().await, 0);
    }
}
