//! `steersman shadow`: runs all controllers beside the present manager of a cluster, without a write.
//!
//! controllers -> [`HeldWrite`] -> [`ledger`] <- look-ups of the live objects ([`watcher`]); a write that
//! nobody makes within the grace time -> [`report`]
//!
//! - No write is sent: the connection refuses everything but reads and harmless reviews
//!   (`steersman_client::HttpService::holding_back`). Events and Leases are no exception.
//! - A refused write fails as [`steersman_client::ApiError::Fenced`]. So controllers behave as at the
//!   end of a term of leadership, and try again after three seconds for as long as they want it.
//! - When the present manager has a new leader, all controllers start anew, as they do there.
//! - `docs/shadow.md` tells how writes are compared.

mod compare;
mod context;
mod ledger;
mod look;
mod postpone;
mod present;
mod refusals;
mod report;
mod watcher;
mod write;

use parking_lot::Mutex;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use steersman_client::{ApiClient, ClientMetrics, ClientSettings, HeldWrite, user_agent};
use steersman_options::duration::GoDuration;
use steersman_runtime::panics;
use steersman_runtime::tasks::CancellationToken;
use steersman_values::clock::Clock;
use tokio::time::{Instant, sleep_until};

use crate::api::Connection;
use crate::beside::{self, Output};
use crate::command_line::Options;
use crate::config::{Config, join_errors};
use crate::follow::{self, Reports, Settle};
use crate::limits;
use crate::logs::{self, LogFormat};
use crate::manager::{Manager, RunError};
use crate::registry::ControllerRegistry;
use crate::signals::Signals;

use context::{Context, Origins};
use ledger::Ledger;
use present::Present;
use watcher::Watcher;
use write::Write;

/// The command's summary in the list of commands.
pub(crate) const ABOUT: &str =
    "Runs the controllers beside the present manager, and shows the writes that differ.";

const HELP: &str = "\
Runs all controllers against a cluster beside its present manager, and sends none of their writes.
Shows each write that the present manager does not make within the grace time. A cluster at rest
shows nothing. Takes the flags of the manager too; leader election and the HTTPS port are off.

Usage: steersman shadow [flags] [flags of the manager]

      --for duration     end after this time; exit 1 if a write differed or could
                             not be compared for want of a right, else 0. Without it, run until a signal
      --grace duration   time for the present manager to make a write (default 30s)
  -o, --output string    text or json: one line for each difference, and one for the summary (default \"text\")
  -h, --help             print help, exit 0
";

/// Default of `--grace`.
const GRACE: Duration = Duration::from_secs(30);
/// Time limit of a look-up.
const LOOK_UP: Duration = Duration::from_secs(20);
/// Time limit for controllers to stop after the end of the comparison.
const STOP: &str = "5s";

/// The errors that end a shadow manager early.
#[derive(Debug, thiserror::Error)]
enum ShadowError {
    #[error("{0}")]
    Config(String),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("listen to signals: {0}")]
    Signals(#[source] std::io::Error),
    #[error(
        "the controllers did not start within {0}, so nothing was compared; see the log for the cause, and use a longer --for"
    )]
    NotStarted(GoDuration),
    #[error("the manager ended early")]
    Ended,
}

impl From<Settle> for ShadowError {
    fn from(error: Settle) -> Self {
        match error {
            Settle::Config(errors) => Self::Config(join_errors(&errors)),
            Settle::Run(error) => Self::Run(error),
        }
    }
}

/// The own flags of the command.
struct Settings {
    time: Option<Duration>,
    grace: Duration,
    output: Output,
}

/// Runs the subcommand.
pub(crate) fn run(mut arguments: Vec<String>) -> ExitCode {
    panics::install_hook();
    let settings = match settings(&mut arguments) {
        Ok(Some(settings)) => settings,
        Ok(None) => return crate::command::print(HELP),
        Err(error) => return beside::fail(error),
    };
    let options = match beside::manager_options(arguments) {
        Ok(Some(options)) => options,
        Ok(None) => return crate::command::print(HELP),
        Err(error) => return beside::fail(error),
    };
    // The log must not be mixed with the report, so it has warnings and errors only by default.
    let verbosity = match options.int("v") {
        0 => logs::WARNINGS_ONLY,
        verbosity => verbosity,
    };
    let format = LogFormat::from_flag(&options.text("logging-format")).unwrap_or(LogFormat::Text);
    logs::init_over(Origins::layer(), format, verbosity);
    limits::raise_open_files();
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return beside::fail(format!("cannot start threads: {error}")),
    };
    let outcome = runtime.block_on(shadow(options, &settings));
    runtime.shutdown_timeout(Duration::ZERO);
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => beside::fail(error),
    }
}

/// Takes the command's own flags out of `arguments`; `None` if they ask for help.
fn settings(arguments: &mut Vec<String>) -> Result<Option<Settings>, String> {
    if beside::asks_for_help(arguments) {
        return Ok(None);
    }
    let duration = |arguments: &mut Vec<String>, flag: &str| {
        let Some(text) = beside::take(arguments, &[flag])? else {
            return Ok(None);
        };
        let duration: GoDuration = text
            .parse()
            .map_err(|error| format!("{flag}={text}: {error}"))?;
        if duration <= GoDuration::default() {
            return Err(format!("{flag}={text}: must be greater than zero"));
        }
        Ok(Some(duration.to_std()))
    };
    let time = duration(arguments, "--for")?;
    let grace = duration(arguments, "--grace")?.unwrap_or(GRACE);
    if time.is_some_and(|time| time <= grace) {
        return Err("--for must be longer than --grace, or no write can be reported".to_owned());
    }
    let output = Output::take(arguments)?;
    Ok(Some(Settings {
        time,
        grace,
        output,
    }))
}

