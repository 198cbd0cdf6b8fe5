//! The rules of a custom kind (`x-kubernetes-validations`): expressions that every object fulfils.
//!
//! schema -> [`declare`] (types and sizes) -> [`Rules`] (compiled, a tree like the schema) -> errors
//! of an object. `definition` checks the rules of a new definition.
//!
//! Upstream: `pkg/apiserver/schema/cel` of apiextensions-apiserver.

mod declare;
pub(super) mod definition;
mod path;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::schema::{ListType, Rule, Schema};
use crate::cel::types::{Decl, Type};
use crate::cel::value::Val;
use crate::cel::{Declarations, Fail, Program, Variables, cost};
use crate::fielderror::{FieldError, Problem};

/// A rule with its programs; an error is the text about the source.
#[derive(Debug)]
struct Compiled {
    rule: Rule,
    program: Result<Program, String>,
    message: Option<Result<Program, String>>,
    /// Appended to the path of the value in errors.
    field_path: String,
}

impl Compiled {
    fn new(rule: &Rule, schema: &Schema, decl: &Arc<Decl>) -> Self {
        let declarations = declarations(rule, decl);
        let sizes: &Decl = decl;
        let program = Program::compile(&rule.rule, &declarations, sizes)
            .map_err(|problem| format!("compilation failed: {problem}"))
            .and_then(|program| match program.result() {
                Type::Bool => Ok(program),
                _ => Err("cel expression must evaluate to a bool".to_owned()),
            });
        let message = (!rule.message_expression.is_empty() && program.is_ok()).then(|| {
            Program::compile(&rule.message_expression, &declarations, sizes)
                .map_err(|problem| format!("messageExpression compilation failed: {problem}"))
                .and_then(|program| match program.result() {
                    Type::Text => Ok(program),
                    _ => Err("messageExpression must evaluate to a string".to_owned()),
                })
        });
        Self {
            program,
            message,
            field_path: path::normalized(schema, &rule.field_path).unwrap_or_default(),
            rule: rule.clone(),
        }
    }

    fn uses_old(&self) -> bool {
        let program = self.program.as_ref();
        program.is_ok_and(|program| program.uses("oldSelf"))
    }
}

fn declarations(rule: &Rule, decl: &Decl) -> Declarations {
    let old = match rule.optional_old_self {
        Some(true) => Type::optional(decl.ty.clone()),
        _ => decl.ty.clone(),
    };
    Declarations::from([
        ("self".to_owned(), decl.ty.clone()),
        ("oldSelf".to_owned(), old),
    ])
}

/// The compiled rules of a schema, with those of all nodes below. Nodes without rules are absent.
#[derive(Debug)]
pub(super) struct Rules {
    own: Vec<Compiled>,
    properties: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    additional: Option<Box<Rules>>,
    all_of: Vec<Rules>,
    /// The `type` of the schema.
    kind: String,
    decl: Arc<Decl>,
    /// The keys of a list of type `map`.
    list_keys: Option<Vec<String>>,
}

impl Rules {
    /// Compiles the rules of a whole object.
    pub(super) fn of_resource(schema: &Schema) -> Option<Self> {
        Self::of(schema, true)
    }

    /// Compiles the rules of a value; `resource` adds `apiVersion`, `kind` and `metadata`.
    pub(super) fn of(schema: &Schema, resource: bool) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        let decl = declare::schema(schema, resource)?;
        Self::build(schema, schema, &Arc::new(decl))
    }

    /// The rules in `rules`, which is `node` itself or one of its `allOf`.
    fn build(rules: &Schema, node: &Schema, decl: &Arc<Decl>) -> Option<Self> {
        let compile = |rule: &Rule| Compiled::new(rule, node, decl);
        let own: Vec<Compiled> = rules.rules.iter().map(compile).collect();
        let element = decl.element.as_ref();
        let items = rules.item().zip(node.item()).zip(element);
        let items = items.and_then(|((rules, node), decl)| Self::build(rules, node, decl));
        let additional = rules.additional().zip(node.additional()).zip(element);
        let additional =
            additional.and_then(|((rules, node), decl)| Self::build(rules, node, decl));
        let mut properties = BTreeMap::new();
        for (name, rules) in &rules.properties {
            let Some(node) = node.property(name) else {
                continue;
            };
            if let Some(decl) = declare::property(decl, name, node)
                && let Some(found) = Self::build(rules, node, &decl)
            {
                properties.insert(name.clone(), found);
            }
        }
        let all_of = rules.all_of.iter();
        let all_of: Vec<Self> = all_of
            .filter_map(|rules| Self::build(rules, node, decl))
            .collect();
        let empty = own.is_empty()
            && properties.is_empty()
            && all_of.is_empty()
            && items.is_none()
            && additional.is_none();
        let list_keys = || node.list_keys().to_vec();
        (!empty).then(|| Self {
            own,
            properties,
            items: items.map(Box::new),
            additional: additional.map(Box::new),
            all_of,
            kind: node.kind.clone(),
            decl: decl.clone(),
            list_keys: (node.list_type == ListType::Map).then(list_keys),
        })
    }

    /// The errors of a value at `path`; rules about changes compare it with `old`. Errors of parts
    /// that did not change become warnings, because they must not block other changes.
    pub(super) fn check(&self, value: &Value, old: Option<&Value>, path: &str) -> Findings {
        let mut check = Check {
            found: Findings::default(),
            budget: cost::BUDGET,
        };
        let place = Place {
            old,
            parent: None,
            path,
        };
        // `Err` ends the check; the error is noted already.
        let _ended = check.value(self, value, &place);
        check.found
    }
}

