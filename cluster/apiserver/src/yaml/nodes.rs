//! The nodes of a YAML document, from the events of `granit-parser`.
//!
//! That parser follows YAML 1.2 where Go's is a port of libyaml. This file removes the two differences
//! that manifests meet: continuation lines of quoted scalars, and a block at the end of the text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StrInput, options};

use super::words::{self, Open};
use crate::depth::MAX_LEVELS;

/// How far each try moves a continuation line to the right.
const DEEPER: &str = "                                                                ";

/// Most bytes that all passes over one text read together. Each quoted text with such lines
/// costs a pass, and one more for each further width of [`DEEPER`].
const MAX_READ: usize = 256 << 20;

/// One node, with the line of its first character.
pub(super) struct Node {
    pub(super) line: usize,
    /// The levels of lists and mappings in its value, those of aliases included.
    height: usize,
    pub(super) content: Content,
}

pub(super) enum Content {
    Scalar {
        text: String,
        tag: Option<String>,
        is_plain: bool,
    },
    List(Vec<Rc<Node>>),
    Mapping(Vec<Pair>),
    Alias(Rc<Node>),
}

impl Content {
    fn height(&self) -> usize {
        match self {
            Self::Scalar { .. } => 0,
            Self::Alias(node) => node.height,
            Self::List(items) => 1 + highest(items.iter()),
            Self::Mapping(pairs) => {
                1 + highest(pairs.iter().flat_map(|pair| [&pair.key, &pair.value]))
            }
        }
    }
}

fn highest<'n>(nodes: impl Iterator<Item = &'n Rc<Node>>) -> usize {
    nodes.map(|node| node.height).max().unwrap_or_default()
}

pub(super) struct Pair {
    pub(super) key: Rc<Node>,
    pub(super) value: Rc<Node>,
}

/// The first document of `text`. Go reads no further.
pub(super) fn read(text: &str) -> Result<Option<Rc<Node>>, String> {
    read_at_most(MAX_READ, text)
}

fn read_at_most(mut bytes: usize, text: &str) -> Result<Option<Rc<Node>>, String> {
    let mut text = Cow::Borrowed(text);
    loop {
        bytes = bytes.checked_sub(text.len()).ok_or(TOO_SHALLOW)?;
        let line = match Reader::new(&text).document() {
            Err(Problem::Shallow(line)) => line,
            Err(Problem::Tab(line)) => {
                text = Cow::Owned(untabbed(&text, line));
                continue;
            }
            Err(Problem::Indicator(start)) => return Err(indicator(&text, start)),
            Err(Problem::Other(why)) => return Err(why),
            Ok(document) => return Ok(document),
        };
        let deeper = deepened(&text, line).ok_or_else(|| indicator(&text, line - 1))?;
        text = Cow::Owned(deeper);
    }
}

const TOO_SHALLOW: &str = "yaml: invalid indentation in multiline quoted scalar";

/// The error about the first document indicator behind this line.
fn indicator(text: &str, line: usize) -> String {
    let lines = text
        .lines()
        .skip(line)
        .take_while(|line| !is_indicator(line));
    let found = line + lines.count() + 1;
    let is_end = found > text.lines().count();
    let why = if is_end {
        "found unexpected end of stream"
    } else {
        "found unexpected document indicator"
    };
    format!("yaml: line {found}: {why}")
}

/// Whether a document starts or ends with the line. No quoted scalar holds such a line.
fn is_indicator(line: &str) -> bool {
    let rest = line
        .strip_prefix("---")
        .or_else(|| line.strip_prefix("..."));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n']))
}

/// `text` with deeper continuation lines of a quoted scalar, from the line with this number on.
///
/// libyaml allows any indentation there. It is no part of the value, so more of it changes nothing.
/// `None` for a document indicator, which is one in its first column alone.
fn deepened(text: &str, first: usize) -> Option<String> {
    let before = text.split_inclusive('\n').take(first - 1);
    let (before, mut rest) = text.split_at(before.map(str::len).sum());
    let mut deeper = before.to_owned();
    while let Some(line) = rest.split_inclusive('\n').next()
        && !is_indicator(line)
    {
        deeper += DEEPER;
        deeper += line;
        rest = &rest[line.len()..];
        // The scalar goes on until a quotation mark at least.
        if line.contains(['\'', '"']) {
            break;
        }
    }
    let is_moved = deeper.len() > before.len();
    deeper += rest;
    is_moved.then_some(deeper)
}

