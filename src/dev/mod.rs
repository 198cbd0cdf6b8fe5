//! `steersman dev`: an API server, simulated nodes and the manager in one process, to try things on and to test against.

mod display;
mod kubeconfig;
mod outcome;
mod progress;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use prometheus::Registry;
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;
use steersman_devcluster::manifests::{self, Manifest, ManifestError};
use steersman_devcluster::nodes::{self, Latency, NodesConfig, NodesError};
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings, user_agent};
use steersman_runtime::clock::Clock;
use steersman_runtime::informer::{Change, InformerFactory, SharedInformer};
use steersman_runtime::object::{Object, ObjectKey};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use tokio::sync::Notify;

use crate::api::Connection;
use crate::config::{Access, Config, Serving, join_errors};
use crate::duration::{GoDuration, ParseDurationError};
use crate::logs::{self, LogFormat};
use crate::manager::{Manager, RunError};
use crate::options::{self, Command, Options};
use crate::registry::ControllerRegistry;
use crate::signals::Signals;
use display::Display;
use kubeconfig::KubeconfigFile;
use outcome::{Applied, Caches, Missing, Outcome};

/// Starts a Kubernetes API server, simulated nodes and the controllers in this process. Nothing is left behind when it ends.
#[derive(Debug, Parser)]
#[command(name = "steersman dev", bin_name = "steersman dev", disable_version_flag = true)]
struct DevArgs {
    /// Number of simulated nodes.
    #[arg(long, default_value_t = 3, value_name = "N")]
    nodes: usize,
    /// How long a simulated pod takes to get ready, and to end: a duration such as 500ms.
    #[arg(long, default_value = "600ms", value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    latency: GoDuration,
    /// Manifests to apply once the server is up: files, directories of them, or - for standard input.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    apply: Vec<PathBuf>,
    /// Port of the API server on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0, value_name = "P")]
    port: u16,
    /// Where to write the kubeconfig, which is removed at the end; a file in the temporary directory if not given.
    #[arg(long, value_name = "PATH")]
    write_kubeconfig: Option<PathBuf>,
    /// End when everything that was applied is available (exit 0) or when it cannot be (exit 1, with the reason).
    #[arg(long, requires = "apply")]
    once: bool,
    /// With --once: how long to wait for that.
    #[arg(long, default_value = "2m", value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    timeout: GoDuration,
    /// Flags of the manager, after `--`: `-- --controllers=*,-podgc -v=2`.
    #[arg(last = true, value_name = "MANAGER FLAGS")]
    manager: Vec<String>,
}

fn duration(text: &str) -> Result<GoDuration, String> {
    let duration: GoDuration = text.parse().map_err(|error: ParseDurationError| error.to_string())?;
    if duration < GoDuration::default() { Err("must not be negative".to_owned()) } else { Ok(duration) }
}

/// What the manager runs with here, unless told otherwise: nobody to share the Lease with, and no throttle worth waiting for.
const MANAGER_DEFAULTS: [&str; 3] = ["--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000"];

