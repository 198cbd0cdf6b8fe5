//! Feature gates: those of upstream's manager, and what was asked of them.
//!
//! table.rs (what each release has) and flags -> [`Features`] -> help, `/metrics`, `/flagz`,
//! behaviour
//!
//! A gate tells what upstream would do. Those that controllers ask for are in
//! [`steersman_runtime::features`]; [`FIXED`] lists those that concern what is here and do not
//! change it.

mod releases;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};
use steersman_runtime::features::FeatureGates;

use crate::options::{Options, go_bool};
pub use releases::{Release, Releases};

/// How far a feature has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
    Stable,
    Deprecated,
}

impl Stage {
    /// What metrics and help call it; a stable feature has no name there.
    fn name(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Stable => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// What a gate is from one release on.
#[derive(Debug, Clone, Copy)]
struct Spec {
    /// Minor number of that release.
    since: u8,
    stage: Stage,
    default: bool,
    /// Whether it can only be set to its default.
    locked: bool,
}

#[derive(Debug)]
struct Gate {
    name: &'static str,
    /// Oldest first.
    specs: &'static [Spec],
}

impl Gate {
    /// What it is in a release; `None` before there was such a gate.
    fn at(&self, minor: u8) -> Option<&'static Spec> {
        self.specs.iter().rev().find(|spec| spec.since <= minor)
    }
}

fn find(name: &str) -> Option<&'static Gate> {
    let at = table::GATES
        .binary_search_by_key(&name, |gate| gate.name)
        .ok()?;
    Some(&table::GATES[at])
}

/// Gates that set all others of one stage.
const ALL: [(&str, Stage); 2] = [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)];

/// Gates without effect: what is here is always as if they were set so. Those that only choose how
/// upstream's client library works inside, such as `AtomicFIFO`, are not among them.
const FIXED: &[(&str, bool)] = &[
    ("ClientsAllowCARotation", true),
    ("ClientsAllowCBOR", false),
    ("ClientsPreferCBOR", false),
    ("ControllerManagerReleaseLeaderElectionLockOnExit", true),
    ("CoordinatedLeaderElection", false),
    ("NativeHistograms", false),
    // No sync acts on a cache that lacks its own writes: a promise, and more than upstream's.
    ("StaleControllerConsistencyReplicaSet", true),
    ("WatchListClient", true),
];

/// Why gates or releases cannot be set so. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// A component that is not this one.
    #[error("component not registered: {0}")]
    Component(String),
    /// Our component named in two ways.
    #[error(
        "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
    )]
    Mixed,
    /// A gate without a value.
    #[error("missing bool value for {0}")]
    NoValue(String),
    /// A gate whose value is no bool.
    #[error("invalid value of {0}={1}, err: {2}")]
    NoBool(String, String, String),
    /// A gate that nobody knows.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// A gate that can no longer be changed.
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
        /// What it was to be.
        value: bool,
        /// The releases asked for.
        releases: Releases,
    },
    /// A gate that is on while others that it needs are off.
    #[error("{0} is enabled, but depends on features that are disabled: [{1}]")]
    Depends(&'static str, String),
    /// No release.
    #[error("{0}")]
    Version(String),
    /// More than a release.
    #[error("patch version not allowed, got: {component}={version}")]
    Patch {
        /// For which component.
        component: String,
        /// What was asked for.
        version: String,
    },
    /// Two releases for one component.
    #[error("duplicate version flag, {component}={first} and {component}={second}")]
    DuplicateVersion {
        /// For which component.
        component: String,
        /// The one.
        first: Release,
        /// The other.
        second: Release,
    },
    /// A release that cannot be emulated; the bounds.
    #[error("emulation version {0} is not between [{1}, {2}.0]")]
    Emulated(Release, Release, Release),
    /// A release that need not be got along with; the bounds.
    #[error("minCompatibilityVersion version {0} is not between [{1}, {2}]")]
    Compatible(Release, Release, Release),
}

/// Every gate's state.
#[derive(Debug, Clone)]
pub struct Features {
    pub(crate) releases: Releases,
    /// Gates that the user set, by name.
    asked: BTreeMap<&'static str, bool>,
}

