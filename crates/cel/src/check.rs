//! Infers the type of every node, and reports expressions without a valid type.
//!
//! Upstream: `checker` of cel-go, with the options of `k8s.io/apiserver/pkg/cel/environment`:
//! elements of list and map literals have one type, numbers of different types can be compared.

use std::collections::{BTreeSet, HashMap};

use super::ast::{Expr, Fold, Init, Kind, Select};
use super::declarations::Declarations;
use super::functions::{self, Overload};
use super::source::Issue;
use super::types::Type;
use super::value::Val;

/// The findings of the checker about an expression.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) result: Type,
    /// The type of each node, by its number.
    pub(super) types: HashMap<usize, Type>,
    /// The variables of the environment that occur.
    pub(super) names: BTreeSet<String>,
}

/// Checks `expr`. Calls of functions with dotted names lose their target.
pub(super) fn check(expr: &mut Expr, declarations: &Declarations) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        declarations,
        locals: Vec::new(),
        bound: Vec::new(),
        types: HashMap::new(),
        names: BTreeSet::new(),
        issues: Vec::new(),
    };
    let result = checker.check(expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let result = checker.resolved(&result, true);
    let types = std::mem::take(&mut checker.types);
    let types = types
        .into_iter()
        .map(|(id, ty)| (id, checker.resolved(&ty, true)))
        .collect();
    Ok(Checked {
        result,
        types,
        names: checker.names,
    })
}

