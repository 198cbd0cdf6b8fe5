//! MutatingAdmissionPolicies: expressions that make configurations or JSON patches, which change
//! objects. No manager becomes the owner of the changed fields.
//!
//! Upstream: `pkg/admission/plugin/policy/mutating` of `k8s.io/apiserver`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::matching::Matched;
use super::super::request::{Operation, Request};
use super::super::rounds::Rounds;
use super::super::versions;
use super::evaluate::{Budget, Inputs, OUT_OF_BUDGET};
use super::{Invocation, MUTATING};
use crate::Server;
use crate::apimachinery::errors::text;
use crate::cel::policy::{Expression, Mutation, Mutations, Policy};
use crate::cel::value::{Constructed, Key, Val};
use crate::kinds::Resource;
use crate::managed_fields;
use crate::patch::{self, Unapplied};
use crate::status::Status;

/// Why a mutation has no result.
enum Problem {
    /// The failure policy decides.
    Failed(String),
    /// The request is refused under every failure policy.
    Refused(Status),
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// The failures of policies so far that refuse the request, each with its reason.
#[derive(Default)]
struct Failures(Vec<(&'static str, String)>);

impl Failures {
    /// Adds a failure, unless the policy ignores it.
    fn add(
        &mut self,
        policy: &Policy<Mutations>,
        binding: Option<&str>,
        reason: &'static str,
        why: &str,
    ) {
        let name = &policy.name;
        let subject = match binding {
            Some(binding) => format!("policy '{name}' with binding '{binding}'"),
            None => format!("policy {name:?}"),
        };
        if !policy.ignores_failures {
            let message = format!("{subject} denied request: {why}");
            self.0.push((reason, message));
        }
    }

    /// 403 with the first failure as its message, and with all failures as causes.
    fn into_result(self, request: &Request<'_>) -> Result<(), Status> {
        let Some((reason, message)) = self.0.first() else {
            return Ok(());
        };
        let causes = self.0.iter().map(|(_, message)| message.as_str());
        let mut status = request.forbidden("").refused(403, reason, causes);
        status.message.clone_from(message);
        Err(status)
    }
}

impl Server {
    pub(crate) fn has_mutating_policies(&self) -> bool {
        !self.active(&self.policies.mutating, MUTATING).is_empty()
    }

    /// Lets the mutating policies of this round change the new object, which `request` does not
    /// have yet. A policy matches the object as it was before this round.
    pub(in crate::admission) async fn mutate_by_policies(
        &self,
        request: &Request<'_>,
        object: &mut Value,
        rounds: &mut Rounds,
    ) -> Result<(), Status> {
        let active = self.active(&self.policies.mutating, MUTATING);
        if active.is_empty() || request.operation == Operation::Delete {
            return Ok(());
        }
        rounds.begin(object);
        let before = object.clone();
        let matching = request.with_object(&before);
        let mut failures = Failures::default();
        let mut invocations = Vec::new();
        for (policy, bindings) in active.iter() {
            let (found, problems) = self.invocations(&matching, policy, bindings).await?;
            for problem in problems {
                failures.add(policy, problem.binding, "Forbidden", &problem.message());
            }
            invocations.extend(found.into_iter().map(|invocation| (policy, invocation)));
        }
        let mut is_mutated = false;
        for (policy, invocation) in &invocations {
            is_mutated |= self
                .mutate_by(policy, invocation, request, object, rounds, &mut failures)
                .await?;
        }
        if is_mutated {
            // Upstream repeats the round even if no mutation changed the object.
            rounds.change();
        }
        rounds.end(object);
        failures.into_result(request)
    }

    /// Applies the mutations of a policy whose conditions hold. Whether one was applied.
    async fn mutate_by(
        &self,
        policy: &Policy<Mutations>,
        invocation: &Invocation<'_>,
        request: &Request<'_>,
        object: &mut Value,
        rounds: &mut Rounds,
        failures: &mut Failures,
    ) -> Result<bool, Status> {
        let matched = &invocation.matched;
        let binding = text(invocation.binding, "metadata.name");
        let mut inputs = Inputs::of(self, &request.with_object(object), matched).await?;
        inputs.set_params(invocation.param.as_ref());
        let mut shown = versions::unfinished(self, request, matched, object).await?;
        inputs.set_object(&shown);
        match policy.conditions.hold(&inputs.with(&policy.variables)) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                failures.add(policy, Some(binding), "Invalid", &why);
                return Ok(false);
            }
        }
        let param = invocation.param.as_ref().map(|param| &param["metadata"]);
        let param = param.map_or_else(String::new, |metadata| {
            format!("{}/{}", text(metadata, "namespace"), text(metadata, "name"))
        });
        let key = format!("{} {binding} {param}", policy.name);
        if rounds.skips(&key) {
            return Ok(false);
        }
        let before = object.clone();
        let mut is_mutated = false;
        for mutation in &policy.rules.mutations {
            let mutated = mutated(matched, mutation, &inputs.with(&policy.variables), &shown);
            match mutated {
                Ok(new) => {
                    *object = versions::finished(self, request, matched, object, new).await?;
                    shown = versions::unfinished(self, request, matched, object).await?;
                    inputs.set_object(&shown);
                    is_mutated = true;
                }
                Err(Problem::Failed(why)) => failures.add(policy, Some(binding), "Invalid", &why),
                Err(Problem::Refused(status)) => return Err(status),
            }
        }
        if before != *object {
            rounds.change();
        }
        if policy.rules.repeats {
            rounds.wait(key);
        }
        Ok(is_mutated)
    }
}

/// The object, in the version of `matched`, after a mutation.
fn mutated(
    matched: &Matched,
    mutation: &Mutation,
    inputs: &Inputs<'_>,
    object: &Value,
) -> Result<Value, Problem> {
    let resource = &matched.resource;
    match mutation {
        Mutation::Apply(expression) => match evaluated(expression, inputs)? {
            Val::Constructed(configuration) => {
                applied(resource, &configuration, object).map_err(Problem::Failed)
            }
            other => Err(Problem::Failed(format!(
                "unsupported return type from ApplyConfiguration expression: {}",
                other.kind()
            ))),
        },
        Mutation::Patch(expression) => {
            let operations = evaluated(expression, inputs)?;
            let operations = operations_of(&operations).map_err(Problem::Failed)?;
            patched(resource, &operations, object)
        }
    }
}

/// The value of a mutation, whose cost is limited.
fn evaluated(expression: &Expression, inputs: &Inputs<'_>) -> Result<Val, Problem> {
    let value = Budget::of_rules().run(expression, inputs);
    value.map_err(|why| Problem::Failed(why.unwrap_or_else(|| OUT_OF_BUDGET.to_owned())))
}

/// The object with the fields of an applied configuration.
fn applied(
    resource: &Resource,
    configuration: &Arc<Constructed>,
    object: &Value,
) -> Result<Value, String> {
    configuration.check_names()?;
    let untyped = |why| {
        format!("error applying patch: failed to convert patch object to typed object: {why}")
    };
    if let Some(why) = unfit(&Val::Constructed(Arc::clone(configuration)), "") {
        return Err(untyped(why));
    }
    let mut configuration = configuration
        .to_json()
        .map_err(|_| "invalid return type: *dynamic.ObjectVal")?;
    for field in ["apiVersion", "kind"] {
        configuration[field] = object[field].clone();
    }
    let shape = resource.shape(&configuration);
    managed_fields::declared(resource.release, shape, &configuration).map_err(untyped)?;
    let atomics = managed_fields::atomics(shape, &configuration);
    if !atomics.is_empty() {
        return Err(format!(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ));
    }
    let merged = managed_fields::merged(shape, object, &configuration);
    match resource.decode_error(&merged) {
        Some(why) => Err(why),
        None => Ok(merged),
    }
}

/// A value in a configuration that fits no type of a field. JSON patches can have such values.
fn unfit(value: &Val, path: &str) -> Option<String> {
    let in_fields = |fields: &BTreeMap<Key, Val>| {
        let mut fields = fields.iter();
        fields.find_map(|(key, value)| unfit(value, &format!("{path}.{key}")))
    };
    match value {
        Val::Map(map) => in_fields(map),
        Val::Constructed(object) => in_fields(&object.fields),
        Val::List(list) => {
            let mut items = list.items.iter().enumerate();
            items.find_map(|(index, item)| unfit(item, &format!("{path}[{index}]")))
        }
        Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Text(_) => None,
        other => Some(format!("{path}: unexpected value of type {}", other.kind())),
    }
}

/// The operations of a JSON patch as JSON.
fn operations_of(operations: &Val) -> Result<Vec<Value>, String> {
    let Val::List(operations) = operations else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    operations.items.iter().map(operation).collect()
}

fn operation(operation: &Val) -> Result<Value, String> {
    let Val::Constructed(operation) = operation else {
        return Err(format!(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {}",
            operation.kind()
        ));
    };
    let field = |name: &str| operation.fields.get(&Key::text(name));
    let mut fields = Map::new();
    for name in ["op", "path", "from"] {
        match field(name) {
            Some(Val::Text(text)) => fields.insert(name.to_owned(), json!(&**text)),
            Some(other) => {
                let kind = other.kind();
                return Err(format!(
                    "unexpected type {kind} for JSONPatchType '{name}' field"
                ));
            }
            None => None,
        };
    }
    let value = match field("value") {
        Some(Val::Constructed(object)) => {
            object.check_names()?;
            object.to_json()
        }
        Some(value) => value.to_json(),
        None => Ok(Value::Null),
    };
    let value = value.map_err(|why| {
        format!(
            "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}"
        )
    })?;
    fields.insert("value".to_owned(), value);
    Ok(Value::Object(fields))
}

/// The object after a JSON patch. A failed test leaves it unchanged.
fn patched(resource: &Resource, operations: &[Value], object: &Value) -> Result<Value, Problem> {
    let mut new = object.clone();
    match patch::explained(&mut new, operations) {
        Ok(()) => {}
        Err(Unapplied::Test(_)) => return Ok(object.clone()),
        Err(Unapplied::Other(why)) => return Err(Problem::Failed(format!("JSON Patch: {why}"))),
    }
    if resource.custom.is_some() {
        return Ok(new);
    }
    if let Some(why) = resource.decode_error(&new) {
        return Err(Status::internal(why).into());
    }
    let mut unknown = resource.drop_unknown(&mut new);
    unknown.sort_unstable();
    if !unknown.is_empty() {
        let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
        let unknown: Vec<String> = unknown.collect();
        let why = format!("strict decoding error: {}", unknown.join(", "));
        return Err(Status::internal(why).into());
    }
    Ok(new)
}
