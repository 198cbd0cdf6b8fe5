//! The flags of the present manager, compared with ours.
//!
//! static pod, or its manifest -> flags; `/configz` -> fields -> findings

use serde::Deserialize;
use serde_json::Value;
use steersman_options::flags;

use super::finding::Finding;
use crate::command_line::{self, Command, Options};

const CHECK: &str = "running";
/// A manager with other values of these flags runs beside the present one.
const LEASE: [&str; 2] = [
    "leader-elect-resource-name",
    "leader-elect-resource-namespace",
];

/// Flags that may differ between two managers of one cluster: their own place, credentials and log.
const OWN: [&str; 21] = [
    "authentication-kubeconfig",
    "authorization-kubeconfig",
    "bind-address",
    "cert-dir",
    "contention-profiling",
    "http2-max-streams-per-connection",
    "kube-api-content-type",
    "kubeconfig",
    "log-flush-frequency",
    "logging-format",
    "master",
    "permit-address-sharing",
    "permit-port-sharing",
    "profiling",
    "secure-port",
    "standby-informers",
    "stall-timeout",
    "strict-health-checks",
    "tls-cert-file",
    "tls-private-key-file",
    "v",
];

/// A pod with containers; the rest of it does not matter.
#[derive(Debug, Deserialize)]
pub(super) struct Pod {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
struct Meta {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Default, Deserialize)]
struct Spec {
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Debug, Deserialize)]
struct Container {
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
}

impl Pod {
    /// The flags of the first container that has any; `None` without flags that Steersman knows.
    fn flags(&self) -> Option<Result<Options, String>> {
        let lines = self
            .spec
            .containers
            .iter()
            .map(|one| [&*one.command, &*one.args].concat());
        let mut lines = lines.filter(|line| line.iter().any(|word| word.starts_with("--")));
        let line = lines.next()?;
        let flags = line.into_iter().skip_while(|word| !word.starts_with('-'));
        Some(match command_line::parse(flags, |_| {}) {
            Ok(Command::Run(options)) => Ok(*options),
            Ok(_) => Err("the pod only shows help or version".to_owned()),
            Err(error) => Err(error.to_string()),
        })
    }
}

/// The known facts about the present manager.
#[derive(Debug)]
pub(super) enum Running {
    /// Pods of the present manager; none if it runs outside of the cluster.
    Pods(Vec<Pod>),
    /// Its document `/configz`.
    Configz(Value),
    /// The source cannot be read.
    Unknown(String),
}

/// Compares the present manager with `ours`, whose document is `configz`.
pub(super) fn check(running: &Running, ours: &Options, configz: &str) -> Vec<Finding> {
    match running {
        Running::Unknown(error) => vec![unknown(error)],
        Running::Pods(pods) => {
            let found = pods.iter().find_map(|pod| Some((pod, pod.flags()?)));
            match found {
                None => vec![unknown(
                    "kube-system has no pod with the label component=kube-controller-manager",
                )],
                Some((pod, Err(error))) => {
                    vec![unknown(&format!("pod {}: {error}", pod.metadata.name))]
                }
                Some((pod, Ok(theirs))) => flags_of(&pod.metadata.name, &theirs, ours),
            }
        }
        Running::Configz(theirs) => fields_of(theirs, configz),
    }
}

fn unknown(error: &str) -> Finding {
    Finding::warning(
        CHECK,
        format!("flags of the present manager are not compared: {error}"),
        "pass --running with its manifest, the file of its /configz, or its address such as https://127.0.0.1:10257",
    )
}

fn flags_of(name: &str, theirs: &Options, ours: &Options) -> Vec<Finding> {
    if LEASE
        .iter()
        .any(|flag| theirs.value(flag) != ours.value(flag))
    {
        return vec![Finding::ok(
            CHECK,
            format!(
                "the Lease is not that of pod {name}, so this manager runs beside it, with flags of its own"
            ),
        )];
    }
    let mut findings: Vec<Finding> = flags()
        .filter(|flag| !OWN.contains(&flag.name))
        .filter(|flag| theirs.value(flag.name) != ours.value(flag.name))
        .map(|flag| {
            let theirs = theirs.value(flag.name);
            let ours = ours.value(flag.name);
            Finding::warning(
                CHECK,
                format!(
                    "--{} is {:?} here and {:?} in pod {name}",
                    flag.name,
                    ours.to_string(),
                    theirs.to_string()
                ),
                "use the value of the present manager, unless the change is intended",
            )
        })
        .collect();
    if findings.is_empty() {
        findings.push(Finding::ok(
            CHECK,
            format!("the flags are those of pod {name}"),
        ));
    }
    findings
}

