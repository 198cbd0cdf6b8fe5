//! ValidatingAdmissionPolicies: expressions that refuse requests, or warn about them.
//!
//! policies, bindings -> [`Active`] (compiled once per version) -> match -> parameters -> conditions
//! -> validations -> refusal or warning
//!
//! Upstream: `pkg/admission/plugin/policy` of `k8s.io/apiserver`.

mod access;
mod evaluate;
mod params;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

pub(crate) use evaluate::Inputs;

use super::matching::is_exempt;
use super::request::Request;
use crate::Server;
use crate::apimachinery::errors::{list, text};
use crate::cel::policy::Policy;
use crate::status::Status;
use evaluate::{Decision, Refusal};

const GROUP: &str = "admissionregistration.k8s.io";

/// The policies with their bindings, as they are stored.
#[derive(Debug, Default)]
struct Active(Vec<(Arc<Policy>, Vec<Value>)>);

/// The compiled policies of the latest revision.
#[derive(Debug, Default)]
pub(crate) struct Policies(Mutex<Cached>);

#[derive(Debug, Default)]
struct Cached {
    /// Latest changes of policies and bindings.
    revisions: (u64, u64),
    /// By UID and resource version.
    compiled: HashMap<(String, u64), Arc<Policy>>,
    active: Arc<Active>,
}

impl Server {
    /// The policies with their bindings. Each version of a policy is compiled once.
    fn active_policies(&self) -> Arc<Active> {
        let store = |plural: &str| {
            let entry = self.registry.find(GROUP, "v1", plural);
            entry.expect("policies are built in").store.clone()
        };
        let policies = store("validatingadmissionpolicies");
        let bindings = store("validatingadmissionpolicybindings");
        let mut cached = self
            .policies
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let revisions = (policies.latest(), bindings.latest());
        if cached.revisions == revisions {
            return cached.active.clone();
        }
        let bindings = bindings.list(&self.revisions, "").objects;
        let bindings: Vec<Value> = bindings.iter().map(|binding| binding.to_value()).collect();
        let mut compiled = HashMap::new();
        let mut active = Active::default();
        for policy in &policies.list(&self.revisions, "").objects {
            let key = (policy.uid.to_string(), policy.revision);
            let found = cached.compiled.get(&key).cloned();
            let program = found.unwrap_or_else(|| Arc::new(Policy::compile(&policy.to_value())));
            compiled.insert(key, program.clone());
            let own = bindings.iter();
            let own = own.filter(|binding| text(binding, "spec.policyName") == policy.name());
            active.0.push((program, own.cloned().collect()));
        }
        *cached = Cached {
            revisions,
            compiled,
            active: Arc::new(active),
        };
        cached.active.clone()
    }

    /// Applies all policies to a request. The error is the first refusal in upstream's words.
    pub(crate) fn check_policies(&self, request: &Request<'_>) -> Result<(), Status> {
        let active = self.active_policies();
        if active.0.is_empty() || is_exempt(request) {
            return Ok(());
        }
        let mut refusals = Vec::new();
        for (policy, bindings) in &active.0 {
            self.apply_policy(request, policy, bindings, &mut refusals);
        }
        match refusals.into_iter().next() {
            Some(refusal) => Err(refusal.into_status(request)),
            None => Ok(()),
        }
    }

    /// Evaluates a policy under each of its bindings that match.
    fn apply_policy(
        &self,
        request: &Request<'_>,
        policy: &Policy,
        bindings: &[Value],
        refusals: &mut Vec<Refusal>,
    ) {
        let mut misconfigured = |why: String, binding: Option<&str>| {
            if policy.ignores_failures {
                return;
            }
            let what = if binding.is_some() {
                "binding"
            } else {
                "policy"
            };
            refusals.push(Refusal {
                policy: policy.name.clone(),
                binding: binding.map(str::to_owned),
                reason: None,
                message: format!("failed to configure {what}: {why}"),
            });
        };
        let matched = match self.matched(request, &policy.constraints, "resourceRules") {
            Ok(Some(matched)) => matched,
            Ok(None) => return,
            Err(why) => return misconfigured(why, None),
        };
        let mut inputs = None;
        let mut found = Vec::new();
        for binding in bindings {
            let name = text(binding, "metadata.name");
            let resources = &binding["spec"]["matchResources"];
            match self.matched(request, resources, "resourceRules") {
                Ok(Some(_)) => {}
                Ok(None) => continue,
                Err(why) => {
                    misconfigured(why, Some(name));
                    continue;
                }
            }
            let params = match self.params(policy, binding, request.namespace()) {
                Ok(params) => params,
                Err(why) => {
                    misconfigured(why, Some(name));
                    continue;
                }
            };
            for param in &params {
                let inputs = inputs.get_or_insert_with(|| Inputs::of(self, request, &matched));
                inputs.set_params(param.as_ref());
                for decision in policy.evaluate(inputs) {
                    found.push((name.to_owned(), binding, decision));
                }
            }
        }
        for (name, binding, decision) in found {
            act(request, policy, &name, binding, decision, refusals);
        }
    }
}

/// Applies the actions of a binding to a violation. The audit log is absent, so `Audit` has
/// no effect.
fn act(
    request: &Request<'_>,
    policy: &Policy,
    name: &str,
    binding: &Value,
    decision: Decision,
    refusals: &mut Vec<Refusal>,
) {
    for action in list(binding, "spec.validationActions") {
        if action == "Warn" {
            request.origin.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{name}': {}",
                policy.name, decision.message
            ));
        }
        // An annotation that cannot be computed refuses under every action.
        if action == "Deny" || decision.always_refuses {
            refusals.push(Refusal {
                policy: policy.name.clone(),
                binding: Some(name.to_owned()),
                reason: decision.reason.clone(),
                message: decision.message.clone(),
            });
        }
    }
}
