//! Metrics of the process and the build; those of the machinery are registered where they are counted.

use prometheus::{GaugeVec, Opts, Registry};

use crate::process::Process;
use crate::version;

/// Adds what every manager shows, leader or not.
pub(crate) fn register(registry: &Registry) -> Result<(), prometheus::Error> {
    registry.register(Box::new(Process::new()?))?;
    let platform = version::platform();
    constant(
        registry,
        "kubernetes_build_info",
        "[BETA] A constant 1 whose labels say which Kubernetes release this equals, and what it was built with and for.",
        &[
            ("major", "1"),
            ("minor", "36"),
            ("git_version", version::GIT_VERSION),
            ("git_commit", ""),
            ("git_tree_state", ""),
            ("build_date", ""),
            ("go_version", ""),
            ("compiler", "rustc"),
            ("platform", &platform),
        ],
    )?;
    constant(
        registry,
        "version_info",
        "[ALPHA] A constant 1 whose labels say which versions this component is, emulates and is compatible with.",
        &[("binary", "1.36.2"), ("component", "kube"), ("emulation", "1.36"), ("min_compat", "1.35")],
    )?;
    constant(
        registry,
        "steersman_build_info",
        "[ALPHA] A constant 1 whose label is the version of Steersman.",
        &[("version", version::STEERSMAN)],
    )
}

/// A gauge that is 1 for ever.
fn constant(registry: &Registry, name: &str, help: &str, labels: &[(&str, &str)]) -> Result<(), prometheus::Error> {
    let (names, values): (Vec<&str>, Vec<&str>) = labels.iter().copied().unzip();
    let gauge = GaugeVec::new(Opts::new(name, help), &names)?;
    gauge.with_label_values(&values).set(1.0);
    registry.register(Box::new(gauge))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition;

    #[test]
    fn build_and_process_are_shown() {
        let registry = Registry::new();
        register(&registry).unwrap();
        let text = exposition::encode(&registry.gather());
        let build = "kubernetes_build_info{build_date=\"\",compiler=\"rustc\",git_commit=\"\",git_tree_state=\"\",\
                     git_version=\"v1.36.2\",go_version=\"\",major=\"1\",minor=\"36\",platform=";
        for part in [build, "\nprocess_resident_memory_bytes ", "\nprocess_start_time_seconds 1."] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }
}
