//! Feature gates: the gates of upstream's manager, and the values set by the user.
//!
//! `steersman-releases` (the gates of each release) and flags -> [`Features`] -> help, `/metrics`,
//! `/flagz`, behaviour
//!
//! [`steersman_options::features`] has the gates that controllers read. All other gates of upstream's
//! manager are accepted too, so that the arguments of an existing installation work. Upstream:
//! `k8s.io/component-base/featuregate`.

mod versions;

use std::collections::{BTreeMap, BTreeSet};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};
use steersman_options::features::FeatureGates;
use steersman_releases::{Effect, Gate, Spec, Stage, effect};

use crate::command_line::{Options, go_bool};
pub use steersman_releases::Release;
pub use versions::Releases;

/// Gates that change the default of all gates of one stage.
const ALL: [(&str, Stage); 2] = [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)];

/// An invalid feature gate or emulated version. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// An unknown component.
    #[error("component not registered: {0}")]
    Component(String),
    /// The component is given for some gates and omitted for others.
    #[error(
        "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
    )]
    Mixed,
    /// A gate without a value.
    #[error("missing bool value for {0}")]
    NoValue(String),
    /// A value that is no bool.
    #[error("invalid value of {0}={1}, err: {2}")]
    NoBool(String, String, String),
    /// An unknown gate.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// A gate that is locked to its default.
    #[error("cannot set feature gate {0} to {1}, feature is locked to {2}")]
    Locked(String, bool, bool),
    /// A gate that the emulated release does not have.
    #[error(
        "cannot set feature gate {gate} to {value}, feature is PreAlpha at emulated version {}, min compatibility version {}",
        releases.emulated, releases.oldest_compatible
    )]
    TooNew {
        /// The gate.
        gate: String,
        /// The requested value.
        value: bool,
        /// The emulated release and the oldest compatible one.
        releases: Releases,
    },
    /// An enabled gate that depends on disabled ones.
    #[error("{0} is enabled, but depends on features that are disabled: [{1}]")]
    Depends(&'static str, String),
    /// Not a version.
    #[error("{0}")]
    Version(String),
    /// A version with a patch number.
    #[error("patch version not allowed, got: {component}={version}")]
    Patch {
        /// The component.
        component: String,
        /// The version.
        version: String,
    },
    /// Two versions for one component.
    #[error("duplicate version flag, {component}={first} and {component}={second}")]
    DuplicateVersion {
        /// The component.
        component: String,
        /// The first version.
        first: Release,
        /// The second version.
        second: Release,
    },
    /// A release that cannot be emulated; minimum and maximum.
    #[error("emulation version {0} is not between [{1}, {2}.0]")]
    Emulated(Release, Release, Release),
    /// An unsupported minimum compatibility version; minimum and maximum.
    #[error("minCompatibilityVersion version {0} is not between [{1}, {2}]")]
    Compatible(Release, Release, Release),
}

/// The state of all feature gates.
#[derive(Debug, Clone)]
pub struct Features {
    pub(crate) releases: Releases,
    /// Gates that the user has set, by name.
    asked: BTreeMap<&'static str, bool>,
}