/// `text` with spaces in place of the tabs that begin the line with this number and lines behind it. Go allows them inside
/// of quoted scalars and flow collections, and they are no part of the value.
fn untabbed(text: &str, first: usize) -> String {
    let mut lines = text.split_inclusive('\n');
    let mut untabbed: String = lines.by_ref().take(first - 1).collect();
    let mut is_block = true;
    for line in lines {
        let rest = line.trim_start_matches([' ', '\t']);
        let begin = &line[..line.len() - rest.len()];
        is_block &= begin.contains('\t');
        if is_block {
            untabbed += &begin.replace('\t', " ");
            untabbed += rest;
        } else {
            untabbed += line;
        }
    }
    untabbed
}

enum Problem {
    /// The line begins with a tab, inside of a quoted scalar or a flow collection.
    Tab(usize),
    /// A document indicator is in the quoted scalar that starts in this line.
    Indicator(usize),
    /// The line continues a quoted scalar with less indentation than YAML 1.2 wants.
    Shallow(usize),
    Other(String),
}

impl Problem {
    fn of(error: &ScanError, text: &str, open: Option<Open>) -> Self {
        let line = error.marker().line();
        if matches!(error.kind(), ErrorKind::InvalidQuotedScalarIndent) {
            return Self::Shallow(line);
        }
        if matches!(error.kind(), ErrorKind::DocumentIndicatorInQuotedScalar) {
            return Self::Indicator(line);
        }
        let before = error.marker().byte_offset();
        let before = before.and_then(|end| text.get(..end)).unwrap_or_default();
        let is_in_flow = || words::innermost(before).is_some();
        if matches!(error.kind(), ErrorKind::TabInIndentation)
            || matches!(error.kind(), ErrorKind::TabInBlockIndentation) && is_in_flow()
        {
            return Self::Tab(line);
        }
        if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
            return Self::too_deep();
        }
        Self::Other(words::of(error, text, open))
    }
}

impl Problem {
    fn too_deep() -> Self {
        Self::Other(format!("yaml: exceeded max depth of {MAX_LEVELS}"))
    }
}

