//! Evaluates a policy for one request and one parameter.
//!
//! Upstream: `pkg/admission/plugin/policy/validating/validator.go` of `k8s.io/apiserver`.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use serde_json::Value;

use super::super::matching::Matched;
use super::super::request::Request;
use super::super::versions;
use super::access::Subject;
use crate::Server;
use crate::cel::policy::{Conditions, Expression, Policy, Validations};
use crate::cel::value::Val;
use crate::cel::{Fail, ResourceCheck, Variables, admission, cost};
use crate::status::Status;

/// Why a policy refuses or warns.
pub(super) struct Decision {
    pub(super) reason: Option<String>,
    pub(super) message: String,
    /// Refuses even if the binding has other actions.
    pub(super) always_refuses: bool,
}

/// A refusal of a request.
pub(super) struct Refusal {
    pub(super) policy: String,
    pub(super) binding: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn into_status(self, request: &Request<'_>) -> Status {
        let binding = match &self.binding {
            Some(binding) => format!(" with binding '{binding}'"),
            None => String::new(),
        };
        let message = format!(
            "ValidatingAdmissionPolicy '{}'{binding} denied request: {}",
            self.policy, self.message
        );
        let (code, reason) = match self.reason.as_deref() {
            Some("Forbidden") => (403, "Forbidden"),
            Some("Unauthorized") => (401, "Unauthorized"),
            Some("RequestEntityTooLarge") => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        request
            .forbidden(&message)
            .refused(code, reason, [message.as_str()])
    }
}

/// The variables of admission expressions.
pub(crate) struct Inputs<'a> {
    object: Val,
    old: Val,
    request: Val,
    namespace: Val,
    params: Val,
    authorizer: Val,
    resource: Val,
    /// The variables of the policy, computed when an expression first needs one.
    variables: RefCell<HashMap<String, Result<Val, Fail>>>,
    programs: &'a [(String, Expression)],
    /// The cost of variables so far.
    spent: Cell<u64>,
}

impl<'a> Inputs<'a> {
    /// The variables for a request, whose objects are in the version of `matched`. The error tells
    /// that a conversion failed.
    pub(crate) async fn of(
        server: &Server,
        request: &Request<'_>,
        matched: &Matched,
    ) -> Result<Self, Status> {
        let object = shown(server, matched, request.object).await?;
        let old = shown(server, matched, request.old).await?;
        let namespace = server.find_object("namespaces", request.namespace());
        let namespace = namespace.filter(|_| !request.target.resource().is("Namespace"));
        let subject = Subject::access(request.origin.user.clone(), server.policy());
        let requested = request.target.resource();
        let wanted = ResourceCheck {
            group: requested.group.to_string(),
            resource: requested.plural.to_string(),
            subresource: request.subresource().to_owned(),
            namespace: request.namespace().to_owned(),
            name: request.name.to_owned(),
        };
        Ok(Self {
            object,
            old,
            request: Val::declared(&request.to_value(&matched.resource), &admission::request()),
            namespace: namespace.map_or(Val::Null, |namespace| {
                Val::declared(&namespace.to_value(), &admission::namespace())
            }),
            params: Val::Null,
            resource: Val::request_resource(subject.clone(), wanted),
            authorizer: Val::authorizer(subject),
            variables: RefCell::default(),
            programs: &[],
            spent: Cell::new(0),
        })
    }

    /// Sets the object of the next evaluation.
    pub(super) fn set_object(&mut self, object: &Value) {
        self.object = Val::of_json(object);
    }

    /// Sets the parameter of the next evaluation.
    pub(super) fn set_params(&mut self, params: Option<&Value>) {
        self.params = params.map_or(Val::Null, Val::of_json);
    }

    pub(super) fn with<'b>(&self, programs: &'b [(String, Expression)]) -> Inputs<'b> {
        Inputs {
            object: self.object.clone(),
            old: self.old.clone(),
            request: self.request.clone(),
            namespace: self.namespace.clone(),
            params: self.params.clone(),
            authorizer: self.authorizer.clone(),
            resource: self.resource.clone(),
            variables: RefCell::default(),
            programs,
            spent: Cell::new(0),
        }
    }
}

/// An object of the request as expressions see it.
async fn shown(server: &Server, matched: &Matched, object: Option<&Value>) -> Result<Val, Status> {
    Ok(match object {
        Some(object) => Val::of_json(&versions::shown(server, matched, object).await?),
        None => Val::Null,
    })
}