impl Features {
    /// Reads `--feature-gates`, `--emulated-version` and `--min-compatibility-version`. Without
    /// `--emulated-version`, the manager equals `followed`.
    pub(crate) fn new(options: &Options, followed: Release) -> Result<Self, Vec<FeatureError>> {
        let releases = Releases::new(
            &options.list("emulated-version"),
            &options.list("min-compatibility-version"),
            followed,
        )?;
        let wanted = parse(&options.gates("feature-gates")).map_err(|error| vec![error])?;
        let mut features = Self {
            releases,
            asked: BTreeMap::new(),
        };
        let mut errors = Vec::new();
        for (name, value) in wanted {
            match features.check(&name, value) {
                Ok(gate) => drop(features.asked.insert(gate, value)),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() && releases.emulated.has_dependencies_of_gates() {
            errors.extend(features.unmet_dependencies());
        }
        if errors.is_empty() {
            Ok(features)
        } else {
            Err(errors)
        }
    }

    /// The gate called `name`, if the emulated release has it and allows this value.
    fn check(&self, name: &str, value: bool) -> Result<&'static str, FeatureError> {
        let gate = self
            .known_gate(name)
            .ok_or_else(|| FeatureError::Unknown(name.to_owned()))?;
        match gate.at(self.releases.emulated) {
            None => Err(FeatureError::TooNew {
                gate: name.to_owned(),
                value,
                releases: self.releases,
            }),
            Some(spec) if spec.locked && spec.default != value => {
                Err(FeatureError::Locked(name.to_owned(), value, spec.default))
            }
            Some(_) => Ok(gate.name),
        }
    }

    /// The gate called `name`, unless it is unknown or was removed before the emulated release.
    fn known_gate(&self, name: &str) -> Option<&'static Gate> {
        Gate::find(name).filter(|gate| !gate.is_removed_in(self.releases.emulated))
    }

    /// Errors of enabled gates that depend on disabled ones.
    fn unmet_dependencies(&self) -> impl Iterator<Item = FeatureError> {
        let on: Vec<_> = Gate::dependencies()
            .iter()
            .filter(|(name, _)| self.is_on(name))
            .collect();
        on.into_iter().filter_map(|(name, needed)| {
            let off: Vec<&str> = needed
                .iter()
                .copied()
                .filter(|needed| !self.is_on(needed))
                .collect();
            (!off.is_empty()).then(|| FeatureError::Depends(name, off.join(" ")))
        })
    }

    /// Whether the gate called `name` is on. A gate that is newer than the emulated release is off. One that was
    /// removed before has its last default for ever.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        let release = self.releases.emulated;
        let gate = Gate::find(name);
        let spec = gate.and_then(|gate| Some((gate, gate.at(release)?)));
        spec.is_some_and(|(gate, spec)| {
            if gate.is_removed_in(release) {
                spec.default
            } else {
                self.state(name, spec)
            }
        })
    }

    /// The release that the manager equals.
    pub(crate) fn release(&self) -> Release {
        self.releases.emulated
    }

    /// The gates that controllers read. Where the release lacks a gate that was split off, the whole feature has one.
    pub(crate) fn for_controllers(&self) -> FeatureGates {
        FeatureGates::new(|name| self.is_on(Gate::that_brings(name, self.release())))
    }

    /// The value of a gate: set by the user, else by `AllAlpha` or `AllBeta`, else the default.
    fn state(&self, name: &str, spec: &Spec) -> bool {
        let of_all = || {
            ALL.iter()
                .find(|(_, stage)| *stage == spec.stage)
                .and_then(|(all, _)| self.asked.get(all))
        };
        let is_one_of_them = || ALL.iter().any(|(all, _)| *all == name);
        let asked = self
            .asked
            .get(name)
            .or_else(|| if is_one_of_them() { None } else { of_all() });
        asked.copied().unwrap_or(spec.default)
    }

    /// The gates of the emulated release: name, stage, value.
    fn known(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> {
        let release = self.releases.emulated;
        let gates = Gate::all().iter();
        let known = gates.filter(move |gate| !gate.is_removed_in(release));
        known.filter_map(move |gate| {
            let spec = gate.at(release)?;
            Some((gate.name, spec.stage, self.state(gate.name, spec)))
        })
    }

    /// Gates that the user has set to a value that Steersman ignores.
    pub(crate) fn without_effect(&self) -> impl Iterator<Item = &'static str> {
        let asked = self.asked.iter();
        let ignored = asked.filter(|(name, asked)| {
            let fixed = effect(name).and_then(Effect::fixed_state);
            fixed.is_some_and(|state| state != **asked)
        });
        ignored.map(|(name, _)| *name)
    }

    /// Logs a warning for each stable or deprecated gate that the user has set.
    pub(crate) fn warn(&self) {
        for (name, stage, value) in self
            .known()
            .filter(|(name, ..)| self.asked.contains_key(name))
        {
            let kind = match stage {
                Stage::Stable => "GA",
                Stage::Deprecated => "deprecated",
                Stage::Alpha | Stage::Beta => continue,
            };
            tracing::info!(
                featureGate = name,
                value,
                "Warning: setting {kind} feature gate. It will be removed in a future release."
            );
        }
    }
}

