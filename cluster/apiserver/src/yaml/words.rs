//! The errors of `granit-parser` in the words of Go's parser.
//!
//! Both find most mistakes at the same place, but libyaml's parser names only the part that it expected, such as the
//! end of a list. Upstream: `scannerc.go` and `parserc.go` of `go.yaml.in/yaml/v2`, and `fail` of its `decode.go`.

use granit_parser::{ErrorKind, ScanError};

/// A collection that is open at the place of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Open {
    List,
    Mapping,
    /// `[`
    FlowList,
    /// `{`
    FlowMapping,
}

impl Open {
    /// The kind of the collection that starts with this text.
    pub(super) fn starting(text: &str, is_list: bool) -> Self {
        match (text.chars().next(), is_list) {
            (Some('['), true) => Self::FlowList,
            (Some('{'), false) => Self::FlowMapping,
            (_, true) => Self::List,
            (_, false) => Self::Mapping,
        }
    }

    /// The error about something else in place of the next part.
    fn expected(self) -> &'static str {
        match self {
            Self::List => "did not find expected '-' indicator",
            Self::Mapping => "did not find expected key",
            Self::FlowList => "did not find expected ',' or ']'",
            Self::FlowMapping => "did not find expected ',' or '}'",
        }
    }
}

const NODE: &str = "did not find expected node content";
const TOKEN: &str = "found character that cannot start any token";

/// The line that Go names, as libyaml's mark has it: from 0.
enum Place {
    /// Go shows the number of a line for errors of the scanner.
    Scanner(usize),
    /// It shows one less for errors of the parser.
    Parser(usize),
}

impl Place {
    /// Go leaves the first line out.
    fn shown(self) -> String {
        match self {
            Self::Scanner(0) | Self::Parser(0) => String::new(),
            Self::Scanner(line) => format!("line {}: ", line + 1),
            Self::Parser(line) => format!("line {line}: "),
        }
    }
}

/// The error in a text, inside of `open` as far as the parser came.
pub(super) fn of(error: &ScanError, text: &str, open: Option<Open>) -> String {
    let at = error.marker();
    let line = at.line() - 1;
    let before = at.byte_offset().and_then(|end| text.get(..end));
    let before = before.unwrap_or_default();
    let inner = innermost(before).or(open);
    let scanner = |why: &str| (Place::Scanner(line), why.to_owned());
    let parser = |why: &str| (Place::Parser(line), why.to_owned());
    let expected = |open: Option<Open>| open.unwrap_or(Open::Mapping).expected();
    let (place, why) = match error.kind() {
        ErrorKind::UnclosedFlowCollection { open } => {
            let open = Open::starting(&open.to_string(), *open == '[');
            let why = if wants_node(text) {
                NODE
            } else {
                open.expected()
            };
            (Place::Parser(text.lines().count()), why.to_owned())
        }
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            // The place is that of the open bracket.
            let open = Open::starting(&open.to_string(), *open == '[');
            let end = text[before.len()..].find(*close).unwrap_or_default();
            let before = &text[..before.len() + end];
            let why = if wants_node(before) {
                NODE
            } else {
                open.expected()
            };
            (Place::Parser(before.matches('\n').count()), why.to_owned())
        }
        ErrorKind::MisplacedFlowCollectionEnd if wants_node(before) => parser(NODE),
        ErrorKind::MisplacedFlowCollectionEnd => parser(expected(open)),
        ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar
        | ErrorKind::InvalidColonPlacement => parser(expected(inner)),
        ErrorKind::UnclosedQuotedScalar => {
            let last = text.matches('\n').count();
            (
                Place::Scanner(last),
                "found unexpected end of stream".to_owned(),
            )
        }
        ErrorKind::SimpleKeyExpected => {
            let next = next_line(text, line, |line| !line.trim().is_empty());
            (
                Place::Scanner(next),
                "could not find expected ':'".to_owned(),
            )
        }
        ErrorKind::TabInPlainScalar => {
            let next = next_line(text, line, starts_with_tab);
            let why = "found a tab character that violates indentation";
            (Place::Scanner(next), why.to_owned())
        }
        ErrorKind::TabAtBlockScalarStart => {
            let next = next_line(text, line, starts_with_tab);
            let why = "found a tab character where an indentation space is expected";
            (Place::Scanner(next), why.to_owned())
        }
        ErrorKind::UnexpectedCharacter { .. }
        | ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation => scanner(TOKEN),
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::UnexpectedEofBlockSequence
        | ErrorKind::UnexpectedEofBlockMapping
        | ErrorKind::ExpectedNodeContent
        | ErrorKind::BlockEntryInFlowCollection => parser(NODE),
        ErrorKind::ExpectedFlowSequenceSeparator => parser(Open::FlowList.expected()),
        ErrorKind::ExpectedFlowMappingSeparator => parser(Open::FlowMapping.expected()),
        ErrorKind::ExpectedBlockSequenceEntry => parser(Open::List.expected()),
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::InvalidBlockScalarIndent => {
            parser(Open::Mapping.expected())
        }
        ErrorKind::ExpectedDocumentStart => parser("did not find expected <document start>"),
        ErrorKind::DuplicateVersionDirective => parser("found duplicate %YAML directive"),
        ErrorKind::DuplicateTagDirective => parser("found duplicate %TAG directive"),
        ErrorKind::UnsupportedYamlMajorVersion => parser("found incompatible YAML document"),
        ErrorKind::UndeclaredTagHandle => parser("found undefined tag handle"),
        ErrorKind::MissingDocumentEndBeforeDirective => scanner("found unknown directive name"),
        ErrorKind::InvalidTagEscape => scanner("did not find URI escaped octet"),
        ErrorKind::InvalidQuotedScalarHexEscape | ErrorKind::InvalidLowSurrogateHexEscape => {
            scanner("did not find expected hexdecimal number")
        }
        ErrorKind::InvalidLowSurrogate
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate => scanner("found invalid Unicode character escape code"),
        _ => {
            // The error of Go lacks the part before the comma.
            let why = error.info();
            let known = why
                .strip_prefix("while ")
                .and_then(|why| why.split_once(", "));
            scanner(known.map_or(&*why, |(_, why)| why))
        }
    };
    format!("yaml: {}{why}", place.shown())
}