struct Checker<'a> {
    declarations: &'a Declarations,
    /// The variables of enclosing comprehensions, innermost last.
    locals: Vec<(String, Type)>,
    /// The inferred types, by the number of `Type::Var`.
    bound: Vec<Option<Type>>,
    types: HashMap<usize, Type>,
    names: BTreeSet<String>,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn report(&mut self, at: usize, message: String) -> Type {
        self.issues.push(Issue { at, message });
        Type::Error
    }

    fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Var(self.bound.len() - 1)
    }

    fn check(&mut self, expr: &mut Expr) -> Type {
        let id = expr.id;
        let at = expr.at;
        let dotted = matches!(
            expr.kind,
            Kind::Select {
                form: Select::Value,
                ..
            }
        )
        .then(|| expr.qualified_name())
        .flatten();
        // A variable can have a dotted name, such as `authorizer.requestResource`.
        if let Some(ty) = dotted.and_then(|name| self.declarations.variables.get(&name)) {
            self.types.insert(id, ty.clone());
            return ty.clone();
        }
        let ty = match &mut expr.kind {
            Kind::Literal(value) => value.kind(),
            Kind::Ident(name) => self.ident(name, at),
            Kind::Select {
                operand,
                field,
                form,
            } => {
                let form = *form;
                let found = self.select(operand, field, at, form == Select::Optional);
                match form {
                    Select::Test => Type::Bool,
                    _ => found,
                }
            }
            Kind::Call {
                function,
                target,
                args,
            } => self.call(function, target, args, at),
            Kind::List(items) => {
                let mut element = None;
                for (item, optional) in items {
                    let ty = self.check(item);
                    let ty = self.unwrapped(ty, *optional, item.at);
                    element = Some(self.joined(element, ty));
                }
                Type::list(element.unwrap_or_else(|| self.fresh()))
            }
            Kind::Map(entries) => {
                let mut keys = None;
                let mut values = None;
                for (key, value, optional) in entries {
                    let ty = self.check(key);
                    keys = Some(self.joined(keys, ty));
                    let ty = self.check(value);
                    let ty = self.unwrapped(ty, *optional, value.at);
                    values = Some(self.joined(values, ty));
                }
                let key = keys.unwrap_or_else(|| self.fresh());
                let value = values.unwrap_or_else(|| self.fresh());
                Type::map(key, value)
            }
            Kind::Struct(name, fields) => self.construct(name, fields, at),
            Kind::Fold(fold) => self.fold(fold),
        };
        self.types.insert(id, ty.clone());
        ty
    }

    fn ident(&mut self, name: &str, at: usize) -> Type {
        if let Some((_, ty)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return ty.clone();
        }
        if let Some(ty) = self.declarations.variables.get(name) {
            self.names.insert(name.to_owned());
            return ty.clone();
        }
        if functions::type_named(name).is_some() {
            return Type::Meta;
        }
        self.undeclared(name, at)
    }

    fn undeclared(&mut self, name: &str, at: usize) -> Type {
        let message = format!("undeclared reference to '{name}' (in container '')");
        self.report(at, message)
    }

    /// The literal of an object.
    fn construct(&mut self, name: &str, fields: &mut [Init], at: usize) -> Type {
        let Some(object) = self.declarations.constructed(name) else {
            return self.undeclared(name, at);
        };
        for init in fields {
            let ty = self.check(&mut init.value);
            let ty = self.unwrapped(ty, init.optional, init.value.at);
            let expected = object.field(&init.name);
            let fits = |expected| self.assignable(expected, &ty);
            if !expected.as_ref().is_some_and(fits) {
                // Upstream shows an empty type for an unknown field.
                let expected = expected.map_or_else(String::new, |ty| ty.to_string());
                let found = self.resolved(&ty, true);
                let message = format!(
                    "expected type of field '{}' is '{expected}' but provided type is '{found}'",
                    init.name
                );
                self.report(init.at, message);
            }
        }
        Type::Object(object)
    }

    fn select(&mut self, operand: &mut Expr, field: &str, at: usize, optional: bool) -> Type {
        let ty = self.check(operand);
        let ty = self.resolved(&ty, false);
        let (ty, was_optional) = match ty {
            Type::Optional(inner) => (self.resolved(&inner, false), true),
            ty => (ty, false),
        };
        let found = match &ty {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.field(field) {
                Some(ty) => ty,
                None => self.report(at, format!("undefined field '{field}'")),
            },
            Type::Dyn | Type::Error => Type::Dyn,
            // Types of libraries are objects whose fields nothing declares.
            Type::Opaque(name) => {
                self.report(at, format!("unexpected failed resolution of '{name}'"))
            }
            Type::Var(_) => {
                self.assignable(&Type::Dyn, &ty);
                Type::Dyn
            }
            ty => {
                let shown = self.resolved(ty, true);
                let message = format!("type '{shown}' does not support field selection");
                self.report(at, message);
                Type::Dyn
            }
        };
        if was_optional || optional {
            Type::optional(found)
        } else {
            found
        }
    }

    fn call(
        &mut self,
        function: &mut String,
        target: &mut Option<Box<Expr>>,
        args: &mut [Expr],
        at: usize,
    ) -> Type {
        let mut types: Vec<Type> = args.iter_mut().map(|arg| self.check(arg)).collect();
        if let Some(qualifier) = target.as_ref().and_then(|target| target.qualified_name()) {
            let name = format!("{qualifier}.{function}");
            if self.declarations.has_function(&name) && functions::named(&name).is_some() {
                *function = name;
                *target = None;
            }
        }
        let is_member = target.is_some();
        if let Some(target) = target {
            let ty = self.check(target);
            types.insert(0, ty);
        }
        let Some(overloads) = functions::named(function) else {
            return self.undeclared(function, at);
        };
        if matches!(&**function, "_&&_" | "_||_") {
            let mut result = Type::Bool;
            for (arg, ty) in args.iter().zip(&types) {
                if !self.assignable(ty, &Type::Bool) {
                    let message = format!(
                        "expected type 'bool' but found '{}'",
                        self.resolved(ty, true)
                    );
                    result = self.report(arg.at, message);
                }
            }
            return result;
        }
        self.overload(function, overloads, is_member, &types, at)
    }

    /// The result of the overloads that accept `types`.
    fn overload(
        &mut self,
        function: &str,
        overloads: &'static [Overload],
        is_member: bool,
        types: &[Type],
        at: usize,
    ) -> Type {
        let mut result: Option<Type> = None;
        for overload in overloads {
            if overload.member != is_member || overload.params.len() != types.len() {
                continue;
            }
            let mut params = HashMap::new();
            let before = self.bound.clone();
            let fits = overload.params.iter().zip(types).all(|(param, ty)| {
                let param = self.instance(param, &mut params);
                self.assignable(ty, &param)
            });
            if !fits {
                self.bound = before;
                continue;
            }
            let found = self.instance(&overload.result, &mut params);
            let found = self.resolved(&found, false);
            result = Some(match result {
                Some(Type::Dyn) => Type::Dyn,
                Some(earlier) if earlier != found => Type::Dyn,
                _ => found,
            });
        }
        result.unwrap_or_else(|| {
            let shown: Vec<String> = types
                .iter()
                .map(|ty| self.resolved(ty, true).to_string())
                .collect();
            let signature = match (is_member, shown.split_first()) {
                (true, Some((target, args))) => format!("{target}.({})", args.join(", ")),
                _ => format!("({})", shown.join(", ")),
            };
            let message =
                format!("found no matching overload for '{function}' applied to '{signature}'");
            self.report(at, message)
        })
    }

    /// A type of a signature, with new variables in place of its parameters.
    fn instance(&mut self, ty: &Type, params: &mut HashMap<char, Type>) -> Type {
        match ty {
            Type::Param(name) => match params.get(name) {
                Some(var) => var.clone(),
                None => {
                    let var = self.fresh();
                    params.insert(*name, var.clone());
                    var
                }
            },
            Type::List(element) => Type::list(self.instance(element, params)),
            Type::Map(key, value) => {
                let key = self.instance(key, params);
                Type::map(key, self.instance(value, params))
            }
            Type::Optional(value) => Type::optional(self.instance(value, params)),
            ty => ty.clone(),
        }
    }

    fn unwrapped(&mut self, ty: Type, optional: bool, at: usize) -> Type {
        match (optional, self.resolved(&ty, false)) {
            (true, Type::Optional(inner)) => (*inner).clone(),
            (true, ty) if !matches!(ty, Type::Dyn | Type::Error) => {
                let shown = self.resolved(&ty, true);
                let message = format!("expected type 'optional_type({shown})' but found '{shown}'");
                self.report(at, message)
            }
            _ => ty,
        }
    }

    /// The common type of two elements of a literal. [`literals`] reports different types, except
    /// where a function such as `format` takes them.
    fn joined(&mut self, before: Option<Type>, ty: Type) -> Type {
        let Some(before) = before else {
            return ty;
        };
        if self.assignable(&before, &ty) {
            return match self.resolved(&before, false) {
                Type::Dyn => Type::Dyn,
                Type::Null => ty,
                before => before,
            };
        }
        Type::Dyn
    }

    fn fold(&mut self, fold: &mut Fold) -> Type {
        let range = self.check(&mut fold.range);
        let accumulator = self.check(&mut fold.init);
        let range = self.resolved(&range, false);
        let (first, second) = match &range {
            Type::List(element) if fold.var2.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            ty => {
                let shown = self.resolved(ty, true);
                let message = format!(
                    "expression of type '{shown}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range.at, message);
                (Type::Error, Type::Error)
            }
        };
        let depth = self.locals.len();
        self.locals
            .push((fold.accumulator.clone(), accumulator.clone()));
        self.locals.push((fold.var.clone(), first));
        if let Some(var2) = &fold.var2 {
            self.locals.push((var2.clone(), second));
        }
        let condition = self.check(&mut fold.condition);
        self.expect(&condition, &Type::Bool, fold.condition.at);
        let step = self.check(&mut fold.step);
        self.expect(&step, &accumulator, fold.step.at);
        self.locals.truncate(depth + 1);
        let result = self.check(&mut fold.result);
        self.locals.truncate(depth);
        self.resolved(&result, false)
    }

    fn expect(&mut self, ty: &Type, expected: &Type, at: usize) {
        if !self.assignable(expected, ty) {
            let message = format!(
                "expected type '{}' but found '{}'",
                self.resolved(expected, true),
                self.resolved(ty, true)
            );
            self.report(at, message);
        }
    }

    /// The type with inferred types in place of variables. With `complete`, variables of which
    /// nothing is known become `dyn`.
    fn resolved(&self, ty: &Type, complete: bool) -> Type {
        match ty {
            Type::Var(number) => match &self.bound[*number] {
                Some(ty) => self.resolved(ty, complete),
                None if complete => Type::Dyn,
                None => ty.clone(),
            },
            Type::List(element) => Type::list(self.resolved(element, complete)),
            Type::Map(key, value) => {
                Type::map(self.resolved(key, complete), self.resolved(value, complete))
            }
            Type::Optional(value) => Type::optional(self.resolved(value, complete)),
            ty => ty.clone(),
        }
    }

    /// Whether one of two types can stand for the other; binds variables.
    fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        let a = self.resolved(a, false);
        let b = self.resolved(b, false);
        match (&a, &b) {
            (Type::Var(a), Type::Var(b)) if a == b => true,
            (Type::Var(number), ty) | (ty, Type::Var(number)) => {
                if mentions(ty, *number) {
                    return false;
                }
                self.bound[*number] = Some(ty.clone());
                true
            }
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, ty) | (ty, Type::Null) => matches!(
                ty,
                Type::Null
                    | Type::Object(_)
                    | Type::Opaque(_)
                    | Type::Optional(_)
                    | Type::Duration
                    | Type::Timestamp
            ),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.assignable(a, b)
            }
            (Type::Map(k, v), Type::Map(l, w)) => self.assignable(k, l) && self.assignable(v, w),
            (Type::Object(a), Type::Object(b)) => a.name == b.name,
            (a, b) => a == b,
        }
    }
}

