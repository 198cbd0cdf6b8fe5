//! The command line from arguments to exit status.

use std::process::ExitCode;
use std::time::Duration;

use steersman_runtime::clock::Clock;
use steersman_runtime::tasks::CancellationToken;
use tokio::runtime::{Builder, Runtime};

use crate::api::Connection;
use crate::config::{Config, join_errors};
use crate::limits;
use crate::logs::{self, LogFormat, Verbosity};
use crate::manager::{Manager, RunError};
use crate::options::{self, Command, Options};
use crate::registry::ControllerRegistry;
use crate::signals::Signals;
use crate::spans::Spans;
use crate::version;

/// Does what `arguments` (without the program's name) ask for, with the controllers of `registry`, until it is done or a signal
/// comes. Everything that goes wrong has been said on standard error when this returns.
pub fn run(arguments: Vec<String>, registry: ControllerRegistry) -> ExitCode {
    match options::parse(arguments, |line| eprintln!("{line}")) {
        Ok(Command::Help) => print(&options::help(&registry)),
        Ok(Command::Version(text)) => print(&format!("{text}\n")),
        Ok(Command::Run(options)) => manage(*options, &registry),
        Err(error) => {
            if error.show_usage {
                eprintln!("{}", options::usage(&registry));
            }
            eprintln!("Error: {error}");
            if let Some(flag) = error.suggestion {
                eprintln!("Did you mean --{flag}?");
            }
            ExitCode::FAILURE
        }
    }
}

/// A reader that has seen enough (`--help | head`) is no failure.
fn print(text: &str) -> ExitCode {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn manage(options: Options, registry: &ControllerRegistry) -> ExitCode {
    // An unknown format is reported below with everything else that is wrong, as text.
    let format = LogFormat::from_flag(&options.text("logging-format")).unwrap_or(LogFormat::Text);
    let verbosity = options.int("v");
    // Work comes in small pieces; more threads would only cost memory on large machines.
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(4));
    let runtime = match Builder::new_multi_thread().worker_threads(threads).enable_all().thread_name("steersman").build() {
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
    let log = logs::init(format, verbosity, spans.as_ref().ok().and_then(Option::as_ref));
    if let Err(error) = &spans {
        tracing::error!(%error, "there will be no traces");
    }
    if verbosity >= 1 {
        for (name, value) in options.iter() {
            tracing::info!(target: logs::PLAIN, "FLAG: --{name}={value:?}");
        }
    }
    let config = match Config::new(options, registry) {
        Ok(config) => config,
        Err(errors) => {
            tracing::error!(err = join_errors(&errors), "command failed");
            return ExitCode::FAILURE;
        }
    };
    limits::raise_open_files();
    tracing::info!(version = version::GIT_VERSION, steersman = version::STEERSMAN, "Starting");
    config.features.warn();
    if !config.without_effect.is_empty() {
        tracing::warn!(names = config.without_effect.join(" "), "these are accepted but have no effect yet");
    }
    let ended = runtime.block_on(serve(config, log, &runtime));
    if let Ok(Some(spans)) = spans {
        spans.end();
    }
    // Whatever still blocks a thread, such as the look-up of a name, must not hold up the exit.
    runtime.shutdown_timeout(Duration::ZERO);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            match &error {
                RunError::LeaseLost => tracing::error!("leaderelection lost"),
                RunError::Election(reason) => eprintln!("panic: {reason}"),
                other => tracing::error!(err = describe(other), "command failed"),
            }
            ExitCode::from(error.exit_code())
        }
    }
}

/// The error with those of its causes that its own text leaves out; foreign errors often do.
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

async fn serve(config: Config, log: Verbosity, runtime: &Runtime) -> Result<(), RunError> {
    let stop = CancellationToken::new();
    runtime.spawn(signals(stop.clone()));
    let connection = Connection::from_config(&config)?;
    Manager::new(config, connection, Clock::system())?.with_verbosity(log).run(stop).await
}

/// The first SIGTERM or SIGINT asks to stop; a second one does not ask.
async fn signals(stop: CancellationToken) -> std::io::Result<()> {
    let mut signals = Signals::listen()?;
    signals.next().await;
    tracing::info!("received a signal, stopping; a second one ends the process at once");
    stop.cancel();
    signals.next().await;
    tracing::error!("received a second signal");
    std::process::exit(1);
}