/// The lines about feature gates in `--help`: alpha and beta gates only, as upstream.
pub(crate) fn help(shown: Release) -> impl Iterator<Item = String> {
    let gates = Gate::all().iter();
    let known = gates.filter(move |gate| !gate.is_removed_in(shown));
    known.filter_map(move |gate| {
        let spec = gate
            .at(shown)
            .filter(|spec| matches!(spec.stage, Stage::Alpha | Stage::Beta))?;
        Some(format!(
            "{}:{}=true|false ({} - default={})",
            versions::COMPONENT,
            gate.name,
            spec.stage.name(),
            spec.default
        ))
    })
}

/// Parses items `[component:]Gate=<bool>`. The last value of a gate counts.
fn parse(items: &[String]) -> Result<BTreeMap<String, bool>, FeatureError> {
    let split = |item: &str| match item.split_once(':') {
        Some((component, gate)) => (component.trim().to_owned(), gate.trim().to_owned()),
        None => (String::new(), item.trim().to_owned()),
    };
    let items: Vec<(String, String)> = items.iter().map(|item| split(item)).collect();
    let components: BTreeSet<&str> = items
        .iter()
        .map(|(component, _)| component.as_str())
        .collect();
    if components.contains("") && components.contains(versions::COMPONENT) {
        return Err(FeatureError::Mixed);
    }
    if let Some(unknown) = components
        .into_iter()
        .find(|component| !["", versions::COMPONENT].contains(component))
    {
        return Err(FeatureError::Component(unknown.to_owned()));
    }
    let mut gates = BTreeMap::new();
    for (_, gate) in items.into_iter().filter(|(_, gate)| !gate.is_empty()) {
        let Some((name, value)) = gate.split_once('=') else {
            return Err(FeatureError::NoValue(gate));
        };
        let name = name.trim().to_owned();
        let value = value.trim();
        let value = go_bool(value)
            .map_err(|reason| FeatureError::NoBool(name.clone(), value.to_owned(), reason))?;
        gates.insert(name, value);
    }
    Ok(gates)
}

/// The metric `kubernetes_feature_enabled`. It is rendered at each scrape, because it never changes
/// and would occupy memory.
pub(crate) struct FeatureMetric {
    features: Features,
    description: Desc,
}

impl FeatureMetric {
    const NAME: &str = "kubernetes_feature_enabled";
    const HELP: &str = "[BETA] Whether a feature gate is on, by its name and stage.";

    pub(crate) fn new(features: Features) -> Result<Self, prometheus::Error> {
        let labels = ["name", "stage"].map(str::to_owned).to_vec();
        let description = Desc::new(
            Self::NAME.to_owned(),
            Self::HELP.to_owned(),
            labels,
            Default::default(),
        )?;
        Ok(Self {
            features,
            description,
        })
    }
}

impl Collector for FeatureMetric {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.description]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let label = |name: &str, value: &str| {
            let mut label = LabelPair::default();
            label.set_name(name.to_owned());
            label.set_value(value.to_owned());
            label
        };
        let series = self.features.known().map(|(name, stage, on)| {
            let mut gauge = Gauge::default();
            gauge.set_value(if on { 1.0 } else { 0.0 });
            let mut metric =
                Metric::from_label(vec![label("name", name), label("stage", stage.name())]);
            metric.set_gauge(gauge);
            metric
        });
        let mut family = MetricFamily::default();
        family.set_name(Self::NAME.to_owned());
        family.set_help(Self::HELP.to_owned());
        family.set_field_type(MetricType::GAUGE);
        family.set_metric(series.collect());
        vec![family]
    }
}