/// Whether a value has to follow the text. Its last comment may stand behind a value.
fn wants_node(text: &str) -> bool {
    let is_comment = |line: &&str| line.trim_start().starts_with('#') || line.trim().is_empty();
    let last = text.lines().rev().find(|line| !is_comment(line));
    let last = last.unwrap_or_default();
    let last = last.split(" #").next().unwrap_or_default().trim_end();
    last.is_empty() || last.ends_with(['[', '{', ',', ':', '-', '?'])
}

/// The innermost flow collection that is open at the end of a text.
pub(super) fn innermost(text: &str) -> Option<Open> {
    let mut open = Vec::new();
    // The letter that ends the quoted text or the comment here.
    let mut end = None;
    let mut before = '\n';
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let begins = " \t\n[{,:".contains(before);
        match (end, letter) {
            (Some('"'), '\\') => {
                letters.next();
            }
            (Some('\''), '\'') if letters.peek() == Some(&'\'') => {
                letters.next();
            }
            (Some(mark), _) if letter == mark => end = None,
            (Some(_), _) => {}
            (None, '#') if " \t\n".contains(before) => end = Some('\n'),
            (None, '"' | '\'') if begins => end = Some(letter),
            (None, '[') if begins || !open.is_empty() => open.push(Open::FlowList),
            (None, '{') if begins || !open.is_empty() => open.push(Open::FlowMapping),
            (None, ']' | '}') => drop(open.pop()),
            _ => {}
        }
        before = letter;
    }
    open.pop()
}

/// The first line behind `line` that is so, or the end of the text.
fn next_line(text: &str, line: usize, is_so: impl Fn(&str) -> bool) -> usize {
    let mut lines = text.lines().enumerate().skip(line + 1);
    let found = lines.find(|(_, line)| is_so(line));
    found.map_or(text.lines().count(), |(at, _)| at)
}

