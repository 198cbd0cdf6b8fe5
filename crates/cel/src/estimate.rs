//! The most that an expression can cost, from the sizes that schemas allow. The server refuses
//! rules that could be too expensive, before there is an object.
//!
//! Upstream: `checker/cost.go` of cel-go, `k8s.io/apiserver/pkg/cel/library/cost.go`. Only the
//! upper bounds are computed, because nothing depends on the lower ones except the sizes of texts
//! that `replace` makes.

use std::collections::HashMap;

use super::ast::{Expr, Fold, Kind, Select};
use super::cost::{CHECK, LIST, MAP, PATTERN, SELECT, STRUCT, TRAVERSAL};
use super::macros::ACCUMULATOR;
use super::types::{Decl, Type};
use super::value::Val;

/// The largest sizes of values, by their path from a variable: names of fields, `@items` of a
/// list, `@keys` and `@values` of a map.
pub trait Sizes {
    /// The most elements or bytes; `None` if unknown.
    fn max(&self, path: &[String]) -> Option<u64>;
}

/// Knows the parts of one variable, or of several with the same declaration.
impl Sizes for Decl {
    fn max(&self, path: &[String]) -> Option<u64> {
        let mut decl = self;
        let mut steps = path.get(1..)?.iter();
        while let Some(step) = steps.next() {
            decl = match step.as_str() {
                "@items" | "@values" => decl.element.as_deref()?,
                // Upstream declares keys as texts without a limit, which count as empty.
                "@keys" => {
                    let is_key = matches!(decl.ty, Type::Map(..)) && steps.next().is_none();
                    return is_key.then_some(0);
                }
                field => &**decl.field(field)?,
            };
        }
        Some(decl.max_elements)
    }
}

/// Knows nothing.
impl Sizes for () {
    fn max(&self, _: &[String]) -> Option<u64> {
        None
    }
}

const UNKNOWN: u64 = u64::MAX;
/// Bytes of an address.
const ADDRESS: u64 = 16;
/// The largest pattern of a named format.
const MAX_FORMAT_PATTERN: f64 = 128.0;

/// The most that `expr` can cost.
pub(super) fn max_cost(expr: &Expr, types: &HashMap<usize, Type>, sizes: &dyn Sizes) -> u64 {
    let mut estimate = Estimate {
        types,
        sizes,
        paths: HashMap::new(),
        computed: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimate.cost(expr)
}

/// `size` units at `factor`, rounded up.
fn by(size: u64, factor: f64) -> u64 {
    let cost = (size as f64 * factor).ceil();
    if cost >= 18_446_744_073_709_551_616.0 {
        UNKNOWN
    } else {
        cost as u64
    }
}

/// The sizes of the parts of a list or map that an expression makes.
#[derive(Debug, Clone, Copy)]
struct Entry {
    is_list: bool,
    key: u64,
    value: u64,
}

impl Entry {
    /// The larger sizes of two, if both are known.
    fn union(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (one, other) = one.zip(other)?;
        Some(Self {
            is_list: one.is_list,
            key: one.key.max(other.key),
            value: one.value.max(other.value),
        })
    }
}

struct Local<'a> {
    name: &'a str,
    path: Vec<String>,
    size: Option<u64>,
    entry: Option<Entry>,
}

struct Estimate<'a> {
    types: &'a HashMap<usize, Type>,
    sizes: &'a dyn Sizes,
    paths: HashMap<usize, Vec<String>>,
    computed: HashMap<usize, u64>,
    entries: HashMap<usize, Entry>,
    locals: Vec<Local<'a>>,
}

