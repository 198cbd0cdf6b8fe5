//! Evaluates a checked expression, and counts its cost.
//!
//! Upstream: `interpreter` of cel-go.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ast::{Expr, Fold, Kind, Select};
use super::cost;
use super::declarations::{JSON_PATCH, PATCH_TEXTS};
use super::fail::Fail;
use super::functions;
use super::types::reserved;
use super::value::{Constructed, Key, Val};

/// The values of the variables of an expression.
pub trait Variables {
    /// The value of a variable; `None` for an unknown one.
    fn get(&self, name: &str) -> Option<Val>;

    /// The value of a field that is computed when an expression needs it.
    fn computed(&self, _variable: &str, _field: &str) -> Option<Result<Val, Fail>> {
        None
    }

    /// The value of every key that `map` lacks; `None` if such a key is an error.
    fn default_in(&self, _map: &Arc<BTreeMap<Key, Val>>) -> Option<Val> {
        None
    }
}

/// Evaluates `expr`. `spent` grows by the cost, also after a failure; above `limit` the evaluation
/// ends.
pub(super) fn run(
    expr: &Expr,
    variables: &dyn Variables,
    limit: u64,
    spent: &mut u64,
) -> Result<Val, Fail> {
    let mut run = Run {
        variables,
        locals: Vec::new(),
        cost: 0,
        limit,
    };
    let result = run.value(expr);
    *spent += run.cost;
    result
}

struct Run<'a> {
    variables: &'a dyn Variables,
    /// The variables of enclosing comprehensions, innermost last. An accumulator can hold a
    /// failure, which `&&` and `||` may absorb.
    locals: Vec<(&'a str, Result<Val, Fail>)>,
    cost: u64,
    limit: u64,
}