#[cfg(test)]
mod tests {
    use steersman_options::features as of_controllers;

    use super::*;

    fn features(gates: &str, emulated: &str) -> Result<Features, String> {
        let mut options = Options::default();
        options.set("feature-gates", gates).unwrap();
        options.set("emulated-version", emulated).unwrap();
        Features::new(&options, Release::DEFAULT).map_err(|errors| {
            errors
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        })
    }

    #[test]
    fn the_number_of_gates_equals_upstreams() {
        let features = features("", "").unwrap();
        let count = |stage: Stage| features.known().filter(|(_, of, _)| *of == stage).count();
        // The observed manager had three more, added by its vendor.
        assert_eq!(features.known().count(), 245 - 3);
        assert!(
            [Stage::Alpha, Stage::Beta, Stage::Stable, Stage::Deprecated]
                .into_iter()
                .all(|stage| count(stage) > 10)
        );
        assert_eq!(
            help(Release::DEFAULT).count(),
            count(Stage::Alpha) + count(Stage::Beta)
        );
        assert!(
            help(Release::DEFAULT)
                .any(|line| line == "kube:PodDeletionCost=true|false (BETA - default=true)")
        );
    }

    #[test]
    fn states_follow_the_emulated_release_and_the_flags() {
        // (gates, emulated release, gate, state)
        let cases = [
            ("", "", "ComponentFlagz", true),
            ("", "1.35", "ComponentFlagz", false),
            ("ComponentFlagz=true", "1.35", "ComponentFlagz", true),
            ("kube:ComponentFlagz=f", "", "ComponentFlagz", false),
            (
                "ComponentFlagz=false,ComponentFlagz=true",
                "",
                "ComponentFlagz",
                true,
            ),
            (
                "AllBeta=false,StaleControllerConsistencyReplicaSet=false",
                "",
                "ComponentFlagz",
                false,
            ),
            (
                "AllBeta=false,ComponentFlagz=true",
                "",
                "ComponentFlagz",
                true,
            ),
            ("AllBeta=true", "", "CoordinatedLeaderElection", true),
            ("AllAlpha=true", "", "NativeHistograms", true),
            ("AllAlpha=true", "1.35", "NativeHistograms", false),
            ("AllAlpha=true", "", "AllAlpha", true),
            ("AllAlpha=true", "", "AllBeta", false),
            (
                "LogarithmicScaleDown=true",
                "",
                "LogarithmicScaleDown",
                true,
            ),
            ("", "", "NoSuchGate", false),
            ("JobManagedBy=false", "1.34", "JobManagedBy", false),
            ("PodIndexLabel=true", "1.34", "PodIndexLabel", true),
            ("", "1.35", "PodIndexLabel", true),
            ("", "1.37", "JobPodReplacementPolicy", true),
            ("", "1.37", "GangScheduling", false),
            ("", "1.37", "MaxUnavailableStatefulSet", true),
        ];
        for (gates, emulated, gate, state) in cases {
            assert_eq!(
                features(gates, emulated).unwrap().is_on(gate),
                state,
                "{gate} with {gates:?} at {emulated:?}"
            );
        }
    }

