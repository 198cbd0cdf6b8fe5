//! Builds the same parts as the manager: all controllers and the TLS settings of the port. So files are
//! read, and flags compared, by the code of every start. Nothing runs, and no request is sent.

use std::sync::Arc;

use prometheus::Registry;
use steersman_client::ApiClient;
use steersman_runtime::controller::{ClientFactory, ContextParts, ControllerContext};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::workqueue::QueueMetrics;
use steersman_values::clock::Clock;

use super::finding::Finding;
use super::look;
use crate::config::{Access, Certificate, Config};
use crate::tls;

const CHECK: &str = "files";

/// Builds controllers and TLS settings of a manager with `config`.
pub(super) fn check(config: &Config) -> Vec<Finding> {
    let mut findings = controllers(config);
    findings.extend(serving(config));
    findings
}

fn controllers(config: &Config) -> Vec<Finding> {
    let context = match context(config) {
        Ok(context) => context,
        Err(error) => {
            let advice = "report this, because no flag can cause it";
            return vec![Finding::failure(CHECK, error.to_string(), advice)];
        }
    };
    let selection = &config.controllers;
    let mut findings = Vec::new();
    let mut built = 0;
    for descriptor in selection.tokens.iter().chain(&selection.enabled) {
        match (descriptor.init)(&context) {
            Err(error) => findings.push(Finding::failure(
                CHECK,
                error.to_string(),
                "correct the file or the flag that names it",
            )),
            Ok(controller) if controller.is_switched_off() => findings.push(Finding::warning(
                CHECK,
                format!("{} would not run: its flags turn it off", descriptor.name),
                format!("set its flags as the present manager has them; docs/reference.md lists those of {}", descriptor.name),
            )),
            Ok(_) => built += 1,
        }
    }
    findings.push(Finding::ok(
        CHECK,
        format!("{built} controllers can be built; their files are valid"),
    ));
    findings
}

/// A context whose clients reach nothing.
fn context(config: &Config) -> Result<ControllerContext, prometheus::Error> {
    let registry = Registry::new();
    let client = look::nowhere(&registry)?;
    let clients: ClientFactory = {
        let client: ApiClient = client.clone();
        Arc::new(move |_| client.clone())
    };
    let mut context = ControllerContext::new(ContextParts {
        informers: InformerFactory::new(client, config.min_resync, &registry)?,
        clients,
        clock: Clock::system(),
        queue_metrics: QueueMetrics::register(&registry)?,
        registry,
    });
    context.options = Arc::new(config.options().clone());
    context.features = config.features.for_controllers();
    context.release = config.features.release();
    // An unreadable kubeconfig is reported with the connection.
    let root_ca = steersman_client::inline_authority(config.kubeconfig.as_deref());
    context.credentials.root_ca = root_ca.unwrap_or_default().into();
    Ok(context)
}

/// The certificate of the port, and the authorities of its clients.
fn serving(config: &Config) -> Vec<Finding> {
    let Some(serving) = &config.serving else {
        return vec![Finding::warning(
            CHECK,
            "--secure-port=0: the manager serves no health checks and no metrics",
            "set a port, or remove the probes of the pod",
        )];
    };
    let mut findings = Vec::new();
    // A directory would be written to, as at the first start.
    if let Some(tls) = serving
        .tls
        .as_ref()
        .filter(|tls| matches!(tls.certificate, Certificate::Files(_)))
    {
        findings.push(match tls::server_config(tls, &Clock::system(), false) {
            Ok(_) => Finding::ok(
                CHECK,
                "--tls-cert-file and --tls-private-key-file are a pair",
            ),
            Err(error) => Finding::failure(
                CHECK,
                error.to_string(),
                "correct --tls-cert-file and --tls-private-key-file",
            ),
        });
    }
    if let Access::Delegated(delegation) = &serving.access {
        let authentication = &delegation.authentication;
        let authorities = [
            ("client-ca-file", &authentication.client_ca),
            ("requestheader-client-ca-file", &authentication.proxy_ca),
        ];
        for (flag, path) in authorities {
            let Some(path) = path else { continue };
            let problem = match std::fs::read(path) {
                Ok(pem) if steersman_pki::x509::certificates_in_pem(&pem).is_empty() => {
                    "it has no certificate".to_owned()
                }
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            findings.push(Finding::failure(
                CHECK,
                format!("--{flag} {}: {problem}", path.display()),
                "name a readable PEM file",
            ));
        }
        for (flag, path) in [
            ("authentication-kubeconfig", &authentication.kubeconfig),
            (
                "authorization-kubeconfig",
                &delegation.authorization.kubeconfig,
            ),
        ] {
            let Some(path) = path else { continue };
            if let Err(error) = steersman_client::load_config(Some(path), None) {
                findings.push(Finding::failure(
                    CHECK,
                    format!("--{flag}: {error}"),
                    "name a valid kubeconfig",
                ));
            }
        }
    }
    findings
}
