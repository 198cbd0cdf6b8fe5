//! Expands macros: `has`, the comprehensions over one and two variables, `optMap`, `sortBy`.
//!
//! Upstream: `parser/macro.go`, `ext/comprehensions.go`, `ext/lists.go` and `cel/library.go` of
//! cel-go.

use super::ast::{Expr, Fold, Kind, Select};
use super::nodes::{Library, Nodes};
use super::value::Val;

/// The variable in which a comprehension collects its result.
pub(super) const ACCUMULATOR: &str = "@result";

/// The call, or its expansion if it is a macro.
pub(super) fn expand(
    nodes: &mut Nodes,
    at: usize,
    name: String,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Expr {
    let Some(target) = target else {
        if name == "has" && args.len() == 1 {
            return presence(nodes, at, args);
        }
        return call(nodes, at, name, None, args);
    };
    let macro_of = match (&*name, args.len()) {
        ("all" | "exists" | "exists_one" | "existsOne" | "filter", 2) => Some(1),
        ("map", 2 | 3) => Some(1),
        ("all" | "exists" | "existsOne", 3) => Some(2),
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => Some(2),
        ("optMap" | "optFlatMap", 2) => return optional(nodes, at, &name, target, args),
        ("sortBy", 2) => return sorted(nodes, at, target, args),
        ("bind", 3) if nodes.library == Library::Bindings && is_namespace(&target) => {
            return bound(nodes, at, args);
        }
        _ => None,
    };
    match macro_of {
        Some(variables) => comprehension(nodes, at, &name, target, args, variables),
        None => call(nodes, at, name, Some(target), args),
    }
}

fn call(
    nodes: &mut Nodes,
    at: usize,
    function: String,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Expr {
    let kind = Kind::Call {
        function,
        target: target.map(Box::new),
        args,
    };
    nodes.node(at, kind)
}

fn presence(nodes: &mut Nodes, at: usize, mut args: Vec<Expr>) -> Expr {
    let arg = args.remove(0);
    match arg.kind {
        Kind::Select {
            operand,
            field,
            form: Select::Value,
        } => nodes.node(
            at,
            Kind::Select {
                operand,
                field,
                form: Select::Test,
            },
        ),
        kind => {
            nodes.report(arg.at, "invalid argument to has() macro");
            Expr { kind, ..arg }
        }
    }
}

/// The name of an iteration variable. An error is reported if the argument is no plain name.
fn variable(nodes: &mut Nodes, arg: &Expr, problem: &str) -> String {
    match &arg.kind {
        Kind::Ident(name) => name.clone(),
        _ => {
            nodes.report(arg.at, problem);
            String::new()
        }
    }
}

/// Builds the nodes of one expansion, all at the place of the macro.
struct Builder<'a> {
    nodes: &'a mut Nodes,
    at: usize,
}

impl Builder<'_> {
    fn literal(&mut self, value: Val) -> Expr {
        self.nodes.node(self.at, Kind::Literal(value))
    }

    fn bool(&mut self, value: bool) -> Expr {
        self.literal(Val::Bool(value))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.nodes.node(self.at, Kind::Ident(name.to_owned()))
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.nodes.call(self.at, function, args)
    }

    fn list(&mut self, items: Vec<Expr>) -> Expr {
        let items = items.into_iter().map(|item| (item, false)).collect();
        self.nodes.node(self.at, Kind::List(items))
    }

    /// `accumulator + [item]`
    fn appended(&mut self, item: Expr) -> Expr {
        let accumulator = self.accumulator();
        let item = self.list(vec![item]);
        self.call("_+_", vec![accumulator, item])
    }

    /// `step` for elements that fit the filter.
    fn filtered(&mut self, filter: Option<Expr>, step: Expr) -> Expr {
        let Some(filter) = filter else {
            return step;
        };
        let unchanged = self.accumulator();
        self.call("_?_:_", vec![filter, step, unchanged])
    }
}