    #[test]
    fn invalid_gates_are_refused_with_upstreams_messages() {
        let cases = [
            (
                "NoSuchGate=true",
                "",
                "unrecognized feature gate: NoSuchGate",
            ),
            (
                "LogarithmicScaleDown=false",
                "",
                "cannot set feature gate LogarithmicScaleDown to false, feature is locked to true",
            ),
            (
                "ComponentFlagz",
                "",
                "missing bool value for ComponentFlagz",
            ),
            (
                "ComponentFlagz=maybe",
                "",
                "invalid value of ComponentFlagz=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                "NativeHistograms=true",
                "1.35",
                "cannot set feature gate NativeHistograms to true, feature is PreAlpha at emulated version 1.35, min compatibility \
                 version 1.34",
            ),
            (
                "PodIndexLabel=true",
                "1.35",
                "unrecognized feature gate: PodIndexLabel",
            ),
            ("wardle:A=true", "", "component not registered: wardle"),
            (
                "ComponentFlagz=true,kube:ComponentStatusz=true",
                "",
                "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
            ),
            (
                "AtomicFIFO=false,StaleControllerConsistencyDaemonSet=false,StaleControllerConsistencyJob=false,\
                 StaleControllerConsistencyStatefulSet=false",
                "",
                "StaleControllerConsistencyReplicaSet is enabled, but depends on features that are disabled: [AtomicFIFO]",
            ),
            (
                "A=true,B=true",
                "",
                "unrecognized feature gate: A, unrecognized feature gate: B",
            ),
        ];
        // `DRASchedulerFilterTimeout` depends on it since 1.35, and is on in 1.34.
        assert!(features("DynamicResourceAllocation=false", "1.34").is_ok());
        for (gates, emulated, error) in cases {
            assert_eq!(
                features(gates, emulated).err().as_deref(),
                Some(error),
                "{gates}"
            );
        }
    }

    #[test]
    fn gates_without_effect_are_reported() {
        let named = |gates: &str| {
            features(gates, "")
                .unwrap()
                .without_effect()
                .collect::<Vec<_>>()
        };
        assert_eq!(
            named("WatchListClient=false,ComponentFlagz=false,ContextualLogging=true"),
            [""; 0]
        );
        assert_eq!(
            named("ContextualLogging=false,NativeHistograms=true"),
            ["ContextualLogging"]
        );
    }

    #[test]
    fn controllers_read_the_values_that_were_set() {
        for gate in of_controllers::ALL {
            let known = Gate::find(gate.name).unwrap();
            let spec = known.at(Release::DEFAULT);
            let default = spec.is_some_and(|spec| spec.default);
            assert_eq!(default, gate.default, "{}", gate.name);
            assert_eq!(effect(gate.name), Some(Effect::Acts), "{}", gate.name);
            // Newer releases lock some gates. Emulate a release in which they can be set.
            let free = Release::known().find(|release| known.is_free_in(*release));
            let emulated = free.unwrap().to_string();
            let needed = Gate::dependencies()
                .iter()
                .find(|(name, _)| *name == gate.name);
            let needed = needed.into_iter().flat_map(|(_, needed)| *needed);
            let needed: String = needed.map(|gate| format!("{gate}=true,")).collect();
            let set = |to: bool| {
                features(&format!("{needed}{}={to}", gate.name), &emulated)
                    .map(|set| set.for_controllers().is_on(gate))
            };
            match set(false) {
                Ok(is_on) => assert!(!is_on, "{}", gate.name),
                Err(error) => assert!(
                    error.contains("locked") || error.contains("are disabled"),
                    "{error}"
                ),
            }
            assert_eq!(set(true), Ok(true));
        }
        // Before 1.35, one gate brings both features.
        for (gates, emulated, expected) in [
            ("", "1.34", false),
            ("DRADeviceTaints=true", "1.34", true),
            ("DRADeviceTaints=true", "1.35", false),
        ] {
            let features = features(gates, emulated).unwrap().for_controllers();
            let is_on = features.is_on(of_controllers::DRA_DEVICE_TAINT_RULES);
            assert_eq!(is_on, expected, "{gates} in {emulated}");
        }
        assert!(
            !features("", "1.33")
                .unwrap()
                .for_controllers()
                .is_on(of_controllers::POD_OBSERVED_GENERATION_TRACKING)
        );
    }
}
