//! A whole cluster in this process: API server on an HTTPS port, simulated nodes, the manager, and
//! a kubeconfig for other programs.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use prometheus::Registry;
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, user_agent};
use steersman_devcluster::bootstrap::BootstrapToken;
use steersman_devcluster::cloud::SimulatedCloud;
use steersman_devcluster::https::{HttpsDoor, Serving};
use steersman_devcluster::manifests::{self, Manifest, ManifestError};
use steersman_devcluster::nodes::{self, Latency, NodesConfig, NodesError};
use steersman_devcluster::rest::Component;
use steersman_devcluster::status::Status;
use steersman_devcluster::{Admission, COMPACTION_INTERVAL, DevCluster, Release, StartError};
use steersman_runtime::controller::Descriptor;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::clock::Clock;
use tokio::task::{JoinError, JoinHandle};

use steersman_options::duration::GoDuration;

use super::account_key::{self, AccountKeyError};
use super::kubeconfig::KubeconfigFile;
use super::settled::cluster_takes_pods;
use super::signing::SigningFiles;
use super::state::{self, Kept, StateError};
use super::{duration, join, simulate};
use crate::api::Connection;
use crate::command_line::{self, Command, Options};
use crate::config::{Config, join_errors};
use crate::manager::{Manager, RunError};
use crate::registry::ControllerRegistry;

/// The flags that all embedded clusters share.
#[derive(Debug, Args)]
pub(super) struct EmbeddedArgs {
    /// Release of Kubernetes to serve, such as 1.34: its resources, fields and feature gates, as far as
    /// docs/releases.md lists them. The manager follows it.
    #[arg(long, default_value_t = Release::DEFAULT, value_name = "RELEASE")]
    pub(super) kubernetes_version: Release,
    /// Number of simulated nodes.
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub(super) nodes: usize,
    /// Number of zones, called a, b, c and so on; the nodes are in them in turn. Without it, the
    /// nodes have no zone.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u8).range(..=26))]
    zones: u8,
    /// Manifests to apply once the server is up: files, directories of them, directories with a
    /// kustomization (they need kubectl), or - for standard input.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub(super) apply: Vec<PathBuf>,
    /// Objects as another API server left them, with UIDs, versions, owners and statuses: the output of
    /// kubectl get -A -o yaml. They are in the server before anything runs.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    load: Vec<PathBuf>,
    /// A file that keeps the objects between runs. Credentials are new at each run.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// How long after its last write an Event is deleted; 0s keeps Events for ever.
    #[arg(long, default_value = "1h0m0s", value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    event_ttl: GoDuration,
    /// Run the loops of cloud-controller-manager over a simulated cloud: load balancers get
    /// addresses of 192.0.2.0/24, nodes get routes, and the annotation
    /// simulate.steersman.dev/cloud=deleted or =shutdown on a Node takes its machine away.
    #[arg(long)]
    cloud: bool,
    /// Port of the API server on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0, value_name = "P")]
    pub(super) port: u16,
    /// Where to write the kubeconfig, which is removed at the end; a file in the temporary
    /// directory if not given.
    #[arg(long, value_name = "PATH")]
    write_kubeconfig: Option<PathBuf>,
}

impl EmbeddedArgs {
    /// Reads the manifests of `--apply`.
    pub(super) fn manifests(&self) -> Result<Vec<Manifest>, ManifestError> {
        manifests::join(self.apply.iter().map(|file| manifests::read(file)))
    }
}

/// Default flags of the embedded manager: it is the only candidate for the Lease, and the throttle
/// should not slow it down.
const MANAGER_DEFAULTS: [&str; 3] = [
    "--leader-elect=false",
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
];

/// Time limit for the manager to make a new cluster ready for pods.
const LIMIT: Duration = Duration::from_secs(30);

/// Flags that give each node a range of pod addresses. They are large for a few nodes, because
/// simulated nodes run any number of pods.
fn pod_ranges(nodes: usize) -> [String; 3] {
    let mask = match nodes {
        0..=32 => 16,
        33..=512 => 20,
        _ => 24,
    };
    [
        "--allocate-node-cidrs=true".to_owned(),
        "--cluster-cidr=10.128.0.0/10".to_owned(),
        format!("--node-cidr-mask-size={mask}"),
    ]
}