fn has_rules(schema: &Schema) -> bool {
    !schema.rules.is_empty()
        || schema.item().is_some_and(has_rules)
        || schema.additional().is_some_and(has_rules)
        || schema.properties.values().any(has_rules)
        || schema.all_of.iter().any(has_rules)
}

/// The result of a check.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<FieldError>,
    /// Errors of parts that an update keeps.
    pub(super) kept: Vec<FieldError>,
}

/// Where a value is, and which old value corresponds to it.
struct Place<'a> {
    old: Option<&'a Value>,
    /// The nearest value above with an old one: old and new.
    parent: Option<(&'a Value, &'a Value)>,
    path: &'a str,
}

impl Place<'_> {
    /// Whether the value did not change, as far as it can be compared.
    fn is_kept(&self, value: &Value) -> bool {
        match (self.old, self.parent) {
            (Some(old), _) => old == value,
            (None, Some((old, new))) => old == new,
            (None, None) => false,
        }
    }

    fn child<'b>(&'b self, value: &'b Value, old: Option<&'b Value>, path: &'b str) -> Place<'b> {
        Place {
            old,
            parent: self.old.map(|old| (old, value)).or(self.parent),
            path,
        }
    }
}

/// An error ended the check: the budget is spent.
struct Ended;

struct Check {
    found: Findings,
    budget: u64,
}

/// The values of `self` and `oldSelf`.
struct Selves {
    new: Val,
    old: Option<Val>,
}

impl Variables for Selves {
    fn get(&self, name: &str) -> Option<Val> {
        match name {
            "self" => Some(self.new.clone()),
            "oldSelf" => self.old.clone(),
            _ => None,
        }
    }
}

impl Check {
    fn error(&mut self, path: &str, problem: Problem) {
        self.found.errors.push(error(path, problem));
    }

