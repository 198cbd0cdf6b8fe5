//! The syntax tree of an expression. Macros are expanded by the parser, in the form that cel-go
//! gives them, because types and costs follow that form.
//!
//! Upstream: `common/ast` of cel-go.

use super::value::Val;

/// One node of an expression.
#[derive(Debug, Clone)]
pub(super) struct Expr {
    /// Number of the node in its expression, unique except in copies that macros make.
    pub(super) id: usize,
    /// Offset in characters, for messages.
    pub(super) at: usize,
    /// Levels of nodes from here on, which bound the recursion of all later steps.
    pub(super) depth: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Literal(Val),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        form: Select,
    },
    /// A function, a method, or an operator such as `_+_`.
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    /// Elements, with a mark for optional ones (`[?x]`).
    List(Vec<(Expr, bool)>),
    /// Keys, values, and a mark for optional ones (`{?k: v}`).
    Map(Vec<(Expr, Expr, bool)>),
    /// The name of a type, and its fields.
    Struct(String, Vec<Init>),
    Fold(Box<Fold>),
}

/// A field in the literal of an object.
#[derive(Debug, Clone)]
pub(super) struct Init {
    pub(super) name: String,
    /// Offset of the colon in characters, for messages.
    pub(super) at: usize,
    pub(super) value: Expr,
    /// `?name: value`
    pub(super) optional: bool,
}

/// The forms of field selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Select {
    /// `a.b`
    Value,
    /// `has(a.b)`
    Test,
    /// `a.?b`
    Optional,
}

/// A loop over a list or map, to which comprehension macros expand.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) range: Expr,
    pub(super) var: String,
    /// The second variable, of macros over keys and values.
    pub(super) var2: Option<String>,
    pub(super) accumulator: String,
    pub(super) init: Expr,
    pub(super) condition: Expr,
    pub(super) step: Expr,
    pub(super) result: Expr,
}

/// The greatest depth of some nodes.
fn deepest<'a>(parts: impl Iterator<Item = &'a Expr>) -> usize {
    parts.map(|part| part.depth).max().unwrap_or(0)
}

impl Kind {
    /// The depth of the deepest part.
    pub(super) fn inner_depth(&self) -> usize {
        match self {
            Kind::Literal(_) | Kind::Ident(_) => 0,
            Kind::Select { operand, .. } => operand.depth,
            Kind::Call { target, args, .. } => {
                deepest(target.iter().map(|target| &**target).chain(args))
            }
            Kind::List(items) => deepest(items.iter().map(|(item, _)| item)),
            Kind::Map(entries) => deepest(entries.iter().flat_map(|(key, value, _)| [key, value])),
            Kind::Struct(_, fields) => deepest(fields.iter().map(|init| &init.value)),
            Kind::Fold(fold) => {
                let parts = [
                    &fold.range,
                    &fold.init,
                    &fold.condition,
                    &fold.step,
                    &fold.result,
                ];
                deepest(parts.into_iter())
            }
        }
    }
}

impl Expr {
    /// The dotted name that this expression could be, such as `optional.of`.
    pub(super) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select {
                operand,
                field,
                form: Select::Value,
            } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }

    /// Whether the value is known without variables, so that its evaluation is free.
    pub(super) fn is_constant(&self) -> bool {
        match &self.kind {
            Kind::Literal(_) => true,
            Kind::List(items) => items.iter().all(|(item, opt)| !opt && item.is_constant()),
            Kind::Map(entries) => entries
                .iter()
                .all(|(key, value, opt)| !opt && key.is_constant() && value.is_constant()),
            _ => false,
        }
    }
}
