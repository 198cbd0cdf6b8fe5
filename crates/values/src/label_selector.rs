//! Label selectors in the grammar of upstream's `labels.Parse`, such as `a=b,c!=d,e in (f,g),h
//! notin (i),j,!k,l>1`.
//!
//! A recursive descent parser follows upstream's, so that errors appear at the same tokens
//! (`apimachinery/pkg/labels/selector.go`). Selectors in specs of objects, and the matching of
//! interned labels, are in [`crate::labels`].

use std::fmt;

/// A list of requirements that an object must all meet. An empty list selects every object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

/// One requirement, such as `app in (a,b)`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Equals(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Parses a selector. The error has upstream's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        Parser {
            tokens: tokens(text),
            position: 0,
        }
        .parse()
        .map(Self)
    }

    /// The pairs of key and value that every matching label set contains.
    pub fn required_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter_map(|requirement| match &requirement.test {
                Test::Equals(value) => Some((&*requirement.key, &**value)),
                _ => None,
            })
    }

    /// The operator of the first comparison of numbers. Label selectors in specs of objects have no
    /// such operators.
    pub fn comparison(&self) -> Option<&'static str> {
        self.0
            .iter()
            .find_map(|requirement| match requirement.test {
                Test::GreaterThan(_) => Some("gt"),
                Test::LessThan(_) => Some("lt"),
                _ => None,
            })
    }

    /// Whether the selector matches every object.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the labels, looked up by key, meet every requirement.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| {
            let value = label(&requirement.key);
            match &requirement.test {
                Test::Equals(wanted) => value == Some(wanted),
                Test::In(values) => {
                    value.is_some_and(|value| values.iter().any(|known| known == value))
                }
                Test::NotIn(values) => {
                    value.is_none_or(|value| values.iter().all(|known| known != value))
                }
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
                Test::GreaterThan(bound) => number(value).is_some_and(|value| value > *bound),
                Test::LessThan(bound) => number(value).is_some_and(|value| value < *bound),
            }
        })
    }
}

impl fmt::Display for LabelSelector {
    /// Writes the canonical form: requirements sorted by key, and sorted values. `!=` becomes
    /// `notin`, as in the conversion of a `Scale`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[String]| {
            let mut sorted: Vec<&str> = values.iter().map(String::as_str).collect();
            sorted.sort_unstable();
            sorted.dedup();
            sorted.join(",")
        };
        let mut sorted: Vec<&Requirement> = self.0.iter().collect();
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        for (position, Requirement { key, test }) in sorted.into_iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::Equals(value) => write!(f, "{key}={value}"),
                Test::In(values) => write!(f, "{key} in ({})", list(values)),
                Test::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
                Test::Exists => write!(f, "{key}"),
                Test::DoesNotExist => write!(f, "!{key}"),
                Test::GreaterThan(bound) => write!(f, "{key}>{bound}"),
                Test::LessThan(bound) => write!(f, "{key}<{bound}"),
            }?;
        }
        Ok(())
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

