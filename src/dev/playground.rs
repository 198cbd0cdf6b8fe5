//! `steersman dev`: an API server, simulated nodes and the manager in one process, for experiments
//! and tests.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use prometheus::Registry;
use steersman_client::ApiClient;
use steersman_controllers::why;
use steersman_devcluster::DevCluster;
use steersman_devcluster::manifests::{Manifest, ManifestError};
use steersman_devcluster::nodes::Latency;
use steersman_objects::{Object, ObjectKey};
use steersman_runtime::informer::{Change, InformerFactory, SharedInformer};
use steersman_runtime::tasks::CancellationToken;
use steersman_values::clock::Clock;
use steersman_why::{ClientReader, Question};
use tokio::sync::Notify;

use steersman_options::duration::GoDuration;

use super::display::{Display, LogLines};
use super::document::Format;
use super::duration;
use super::embedded::{Embedded, EmbeddedArgs, EmbeddedError, manager_config};
use super::missing::MissingOk;
use super::outcome::{Applied, Caches, Outcome, Unavailable};
use super::progress::{
    Progress, assess, assess_cron_job, assess_daemon_set, assess_job, assess_stateful_set,
    of_claim, of_pod,
};
use super::services;
use crate::config::{Access, Config, Serving};
use crate::signals::Signals;
use crate::ui::browser;

/// Starts a Kubernetes API server, simulated nodes and the controllers in this process. Nothing is
/// left behind when it ends.
#[derive(Debug, Parser)]
#[command(
    name = "steersman dev",
    bin_name = "steersman dev",
    disable_version_flag = true
)]
struct DevArgs {
    #[command(flatten)]
    embedded: EmbeddedArgs,
    /// How long a simulated pod takes to get ready, and to end: a duration such as 500ms.
    #[arg(long, default_value = "600ms", value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    latency: GoDuration,
    /// End when everything that was applied is available (exit 0) or when it cannot be (exit 1,
    /// with the reason).
    #[arg(long, requires = "apply")]
    once: bool,
    /// With --once: prints the outcome of each object at the end, as json or junit.
    #[arg(long, requires = "once", value_name = "FORMAT")]
    output: Option<Format>,
    /// With --once: how long to wait for that.
    #[arg(long, default_value = "2m", value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    timeout: GoDuration,
    /// A Secret or ConfigMap that a program in the manifests would have made, such as
    /// secret/argocd-redis: if it is missing, it is made with empty values; repeatable.
    #[arg(long, requires = "apply", value_name = "KIND/NAME")]
    missing_ok: Vec<MissingOk>,
    /// Open the page about the manager in a browser.
    #[arg(long)]
    open: bool,
    /// Flags of the manager, after `--`: `-- --controllers=*,-podgc -v=2`.
    #[arg(last = true, value_name = "MANAGER FLAGS")]
    manager: Vec<String>,
}

/// The errors that end `steersman dev`.
#[derive(Debug, thiserror::Error)]
enum DevError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    #[error("not available: {0}")]
    Impossible(String),
    #[error("not available after {0}: {1}")]
    TooSlow(GoDuration, String),
    #[error("interrupted before everything was available")]
    Interrupted,
    #[error("listen to signals: {0}")]
    Signals(#[source] std::io::Error),
}

/// The arguments of the subcommand.
pub(super) fn arguments() -> clap::Command {
    DevArgs::command()
}

/// Runs the subcommand, and returns its exit code.
pub(super) fn run(arguments: Vec<String>) -> ExitCode {
    let args: DevArgs = match super::parse("dev", arguments) {
        Ok(args) => args,
        Err(code) => return code,
    };
    // A flag of the user after it wins.
    let flags = [vec!["--ui".to_owned()], args.manager.clone()].concat();
    match manager_config(&args.embedded, &flags) {
        Ok((mut config, verbosity)) => {
            config.serving = Some(Serving {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                tls: None,
                share_port: false,
                // It listens on the loopback address only.
                access: Access::Open,
            });
            let display = Display::new();
            let log = LogLines(Arc::clone(&display));
            super::finish_with(verbosity, move || log.clone(), dev(args, config, display))
        }
        Err(message) => super::fail(message),
    }
}