impl Features {
    /// From `--feature-gates`, `--emulated-version` and `--min-compatibility-version`.
    pub(crate) fn new(options: &Options) -> Result<Self, Vec<FeatureError>> {
        let releases = Releases::new(
            &options.list("emulated-version"),
            &options.list("min-compatibility-version"),
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
        if errors.is_empty() {
            errors.extend(features.unmet());
        }
        if errors.is_empty() {
            Ok(features)
        } else {
            Err(errors)
        }
    }

    /// The gate called so, when the release has it and it may have this value.
    fn check(&self, name: &str, value: bool) -> Result<&'static str, FeatureError> {
        let gate = find(name).ok_or_else(|| FeatureError::Unknown(name.to_owned()))?;
        match gate.at(self.releases.minor()) {
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

    /// Gates that are on and need others that are off.
    fn unmet(&self) -> impl Iterator<Item = FeatureError> {
        let on: Vec<_> = table::DEPENDENCIES
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

    /// Whether the feature called so is on. One that the release does not have is off.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        let spec = find(name).and_then(|gate| gate.at(self.releases.minor()));
        spec.is_some_and(|spec| self.state(name, spec))
    }

    /// Those that controllers ask for.
    pub(crate) fn for_controllers(&self) -> FeatureGates {
        FeatureGates::new(|name| self.is_on(name))
    }

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

    /// The gates of the release: name, stage, whether it is on.
    fn known(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> {
        let minor = self.releases.minor();
        table::GATES.iter().filter_map(move |gate| {
            let spec = gate.at(minor)?;
            Some((gate.name, spec.stage, self.state(gate.name, spec)))
        })
    }

    /// Gates that were set to what is not done here.
    pub(crate) fn without_effect(&self) -> impl Iterator<Item = &'static str> {
        FIXED
            .iter()
            .filter(|(name, done)| self.asked.get(name).is_some_and(|asked| asked != done))
            .map(|(name, _)| *name)
    }

    /// Tells of gates that were set although they are on their way out.
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

/// What `--help` says of the gates that are worth a choice: a line for each.
pub(crate) fn help() -> impl Iterator<Item = String> {
    let newest = u8::MAX;
    table::GATES.iter().filter_map(move |gate| {
        let spec = gate
            .at(newest)
            .filter(|spec| matches!(spec.stage, Stage::Alpha | Stage::Beta))?;
        Some(format!(
            "{}:{}=true|false ({} - default={})",
            releases::COMPONENT,
            gate.name,
            spec.stage.name(),
            spec.default
        ))
    })
}

/// `[component:]Gate=<bool>`, each; the last value of a gate counts.
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
    if components.contains("") && components.contains(releases::COMPONENT) {
        return Err(FeatureError::Mixed);
    }
    if let Some(unknown) = components
        .into_iter()
        .find(|component| !["", releases::COMPONENT].contains(component))
    {
        return Err(FeatureError::Component(unknown.to_owned()));
    }
    let mut gates = BTreeMap::new();
    for (_, gate) in items.into_iter().filter(|(_, gate)| !gate.is_empty()) {
        let Some((name, value)) = gate.split_once('=') else {
            return Err(FeatureError::NoValue(gate));
        };
        let (name, value) = (name.trim().to_owned(), value.trim());
        let value = go_bool(value)
            .map_err(|reason| FeatureError::NoBool(name.clone(), value.to_owned(), reason))?;
        gates.insert(name, value);
    }
    Ok(gates)
}

/// `kubernetes_feature_enabled`: made for each scrape, as it never changes and is long.
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
    use steersman_runtime::features as of_controllers;

    use super::*;

    fn features(gates: &str, emulated: &str) -> Result<Features, String> {
        let mut options = Options::default();
        options.set("feature-gates", gates).unwrap();
        options.set("emulated-version", emulated).unwrap();
        Features::new(&options).map_err(|errors| {
            errors
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        })
    }

    #[test]
    fn the_table_is_sorted_and_every_history_is_one() {
        assert!(table::GATES.is_sorted_by_key(|gate| gate.name));
        for gate in table::GATES {
            assert!(
                gate.specs.is_sorted_by(|a, b| a.since < b.since),
                "{}",
                gate.name
            );
            let unlocked = gate
                .specs
                .iter()
                .skip_while(|spec| !spec.locked)
                .find(|spec| !spec.locked);
            assert!(unlocked.is_none(), "{} is unlocked again", gate.name);
        }
        let names = table::DEPENDENCIES
            .iter()
            .flat_map(|(name, needed)| needed.iter().chain([name]));
        for name in names.copied().chain(FIXED.iter().map(|(name, _)| *name)) {
            assert!(find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_manager_of_today_has_as_many_gates_as_upstreams() {
        let features = features("", "").unwrap();
        let count = |stage: Stage| features.known().filter(|(_, of, _)| *of == stage).count();
        // Three more on the manager that was looked at are its vendor's.
        assert_eq!(features.known().count(), 245 - 3);
        assert!(
            [Stage::Alpha, Stage::Beta, Stage::Stable, Stage::Deprecated]
                .into_iter()
                .all(|stage| count(stage) > 10)
        );
        assert_eq!(help().count(), count(Stage::Alpha) + count(Stage::Beta));
        assert!(help().any(|line| line == "kube:PodDeletionCost=true|false (BETA - default=true)"));
    }

    #[test]
    fn gates_are_what_the_release_makes_of_them_and_what_was_asked() {
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
            ("", "", "NobodyKnows", false),
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
    fn what_cannot_be_set_is_refused_in_upstreams_words() {
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
        for (gates, emulated, error) in cases {
            assert_eq!(
                features(gates, emulated).err().as_deref(),
                Some(error),
                "{gates}"
            );
        }
    }

    #[test]
    fn gates_that_change_nothing_here_are_named() {
        let named = |gates: &str| {
            features(gates, "")
                .unwrap()
                .without_effect()
                .collect::<Vec<_>>()
        };
        assert_eq!(
            named("WatchListClient=true,ComponentFlagz=false,PodDeletionCost=false"),
            [""; 0]
        );
        assert_eq!(
            named("WatchListClient=false,NativeHistograms=true"),
            ["NativeHistograms", "WatchListClient"]
        );
    }

    #[test]
    fn controllers_see_the_gates_as_they_were_set() {
        for gate in of_controllers::ALL {
            let spec = find(gate.name).and_then(|gate| gate.at(u8::MAX)).unwrap();
            assert_eq!(spec.default, gate.default, "{}", gate.name);
            assert!(
                FIXED.iter().all(|(name, _)| *name != gate.name),
                "{} acts",
                gate.name
            );
            // Some are locked in later releases.
            let emulated = if spec.locked { "1.34" } else { "" };
            let set = |to: bool| {
                features(&format!("{}={to}", gate.name), emulated)
                    .map(|set| set.for_controllers().is_on(gate))
            };
            match set(false) {
                Ok(is_on) => assert!(!is_on, "{}", gate.name),
                Err(error) => assert!(error.contains("locked"), "{error}"),
            }
            assert_eq!(set(true), Ok(true));
        }
        assert!(
            !features("", "1.33")
                .unwrap()
                .for_controllers()
                .is_on(of_controllers::POD_OBSERVED_GENERATION_TRACKING)
        );
    }
}