/// The flags with which a manager only watches: no Lease, no port, no tokens of its own, and no end
/// because of writes without an answer.
fn only_watching(mut options: Options) -> Result<Config, ShadowError> {
    for (flag, value) in [
        ("leader-elect", "false"),
        ("secure-port", "0"),
        ("use-service-account-credentials", "false"),
        ("stall-timeout", "0s"),
        ("controller-shutdown-timeout", STOP),
    ] {
        options
            .set(flag, value)
            .map_err(|error| ShadowError::Config(error.to_string()))?;
    }
    Config::new(options, &ControllerRegistry::builtin())
        .map_err(|errors| ShadowError::Config(join_errors(&errors)))
}

/// Runs until the time is over or a signal arrives. Returns the number of differences.
async fn shadow(options: Options, settings: &Settings) -> Result<u64, ShadowError> {
    let mut signals = Signals::listen_on_terminal().map_err(ShadowError::Signals)?;
    let present = Present::of_lease(
        &options.text("leader-elect-resource-namespace"),
        &options.text("leader-elect-resource-name"),
    );
    let config = only_watching(options)?;
    let connection = Connection::from_config(&config)?;
    let reports = Reports::default();
    let config = follow::settle(config, &connection, &reports).await?;
    let ledger = Arc::new(Mutex::new(Ledger::new(settings.grace)));
    let mut connection = Connection::from_config(&config)?;
    // Look-ups are reads. They pass the same door all the same.
    let reads = connection.client.clone().holding_back(Arc::new(|_| {}));
    connection.hold_back(&holder(&ledger));
    let client_settings = ClientSettings {
        user_agent: user_agent("shadow"),
        qps: 0.0,
        burst: 0,
        timeout: LOOK_UP,
    };
    let metrics = ClientMetrics::register(&prometheus::Registry::new())?;
    let client = ApiClient::new(reads, client_settings, metrics);
    let mut watcher = Watcher::new(client, present, ledger, settings.output);
    let began = Instant::now();
    let end = settings.time.map(|time| began + time);
    while let Ended::NewLeader = term(
        &config,
        &connection,
        &reports,
        &mut watcher,
        &mut signals,
        end,
    )
    .await?
    {
        complain!("The present manager has a new leader. The controllers start anew.");
    }
    watcher.finish(began.elapsed())
}

/// Why the controllers ended.
enum Ended {
    /// The time is over, or a signal arrived.
    Over,
    /// The present manager starts its controllers anew.
    NewLeader,
}

/// Runs the controllers from one start of the present manager to the next.
async fn term(
    config: &Config,
    connection: &Connection,
    reports: &Reports,
    watcher: &mut Watcher,
    signals: &mut Signals,
    end: Option<Instant>,
) -> Result<Ended, ShadowError> {
    let manager = Manager::new(config.clone(), connection.clone(), Clock::system())?;
    let manager = manager.with_reports(reports);
    let progress = manager.progress();
    let stop = CancellationToken::new();
    let mut running = std::pin::pin!(manager.run(stop.clone()));
    let ended = tokio::select! {
        ended = &mut running => return Err(ended.err().map_or(ShadowError::Ended, ShadowError::from)),
        () = watcher.watch(&progress) => Ended::NewLeader,
        () = at(end) => Ended::Over,
        () = signals.next() => Ended::Over,
    };
    watcher.has_started |= progress.is_working();
    stop.cancel();
    tokio::select! {
        stopped = &mut running => stopped.map(|()| ended).map_err(ShadowError::from),
        () = signals.next() => Ok(Ended::Over),
    }
}

async fn at(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// The function that receives held writes.
fn holder(ledger: &Arc<Mutex<Ledger>>) -> Arc<dyn Fn(HeldWrite) + Send + Sync> {
    let ledger = Arc::clone(ledger);
    Arc::new(move |held: HeldWrite| {
        let write = Write::read(&held, Context::current(&held.client));
        let mut ledger = ledger.lock();
        ledger.held += 1;
        if let Some(write) = write {
            tracing::debug!(
                verb = write.verb.as_str(),
                object = write.object(),
                "write held back"
            );
            ledger.sent(Instant::now(), write);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_flags_are_taken_from_those_of_the_manager() {
        let read = |line: &str| {
            let mut arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            settings(&mut arguments).map(|found| {
                let found =
                    found.map(|s| (s.time.map(|t| t.as_secs()), s.grace.as_secs(), s.output));
                (found, arguments.join(" "))
            })
        };
        let cases = [
            ("--v=2", Ok((Some((None, 30, Output::Text)), "--v=2"))),
            (
                "--for 10m --kubeconfig k --grace=1m -o json",
                Ok((Some((Some(600), 60, Output::Json)), "--kubeconfig k")),
            ),
            ("--for=1m -h", Ok((None, "--for=1m -h"))),
            (
                "--for=20s",
                Err("--for must be longer than --grace, or no write can be reported"),
            ),
            ("--for", Err("flag needs an argument: --for")),
            ("--grace=0s", Err("--grace=0s: must be greater than zero")),
            (
                "-o=yaml",
                Err("--output: \"yaml\" is neither text nor json"),
            ),
        ];
        for (line, expected) in cases {
            let expected = expected
                .map(|(found, rest)| (found, rest.to_owned()))
                .map_err(str::to_owned);
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn a_shadow_has_no_lease_no_port_and_no_tokens() {
        let mut options = Options::default();
        options
            .set("use-service-account-credentials", "true")
            .unwrap();
        let config = only_watching(options).unwrap();
        assert!(config.election.is_none() && config.serving.is_none());
        assert!(!config.service_account_credentials && config.stall_timeout.is_none());
    }
}
