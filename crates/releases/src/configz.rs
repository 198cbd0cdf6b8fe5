//! Fields of `/configz` that only some releases have, and their names in older releases.
//!
//! Upstream: `KubeControllerManagerConfiguration` in `k8s.io/kube-controller-manager/config/v1alpha1`, as the answers of
//! 1.34.8, 1.35.5 and 1.36.2 show it.

use super::release::Release;

/// Paths of fields, with the minor version of the first release that has them and upstream's change. All others exist
/// in each known release.
// One line per field keeps this readable as a table.
#[rustfmt::skip]
pub const CONFIGZ: &[(&str, u64, &str)] = &[
    ("DeviceTaintEvictionController.ConcurrentSyncs", 35, "#134152"),
    ("DisruptionController.ConcurrentDisruptionSyncs", 37, "#140014"),
    ("NodeLifecycleController.NodeMonitorPeriod", 37, "#137964"),
    ("NodeLifecycleController.PodEvictionTimeout", 36, "#136044"),
    ("ResourceClaimController.ConcurrentSyncs", 36, "#134701"),
    ("apiVersion", 36, "#136044"),
    ("kind", 36, "#136044"),
];

impl Release {
    /// Whether `/configz` of this release has the field at `path`, if the newest known release has it.
    pub fn has_configz_field(self, path: &str) -> bool {
        let since = CONFIGZ.iter().find(|(of, ..)| *of == path);
        since.is_none_or(|(_, since, _)| self.minor() >= *since)
    }

    /// The name of a field of `/configz` in this release. Up to 1.35, upstream shows its internal type, whose names
    /// all begin with a capital.
    pub fn configz_name(self, name: &str) -> String {
        if self >= Self::of_minor(36) {
            return name.to_owned();
        }
        match name {
            "qps" => name.to_uppercase(),
            name => name[..1].to_uppercase() + &name[1..],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_names_follow_the_release() {
        assert!(CONFIGZ.is_sorted_by(|a, b| a.0 < b.0));
        let cases = [
            ("kind", 35, false),
            ("kind", 36, true),
            ("DisruptionController.ConcurrentDisruptionSyncs", 36, false),
            ("DisruptionController.ConcurrentDisruptionSyncs", 37, true),
            ("Generic.ClientConnection.qps", 33, true),
        ];
        for (path, minor, expected) in cases {
            let has = Release::of_minor(minor).has_configz_field(path);
            assert_eq!(has, expected, "{path} in 1.{minor}");
        }
        let names = [
            ("qps", 35, "QPS"),
            ("qps", 36, "qps"),
            ("enableProfiling", 34, "EnableProfiling"),
            ("Generic", 34, "Generic"),
        ];
        for (name, minor, expected) in names {
            assert_eq!(
                Release::of_minor(minor).configz_name(name),
                expected,
                "{name}"
            );
        }
    }
}
