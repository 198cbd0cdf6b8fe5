//! Evictions: deletions that a PodDisruptionBudget may refuse.
//!
//! pod -> (ended or pending: delete) -> budget that selects it -> one disruption less -> mark ->
//! delete
//!
//! The budget is changed before the pod. So two evictions at once cannot use one disruption, and the
//! disruption controller knows the pod before it sees the deletion.
//!
//! Upstream is `pkg/registry/core/pod/storage/eviction.go`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::commit::NotWritten;
use super::delete::{DeleteOptions, check_preconditions};
use super::subresources::set_condition;
use super::update::NewState;
use super::{Answer, Call, Server, decode, metadata};
use crate::defaults;
use crate::fielderror::{FieldError, Problem};
use crate::route::Target;
use crate::selectors::selects;
use crate::status::{self, Qualified, Status};
use crate::store::Object;

/// `Retry-After` in seconds while the status of the budget is outdated.
const BEHIND_RETRY_SECONDS: u32 = 10;

/// Attempts of an eviction that races with other writes of the pod. Upstream: `EvictionsRetry`.
const TRIES: usize = 20;

/// The most entries of `disruptedPods`. More of them mean that no controller reviews the budget.
const MOST_DISRUPTED: usize = 2000;

/// The reason why a pod may be evicted.
enum Permit {
    /// No budget selects the pod, or a budget has given one of its disruptions.
    Granted,
    /// The pod is not ready, and the budget of this name permits the eviction of such pods. The pod
    /// must not become ready meanwhile.
    Unhealthy(String),
}