impl Variables for Inputs<'_> {
    fn get(&self, name: &str) -> Option<Val> {
        Some(match name {
            "object" => self.object.clone(),
            "oldObject" => self.old.clone(),
            "request" => self.request.clone(),
            "namespaceObject" => self.namespace.clone(),
            "params" => self.params.clone(),
            "authorizer" => self.authorizer.clone(),
            _ => return None,
        })
    }

    fn computed(&self, variable: &str, field: &str) -> Option<Result<Val, Fail>> {
        match variable {
            "authorizer" if field == "requestResource" => return Some(Ok(self.resource.clone())),
            "variables" => {}
            _ => return None,
        }
        if let Some(known) = self.variables.borrow().get(field) {
            return Some(known.clone());
        }
        let (_, expression) = self.programs.iter().find(|(name, _)| name == field)?;
        let mut spent = 0;
        let program = expression.program.as_ref().map_err(Fail::new);
        let value = program.and_then(|program| program.run(self, &mut spent));
        let value = value.map_err(|why| {
            Fail::new(format!(
                "composited variable {field:?} fails to evaluate: {why}"
            ))
        });
        self.spent.set(self.spent.get().saturating_add(spent));
        let name = field.to_owned();
        self.variables.borrow_mut().insert(name, value.clone());
        Some(value)
    }
}

impl Expression {
    fn evaluate(&self, inputs: &Inputs<'_>, spent: &mut u64) -> Result<Val, String> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        program
            .run(inputs, spent)
            .map_err(|fail| format!("expression '{}' resulted in error: {fail}", self.source))
    }
}

/// The remaining cost of one evaluation.
pub(super) struct Budget(u64);

impl Budget {
    /// The budget of the rules of a policy.
    pub(super) fn of_rules() -> Self {
        Self(cost::BUDGET)
    }

    /// Evaluates within the budget. `Err(None)` means that the budget is spent.
    pub(super) fn run(
        &mut self,
        expression: &Expression,
        inputs: &Inputs<'_>,
    ) -> Result<Val, Option<String>> {
        let mut spent = 0;
        let result = expression.evaluate(inputs, &mut spent);
        let spent = spent.saturating_add(inputs.spent.take());
        match self.0.checked_sub(spent) {
            Some(left) => self.0 = left,
            None => {
                self.0 = 0;
                return Err(None);
            }
        }
        result.map_err(Some)
    }
}

pub(super) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

impl Conditions {
    /// Whether all conditions hold. The errors count only if no condition is false.
    pub(crate) fn hold(&self, inputs: &Inputs<'_>) -> Result<bool, String> {
        let mut budget = Budget(cost::MATCH_CONDITIONS);
        let mut problems = Vec::new();
        for condition in &self.0 {
            match budget.run(condition, inputs) {
                Ok(Val::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(Some(why)) => problems.push(why),
                Err(None) => return Err(OUT_OF_BUDGET.to_owned()),
            }
        }
        match &*problems {
            [] => Ok(true),
            [problem] => Err(problem.clone()),
            problems => Err(format!("[{}]", problems.join(", "))),
        }
    }
}

impl Policy<Validations> {
    /// The violations of one request.
    pub(super) fn evaluate(&self, inputs: &Inputs<'_>) -> Vec<Decision> {
        let inputs = &inputs.with(&self.variables);
        let failed = |message: String| {
            (!self.ignores_failures).then_some(Decision {
                reason: None,
                message,
                always_refuses: false,
            })
        };
        match self.conditions.hold(inputs) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return failed(why).into_iter().collect(),
        }
        let mut budget = Budget::of_rules();
        let mut decisions = Vec::new();
        for validation in &self.rules.validations {
            let decision = match budget.run(&validation.expression, inputs) {
                Ok(Val::Bool(true)) => None,
                Ok(_) => {
                    let expressed = validation.message_expression.as_ref();
                    let expressed = expressed
                        .and_then(|expression| message(budget.run(expression, inputs).ok()?));
                    let message = expressed.unwrap_or_else(|| match &*validation.message {
                        "" => format!("failed expression: {}", validation.expression.source.trim()),
                        message => message.to_owned(),
                    });
                    Some(Decision {
                        reason: validation.reason.clone(),
                        message,
                        always_refuses: false,
                    })
                }
                Err(Some(why)) => failed(why),
                Err(None) => {
                    return failed(OUT_OF_BUDGET.to_owned()).into_iter().collect();
                }
            };
            decisions.extend(decision);
        }
        for annotation in &self.rules.annotations {
            if let Err(why) = budget.run(annotation, inputs) {
                let why = why.unwrap_or_else(|| OUT_OF_BUDGET.to_owned());
                let decision = failed(why).map(|decision| Decision {
                    always_refuses: true,
                    ..decision
                });
                decisions.extend(decision);
            }
        }
        decisions
    }
}

/// The text of a message expression, if it is fit for a message.
fn message(value: Val) -> Option<String> {
    let Val::Text(text) = value else {
        return None;
    };
    let text = text.trim();
    let fits = !text.is_empty() && text.len() <= cost::MAX_MESSAGE && !text.contains('\n');
    fits.then(|| text.to_owned())
}
