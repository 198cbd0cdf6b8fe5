//! The Common Expression Language with Kubernetes' libraries: rules of custom kinds, admission
//! policies and match conditions.
//!
//! source -> `lexer` -> `parser` (with `macros`) -> `check` -> [`Program`] -> `eval`
//!
//! This is an implementation of its own, because no crate checks types, counts costs or has
//! Kubernetes' functions. Without types a wrong rule would be accepted here and refused by a real
//! server. Upstream: `github.com/google/cel-go`, `k8s.io/apiserver/pkg/cel`.

mod ast;
mod check;
pub(crate) mod cost;
pub(crate) mod declarations;
pub(crate) mod devices;
mod estimate;
mod eval;
mod fail;
mod functions;
mod json;
mod lexer;
mod library;
mod macros;
mod nodes;
mod objects;
mod parser;
pub(crate) mod policy;
mod row;
mod source;
mod time;
pub(crate) mod types;
pub(crate) mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

pub(crate) use declarations::Declarations;
pub(crate) use estimate::Sizes;
pub(crate) use eval::Variables;
pub(crate) use fail::Fail;
pub(crate) use objects::authz::{Access, Decision, ResourceCheck};

use ast::Expr;
use nodes::Library;
use types::Type;
use value::Val;

/// A checked expression.
pub(crate) struct Program {
    expr: Expr,
    result: Type,
    names: BTreeSet<String>,
    max_cost: u64,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("result", &self.result)
            .field("max_cost", &self.max_cost)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// Compiles `source` for these variables, whose sizes `sizes` knows. The error is the
    /// text of cel-go: each problem with its line.
    pub(crate) fn compile(
        source: &str,
        declarations: &Declarations,
        sizes: &dyn Sizes,
    ) -> Result<Self, String> {
        Self::compile_with(source, declarations, sizes, Library::Base)
    }

    /// The same in an environment with a further library.
    pub(crate) fn compile_with(
        source: &str,
        declarations: &Declarations,
        sizes: &dyn Sizes,
        library: Library,
    ) -> Result<Self, String> {
        let show = |issues: Vec<source::Issue>| source::display(source, &issues);
        let mut expr = parser::parse(source, library).map_err(show)?;
        let checked = check::check(&mut expr, declarations).map_err(show)?;
        let issues = check::literals(&expr, &checked.types);
        if !issues.is_empty() {
            return Err(show(issues));
        }
        let max_cost = estimate::max_cost(&expr, &checked.types, sizes);
        Ok(Self {
            expr,
            result: checked.result,
            names: checked.names,
            max_cost,
        })
    }

    /// The type of the result.
    pub(crate) fn result(&self) -> &Type {
        &self.result
    }

    /// Whether the expression mentions a variable.
    pub(crate) fn uses(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The most that an evaluation can cost, as far as sizes of values are known.
    pub(crate) fn max_cost(&self) -> u64 {
        self.max_cost
    }

    /// Evaluates the expression. `spent` grows by the cost, also after a failure.
    pub(crate) fn run(&self, variables: &dyn Variables, spent: &mut u64) -> Result<Val, Fail> {
        eval::run(&self.expr, variables, cost::PER_CALL, spent)
    }
}
