//! Finds the places of a file that can be changed, and writes the switch of each change.
//!
//! | place | changes |
//! |---|---|
//! | condition of `if`, of a match guard, of a predicate such as in `filter` | always true, always false |
//! | condition of `while` | always false |
//! | operand of `&&` or of a chain with `let` | always true |
//! | operand of `\|\|` | always false |
//! | `&&`, `\|\|` | the other one; the whole chain false or true |
//! | `<`, `<=`, `>`, `>=` | with or without equality |
//! | comparison, `!`, `matches!`, tests such as `is_empty` | the opposite, unless it is a condition or an operand |
//! | `+`, `-`, `*`, `/`, `%`, `+=`, `-=`, `min`, `max`, `saturating_add`, `saturating_sub` | the counterpart |
//! | number | 1 for 0, 0 for 1, one more for others |
//! | `true`, `false` | the other one |
//! | statement that is a call or an assignment | left out |
//! | body of a function | a constant, if the type has a simple one |
//!
//! Patterns, constants, types, attributes and the insides of macros stay as they are.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, Lit, ReturnType, Signature, Stmt, UnOp};

use crate::mutant::{Edit, Mutant};

/// The module of `switch.rs` in the changed crate.
const SWITCH: &str = "crate::mutants";

/// The mutants of `file` with the content `text`, in the order of their numbers. The first number is `first`.
///
/// # Errors
/// If the file is no Rust.
pub(crate) fn mutants(file: &str, text: &str, first: u32) -> syn::Result<Vec<Mutant>> {
    let tree = syn::parse_file(text)?;
    let mut finder = Finder {
        file,
        text,
        first,
        functions: Vec::new(),
        judged: None,
        found: Vec::new(),
    };
    finder.visit_file(&tree);
    Ok(finder.found)
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    first: u32,
    functions: Vec<String>,
    /// An expression that another mutant already makes true and false.
    judged: Option<Range<usize>>,
    found: Vec<Mutant>,
}

fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

/// The expression without parentheses around it.
fn bare(expr: &Expr) -> &Expr {
    let mut expr = expr;
    while let Expr::Paren(paren) = expr {
        expr = &paren.expr;
    }
    expr
}

/// Whether a condition has a `let`, which can be in no other expression.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            has_let(&binary.left) || has_let(&binary.right)
        }
        _ => false,
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    let text = |attribute: &Attribute| match &attribute.meta {
        syn::Meta::List(list) => list.tokens.to_string(),
        _ => String::new(),
    };
    attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("cfg") && text(attribute).starts_with("test"))
}

/// The constants that a function with this result can return at once.
fn constants(output: &ReturnType, text: &str) -> &'static [&'static str] {
    if matches!(output, ReturnType::Default) {
        return &[""];
    }
    match text {
        "bool" => &["true", "false"],
        "i32" | "i64" | "i128" | "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => &["0", "1"],
        "String" => &["String::new()"],
        _ if text.starts_with("Option<") => &["None"],
        _ if text.starts_with("Vec<") => &["Vec::new()"],
        _ if text.starts_with("Result<(), ") => &["Ok(())"],
        _ => &[],
    }
}

/// The operator with the opposite or neighbouring meaning.
fn counterpart(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        BinOp::And(_) => "||",
        BinOp::Or(_) => "&&",
        BinOp::Add(_) => "-",
        BinOp::Sub(_) => "+",
        BinOp::Mul(_) => "/",
        BinOp::Div(_) => "*",
        BinOp::Rem(_) => "/",
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) => "+=",
        _ => return None,
    })
}

/// The method that is called instead of one with a single argument.
fn other_method(name: &str) -> Option<&'static str> {
    Some(match name {
        "min" => "max",
        "max" => "min",
        "saturating_add" => "saturating_sub",
        "saturating_sub" => "saturating_add",
        _ => return None,
    })
}

/// Methods of the standard library that return a `bool`.
fn is_judgement(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "is_some",
        "is_none",
        "is_ok",
        "is_err",
        "is_empty",
        "is_some_and",
        "is_none_or",
        "contains",
        "contains_key",
        "starts_with",
        "ends_with",
        "any",
        "all",
    ];
    NAMES.contains(&name)
}

/// Methods whose closure answers with a `bool`.
fn takes_predicate(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "filter",
        "retain",
        "any",
        "all",
        "find",
        "position",
        "partition",
        "take_while",
        "skip_while",
        "is_some_and",
        "is_none_or",
    ];
    NAMES.contains(&name)
}

