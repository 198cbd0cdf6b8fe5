//! Builds the nodes of a syntax tree, for the parser and the macros.

use super::ast::{Expr, Kind};
use super::source::Issue;
use super::value::Val;

/// The most levels of a syntax tree, which long sums reach too.
const MAX_DEPTH: usize = 250;

/// The macros of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// Those of all expressions.
    Base,
    /// These and `cel.bind`.
    Bindings,
}

/// The nodes of one expression.
pub(super) struct Nodes {
    ids: usize,
    /// The macros of the expression.
    pub(super) library: Library,
    /// Errors after which parsing goes on.
    pub(super) issues: Vec<Issue>,
}

impl Nodes {
    pub(super) fn new(library: Library) -> Self {
        Self {
            library,
            ids: 0,
            issues: Vec::new(),
        }
    }

    /// A new node at `at`.
    pub(super) fn node(&mut self, at: usize, kind: Kind) -> Expr {
        self.ids += 1;
        let mut node = Expr {
            id: self.ids,
            at,
            depth: kind.inner_depth() + 1,
            kind,
        };
        if node.depth > MAX_DEPTH {
            self.report(
                at,
                &format!("expression recursion limit exceeded: {MAX_DEPTH}"),
            );
            // The report refuses the expression, so a leaf can stand for the rest of it.
            node.kind = Kind::Literal(Val::Null);
            node.depth = 1;
        }
        node
    }

    pub(super) fn call(&mut self, at: usize, function: &str, args: Vec<Expr>) -> Expr {
        let function = function.to_owned();
        let kind = Kind::Call {
            function,
            target: None,
            args,
        };
        self.node(at, kind)
    }

    /// Notes an error and goes on.
    pub(super) fn report(&mut self, at: usize, message: &str) {
        self.issues.push(Issue {
            at,
            message: message.to_owned(),
        });
    }
}