impl Server {
    /// Answers an eviction: takes a disruption from the budget, marks the pod, and deletes it.
    pub(super) fn evict(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let eviction = decode::part("policy", "Eviction", call.content_type, &call.body)?;
        check_version(&eviction)?;
        if metadata::text(&eviction, "name") != call.target.name {
            return Err(Status::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        refuse_unsafe_deletion(&eviction, &call.target.name)?;
        let mut options = DeleteOptions::from_value(&eviction["deleteOptions"])?;
        // Upstream checks the propagation policy after it has written the condition. The early
        // check leaves pod and budget unchanged when it fails.
        options.check()?;
        options.dry_run |= call.query.dry_run("CreateOptions")?;
        let pod = Target {
            subresource: None,
            ..call.target.clone()
        };
        let current = match self.evict_without_budget(&pod, &options)? {
            None => return Ok(Answer::value(201, status::created())),
            Some(current) => current,
        };
        let permit = self.ask_budget(&pod, &current, options.dry_run)?;
        let Permit::Unhealthy(budget) = permit else {
            self.mark_and_delete(&pod, &options)?;
            return Ok(Answer::value(201, status::created()));
        };
        let mut unchanged = options.clone();
        unchanged.revision = Some(current.revision.to_string());
        match self.mark_and_delete(&pod, &unchanged) {
            Err(status) if is_conflict(&status) && options.revision.is_none() => {
                Err(being_processed(&budget))
            }
            deleted => deleted.map(|()| Answer::value(201, status::created())),
        }
    }

    /// Deletes a pod that needs no budget. Otherwise returns the pod.
    ///
    /// A pending pod may become ready at any time, so it is deleted in the version that was
    /// checked.
    fn evict_without_budget(
        &self,
        pod: &Target,
        options: &DeleteOptions,
    ) -> Result<Option<Arc<Object>>, Status> {
        let mut tries = 1;
        loop {
            let current = self.existing(pod)?;
            let value = current.to_value();
            let is_ended = current.deleting
                || matches!(
                    value["status"]["phase"].as_str(),
                    Some("Succeeded" | "Failed")
                );
            if !is_ended && value["status"]["phase"] != "Pending" {
                return Ok(Some(current));
            }
            let mut exact = options.clone();
            if !is_ended && exact.revision.is_none() {
                exact.revision = Some(current.revision.to_string());
            }
            match self.mark_and_delete(pod, &exact) {
                Err(status)
                    if is_conflict(&status) && options.revision.is_none() && tries < TRIES =>
                {
                    tries += 1;
                }
                deleted => return deleted.map(|()| None),
            }
        }
    }

    /// Asks the budget that selects the pod, if there is one.
    fn ask_budget(&self, pod: &Target, current: &Object, dry_run: bool) -> Result<Permit, Status> {
        let budgets = self
            .registry
            .find("policy", "v1", "poddisruptionbudgets")
            .expect("budgets are built in");
        let selecting =
            |budget: &Arc<Object>| selects(&budget.to_value()["spec"]["selector"], current);
        let all = budgets.store.list(&self.revisions, &pod.prefix()).objects;
        let mut matching: Vec<Arc<Object>> = all.into_iter().filter(selecting).collect();
        if matching.len() > 1 {
            return Err(Status::unclassified(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        let Some(mut budget) = matching.pop() else {
            return Ok(Permit::Granted);
        };
        let target = Target {
            entry: budgets.clone(),
            name: budget.name().to_owned(),
            ..pod.clone()
        };
        if !is_ready(&current.to_value()) && permits_unhealthy(&budget.to_value()) {
            return Ok(Permit::Unhealthy(target.name));
        }
        loop {
            match self.take_disruption(&pod.name, &target, &budget, dry_run) {
                Ok(()) => return Ok(Permit::Granted),
                Err(NotWritten::Refused(status)) => return Err(status),
                Err(NotWritten::Raced) => {}
            }
            let Some(newer) = budgets.store.get(&target.key()) else {
                return Err(Status::not_found(target.resource().named(), &target.name));
            };
            budget = newer;
        }
    }

    /// Decrements `disruptionsAllowed` and records the pod in `disruptedPods`, or refuses the
    /// eviction.
    fn take_disruption(
        &self,
        pod: &str,
        target: &Target,
        budget: &Arc<Object>,
        dry_run: bool,
    ) -> Result<(), NotWritten> {
        let old = budget.to_value();
        check_disruptions(&target.name, &old)?;
        if dry_run {
            return Ok(());
        }
        let status = &old["status"];
        let left = number(status, "disruptionsAllowed") - 1;
        let now = metadata::time(self.clock.now());
        let mut new = old.clone();
        new["status"]["disruptionsAllowed"] = Value::from(left);
        new["status"]["disruptedPods"][pod] = now.clone();
        if left == 0 {
            let condition = json!({
                "type": ALLOWED, "status": "False", "observedGeneration": status["observedGeneration"],
                "lastTransitionTime": now, "reason": "InsufficientPods", "message": "",
            });
            set_condition(&mut new, condition);
        }
        let new = NewState::of(target, budget, new);
        self.store(target, budget, &old, new, false).map(drop)
    }

    /// Marks the pod and deletes it, if it meets the preconditions.
    fn mark_and_delete(&self, pod: &Target, options: &DeleteOptions) -> Result<(), Status> {
        let mut options = options.clone();
        if !options.dry_run {
            let marked = self.mark_disrupted(pod, &options)?;
            // The mark itself is a new version of the pod.
            if options.revision.is_some() {
                options.revision = Some(marked.revision.to_string());
            }
        }
        self.delete_unasked(pod, &options).map(drop)
    }

    /// Sets the condition `DisruptionTarget`, which the Job controller's failure policy reads.
    fn mark_disrupted(&self, pod: &Target, options: &DeleteOptions) -> Result<Arc<Object>, Status> {
        let now = metadata::time(self.clock.now());
        loop {
            let current = self.existing(pod)?;
            check_preconditions(pod, &current, options)?;
            let old = current.to_value();
            let mut new = old.clone();
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "lastTransitionTime": now, "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            set_condition(&mut new, condition);
            defaults::apply(self.release(), &pod.resource().kind, &mut new);
            let new = NewState::of(pod, &current, new);
            match self.store(pod, &current, &old, new, false) {
                Ok(marked) => return Ok(marked),
                Err(NotWritten::Refused(status)) => return Err(status),
                Err(NotWritten::Raced) => {}
            }
        }
    }
}

/// The type of the condition of a budget.
const ALLOWED: &str = "DisruptionAllowed";

/// Accepts both versions of an Eviction, and a body that names none.
fn check_version(eviction: &Value) -> Result<(), Status> {
    let api_version = eviction["apiVersion"].as_str().unwrap_or_default();
    if matches!(api_version, "" | "policy/v1" | "policy/v1beta1") {
        return Ok(());
    }
    let version = api_version.rsplit('/').next().unwrap_or_default();
    Err(Status::bad_request(format!(
        "Eviction in version {version:?} cannot be handled as a Eviction: no kind \"Eviction\" is registered for version \
         {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
    )))
}

/// Refuses an option that would remove an unreadable pod without its finalizers.
fn refuse_unsafe_deletion(eviction: &Value, name: &str) -> Result<(), Status> {
    const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if eviction["deleteOptions"][OPTION] != true {
        return Ok(());
    }
    let why = "can not be set for pod eviction, try after removing the option";
    let error = FieldError {
        field: format!("deleteOptions.{OPTION}"),
        problem: Problem::Invalid(Value::from(true), why.to_owned()),
    };
    let kind = Qualified {
        group: "policy",
        name: "Eviction",
    };
    Err(Status::invalid(kind, name, &[error]))
}

/// Whether the budget permits the eviction of pods that are not ready: always by its policy, or as
/// long as enough other pods are healthy.
fn permits_unhealthy(budget: &Value) -> bool {
    let status = &budget["status"];
    let desired = number(status, "desiredHealthy");
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (desired > 0 && number(status, "currentHealthy") >= desired)
}

/// The refusal of an eviction by the budget `name`; nothing if it has disruptions left.
fn check_disruptions(name: &str, budget: &Value) -> Result<(), Status> {
    let status = &budget["status"];
    let generation = number(&budget["metadata"], "generation");
    if number(status, "observedGeneration") < generation {
        return Err(being_processed(name));
    }
    let allowed = number(status, "disruptionsAllowed");
    let forbidden = |why| {
        let budget = Qualified {
            group: "policy",
            name: "poddisruptionbudget",
        };
        Err(Status::forbidden(budget, name, why))
    };
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if status["disruptedPods"].as_object().map_or(0, Map::len) > MOST_DISRUPTED {
        return forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        );
    }
    if allowed > 0 {
        return Ok(());
    }
    Err(refused(&why_none_allowed(name, status), None))
}

/// The reason why a budget with this status allows no disruptions.
fn why_none_allowed(name: &str, status: &Value) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut conditions = conditions.filter(|condition| condition["type"] == ALLOWED);
    let condition = conditions
        .next()
        .filter(|condition| condition["status"] == "False");
    let text = |field: &str| {
        let text = condition.and_then(|condition| condition[field].as_str());
        text.unwrap_or_default()
    };
    let reason = text("reason");
    let message = text("message");
    let healthy = number(status, "currentHealthy");
    let desired = number(status, "desiredHealthy");
    // The numbers mean nothing after a failed sync, so that case comes first.
    if !message.is_empty() && reason == "SyncFailed" {
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        )
    } else if healthy <= desired {
        format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    } else if !message.is_empty() {
        format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
        )
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    }
}

/// 429 while the status of the budget is outdated.
fn being_processed(budget: &str) -> Status {
    let cause = format!("The disruption budget {budget} is still being processed by the server.");
    refused(&cause, Some(BEHIND_RETRY_SECONDS))
}

/// 429 because of a budget.
fn refused(cause: &str, retry_after_seconds: Option<u32>) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let causes = json!([{"reason": "DisruptionBudget", "message": cause}]);
    Status::too_many_requests(message, retry_after_seconds, causes)
}

