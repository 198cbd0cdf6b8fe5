//! The rule of `spec.successPolicy` that the succeeded indexes meet.
//!
//! Upstream: `success_policy.go`.
//!
//! A policy ends an Indexed Job before all indexes have succeeded, for example after the leader of a group. A
//! Job without a policy ends by its completions alone.

use steersman_objects::SuccessPolicy;

use super::indexes::Indexes;

/// The position of the first rule that the indexes `succeeded` meet. A rule with malformed indexes
/// is skipped.
///
/// Upstream: `matchSuccessPolicy`. A rule may have indexes, a count, or both. With both, that many of the
/// listed indexes are enough.
pub(super) fn matching_rule(
    policy: &SuccessPolicy,
    completions: i64,
    succeeded: &Indexes,
) -> Option<usize> {
    // Without a success, no rule is met, not even one with a count of 0.
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
        // All listed indexes, or enough of them. Malformed text gives an empty set, which would be met at
        // once.
        !required.is_empty() && (common == required.len() || is_enough(common))
    })
}

#[cfg(test)]
mod tests;
