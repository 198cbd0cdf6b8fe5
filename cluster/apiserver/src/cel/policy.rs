//! Compiles the expressions of policies and match conditions, and checks new ones.
//!
//! Upstream: `pkg/admission/plugin/cel` of `k8s.io/apiserver`.

use serde_json::Value;

use super::admission::{self, variables};
use super::declarations::{configuration, json_patch};
use super::types::Type;
use super::{Declarations, Program};
use crate::apimachinery::errors::{list, text};

/// An expression with its program; the error is the text about its source.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) source: String,
    pub(crate) program: Result<Program, String>,
}

impl Expression {
    fn compile(source: &str, declarations: &Declarations, wanted: &[Type]) -> Self {
        let program = Program::compile(source, declarations, &())
            .map_err(|problem| format!("compilation failed: {problem}"))
            .and_then(|program| returns(wanted, program));
        Self {
            source: source.to_owned(),
            program,
        }
    }
}

/// The types that an expression may have.
fn returns(wanted: &[Type], program: Program) -> Result<Program, String> {
    let found = program.result();
    if wanted.is_empty() || wanted.contains(found) {
        return Ok(program);
    }
    let name = |ty: &Type| match ty {
        Type::Null => "null_type".to_owned(),
        ty => ty.to_string(),
    };
    let names: Vec<String> = wanted.iter().map(name).collect();
    let found = name(found);
    Err(match &*names {
        [name] => format!("must evaluate to {name} but got {found}"),
        names => format!(
            "must evaluate to one of [{}] but got {found}",
            names.join(" ")
        ),
    })
}

/// Compiles expressions in the environment of one policy. Variables extend the environment of the
/// expressions after them.
pub(crate) struct Expressions {
    declarations: Declarations,
    without_authorizer: Declarations,
    with_patches: Declarations,
    variables: Vec<(String, Type)>,
}

impl Expressions {
    pub(crate) fn new(params: bool) -> Self {
        let declarations = admission::declarations(params, true);
        let mut with_patches = Declarations {
            patches: true,
            ..declarations.clone()
        };
        // Mutations know `variables` even if the policy has none.
        with_patches
            .variables
            .insert("variables".to_owned(), variables(&[]));
        Self {
            without_authorizer: admission::declarations(params, false),
            with_patches,
            declarations,
            variables: Vec::new(),
        }
    }

    pub(crate) fn compile(&self, source: &str, wanted: &[Type], authorizer: bool) -> Expression {
        let declarations = if authorizer {
            &self.declarations
        } else {
            &self.without_authorizer
        };
        Expression::compile(source, declarations, wanted)
    }

    /// Compiles a mutation, which makes a value of type `wanted`.
    pub(crate) fn mutation(&self, source: &str, wanted: Type) -> Expression {
        Expression::compile(source, &self.with_patches, &[wanted])
    }

    /// Compiles a variable, which later expressions know as `variables.NAME`.
    pub(crate) fn variable(&mut self, name: &str, source: &str) -> Expression {
        self.declare();
        let compiled = self.compile(source, &[], true);
        if let Ok(program) = &compiled.program {
            self.variables
                .push((name.to_owned(), program.result().clone()));
            self.declare();
        }
        compiled
    }

    /// Declares `variables` with the variables so far. A policy without variables has none.
    fn declare(&mut self) {
        let declared = variables(&self.variables);
        for declarations in [
            &mut self.declarations,
            &mut self.without_authorizer,
            &mut self.with_patches,
        ] {
            let variables = &mut declarations.variables;
            variables.insert("variables".to_owned(), declared.clone());
        }
    }
}

/// The conditions under which a policy or webhook applies.
#[derive(Debug, Default)]
pub(crate) struct Conditions(pub(crate) Vec<Expression>);

impl Conditions {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compiles `matchConditions`.
    pub(crate) fn compile(conditions: &[Value], params: bool) -> Self {
        let expressions = Expressions::new(params);
        let compile = |condition: &Value| {
            expressions.compile(text(condition, "expression").trim(), &[Type::Bool], true)
        };
        Self(conditions.iter().map(compile).collect())
    }
}