/// Whether a type contains a variable.
fn mentions(ty: &Type, number: usize) -> bool {
    match ty {
        Type::Var(found) => *found == number,
        Type::List(inner) | Type::Optional(inner) => mentions(inner, number),
        Type::Map(key, value) => mentions(key, number) || mentions(value, number),
        _ => false,
    }
}

/// Errors in literals that cel-go finds after the types are known: invalid texts of arguments, and
/// elements of different types.
pub(super) fn literals(expr: &Expr, types: &HashMap<usize, Type>) -> Vec<Issue> {
    let mut validator = Validator {
        types,
        issues: Vec::new(),
    };
    validator.check(expr, false);
    validator.issues
}

struct Validator<'a> {
    types: &'a HashMap<usize, Type>,
    issues: Vec<Issue>,
}

impl Validator<'_> {
    /// Checks a node. `mixed` allows elements of different types.
    fn check(&mut self, expr: &Expr, mixed: bool) {
        match &expr.kind {
            Kind::Call {
                function,
                target,
                args,
            } => {
                self.arguments(function, args);
                target.iter().for_each(|target| self.check(target, mixed));
                let mixed = mixed || function == "format";
                args.iter().for_each(|arg| self.check(arg, mixed));
            }
            Kind::Select { operand, .. } => self.check(operand, mixed),
            Kind::List(items) => {
                items.iter().for_each(|(item, _)| self.check(item, mixed));
                if !mixed {
                    self.same(items.iter().map(|(item, optional)| (item, *optional)));
                }
            }
            Kind::Map(entries) => {
                for (key, value, _) in entries {
                    self.check(key, mixed);
                    self.check(value, mixed);
                }
                if !mixed {
                    self.same(entries.iter().map(|(key, ..)| (key, false)));
                    self.same(
                        entries
                            .iter()
                            .map(|(_, value, optional)| (value, *optional)),
                    );
                }
            }
            Kind::Fold(fold) => {
                for part in [&fold.range, &fold.init, &fold.step, &fold.result] {
                    self.check(part, mixed);
                }
            }
            Kind::Struct(_, fields) => {
                fields
                    .iter()
                    .for_each(|init| self.check(&init.value, mixed));
            }
            Kind::Literal(_) | Kind::Ident(_) => {}
        }
    }

    /// Reports elements whose type differs from the one of the first element.
    fn same<'b>(&mut self, elements: impl Iterator<Item = (&'b Expr, bool)>) {
        let mut first: Option<Type> = None;
        for (element, optional) in elements {
            let ty = self.types.get(&element.id).cloned().unwrap_or(Type::Dyn);
            let ty = match ty {
                Type::Optional(inner) if optional => (*inner).clone(),
                ty => ty,
            };
            match &first {
                None => first = Some(ty),
                Some(expected) if *expected != ty => self.issues.push(Issue {
                    at: element.at,
                    message: format!("expected type '{expected}' but found '{ty}'"),
                }),
                Some(_) => {}
            }
        }
    }

    fn arguments(&mut self, function: &str, args: &[Expr]) {
        let literal = |arg: Option<&Expr>| match arg.map(|arg| (&arg.kind, arg.at)) {
            Some((Kind::Literal(Val::Text(text)), at)) => Some((text.clone(), at)),
            _ => None,
        };
        let invalid = match function {
            "timestamp" => literal(args.first())
                .filter(|(text, _)| super::time::parse_timestamp(text).is_none()),
            "duration" => literal(args.first())
                .filter(|(text, _)| super::time::parse_duration(text).is_none()),
            "matches" => {
                literal(args.last()).filter(|(text, _)| steersman_regexp::translate(text).is_err())
            }
            _ => None,
        };
        if let Some((_, at)) = invalid {
            self.issues.push(Issue {
                at,
                message: format!("invalid {function} argument"),
            });
        }
    }
}
