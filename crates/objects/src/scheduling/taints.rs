//! Taints of nodes, and the tolerations of pods.
//!
//! Upstream: `ToleratesTaint` in `toleration.go` of `k8s.io/api/core/v1`, and
//! `FindMatchingUntoleratedTaint` in `helpers.go`.

use std::cmp::Ordering;

use steersman_options::features::{FeatureGates, TAINT_TOLERATION_COMPARISON_OPERATORS};

use crate::{Taint, Toleration};

/// Whether the operators `Gt` and `Lt` of tolerations compare numbers: the feature gate
/// `TaintTolerationComparisonOperators`. Otherwise a toleration with them tolerates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparisons {
    /// `Gt` and `Lt` compare numbers.
    Enabled,
    /// `Gt` and `Lt` tolerate nothing.
    Disabled,
}

impl Comparisons {
    /// As the feature gate says.
    pub fn of(features: &FeatureGates) -> Self {
        if features.is_on(TAINT_TOLERATION_COMPARISON_OPERATORS) {
            Self::Enabled
        } else {
            Self::Disabled
        }
    }
}

/// Whether `toleration` tolerates `taint`. An empty effect or key matches all effects or keys.
/// `tolerationSeconds` has no influence.
pub fn tolerates(toleration: &Toleration, taint: &Taint, comparisons: Comparisons) -> bool {
    let is_other = |wanted: &str, found: &str| !wanted.is_empty() && wanted != found;
    if is_other(&toleration.effect, &taint.effect) || is_other(&toleration.key, &taint.key) {
        return false;
    }
    match toleration.operator.as_str() {
        "" | "Equal" => toleration.value == taint.value,
        "Exists" => true,
        "Gt" => comparisons == Comparisons::Enabled && is(taint, Ordering::Greater, toleration),
        "Lt" => comparisons == Comparisons::Enabled && is(taint, Ordering::Less, toleration),
        _ => false,
    }
}

/// Whether the values of `taint` and `toleration` are numbers with this order.
fn is(taint: &Taint, order: Ordering, toleration: &Toleration) -> bool {
    match (decimal(&taint.value), decimal(&toleration.value)) {
        (Some(taint), Some(toleration)) => taint.cmp(&toleration) == order,
        _ => false,
    }
}

/// A decimal number in its shortest form. Upstream: `IsDecimalInteger`.
fn decimal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_shortest = digits.starts_with(|c: char| ('1'..='9').contains(&c)) || text == "0";
    text.parse().ok().filter(|_| is_shortest)
}

