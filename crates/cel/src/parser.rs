//! Parses an expression. `macros` expands the macros among its calls.
//!
//! Upstream: `parser/gen/CEL.g4` and `parser/parser.go` of cel-go.

use super::ast::{Expr, Init, Kind, Select};
use super::functions::type_named;
use super::lexer::{Token, TokenKind, tokens};
use super::macros;
use super::nodes::{Library, Nodes};
use super::source::Issue;
use super::types::RESERVED;
use super::value::Val;

/// The most characters, as cel-go's.
const MAX_LENGTH: usize = 100_000;
/// The most expressions inside of each other, such as parentheses. cel-go allows 250, and has a
/// stack that grows.
const MAX_NESTING: usize = 60;

/// The tokens with which an operand can begin, as ANTLR lists them.
const OPERANDS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

const RELATIONS: [(&str, &str); 6] = [
    ("<", "_<_"),
    ("<=", "_<=_"),
    (">=", "_>=_"),
    (">", "_>_"),
    ("==", "_==_"),
    ("!=", "_!=_"),
];
const SUMS: [(&str, &str); 2] = [("+", "_+_"), ("-", "_-_")];
const PRODUCTS: [(&str, &str); 3] = [("*", "_*_"), ("/", "_/_"), ("%", "_%_")];