fn starts_with_tab(line: &str) -> bool {
    line.trim_start_matches(' ').starts_with('\t')
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::{Open, innermost};

    #[test]
    fn brackets_of_comments_and_texts_open_no_collection() {
        for text in [
            "# [\na:\n",
            "a: b # [\n",
            "a: 'C:\\'\n",
            "a: \"C:\\\\\"\n",
            "a: \"\\\" [\"\n",
            "a: 'it''s [' \n",
            "a: x[1\n",
            "a: [b]\n",
        ] {
            assert_eq!(innermost(text), None, "{text}");
        }
        for (text, open) in [
            ("a: [1, {\n", Open::FlowMapping),
            ("a: [1, # ]\n", Open::FlowList),
            ("a: ['C:\\', {b: 1}\n", Open::FlowList),
            ("{a: ''", Open::FlowMapping),
        ] {
            assert_eq!(innermost(text), Some(open), "{text}");
        }
    }

    /// Each answer is that of kube-apiserver 1.36.2 to an apply.
    #[test]
    fn mistakes_have_the_words_of_go() {
        let cases = [
            (
                "a:\n\tb: 1\n",
                "yaml: line 2: found character that cannot start any token",
            ),
            (
                "a:\n  b: 1\n\tc: 2\n",
                "yaml: line 3: found a tab character that violates indentation",
            ),
            (
                "a: |\n\tx\n",
                "yaml: line 2: found a tab character where an indentation space is expected",
            ),
            (
                "a:\n  b: 1\n c: 2\n",
                "yaml: line 2: did not find expected key",
            ),
            (
                "a: 1\n  b: 2\n",
                "yaml: line 2: mapping values are not allowed in this context",
            ),
            (
                "- a\nb: c\n",
                "yaml: line 1: did not find expected '-' indicator",
            ),
            ("a: b\n- c\n", "yaml: line 1: did not find expected key"),
            ("a: 1\nb\n", "yaml: line 3: could not find expected ':'"),
            (
                "a: 1\nb\n\n# c\nc: 2\n",
                "yaml: line 4: could not find expected ':'",
            ),
            ("a: |2\n x\n", "yaml: line 1: did not find expected key"),
            (
                "a: |1x\n y\n",
                "yaml: did not find expected comment or line break",
            ),
            ("a: \"b\n", "yaml: line 2: found unexpected end of stream"),
            (
                "a: 'b\nc: d\ne: 'f'\n",
                "yaml: line 2: did not find expected key",
            ),
            ("a: \"b\" c\n", "yaml: did not find expected key"),
            ("{\"a\" 1}", "yaml: did not find expected ',' or '}'"),
            ("[\"a\" 1]", "yaml: did not find expected ',' or ']'"),
            ("- \"a\" b\n", "yaml: did not find expected '-' indicator"),
            (
                "a: \"\\x\"\n",
                "yaml: did not find expected hexdecimal number",
            ),
            (
                "a:\n  \"\\q\"\n",
                "yaml: line 2: found unknown escape character",
            ),
            (
                "a: [b, c\n",
                "yaml: line 1: did not find expected ',' or ']'",
            ),
            (
                "a: [b, c\nd: e\n",
                "yaml: line 1: did not find expected ',' or ']'",
            ),
            ("a: [b}\n", "yaml: did not find expected ',' or ']'"),
            (
                "a: {b: c,\n  d]\n",
                "yaml: line 1: did not find expected ',' or '}'",
            ),
            ("a: ]\n", "yaml: did not find expected node content"),
            ("a: [b]]\n", "yaml: did not find expected key"),
            ("a: [b,,c]\n", "yaml: did not find expected node content"),
            ("{", "yaml: line 1: did not find expected node content"),
            (
                "{a: b,\n  c: d\n",
                "yaml: line 2: did not find expected ',' or '}'",
            ),
            (
                "a: [1, # one\n\n",
                "yaml: line 2: did not find expected node content",
            ),
            (
                "a: {b: \"c}\n",
                "yaml: line 2: found unexpected end of stream",
            ),
            ("a: [- b]\n", "yaml: did not find expected node content"),
            ("a: *b\n", "yaml: unknown anchor 'b' referenced"),
            (
                "a: & b\n",
                "yaml: did not find expected alphabetic or numeric character",
            ),
            ("a: !e!x b\n", "yaml: found undefined tag handle"),
            ("a: !%zz b\n", "yaml: did not find URI escaped octet"),
            (
                "%YAML 2.0\n---\na: b\n",
                "yaml: found incompatible YAML document",
            ),
            (
                "a: @b\n",
                "yaml: found character that cannot start any token",
            ),
            (
                "a: %b\n",
                "yaml: found character that cannot start any token",
            ),
            (
                "null: a\n",
                "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"a\"",
            ),
            (
                "a:\n  ? \n",
                "unsupported map key of type: %!s(<nil>), key: <nil>, value: <nil>",
            ),
            (
                "9223372036854775808: [a, 1]\n",
                "unsupported map key of type: uint64, key: 0x8000000000000000, value: []interface {}{\"a\", 1}",
            ),
            (
                "? [a]\n: b\n",
                "yaml: invalid map key: []interface {}{\"a\"}",
            ),
            (
                "a: {{ .Values.x }}\n",
                "yaml: invalid map key: map[interface {}]interface {}{\".Values.x\":interface {}(nil)}",
            ),
            ("a: \u{1b}\n", "yaml: control characters are not allowed"),
        ];
        for (text, why) in cases {
            assert_eq!(parse(text.as_bytes()), Err(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn tabs_may_begin_lines_of_flow_collections_and_quoted_scalars() {
        let expected = serde_json::json!({"a": [1, {"b": "c d"}]});
        for text in [
            "{\n\t\"a\": [\n\t\t1,\n\t\t{\"b\": \"c\n\t\td\"}\n\t]\n}\n",
            "a:\n  [1,\n\t\t{b: 'c\n \t d'}]\n",
        ] {
            assert_eq!(
                parse(text.as_bytes()),
                Ok((expected.clone(), None)),
                "{text}"
            );
        }
    }
}
