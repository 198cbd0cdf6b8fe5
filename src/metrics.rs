//! Metrics of the process and the build, and the metrics about metrics.
//!
//! Modules that count something register their own metrics. Upstream:
//! `k8s.io/component-base/metrics` (`legacyregistry`, `version.go`).

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntCounter, IntCounterVec, Opts, PullingGauge, Registry};
use tokio::runtime::Handle;

use steersman_runtime::process::Process;

use crate::cardinality::constrain;
use crate::config::{Features, MetricsSettings, Release};
use crate::features::FeatureMetric;
use crate::version;

/// Registers the metrics that every manager has, leader or not, and decides about native buckets of
/// all histograms that are made afterwards. Must be called inside a Tokio runtime.
pub(crate) fn register(registry: &Registry, features: &Features) -> Result<(), prometheus::Error> {
    steersman_metrics::keep_native_buckets(features.is_on("NativeHistograms"));
    registry.register(Box::new(Process::new()?))?;
    let runtime = Handle::current().metrics();
    registry.register(Box::new(PullingGauge::new(
        // Dashboards use this name. Go counts goroutines; Tokio tasks are the closest equivalent.
        "go_goroutines",
        "Number of tasks that currently exist.",
        Box::new(move || runtime.num_alive_tasks() as f64),
    )?))?;
    registry.register(Box::new(FeatureMetric::new(features.clone())?))?;
    let platform = version::platform();
    constant(
        registry,
        "kubernetes_build_info",
        "[BETA] A constant 1 whose labels say which Kubernetes release this equals, and what it was built with and for.",
        &[
            ("major", "1"),
            ("minor", &version::minor()),
            ("git_version", version::GIT_VERSION),
            ("git_commit", &version::commit()),
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
        &[
            ("binary", version::RELEASE),
            ("component", "kube"),
            ("emulation", &features.releases.emulated.to_string()),
            (
                "min_compat",
                &features.releases.oldest_compatible.to_string(),
            ),
        ],
    )?;
    constant(
        registry,
        "steersman_build_info",
        "[ALPHA] A constant 1 whose label is the version of Steersman.",
        &[("version", version::STEERSMAN)],
    )
}

/// The families of `release`, with its stages. Controllers register those of the newest one.
fn of_release(mut families: Vec<MetricFamily>, release: Release) -> Vec<MetricFamily> {
    families.retain(|family| release.has_metric(family.name()));
    for family in &mut families {
        if release.has_metric_in_alpha(family.name()) {
            let help = family.help().replacen("[BETA]", "[ALPHA]", 1);
            family.set_help(help);
        }
    }
    families
}

/// Applies `settings` to the `families` of `release`, and adds the metrics that count registered and disabled
/// metrics.
pub(crate) fn with_metric_counts(
    families: Vec<MetricFamily>,
    settings: &MetricsSettings,
    release: Release,
) -> Result<Vec<MetricFamily>, prometheus::Error> {
    let opts = Opts::new(
        "registered_metrics_total",
        "[BETA] The count of registered metrics by stability level and deprecation version.",
    );
    let registered = IntCounterVec::new(opts, &["deprecated_version", "stability_level"])?;
    let mut families = of_release(families, release);
    families.retain(|family| !settings.disabled.contains(family.name()));
    let off = IntCounter::new(
        "disabled_metrics_total",
        "[BETA] The count of disabled metrics.",
    )?;
    off.inc_by(settings.disabled.len() as u64);
    let hidden = IntCounter::new(
        "hidden_metrics_total",
        "[BETA] The count of hidden metrics.",
    )?;
    let unexpected = IntCounter::new(
        "cardinality_enforcement_unexpected_categorizations_total",
        "[ALPHA] The count of unexpected categorizations during cardinality enforcement.",
    )?;
    unexpected.inc_by(constrain(&mut families, &settings.allowed));
    families.extend(
        [off.collect(), hidden.collect(), unexpected.collect()]
            .into_iter()
            .flatten(),
    );
    // `registered_metrics_total` counts itself, too.
    registered.with_label_values(&["", "BETA"]).inc();
    for family in &families {
        registered
            .with_label_values(&["", stability(family.help())])
            .inc();
    }
    families.extend(registered.collect());
    families.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(families)
}

/// The stability level: the text in brackets before the help text.
fn stability(help: &str) -> &str {
    help.strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map_or("", |(level, _)| level)
}

/// Registers a gauge that is always 1.
fn constant(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[(&str, &str)],
) -> Result<(), prometheus::Error> {
    let (names, values): (Vec<&str>, Vec<&str>) = labels.iter().copied().unzip();
    let gauge = GaugeVec::new(Opts::new(name, help), &names)?;
    gauge.with_label_values(&values).set(1.0);
    registry.register(Box::new(gauge))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::command_line::Options;
    use crate::exposition;

    fn features() -> Features {
        Features::new(&Options::default(), Release::DEFAULT).unwrap()
    }

    #[tokio::test]
    async fn metrics_of_build_and_process_are_registered() {
        let registry = Registry::new();
        register(&registry, &features()).unwrap();
        let text = exposition::encode(&registry.gather());
        let build = format!(
            "kubernetes_build_info{{build_date=\"\",compiler=\"rustc\",git_commit=\"{}\",git_tree_state=\"\",\
             git_version=\"{}\",go_version=\"\",major=\"1\",minor=\"{}\",platform=",
            version::commit(),
            version::GIT_VERSION,
            version::minor(),
        );
        for part in [
            build.as_str(),
            "\nprocess_resident_memory_bytes ",
            "\nprocess_start_time_seconds 1.",
        ] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }

    #[tokio::test]
    async fn families_are_counted_by_stability_level() {
        let registry = Registry::new();
        register(&registry, &features()).unwrap();
        let names = BTreeMap::from([("name".to_owned(), BTreeSet::from(["AllAlpha".to_owned()]))]);
        let settings = MetricsSettings {
            disabled: ["version_info", "unused"].map(str::to_owned).into(),
            allowed: [("kubernetes_feature_enabled".to_owned(), names)].into(),
        };
        let shown = with_metric_counts(registry.gather(), &settings, Release::DEFAULT).unwrap();
        assert!(shown.is_sorted_by_key(|family| family.name().to_owned()));
        let text = exposition::encode(&shown);
        for line in [
            "disabled_metrics_total 2",
            "hidden_metrics_total 0",
            // Build and features, and three of the metrics about metrics.
            "registered_metrics_total{deprecated_version=\"\",stability_level=\"BETA\"} 5",
            "registered_metrics_total{deprecated_version=\"\",stability_level=\"ALPHA\"} 2",
            "registered_metrics_total{deprecated_version=\"\",stability_level=\"\"} 10",
            "cardinality_enforcement_unexpected_categorizations_total 241",
            "kubernetes_feature_enabled{name=\"AllAlpha\",stage=\"ALPHA\"} 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        assert!(!text.contains("\nversion_info{"), "{text}");
    }

    #[tokio::test]
    async fn older_releases_have_fewer_families_and_other_stages() {
        let registry = Registry::new();
        register(&registry, &features()).unwrap();
        constant(&registry, "informer_queued_items", "[ALPHA] Queued.", &[]).unwrap();
        for (minor, stage, present) in [(35, "ALPHA", false), (36, "BETA", true)] {
            let release = Release::of_minor(minor);
            let settings = MetricsSettings::default();
            let shown = with_metric_counts(registry.gather(), &settings, release).unwrap();
            let text = exposition::encode(&shown);
            let help = format!("# HELP kubernetes_build_info [{stage}] A constant 1");
            assert!(text.contains(&help), "1.{minor}:\n{text}");
            let is_there = text.contains("# HELP informer_queued_items");
            assert_eq!(is_there, present, "1.{minor}");
        }
    }
}