fn is_symbol(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

/// Splits a selector into words and symbols.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        if bytes[at].is_ascii_whitespace() {
            at += 1;
        } else if is_symbol(bytes[at]) {
            let two = text
                .get(at..at + 2)
                .is_some_and(|symbol| matches!(symbol, "==" | "!="));
            at += if two { 2 } else { 1 };
            tokens.push(Token::Symbol(&text[start..at]));
        } else {
            while at < bytes.len() && !is_symbol(bytes[at]) && !bytes[at].is_ascii_whitespace() {
                at += 1;
            }
            tokens.push(Token::Word(&text[start..at]));
        }
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens
            .get(self.position)
            .copied()
            .unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn parse(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Word(_) | Token::Symbol("!") => {}
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            requirements.push(
                self.requirement()
                    .map_err(|why| format!("unable to parse requirement: {why}"))?,
            );
            match self.take() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => match self.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    other => {
                        return Err(format!(
                            "found '{}', expected: identifier after ','",
                            other.text()
                        ));
                    }
                },
                other => {
                    return Err(format!(
                        "found '{}', expected: ',' or 'end of string'",
                        other.text()
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Token::Symbol("!");
        if negated {
            self.take();
        }
        let Token::Word(key) = self.peek() else {
            return Err(format!(
                "found '{}', expected: identifier",
                self.peek().text()
            ));
        };
        self.take();
        check_key(key)?;
        let test = match (negated, self.peek()) {
            (true, Token::End | Token::Symbol(",")) => Test::DoesNotExist,
            (false, Token::End | Token::Symbol(",")) => Test::Exists,
            _ => self.test(key)?,
        };
        Ok(Requirement {
            key: key.to_owned(),
            test,
        })
    }

    fn test(&mut self, key: &str) -> Result<Test, String> {
        Ok(match self.take() {
            Token::Word("in") => Test::In(checked(self.values()?, key)?),
            Token::Word("notin") => Test::NotIn(checked(self.values()?, key)?),
            Token::Symbol("=" | "==") => {
                Test::Equals(checked(vec![self.value()?], key)?.swap_remove(0))
            }
            Token::Symbol("!=") => Test::NotIn(checked(vec![self.value()?], key)?),
            Token::Symbol(">") => Test::GreaterThan(integer(&self.value()?)?),
            Token::Symbol("<") => Test::LessThan(integer(&self.value()?)?),
            other => {
                return Err(format!(
                    "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                    other.text()
                ));
            }
        })
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(value) => {
                self.take();
                Ok(value.to_owned())
            }
            Token::Symbol(other) => Err(format!("found '{other}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.take() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        if self.peek() == Token::Symbol(")") {
            self.take();
            return Ok(values);
        }
        if !matches!(self.peek(), Token::Word(_) | Token::Symbol(",")) {
            return Err(format!(
                "found '{}', expected: ',', ')' or identifier",
                self.peek().text()
            ));
        }
        // Nothing between two commas, or before a parenthesis, is the empty value.
        loop {
            match self.peek() {
                Token::Word(value) => {
                    self.take();
                    values.push(value.to_owned());
                }
                Token::Symbol("," | ")") => values.push(String::new()),
                other => {
                    return Err(format!(
                        "found '{}', expected: ',', or identifier",
                        other.text()
                    ));
                }
            }
            match self.take() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
    }
}

fn integer(value: &str) -> Result<i64, String> {
    value
        .parse()
        .map_err(|_| format!("values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"))
}

/// The values, or the error for the first one that is no label value.
fn checked(values: Vec<String>, key: &str) -> Result<Vec<String>, String> {
    for (position, value) in values.iter().enumerate() {
        if !value.is_empty() && !is_name(value) {
            return Err(format!(
                "values[{position}][{key}]: Invalid value: \"{value}\": a valid label must be an empty string or consist of \
                 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ));
        }
    }
    Ok(values)
}

fn check_key(key: &str) -> Result<(), String> {
    let name = key.split_once('/').map_or(key, |(_, name)| name);
    if is_name(name) {
        return Ok(());
    }
    Err(format!(
        "<nil>: Invalid value: \"{key}\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
         end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    ))
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_match_as_upstream_documents() {
        // (selector, value of label `app`, expected)
        let cases = [
            ("", None, true),
            ("app", Some("x"), true),
            ("app", None, false),
            ("!app", None, true),
            ("app=x", Some("x"), true),
            ("app==x", Some("y"), false),
            ("app!=x", None, true),
            ("app!=x", Some("x"), false),
            ("app in (x, y)", Some("y"), true),
            ("app in (x)", None, false),
            ("app notin (x)", None, true),
            ("app=", Some(""), true),
            ("app in ()", Some(""), false),
            ("app in (x,)", Some(""), true),
            ("app>1", Some("2"), true),
            ("app<1", Some("2"), false),
            ("app>1", Some("two"), false),
            (" app = x , app ", Some("x"), true),
        ];
        for (text, value, expected) in cases {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(
                selector.matches(|key| value.filter(|_| key == "app")),
                expected,
                "{text} on {value:?}"
            );
        }
    }

    #[test]
    fn the_canonical_form_is_sorted() {
        // (selector, canonical form)
        let cases = [
            ("", ""),
            ("b==2, a=1", "a=1,b=2"),
            (
                "z, !y, x notin (b,a), w in (d)",
                "w in (d),x notin (a,b),!y,z",
            ),
            ("a!=b", "a notin (b)"),
            ("a>1,b<2", "a>1,b<2"),
        ];
        for (text, expected) in cases {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.to_string(), expected, "{text}");
            let again = LabelSelector::parse(expected).unwrap();
            assert_eq!(again.to_string(), expected);
        }
    }

    #[test]
    fn errors_have_upstreams_texts() {
        let cases = [
            (
                "app===x",
                "unable to parse requirement: found '=', expected: identifier",
            ),
            (
                "app in x",
                "unable to parse requirement: found 'x' expected: '('",
            ),
            ("app=not!ok", "found '!', expected: ',' or 'end of string'"),
            ("app=x,", "found '', expected: identifier after ','"),
            (
                "app in (x",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            (
                "app>abc",
                "unable to parse requirement: values[0]: Invalid value: \"abc\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(LabelSelector::parse(text).unwrap_err(), message);
        }
    }
}
