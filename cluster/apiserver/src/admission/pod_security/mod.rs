//! Pod security admission: labels of a namespace name the standard that its pods must meet, and the
//! standard that causes warnings.
//!
//! labels -> [`Policy`] -> checks -> refusal of a pod, or warnings about a pod or a workload
//!
//! Upstream: `k8s.io/pod-security-admission` (`admission`, `api`).

mod checks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::Server;
use crate::fielderror::{FieldError, Problem};
use crate::route::{Target, Verb};
use crate::status::Status;
use crate::store::Object;

/// Strictness of a standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// A standard: its level, and the Kubernetes version 1.x of its checks. `None` is the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Standard {
    level: Level,
    minor: Option<u8>,
}

impl Standard {
    /// All violations of the standard in `pod`.
    fn violations(self, pod: &Value) -> Vec<checks::Violation> {
        checks::violations(self.level, self.minor.unwrap_or(u8::MAX), pod)
    }
}

/// `restricted:latest`, `baseline:v1.30`.
impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.minor {
            None => write!(f, "{level}:latest"),
            Some(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// The standards that a namespace's labels select. The server has no audit log, so the `audit`
/// labels are only validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Policy {
    enforce: Standard,
    warn: Standard,
}

const LABELS: &str = "pod-security.kubernetes.io/";

impl Policy {
    /// Reads the labels by upstream's rules, and returns their errors too. An unreadable level
    /// counts as `restricted` for `enforce` and as `privileged` for `warn`.
    fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Self, Vec<FieldError>) {
        let mut errors = Vec::new();
        let mut standard = |mode: &str, unreadable: Level| {
            let mut refuse = |name: &str, value: &str, why: &str| {
                let field = format!("metadata.labels[{LABELS}{name}]");
                errors.push(FieldError {
                    field,
                    problem: Problem::Invalid(json!(value), why.to_owned()),
                });
            };
            let level = label(&format!("{LABELS}{mode}")).map(|text| {
                level(text).unwrap_or_else(|| {
                    refuse(
                        mode,
                        text,
                        "must be one of privileged, baseline, restricted",
                    );
                    unreadable
                })
            });
            let version = format!("{mode}-version");
            let minor = label(&format!("{LABELS}{version}")).map(|text| {
                minor(text).unwrap_or_else(|| {
                    refuse(&version, text, "must be \"latest\" or \"v1.x\"");
                    None
                })
            });
            (level, minor)
        };
        let enforce = standard("enforce", Level::Restricted);
        standard("audit", Level::Privileged);
        let warn = standard("warn", Level::Privileged);
        let is_readable = label(&format!("{LABELS}enforce")).and_then(level).is_some();
        let enforce = Standard {
            level: enforce.0.unwrap_or_default(),
            minor: enforce.1.unwrap_or_default(),
        };
        let warn = match warn {
            // Without a `warn` label, the enforced level also causes warnings.
            (None, version) if is_readable && enforce.level > Level::Privileged => Standard {
                level: enforce.level,
                minor: version.unwrap_or(enforce.minor),
            },
            (warned, version) => Standard {
                level: warned.unwrap_or_default(),
                minor: version.unwrap_or_default(),
            },
        };
        (Self { enforce, warn }, errors)
    }
}

fn level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

/// Parses `latest` (no number) or `v1.x`.
fn minor(text: &str) -> Option<Option<u8>> {
    if text == "latest" {
        return Some(None);
    }
    let digits = text
        .strip_prefix("v1.")
        .filter(|digits| *digits == "0" || !digits.starts_with(['0', '+']))?;
    // A number above `u8::MAX` counts as the latest version.
    digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())
}

fn label_errors(namespace: &Value) -> Vec<FieldError> {
    Policy::of(|key| namespace["metadata"]["labels"][key].as_str()).1
}

/// The pod template of an object of this kind, or the pod itself.
fn template<'a>(kind: &str, object: &'a Value) -> Option<&'a Value> {
    let template = match kind {
        "Pod" => object,
        "PodTemplate" => &object["template"],
        "CronJob" => &object["spec"]["jobTemplate"]["spec"]["template"],
        "ReplicationController"
        | "ReplicaSet"
        | "Deployment"
        | "DaemonSet"
        | "StatefulSet"
        | "Job" => &object["spec"]["template"],
        _ => return None,
    };
    Some(template).filter(|template| !template.is_null())
}