impl<'a> Estimate<'a> {
    fn cost(&mut self, expr: &'a Expr) -> u64 {
        match &expr.kind {
            Kind::Literal(_) => 0,
            Kind::Ident(name) => {
                let path = self.local(name).map(|local| local.path.clone());
                let path = path.unwrap_or_else(|| vec![name.clone()]);
                self.paths.insert(expr.id, path);
                SELECT
            }
            Kind::Select {
                operand,
                field,
                form,
            } => {
                let cost = self.cost(operand);
                if *form == Select::Test {
                    return cost;
                }
                let steps = matches!(
                    self.types.get(&operand.id),
                    Some(Type::Map(..) | Type::Object(_) | Type::Var(_))
                );
                let mut path = self.path(operand);
                path.push(field.clone());
                self.paths.insert(expr.id, path);
                cost.saturating_add(if steps { SELECT } else { 0 })
            }
            Kind::Call {
                function,
                target,
                args,
            } => self.call(expr, function, target.as_deref(), args),
            Kind::List(items) => {
                let mut cost = LIST;
                let mut largest = 0;
                for (item, _) in items {
                    cost = cost.saturating_add(self.cost(item));
                    largest = largest.max(self.size(item));
                }
                let entry = Entry {
                    is_list: true,
                    key: 1,
                    value: largest,
                };
                self.entries.insert(expr.id, entry);
                cost
            }
            Kind::Map(entries) => {
                let mut cost = MAP;
                let mut entry = Entry {
                    is_list: false,
                    key: 0,
                    value: 0,
                };
                for (key, value, _) in entries {
                    cost = cost.saturating_add(self.cost(key));
                    cost = cost.saturating_add(self.cost(value));
                    entry.key = entry.key.max(self.size(key));
                    entry.value = entry.value.max(self.size(value));
                }
                self.entries.insert(expr.id, entry);
                cost
            }
            Kind::Struct(_, fields) => fields.iter().fold(STRUCT, |cost, init| {
                cost.saturating_add(self.cost(&init.value))
            }),
            Kind::Fold(fold) => self.fold(expr, fold),
        }
    }

    fn local(&self, name: &str) -> Option<&Local<'a>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, expr: &Expr) -> Vec<String> {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    /// The path of the parts of a list or map. Upstream drops the first element of each path, so that parts of
    /// a computed value have the size of the whole variable.
    fn below(&self, container: &Expr, part: &str) -> Vec<String> {
        let mut path = self.path(container);
        path.push(part.to_owned());
        path
    }

    /// The most elements or characters of a value.
    fn size(&mut self, expr: &Expr) -> u64 {
        self.known_size(expr).unwrap_or(UNKNOWN)
    }