/// Configuration and verbosity of the manager, from its flags. Flags about ranges of pod addresses
/// replace all default ones, and so do flags about the signing of certificates. The error is the text to print.
pub(super) fn manager_config(
    args: &EmbeddedArgs,
    flags: &[String],
) -> Result<(Config, i64), String> {
    let mut registry = ControllerRegistry::builtin();
    if args.cloud {
        let loops = steersman_cloud::controllers::<SimulatedCloud>();
        registry = loops.into_iter().fold(registry, ControllerRegistry::with);
    }
    let has_ranges = flags.iter().any(|flag| flag.contains("cidr"));
    let ranges = (!has_ranges).then(|| pod_ranges(args.nodes));
    let signs = flags.iter().any(|flag| flag.contains("cluster-signing"));
    let signing = (!signs).then(SigningFiles::flags);
    let typed = MANAGER_DEFAULTS
        .map(str::to_owned)
        .into_iter()
        .chain(ranges.into_iter().flatten())
        .chain(signing.into_iter().flatten())
        .chain(flags.iter().cloned());
    let options: Options = match command_line::parse(typed, |line| complain!("{line}")) {
        Ok(Command::Run(options)) => *options,
        Ok(_) => {
            return Err(
                "--help and --version of the manager: run steersman without a subcommand"
                    .to_owned(),
            );
        }
        Err(error) => {
            let hint = error
                .suggestion
                .as_ref()
                .map(|flag| format!("; did you mean --{flag}?"))
                .unwrap_or_default();
            return Err(format!("{error}{hint}"));
        }
    };
    let verbosity = options.int("v");
    let mut config = Config::new(options, &registry)
        .and_then(|config| config.beside(args.kubernetes_version))
        .map_err(|errors| join_errors(&errors))?;
    config.serving = None;
    Ok((config, verbosity))
}

