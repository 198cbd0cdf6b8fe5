//! The rule of `spec.successPolicy` that the succeeded indexes meet.
//!
//! Upstream: `success_policy.go`.

use steersman_objects::SuccessPolicy;

use super::indexes::Indexes;

/// The position of the first rule that the indexes `succeeded` meet. A rule with malformed indexes
/// is skipped.
pub(super) fn matching_rule(
    policy: &SuccessPolicy,
    completions: i64,
    succeeded: &Indexes,
) -> Option<usize> {
    if succeeded.is_empty() {
        return None;
    }
    policy.rules.iter().position(|rule| {
        let is_enough = |count: i64| rule.succeeded_count.is_some_and(|n| count >= i64::from(n));
        let Some(text) = &rule.succeeded_indexes else {
            return is_enough(succeeded.len());
        };
        let required = Indexes::parse(text, completions);
        let common = required.common(succeeded);
        !required.is_empty() && (common == required.len() || is_enough(common))
    })
}

#[cfg(test)]
mod tests;
