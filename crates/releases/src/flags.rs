//! Flags of the manager that differ between releases.

use super::release::Release;

/// A flag that upstream's manager has in some of the known releases.
#[derive(Debug, Clone, Copy)]
pub struct FlagSpan {
    /// The name without dashes.
    pub name: &'static str,
    /// Minor version of the first release with the flag; 0 if all known releases have it.
    since: u64,
    /// Minor version of the first release without it again.
    until: Option<u64>,
    /// The pull request of upstream.
    pub change: &'static str,
}

const fn since(minor: u64, name: &'static str, change: &'static str) -> FlagSpan {
    FlagSpan {
        name,
        since: minor,
        until: None,
        change,
    }
}

/// The flags that some known releases lack, sorted by name. All others exist in each of them.
pub const FLAGS: &[FlagSpan] = &[
    since(35, "concurrent-device-taint-eviction-syncs", "#134152"),
    since(37, "concurrent-disruption-syncs", "#140014"),
    since(36, "concurrent-resourceclaim-syncs", "#134701"),
    FlagSpan {
        name: "concurrent-service-syncs",
        since: 0,
        until: Some(37),
        change: "#138002",
    },
    since(35, "controller-shutdown-timeout", "#132703"),
    since(35, "min-compatibility-version", "#133980"),
    since(36, "tls-curve-preferences", "#137115"),
];

impl Release {
    /// Whether upstream's manager of this release has the flag called `name`, as far as a known release has it.
    pub fn has_flag(self, name: &str) -> bool {
        let span = FLAGS.iter().find(|span| span.name == name);
        span.is_none_or(|span| {
            let minor = self.minor();
            minor >= span.since && span.until.is_none_or(|until| minor < until)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_has_its_flags() {
        assert!(FLAGS.is_sorted_by_key(|span| span.name));
        // (flag, first and last release that have it)
        let cases = [
            ("concurrent-disruption-syncs", 37, 37),
            ("concurrent-resourceclaim-syncs", 36, 37),
            ("concurrent-service-syncs", 33, 36),
            ("controller-shutdown-timeout", 35, 37),
            ("controllers", 33, 37),
        ];
        for (name, first, last) in cases {
            for minor in 33..=37 {
                let expected = (first..=last).contains(&minor);
                let has = Release::of_minor(minor).has_flag(name);
                assert_eq!(has, expected, "{name} in 1.{minor}");
            }
        }
    }
}
