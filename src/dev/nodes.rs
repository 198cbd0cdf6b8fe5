//! `steersman nodes`: adds simulated nodes to any API server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use prometheus::Registry;
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, user_agent};
use steersman_devcluster::nodes::{
    self, Latency, NodesConfig, NodesError, Pods, Stages, StagesError,
};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::clock::Clock;

use steersman_options::duration::GoDuration;

use super::duration;
use crate::signals::Signals;

/// Adds simulated nodes to any cluster and runs the pods that are bound to them, without running
/// anything.
///
/// Pods of other nodes are left alone. The Node objects stay when this ends; the label
/// simulate.steersman.dev/node marks them.
#[derive(Debug, Parser)]
#[command(
    name = "steersman nodes",
    bin_name = "steersman nodes",
    disable_version_flag = true
)]
struct NodesArgs {
    /// The cluster; without it that of kubectl: the files of $KUBECONFIG, else ~/.kube/config, else
    /// this pod's service account.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Number of nodes.
    #[arg(long, default_value_t = 3, value_name = "N")]
    count: usize,
    /// First part of their names.
    #[arg(long, default_value = "simulated-", value_name = "TEXT")]
    prefix: String,
    /// Number of zones, called a, b, c and so on; the nodes are in them in turn. Without it, the
    /// nodes have no zone.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u8).range(..=26))]
    zones: u8,
    /// How long a pod takes to get ready, and to end: a duration such as 500ms.
    #[arg(long, default_value = "600ms", value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    latency: GoDuration,
    /// A table of stages, in YAML, that comes before the built-in one.
    #[arg(long, value_name = "FILE")]
    stages: Option<PathBuf>,
    /// Bind unscheduled pods to these nodes, and provision volumes for claims: for API servers
    /// without a scheduler and a provisioner.
    #[arg(long)]
    schedule: bool,
    /// Wait for attached volumes, and answer VolumeAttachments of all CSI drivers: for clusters with an
    /// attach-detach controller, and without CSI drivers.
    #[arg(long)]
    attach: bool,
    /// Write the Events of kubelets about the pods, and with --schedule those of a scheduler. A start
    /// of a pod then takes about three times as many writes.
    #[arg(long)]
    events: bool,
}

/// The errors that end `steersman nodes`.
#[derive(Debug, thiserror::Error)]
enum NodesCommandError {
    #[error("read {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: {source}", path.display())]
    Stages { path: PathBuf, source: StagesError },
    #[error(transparent)]
    Kubeconfig(#[from] steersman_client::ConfigError),
    #[error(transparent)]
    Connect(#[from] steersman_client::ConnectError),
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Nodes(#[from] NodesError),
    #[error("listen to signals: {0}")]
    Signals(#[source] std::io::Error),
}

/// The arguments of the subcommand.
pub(super) fn arguments() -> clap::Command {
    NodesArgs::command()
}

/// Runs the subcommand, and returns its exit code.
pub(super) fn run(arguments: Vec<String>) -> ExitCode {
    match super::parse("nodes", arguments) {
        Ok(args) => super::finish(0, simulate(args)),
        Err(code) => code,
    }
}

/// Runs the simulated nodes until a signal.
async fn simulate(args: NodesArgs) -> Result<(), NodesCommandError> {
    let mut signals = Signals::listen_on_terminal().map_err(NodesCommandError::Signals)?;
    let config = NodesConfig {
        count: args.count,
        prefix: args.prefix.clone(),
        zones: args.zones,
        attaches_volumes: args.attach,
        latency: Latency::total(args.latency.to_std()),
        stages: args.stages.map(stages).transpose()?.unwrap_or_default(),
        pods: if args.schedule {
            Pods::OfOwnNodesAndUnscheduled
        } else {
            Pods::OfOwnNodes
        },
        // The manager of the cluster binds claims.
        binds_claims: false,
        events: args.events,
        ..NodesConfig::default()
    };
    let loaded = steersman_client::load_config_as_kubectl(args.kubeconfig.as_deref())?;
    let settings = ClientSettings {
        user_agent: user_agent("nodes"),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(30),
    };
    let client = ApiClient::new(
        steersman_client::connect(&loaded)?,
        settings,
        ClientMetrics::register(&Registry::new())?,
    );

    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    tokio::select! {
        started = nodes::start(config, client, Clock::system(), &tasks, &stop) => started?,
        () = signals.next() => return Ok(()),
    }
    say!(
        "{} simulated nodes, named {}0 and so on, at {}",
        args.count,
        args.prefix,
        steersman_client::host(&loaded)
    );
    signals.next().await;
    stop.cancel();
    tokio::select! {
        () = tasks.join(Duration::from_secs(5)) => {}
        // A second signal skips the wait.
        () = signals.next() => {}
    }
    Ok(())
}

fn stages(path: PathBuf) -> Result<Stages, NodesCommandError> {
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            Stages::with(&text).map_err(|source| NodesCommandError::Stages { path, source })
        }
        Err(source) => Err(NodesCommandError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <NodesArgs as clap::CommandFactory>::command().debug_assert();
    }
}
