//! The Common Expression Language with Kubernetes' libraries: rules of custom kinds, admission
//! policies, match conditions and selectors of devices.
//!
//! source -> `lexer` -> `parser` (with `macros`) -> `check` -> [`Program`] -> `eval`
//! OpenAPI schema -> [`declare`] -> types of variables
//!
//! The API server evaluates expressions, and so does the controller of device taints for the releases whose rules have
//! selectors. The controller of policies only checks their types.
//!
//! This is an implementation of its own, because no crate checks types, counts costs or has
//! Kubernetes' functions. Without types a wrong rule would be accepted here and refused by a real
//! server. Upstream: `github.com/google/cel-go`, `k8s.io/apiserver/pkg/cel`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admission;
mod ast;
mod check;
pub mod cost;
pub mod declarations;
pub mod declare;
pub mod devices;
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
mod row;
mod source;
mod time;
pub mod types;
pub mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

pub use declarations::Declarations;
pub use estimate::Sizes;
pub use eval::Variables;
pub use fail::Fail;
pub use nodes::Library;
pub use objects::authz::{Access, Decision, ResourceCheck};

use ast::Expr;
use check::Checked;
use types::Type;
use value::Val;

/// The type of an expression. The error is the text of cel-go: each problem with its line.
pub fn type_of(source: &str, declarations: &Declarations) -> Result<Type, String> {
    let (_, checked) = checked(source, declarations, Library::Base)?;
    Ok(checked.result)
}

fn checked(
    source: &str,
    declarations: &Declarations,
    library: Library,
) -> Result<(Expr, Checked), String> {
    let show = |issues: Vec<source::Issue>| source::display(source, &issues);
    let mut expr = parser::parse(source, library).map_err(show)?;
    let checked = check::check(&mut expr, declarations).map_err(show)?;
    let issues = check::literals(&expr, &checked.types);
    if issues.is_empty() {
        Ok((expr, checked))
    } else {
        Err(show(issues))
    }
}

/// A checked expression.
pub struct Program {
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
    pub fn compile(
        source: &str,
        declarations: &Declarations,
        sizes: &dyn Sizes,
    ) -> Result<Self, String> {
        Self::compile_with(source, declarations, sizes, Library::Base)
    }

    /// The same in an environment with a further library.
    pub fn compile_with(
        source: &str,
        declarations: &Declarations,
        sizes: &dyn Sizes,
        library: Library,
    ) -> Result<Self, String> {
        let (expr, checked) = checked(source, declarations, library)?;
        let max_cost = estimate::max_cost(&expr, &checked.types, sizes);
        Ok(Self {
            expr,
            result: checked.result,
            names: checked.names,
            max_cost,
        })
    }

    /// The type of the result.
    pub fn result(&self) -> &Type {
        &self.result
    }

    /// Whether the expression mentions a variable.
    pub fn uses(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The most that an evaluation can cost, as far as sizes of values are known.
    pub fn max_cost(&self) -> u64 {
        self.max_cost
    }

    /// Evaluates the expression. `spent` grows by the cost, also after a failure.
    pub fn run(&self, variables: &dyn Variables, spent: &mut u64) -> Result<Val, Fail> {
        eval::run(&self.expr, variables, cost::PER_CALL, spent)
    }
}