    fn value(&mut self, rules: &Rules, value: &Value, place: &Place<'_>) -> Result<(), Ended> {
        if value.is_null() {
            return Ok(());
        }
        self.own(rules, value, place)?;
        for alternative in &rules.all_of {
            let place = Place {
                old: None,
                parent: place.parent,
                path: place.path,
            };
            self.value(alternative, value, &place)?;
        }
        match value {
            Value::Array(items) => {
                let Some(rules_of_item) = &rules.items else {
                    return Ok(());
                };
                for (index, item) in items.iter().enumerate() {
                    let old = place.old.and_then(|old| same_element(rules, old, item));
                    let path = format!("{}[{index}]", place.path);
                    self.value(rules_of_item, item, &place.child(value, old, &path))?;
                }
                Ok(())
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    // Both types of maps relate a key to its old value.
                    let old = place.old.and_then(|old| old.get(name));
                    if let Some(rules) = &rules.additional {
                        let path = format!("{}[{name}]", place.path);
                        self.value(rules, field, &place.child(value, old, &path))?;
                    }
                    if let Some(rules) = rules.properties.get(name) {
                        let path = below(place.path, name);
                        self.value(rules, field, &place.child(value, old, &path))?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Evaluates the rules of one node.
    fn own(&mut self, rules: &Rules, value: &Value, place: &Place<'_>) -> Result<(), Ended> {
        if rules.own.is_empty() {
            return Ok(());
        }
        let invalid = |why: String| Problem::Invalid(Value::from(rules.kind.as_str()), why);
        const NO_BUDGET: &str = "validation failed due to running out of cost budget, no further validation rules will be run";
        if self.budget == 0 {
            self.error(place.path, invalid(NO_BUDGET.to_owned()));
            return Err(Ended);
        }
        let new = Val::declared(value, &rules.decl);
        let old = place.old.filter(|old| !old.is_null());
        let old = old.map(|old| Val::declared(old, &rules.decl));
        for compiled in &rules.own {
            let rule = &compiled.rule;
            let program = match &compiled.program {
                Ok(program) => program,
                Err(problem) => {
                    self.error(
                        place.path,
                        invalid(format!("rule compile error: {problem}")),
                    );
                    continue;
                }
            };
            let optional = rule.optional_old_self == Some(true);
            if compiled.uses_old() && old.is_none() && !optional {
                continue;
            }
            let selves = Selves {
                new: new.clone(),
                old: if optional {
                    Some(Val::Optional(old.clone().map(Arc::new)))
                } else {
                    old.clone()
                },
            };
            let mut spent = 0;
            let result = program.run(&selves, &mut spent);
            if spent > self.budget {
                self.error(place.path, invalid(NO_BUDGET.to_owned()));
                return Err(Ended);
            }
            self.budget -= spent;
            let shown = rule.shown();
            match result {
                Ok(Val::Bool(true)) => continue,
                Ok(_) => {}
                Err(fail @ Fail::Cost) => {
                    let why = format!(
                        "'{fail}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
                    );
                    self.error(place.path, invalid(why));
                    return Err(Ended);
                }
                Err(fail) if fail.to_string().starts_with("no such overload") => {
                    let why = format!(
                        "'{fail}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
                    );
                    self.error(place.path, invalid(why));
                    continue;
                }
                Err(fail) => {
                    let why = format!("{fail} evaluating rule: {shown}");
                    self.error(place.path, invalid(why));
                    continue;
                }
            }
            let path = format!("{}{}", place.path, compiled.field_path);
            let path = path
                .strip_prefix('.')
                .filter(|_| place.path.is_empty())
                .unwrap_or(&path);
            let message = match self.message(compiled, &selves) {
                Ok(message) => message,
                Err(why) => {
                    self.error(path, invalid(why));
                    return Err(Ended);
                }
            };
            let failed = error(path, problem(rule, rules, value, message));
            if !compiled.uses_old() && place.is_kept(value) {
                self.found.kept.push(failed)
            } else {
                self.found.errors.push(failed)
            }
        }
        Ok(())
    }

    /// The message of a failed rule. `Err` if its evaluation is too expensive.
    fn message(&mut self, compiled: &Compiled, selves: &Selves) -> Result<String, String> {
        let rule = &compiled.rule;
        let default = || {
            if rule.message.is_empty() {
                format!("failed rule: {}", rule.shown())
            } else {
                rule.shown().to_owned()
            }
        };
        let Some(Ok(program)) = &compiled.message else {
            return Ok(default());
        };
        let mut spent = 0;
        let result = program.run(selves, &mut spent);
        if spent > self.budget {
            return Err("messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned());
        }
        self.budget -= spent;
        match result {
            Err(Fail::Cost) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {:?}",
                rule.message_expression
            )),
            Ok(Val::Text(text)) if is_message(text.trim()) => Ok(text.trim().to_owned()),
            _ => Ok(default()),
        }
    }
}

/// Whether a text is fit for a message: one line of limited length.
fn is_message(text: &str) -> bool {
    !text.is_empty() && text.len() <= cost::MAX_MESSAGE && !text.contains('\n')
}

fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

fn same_element<'a>(rules: &Rules, old: &'a Value, item: &Value) -> Option<&'a Value> {
    let keys = rules.list_keys.as_ref()?;
    let same = |old: &&Value| keys.iter().all(|key| old.get(key) == item.get(key));
    old.as_array()?.iter().find(same)
}

fn error(path: &str, problem: Problem) -> FieldError {
    let field = if path.is_empty() { "<nil>" } else { path };
    FieldError {
        field: field.to_owned(),
        problem,
    }
}

/// The error for a failed rule, with the reason that the rule names. Objects and lists are not
/// shown.
fn problem(rule: &Rule, rules: &Rules, value: &Value, message: String) -> Problem {
    let is_large = matches!(&*rules.kind, "object" | "array");
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => Problem::Forbidden(message),
        Some("FieldValueRequired") => Problem::Required(message),
        Some("FieldValueDuplicate") if is_large => Problem::DuplicateWhole,
        Some("FieldValueDuplicate") => Problem::Duplicate(value.clone(), String::new()),
        _ if is_large => Problem::InvalidWhole(message),
        _ => Problem::Invalid(value.clone(), message),
    }
}