/// Runs the cluster until a signal or an error; with `--once`, until the outcome is known.
async fn dev(args: DevArgs, config: Config, display: Arc<Display>) -> Result<(), DevError> {
    let mut signals = Signals::listen_on_terminal().map_err(DevError::Signals)?;
    let manifests = args.embedded.manifests()?;
    let mut embedded = Embedded::start(
        &args.embedded,
        Latency::total(args.latency.to_std()),
        config,
    )
    .await?;
    let watch = Watch::start(&embedded, display).await?;
    // A document on standard output has no lines around it.
    if args.output.is_none() {
        print_welcome(&args, &embedded);
    }

    let cluster = embedded.cluster.clone();
    let ended = tokio::select! {
        error = embedded.manager_ended() => Err(EmbeddedError::from(error).into()),
        ended = work(&args, &cluster, &manifests, &watch) => ended,
        () = signals.next() => if args.once { Err(DevError::Interrupted) } else { Ok(()) },
    };
    watch.display.clear();
    tokio::select! {
        () = embedded.end() => {}
        // A second signal skips the wait.
        () = signals.next() => {}
    }
    ended
}

/// Applies the manifests. Then waits for the outcome with `--once`, else for ever.
async fn work(
    args: &DevArgs,
    cluster: &DevCluster,
    manifests: &[Manifest],
    watch: &Watch,
) -> Result<(), DevError> {
    let mut refused = Vec::new();
    for manifest in manifests {
        match manifest.apply(cluster).await {
            Ok(warnings) => say_warnings(manifest, &warnings, |line| watch.display.say(line)),
            Err(error) => refused.push(error),
        }
    }
    ManifestError::all(refused)?;
    for missing in &args.missing_ok {
        for line in missing.stand_in(cluster, manifests).await {
            watch.display.say(&line);
        }
    }
    let mut applied = Applied::default();
    for manifest in manifests {
        let key = ObjectKey::new(manifest.namespace(), manifest.name());
        applied.add(manifest.kind(), key);
    }
    if !manifests.is_empty() {
        let files: BTreeSet<&Path> = manifests
            .iter()
            .map(|manifest| manifest.file.as_path())
            .collect();
        watch.display.say(&format!(
            "applied {} from {}",
            counted(manifests.len(), "object"),
            counted(files.len(), "file")
        ));
    }
    if !args.once {
        return std::future::pending().await;
    }
    let ended = outcome(args, &applied, cluster, watch).await;
    for line in services::without_pods(cluster, manifests) {
        watch.display.say(&line);
    }
    if let Some(format) = args.output {
        let verdicts = applied.verdicts(&watch.caches, cluster);
        let error = ended.as_ref().err().map(ToString::to_string);
        say!("{}", format.document(&verdicts, cluster, error.as_deref()));
    }
    ended
}

/// The warnings of the server about one applied object, each as a line.
pub(super) fn say_warnings(manifest: &Manifest, warnings: &[String], say: impl Fn(&str)) {
    for warning in warnings {
        say(&format!(
            "Warning: {} {:?}: {warning}",
            manifest.kind(),
            manifest.name()
        ));
    }
}