impl<'a> Run<'a> {
    fn charge(&mut self, cost: u64) -> Result<(), Fail> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            Err(Fail::Cost)
        } else {
            Ok(())
        }
    }

    fn value(&mut self, expr: &'a Expr) -> Result<Val, Fail> {
        match &expr.kind {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Ident(name) => self.ident(name),
            Kind::Select {
                operand,
                field,
                form,
            } => self.select(operand, field, *form),
            Kind::Call {
                function,
                target,
                args,
            } => self.call(function, target.as_deref(), args),
            Kind::List(items) => {
                let mut values = Vec::with_capacity(items.len());
                for (item, optional) in items {
                    match (self.value(item)?, optional) {
                        (Val::Optional(value), true) => {
                            values.extend(value.map(|value| (*value).clone()));
                        }
                        (value, _) => values.push(value),
                    }
                }
                if !expr.is_constant() {
                    self.charge(cost::LIST)?;
                }
                Ok(Val::list(values))
            }
            Kind::Map(entries) => {
                let mut map = BTreeMap::new();
                for (key, value, optional) in entries {
                    let key = self.value(key)?;
                    let key = Key::of(&key).ok_or_else(|| {
                        Fail::new(format!("unsupported key type: {}", key.kind()))
                    })?;
                    match (self.value(value)?, optional) {
                        (Val::Optional(None), true) => continue,
                        (Val::Optional(Some(value)), true) => map.insert(key, (*value).clone()),
                        (value, _) => map.insert(key, value),
                    };
                }
                if !expr.is_constant() {
                    self.charge(cost::MAP)?;
                }
                Ok(Val::Map(Arc::new(map)))
            }
            Kind::Struct(name, inits) => {
                let mut fields = BTreeMap::new();
                for init in inits {
                    let value = match (self.value(&init.value)?, init.optional) {
                        (Val::Optional(None), true) => continue,
                        (Val::Optional(Some(value)), true) => (*value).clone(),
                        (value, _) => value,
                    };
                    fields.insert(Key::text(&init.name), value);
                }
                self.charge(cost::STRUCT)?;
                let name = name.clone();
                Ok(Val::Constructed(Arc::new(Constructed { name, fields })))
            }
            Kind::Fold(fold) => self.fold(fold),
        }
    }

    fn ident(&mut self, name: &str) -> Result<Val, Fail> {
        self.charge(cost::SELECT)?;
        if let Some((_, value)) = self.locals.iter().rev().find(|(local, _)| *local == name) {
            return value.clone();
        }
        self.variables
            .get(name)
            .or_else(|| functions::type_named(name).map(Val::Type))
            .ok_or_else(|| Fail::new(format!("no such attribute(s): {name}")))
    }

    fn select(&mut self, operand: &'a Expr, field: &str, form: Select) -> Result<Val, Fail> {
        if let Kind::Ident(name) = &operand.kind
            && !self.locals.iter().any(|(local, _)| local == name)
            && let Some(value) = self.variables.computed(name, field)
        {
            self.charge(2 * cost::SELECT)?;
            return match form {
                Select::Value => value,
                Select::Test => Ok(Val::Bool(true)),
                Select::Optional => value.map(Val::some),
            };
        }
        let from = self.value(operand)?;
        // A field of a computed value counts as an attribute with one step.
        let is_attribute = matches!(operand.kind, Kind::Ident(_) | Kind::Select { .. })
            || matches!(&operand.kind, Kind::Call { function, .. } if function.starts_with("_["));
        if form != Select::Test {
            self.charge(if is_attribute {
                cost::SELECT
            } else {
                2 * cost::SELECT
            })?;
        }
        let (from, optional) = match from {
            Val::Optional(None) => {
                return Ok(match form {
                    Select::Test => Val::Bool(false),
                    _ => Val::Optional(None),
                });
            }
            Val::Optional(Some(value)) => ((*value).clone(), true),
            value => (value, form == Select::Optional),
        };
        let found = match &from {
            Val::Map(map) => {
                let escaped = || map.get(&Key::text(&reserved(field)?));
                let found = map.get(&Key::text(field)).or_else(escaped);
                found.cloned().or_else(|| self.variables.default_in(map))
            }
            Val::Constructed(object) => {
                let found = object.fields.get(&Key::text(field));
                if found.is_none() && form == Select::Value && !optional {
                    return Ok(absent(object, field));
                }
                found.cloned()
            }
            Val::Null => None,
            _ => return Err(Fail::no_overload()),
        };
        match (form, optional) {
            (Select::Test, _) => Ok(Val::Bool(found.is_some())),
            (_, true) => Ok(Val::Optional(found.map(Arc::new))),
            _ => found.ok_or_else(|| Fail::new(format!("no such key: {field}"))),
        }
    }

    fn call(
        &mut self,
        function: &str,
        target: Option<&'a Expr>,
        args: &'a [Expr],
    ) -> Result<Val, Fail> {
        match (function, args) {
            ("_&&_", [a, b]) => return self.logical(a, b, false),
            ("_||_", [a, b]) => return self.logical(a, b, true),
            ("_?_:_", [condition, then, otherwise]) => {
                return match self.value(condition)? {
                    Val::Bool(true) => self.value(then),
                    Val::Bool(false) => self.value(otherwise),
                    _ => Err(Fail::no_overload()),
                };
            }
            ("@not_strictly_false", [arg]) => {
                let value = self.value(arg);
                self.charge(1)?;
                return Ok(Val::Bool(!matches!(value, Ok(Val::Bool(false)))));
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            values.push(self.value(arg)?);
        }
        let overload = functions::named(function).and_then(|overloads| {
            overloads.iter().find(|overload| {
                overload.member == target.is_some()
                    && overload.params.len() == values.len()
                    && values.iter().zip(&overload.params).all(|(v, p)| v.fits(p))
            })
        });
        let overload = overload.ok_or_else(Fail::no_overload)?;
        let result = (overload.call)(&values);
        let result = match &values[..] {
            [Val::Map(map), _] if function.starts_with("_[") => self.or_default(map, result),
            _ => result,
        };
        let cost = cost::of_call(function, &values, result.as_ref().ok());
        self.charge(cost)?;
        result
    }

    /// The result of an index into `map`. A key that it lacks may have a value by default.
    fn or_default(
        &self,
        map: &Arc<BTreeMap<Key, Val>>,
        found: Result<Val, Fail>,
    ) -> Result<Val, Fail> {
        let default = || self.variables.default_in(map);
        match found {
            Ok(Val::Optional(None)) => Ok(Val::Optional(default().map(Arc::new))),
            Err(fail) => default().ok_or(fail),
            found => found,
        }
    }

    /// `&&` and `||`: the result is known if one side has the value `decisive`, whatever happens
    /// on the other side.
    fn logical(&mut self, a: &'a Expr, b: &'a Expr, decisive: bool) -> Result<Val, Fail> {
        let left = self.value(a);
        match left {
            Ok(Val::Bool(value)) if value == decisive => return Ok(Val::Bool(decisive)),
            Err(Fail::Cost) => return left,
            _ => {}
        }
        match (left, self.value(b)) {
            (_, Err(Fail::Cost)) => Err(Fail::Cost),
            (_, Ok(Val::Bool(value))) if value == decisive => Ok(Val::Bool(decisive)),
            (Err(fail), _) | (Ok(Val::Bool(_)), Err(fail)) => Err(fail),
            (Ok(Val::Bool(_)), Ok(Val::Bool(_))) => Ok(Val::Bool(!decisive)),
            _ => Err(Fail::no_overload()),
        }
    }

    fn fold(&mut self, fold: &'a Fold) -> Result<Val, Fail> {
        let elements: Vec<(Val, Option<Val>)> = match self.value(&fold.range)? {
            Val::List(list) => {
                let items = list.items.iter().cloned();
                match fold.var2 {
                    None => items.map(|item| (item, None)).collect(),
                    Some(_) => items
                        .zip(0..)
                        .map(|(item, index)| (Val::Int(index), Some(item)))
                        .collect(),
                }
            }
            Val::Map(map) => map
                .iter()
                .map(|(key, value)| (key.to_val(), Some(value.clone())))
                .collect(),
            _ => return Err(Fail::no_overload()),
        };
        let depth = self.locals.len();
        let init = self.value(&fold.init);
        self.locals.push((&fold.accumulator, init));
        for (first, second) in elements {
            self.locals.truncate(depth + 1);
            self.locals.push((&fold.var, Ok(first)));
            if let Some(var2) = &fold.var2
                && let Some(second) = second
            {
                self.locals.push((var2, Ok(second)));
            }
            if self.value(&fold.condition)? != Val::Bool(true) {
                break;
            }
            let step = self.value(&fold.step);
            if step == Err(Fail::Cost) {
                return step;
            }
            self.locals[depth].1 = step;
        }
        self.locals.truncate(depth + 1);
        let result = self.value(&fold.result);
        self.locals.truncate(depth);
        result
    }
}

/// The value of a field that a constructed object does not have.
fn absent(object: &Constructed, field: &str) -> Val {
    if object.name == JSON_PATCH && PATCH_TEXTS.contains(&field) {
        Val::text("")
    } else {
        Val::Null
    }
}