/// Fields of `/configz` that may differ.
fn is_own_field(path: &str) -> bool {
    let own = [
        "/Generic/Address",
        "/Generic/Port",
        "/Generic/ClientConnection/",
        "/Generic/Debugging/",
        // No flag sets it, and upstream prints it in a random order.
        "/GarbageCollectorController/GCIgnoredResources",
    ];
    own.iter().any(|prefix| path.contains(prefix))
}

fn fields_of(theirs: &Value, configz: &str) -> Vec<Finding> {
    let ours: Value = serde_json::from_str(configz).unwrap_or_default();
    let mut findings = Vec::new();
    different(theirs, &ours, "", &mut |path, theirs, ours| {
        if !is_own_field(path) {
            let field = path.trim_start_matches("/kubecontrollermanager.config.k8s.io/");
            findings.push(Finding::warning(
                CHECK,
                format!(
                    "{} is {ours} here and {theirs} in the present manager",
                    field.replace('/', ".")
                ),
                "use the value of the present manager, unless the change is intended",
            ));
        }
    });
    if findings.is_empty() {
        let message = "the configuration is that of the present manager's /configz";
        findings.push(Finding::ok(CHECK, message));
    }
    findings
}

/// Calls `tell` with the path of each field that differs.
fn different(
    theirs: &Value,
    ours: &Value,
    path: &str,
    tell: &mut impl FnMut(&str, &Value, &Value),
) {
    match (theirs, ours) {
        (Value::Object(left), Value::Object(right)) => {
            let names: std::collections::BTreeSet<&String> =
                left.keys().chain(right.keys()).collect();
            for name in names {
                different(&theirs[name], &ours[name], &format!("{path}/{name}"), tell);
            }
        }
        _ if theirs == ours => {}
        _ => tell(path, theirs, ours),
    }
}

/// Reads a file: a manifest of a pod, or a document of `/configz`.
pub(super) fn parse(text: &str) -> Result<Running, String> {
    let value: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    if value.get("kubecontrollermanager.config.k8s.io").is_some() {
        return Ok(Running::Configz(value));
    }
    let pod = serde_json::from_value(value)
        .map_err(|error| format!("neither a pod nor a document of /configz: {error}"))?;
    Ok(Running::Pods(vec![pod]))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level::{Ok, Warning};
    use super::super::finding::tests::words;
    use super::*;

    const MANIFEST: &str = "{kind: Pod, metadata: {name: kcm-a}, spec: {containers: [{command: \
        [kube-controller-manager, --kubeconfig=/etc/x, '--controllers=*,bootstrapsigner', --cluster-cidr=10.1.0.0/16]}]}}";

    fn ours(flags: &[(&str, &str)]) -> Options {
        let mut options = Options::default();
        for (flag, value) in flags {
            options.set(flag, value).unwrap();
        }
        options
    }

    #[test]
    fn flags_are_compared_with_the_manifest() {
        let same = [
            ("controllers", "*,bootstrapsigner"),
            ("cluster-cidr", "10.1.0.0/16"),
            ("kubeconfig", "/y"),
        ];
        let found = check(&parse(MANIFEST).unwrap(), &ours(&same), "");
        assert_eq!(words(&found), [(Ok, "the flags are those of pod kcm-a")]);

        let beside = [&same[..1], &[("leader-elect-resource-name", "steersman")]].concat();
        let found = check(&parse(MANIFEST).unwrap(), &ours(&beside), "");
        let expected = "the Lease is not that of pod kcm-a, so this manager runs beside it, with flags of its own";
        assert_eq!(words(&found), [(Ok, expected)]);

        let found = check(&parse(MANIFEST).unwrap(), &ours(&same[..1]), "");
        let expected = r#"--cluster-cidr is "" here and "10.1.0.0/16" in pod kcm-a"#;
        assert_eq!(words(&found), [(Warning, expected)]);
    }

    #[test]
    fn fields_are_compared_with_configz() {
        let document = |workers: u32| {
            format!(
                r#"{{"kubecontrollermanager.config.k8s.io":{{"Generic":{{"Port":{workers}}},"JobController":{{"ConcurrentJobSyncs":{workers}}}}}}}"#
            )
        };
        let running = parse(&document(5)).unwrap();
        let found = check(&running, &Options::default(), &document(5));
        assert_eq!(words(&found)[0].0, Ok);
        let found = check(&running, &Options::default(), &document(6));
        let expected = "JobController.ConcurrentJobSyncs is 6 here and 5 in the present manager";
        assert_eq!(words(&found), [(Warning, expected)]);
    }

    #[test]
    fn an_unknown_manager_is_a_warning() {
        for running in [
            Running::Unknown("refused".to_owned()),
            Running::Pods(vec![]),
        ] {
            let found = check(&running, &Options::default(), "");
            assert_eq!(found[0].level, Warning);
        }
        assert!(parse("[1]").is_err());
    }
}