/// Whether an update of a pod changes fields that the standards cover.
fn is_significant(new: &Value, old: &Value) -> bool {
    let images = |pod: &Value| -> Vec<Value> {
        let lists = ["initContainers", "containers", "ephemeralContainers"]
            .map(|list| pod["spec"][list].clone());
        let containers = lists
            .iter()
            .flat_map(|list| list.as_array().cloned().unwrap_or_default());
        containers
            .map(|container| container["image"].clone())
            .collect()
    };
    images(new) != images(old) || new["metadata"]["annotations"] != old["metadata"]["annotations"]
}

impl Server {
    fn policy_of(&self, namespace: &str) -> Policy {
        let namespaces = self
            .registry
            .find("", "v1", "namespaces")
            .expect("namespaces are built in");
        namespaces
            .store
            .get(namespace)
            // Most namespaces have no such label, and each look-up below makes its name.
            .filter(|namespace| namespace.labels().any(|(name, _)| name.starts_with(LABELS)))
            .map_or_else(Policy::default, |namespace| {
                Policy::of(|key| namespace.label(key)).0
            })
    }

    /// 403 for a pod that violates the enforced standard of its namespace. 422 for a namespace with
    /// invalid labels. `old` is the previous state of an update.
    pub(crate) fn check_pod_security(
        &self,
        target: &Target,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let resource = target.resource();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if resource.is("Namespace") {
            let found = label_errors(object);
            if !found.is_empty() && old.is_none_or(|old| label_errors(old) != found) {
                return Err(Status::invalid(resource.named_kind(), name, &found));
            }
        }
        if !resource.is("Pod") || old.is_some_and(|old| !is_significant(object, old)) {
            return Ok(());
        }
        let standard = self.policy_of(&target.namespace).enforce;
        let violations = standard.violations(object);
        if violations.is_empty() {
            return Ok(());
        }
        let why = format!(
            "violates PodSecurity \"{standard}\": {}",
            checks::detailed(&violations)
        );
        Err(Status::forbidden(resource.named(), name, &why))
    }

    /// The warning for the author of a pod or workload that violates the `warn` standard.
    pub(crate) fn pod_security_warnings(
        &self,
        verb: Verb,
        target: &Target,
        written: &Object,
    ) -> Option<String> {
        let resource = target.resource();
        let is_written = match target.subresource.map(|part| part.name) {
            None if resource.is("Pod") => verb == Verb::Create,
            None => matches!(verb, Verb::Create | Verb::Update | Verb::Patch),
            Some(part) => part == "ephemeralcontainers" && verb != Verb::Get,
        };
        let standard = Some(&target.namespace)
            .filter(|_| is_written && !target.namespace.is_empty())
            .map(|name| self.policy_of(name).warn)?;
        if standard.level == Level::Privileged || resource.custom.is_some() {
            return None;
        }
        let object = written.to_value();
        let violations = standard.violations(template(&resource.kind, &object)?);
        (!violations.is_empty()).then(|| {
            format!(
                "would violate PodSecurity \"{standard}\": {}",
                checks::detailed(&violations)
            )
        })
    }

    /// Warnings for a namespace that enforces more than in `old`: its existing pods that violate
    /// the new standard.
    pub(crate) fn tightening_warnings(&self, old: &Object, new: &Object) -> Vec<String> {
        let [before, after] =
            [old, new].map(|namespace| Policy::of(|key| namespace.label(key)).0.enforce);
        let is_relaxed = before.minor == after.minor && after.level <= before.level;
        if before == after || after.level == Level::Privileged || is_relaxed {
            return Vec::new();
        }
        let pods = self
            .registry
            .find("", "v1", "pods")
            .expect("pods are built in");
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in pods
            .store
            .list(&self.revisions, &format!("{}/", new.name()))
            .objects
        {
            let violations = after.violations(&pod.to_value());
            if !violations.is_empty() {
                let reasons = violations
                    .iter()
                    .map(|violation| violation.reason)
                    .collect::<Vec<_>>()
                    .join(", ");
                found
                    .entry(reasons)
                    .or_default()
                    .push(pod.name().to_owned());
            }
        }
        // Pods with equal violations share one line, as upstream groups them.
        let mut warnings: Vec<String> = found
            .into_iter()
            .filter_map(|(reasons, pods)| {
                let first = pods.iter().min()?;
                Some(match pods.len() {
                    1 => format!("{first}: {reasons}"),
                    2 => format!("{first} (and 1 other pod): {reasons}"),
                    count => format!("{first} (and {} other pods): {reasons}", count - 1),
                })
            })
            .collect();
        warnings.sort();
        if !warnings.is_empty() {
            let name = new.name();
            warnings.insert(
                0,
                format!("existing pods in namespace \"{name}\" violate the new PodSecurity enforce level \"{after}\""),
            );
        }
        warnings
    }
}