fn number(object: &Value, field: &str) -> i64 {
    object[field].as_i64().unwrap_or(0)
}

fn is_conflict(status: &Status) -> bool {
    status.code == 409 && status.reason == "Conflict"
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|list| {
        list.iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(status: Value) -> Value {
        let mut budget =
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 2}});
        for (field, value) in status.as_object().unwrap() {
            budget["status"][field] = value.clone();
        }
        budget
    }

    /// Code and reason of a refusal, its cause or message, and `Retry-After`.
    fn refusal(budget: &Value) -> Option<(u16, String, Option<u64>)> {
        let status = check_disruptions("b", budget).err()?;
        let details = status.details.clone().unwrap();
        let cause = details["causes"][0]["message"].as_str();
        let text = cause.unwrap_or(&status.message).to_owned();
        Some((status.code, text, status.retry_after()))
    }

    #[test]
    fn a_budget_names_the_reason_of_its_refusal() {
        let condition = |reason: &str, message: &str| json!([{"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message}]);
        let enough = |conditions| {
            budget(json!({"currentHealthy": 3, "desiredHealthy": 2, "conditions": conditions}))
        };
        let many: Map<String, Value> = (0..2001).map(|n| (n.to_string(), json!("t"))).collect();
        let failed = json!({"currentHealthy": 1, "desiredHealthy": 2, "conditions": condition("SyncFailed", "no scale")});
        // (why, budget, code, text, seconds to wait)
        let cases = [
            (
                "outdated",
                budget(json!({"observedGeneration": 1, "disruptionsAllowed": 1})),
                429,
                "The disruption budget b is still being processed by the server.",
                Some(10),
            ),
            (
                "negative",
                budget(json!({"disruptionsAllowed": -1})),
                403,
                "poddisruptionbudget.policy \"b\" is forbidden: pdb disruptions allowed is negative",
                None,
            ),
            (
                "too many evictions",
                budget(json!({"disruptionsAllowed": 1, "disruptedPods": many})),
                403,
                "poddisruptionbudget.policy \"b\" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller",
                None,
            ),
            (
                "sync failed",
                budget(failed),
                429,
                "The disruption budget b does not allow evicting pods currently because it failed sync: no scale",
                None,
            ),
            (
                "too few pods",
                budget(json!({"currentHealthy": 2, "desiredHealthy": 2})),
                429,
                "The disruption budget b needs 2 healthy pods and has 2 currently",
                None,
            ),
            (
                "a condition with a message",
                enough(condition("Other", "m")),
                429,
                "The disruption budget b does not allow evicting pods currently (Other): m",
                None,
            ),
            (
                "a condition without a message",
                enough(condition("InsufficientPods", "")),
                429,
                "The disruption budget b does not allow evicting pods currently",
                None,
            ),
        ];
        for (why, budget, code, text, seconds) in cases {
            let expected = Some((code, text.to_owned(), seconds));
            assert_eq!(refusal(&budget), expected, "{why}");
        }
        assert_eq!(refusal(&budget(json!({"disruptionsAllowed": 1}))), None);
    }

    #[test]
    fn unready_pods_need_a_policy_or_enough_healthy_pods() {
        // (policy, healthy, desired, permitted)
        let cases = [
            (json!(null), 2, 2, true),
            (json!(null), 1, 2, false),
            (json!(null), 0, 0, false),
            (json!("IfHealthyBudget"), 3, 2, true),
            (json!("IfHealthyBudget"), 1, 2, false),
            (json!("Unknown"), 1, 2, false),
            (json!("AlwaysAllow"), 0, 2, true),
            (json!("AlwaysAllow"), 0, 0, true),
        ];
        for (policy, healthy, desired, permitted) in cases {
            let mut budget = budget(json!({"currentHealthy": healthy, "desiredHealthy": desired}));
            budget["spec"] = json!({"unhealthyPodEvictionPolicy": policy});
            let found = permits_unhealthy(&budget);
            assert_eq!(found, permitted, "{policy} {healthy}/{desired}");
        }
    }
}
