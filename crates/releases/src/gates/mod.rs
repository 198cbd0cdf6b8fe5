//! Feature gates: maturity, default and lock by release.

mod table;

use super::release::Release;

/// The maturity of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Off by default.
    Alpha,
    /// Usually on by default.
    Beta,
    /// Usually locked; a later release removes the gate.
    Stable,
    /// A later release removes the feature or the gate.
    Deprecated,
}

impl Stage {
    /// The stage in metrics and help; a stable feature has an empty one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Stable => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// The properties of a gate from one release on.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Minor version of that release.
    pub since: u8,
    /// The maturity.
    pub stage: Stage,
    /// The state if nothing sets the gate.
    pub default: bool,
    /// Whether the gate can only be set to its default.
    pub locked: bool,
}

/// A feature gate with its history.
#[derive(Debug)]
pub struct Gate {
    /// Upstream's name.
    pub name: &'static str,
    /// Properties by release, oldest first.
    pub specs: &'static [Spec],
    /// Minor version of the first release that no longer knows the gate.
    pub until: Option<u8>,
}

impl Gate {
    /// All gates, sorted by name.
    pub fn all() -> &'static [Self] {
        table::GATES
    }

    /// The gate called `name`.
    pub fn find(name: &str) -> Option<&'static Self> {
        let at = table::GATES
            .binary_search_by_key(&name, |gate| gate.name)
            .ok()?;
        Some(&table::GATES[at])
    }

    /// The gate that brings the feature of the gate called `name` in `release`: that one, or the one that it was split
    /// off.
    pub fn that_brings(name: &str, release: Release) -> &str {
        let is_older = |since: u8| release.minor() < since.into();
        let split = table::SPLIT_OFF.iter();
        let mut split = split.filter(|(part, since, _)| *part == name && is_older(*since));
        split.next().map_or(name, |(.., whole)| whole)
    }

    /// Each gate that depends on others, with their names.
    pub fn dependencies() -> &'static [(&'static str, &'static [&'static str])] {
        table::DEPENDENCIES
    }

    /// The properties in `release`; `None` if the gate is newer.
    pub fn at(&self, release: Release) -> Option<&'static Spec> {
        let minor = release.minor();
        self.specs
            .iter()
            .rev()
            .find(|spec| u64::from(spec.since) <= minor)
    }

    /// Whether `release` no longer knows the gate.
    pub fn is_removed_in(&self, release: Release) -> bool {
        self.until
            .is_some_and(|until| release.minor() >= until.into())
    }

    /// Whether `release` lets a user set the gate to both values.
    pub fn is_free_in(&self, release: Release) -> bool {
        !self.is_removed_in(release) && self.at(release).is_some_and(|spec| !spec.locked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_histories_are_consistent() {
        assert!(Gate::all().is_sorted_by(|a, b| a.name < b.name));
        for gate in Gate::all() {
            let name = gate.name;
            assert!(gate.specs.is_sorted_by(|a, b| a.since < b.since), "{name}");
            let mut later = gate.specs.iter().skip_while(|spec| !spec.locked);
            assert!(
                later.all(|spec| spec.locked),
                "{name} is locked, then unlocked"
            );
            let last = gate.specs.last().unwrap();
            assert!(gate.until.is_none_or(|until| until > last.since), "{name}");
        }
        let pairs = Gate::dependencies().iter();
        let names = pairs.flat_map(|(name, needed)| needed.iter().chain([name]));
        for name in names {
            assert!(Gate::find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_feature_has_the_gate_of_the_release() {
        for (name, minor, expected) in [
            ("DRADeviceTaintRules", 33, "DRADeviceTaints"),
            ("DRADeviceTaintRules", 34, "DRADeviceTaints"),
            ("DRADeviceTaintRules", 35, "DRADeviceTaintRules"),
            ("DRADeviceTaints", 34, "DRADeviceTaints"),
        ] {
            let found = Gate::that_brings(name, Release::of_minor(minor));
            assert_eq!(found, expected, "{name} in 1.{minor}");
        }
    }

    #[test]
    fn properties_follow_the_release() {
        // (gate, minor release, default and lock if the gate exists, whether it is removed)
        let cases = [
            ("JobManagedBy", 34, Some((true, false)), false),
            ("JobManagedBy", 35, Some((true, true)), false),
            ("DRADeviceTaintRules", 34, None, false),
            ("DRADeviceTaintRules", 35, Some((false, false)), false),
            ("MaxUnavailableStatefulSet", 36, Some((false, false)), false),
            ("MaxUnavailableStatefulSet", 37, Some((true, false)), false),
            ("HPAConfigurableTolerance", 37, Some((true, true)), false),
            ("EvictionRequestAPI", 36, None, false),
            ("EvictionRequestAPI", 37, Some((false, false)), false),
            ("JobSuccessPolicy", 36, Some((true, true)), false),
            ("JobSuccessPolicy", 37, Some((true, true)), true),
            ("PodIndexLabel", 34, Some((true, true)), false),
            ("PodIndexLabel", 35, Some((true, true)), true),
        ];
        for (name, minor, expected, is_removed) in cases {
            let gate = Gate::find(name).unwrap();
            let release = Release::of_minor(minor);
            let found = gate.at(release).map(|spec| (spec.default, spec.locked));
            assert_eq!(found, expected, "{name} in 1.{minor}");
            assert_eq!(
                gate.is_removed_in(release),
                is_removed,
                "{name} in 1.{minor}"
            );
        }
    }
}