impl Finder<'_> {
    fn source(&self, range: &Range<usize>) -> &str {
        &self.text[range.clone()]
    }

    /// Adds a mutant of the text in `range`. `edits` get its number.
    fn add(
        &mut self,
        range: &Range<usize>,
        changed: impl Into<String>,
        edits: impl FnOnce(u32) -> Vec<Edit>,
    ) {
        let id = self.first + u32::try_from(self.found.len()).unwrap_or(u32::MAX);
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.found.push(Mutant {
            id,
            file: self.file.to_owned(),
            line: self.text[..range.start].matches('\n').count() + 1,
            function: self.functions.join("::"),
            original: one_line(self.source(range)),
            changed: one_line(&changed.into()),
            edits: edits(id),
        });
    }

    /// Adds a mutant that passes the value of `range` and `argument` to a function of `switch.rs`.
    fn wrap(&mut self, range: &Range<usize>, function: &str, argument: &str, changed: String) {
        let close = if argument.is_empty() {
            ")".to_owned()
        } else {
            format!(", {argument})")
        };
        self.add(range, changed, |id| {
            let open = format!("{SWITCH}::{function}({id}, ");
            vec![Edit::Wrap(range.clone(), open, close)]
        });
    }

    /// Adds a mutant in which the value of `expr` is always `value`.
    fn force(&mut self, expr: &Expr, value: bool) {
        let text = value.to_string();
        if self.source(&range(expr)) != text {
            self.wrap(&range(expr), "pick", &text.clone(), text);
        }
    }

    fn flip(&mut self, expr: &Expr) {
        let range = range(expr);
        if self.judged.as_ref() != Some(&range) {
            let changed = format!("!({})", self.source(&range));
            self.wrap(&range, "flip", "", changed);
        }
    }

    /// Visits a `bool` that other mutants make true or false.
    fn visit_judged(&mut self, expr: &Expr) {
        let before = self.judged.replace(range(bare(expr)));
        self.visit_expr(expr);
        self.judged = before;
    }

    /// A condition: one mutant for each of `values`. A chain is only made false or true as a whole if no operand does it.
    fn condition(&mut self, expr: &Expr, values: &[bool]) {
        if has_let(expr) {
            self.operands(expr, true);
            return;
        }
        let inner = bare(expr);
        let subsumed = match inner {
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => Some(true),
            Expr::Binary(binary) if matches!(binary.op, BinOp::Or(_)) => Some(false),
            _ => None,
        };
        for value in values {
            if subsumed != Some(*value) {
                self.force(expr, *value);
            }
        }
        self.visit_judged(expr);
    }

    /// The operands of a chain of `&&`, if `neutral`, or else of `||`: each is replaced by the value without effect.
    fn operands(&mut self, expr: &Expr, neutral: bool) {
        match expr {
            Expr::Let(expr) => self.visit_expr(&expr.expr),
            Expr::Binary(binary)
                if matches!(binary.op, BinOp::And(_)) && neutral
                    || matches!(binary.op, BinOp::Or(_)) && !neutral =>
            {
                self.connective(binary);
                self.operands(&binary.left, neutral);
                self.operands(&binary.right, neutral);
            }
            _ => {
                self.force(expr, neutral);
                self.visit_judged(expr);
            }
        }
    }

    /// `a && b` becomes `a || b`, and the other way round. The switch keeps the order of evaluation: the second operand
    /// is asked only if the first leaves the answer open.
    fn connective(&mut self, binary: &syn::ExprBinary) {
        if has_let(&binary.left) || has_let(&binary.right) {
            return;
        }
        let is_and = matches!(binary.op, BinOp::And(_));
        let (other, relation, not) = if is_and {
            ("||", "!=", "")
        } else {
            ("&&", "==", "!")
        };
        let whole = range(binary);
        let operator = range(&binary.op);
        let changed = self.replaced(&whole, &operator, other);
        self.add(&whole, changed, |id| {
            let on = format!("{SWITCH}::on({id})");
            let open = "(if (".to_owned();
            let close = format!(" }} else {{ {not}{on} }})");
            vec![
                Edit::Wrap(whole.clone(), open, close),
                Edit::Replace(operator, format!(") {relation} {on} {{")),
            ]
        });
    }

    /// The text of `whole` with another text in place of `part`.
    fn replaced(&self, whole: &Range<usize>, part: &Range<usize>, other: &str) -> String {
        let before = &self.text[whole.start..part.start];
        let after = &self.text[part.end..whole.end];
        format!("{before}{other}{after}")
    }

    fn binary(&mut self, binary: &syn::ExprBinary, expr: &Expr) {
        match binary.op {
            BinOp::And(_) | BinOp::Or(_) => {
                let is_and = matches!(binary.op, BinOp::And(_));
                if self.judged.as_ref() != Some(&range(expr)) {
                    self.force(expr, !is_and);
                }
                self.operands(expr, is_and);
                return;
            }
            BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
                self.flip(expr);
                self.boundary(binary);
            }
            BinOp::Eq(_) | BinOp::Ne(_) => self.flip(expr),
            BinOp::AddAssign(_) | BinOp::SubAssign(_) => {
                self.assignment(binary);
                self.visit_expr(&binary.right);
                return;
            }
            _ => self.arithmetic(binary),
        }
        visit::visit_expr_binary(self, binary);
    }

    /// `a < b` becomes `a <= b`. Both answers are computed, so that only equal operands reach the mutant.
    fn boundary(&mut self, binary: &syn::ExprBinary) {
        let Some(other) = counterpart(&binary.op) else {
            return;
        };
        let whole = range(binary);
        let operator = range(&binary.op);
        let original = self.source(&operator).to_owned();
        let changed = self.replaced(&whole, &operator, other);
        self.add(&whole, changed, |id| {
            let close = format!(
                ")) {{ (l, r) => {SWITCH}::pick({id}, *l {original} *r, *l {other} *r) }})"
            );
            vec![
                Edit::Wrap(whole.clone(), "(match (&(".to_owned(), close),
                Edit::Replace(operator, "), &(".to_owned()),
            ]
        });
    }

    fn arithmetic(&mut self, binary: &syn::ExprBinary) {
        let Some(other) = counterpart(&binary.op) else {
            return;
        };
        let whole = range(binary);
        let operator = range(&binary.op);
        let original = self.source(&operator).to_owned();
        let changed = self.replaced(&whole, &operator, other);
        self.add(&whole, changed, |id| {
            let close = format!(
                ") {{ (l, r) => if {SWITCH}::on({id}) {{ l {other} r }} else {{ l {original} r }} }})"
            );
            vec![
                Edit::Wrap(whole.clone(), "(match (".to_owned(), close),
                Edit::Replace(operator, ",".to_owned()),
            ]
        });
    }

    /// `a += b` becomes `a -= b`. The target is written twice, so it has no mutants of its own.
    fn assignment(&mut self, binary: &syn::ExprBinary) {
        let Some(other) = counterpart(&binary.op) else {
            return;
        };
        let whole = range(binary);
        let operator = range(&binary.op);
        let left = self.source(&range(&*binary.left)).to_owned();
        let original = self.source(&operator).to_owned();
        let changed = self.replaced(&whole, &operator, other);
        let target = whole.start..range(&*binary.right).start;
        self.add(&whole, changed, |id| {
            let close = format!(
                ") {{ r => if {SWITCH}::on({id}) {{ {left} {other} r }} else {{ {left} {original} r }} }})"
            );
            vec![
                Edit::Wrap(whole.clone(), "(".to_owned(), close),
                Edit::Replace(target, "match (".to_owned()),
            ]
        });
    }

    fn literal(&mut self, literal: &Lit) {
        let place = range(literal);
        match literal {
            Lit::Bool(value) => self.wrap(&place, "flip", "", (!value.value).to_string()),
            Lit::Int(value) => {
                let other = match value.base10_parse::<u64>() {
                    Ok(0) => 1,
                    Ok(1) => 0,
                    Ok(number) if number < u64::MAX => number + 1,
                    _ => return,
                };
                let changed = format!("{other}{}", value.suffix());
                self.wrap(&place, "pick", &changed.clone(), changed);
            }
            _ => {}
        }
    }

    fn method_call(&mut self, call: &syn::ExprMethodCall, expr: &Expr) {
        let name = call.method.to_string();
        if is_judgement(&name) {
            self.flip(expr);
        }
        if let Some(other) = other_method(&name)
            && call.args.len() == 1
        {
            self.other_call(call, &name, other);
        }
        self.visit_expr(&call.receiver);
        for argument in &call.args {
            match argument {
                Expr::Closure(closure) if takes_predicate(&name) => {
                    self.condition(&closure.body, &[true, false]);
                }
                _ => self.visit_expr(argument),
            }
        }
    }

    /// `a.min(b)` becomes `a.max(b)`.
    fn other_call(&mut self, call: &syn::ExprMethodCall, name: &str, other: &str) {
        let whole = range(call);
        let method = range(&call.method);
        let changed = self.replaced(&whole, &method, other);
        // From the end of the receiver to the argument.
        let between = range(&*call.receiver).end..range(&call.args[0]).start;
        let end = range(&call.args[0]).end..whole.end;
        self.add(&whole, changed, |id| {
            let close = format!(
                ") {{ (l, r) => if {SWITCH}::on({id}) {{ l.{other}(r) }} else {{ l.{name}(r) }} }})"
            );
            vec![
                Edit::Wrap(whole.clone(), "(match (".to_owned(), String::new()),
                Edit::Replace(between, ", ".to_owned()),
                Edit::Replace(end, close),
            ]
        });
    }

    fn function(&mut self, signature: &Signature, block: &Block, attributes: &[Attribute]) {
        // A constant function cannot ask for the active mutant.
        if signature.constness.is_some() || is_test(attributes) || block.stmts.is_empty() {
            return;
        }
        self.functions.push(signature.ident.to_string());
        let output = match &signature.output {
            ReturnType::Default => "",
            ReturnType::Type(_, result) => &self.text[range(result)],
        };
        let body = range(block);
        let start = body.start + 1;
        for constant in constants(&signature.output, output) {
            // The place is the name, because a body would be a long text.
            let place = range(&signature.ident);
            self.add(&place, format!("{{ return {constant} }}"), |id| {
                let text = format!(" if {SWITCH}::on({id}) {{ return {constant}; }}");
                vec![Edit::Replace(start..start, text)]
            });
        }
        if output == "bool" {
            self.judging_block(block);
        } else {
            self.visit_block(block);
        }
        self.functions.pop();
    }

    /// A body whose last expression other mutants replace by true and by false.
    fn judging_block(&mut self, block: &Block) {
        for statement in &block.stmts {
            match statement {
                Stmt::Expr(expr, None) if !matches!(expr, Expr::If(_) | Expr::Match(_)) => {
                    self.visit_judged(expr);
                }
                _ => self.visit_stmt(statement),
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block, &item.attrs);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block, &item.attrs);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block, &item.attrs);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}

    fn visit_pat(&mut self, pattern: &'ast syn::Pat) {
        if let syn::Pat::Guard(guarded) = pattern {
            self.condition(&guarded.guard, &[true, false]);
        }
    }

    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let place = range(statement);
        // An attribute may leave the statement out.
        if self.source(&place).starts_with('#') {
            return;
        }
        let can_go = |expr: &Expr| {
            let is_step = |op: &BinOp| matches!(op, BinOp::AddAssign(_) | BinOp::SubAssign(_));
            matches!(expr, Expr::MethodCall(_) | Expr::Call(_) | Expr::Assign(_))
                || matches!(expr, Expr::Binary(binary) if is_step(&binary.op))
        };
        if matches!(statement, Stmt::Expr(expr, Some(_)) if can_go(expr)) {
            self.add(&place, "", |id| {
                let open = format!("if !{SWITCH}::on({id}) {{ ");
                vec![Edit::Wrap(place.clone(), open, " }".to_owned())]
            });
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::If(expr) => {
                self.condition(&expr.cond, &[true, false]);
                self.visit_block(&expr.then_branch);
                if let Some((_, other)) = &expr.else_branch {
                    self.visit_expr(other);
                }
            }
            Expr::While(expr) => {
                self.condition(&expr.cond, &[false]);
                self.visit_block(&expr.body);
            }
            Expr::Binary(binary) => self.binary(binary, expr),
            Expr::Unary(unary) => {
                if matches!(unary.op, UnOp::Not(_)) {
                    self.flip(expr);
                }
                self.visit_expr(&unary.expr);
            }
            Expr::Macro(called) if called.mac.path.is_ident("matches") => self.flip(expr),
            Expr::Lit(literal) => self.literal(&literal.lit),
            Expr::MethodCall(call) => self.method_call(call, expr),
            _ => visit::visit_expr(self, expr),
        }
    }
}

#[cfg(test)]
mod tests;
