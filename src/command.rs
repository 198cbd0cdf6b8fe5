//! From command-line arguments to the exit status of the process.
//!
//! arguments -> `Options` -> logs -> [`Config`] -> `Connection` -> [`Manager`] -> exit status
//!
//! Every failure is printed or logged here, once, with upstream's words where it has them.
//! Upstream: `NewControllerManagerCommand` in `cmd/kube-controller-manager/app`.

use std::process::ExitCode;
use std::time::Duration;

use steersman_runtime::panics;
use steersman_runtime::tasks::CancellationToken;
use steersman_values::clock::Clock;
use tokio::runtime::{Builder, Runtime};

use crate::api::Connection;
use crate::command_line::{self, Command, Options};
use crate::config::{Config, ConfigError, join_errors};
use crate::follow::{self, Reports, Settle};
use crate::logs::{self, LogFormat, Verbosity};
use crate::manager::{Manager, RunError};
use crate::registry::ControllerRegistry;
use crate::server::ServerThread;
use crate::signals::Signals;
use crate::spans::Spans;
use crate::version;
use crate::{heap, help, limits};

/// Runs the command in `arguments` (without the program's name), with the controllers of
/// `registry`, until it completes or a signal arrives. Errors have been written to standard error
/// when this returns.
pub fn run(arguments: Vec<String>, registry: ControllerRegistry) -> ExitCode {
    run_beside(arguments, registry, &[])
}

/// As [`run`], for a program with subcommands; `commands` are their names and summaries for the
/// help text.
pub(crate) fn run_beside(
    arguments: Vec<String>,
    registry: ControllerRegistry,
    commands: &[(&str, &str)],
) -> ExitCode {
    panics::install_hook();
    match command_line::parse(arguments, |line| complain!("{line}")) {
        Ok(Command::Help(release)) => print(&help::help(
            release,
            &registry,
            commands,
            help::columns(std::io::stdout()),
        )),
        Ok(Command::Version(text)) => print(&format!("{text}\n")),
        Ok(Command::Run(options)) => manage(*options, &registry),
        Err(error) => {
            if error.show_usage {
                let columns = help::columns(std::io::stderr());
                complain!("{}", help::usage(&registry, commands, columns));
            }
            complain!("Error: {error}");
            if let Some(flag) = error.suggestion {
                complain!("Did you mean --{flag}?");
            }
            ExitCode::FAILURE
        }
    }
}

/// Prints to standard output. A closed pipe (`--help | head`) is no failure.
pub(crate) fn print(text: &str) -> ExitCode {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// The format of `--logging-format`; text if an error comes before it.
fn log_format(options: &Options, has_logs: bool) -> LogFormat {
    if !has_logs {
        return LogFormat::Text;
    }
    LogFormat::from_flag(&options.text("logging-format")).unwrap_or(LogFormat::Text)
}

/// Runs the manager with these options until it ends.
fn manage(options: Options, registry: &ControllerRegistry) -> ExitCode {
    let config = Config::new(options.clone(), registry);
    // Upstream checks feature gates and logs first, and sets up logs before all other checks.
    let errors = config.as_ref().err().map_or(&[][..], Vec::as_slice);
    let has_logs = !errors.iter().any(ConfigError::precedes_logs);
    let format = log_format(&options, has_logs);
    let verbosity = options.int("v");
    // Tasks on one thread wake each other without a system call; see docs/decisions/0008.
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            logs::init(LogFormat::Text, 0, None);
            tracing::error!(err = %error, "cannot start threads");
            return ExitCode::FAILURE;
        }
    };
    let spans = {
        let _inside = runtime.enter();
        Spans::from_options(&options)
    };
    let is_split = match format {
        LogFormat::Text => options.bool("log-text-split-stream"),
        LogFormat::Json => options.bool("log-json-split-stream"),
    };
    let init = if is_split && has_logs {
        logs::init_split
    } else {
        logs::init
    };
    let log = init(
        format,
        verbosity,
        spans.as_ref().ok().and_then(Option::as_ref),
    );
    if let Err(error) = &spans {
        tracing::error!(%error, "cannot start tracing; no spans are exported");
    }
    if has_logs && verbosity >= 1 {
        for (name, value) in options.iter() {
            tracing::info!(target: logs::PLAIN, "FLAG: --{name}={value:?}");
        }
    }
    let config = match config {
        Ok(config) => config,
        Err(errors) => return refuse(&errors),
    };
    if let Some(reason) = nothing_to_run(&config) {
        tracing::error!(err = reason, "command failed");
        return ExitCode::FAILURE;
    }
    limits::raise_open_files();
    tracing::info!(
        version = version::GIT_VERSION,
        steersman = version::STEERSMAN,
        "Starting"
    );
    warn(&config);
    let server = match config
        .serving
        .as_ref()
        .map(|_| ServerThread::start())
        .transpose()
    {
        Ok(server) => server,
        Err(error) => {
            tracing::error!(err = %error, "cannot start the thread of the HTTPS server");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(serve(config, log, &runtime, server.as_ref()));
    if let Ok(Some(spans)) = spans {
        // The runtime has to run meanwhile, because it drives the connection to the collector.
        let ended = runtime.block_on(runtime.spawn_blocking(|| spans.end()));
        if let Err(error) = ended {
            tracing::warn!(%error, "the export of spans panicked");
        }
    }
    // A blocking call, such as a DNS look-up, must not delay the exit.
    runtime.shutdown_timeout(Duration::ZERO);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Settle::Config(errors)) => refuse(&errors),
        Err(Settle::Run(error)) => {
            match &error {
                RunError::LeaseLost => tracing::error!("leaderelection lost"),
                RunError::Election(reason) => complain!("panic: {reason}"),
                other => tracing::error!(err = describe(other), "command failed"),
            }
            ExitCode::from(error.exit_code())
        }
    }
}

