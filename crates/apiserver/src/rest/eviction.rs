//! Evictions: deletions that a PodDisruptionBudget may refuse.
//!
//! Upstream is `pkg/registry/core/pod/storage/eviction.go`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::{DeleteOptions, check_preconditions};
use super::subresources::set_condition;
use super::update::NotWritten;
use super::{Answer, Call, Server, decode, metadata};
use crate::defaults;
use crate::registry::Registered;
use crate::route::Target;
use crate::selectors::selects;
use crate::status::{self, Status};
use crate::store::Object;

/// `Retry-After` in seconds while the status of the budget is outdated.
const BEHIND_RETRY_SECONDS: u32 = 10;

impl Server {
    /// Answers an eviction: takes a disruption from the budget, marks the pod, and deletes it.
    pub(super) fn evict(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let eviction = decode::part("policy", "Eviction", call.content_type, &call.body)?;
        if metadata::text(&eviction, "name") != call.target.name {
            return Err(Status::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let mut options = DeleteOptions::from_value(&eviction["deleteOptions"])?;
        // Upstream checks options and preconditions after it has written the condition. The early
        // check leaves the pod unchanged when they fail.
        options.check()?;
        options.dry_run |= call.query.dry_run("CreateOptions")?;
        let pod = Target {
            subresource: None,
            ..call.target.clone()
        };
        let current = self.parent(call)?;
        check_preconditions(&pod, &current, &options)?;
        let value = current.to_value();
        let needs_no_budget = current.deleting
            || matches!(
                value["status"]["phase"].as_str(),
                Some("Pending" | "Succeeded" | "Failed")
            );
        if !needs_no_budget {
            self.check_budgets(&pod, &current, &value, options.dry_run)?;
        }
        if !options.dry_run {
            self.mark_disrupted(&pod)?;
        }
        self.delete_object(&pod, &options)?;
        Ok(Answer::value(201, status::created()))
    }

    /// Takes a disruption from the budget that selects the pod, if there is one.
    fn check_budgets(
        &self,
        pod: &Target,
        current: &Object,
        value: &Value,
        dry_run: bool,
    ) -> Result<(), Status> {
        let budgets = self
            .registry
            .find("policy", "v1", "poddisruptionbudgets")
            .expect("budgets are built in");
        loop {
            let selecting =
                |budget: &Arc<Object>| selects(&budget.to_value()["spec"]["selector"], current);
            let all = budgets.store.list(&self.revisions, &pod.prefix()).objects;
            let mut matching: Vec<Arc<Object>> = all.into_iter().filter(selecting).collect();
            if matching.len() > 1 {
                return Err(Status::unclassified(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
            let Some(budget) = matching.pop() else {
                return Ok(());
            };
            match self.take_disruption(pod, &budgets, &budget, value, dry_run) {
                Ok(()) => return Ok(()),
                Err(NotWritten::Refused(status)) => return Err(status),
                Err(NotWritten::Raced) => {}
            }
        }
    }

    /// Decrements `disruptionsAllowed` and records the pod in `disruptedPods`, or refuses the
    /// eviction.
    fn take_disruption(
        &self,
        pod: &Target,
        budgets: &Arc<Registered>,
        budget: &Arc<Object>,
        value: &Value,
        dry_run: bool,
    ) -> Result<(), NotWritten> {
        let old = budget.to_value();
        let status = &old["status"];
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        let healthy = (number("currentHealthy"), number("desiredHealthy"));
        if !is_ready(value) {
            let always = old["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
            if always || (healthy.1 > 0 && healthy.0 >= healthy.1) {
                return Ok(());
            }
        }
        let refused = |cause: String, retry| {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let causes = json!([{"reason": "DisruptionBudget", "message": cause}]);
            NotWritten::Refused(Status::too_many_requests(message, retry, causes))
        };
        let name = budget.name();
        if number("observedGeneration") < old["metadata"]["generation"].as_i64().unwrap_or(0) {
            let cause =
                format!("The disruption budget {name} is still being processed by the server.");
            return Err(refused(cause, Some(BEHIND_RETRY_SECONDS)));
        }
        let allowed = number("disruptionsAllowed");
        if allowed <= 0 {
            let cause = format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                healthy.1, healthy.0
            );
            return Err(refused(cause, None));
        }
        let mut new = old.clone();
        new["status"]["disruptionsAllowed"] = Value::from(allowed - 1);
        new["status"]["disruptedPods"][&pod.name] = metadata::time(self.clock.now());
        if allowed == 1 {
            let condition = json!({
                "type": "DisruptionAllowed", "status": "False", "observedGeneration": status["observedGeneration"],
                "lastTransitionTime": metadata::time(self.clock.now()), "reason": "InsufficientPods", "message": "",
            });
            set_condition(&mut new, condition);
        }
        let target = Target {
            entry: budgets.clone(),
            name: name.to_owned(),
            ..pod.clone()
        };
        self.store(&target, budget, &old, new, dry_run).map(|_| ())
    }

    /// Sets the condition `DisruptionTarget`, which the Job controller's failure policy reads.
    fn mark_disrupted(&self, pod: &Target) -> Result<(), Status> {
        let now = metadata::time(self.clock.now());
        loop {
            let Some(current) = pod.entry.store.get(&pod.key()) else {
                return Err(Status::not_found(pod.resource().named(), &pod.name));
            };
            let old = current.to_value();
            let mut new = old.clone();
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "lastTransitionTime": now, "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            set_condition(&mut new, condition);
            defaults::apply(&pod.resource().kind, &mut new);
            match self.store(pod, &current, &old, new, false) {
                Ok(_) => return Ok(()),
                Err(NotWritten::Refused(status)) => return Err(status),
                Err(NotWritten::Raced) => {}
            }
        }
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|list| {
        list.iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    })
}
