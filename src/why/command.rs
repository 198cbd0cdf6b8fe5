//! `steersman why`, and `kubectl why` for a program called `kubectl-why`.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use jiff::Timestamp;
use prometheus::Registry;
use steersman_client::{ApiClient, ApiError, ClientMetrics, ClientSettings, user_agent};
use steersman_controllers::why::ask;
use steersman_why::{ClientReader, Question, Report};

use crate::leader::{self, Caller, Leader, ManagerFlags};

/// Exit codes.
const MOVES: u8 = 0;
const STUCK: u8 = 1;
const FAILED: u8 = 2;

/// Time limit of one attempt of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Throttle: an answer rests on a few dozen objects, read at once.
const QPS: f32 = 50.0;
const BURST: u32 = 100;
/// Pause between two answers of `--watch`.
const PAUSE: Duration = Duration::from_secs(2);

/// Says why an object does not move. Without an object: all that stands still.
#[derive(Debug, Parser)]
#[command(
    disable_version_flag = true,
    after_help = "Exit codes: 0 nothing is stuck, 1 stuck, 2 error."
)]
struct Args {
    /// KIND/NAME, or KIND NAME.
    #[arg(num_args = 0..=2, value_name = "KIND/NAME")]
    object: Vec<String>,
    /// Namespace of the object, or of the list.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Lists all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Output: text, json or yaml.
    #[arg(short, long, default_value = "text", value_parser = ["text", "json", "yaml"])]
    output: String,
    /// Repeats the answer when it changes.
    #[arg(short, long)]
    watch: bool,
    /// Kubeconfig file; by default as kubectl.
    #[arg(long)]
    kubeconfig: Option<String>,
    #[command(flatten)]
    manager: ManagerFlags,
    /// Answers from API objects alone, without the leader.
    #[arg(long)]
    objects_only: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: Vec<String>) -> ExitCode {
    let program = std::iter::once("steersman why".to_owned());
    let args = match Args::try_parse_from(program.chain(arguments)) {
        Ok(args) => args,
        Err(error) => {
            // Fails only if the output is closed.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { FAILED } else { MOVES });
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("cannot start threads: {error}")),
    };
    match runtime.block_on(answer(&args)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => failed(&error),
    }
}

fn failed(error: &str) -> ExitCode {
    complain!("Error: {error}");
    ExitCode::from(FAILED)
}

async fn answer(args: &Args) -> Result<u8, String> {
    let path = args.kubeconfig.as_deref().map(Path::new);
    let config =
        steersman_client::load_config_as_kubectl(path).map_err(|error| error.to_string())?;
    let question = question(args, &config.default_namespace)?;
    let metrics = ClientMetrics::register(&Registry::new()).map_err(|error| error.to_string())?;
    let service = steersman_client::connect(&config).map_err(|error| error.to_string())?;
    let settings = ClientSettings {
        user_agent: user_agent("why"),
        qps: QPS,
        burst: BURST,
        timeout: TIMEOUT,
    };
    let api = ApiClient::new(service, settings, metrics);
    let caller = Caller {
        api: &api,
        config: &config,
        kubeconfig: args.kubeconfig.as_deref(),
        command: "why",
        timeout: TIMEOUT,
        kubectl: leader::kubectl(),
    };
    let leader = if args.objects_only {
        None
    } else {
        let reached = Leader::reach(&caller, &args.manager).await;
        reached.map_err(|why| unanswered(&why)).ok()
    };
    let mut last = String::new();
    loop {
        let report = report(&api, leader.as_ref(), &question).await?;
        let text = rendered(&report, &args.output)?;
        if text != last {
            // Fails only if the output is closed.
            let _ = std::io::stdout().write_all(text.as_bytes());
        }
        if !args.watch {
            return Ok(match (report.absent, report.stuck) {
                (true, _) => FAILED,
                (false, true) => STUCK,
                (false, false) => MOVES,
            });
        }
        last = text;
        tokio::time::sleep(PAUSE).await;
    }
}

fn question(args: &Args, default_namespace: &str) -> Result<Question, String> {
    let namespace = args.namespace.as_deref().unwrap_or(default_namespace);
    if args.all_namespaces && !args.object.is_empty() {
        return Err("-A is for lists; an object has one namespace (-n)".to_owned());
    }
    match &args.object[..] {
        [] if args.all_namespaces || args.namespace.is_none() => Ok(Question::All {
            namespace: String::new(),
        }),
        [] => Ok(Question::All {
            namespace: namespace.to_owned(),
        }),
        [one] => match one.split_once('/') {
            Some((kind, name)) => Ok(Question::object(kind, namespace, name)),
            None => Err(format!("{one:?} is no KIND/NAME")),
        },
        [kind, name] => Ok(Question::object(kind, namespace, name)),
        _ => Err("at most one object".to_owned()),
    }
}

/// The answer of the leader, else that from API objects.
async fn report(
    api: &ApiClient,
    leader: Option<&Leader>,
    question: &Question,
) -> Result<Report, String> {
    if let Some(leader) = leader {
        match of_leader(leader, question).await {
            Ok(report) => return Ok(report),
            Err(why) => unanswered(&why),
        }
    }
    // Without any answer of the API server, no object would be seen, and so none stuck.
    if let Err(error @ (ApiError::Transport { .. } | ApiError::Timeout { .. })) =
        api.get_path("/version").await
    {
        return Err(error.to_string());
    }
    let reader = ClientReader::new(api.clone());
    let answer = ask(&reader, Timestamp::now(), None, question).await;
    answer.map_err(|error| error.to_string())
}

async fn of_leader(leader: &Leader, question: &Question) -> Result<Report, String> {
    let body = leader.get(&question.path()).await?;
    let report: Result<Report, _> = serde_json::from_slice(&body);
    let mut report = report.map_err(|error| format!("its answer cannot be read: {error}"))?;
    // A server does not vouch for itself.
    let unverified = leader.unverified();
    report.unverified = unverified.map(|seen| seen.to_string()).unwrap_or_default();
    Ok(report)
}

fn unanswered(why: &str) {
    complain!("The leader cannot be asked: {why}");
}

fn rendered(report: &Report, output: &str) -> Result<String, String> {
    match output {
        "json" => serde_json::to_string_pretty(report)
            .map(|text| text + "\n")
            .map_err(|error| error.to_string()),
        "yaml" => serde_saphyr::to_string(report).map_err(|error| error.to_string()),
        _ => Ok(report.text()),
    }
}
