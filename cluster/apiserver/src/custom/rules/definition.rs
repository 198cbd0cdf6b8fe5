//! Checks the rules of a new definition: their fields, their types, and their cost in the worst
//! case that the schema allows.
//!
//! Upstream: `pkg/apis/apiextensions/validation` of apiextensions-apiserver.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::schema::{ListType, Schema};
use super::{Compiled, Rule, declare, path};
use crate::apimachinery::errors::Errors;
use crate::cel::declare::MAX_REQUEST;
use crate::cel::types::Decl;

/// Limits of one expression, and of all expressions of a schema.
const MAX_COST: u64 = 10_000_000;
const MAX_TOTAL: u64 = 100_000_000;
/// The most expressions that are named when the total is too high.
const MAX_NAMED: usize = 4;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Appends the errors of all rules of a valid schema, which is at `field`.
pub(in crate::custom) fn check(schema: &Schema, field: &str, errors: &mut Errors) {
    let before = errors.len();
    fields(schema, field, errors);
    if errors.len() > before {
        return;
    }
    let mut check = Check {
        errors,
        total: 0,
        expensive: Vec::new(),
    };
    let decl = declare::schema(schema, true).map(Arc::new);
    let root = Node {
        decl,
        cardinality: Some(1),
        uncorrelatable: None,
    };
    check.node(schema, &root, field);
    if check.total > MAX_TOTAL {
        let mut expensive = check.expensive;
        expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (field, _) in expensive.into_iter().take(MAX_NAMED) {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            check.errors.forbidden(field, why);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let why = too_expensive(what, check.total, MAX_TOTAL);
        check.errors.forbidden(field, why);
    }
}

/// The nodes below a schema, with the steps of their paths.
fn children(schema: &Schema) -> impl Iterator<Item = (String, &Schema)> {
    let properties = schema.properties.iter();
    let properties = properties.map(|(name, node)| (format!("properties[{name}]"), node));
    let additional = schema.additional();
    let items = schema.item();
    additional
        .map(|node| ("additionalProperties".to_owned(), node))
        .into_iter()
        .chain(properties)
        .chain(items.map(|node| ("items".to_owned(), node)))
}

/// Checks the texts of all rules.
fn fields(schema: &Schema, field: &str, errors: &mut Errors) {
    for (step, node) in children(schema) {
        fields(node, &format!("{field}.{step}"), errors);
    }
    let has_newlines = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in schema.rules.iter().enumerate() {
        let at = |name: &str| format!("{field}.x-kubernetes-validations[{index}].{name}");
        let text = rule.rule.trim();
        let message = rule.message.trim();
        if text.is_empty() {
            errors.required(at("rule"), "rule is not specified");
        } else if !rule.message.is_empty() && message.is_empty() {
            let value = rule.message.as_str();
            errors.invalid(at("message"), value, "must be non-empty if specified");
        } else if has_newlines(message) {
            let value = rule.message.as_str();
            errors.invalid(at("message"), value, "must not contain line breaks");
        } else if has_newlines(text) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.required(at("message"), why);
        }
        if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.required(at("messageExpression"), why);
        }
        if let Some(reason) = &rule.reason {
            errors.one_of(at("reason"), reason, &REASONS);
        }
        let target = rule.field_path.as_str();
        if !target.is_empty() {
            if target.trim().is_empty() {
                errors.invalid(at("fieldPath"), target, "must be non-empty if specified");
            }
            if has_newlines(target) {
                errors.invalid(at("fieldPath"), target, "must not contain line breaks");
            }
            if path::normalized(schema, target).is_none() {
                errors.invalid(at("fieldPath"), target, "must be a valid path");
            }
        }
    }
}

/// The facts about a node that follow from the nodes above it.
struct Node {
    decl: Option<Arc<Decl>>,
    /// The most values in one object; `None` without a limit.
    cardinality: Option<u64>,
    /// The first node above whose old and new parts have no correspondence.
    uncorrelatable: Option<String>,
}

struct Check<'a> {
    errors: &'a mut Errors,
    total: u64,
    expensive: Vec<(String, u64)>,
}

impl Check<'_> {
    fn node(&mut self, schema: &Schema, node: &Node, field: &str) {
        let count = match &*schema.kind {
            "object" if schema.additional().is_some() => schema.max_properties,
            "array" => schema.max_items,
            _ => Some(1),
        };
        let count = count.map(|count| count as u64);
        for (step, child) in children(schema) {
            let decl = node.decl.as_ref();
            let (decl, forbids_old) = match step.as_str() {
                "items" => {
                    let is_map = schema.list_type == ListType::Map;
                    (decl.and_then(|decl| decl.element.clone()), !is_map)
                }
                "additionalProperties" => (decl.and_then(|decl| decl.element.clone()), false),
                step => {
                    let name = step.trim_start_matches("properties[").trim_end_matches(']');
                    let found = decl.and_then(|decl| declare::property(decl, name, child));
                    (found, false)
                }
            };
            let own = || declare::schema(child, child.embedded_resource).map(Arc::new);
            let below = Node {
                decl: decl.or_else(own),
                cardinality: node
                    .cardinality
                    .zip(count)
                    .map(|(above, count)| above.saturating_mul(count)),
                uncorrelatable: node
                    .uncorrelatable
                    .clone()
                    .or_else(|| forbids_old.then(|| field.to_owned())),
            };
            self.node(child, &below, &format!("{field}.{step}"));
        }
        let Some(decl) = &node.decl else {
            if !schema.rules.is_empty() {
                let why = "Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
                self.errors
                    .invalid_whole(format!("{field}.x-kubernetes-validations"), why);
            }
            return;
        };
        for (index, rule) in schema.rules.iter().enumerate() {
            let field = format!("{field}.x-kubernetes-validations[{index}]");
            self.rule(rule, schema, decl, node, &field);
        }
    }

    fn rule(&mut self, rule: &Rule, schema: &Schema, decl: &Arc<Decl>, node: &Node, field: &str) {
        let compiled = Compiled::new(rule, schema, decl);
        let at = |name: &str| format!("{field}.{name}");
        let most = node
            .cardinality
            .unwrap_or(MAX_REQUEST / (decl.min_size + 1));
        let shown = json!(rule);
        match &compiled.program {
            Ok(program) => {
                let cost = program.max_cost().saturating_mul(most);
                self.observe(at("rule"), "estimated rule cost", cost);
            }
            Err(problem) => self
                .errors
                .invalid(at("rule"), shown.clone(), problem.as_str()),
        }
        match &compiled.message {
            Some(Ok(program)) => {
                let what = "estimated messageExpression cost";
                self.observe(at("messageExpression"), what, program.max_cost());
            }
            Some(Err(problem)) => {
                self.errors
                    .invalid(at("messageExpression"), shown, problem.as_str());
            }
            None => {}
        }
        match (compiled.uses_old(), &node.uncorrelatable) {
            (true, Some(place)) => {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {place}"
                );
                self.errors.invalid(at("rule"), rule.rule.as_str(), why);
            }
            (false, _) => {
                if let Some(value) = rule.optional_old_self {
                    let why = "may not be set if oldSelf is not used in rule";
                    self.errors
                        .invalid(at("optionalOldSelf"), Value::from(value), why);
                }
            }
            _ => {}
        }
    }

    fn observe(&mut self, field: String, what: &str, cost: u64) {
        if cost > MAX_COST {
            self.errors
                .forbidden(&field, too_expensive(what, cost, MAX_COST));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= MAX_TOTAL / 100 {
            self.expensive.push((field, cost));
        }
    }
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
