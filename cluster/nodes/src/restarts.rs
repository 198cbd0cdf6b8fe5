//! The restart of a container that has exited: rules of the container, its restart policy, or that of the pod.
//!
//! A rule can restart all containers of the pod. The node then reports the exit (`AllContainersRestarting`),
//! removes all containers, and starts them again from the first init container on. Upstream:
//! `ContainerShouldRestart` in `pkg/api/v1/pod`, `ShouldAllContainersRestart` in `pkg/kubelet/container`.

use super::pod::{Container, Reported, SimPod};
use super::restart_rules::{Action, Rule};

/// The condition of pods with a rule that restarts all containers.
pub(super) const ALL_RESTARTING: &str = "AllContainersRestarting";

impl Container {
    /// The action of the first rule that fits the exit code.
    fn action(&self, code: i32) -> Option<Action> {
        let rule = self.restart_rules.iter().find(|rule| rule.fits(code))?;
        Some(rule.action)
    }

    /// Whether an exit with this code restarts all containers of the pod.
    pub(super) fn restarts_all(&self, code: i32) -> bool {
        self.action(code) == Some(Action::RestartAllContainers)
    }

    /// Whether the container starts again after an exit with this code. `of_pod` is the restart policy of the
    /// pod.
    pub(super) fn restarts(&self, code: i32, of_pod: &str) -> bool {
        let own = self.restart_policy.as_deref();
        if own.is_some()
            && let Some(Action::Restart | Action::RestartAllContainers) = self.action(code)
        {
            return true;
        }
        match own.unwrap_or(of_pod) {
            "Never" => false,
            "OnFailure" => code != 0,
            _ => true,
        }
    }
}

impl SimPod {
    /// Whether an exit of one of its containers can restart all of them. Such pods have a condition about it.
    pub(super) fn can_restart_all(&self) -> bool {
        let mut containers = self.init_containers.iter().chain(&self.containers);
        let is_such = |rule: &Rule| rule.action == Action::RestartAllContainers;
        containers.any(|container| container.restart_rules.iter().any(is_such))
    }

    /// Whether a container has exited so that all containers restart, and they have not been removed yet.
    pub(super) fn restarts_all(&self) -> bool {
        self.can_restart_all() && self.pod.conditions.is_true(ALL_RESTARTING)
    }

    /// Whether its containers have been removed, and none has started again.
    pub(super) fn is_removed(&self) -> bool {
        self.reported.iter().any(Reported::is_removed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(fields: &Value) -> Container {
        let mut json = json!({"name": "c"});
        json_patch::merge(&mut json, fields);
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn rules_precede_the_policies_of_container_and_pod() {
        let rule = |action: &str, operator: &str, codes: &[i32]| json!({"action": action, "exitCodes": {"operator": operator, "values": codes}});
        let with = |policy: &str, rules: &[Value]| json!({"restartPolicy": policy, "restartPolicyRules": rules});
        let restart = rule("Restart", "In", &[42, 43]);
        let others = rule("Restart", "NotIn", &[1, 2]);
        let all = rule("RestartAllContainers", "In", &[42]);
        let unknown = rule("Explode", "In", &[42]);
        // (why, container, restart policy of the pod, codes with a restart, codes that restart all)
        let cases: [(&str, Value, &str, &[i32], &[i32]); 9] = [
            ("pod: Always", json!({}), "Always", &[0, 1, 42], &[]),
            ("pod: OnFailure", json!({}), "OnFailure", &[1, 42], &[]),
            ("pod: Never", json!({}), "Never", &[], &[]),
            ("own: Never", with("Never", &[]), "Always", &[], &[]),
            (
                "own: OnFailure",
                with("OnFailure", &[]),
                "Never",
                &[1, 42],
                &[],
            ),
            (
                "some codes",
                with("Never", std::slice::from_ref(&restart)),
                "Never",
                &[42],
                &[],
            ),
            (
                "other codes",
                with("Never", &[others]),
                "Never",
                &[0, 42],
                &[],
            ),
            (
                "the first rule counts",
                with("Never", &[restart, all.clone()]),
                "Never",
                &[42],
                &[],
            ),
            (
                "all",
                with("Never", &[unknown.clone(), all]),
                "Never",
                &[],
                &[],
            ),
        ];
        for (why, fields, policy, restarts, all) in cases {
            let container = container(&fields);
            let codes = [0, 1, 42];
            let found: Vec<i32> = codes
                .into_iter()
                .filter(|code| container.restarts(*code, policy))
                .collect();
            assert_eq!(found, restarts, "{why}");
            let found: Vec<i32> = codes
                .into_iter()
                .filter(|code| container.restarts_all(*code))
                .collect();
            assert_eq!(found, all, "{why}");
        }
        let all = rule("RestartAllContainers", "NotIn", &[0]);
        let container = container(&with("Never", &[all]));
        assert!(container.restarts(42, "Never") && container.restarts_all(42));
        assert!(!container.restarts_all(0));
    }
}