/// Waits until the outcome of the applied objects is known, or for the time limit.
async fn outcome(
    args: &DevArgs,
    applied: &Applied,
    cluster: &DevCluster,
    watch: &Watch,
) -> Result<(), DevError> {
    let limit = args.timeout;
    match tokio::time::timeout(limit.to_std(), watch.available(applied, cluster)).await {
        Ok(Ok(())) => {
            watch.display.say("everything is available");
            Ok(())
        }
        Ok(Err(missing)) => Err(DevError::Impossible(missing.explain(cluster))),
        Err(_) => match applied.outcome(&watch.caches, cluster) {
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

/// The display and the caches of applied objects.
struct Watch {
    display: Arc<Display>,
    caches: Caches,
    changed: Arc<Notify>,
}

impl Watch {
    /// Starts the informers behind the display and the outcome, and waits until they have synced.
    async fn start(embedded: &Embedded, display: Arc<Display>) -> Result<Self, DevError> {
        let informers =
            InformerFactory::new(embedded.client.clone(), Duration::ZERO, &Registry::new())?;
        let caches = Caches::of(&informers);
        let changed = Arc::new(Notify::new());
        show(&caches.deployments, &display, &changed, assess);
        show(
            &caches.stateful_sets,
            &display,
            &changed,
            assess_stateful_set,
        );
        show(&caches.daemon_sets, &display, &changed, assess_daemon_set);
        show(&caches.jobs, &display, &changed, assess_job);
        show(&caches.cron_jobs, &display, &changed, assess_cron_job);
        wake_for_unowned(&caches.replica_sets, &changed);
        wake_for_unowned(&caches.replication_controllers, &changed);
        show_unowned(&caches.claims, &display, &changed, of_claim);
        show_unowned(&caches.pods, &display, &changed, of_pod);
        embedded
            .tasks
            .spawn("display", Arc::clone(&display).run(embedded.stop.clone()));
        let shown = Arc::clone(&display);
        let client = embedded.client.clone();
        let clock = embedded.cluster.clock().clone();
        let stop = embedded.stop.clone();
        embedded
            .tasks
            .spawn("why", explain_rows(shown, client, clock, stop));
        informers.start(&embedded.tasks, &embedded.stop);
        informers.wait_synced(&embedded.stop).await;
        Ok(Self {
            display,
            caches,
            changed,
        })
    }

    /// Waits until all applied objects are available. The error is an object that cannot be.
    async fn available(&self, applied: &Applied, cluster: &DevCluster) -> Result<(), Unavailable> {
        loop {
            match applied.outcome(&self.caches, cluster) {
                Outcome::Available => return Ok(()),
                Outcome::Impossible(missing) => return Err(missing),
                Outcome::Pending(_) => self.changed.notified().await,
            }
        }
    }
}

/// Puts the cause below each row that stands still, until `stop`.
async fn explain_rows(
    display: Arc<Display>,
    client: ApiClient,
    clock: Clock,
    stop: CancellationToken,
) {
    let reader = ClientReader::new(client);
    loop {
        for (kind, key) in display.standing_still() {
            let question = Question::object(&kind, &key.namespace, &key.name);
            let answer = why::ask(&reader, clock.now(), None, &question).await;
            let answer = answer
                .ok()
                .and_then(|report| report.answers.into_iter().next());
            let cause = answer.and_then(|answer| {
                let (object, cause) = answer.causes().last()?;
                Some(format!("{}: {}", object.short(), cause.line()))
            });
            display.explain(kind, key, cause);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}

/// Shows the progress of the workloads in a cache, and signals their changes.
fn show<T: Object>(
    cache: &SharedInformer<T>,
    display: &Arc<Display>,
    changed: &Arc<Notify>,
    assess: fn(&T) -> Progress,
) {
    let display = Arc::clone(display);
    let wake = Arc::clone(changed);
    cache.add_handler(move |change| {
        display.update(&change, assess);
        wake.notify_one();
    });
}

/// As [`show`], for objects without a controller. The others are shown by their owners.
fn show_unowned<T: Object>(
    cache: &SharedInformer<T>,
    display: &Arc<Display>,
    changed: &Arc<Notify>,
    assess: fn(&T) -> Progress,
) {
    let display = Arc::clone(display);
    let wake = Arc::clone(changed);
    cache.add_handler(move |change| {
        if change.object().meta().controller().is_none() {
            display.update(&change, assess);
            wake.notify_one();
        }
    });
}

/// Signals changes of objects without a controller. Other objects count through their owners.
fn wake_for_unowned<T: Object>(cache: &SharedInformer<T>, changed: &Arc<Notify>) {
    let wake = Arc::clone(changed);
    cache.add_handler(move |change: Change<'_, T>| {
        let (Change::Added { object, .. }
        | Change::Updated { new: object, .. }
        | Change::Deleted { object, .. }) = change;
        if object.meta().controller().is_none() {
            wake.notify_one();
        }
    });
}

fn print_welcome(args: &DevArgs, embedded: &Embedded) {
    say!(
        "Kubernetes API at {}, {}",
        embedded.door.url(),
        counted(args.embedded.nodes, "simulated node")
    );
    if let Some(address) = embedded.manager_address {
        say!("manager at http://{address}: /healthz /metrics /configz");
        if embedded.has_page {
            let page = format!("http://{address}/ui/");
            say!("look at it at {page}");
            if args.open {
                browser::open(&page);
            }
        }
    }
    if !args.once {
        let kubeconfig = embedded.kubeconfig.path().display();
        say!("\n  export KUBECONFIG={kubeconfig}\n  kubectl get nodes");
        if let Some(token) = &embedded.bootstrap_token {
            // kubeadm itself also reads ConfigMaps of a cluster that it made.
            let token = token.text();
            let pin = embedded.door.authority_pin();
            say!(
                "\nA kubelet with --bootstrap-kubeconfig joins with:\n  token {token}, authority {pin}"
            );
        }
        say!("\nCtrl-C ends it.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <DevArgs as clap::CommandFactory>::command().debug_assert();
        let args =
            DevArgs::try_parse_from(["dev", "--apply", "a.yaml", "b.yaml", "--once", "--", "-v=2"])
                .unwrap();
        assert_eq!(
            (
                args.embedded.apply.len(),
                args.once,
                args.manager.as_slice()
            ),
            (2, true, &["-v=2".to_owned()][..])
        );
        assert!(
            DevArgs::try_parse_from(["dev", "--latency", "-1s"]).is_err(),
            "a negative latency is refused"
        );
        assert!(
            DevArgs::try_parse_from(["dev", "--once"]).is_err(),
            "--once needs --apply"
        );
        let (config, verbosity) = manager_config(&args.embedded, &args.manager).unwrap();
        assert_eq!(verbosity, 2);
        assert!(config.election.is_none());
    }

    #[test]
    fn the_loops_of_a_cloud_run_on_request() {
        let is_on = |arguments: &[&str]| {
            let args = DevArgs::try_parse_from(arguments).unwrap();
            let (config, _) = manager_config(&args.embedded, &args.manager).unwrap();
            let on = config.controllers.enabled.iter();
            let loops = ["cloud-node-lifecycle", "route", "service"];
            let count = on
                .filter(|d| d.aliases.iter().any(|alias| loops.contains(alias)))
                .count();
            (count, config.options().text("cluster-cidr"))
        };
        let range = || "10.128.0.0/10".to_owned();
        assert_eq!(is_on(&["dev"]), (0, range()));
        assert_eq!(is_on(&["dev", "--cloud"]), (3, range()));
        let own = [
            "dev",
            "--cloud",
            "--",
            "--cluster-cidr=10.0.0.0/8",
            "--controllers=*,-route",
        ];
        assert_eq!(is_on(&own), (2, "10.0.0.0/8".to_owned()));
    }

    #[test]
    fn invalid_manager_flags_are_reported() {
        let args = DevArgs::try_parse_from(["dev", "--", "--controllers=foo"]).unwrap();
        assert_eq!(
            manager_config(&args.embedded, &args.manager).unwrap_err(),
            "\"foo\" is not in the list of known controllers"
        );
        let args = DevArgs::try_parse_from(["dev", "--", "--controlers=foo"]).unwrap();
        assert_eq!(
            manager_config(&args.embedded, &args.manager).unwrap_err(),
            "unknown flag: --controlers; did you mean --controllers?"
        );
    }
}