/// A requirement of a policy.
#[derive(Debug)]
pub(crate) struct Validation {
    pub(crate) expression: Expression,
    pub(crate) message: String,
    pub(crate) message_expression: Option<Expression>,
    pub(crate) reason: Option<String>,
}

/// The part of a policy that its kind determines.
pub(crate) trait Rules: Sized {
    /// Compiles the rules of a `spec`.
    fn compile(spec: &Value, expressions: &Expressions) -> Self;
}

/// The rules of a ValidatingAdmissionPolicy.
#[derive(Debug)]
pub(crate) struct Validations {
    pub(crate) validations: Vec<Validation>,
    pub(crate) annotations: Vec<Expression>,
}

impl Rules for Validations {
    fn compile(spec: &Value, expressions: &Expressions) -> Self {
        let validation = |validation: &Value| Validation {
            expression: expressions.compile(text(validation, "expression"), &[Type::Bool], true),
            message: text(validation, "message").trim().to_owned(),
            message_expression: validation["messageExpression"]
                .as_str()
                .filter(|source| !source.trim().is_empty())
                .map(|source| expressions.compile(source, &[Type::Text], false)),
            reason: validation["reason"].as_str().map(str::to_owned),
        };
        let annotation = |annotation: &Value| {
            let source = text(annotation, "valueExpression").trim();
            expressions.compile(source, &[Type::Text, Type::Null], true)
        };
        let annotations = list(spec, "auditAnnotations").iter().map(annotation);
        Self {
            validations: list(spec, "validations").iter().map(validation).collect(),
            annotations: annotations.collect(),
        }
    }
}

/// A change of objects.
#[derive(Debug)]
pub(crate) enum Mutation {
    /// The expression makes a configuration, which is merged into the object.
    Apply(Expression),
    /// The expression makes the operations of a JSON patch.
    Patch(Expression),
}

/// The rules of a MutatingAdmissionPolicy.
#[derive(Debug)]
pub(crate) struct Mutations {
    pub(crate) mutations: Vec<Mutation>,
    /// The policy is evaluated again after later changes.
    pub(crate) repeats: bool,
}

impl Rules for Mutations {
    fn compile(spec: &Value, expressions: &Expressions) -> Self {
        let mutation = |mutation: &Value| match text(mutation, "patchType") {
            "JSONPatch" => {
                let source = text(mutation, "jsonPatch.expression");
                Mutation::Patch(expressions.mutation(source, json_patch()))
            }
            _ => {
                let source = text(mutation, "applyConfiguration.expression");
                Mutation::Apply(expressions.mutation(source, configuration()))
            }
        };
        Self {
            mutations: list(spec, "mutations").iter().map(mutation).collect(),
            repeats: spec["reinvocationPolicy"] == "IfNeeded",
        }
    }
}

/// A compiled policy.
#[derive(Debug)]
pub(crate) struct Policy<R> {
    pub(crate) name: String,
    pub(crate) constraints: Value,
    pub(crate) param_kind: Option<(String, String)>,
    pub(crate) ignores_failures: bool,
    pub(crate) conditions: Conditions,
    pub(crate) variables: Vec<(String, Expression)>,
    pub(crate) rules: R,
}

impl<R: Rules> Policy<R> {
    pub(crate) fn compile(policy: &Value) -> Self {
        let spec = &policy["spec"];
        let kind = &spec["paramKind"];
        let has_params = kind.is_object();
        let mut expressions = Expressions::new(has_params);
        let mut variables = Vec::new();
        for variable in list(spec, "variables") {
            let name = text(variable, "name");
            let compiled = expressions.variable(name, text(variable, "expression"));
            variables.push((name.to_owned(), compiled));
        }
        Self {
            name: text(policy, "metadata.name").to_owned(),
            constraints: spec["matchConstraints"].clone(),
            param_kind: has_params.then(|| {
                (
                    text(kind, "apiVersion").to_owned(),
                    text(kind, "kind").to_owned(),
                )
            }),
            ignores_failures: spec["failurePolicy"] == "Ignore",
            conditions: Conditions::compile(list(spec, "matchConditions"), has_params),
            rules: R::compile(spec, &expressions),
            variables,
        }
    }
}
