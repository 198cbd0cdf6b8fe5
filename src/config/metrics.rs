//! The flags that decide which metrics `/metrics` shows, and with which label values.
//!
//! Checks and their messages equal upstream's: `k8s.io/component-base/metrics` (`options.go`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{ConfigError, Release};
use crate::command_line::Options;

/// Allowed label values, by metric and label. Labels without an entry may have any value.
pub type AllowedValues = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The metric families and label values that `/metrics` shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Names of families to omit.
    pub disabled: BTreeSet<String>,
    /// Allowed label values; other values are replaced by `unexpected`.
    pub allowed: AllowedValues,
}

/// Regular expressions in upstream's messages; `is_name` implements them.
const NAME: &str = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const LABEL: &str = "[a-zA-Z_][a-zA-Z0-9_]*";

/// The flag that names the release whose hidden families are shown.
const HIDDEN: &str = "show-hidden-metrics-for-version";

/// Whether a manager that equals `release` accepts the value of `--show-hidden-metrics-for-version`: nothing, the release
/// before it, or the one before that of the binary. Upstream compares with the binary, which here serves several releases.
pub(super) fn accepts(options: &Options, release: Release) -> bool {
    let hidden = options.text(HIDDEN);
    let previous = [release, Release::DEFAULT].map(|release| release.previous().to_string());
    hidden.is_empty() || previous.contains(&hidden)
}

/// Reads the flags and the file of `--allow-metric-labels-manifest`, for a manager that equals `release`. Errors have
/// upstream's texts.
pub(super) fn read(
    options: &Options,
    release: Release,
) -> Result<MetricsSettings, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let mut invalid = |field: &str, value: &serde_json::Value, detail: String| {
        let field = if field.is_empty() {
            String::new()
        } else {
            format!(".{field}")
        };
        errors.push(ConfigError::Metrics(format!(
            "metrics{field}: Invalid value: {value}: {detail}"
        )));
    };
    if !accepts(options, release) {
        let previous = release.previous();
        invalid(
            "showHiddenMetricsForVersion",
            &json!(options.text(HIDDEN)),
            format!(
                "must be omitted or have the value '{previous}'; only the previous minor version is allowed"
            ),
        );
    }
    let disabled = options.list("disabled-metrics");
    if let Some(wrong) = disabled.iter().find(|name| !is_name(name, true)) {
        let detail =
            format!("must be fully qualified metric names matching \"^{NAME}$\", got {wrong:?}");
        invalid("disabledMetrics", &json!(disabled), detail);
    }
    let typed = options.map("allow-metric-labels");
    let manifest = options.text("allow-metric-labels-manifest");
    let mut allowed = allowed(&typed).unwrap_or_else(|detail| {
        invalid("allowListMapping", &json!(typed), detail);
        AllowedValues::new()
    });
    if !manifest.is_empty() {
        match from_manifest(&manifest) {
            Ok(read) if typed.is_empty() => allowed = read,
            Ok(_) => {
                let mut all =
                    json!({"allowListMapping": typed, "allowListMappingManifest": manifest});
                if !disabled.is_empty() {
                    all["disabledMetrics"] = json!(disabled);
                }
                invalid(
                    "",
                    &all,
                    "cannot specify both allowListMapping and allowListMappingManifest".to_owned(),
                );
            }
            Err(detail) => invalid("allowListMappingManifest", &json!(manifest), detail),
        }
    }
    if errors.is_empty() {
        Ok(MetricsSettings {
            disabled: disabled.into_iter().collect(),
            allowed,
        })
    } else {
        Err(errors)
    }
}

/// Reads a YAML file with the same pairs as `--allow-metric-labels`.
fn from_manifest(path: &str) -> Result<AllowedValues, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("failed to read allow list manifest: {error}"))?;
    let pairs: Option<BTreeMap<String, String>> = serde_saphyr::from_str(&text)
        .map_err(|error| format!("failed to parse allow list manifest: {error}"))?;
    let pairs = pairs.unwrap_or_default();
    allowed(&pairs).map_err(|detail| {
        let inner = format!(
            "metrics.allowListMappingManifest: Invalid value: {}: {detail}",
            json!(pairs)
        );
        format!("invalid allow list mapping in manifest: [{inner}]")
    })
}

/// Parses pairs of `metric,label` and `value,value`.
fn allowed(pairs: &BTreeMap<String, String>) -> Result<AllowedValues, String> {
    let mut allowed = AllowedValues::new();
    for (key, values) in pairs {
        let (metric, label) = key.split_once(',').filter(|(metric, label)| is_name(metric, true) && is_name(label, false)).ok_or(
            format!("must have keys with format `metricName,labelName` where metricName matches {NAME:?} and labelName matches {LABEL:?}"),
        )?;
        let values = values.split(',').map(str::to_owned).collect();
        allowed
            .entry(metric.to_owned())
            .or_default()
            .insert(label.to_owned(), values);
    }
    Ok(allowed)
}