struct Reader<'t> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Rc<Node>>,
    /// The lists and mappings that are open.
    open: Vec<Open>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        let mut options = options! { emit_unresolved_aliases: true };
        options.set_emit_comments(false);
        Self {
            text,
            events: Parser::new_from_str_with_options(text, options),
            anchors: HashMap::new(),
            open: Vec::new(),
        }
    }

    fn document(mut self) -> Result<Option<Rc<Node>>, Problem> {
        loop {
            match self.next()? {
                (Event::StreamStart, _) => {}
                (Event::DocumentStart(..), _) => break,
                _ => return Ok(None),
            }
        }
        let first = self.next()?;
        let node = self.node(first)?;
        // What follows the node has to be the end of the document.
        self.next()?;
        Ok(Some(node))
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Problem> {
        let event = self.events.next().unwrap_or_else(|| {
            let start = granit_parser::Marker::new(0, 1, 0);
            Ok((Event::StreamEnd, Span::new(start, start)))
        });
        let open = self.open.last().copied();
        event.map_err(|error| Problem::of(&error, self.text, open))
    }

    fn node(&mut self, (event, span): (Event<'t>, Span)) -> Result<Rc<Node>, Problem> {
        let (content, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let content = Content::Scalar {
                    text: self.ended(text, style, &span).into_owned(),
                    is_plain: style == ScalarStyle::Plain,
                    tag: tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix())),
                };
                (content, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let open = Open::starting(self.rest(&span), true);
                (Content::List(self.below(open, Self::items)?), anchor)
            }
            Event::MappingStart(_, anchor, _) => {
                let open = Open::starting(self.rest(&span), false);
                (Content::Mapping(self.below(open, Self::pairs)?), anchor)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).ok_or_else(|| {
                    let name = span.slice(self.text).unwrap_or_default();
                    let name = name.trim_start_matches('*');
                    Problem::Other(format!("yaml: anchor '{name}' value contains itself"))
                })?;
                (Content::Alias(Rc::clone(node)), 0)
            }
            Event::UnresolvedAlias(name) => {
                let why = format!("yaml: unknown anchor '{name}' referenced");
                return Err(Problem::Other(why));
            }
            event => {
                let why = format!("yaml: did not find expected node content: {event:?}");
                return Err(Problem::Other(why));
            }
        };
        let height = content.height();
        if height > MAX_LEVELS {
            return Err(Problem::too_deep());
        }
        let line = span.start.line();
        let node = Rc::new(Node {
            line,
            height,
            content,
        });
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        Ok(node)
    }

    /// The parts of a list or of a mapping. The bound comes before the parts are read, since each level takes stack.
    fn below<T>(
        &mut self,
        open: Open,
        read: fn(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.open.push(open);
        if self.open.len() > MAX_LEVELS {
            return Err(Problem::too_deep());
        }
        let parts = read(self)?;
        self.open.pop();
        Ok(parts)
    }

    /// The text from the start of a part.
    fn rest(&self, span: &Span) -> &'t str {
        let start = span.start.byte_offset();
        start
            .and_then(|start| self.text.get(start..))
            .unwrap_or_default()
    }

    fn items(&mut self) -> Result<Vec<Rc<Node>>, Problem> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                event => items.push(self.node(event)?),
            }
        }
    }

    fn pairs(&mut self) -> Result<Vec<Pair>, Problem> {
        let mut pairs = Vec::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => return Ok(pairs),
                event => self.node(event)?,
            };
            let value = self.next()?;
            let value = self.node(value)?;
            pairs.push(Pair { key, value });
        }
    }

    /// The text of a scalar as libyaml has it: a block ends without a newline if the text of the
    /// document ends so within it.
    fn ended(&self, value: Cow<'t, str>, style: ScalarStyle, span: &Span) -> Cow<'t, str> {
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let at_end = span.end.byte_offset() == Some(self.text.len());
        // Most scalars end here. A search for the last line would cost the length of that line.
        if !is_block || !at_end {
            return value;
        }
        let last_line = self.text.rsplit('\n').next().unwrap_or_default();
        let has_content = span
            .indent
            .is_some_and(|indent| last_line.chars().count() > indent);
        match value.strip_suffix('\n') {
            Some(shorter) if has_content => Cow::Owned(shorter.to_owned()),
            _ => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(bytes: usize, text: &str) -> Option<String> {
        read_at_most(bytes, text).err()
    }

    #[test]
    fn all_passes_over_a_text_are_bounded_together() {
        let text = "- 'a\nb'\n".repeat(20);
        assert_eq!(error(MAX_READ, &text), None);
        assert_eq!(error(text.len() * 20, &text).as_deref(), Some(TOO_SHALLOW));
        let hostile = "- 'a\nb'\n".repeat((3 << 20) / 8);
        assert_eq!(error(MAX_READ, &hostile).as_deref(), Some(TOO_SHALLOW));
    }

    /// The work on a scalar is independent of the length of its line: the square of this text takes hours.
    #[test]
    fn a_long_line_costs_as_much_as_short_ones() {
        let text = format!("[{}1]", "1,".repeat(300_000));
        assert_eq!(error(MAX_READ, &text), None);
    }

    #[test]
    fn values_have_no_more_levels_than_json() {
        let lists = |levels: usize, inner: &str| {
            format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels))
        };
        let too_deep = Some("yaml: exceeded max depth of 127".to_owned());
        assert_eq!(error(MAX_READ, &lists(127, "1")), None);
        for levels in [128, 255, 400] {
            assert_eq!(error(MAX_READ, &lists(levels, "1")), too_deep, "{levels}");
        }
        // Lists below each other, and mappings of one pair in lists of one line.
        let open = format!("{}{}", "- ".repeat(250), "[a: ".repeat(250));
        assert_eq!(error(MAX_READ, &open), too_deep);
        let below = |levels| format!("a: &a {}\nb: {}\n", lists(60, ""), lists(levels, "*a"));
        assert_eq!(error(MAX_READ, &below(66)), None);
        assert_eq!(error(MAX_READ, &below(67)), too_deep);
        let chain = (1..3000).map(|link| {
            format!(
                "a{link}: &a{link} {}\n",
                lists(1, &format!("*a{}", link - 1))
            )
        });
        let chain = format!("a0: &a0 []\n{}", chain.collect::<String>());
        assert_eq!(error(MAX_READ, &chain), too_deep);
    }

    #[test]
    fn no_quoted_scalar_holds_a_document_indicator() {
        let why = |line| {
            Some(format!(
                "yaml: line {line}: found unexpected document indicator"
            ))
        };
        for (text, line) in [
            ("a:\n  b: 'x\n---\n  y'\n", 3),
            ("a:\n  b: 'x\ny\n... z'\n", 4),
            ("a: [\"b\n\n---\tc\"]\n", 3),
            ("'b\n---", 2),
        ] {
            assert_eq!(error(MAX_READ, text), why(line), "{text}");
        }
        assert_eq!(error(MAX_READ, "a:\n  b: 'x\n---y'\n"), None);
    }
}