/// Why `steersman dev` could not go on.
#[derive(Debug, thiserror::Error)]
enum DevError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("listen on 127.0.0.1:{port}: {source}; --port names another port, 0 takes a free one")]
    Listen { port: u16, source: std::io::Error },
    #[error("write the kubeconfig {}: {source}", path.display())]
    Kubeconfig { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Nodes(#[from] NodesError),
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Manager(#[from] RunError),
    #[error("not available: {0}")]
    Impossible(String),
    #[error("not available after {0}: {1}")]
    TooSlow(GoDuration, String),
    #[error("interrupted before everything was available")]
    Interrupted,
    #[error("listen to signals: {0}")]
    Signals(#[source] std::io::Error),
}

/// Runs the subcommand with what follows `dev` on the command line.
pub fn run(arguments: Vec<String>) -> ExitCode {
    let args = match DevArgs::try_parse_from(std::iter::once("steersman dev".to_owned()).chain(arguments)) {
        Ok(args) => args,
        Err(error) => {
            // Fails only when nobody reads.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 1 } else { 0 });
        }
    };
    let (config, verbosity) = match manager_config(&args) {
        Ok(config) => config,
        Err(message) => {
            eprintln!("Error: {message}");
            return ExitCode::FAILURE;
        }
    };
    // The display says what happens; the log is for what goes wrong, or for who asks for more.
    logs::init(LogFormat::Text, if verbosity == 0 { logs::WARNINGS_ONLY } else { verbosity });
    let ended = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(dev(&args, config)),
        Err(error) => {
            eprintln!("Error: cannot start threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The manager's configuration and verbosity; an error is the text to print.
fn manager_config(args: &DevArgs) -> Result<(Config, i64), String> {
    let typed = MANAGER_DEFAULTS.map(str::to_owned).into_iter().chain(args.manager.iter().cloned());
    let options: Options = match options::parse(typed, |line| eprintln!("{line}")) {
        Ok(Command::Run(options)) => *options,
        Ok(_) => return Err("--help and --version of the manager: run steersman without dev".to_owned()),
        Err(error) => {
            let hint = error.suggestion.as_ref().map(|flag| format!("; did you mean --{flag}?")).unwrap_or_default();
            return Err(format!("{error}{hint}"));
        }
    };
    let verbosity = options.int("v");
    let mut config = Config::new(options, &ControllerRegistry::builtin()).map_err(|errors| join_errors(&errors))?;
    config.serving = Some(Serving {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        tls: None,
        share_port: false,
        // It listens on this machine alone.
        access: Access::Open,
    });
    Ok((config, verbosity))
}

async fn dev(args: &DevArgs, config: Config) -> Result<(), DevError> {
    let mut signals = Signals::listen_on_terminal().map_err(DevError::Signals)?;
    let manifests = read_all(&args.apply)?;
    let (tasks, stop) = (Tasks::default(), CancellationToken::new());
    let clock = Clock::system();
    let cluster = DevCluster::with_managed_fields(clock.clone());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let door = cluster.serve_https(address).await.map_err(|source| DevError::Listen { port: args.port, source })?;

    let client = internal_client(&cluster)?;
    let latency = Latency::total(args.latency.to_std());
    let nodes = NodesConfig { count: args.nodes, latency, ..NodesConfig::default() };
    nodes::start(nodes, client.clone(), clock.clone(), &tasks, &stop).await?;

    let manager_stop = CancellationToken::new();
    let connection = Connection::in_process(cluster.client(), door.address().to_string());
    let manager = Manager::new(config, connection, clock)?;
    let metrics = manager.address();
    let mut running = tokio::spawn(manager.run(manager_stop.clone()));

    let watch = Watch::start(&client, &tasks, &stop).await?;
    let kubeconfig = place_kubeconfig(args, &door)?;
    greet(args, &door, kubeconfig.path(), metrics);

    let ended = tokio::select! {
        ended = &mut running => Err(ended.map_or_else(|_| RunError::ControllerEnded("manager"), |e| e.err().unwrap_or(RunError::ControllerEnded("manager"))).into()),
        ended = work(args, &cluster, &manifests, &watch) => ended,
        () = signals.next() => if args.once { Err(DevError::Interrupted) } else { Ok(()) },
    };
    watch.display.clear();
    manager_stop.cancel();
    let rest = async {
        if !running.is_finished() {
            // It says itself what it waits for; how it ends does not matter any more.
            let _ = running.await;
        }
        stop.cancel();
        tasks.join(Duration::from_secs(5)).await;
    };
    tokio::select! {
        () = rest => {}
        // Whoever asks again does not want to wait.
        () = signals.next() => {}
    }
    ended
}

/// Applies the manifests; then waits for the outcome with `--once`, or for ever.
async fn work(args: &DevArgs, cluster: &DevCluster, manifests: &[Manifest], watch: &Watch) -> Result<(), DevError> {
    for manifest in manifests {
        manifest.apply(cluster).await?;
    }
    let mut applied = Applied::default();
    let mut idle = BTreeSet::new();
    for manifest in manifests {
        let key = ObjectKey::new(manifest.namespace(), manifest.name());
        let kind = manifest.kind();
        if !applied.add(kind, key) && matches!(kind, "StatefulSet" | "DaemonSet" | "Job" | "CronJob") {
            idle.insert(kind.to_owned());
        }
    }
    if !manifests.is_empty() {
        let files: BTreeSet<&Path> = manifests.iter().map(|manifest| manifest.file.as_path()).collect();
        watch.display.say(&format!("applied {} from {}", counted(manifests.len(), "object"), counted(files.len(), "file")));
    }
    if !idle.is_empty() {
        let kinds = idle.into_iter().collect::<Vec<_>>().join(", ");
        watch.display.say(&format!("note: {kinds}: stored and served, but no controller acts on them yet"));
    }
    if !args.once {
        return std::future::pending().await;
    }
    let limit = args.timeout;
    match tokio::time::timeout(limit.to_std(), watch.available(&applied)).await {
        Ok(Ok(())) => {
            watch.display.say("everything is available");
            Ok(())
        }
        Ok(Err(missing)) => Err(DevError::Impossible(missing.explain(cluster))),
        Err(_) => match applied.outcome(&watch.caches) {
            Outcome::Available => Ok(()),
            Outcome::Impossible(missing) => Err(DevError::Impossible(missing.explain(cluster))),
            Outcome::Pending(all) => {
                let all: Vec<String> = all.iter().map(|missing| missing.explain(cluster)).collect();
                Err(DevError::TooSlow(limit, all.join("; ")))
            }
        },
    }
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What this process sees of the cluster's work.
struct Watch {
    display: Arc<Display>,
    caches: Caches,
    changed: Arc<Notify>,
}

impl Watch {
    async fn start(client: &ApiClient, tasks: &Tasks, stop: &CancellationToken) -> Result<Self, DevError> {
        let informers = InformerFactory::new(client.clone(), Duration::ZERO, &Registry::new())?;
        let caches = Caches::of(&informers);
        let (display, changed) = (Display::new(), Arc::new(Notify::new()));
        let (shown, wake) = (Arc::clone(&display), Arc::clone(&changed));
        caches.deployments.add_handler(move |change| {
            shown.update(&change);
            wake.notify_one();
        });
        wake_for_unowned(&caches.replica_sets, &changed);
        wake_for_unowned(&caches.replication_controllers, &changed);
        wake_for_unowned(&caches.pods, &changed);
        informers.start(tasks, stop);
        informers.wait_synced(stop).await;
        Ok(Self { display, caches, changed })
    }

    /// Waits until all that was applied is available; an error is what cannot be.
    async fn available(&self, applied: &Applied) -> Result<(), Missing> {
        loop {
            match applied.outcome(&self.caches) {
                Outcome::Available => return Ok(()),
                Outcome::Impossible(missing) => return Err(missing),
                Outcome::Pending(_) => self.changed.notified().await,
            }
        }
    }
}

/// Wakes who waits for the outcome at changes of objects without a controller: the others count through their owners.
fn wake_for_unowned<T: Object>(cache: &SharedInformer<T>, changed: &Arc<Notify>) {
    let wake = Arc::clone(changed);
    cache.add_handler(move |change: Change<'_, T>| {
        let (Change::Added { object, .. } | Change::Updated { new: object, .. } | Change::Deleted { object, .. }) = change;
        if object.meta().controller().is_none() {
            wake.notify_one();
        }
    });
}

fn read_all(files: &[PathBuf]) -> Result<Vec<Manifest>, ManifestError> {
    let mut all = Vec::new();
    for file in files {
        all.extend(manifests::read(file)?);
    }
    Ok(all)
}

fn internal_client(cluster: &DevCluster) -> Result<ApiClient, prometheus::Error> {
    let settings = ClientSettings { user_agent: user_agent("dev"), qps: 0.0, burst: 0, timeout: Duration::from_secs(30) };
    Ok(ApiClient::new(cluster.client(), settings, ClientMetrics::register(&Registry::new())?))
}

fn place_kubeconfig(args: &DevArgs, door: &HttpsDoor) -> Result<KubeconfigFile, DevError> {
    let default = || std::env::temp_dir().join(format!("steersman-dev-{}.kubeconfig", door.address().port()));
    let path = args.write_kubeconfig.clone().unwrap_or_else(default);
    KubeconfigFile::place(&path, &door.kubeconfig()).map_err(|source| DevError::Kubeconfig { path, source })
}

fn greet(args: &DevArgs, door: &HttpsDoor, kubeconfig: &Path, metrics: Option<SocketAddr>) {
    println!("Kubernetes API at https://{}, {}", door.address(), counted(args.nodes, "simulated node"));
    if let Some(address) = metrics {
        println!("manager at http://{address}: /healthz /metrics /configz");
    }
    if !args.once {
        println!("\n  export KUBECONFIG={}\n  kubectl get nodes\n\nCtrl-C ends it.", kubeconfig.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <DevArgs as clap::CommandFactory>::command().debug_assert();
        let args = DevArgs::try_parse_from(["dev", "--apply", "a.yaml", "b.yaml", "--once", "--", "-v=2"]).unwrap();
        assert_eq!((args.apply.len(), args.once, args.manager.as_slice()), (2, true, &["-v=2".to_owned()][..]));
        assert!(DevArgs::try_parse_from(["dev", "--latency", "-1s"]).is_err(), "nothing takes less than no time");
        assert!(DevArgs::try_parse_from(["dev", "--once"]).is_err(), "once needs something to wait for");
        let (config, verbosity) = manager_config(&args).unwrap();
        assert_eq!(verbosity, 2);
        assert!(config.election.is_none());
    }

    #[test]
    fn wrong_manager_flags_are_reported() {
        let args = DevArgs::try_parse_from(["dev", "--", "--controllers=foo"]).unwrap();
        assert_eq!(manager_config(&args).unwrap_err(), "\"foo\" is not in the list of known controllers");
        let args = DevArgs::try_parse_from(["dev", "--", "--controlers=foo"]).unwrap();
        assert_eq!(manager_config(&args).unwrap_err(), "unknown flag: --controlers; did you mean --controllers?");
    }
}