    fn known_size(&mut self, expr: &Expr) -> Option<u64> {
        if let Some(size) = self.computed.get(&expr.id) {
            return Some(*size);
        }
        match &expr.kind {
            Kind::Literal(value @ (Val::Text(_) | Val::Bytes(_))) => return Some(value.size()),
            Kind::Literal(Val::Type(_)) => {}
            Kind::Literal(_) => return Some(1),
            Kind::List(items) => return Some(items.len() as u64),
            Kind::Map(entries) => return Some(entries.len() as u64),
            _ => {}
        }
        let path = self.path(expr);
        let is_result = path.first().is_some_and(|first| first == ACCUMULATOR);
        if !path.is_empty()
            && !is_result
            && let Some(size) = self.sizes.max(&path)
        {
            self.computed.insert(expr.id, size);
            return Some(size);
        }
        if self.types.get(&expr.id).is_some_and(is_scalar) {
            return Some(1);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn entry(&self, expr: &Expr) -> Option<Entry> {
        if let Some(entry) = self.entries.get(&expr.id) {
            return Some(*entry);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.entry),
            _ => None,
        }
    }

    /// The size of the elements of a list.
    fn element_size(&mut self, list: &Expr) -> u64 {
        let mut path = self.path(list);
        if path.is_empty() {
            return UNKNOWN;
        }
        path.push("@items".to_owned());
        self.sizes.max(&path).unwrap_or(UNKNOWN)
    }

    fn call(
        &mut self,
        expr: &'a Expr,
        function: &str,
        target: Option<&'a Expr>,
        args: &'a [Expr],
    ) -> u64 {
        let costs: Vec<u64> = args.iter().map(|arg| self.cost(arg)).collect();
        let sum = costs
            .iter()
            .fold(0_u64, |sum, cost| sum.saturating_add(*cost));
        let before = target.map_or(0, |target| self.cost(target));
        match (function, args) {
            ("dyn", [arg]) => {
                if let Some(size) = self.known_size(arg) {
                    self.computed.insert(expr.id, size);
                }
                if let Some(entry) = self.entry(arg) {
                    self.entries.insert(expr.id, entry);
                }
                return sum.saturating_add(1);
            }
            ("_?_:_", [_, then, otherwise]) => {
                let size = self.size(then).max(self.size(otherwise));
                self.computed.insert(expr.id, size);
                if let Some(entry) = Entry::union(self.entry(then), self.entry(otherwise)) {
                    self.entries.insert(expr.id, entry);
                }
                return costs[0].saturating_add(costs[1].max(costs[2]));
            }
            ("_&&_" | "_||_", _) => return sum,
            _ => {}
        }
        let (own, result) = self.function(expr, function, target, args);
        let result = match (function, args) {
            ("_[_]", [container, _]) => {
                let is_list = matches!(self.types.get(&container.id), Some(Type::List(_)));
                let part = if is_list { "@items" } else { "@values" };
                let path = self.below(container, part);
                self.paths.insert(expr.id, path);
                self.entry(container).map(|entry| entry.value)
            }
            _ => result,
        };
        if let Some(size) = result.or_else(|| self.known_size(expr)) {
            self.computed.insert(expr.id, size);
        }
        before.saturating_add(sum).saturating_add(own)
    }

    /// The cost of a function without its arguments, and the size of its result if known.
    fn function(
        &mut self,
        expr: &Expr,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> (u64, Option<u64>) {
        let first = args.first();
        let mut arg = |index: usize| args.get(index).map_or(UNKNOWN, |arg| self.size(arg));
        let a = arg(0);
        let b = arg(1);
        let of_target = target.map(|target| self.size(target));
        let on = of_target.unwrap_or(UNKNOWN);
        match function {
            "check" => (CHECK, None),
            "fieldSelector" | "labelSelector" => {
                let requirements = by(by(a, 0.5), (LIST + 40) as f64);
                (
                    LIST.saturating_add(by(a, TRAVERSAL))
                        .saturating_add(requirements),
                    None,
                )
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let Some(target) = target else {
                    return (1, None);
                };
                match self.types.get(&target.id) {
                    Some(Type::List(element)) => {
                        let texts = matches!(**element, Type::Text | Type::Bytes);
                        let size = if texts { self.element_size(target) } else { 0 };
                        (
                            on.saturating_mul(by(size, TRAVERSAL).saturating_add(1)),
                            None,
                        )
                    }
                    _ => (by(on, TRAVERSAL), None),
                }
            }
            "url" | "jsonpatch.escapeKey" => (by(a, TRAVERSAL), Some(a)),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => (by(on, TRAVERSAL), Some(on)),
            "replace" => {
                // Each character may become the replacement; a longer literal occurs less often.
                let from = match first.map(|from| &from.kind) {
                    Some(Kind::Literal(Val::Text(text))) => text.chars().count() as u64,
                    _ => 0,
                };
                let size = match from {
                    0 => on.saturating_add(1).saturating_mul(b).saturating_add(on),
                    from if b <= from => on,
                    from => on.div_ceil(from).saturating_mul(b),
                };
                (by(on, 2.0 * TRAVERSAL), Some(size))
            }
            "split" => {
                let limit = args.get(1).and_then(|limit| match &limit.kind {
                    Kind::Literal(Val::Int(limit)) => u64::try_from(*limit).ok(),
                    _ => None,
                });
                (by(on, 2.0 * TRAVERSAL), Some(limit.unwrap_or(on)))
            }
            "join" => {
                let element = target.map_or(UNKNOWN, |target| self.element_size(target));
                let separators = match first {
                    Some(_) => a.saturating_mul(on.saturating_sub(1)),
                    None => 0,
                };
                let size = on.saturating_mul(element).saturating_add(separators);
                (by(size, TRAVERSAL), Some(size))
            }
            "find" | "findAll" => {
                let text = by(on.saturating_add(1), TRAVERSAL);
                (text.saturating_mul(by(a, PATTERN)), Some(on))
            }
            "matches" => {
                let (text, pattern) = match of_target {
                    Some(text) => (text, a),
                    None => (a, b),
                };
                let text = by(text.saturating_add(1), TRAVERSAL);
                (text.saturating_mul(by(pattern, PATTERN)), None)
            }
            "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                (by(a, TRAVERSAL), None)
            }
            "ip" if target.is_none() => (by(a, TRAVERSAL), None),
            "ip.isCanonical" => (by(a, 2.0 * TRAVERSAL), None),
            "containsIP" | "containsCIDR" => {
                let own = match function {
                    "containsIP" => by(2 * ADDRESS, TRAVERSAL),
                    _ => by(2 * ADDRESS, TRAVERSAL) + by(ADDRESS, TRAVERSAL) + 1,
                };
                let is_text = first.and_then(|arg| self.types.get(&arg.id)) == Some(&Type::Text);
                let text = if is_text { by(a, TRAVERSAL) } else { 0 };
                (own.saturating_add(text), None)
            }
            "validate" => (by(by(a, TRAVERSAL), MAX_FORMAT_PATTERN * PATTERN), None),
            "sets.contains" | "sets.intersects" => (a.saturating_mul(b), None),
            "sets.equivalent" => (a.saturating_mul(b).saturating_mul(2), None),
            "format" => (by(on, TRAVERSAL), None),
            "bytes" => (by(a, TRAVERSAL), Some(a.saturating_mul(4))),
            "string" => match first.and_then(|arg| self.types.get(&arg.id)) {
                Some(Type::Bytes | Type::Dyn) => (by(a, TRAVERSAL), Some(a)),
                _ => (1, None),
            },
            "strings.quote" => (
                by(a, TRAVERSAL),
                Some(a.saturating_mul(2).saturating_add(2)),
            ),
            "startsWith" | "endsWith" => (by(a, TRAVERSAL), None),
            "@in" => match args.get(1).and_then(|arg| self.types.get(&arg.id)) {
                Some(Type::Map(..)) => (1, None),
                _ => (b, None),
            },
            "contains" => (by(on, TRAVERSAL).saturating_mul(by(a, TRAVERSAL)), None),
            "_==_" | "_!=_" if self.has_constant_equality(args) => (1, None),
            "_==_" | "_!=_" => (by(a.min(b), TRAVERSAL), None),
            "_<_" | "_<=_" | "_>_" | "_>=_" => {
                let ordered = |arg: &Expr| {
                    matches!(
                        self.types.get(&arg.id),
                        Some(Type::Text | Type::Bytes | Type::Dyn)
                    )
                };
                if args.iter().all(ordered) {
                    (by(a.min(b), TRAVERSAL), None)
                } else {
                    (1, None)
                }
            }
            "_+_" => match self.types.get(&expr.id) {
                Some(Type::Text | Type::Bytes | Type::Dyn) => {
                    let size = a.saturating_add(b);
                    (by(size, TRAVERSAL), Some(size))
                }
                Some(Type::List(_)) => {
                    let entry = |arg: Option<&Expr>| arg.and_then(|arg| self.entry(arg));
                    if let Some(entry) = Entry::union(entry(first), entry(args.get(1))) {
                        self.entries.insert(expr.id, entry);
                    }
                    (1, Some(a.saturating_add(b)))
                }
                _ => (1, None),
            },
            _ => (1, None),
        }
    }

    /// Whether both sides have a library's type, of which a comparison costs little.
    fn has_constant_equality(&self, args: &[Expr]) -> bool {
        args.iter()
            .all(|arg| matches!(self.types.get(&arg.id), Some(Type::Opaque(_))))
    }

    fn fold(&mut self, expr: &'a Expr, fold: &'a Fold) -> u64 {
        let range = self.cost(&fold.range);
        let init = self.cost(&fold.init);
        let depth = self.locals.len();
        let accumulator = Local {
            name: &fold.accumulator,
            path: self.path(&fold.init),
            size: self.known_size(&fold.init),
            entry: self.entry(&fold.init),
        };
        self.locals.push(accumulator);
        // `cel.bind` is a fold over nothing: only its result costs.
        if fold.accumulator != ACCUMULATOR {
            let result = self.cost(&fold.result);
            self.locals.truncate(depth);
            if let Some(size) = self.known_size(&fold.result) {
                self.computed.insert(expr.id, size);
            }
            return range.saturating_add(init).saturating_add(result);
        }
        let entry = self.entry(&fold.range);
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.types.get(&fold.range.id), Some(Type::List(_))),
        };
        let (keys, values) = if is_list {
            ("@indices", "@items")
        } else {
            ("@keys", "@values")
        };
        let key = (keys, entry.map(|entry| entry.key));
        let value = (values, entry.map(|entry| entry.value));
        let locals = match &fold.var2 {
            Some(var2) => vec![(&fold.var, key), (var2, value)],
            None => vec![(&fold.var, if is_list { value } else { key })],
        };
        for (name, (part, size)) in locals {
            let path = self.below(&fold.range, part);
            self.locals.push(Local {
                name,
                path,
                size,
                entry: None,
            });
        }
        let condition = self.cost(&fold.condition);
        let step = self.cost(&fold.step);
        self.locals.truncate(depth + 1);
        let result = self.cost(&fold.result);
        self.locals.truncate(depth);
        let count = self.size(&fold.range);
        match &fold.init.kind {
            Kind::Literal(_) => {
                self.computed.insert(expr.id, 1);
            }
            _ => {
                self.computed.insert(expr.id, count);
                if let Some(entry) = self.entry(&fold.step) {
                    self.entries.insert(expr.id, entry);
                }
            }
        }
        let steps = count.saturating_mul(step.saturating_add(condition));
        [init, result, steps]
            .into_iter()
            .fold(range, |sum, cost| sum.saturating_add(cost))
    }
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
