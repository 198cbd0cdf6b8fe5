//! `steersman check`: finds before a swap of managers the failures after it.
//!
//! flags -> files -> [`look::Facts`] of the cluster -> one function per subject -> [`Finding`]s
//!
//! All checks are pure functions of facts; [`look`] reads the facts. Nothing is written: the connection
//! holds writes back, and reviews store nothing.

mod admission;
mod build;
mod files;
mod finding;
mod lease;
mod look;
mod rights;
mod running;
mod skew;

use std::process::ExitCode;

use jiff::Timestamp;
use steersman_runtime::panics;

use crate::beside::{self, Output};
use crate::command_line::Options;
use crate::config::{Config, ConfigError};
use crate::logs::{self, LogFormat};
use crate::registry::ControllerRegistry;
use crate::{command, limits};

use finding::Finding;
use look::Facts;

/// The command's summary in the list of commands.
pub(crate) const ABOUT: &str =
    "Checks before a swap of managers: flags, files, rights, version, Lease, admission.";

const HELP: &str = "\
Tells before a swap of managers what would fail after it. Takes the flags of the manager. Writes nothing.
Exit 0 if the manager would work, 1 after a failure. Warnings do not change the exit code.

Usage: steersman check [flags] [flags of the manager]

      --running string   manifest of the present manager, file of its /configz, or its https address;
                         without it, its pods in kube-system
  -o, --output string    text or json (default \"text\")
  -h, --help             print help, exit 0
";

/// Runs the subcommand.
pub(crate) fn run(mut arguments: Vec<String>) -> ExitCode {
    panics::install_hook();
    if beside::asks_for_help(&arguments) {
        return command::print(HELP);
    }
    let own = Output::take(&mut arguments)
        .and_then(|output| Ok((output, beside::take(&mut arguments, &["--running"])?)));
    let (output, running) = match own {
        Ok(own) => own,
        Err(error) => return beside::fail(error),
    };
    let findings = match beside::manager_options(arguments) {
        Ok(Some(options)) => of_options(options, running.as_deref()),
        Ok(None) => return command::print(HELP),
        Err(error) => Ok(vec![Finding::failure("flags", error, "correct the flag")]),
    };
    let findings = match findings {
        Ok(findings) => findings,
        Err(error) => return beside::fail(error),
    };
    match output {
        Output::Text => say!("{}", finding::text(&findings).trim_end()),
        Output::Json => say!("{}", finding::json(&findings)),
    }
    if finding::has_failed(&findings) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// The findings about a manager with these options.
fn of_options(options: Options, running: Option<&str>) -> Result<Vec<Finding>, String> {
    let verbosity = match options.int("v") {
        0 => logs::ERRORS_ONLY,
        verbosity => verbosity,
    };
    logs::init(LogFormat::Text, verbosity, None);
    limits::raise_open_files();
    let config = match Config::new(options, &ControllerRegistry::builtin()) {
        Ok(config) => config,
        Err(errors) => return Ok(refused(&errors)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start threads: {error}"))?;
    let findings = runtime.block_on(async {
        let mut findings = flags(&config);
        findings.extend(build::check(&config));
        match look::connect(&config) {
            Err(finding) => findings.push(finding),
            Ok(reader) => match reader.look(&config, running).await {
                Err(finding) => findings.push(finding),
                Ok(facts) => findings.extend(of_facts(&config, &facts, Timestamp::now())),
            },
        }
        findings
    });
    runtime.shutdown_timeout(std::time::Duration::ZERO);
    Ok(findings)
}

fn refused(errors: &[ConfigError]) -> Vec<Finding> {
    let finding =
        |error: &ConfigError| Finding::failure("flags", error.to_string(), "correct the flag");
    errors.iter().map(finding).collect()
}

/// The findings about flags that are valid each for itself.
fn flags(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let list = config.options().list("controllers");
    let nothing = config.controllers.nothing_to_run();
    if let Some(reason) = nothing.filter(|_| !list.is_empty()) {
        findings.push(Finding::failure(
            "flags",
            format!(
                "--controllers={} leaves no controller to run: {reason}",
                list.join(",")
            ),
            "name a controller of this program",
        ));
    }
    if list.is_empty() {
        findings.push(Finding::warning(
            "flags",
            "--controllers is empty, so no controller runs",
            "name controllers, or *",
        ));
    }
    if !config.without_effect.is_empty() {
        findings.push(Finding::warning(
            "flags",
            format!(
                "accepted without effect: {}",
                config.without_effect.join(" ")
            ),
            "docs/reference.md tells what each would do upstream",
        ));
    }
    for (flag, workers) in &config.without_workers {
        findings.push(Finding::warning(
            "flags",
            format!("--{flag}={workers}: the controller would do nothing"),
            "set a number above zero",
        ));
    }
    if findings.is_empty() {
        let count =
            config.controllers.enabled.len() + usize::from(config.controllers.tokens.is_some());
        findings.push(Finding::ok(
            "flags",
            format!("all flags are valid; {count} controllers are on"),
        ));
    }
    findings
}

/// The findings about the cluster.
fn of_facts(config: &Config, facts: &Facts, now: Timestamp) -> Vec<Finding> {
    let mut findings = vec![skew::check(config, &facts.version)];
    findings.extend(rights::check(&rights::needed(config), &facts.answers));
    findings.extend(of_keys(config, facts, now));
    findings.extend(match (&facts.lease, &config.election) {
        (Ok(lease), Some(election)) => lease::check(election, lease.as_ref(), now),
        (Ok(lease), None) => vec![lease::without_election(lease.as_ref(), now)],
        (Err(error), _) => vec![Finding::failure(
            "lease",
            format!("the Lease cannot be read: {error}"),
            "give the identity the rights to get, create and update its Lease",
        )],
    });
    let plugins = facts.metrics.as_ref().map(|text| admission::plugins(text));
    findings.extend(admission::of_plugins(plugins.map_err(Clone::clone)));
    findings.extend(match &facts.webhooks {
        Ok((lists, dead)) => admission::of_webhooks(lists, dead),
        Err(error) => vec![Finding::warning(
            "admission",
            format!("webhooks are not checked: {error}"),
            "run the check with a kubeconfig that may list webhook configurations",
        )],
    });
    findings.extend(running::check(
        &facts.running,
        config.options(),
        &config.configz(),
    ));
    findings
}

/// The findings about keys and certificates of flags, against those of the API server.
fn of_keys(config: &Config, facts: &Facts, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    let read = |flag: &str| {
        let path = config.options().text(flag);
        // A file that cannot be read is reported when its controller is built.
        (!path.is_empty())
            .then(|| std::fs::read(path).ok())
            .flatten()
    };
    if let Some(key) = read("service-account-private-key-file") {
        findings.extend(files::account_key(&key, &facts.keys));
    }
    for flag in [
        "cluster-signing-cert-file",
        "cluster-signing-kubelet-client-cert-file",
        "cluster-signing-kube-apiserver-client-cert-file",
    ] {
        if let Some(pem) = read(flag) {
            findings.extend(files::signing_certificate(
                flag,
                &pem,
                facts.client_ca.as_deref(),
                now,
            ));
        }
    }
    if let Some(bundle) = read("root-ca-file") {
        let bundle = String::from_utf8_lossy(&bundle).into_owned();
        findings.extend(files::root_ca(&bundle, facts.root_ca.as_deref()));
    }
    findings
}