/// Parses `source` and expands its macros, which `library` has.
pub(super) fn parse(source: &str, library: Library) -> Result<Expr, Vec<Issue>> {
    let length = source.chars().count();
    if length > MAX_LENGTH {
        let message =
            format!("expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}");
        return Err(vec![Issue { at: 0, message }]);
    }
    let tokens = tokens(source).map_err(|issue| vec![issue])?;
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        nodes: Nodes::new(library),
    };
    let parsed = parser.expression().and_then(|expr| {
        parser.end()?;
        Ok(expr)
    });
    match parsed {
        Ok(expr) if parser.nodes.issues.is_empty() => Ok(expr),
        Ok(_) => Err(parser.nodes.issues),
        Err(issue) => {
            parser.nodes.issues.push(issue);
            Err(parser.nodes.issues)
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    nodes: Nodes,
}

impl Parser {
    fn token(&self) -> &Token {
        &self.tokens[self.at]
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.token().kind, TokenKind::Sign(found) if found == sign)
    }

    /// The place of `sign`, if it comes next.
    fn take(&mut self, sign: &str) -> Option<usize> {
        self.is(sign).then(|| self.advance().at)
    }

    fn expect(&mut self, sign: &str) -> Result<usize, Issue> {
        self.take(sign).ok_or_else(|| {
            let token = self.token();
            if token.kind != TokenKind::End {
                return self.mismatch(&format!("'{sign}'"));
            }
            Issue {
                at: token.at,
                message: format!("Syntax error: missing '{sign}' at '<EOF>'"),
            }
        })
    }

    fn mismatch(&self, expected: &str) -> Issue {
        let token = self.token();
        Issue {
            at: token.at,
            message: format!(
                "Syntax error: mismatched input '{}' expecting {expected}",
                token.text
            ),
        }
    }

    fn end(&self) -> Result<(), Issue> {
        let token = self.token();
        if token.kind == TokenKind::End {
            return Ok(());
        }
        let is_last = self.tokens[self.at + 1].kind == TokenKind::End;
        let problem = if is_last { "extraneous" } else { "mismatched" };
        Err(Issue {
            at: token.at,
            message: format!(
                "Syntax error: {problem} input '{}' expecting <EOF>",
                token.text
            ),
        })
    }

    fn expression(&mut self) -> Result<Expr, Issue> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(Issue {
                at: self.token().at,
                message: format!("expression recursion limit exceeded: {MAX_NESTING}"),
            });
        }
        let condition = self.disjunction()?;
        let found = match self.take("?") {
            None => condition,
            Some(at) => {
                let then = self.disjunction()?;
                self.expect(":")?;
                let otherwise = self.expression()?;
                self.nodes
                    .call(at, "_?_:_", vec![condition, then, otherwise])
            }
        };
        self.depth -= 1;
        Ok(found)
    }

    fn disjunction(&mut self) -> Result<Expr, Issue> {
        self.terms("||", "_||_", |parser| {
            parser.terms("&&", "_&&_", Self::relation)
        })
    }

    /// Terms between logical operators, as a balanced tree like cel-go's. Their number is not
    /// limited by the depth of trees.
    fn terms(
        &mut self,
        sign: &str,
        function: &str,
        mut term: impl FnMut(&mut Self) -> Result<Expr, Issue>,
    ) -> Result<Expr, Issue> {
        let mut terms = vec![term(self)?];
        let mut places = Vec::new();
        while let Some(at) = self.take(sign) {
            places.push(at);
            terms.push(term(self)?);
        }
        // Each round joins neighbours; the operator after the last term of a pair stays.
        while terms.len() > 1 {
            let mut joined = Vec::with_capacity(terms.len().div_ceil(2));
            let mut between = Vec::with_capacity(places.len() / 2);
            let mut rest = terms.into_iter();
            let mut signs = places.into_iter();
            while let Some(left) = rest.next() {
                match (rest.next(), signs.next()) {
                    (Some(right), Some(at)) => {
                        joined.push(self.nodes.call(at, function, vec![left, right]));
                        between.extend(signs.next());
                    }
                    _ => joined.push(left),
                }
            }
            terms = joined;
            places = between;
        }
        terms.pop().ok_or_else(|| self.mismatch(OPERANDS))
    }

    fn relation(&mut self) -> Result<Expr, Issue> {
        let mut left = self.sum()?;
        loop {
            let sign = RELATIONS.iter().find(|(sign, _)| self.is(sign));
            let function = match sign {
                Some((_, function)) => function,
                None if self.token().kind == TokenKind::Ident && self.token().text == "in" => "@in",
                None => return Ok(left),
            };
            let at = self.advance().at;
            let right = self.sum()?;
            left = self.nodes.call(at, function, vec![left, right]);
        }
    }

    fn sum(&mut self) -> Result<Expr, Issue> {
        self.chain(&SUMS, |parser| parser.chain(&PRODUCTS, Self::unary))
    }

    /// Operands between operators of one rank, from left to right.
    fn chain(
        &mut self,
        signs: &[(&str, &str)],
        mut operand: impl FnMut(&mut Self) -> Result<Expr, Issue>,
    ) -> Result<Expr, Issue> {
        let mut left = operand(self)?;
        while let Some((_, function)) = signs.iter().find(|(sign, _)| self.is(sign)) {
            let at = self.advance().at;
            let right = operand(self)?;
            left = self.nodes.call(at, function, vec![left, right]);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, Issue> {
        let sign = if self.is("!") { "!" } else { "-" };
        let start = self.token().at;
        let mut count = 0;
        while self.is(sign) {
            // A minus directly before a number belongs to the number.
            if sign == "-" && matches!(self.tokens[self.at + 1].kind, TokenKind::Literal(_)) {
                break;
            }
            self.advance();
            count += 1;
        }
        let operand = self.member()?;
        // Two signs cancel each other.
        if count % 2 == 0 {
            return Ok(operand);
        }
        let function = if sign == "!" { "!_" } else { "-_" };
        Ok(self.nodes.call(start, function, vec![operand]))
    }

    fn member(&mut self) -> Result<Expr, Issue> {
        let mut operand = self.primary()?;
        loop {
            if let Some(at) = self.take(".") {
                let optional = self.take("?").is_some();
                let token = self.advance();
                if token.kind != TokenKind::Ident || is_keyword(&token.text) {
                    self.at -= usize::from(token.kind != TokenKind::End);
                    return Err(self.mismatch(if optional {
                        "IDENTIFIER"
                    } else {
                        "{'?', IDENTIFIER, ESC_IDENTIFIER}"
                    }));
                }
                if !optional && let Some(at) = self.take("(") {
                    let args = self.arguments()?;
                    operand = macros::expand(&mut self.nodes, at, token.text, Some(operand), args);
                    continue;
                }
                let form = if optional {
                    Select::Optional
                } else {
                    Select::Value
                };
                let kind = Kind::Select {
                    operand: Box::new(operand),
                    field: token.text,
                    form,
                };
                operand = self.nodes.node(at, kind);
                let type_named = operand.qualified_name().and_then(|name| type_named(&name));
                if let Some(named) = type_named {
                    operand = self.nodes.node(at, Kind::Literal(Val::Type(named)));
                }
            } else if let Some(at) = self.take("[") {
                let function = if self.take("?").is_some() {
                    "_[?_]"
                } else {
                    "_[_]"
                };
                let index = self.expression()?;
                self.expect("]")?;
                operand = self.nodes.call(at, function, vec![operand, index]);
            } else if self.is("{") && operand.qualified_name().is_some() {
                operand = self.structure(operand)?;
            } else {
                return Ok(operand);
            }
        }
    }

    /// `Type{field: value}`
    fn structure(&mut self, name: Expr) -> Result<Expr, Issue> {
        let at = self.expect("{")?;
        let mut fields = Vec::new();
        while !self.is("}") {
            let optional = self.take("?").is_some();
            let field = self.advance();
            if field.kind != TokenKind::Ident {
                return Err(self.mismatch("IDENTIFIER"));
            }
            let at = self.expect(":")?;
            fields.push(Init {
                name: field.text,
                at,
                value: self.expression()?,
                optional,
            });
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        let name = name.qualified_name().unwrap_or_default();
        Ok(self.nodes.node(at, Kind::Struct(name, fields)))
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, Issue> {
        let mut args = Vec::new();
        if self.take(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.take(",").is_none() {
                self.expect(")")?;
                return Ok(args);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, Issue> {
        let token = self.token().clone();
        match &token.kind {
            TokenKind::Literal(value) => {
                self.advance();
                self.literal(&token, value.clone(), false)
            }
            TokenKind::Sign("-") => match self.tokens[self.at + 1].clone() {
                Token {
                    kind: TokenKind::Literal(value),
                    ..
                } => {
                    self.advance();
                    self.advance();
                    self.literal(&token, value, true)
                }
                _ => Err(self.mismatch(OPERANDS)),
            },
            TokenKind::Sign("(") => {
                self.advance();
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            TokenKind::Sign("[") => self.list(),
            TokenKind::Sign("{") => self.map(),
            TokenKind::Sign(".") => {
                // A leading dot names the root, which is the only container.
                self.advance();
                self.named()
            }
            TokenKind::Ident => self.named(),
            _ => Err(self.mismatch(OPERANDS)),
        }
    }

    fn literal(&mut self, token: &Token, value: Val, negative: bool) -> Result<Expr, Issue> {
        let is_unsigned = self.tokens[self.at - 1].text.ends_with(['u', 'U']);
        let value = match value {
            Val::Int(number) if negative => Val::Int(-number),
            Val::Double(number) if negative => Val::Double(-number),
            Val::Uint(number) if negative && !is_unsigned && number == 1 << 63 => {
                Val::Int(i64::MIN)
            }
            Val::Uint(_) if !is_unsigned => {
                return Err(Issue {
                    at: token.at,
                    message: "invalid int literal".to_owned(),
                });
            }
            _ if negative => {
                let operand = self.nodes.node(token.at, Kind::Literal(value));
                return Ok(self.nodes.call(token.at, "-_", vec![operand]));
            }
            value => value,
        };
        Ok(self.nodes.node(token.at, Kind::Literal(value)))
    }

    /// An identifier, constant or function.
    fn named(&mut self) -> Result<Expr, Issue> {
        let token = self.advance();
        if token.kind != TokenKind::Ident || token.text == "in" {
            self.at -= usize::from(token.kind != TokenKind::End);
            return Err(self.mismatch(OPERANDS));
        }
        let constant = match &*token.text {
            "true" => Some(Val::Bool(true)),
            "false" => Some(Val::Bool(false)),
            "null" => Some(Val::Null),
            _ => None,
        };
        if let Some(value) = constant {
            return Ok(self.nodes.node(token.at, Kind::Literal(value)));
        }
        if RESERVED.contains(&&*token.text) {
            self.nodes
                .report(token.at, &format!("reserved identifier: {}", token.text));
        }
        match self.take("(") {
            Some(at) => {
                let args = self.arguments()?;
                Ok(macros::expand(&mut self.nodes, at, token.text, None, args))
            }
            None => Ok(self.nodes.node(token.at, Kind::Ident(token.text))),
        }
    }

    fn list(&mut self) -> Result<Expr, Issue> {
        let at = self.expect("[")?;
        let mut items = Vec::new();
        while !self.is("]") {
            let optional = self.take("?").is_some();
            items.push((self.expression()?, optional));
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect("]")?;
        Ok(self.nodes.node(at, Kind::List(items)))
    }

    fn map(&mut self) -> Result<Expr, Issue> {
        let at = self.expect("{")?;
        let mut entries = Vec::new();
        while !self.is("}") {
            let optional = self.take("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?, optional));
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        Ok(self.nodes.node(at, Kind::Map(entries)))
    }
}

fn is_keyword(text: &str) -> bool {
    matches!(text, "in" | "true" | "false" | "null")
}
