//! The restart of a container that has exited: by its rules, its restart policy, or that of the pod.
//!
//! A rule can restart all containers of the pod. The node then reports the exit (`AllContainersRestarting`),
//! removes all containers, and starts them again from the first init container on. Upstream:
//! `ContainerShouldRestart` in `pkg/api/v1/pod`, `ShouldAllContainersRestart` in `pkg/kubelet/container`.

use serde::Deserialize;

/// The condition of pods with a rule that restarts all containers.
pub(super) const ALL_RESTARTING: &str = "AllContainersRestarting";
/// The reason of containers that have been removed to start again.
pub(super) const REMOVED: &str = "RestartingAllContainers";

/// `restartPolicy` and `restartPolicyRules` of a container.
#[derive(Debug, Clone, Default)]
pub(super) struct Restarts {
    policy: Option<Box<str>>,
    rules: Box<[Rule]>,
}

impl Restarts {
    pub(super) fn new(policy: Option<Box<str>>, rules: Box<[Rule]>) -> Self {
        Self { policy, rules }
    }

    /// Whether the own restart policy is `Always`, as that of sidecars.
    pub(super) fn are_always(&self) -> bool {
        self.policy.as_deref() == Some("Always")
    }

    /// Whether the container starts again after an exit with this code. `of_pod` is the restart policy of the
    /// pod.
    pub(super) fn follow(&self, code: i32, of_pod: &str) -> bool {
        let own = self.policy.as_deref();
        let by_rule = matches!(
            self.action(code),
            Some(Action::Restart | Action::RestartAllContainers)
        );
        // Rules count beside an own policy only.
        if own.is_some() && by_rule {
            return true;
        }
        match own.unwrap_or(of_pod) {
            "Never" => false,
            "OnFailure" => code != 0,
            _ => true,
        }
    }

    /// Whether an exit with this code restarts all containers of the pod.
    pub(super) fn are_of_all(&self, code: i32) -> bool {
        self.action(code) == Some(Action::RestartAllContainers)
    }

    /// Whether some exit restarts all containers of the pod.
    pub(super) fn can_be_of_all(&self) -> bool {
        let is_of_all = |rule: &Rule| rule.action == Action::RestartAllContainers;
        self.rules.iter().any(is_of_all)
    }

    /// The action of the first rule that fits the exit code.
    fn action(&self, code: i32) -> Option<Action> {
        let rule = self.rules.iter().find(|rule| rule.fits(code))?;
        Some(rule.action)
    }
}

/// A rule about exit codes.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rule {
    action: Action,
    #[serde(default)]
    exit_codes: Codes,
}

/// The action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Action {
    Restart,
    RestartAllContainers,
    /// An action that newer API servers know. The restart policy decides.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Codes {
    operator: Box<str>,
    values: Box<[i32]>,
}

impl Rule {
    /// Whether the rule applies to an exit with this code.
    fn fits(&self, code: i32) -> bool {
        let is_listed = self.exit_codes.values.contains(&code);
        match &*self.exit_codes.operator {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A rule of a container with the restart policy `Never`: action, operator and codes.
    type Given<'a> = (&'a str, &'a str, &'a [i32]);

    fn rules(given: &[Given<'_>]) -> Box<[Rule]> {
        let json = given.iter().map(|(action, operator, values)| {
            json!({"action": action, "exitCodes": {"operator": operator, "values": values}})
        });
        serde_json::from_value(json.collect::<Value>()).unwrap()
    }

    #[test]
    fn rules_precede_the_policies_of_container_and_pod() {
        let restart = ("Restart", "In", &[42, 43][..]);
        let others = ("Restart", "NotIn", &[1, 2][..]);
        let all = ("RestartAllContainers", "In", &[42][..]);
        let unknown = ("Explode", "In", &[42][..]);
        let unclear = ("Restart", "Near", &[42][..]);
        let never = Some("Never");
        // (own policy, rules, policy of the pod, codes with a restart, codes that restart all)
        let cases: [(Option<&str>, &[Given<'_>], &str, &[i32], &[i32]); 10] = [
            (None, &[], "Always", &[0, 1, 42], &[]),
            (None, &[], "OnFailure", &[1, 42], &[]),
            (None, &[], "Never", &[], &[]),
            (never, &[], "Always", &[], &[]),
            (Some("OnFailure"), &[], "Never", &[1, 42], &[]),
            (never, &[restart], "Never", &[42], &[]),
            (never, &[others], "Never", &[0, 42], &[]),
            (never, &[restart, all], "Never", &[42], &[]),
            (never, &[unclear, all], "Never", &[42], &[42]),
            (never, &[unknown, all], "Never", &[], &[]),
        ];
        for (own, given, of_pod, follow, of_all) in cases {
            let restarts = Restarts::new(own.map(Box::from), rules(given));
            let codes = |is_such: &dyn Fn(i32) -> bool| -> Vec<i32> {
                let codes = [0, 1, 42].into_iter();
                codes.filter(|code| is_such(*code)).collect()
            };
            let why = format!("{own:?} {given:?} {of_pod}");
            assert_eq!(
                codes(&|code| restarts.follow(code, of_pod)),
                follow,
                "{why}"
            );
            assert_eq!(codes(&|code| restarts.are_of_all(code)), of_all, "{why}");
            assert_eq!(restarts.can_be_of_all(), given.contains(&all), "{why}");
        }
    }
}