/// Whether `text` is a metric name, or, without `colon`, a label name.
fn is_name(text: &str, colon: bool) -> bool {
    let is_first = |b: u8| b.is_ascii_alphabetic() || b == b'_' || colon && b == b':';
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(is_first)
        && bytes.iter().all(|b| is_first(*b) || b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[(&str, &str)]) -> Result<MetricsSettings, String> {
        settings_at(Release::DEFAULT, flags)
    }

    fn settings_at(release: Release, flags: &[(&str, &str)]) -> Result<MetricsSettings, String> {
        let mut options = Options::default();
        for (flag, value) in flags {
            options.set(flag, value).unwrap();
        }
        read(&options, release).map_err(|errors| super::super::join_errors(&errors))
    }

    fn values(settings: &MetricsSettings, metric: &str, label: &str) -> Vec<String> {
        settings.allowed[metric][label].iter().cloned().collect()
    }

    #[test]
    fn allowed_values_come_from_the_flag_or_from_a_file() {
        let typed = settings(&[
            ("allow-metric-labels", "m,l=b,a"),
            ("allow-metric-labels", "m,k="),
            ("disabled-metrics", "x,y:z"),
        ]);
        let typed = typed.unwrap();
        assert_eq!(
            (values(&typed, "m", "l"), values(&typed, "m", "k")),
            (vec!["a".into(), "b".into()], vec![String::new()])
        );
        assert_eq!(typed.disabled.into_iter().collect::<Vec<_>>(), ["x", "y:z"]);

        let directory = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = directory.path().join("manifest.yaml");
            std::fs::write(&path, text).unwrap();
            settings(&[("allow-metric-labels-manifest", path.to_str().unwrap())])
        };
        let read =
            file("metric1,label1: v1,v2\n\"metric2,label2\": \"v3\"\nmetric2,code: 200\n").unwrap();
        assert_eq!(
            (
                values(&read, "metric1", "label1"),
                values(&read, "metric2", "label2")
            ),
            (vec!["v1".into(), "v2".into()], vec!["v3".into()])
        );
        assert_eq!(values(&read, "metric2", "code"), ["200"]);
        assert_eq!(file("").unwrap(), MetricsSettings::default());
        for (text, part) in [
            (
                "- metric1,label1:v1\n",
                "failed to parse allow list manifest: ",
            ),
            (
                "metric1: v1\n",
                "invalid allow list mapping in manifest: [metrics.allowListMappingManifest: Invalid value: {\"metric1\":\"v1\"}: must",
            ),
        ] {
            let error = file(text).unwrap_err();
            assert!(
                error.starts_with("metrics.allowListMappingManifest: Invalid value: \"/")
                    && error.contains(part),
                "{error}"
            );
        }
    }

    #[test]
    fn hidden_families_are_those_of_the_release_before() {
        // (minor release, value, error)
        let cases = [
            (36, "", None),
            (36, "1.35", None),
            (34, "1.33", None),
            (34, "1.35", None),
            (34, "1.32", Some("1.33")),
            (37, "1.36", None),
            (37, "1.34", Some("1.36")),
            (36, "1.036", Some("1.35")),
        ];
        for (minor, value, wanted) in cases {
            let error = wanted.map(|wanted| {
                format!(
                    "metrics.showHiddenMetricsForVersion: Invalid value: {value:?}: must be omitted or have the value \
                     '{wanted}'; only the previous minor version is allowed"
                )
            });
            let found = settings_at(Release::of_minor(minor), &[(HIDDEN, value)]);
            assert_eq!(found.err(), error, "{value} in 1.{minor}");
        }
    }

    #[test]
    fn invalid_values_are_refused_with_upstreams_messages() {
        let keys = "must have keys with format `metricName,labelName` where metricName matches \"[a-zA-Z_:][a-zA-Z0-9_:]*\" and labelName \
                    matches \"[a-zA-Z_][a-zA-Z0-9_]*\"";
        let cases: [(&[(&str, &str)], String); 6] = [
            (
                &[("disabled-metrics", "a,b-c")],
                "metrics.disabledMetrics: Invalid value: [\"a\",\"b-c\"]: must be fully qualified metric names matching \
                 \"^[a-zA-Z_:][a-zA-Z0-9_:]*$\", got \"b-c\""
                    .into(),
            ),
            (&[("allow-metric-labels", "m=a")], format!("metrics.allowListMapping: Invalid value: {{\"m\":\"a\"}}: {keys}")),
            (&[("allow-metric-labels", "-m,l=a")], format!("metrics.allowListMapping: Invalid value: {{\"-m,l\":\"a\"}}: {keys}")),
            (&[("allow-metric-labels", "m,:l=a")], format!("metrics.allowListMapping: Invalid value: {{\"m,:l\":\"a\"}}: {keys}")),
            (
                &[("allow-metric-labels-manifest", "/nowhere")],
                "metrics.allowListMappingManifest: Invalid value: \"/nowhere\": failed to read allow list manifest: No such file or \
                 directory (os error 2)"
                    .into(),
            ),
            (
                &[("allow-metric-labels", "m,l=a"), ("allow-metric-labels-manifest", "/dev/null")],
                "metrics: Invalid value: {\"allowListMapping\":{\"m,l\":\"a\"},\"allowListMappingManifest\":\"/dev/null\"}: cannot \
                 specify both allowListMapping and allowListMappingManifest"
                    .into(),
            ),
        ];
        for (flags, error) in cases {
            assert_eq!(settings(flags).unwrap_err(), error, "{flags:?}");
        }
    }
}