/// The cluster could not start, or one of its parts ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum EmbeddedError {
    #[error("listen on 127.0.0.1:{port}: {source}; --port names another port, 0 takes a free one")]
    Listen { port: u16, source: std::io::Error },
    #[error("{0}")]
    Front(String),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("write the files of the certificate authority: {0}")]
    Signing(#[source] std::io::Error),
    #[error(transparent)]
    AccountKey(#[from] AccountKeyError),
    #[error("write the kubeconfig {}: {source}", path.display())]
    Kubeconfig {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Cluster(#[from] StartError),
    #[error("prepare the cluster for new nodes: {0}")]
    Joining(#[from] Status),
    #[error(transparent)]
    Nodes(#[from] NodesError),
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Manager(#[from] RunError),
}

/// The running cluster.
pub(super) struct Embedded {
    pub(super) cluster: DevCluster,
    pub(super) door: HttpsDoor,
    /// A client within the process, without a network connection.
    pub(super) client: ApiClient,
    /// The address of the manager's HTTP server, if it has one.
    pub(super) manager_address: Option<SocketAddr>,
    /// Whether that server has the page `/ui/`.
    pub(super) has_page: bool,
    pub(super) kubeconfig: KubeconfigFile,
    /// The files with which the manager signs certificates, if it does.
    _signing: Option<SigningFiles>,
    /// With it nodes join; `None` if the bootstrap signer does not run.
    pub(super) bootstrap_token: Option<BootstrapToken>,
    pub(super) recipe: Recipe,
    /// Saves the objects, and returns when it has done so for the last time.
    saving: Option<(CancellationToken, JoinHandle<()>)>,
    /// Tasks of the nodes and the display; they end after the manager.
    pub(super) tasks: Tasks,
    pub(super) stop: CancellationToken,
    manager: JoinHandle<Result<(), RunError>>,
    manager_stop: CancellationToken,
}

/// Makes credentials known to a cluster, and returns the settings of its port.
type MakeServing<'a> = Box<dyn FnOnce(&DevCluster) -> Result<Serving, String> + 'a>;

/// The side of the API server that its clients see.
pub(super) struct Front<'a> {
    /// Whether pods get an account and its token: the admission plugin ServiceAccount.
    pub(super) service_accounts: bool,
    /// The port, made when the cluster exists.
    pub(super) serving: MakeServing<'a>,
    /// The clock of stored times and controllers.
    pub(super) clock: Clock,
    /// Number of latest requests that the cluster keeps.
    pub(super) kept_requests: usize,
    /// Time between two compactions; zero: never.
    pub(super) compaction_interval: Duration,
}

impl Front<'_> {
    /// The cluster's own certificate on a port of 127.0.0.1.
    pub(super) fn on_port(port: u16) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            service_accounts: true,
            serving: Box::new(move |_| Ok(address.into())),
            clock: Clock::system(),
            // The request log is only useful for tests that can read it.
            kept_requests: 0,
            compaction_interval: COMPACTION_INTERVAL,
        }
    }
}

/// The parts that run in the cluster, for forks of it.
#[derive(Clone)]
pub(super) struct Recipe {
    pub(super) admission: Admission,
    pub(super) controllers: Vec<Descriptor>,
    pub(super) nodes: NodesConfig,
    pub(super) event_ttl: Duration,
}

impl Embedded {
    /// Starts all parts. When it returns, the API server answers and the nodes are ready.
    pub(super) async fn start(
        args: &EmbeddedArgs,
        latency: Latency,
        config: Config,
    ) -> Result<Self, EmbeddedError> {
        Self::start_behind(Front::on_port(args.port), args, latency, config).await
    }

    /// As [`Embedded::start`], with another front.
    pub(super) async fn start_behind(
        front: Front<'_>,
        args: &EmbeddedArgs,
        latency: Latency,
        config: Config,
    ) -> Result<Self, EmbeddedError> {
        let tasks = Tasks::default();
        let stop = CancellationToken::new();
        let clock = front.clock.clone();
        let runs = |name: &str| {
            config
                .controllers
                .enabled
                .iter()
                .any(|one| one.name == name)
        };
        let admission = Admission {
            service_accounts: front.service_accounts,
            // Without the controller that removes the taint of new nodes, no pod would fit them.
            node_taints: runs("node-lifecycle-controller"),
            // Without the controllers of these objects, no pod would start.
            default_accounts: !runs("serviceaccount-controller"),
            root_ca: !runs("root-ca-certificate-publisher-controller"),
            quota_controller: runs("resourcequota-controller"),
            // Without the controllers that remove the finalizers, deletions would never end.
            protected_claims: runs("persistentvolumeclaim-protection-controller"),
            protected_volumes: runs("persistentvolume-protection-controller"),
            protected_classes: runs("volumeattributesclass-protection-controller"),
            ..Admission::FULL
        };
        // With neither, the server is bare, as with envtest.
        let is_bare = args.nodes == 0 && config.controllers.enabled.is_empty();
        let builder = DevCluster::builder()
            .release(args.kubernetes_version)
            .metrics(!is_bare)
            .clock(clock.clone())
            .admission(admission)
            .kept_requests(front.kept_requests)
            .compaction_interval(front.compaction_interval);
        let cluster = builder.event_ttl(args.event_ttl.to_std()).start().await?;
        if !args.load.is_empty() {
            state::load(&cluster, &args.load)?;
        }
        let kept = args.data.as_deref();
        let kept = kept.map(|file| Kept::open(file, &cluster)).transpose()?;
        account_key::share(&config, &cluster)?;
        let serving = (front.serving)(&cluster).map_err(EmbeddedError::Front)?;
        let port = serving.address.port();
        let door = cluster.serve_https_as(serving).await;
        let door = door.map_err(|source| EmbeddedError::Listen { port, source })?;

        let bootstrap_token = if runs("bootstrap-signer-controller") {
            Some(cluster.prepare_joining(&door).await?)
        } else {
            None
        };

        let client = client(&cluster)?;
        let nodes = NodesConfig {
            count: args.nodes,
            zones: args.zones,
            pod_ranges: runs("node-ipam-controller")
                && config.options().bool("allocate-node-cidrs"),
            binds_claims: !runs(nodes::BINDER),
            attaches_volumes: runs(nodes::ATTACH_DETACH),
            latency,
            // Users look for the reasons of their pods in Events.
            events: true,
            kubelet_version: Some(args.kubernetes_version.git_version()),
            ..NodesConfig::default()
        };
        let recipe = Recipe {
            admission,
            controllers: config.controllers.enabled.clone(),
            nodes: nodes.clone(),
            event_ttl: args.event_ttl.to_std(),
        };
        let names = nodes.names();
        // A scheduler would write to every pod that there are no nodes.
        if !is_bare {
            nodes::start(nodes, client.clone(), clock.clone(), &tasks, &stop).await?;
            cluster.report_healthy(Component::Scheduler);
        }
        if !config.controllers.enabled.is_empty() {
            cluster.report_healthy(Component::ControllerManager);
        }

        let signing = if runs("certificatesigningrequest-signing-controller") {
            let certificate = cluster.authority_pem();
            let key = cluster.authority_key_pem();
            let placed = SigningFiles::place(&certificate, &key);
            Some(placed.map_err(EmbeddedError::Signing)?)
        } else {
            None
        };
        let manager_stop = CancellationToken::new();
        let mut connection = Connection::in_process(cluster.client(), door.address().to_string());
        connection.credentials = cluster.credentials();
        let has_page = config.ui && config.serving.is_some();
        let manager = Manager::new(config, connection, clock)?;
        manager.set_simulator(Arc::new(simulate::Cluster(client.clone())));
        let manager_address = manager.address();
        let mut manager = tokio::spawn(manager.run(manager_stop.clone()));
        if let Some(token) = &bootstrap_token {
            join::start(&door, token, names, &tasks, &stop);
        }
        if admission.node_taints || !admission.default_accounts {
            tokio::select! {
                settled = cluster_takes_pods(client.clone()) => settled?,
                // A manager that has lost its way must not hide the cluster.
                () = tokio::time::sleep(LIMIT) => {}
                ended = &mut manager => return Err(ended_early(ended).into()),
            }
        }

        let default =
            || std::env::temp_dir().join(format!("steersman-{}.kubeconfig", door.address().port()));
        let path = args.write_kubeconfig.clone().unwrap_or_else(default);
        let placed = KubeconfigFile::place(&path, &door.kubeconfig());
        let kubeconfig = placed.map_err(|source| EmbeddedError::Kubeconfig { path, source })?;
        let cluster_to_save = cluster.clone();
        Ok(Self {
            cluster,
            door,
            client,
            manager_address,
            has_page,
            kubeconfig,
            _signing: signing,
            bootstrap_token,
            recipe,
            saving: kept.map(|kept| save(kept, cluster_to_save)),
            tasks,
            stop,
            manager,
            manager_stop,
        })
    }

    /// Waits until the manager ends, which it should not do, and returns the reason.
    pub(super) async fn manager_ended(&mut self) -> RunError {
        ended_early((&mut self.manager).await)
    }

    /// Stops the manager, then the rest.
    pub(super) async fn end(mut self) {
        self.manager_stop.cancel();
        if !self.manager.is_finished() {
            // The manager logs its shutdown itself, and its result no longer matters.
            let _ = (&mut self.manager).await;
        }
        self.stop.cancel();
        self.tasks.join(Duration::from_secs(5)).await;
        self.cluster.stop().await;
        if let Some((stop, saved)) = self.saving.take() {
            stop.cancel();
            // A panic of the task has been logged.
            let _ = saved.await;
        }
    }
}

/// Saves the objects of `cluster` while it runs, and once more when the token is cancelled.
fn save(mut kept: Kept, cluster: DevCluster) -> (CancellationToken, JoinHandle<()>) {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let saved = tokio::spawn(async move {
        tokio::select! {
            () = kept.keep_saving(&cluster) => {}
            () = stopped.cancelled() => {}
        }
        if let Err(error) = kept.save(&cluster) {
            complain!("Error: --data: the state was not saved: {error}");
        }
    });
    (stop, saved)
}

/// The reason of the end of a manager that should run.
fn ended_early(ended: Result<Result<(), RunError>, JoinError>) -> RunError {
    let reason = ended.ok().and_then(Result::err);
    reason.unwrap_or(RunError::ControllerEnded("manager"))
}

/// A client without a throttle.
fn client(cluster: &DevCluster) -> Result<ApiClient, prometheus::Error> {
    let settings = ClientSettings {
        user_agent: user_agent("dev"),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(30),
    };
    Ok(ApiClient::new(
        cluster.client(),
        settings,
        ClientMetrics::register(&Registry::new())?,
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        embedded: EmbeddedArgs,
    }

    #[test]
    fn nodes_get_ranges_of_pod_addresses_unless_flags_say_otherwise() {
        // (flags, nodes, ranges, mask size)
        let cases = [
            ("", 3, true, "16"),
            ("", 100, true, "20"),
            ("", 5000, true, "24"),
            ("--allocate-node-cidrs=false", 3, false, "0"),
            (
                "--allocate-node-cidrs --cluster-cidr=10.244.0.0/16",
                3,
                true,
                "0",
            ),
        ];
        for (flags, nodes, has_ranges, mask) in cases {
            let flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
            let args = Only::parse_from(["dev".to_owned(), format!("--nodes={nodes}")]);
            let (config, _) = manager_config(&args.embedded, &flags).unwrap();
            assert_eq!(
                config.options().bool("allocate-node-cidrs"),
                has_ranges,
                "{flags:?}"
            );
            let found = config.options().int("node-cidr-mask-size");
            assert_eq!(found.to_string(), mask, "{flags:?}");
        }
    }
}
