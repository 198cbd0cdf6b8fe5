//! `steersman apiserver`: the embedded cluster, for tests in any language.
//!
//! start -> a line of JSON on standard output when ready -> a signal, or the end of the parent ->
//! exit 0
//!
//! It ends with its parent process, so that an aborted test run leaves no server behind.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use jiff::Timestamp;
use serde::Serialize;
use steersman_devcluster::DevCluster;
use steersman_devcluster::bootstrap::BootstrapToken;
use steersman_devcluster::manifests::{Manifest, ManifestError};
use steersman_devcluster::nodes::Latency;

use steersman_options::duration::GoDuration;
use steersman_values::clock::Clock;

use super::control::{Access, Control};
use super::embedded::{Embedded, EmbeddedArgs, EmbeddedError, Front, manager_config};
use super::playground::say_warnings;
use super::{Threads, duration, parent};
use crate::config::Config;
use crate::signals::Signals;

/// Starts a Kubernetes API server with simulated nodes and controllers, for tests in any language.
///
/// When everything is ready, one line of JSON goes to standard output: url, kubeconfig (a file), pid,
/// and bootstrapToken if the bootstrap signer runs. Then it runs until it gets SIGTERM or SIGINT, or until the process that started it has
/// ended. Nothing is left behind.
#[derive(Debug, Parser)]
#[command(
    name = "steersman apiserver",
    bin_name = "steersman apiserver",
    disable_version_flag = true
)]
struct ApiServerArgs {
    #[command(flatten)]
    embedded: EmbeddedArgs,
    /// Controllers to run, as the manager's flag of that name takes them: `*`, `*,-podgc`,
    /// `deployment,replicaset`, or nothing.
    #[arg(
        long,
        default_value = "*",
        value_name = "LIST",
        allow_hyphen_values = true
    )]
    controllers: String,
    /// How long a simulated pod takes to get ready, and to end: a duration such as 500ms.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    latency: GoDuration,
    /// Open the control interface: faults, the request log, snapshots and forks over HTTP. The ready
    /// line has its address.
    #[arg(long)]
    control: bool,
    /// Go on when the process that started it has ended.
    #[arg(long)]
    outlive_parent: bool,
    /// Further flags of the manager, after `--`: `-- -v=2`.
    #[arg(last = true, value_name = "MANAGER FLAGS")]
    manager: Vec<String>,
}

/// The errors that end `steersman apiserver`.
#[derive(Debug, thiserror::Error)]
enum ApiServerError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    #[error("open the control interface: {0}")]
    Control(#[source] std::io::Error),
    #[error("listen to signals: {0}")]
    Signals(#[source] std::io::Error),
    #[error("write the ready line to standard output: {0}")]
    Ready(#[source] std::io::Error),
}

/// The line that is printed when everything is ready.
#[derive(Serialize)]
struct Ready<'a> {
    url: String,
    kubeconfig: &'a Path,
    pid: u32,
    /// With it nodes join; absent if the bootstrap signer does not run.
    #[serde(rename = "bootstrapToken", skip_serializing_if = "Option::is_none")]
    bootstrap_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<Access<'a>>,
}

/// Number of latest requests that the control interface shows.
const KEPT_REQUESTS: usize = 10_000;

/// The arguments of the subcommand.
pub(super) fn arguments() -> clap::Command {
    ApiServerArgs::command()
}

/// Runs the subcommand, and returns its exit code.
pub(super) fn run(arguments: Vec<String>) -> ExitCode {
    let args: ApiServerArgs = match super::parse("apiserver", arguments) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let flags = [
        vec![format!("--controllers={}", args.controllers)],
        args.manager.clone(),
    ]
    .concat();
    match manager_config(&args.embedded, &flags) {
        Ok((config, verbosity)) => {
            // Only the time of a runtime with one thread can stop and jump.
            let threads = if args.control {
                Threads::One
            } else {
                Threads::Many
            };
            super::finish_on(threads, verbosity, serve(args, config))
        }
        Err(message) => super::fail(message),
    }
}

/// Runs the cluster until a signal, the end of the parent process, or an error.
async fn serve(args: ApiServerArgs, config: Config) -> Result<(), ApiServerError> {
    let parent_gone = parent::gone();
    let mut signals = Signals::listen_on_terminal().map_err(ApiServerError::Signals)?;
    let asked_to_end = async {
        tokio::select! {
            () = signals.next() => {}
            () = parent_gone, if !args.outlive_parent => {}
        }
    };
    let manifests = args.embedded.manifests()?;
    let mut front = Front::on_port(args.embedded.port);
    if args.control {
        front.clock = Clock::runtime(Timestamp::now());
        front.kept_requests = KEPT_REQUESTS;
    }
    let latency = Latency::total(args.latency.to_std());
    let mut embedded = Embedded::start_behind(front, &args.embedded, latency, config).await?;
    let control = if args.control {
        let started = Control::start(embedded.cluster.clone(), embedded.recipe.clone());
        Some(started.await.map_err(ApiServerError::Control)?)
    } else {
        None
    };
    let ready = Ready {
        url: embedded.door.url(),
        kubeconfig: embedded.kubeconfig.path(),
        pid: std::process::id(),
        bootstrap_token: embedded.bootstrap_token.as_ref().map(BootstrapToken::text),
        control: control.as_ref().map(Control::access),
    };
    let ready =
        serde_json::to_string(&ready).map_err(|error| ApiServerError::Ready(error.into()))?;
    let cluster = embedded.cluster.clone();
    let ended = tokio::select! {
        error = embedded.manager_ended() => Err(EmbeddedError::from(error).into()),
        ended = prepare(&cluster, &manifests, &ready) => ended,
        () = asked_to_end => Ok(()),
    };
    // A second signal skips the wait for requests in progress.
    tokio::select! {
        () = embedded.end() => {}
        () = signals.next() => {}
    }
    ended
}

/// Applies the manifests, prints the ready line, and then waits for ever.
async fn prepare(
    cluster: &DevCluster,
    manifests: &[Manifest],
    ready: &str,
) -> Result<(), ApiServerError> {
    for manifest in manifests {
        let warnings = manifest.apply(cluster).await?;
        say_warnings(manifest, &warnings, |line| complain!("{line}"));
    }
    writeln!(std::io::stdout(), "{ready}").map_err(ApiServerError::Ready)?;
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <ApiServerArgs as clap::CommandFactory>::command().debug_assert();
        let parse = |arguments: &[&str]| {
            ApiServerArgs::try_parse_from([&["apiserver"], arguments].concat()).unwrap()
        };
        assert_eq!(
            parse(&["--controllers", "-podgc,*"]).controllers,
            "-podgc,*"
        );
        assert_eq!(parse(&["--controllers="]).controllers, "");
        let flags = ["--controllers=".to_owned()];
        let (config, _) = manager_config(&parse(&[]).embedded, &flags).unwrap();
        assert!(config.controllers.enabled.is_empty());
    }
}
