//! Admission policies: expressions that change objects, or refuse requests or warn about them.
//!
//! policies, bindings -> [`Active`] (compiled once per version) -> match -> parameters
//! -> [`Invocation`] -> conditions -> mutations ([`mutate`]), or validations -> refusal or warning
//!
//! Upstream: `pkg/admission/plugin/policy` of `k8s.io/apiserver`.

mod access;
mod evaluate;
mod mutate;
mod params;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

pub(crate) use evaluate::Inputs;

use super::matching::{Matched, is_exempt};
use super::request::Request;
use crate::Server;
use crate::apimachinery::errors::{list, text};
use crate::cel::policy::{Mutations, Policy, Rules, Validations};
use crate::status::Status;
use evaluate::{Decision, Refusal};

const GROUP: &str = "admissionregistration.k8s.io";

/// Plurals of the policies and bindings of both kinds.
const VALIDATING: [&str; 2] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];
const MUTATING: [&str; 2] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

/// The policies with their bindings, as they are stored.
type Active<R> = Vec<(Arc<Policy<R>>, Vec<Value>)>;

/// The compiled policies of the latest revision.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    validating: Mutex<Cached<Validations>>,
    mutating: Mutex<Cached<Mutations>>,
}

#[derive(Debug)]
struct Cached<R> {
    /// Latest changes of policies and bindings.
    revisions: (u64, u64),
    /// By UID and resource version.
    compiled: HashMap<(String, u64), Arc<Policy<R>>>,
    active: Arc<Active<R>>,
}

impl<R> Default for Cached<R> {
    fn default() -> Self {
        Self {
            revisions: (0, 0),
            compiled: HashMap::new(),
            active: Arc::default(),
        }
    }
}

/// A policy under a binding, with a parameter.
struct Invocation<'a> {
    binding: &'a Value,
    /// The resource in whose version the policy sees the objects.
    matched: Matched,
    param: Option<Value>,
}

/// A policy or binding that cannot be applied, with the name of the binding.
struct Misconfigured<'a> {
    binding: Option<&'a str>,
    why: String,
}

impl Misconfigured<'_> {
    fn message(&self) -> String {
        let part = match self.binding {
            Some(_) => "binding",
            None => "policy",
        };
        format!("failed to configure {part}: {}", self.why)
    }
}

impl Server {
    /// The policies with their bindings. Each version of a policy is compiled once.
    fn active<R: Rules>(
        &self,
        cached: &Mutex<Cached<R>>,
        [policies, bindings]: [&str; 2],
    ) -> Arc<Active<R>> {
        let store = |plural: &str| {
            let entry = self.registry.find(GROUP, "v1", plural);
            entry.map(|entry| entry.store.clone())
        };
        // Older releases have no mutating policies.
        let (Some(policies), Some(bindings)) = (store(policies), store(bindings)) else {
            return Arc::default();
        };
        let mut cached = cached.lock();
        let revisions = (policies.latest(), bindings.latest());
        if cached.revisions == revisions {
            return cached.active.clone();
        }
        let bindings = bindings.list(&self.revisions, "").objects;
        let bindings: Vec<Value> = bindings.iter().map(|binding| binding.to_value()).collect();
        let mut compiled = HashMap::new();
        let mut active = Active::new();
        for policy in &policies.list(&self.revisions, "").objects {
            let key = (policy.uid().to_owned(), policy.revision);
            let found = cached.compiled.get(&key).cloned();
            let program = found.unwrap_or_else(|| Arc::new(Policy::compile(&policy.to_value())));
            compiled.insert(key, program.clone());
            let own = bindings.iter();
            let own = own.filter(|binding| text(binding, "spec.policyName") == policy.name());
            active.push((program, own.cloned().collect()));
        }
        *cached = Cached {
            revisions,
            compiled,
            active: Arc::new(active),
        };
        cached.active.clone()
    }

    /// The invocations of a policy, one per matching binding and parameter. The error tells that a
    /// conversion failed.
    async fn invocations<'a, R>(
        &self,
        request: &Request<'_>,
        policy: &Policy<R>,
        bindings: &'a [Value],
    ) -> Result<(Vec<Invocation<'a>>, Vec<Misconfigured<'a>>), Status> {
        let mut found = Vec::new();
        let mut problems = Vec::new();
        let matched = match self.matched(request, &policy.constraints, "resourceRules") {
            Ok(Some(matched)) => matched,
            Ok(None) => return Ok((found, problems)),
            Err(why) => {
                problems.push(Misconfigured { binding: None, why });
                return Ok((found, problems));
            }
        };
        let kind = match self.param_kind(policy) {
            Ok(kind) => kind,
            Err(why) => {
                problems.push(Misconfigured { binding: None, why });
                return Ok((found, problems));
            }
        };
        for binding in bindings {
            let resources = &binding["spec"]["matchResources"];
            let params = match self.matched(request, resources, "resourceRules") {
                Ok(None) => continue,
                Ok(Some(_)) => self.params(kind.as_deref(), binding, request).await?,
                Err(why) => Err(why),
            };
            match params {
                Ok(params) => found.extend(params.into_iter().map(|param| Invocation {
                    binding,
                    matched: matched.clone(),
                    param,
                })),
                Err(why) => problems.push(Misconfigured {
                    binding: Some(text(binding, "metadata.name")),
                    why,
                }),
            }
        }
        Ok((found, problems))
    }

    /// Applies all validating policies to a request. The error is the first refusal in upstream's
    /// words.
    pub(crate) async fn check_policies(&self, request: &Request<'_>) -> Result<(), Status> {
        let active = self.active(&self.policies.validating, VALIDATING);
        if active.is_empty() || is_exempt(request) {
            return Ok(());
        }
        let mut refusals = Vec::new();
        for (policy, bindings) in active.iter() {
            self.apply_policy(request, policy, bindings, &mut refusals)
                .await?;
        }
        match refusals.into_iter().next() {
            Some(refusal) => Err(refusal.into_status(request)),
            None => Ok(()),
        }
    }

    /// Evaluates a policy under each of its bindings that match.
    async fn apply_policy(
        &self,
        request: &Request<'_>,
        policy: &Policy<Validations>,
        bindings: &[Value],
        refusals: &mut Vec<Refusal>,
    ) -> Result<(), Status> {
        let (invocations, problems) = self.invocations(request, policy, bindings).await?;
        if !policy.ignores_failures {
            refusals.extend(problems.iter().map(|problem| Refusal {
                policy: policy.name.clone(),
                binding: problem.binding.map(str::to_owned),
                reason: None,
                message: problem.message(),
            }));
        }
        let mut inputs = None;
        for invocation in invocations {
            let inputs = match &mut inputs {
                Some(inputs) => inputs,
                inputs => inputs.insert(Inputs::of(self, request, &invocation.matched).await?),
            };
            inputs.set_params(invocation.param.as_ref());
            for decision in policy.evaluate(inputs) {
                act(request, policy, invocation.binding, decision, refusals);
            }
        }
        Ok(())
    }
}

/// Applies the actions of a binding to a violation. The audit log is absent, so `Audit` has
/// no effect.
fn act(
    request: &Request<'_>,
    policy: &Policy<Validations>,
    binding: &Value,
    decision: Decision,
    refusals: &mut Vec<Refusal>,
) {
    let name = text(binding, "metadata.name");
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