/// Logs the errors of a configuration.
fn refuse(errors: &[ConfigError]) -> ExitCode {
    for (information, warning) in errors.iter().filter_map(ConfigError::advice) {
        tracing::info!("{information}");
        tracing::warn!("{warning}");
    }
    tracing::error!(err = join_errors(errors), "command failed");
    ExitCode::FAILURE
}

/// Logs warnings about flags that the followed release lacks.
fn warn_of_flags(config: &Config) {
    let release = config.features.releases.emulated;
    let lacks = |name: &&str| !release.has_flag(name);
    for flag in config.options().given().filter(lacks) {
        tracing::warn!(
            "--{flag} is no flag of kube-controller-manager {release}, which would refuse it"
        );
    }
}

/// Logs warnings about settings that have no effect, or a surprising one.
fn warn(config: &Config) {
    config.features.warn();
    if !config.without_effect.is_empty() {
        tracing::warn!(
            names = config.without_effect.join(" "),
            "these are accepted but have no effect yet"
        );
    }
    for (flag, workers) in &config.without_workers {
        tracing::warn!(
            "--{flag}={workers}: the controller runs without workers, so it does nothing"
        );
    }
    if config.options().list("controllers").is_empty() {
        tracing::warn!("--controllers is empty, so no controller runs");
    }
}

/// The error if `--controllers` has items but selects no controller. An empty list is valid, as in
/// upstream.
fn nothing_to_run(config: &Config) -> Option<String> {
    let list = config.options().list("controllers").join(",");
    if list.is_empty() {
        return None;
    }
    let reason = config.controllers.nothing_to_run()?;
    Some(format!(
        "--controllers={list} leaves no controller to run: {reason}"
    ))
}

/// The text of an error and of its sources, without repetitions. Many foreign errors omit their
/// source.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        cause = error.source();
    }
    text
}

/// Connects to the API server, and runs the manager until a signal or an error. A change of the
/// server's release ends the manager in order, and starts another one.
async fn serve(
    mut config: Config,
    log: Verbosity,
    runtime: &Runtime,
    server: Option<&ServerThread>,
) -> Result<(), Settle> {
    let stop = CancellationToken::new();
    // Before the spawn: the task runs at the first pause of the start-up. The kernel ignores a
    // SIGTERM for process 1 of a container that does not listen yet.
    match Signals::listen() {
        Ok(signals) => drop(runtime.spawn(stop_at_signal(signals, stop.clone()))),
        Err(error) => tracing::error!(%error, "cannot listen to signals; they end the process"),
    }
    drop(runtime.spawn(heap::release_regularly()));
    let connection = Connection::from_config(&config)?;
    let serving = server.map_or(runtime.handle(), ServerThread::runtime);
    let assumed = config.features.releases;
    let reports = Reports::default();
    config = tokio::select! {
        settled = follow::settle(config, &connection, &reports) => settled?,
        () = stop.cancelled() => return Ok(()),
    };
    if config.features.releases != assumed {
        warn(&config);
    }
    // Only the API server tells the release.
    warn_of_flags(&config);
    loop {
        if let Some(reason) = nothing_to_run(&config) {
            return Err(RunError::NothingToRun(reason).into());
        }
        let manager =
            Manager::serving_on(serving, config.clone(), connection.clone(), Clock::system())?;
        let manager = manager.with_verbosity(log.clone()).with_reports(&reports);
        match manager.run(stop.clone()).await {
            Err(RunError::ReleaseChanged(release)) => {
                config = config.following(release).map_err(Settle::Config)?;
                warn(&config);
                warn_of_flags(&config);
            }
            ended => return ended.map_err(Settle::Run),
        }
    }
}

/// Stops the manager at the first SIGTERM or SIGINT, and ends the process at the second one.
async fn stop_at_signal(mut signals: Signals, stop: CancellationToken) {
    signals.next().await;
    tracing::info!("received a signal, stopping; a second one ends the process at once");
    stop.cancel();
    signals.next().await;
    tracing::error!("received a second signal");
    std::process::exit(1);
}