fn comprehension(
    nodes: &mut Nodes,
    at: usize,
    name: &str,
    target: Expr,
    mut args: Vec<Expr>,
    variables: usize,
) -> Expr {
    const PROBLEM: &str = "argument must be a simple name";
    let var = variable(nodes, &args[0], PROBLEM);
    let var2 = (variables == 2).then(|| {
        let second = variable(nodes, &args[1], PROBLEM);
        if !second.is_empty() && second == var {
            nodes.report(args[1].at, &format!("duplicate variable name: {second}"));
        }
        second
    });
    let element = args[variables - 1].clone();
    let body = args.pop().expect("macros have a body");
    let filter = (args.len() > variables).then(|| args.remove(variables));
    let mut b = Builder { nodes, at };
    let accumulator = b.accumulator();
    let (init, condition, step, result) = match name {
        "all" => {
            let seen = b.accumulator();
            let condition = b.call("@not_strictly_false", vec![seen]);
            let seen = b.accumulator();
            let step = b.call("_&&_", vec![seen, body]);
            (b.bool(true), condition, step, accumulator)
        }
        "exists" => {
            let seen = b.accumulator();
            let missing = b.call("!_", vec![seen]);
            let condition = b.call("@not_strictly_false", vec![missing]);
            let seen = b.accumulator();
            let step = b.call("_||_", vec![seen, body]);
            (b.bool(false), condition, step, accumulator)
        }
        "exists_one" | "existsOne" => {
            let count = b.accumulator();
            let one = b.literal(Val::Int(1));
            let counted = b.call("_+_", vec![count, one]);
            let step = b.filtered(Some(body), counted);
            let one = b.literal(Val::Int(1));
            let result = b.call("_==_", vec![accumulator, one]);
            (b.literal(Val::Int(0)), b.bool(true), step, result)
        }
        "filter" => {
            let appended = b.appended(element);
            let step = b.filtered(Some(body), appended);
            (b.list(Vec::new()), b.bool(true), step, accumulator)
        }
        "map" | "transformList" => {
            let appended = b.appended(body);
            let step = b.filtered(filter, appended);
            (b.list(Vec::new()), b.bool(true), step, accumulator)
        }
        _ => {
            let seen = b.accumulator();
            let args = match name {
                "transformMap" => {
                    let key = b.ident(&var);
                    vec![seen, key, body]
                }
                _ => vec![seen, body],
            };
            let inserted = b.call("cel.@mapInsert", args);
            let step = b.filtered(filter, inserted);
            let init = b.nodes.node(at, Kind::Map(Vec::new()));
            (init, b.bool(true), step, accumulator)
        }
    };
    let fold = Fold {
        range: target,
        var,
        var2,
        accumulator: ACCUMULATOR.to_owned(),
        init,
        condition,
        step,
        result,
    };
    b.nodes.node(at, Kind::Fold(Box::new(fold)))
}

/// Whether a call names the namespace `cel`.
fn is_namespace(target: &Expr) -> bool {
    matches!(&target.kind, Kind::Ident(name) if name == "cel")
}

/// `cel.bind(v, value, e)` is `e` with `v = value`. Upstream: `ext/bindings.go`.
fn bound(nodes: &mut Nodes, at: usize, mut args: Vec<Expr>) -> Expr {
    let problem = "cel.bind() variable names must be simple identifiers";
    let name = variable(nodes, &args[0], problem);
    let result = args.remove(2);
    let value = args.remove(1);
    bind(&mut Builder { nodes, at }, name, value, result)
}

/// `result` with `name` bound to `value`.
fn bind(b: &mut Builder<'_>, name: String, value: Expr, result: Expr) -> Expr {
    let fold = Fold {
        range: b.list(Vec::new()),
        var: "#unused".to_owned(),
        var2: None,
        init: value,
        condition: b.bool(false),
        step: b.ident(&name),
        accumulator: name,
        result,
    };
    b.nodes.node(b.at, Kind::Fold(Box::new(fold)))
}

/// `x.optMap(v, e)` is `x.hasValue() ? optional.of(e with v = x.value()) : optional.none()`. The
/// target is bound to a name, so that nested macros do not multiply it.
fn optional(nodes: &mut Nodes, at: usize, name: &str, target: Expr, mut args: Vec<Expr>) -> Expr {
    const TARGET: &str = "@optional";
    let problem = format!("{name}() variable name must be a simple identifier");
    let var = variable(nodes, &args[0], &problem);
    let body = args.remove(1);
    let mut b = Builder { nodes, at };
    let first = b.ident(TARGET);
    let second = b.ident(TARGET);
    let has = call(b.nodes, at, "hasValue".to_owned(), Some(first), Vec::new());
    let value = call(b.nodes, at, "value".to_owned(), Some(second), Vec::new());
    let mut bound = bind(&mut b, var, value, body);
    if name == "optMap" {
        bound = b.call("optional.of", vec![bound]);
    }
    let none = b.call("optional.none", Vec::new());
    let chosen = b.call("_?_:_", vec![has, bound, none]);
    bind(&mut b, TARGET.to_owned(), target, chosen)
}

/// `l.sortBy(v, key)` sorts by the keys of all elements.
fn sorted(nodes: &mut Nodes, at: usize, target: Expr, args: Vec<Expr>) -> Expr {
    const INPUT: &str = "@__sortBy_input__";
    let mut b = Builder { nodes, at };
    let input = b.ident(INPUT);
    let again = b.ident(INPUT);
    let keys = comprehension(b.nodes, at, "map", input, args, 1);
    let result = call(
        b.nodes,
        at,
        "@sortByAssociatedKeys".to_owned(),
        Some(again),
        vec![keys],
    );
    bind(&mut b, INPUT.to_owned(), target, result)
}
