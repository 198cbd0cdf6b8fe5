//! The rule of `spec.podFailurePolicy` that decides about a failed pod.
//!
//! Rules are tried in order, and the first match decides. A rule with an unknown action is skipped.
//! Upstream: `pod_failure_policy.go`.
//!
//! Policies work only with `restartPolicy: Never`, so a failed pod has its final exit codes. `end_state/`,
//! `snapshot.rs` and `tracking.rs` ask the same function, so they agree about each pod.

use steersman_objects::{
    JobSpec, OnExitCodes, OnPodCondition, Pod, PodFailurePolicyRule, TerminatedContainer,
};

/// The action of the rule that a failed pod matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// The failure does not count. For failures from outside, such as a drain of the node.
    Ignore,
    /// The failure counts. As without a policy; it ends the search for further rules.
    Count,
    /// The failure counts, and the index of the pod fails. The API server admits it only beside
    /// `backoffLimitPerIndex`.
    FailIndex,
    /// The failure counts, and the Job fails with this message. The Job ends even if its limits allow further
    /// retries.
    FailJob(String),
}

impl Action {
    /// Upstream's name of the action, which is a label of a metric.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Count => "Count",
            Self::FailIndex => "FailIndex",
            Self::FailJob(_) => "FailJob",
        }
    }
}

/// The action for the failed pod `pod`; `None` without a policy or a matching rule.
///
/// Upstream: `matchPodFailurePolicy`.
pub(super) fn action(spec: &JobSpec, pod: &Pod) -> Option<Action> {
    let rules = &spec.pod_failure_policy.as_ref()?.rules;
    let mut matching = rules
        .iter()
        .enumerate()
        .filter_map(|(position, rule)| matched(rule, position, pod));
    matching.next()
}

/// Whether the failure of `pod` counts towards the back-off limits. Only the action `Ignore`
/// prevents it. A pod without a matching rule counts.
pub(super) fn counts(spec: &JobSpec, pod: &Pod) -> bool {
    action(spec, pod) != Some(Action::Ignore)
}

/// The part of a failed pod that a rule matches.
enum Cause<'a> {
    Container(&'a TerminatedContainer),
    /// The type of a condition.
    Condition(&'a str),
}

impl Cause<'_> {
    /// The message of a Job that fails by the rule at this position.
    fn message(&self, pod: &Pod, position: usize) -> String {
        let name = format_args!("{}/{}", pod.meta.namespace, pod.meta.name);
        let rule = format_args!("matching FailJob rule at index {position}");
        match self {
            Self::Container(container) => {
                let code = container.exit_code;
                let container = &container.name;
                format!("Container {container} for pod {name} failed with exit code {code} {rule}")
            }
            Self::Condition(kind) => format!("Pod {name} has condition {kind} {rule}"),
        }
    }
}

/// The action of `rule`, at this position in the list, if `pod` matches it. A rule has either exit codes or
/// conditions; the API server refuses both together.
fn matched(rule: &PodFailurePolicyRule, position: usize, pod: &Pod) -> Option<Action> {
    let cause = match &rule.on_exit_codes {
        Some(requirement) => Cause::Container(failed_container(requirement, pod)?),
        None => Cause::Condition(matching_condition(&rule.on_pod_conditions, pod)?),
    };
    match rule.action.as_str() {
        "Ignore" => Some(Action::Ignore),
        "Count" => Some(Action::Count),
        "FailIndex" => Some(Action::FailIndex),
        "FailJob" => Some(Action::FailJob(cause.message(pod, position))),
        // An action of a later release: the next rule decides, as upstream.
        _ => None,
    }
}

/// The first container that meets the requirement. Init containers come last, as in the list of
/// terminated containers. Upstream: `matchOnExitCodes`. A container that still runs has no exit code, and so
/// it matches nothing.
fn failed_container<'a>(
    requirement: &OnExitCodes,
    pod: &'a Pod,
) -> Option<&'a TerminatedContainer> {
    let has_name = |container: &TerminatedContainer| {
        let name = requirement.container_name.as_ref();
        name.is_none_or(|name| *name == container.name)
    };
    pod.details().terminated.iter().find(|container| {
        let is_listed = requirement.values.contains(&container.exit_code);
        let meets = match requirement.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        };
        // Even `NotIn` never matches a success: the exit code 0 is no failure.
        has_name(container) && container.exit_code != 0 && meets
    })
}

/// The type of the first condition of the pod that equals one of `patterns`. Upstream:
/// `matchOnPodConditions`. The order of the pod's conditions decides, for the text of the message.
fn matching_condition<'a>(patterns: &[OnPodCondition], pod: &'a Pod) -> Option<&'a str> {
    let found = pod.conditions.iter().find(|condition| {
        patterns
            .iter()
            .any(|pattern| pattern.kind == condition.kind && pattern.status == condition.status)
    })?;
    Some(found.kind.as_str())
}

#[cfg(test)]
mod tests;