/// The first of `taints` that none of `tolerations` tolerates.
pub fn untolerated<'a>(
    taints: impl IntoIterator<Item = &'a Taint>,
    tolerations: &[Toleration],
    comparisons: Comparisons,
) -> Option<&'a Taint> {
    let is_tolerated = |taint: &Taint| {
        tolerations
            .iter()
            .any(|toleration| tolerates(toleration, taint, comparisons))
    };
    taints.into_iter().find(|taint| !is_tolerated(taint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        Taint {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
        }
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        Toleration {
            key: key.into(),
            operator: operator.into(),
            value: value.into(),
            effect: effect.into(),
            toleration_seconds: None,
        }
    }

    const NO_SCHEDULE: &str = "NoSchedule";
    const SLA: &str = "node.kubernetes.io/sla";

    #[test]
    fn toleration_tolerates_taint() {
        let foo = |operator, value| toleration("foo", operator, value, NO_SCHEDULE);
        let bar = || taint("foo", "bar", NO_SCHEDULE);
        // (description, toleration, taint, tolerated)
        let cases = [
            (
                "same key and effect, Exists, taint without value",
                foo("Exists", ""),
                taint("foo", "", NO_SCHEDULE),
                true,
            ),
            (
                "same key and effect, Exists, taint with a value",
                foo("Exists", ""),
                bar(),
                true,
            ),
            (
                "same effect, empty key, Exists",
                toleration("", "Exists", "", NO_SCHEDULE),
                bar(),
                true,
            ),
            (
                "same key, effect and value, Equal",
                foo("Equal", "bar"),
                bar(),
                true,
            ),
            (
                "different values, Equal",
                foo("Equal", "value1"),
                taint("foo", "value2", NO_SCHEDULE),
                false,
            ),
            (
                "different effects, Equal",
                foo("Equal", "bar"),
                taint("foo", "bar", "NoExecute"),
                false,
            ),
            // Not upstream's:
            ("no operator means Equal", foo("", "bar"), bar(), true),
            (
                "no effect",
                toleration("foo", "Exists", "", ""),
                bar(),
                true,
            ),
            ("other key", toleration("x", "Exists", "", ""), bar(), false),
            ("unknown operator", foo("Near", "bar"), bar(), false),
        ];
        for (description, toleration, taint, expected) in cases {
            for comparisons in [Comparisons::Enabled, Comparisons::Disabled] {
                assert_eq!(
                    tolerates(&toleration, &taint, comparisons),
                    expected,
                    "{description}"
                );
            }
        }
    }

    /// The cases with `Gt` and `Lt` of `TestTolerationToleratesTaint`, and those of
    /// `TestCompareNumericValues`.
    #[test]
    fn compare_numeric_values() {
        // (operator, value of the toleration, value of the taint, tolerated)
        let cases = [
            ("Gt", "950", "800", false),
            ("Gt", "750", "950", true),
            ("Lt", "800", "950", false),
            ("Lt", "950", "800", true),
            ("Gt", "950", "950", false),
            ("Gt", "950", "high", false),
            ("Gt", "-100", "-200", false),
            ("Gt", "9223372036854775806", "100", false),
            ("Gt", "100", "200", true),
            ("Gt", "200", "100", false),
            ("Gt", "100", "100", false),
            ("Gt", "-100", "-50", true),
            ("Gt", "-50", "-100", false),
            ("Gt", "0", "1", true),
            ("Gt", "9223372036854775806", "9223372036854775807", true),
            ("Lt", "200", "100", true),
            ("Lt", "100", "200", false),
            ("Lt", "low", "1", false),
            ("Lt", "0100", "1", false),
            ("Lt", "100", "01", false),
            ("Lt", "9223372036854775808", "1", false),
        ];
        for (operator, value, taint_value, expected) in cases {
            let toleration = toleration(SLA, operator, value, NO_SCHEDULE);
            let taint = taint(SLA, taint_value, NO_SCHEDULE);
            let found = tolerates(&toleration, &taint, Comparisons::Enabled);
            assert_eq!(found, expected, "{taint_value} {operator} {value}");
            assert!(
                !tolerates(&toleration, &taint, Comparisons::Disabled),
                "the gate is off"
            );
        }
    }

    #[test]
    fn find_matching_untolerated_taint() {
        let exists = |effect| vec![toleration("foo", "Exists", "", effect)];
        let sla = |operator, value| vec![toleration(SLA, operator, value, NO_SCHEDULE)];
        let all: fn(&&Taint) -> bool = |_| true;
        let none: fn(&&Taint) -> bool = |_| false;
        let no_execute: fn(&&Taint) -> bool = |taint| taint.effect == *"NoExecute";
        // (description, tolerations, taints, filter, tolerated)
        let cases = [
            (
                "empty tolerations tolerate empty taints",
                vec![],
                vec![],
                all,
                true,
            ),
            (
                "non-empty tolerations tolerate empty taints",
                exists(NO_SCHEDULE),
                vec![],
                all,
                true,
            ),
            (
                "tolerations match all taints",
                exists(NO_SCHEDULE),
                vec![taint("foo", "", NO_SCHEDULE)],
                all,
                true,
            ),
            (
                "tolerations don't match taints, but no taints apply to the filter",
                exists(NO_SCHEDULE),
                vec![taint("bar", "", NO_SCHEDULE)],
                none,
                true,
            ),
            (
                "no filterFunc indicated, tolerations don't match taints",
                exists(NO_SCHEDULE),
                vec![taint("bar", "", NO_SCHEDULE)],
                all,
                false,
            ),
            (
                "tolerations match the taints of the filter",
                exists("NoExecute"),
                vec![taint("foo", "", "NoExecute"), taint("bar", "", NO_SCHEDULE)],
                no_execute,
                true,
            ),
            (
                "numeric Gt operator with taint value below threshold",
                sla("Gt", "950"),
                vec![taint(SLA, "800", NO_SCHEDULE)],
                all,
                false,
            ),
            (
                "numeric Gt operator with taint value above threshold",
                sla("Gt", "750"),
                vec![taint(SLA, "950", NO_SCHEDULE)],
                all,
                true,
            ),
            (
                "numeric Lt operator with taint value above threshold",
                sla("Lt", "800"),
                vec![taint(SLA, "950", NO_SCHEDULE)],
                all,
                false,
            ),
            (
                "numeric Gt operator with non-numeric taint value",
                sla("Gt", "950"),
                vec![taint(SLA, "high", NO_SCHEDULE)],
                all,
                false,
            ),
        ];
        for (description, tolerations, taints, filter, expected) in cases {
            let found = untolerated(
                taints.iter().filter(filter),
                &tolerations,
                Comparisons::Enabled,
            );
            assert_eq!(found.is_none(), expected, "{description}");
        }
    }
}
