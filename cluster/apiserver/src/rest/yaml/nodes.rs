//! The nodes of a YAML document, from the events of `granit-parser`.
//!
//! That parser follows YAML 1.2 where Go's is a port of libyaml. This file removes the two differences
//! that manifests meet: continuation lines of quoted scalars, and a block at the end of the text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StrInput, options};

/// How far each try moves a continuation line to the right.
const DEEPER: &str = "                                                                ";

/// One node, with the line of its first character.
pub(super) struct Node {
    pub(super) line: usize,
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

pub(super) struct Pair {
    pub(super) key: Rc<Node>,
    pub(super) value: Rc<Node>,
}

/// The first document of `text`. Go reads no further.
pub(super) fn read(text: &str) -> Result<Option<Rc<Node>>, String> {
    let mut text = Cow::Borrowed(text);
    loop {
        let line = match Reader::new(&text).document() {
            Err(Problem::Shallow(line)) => line,
            Err(Problem::Other(why)) => return Err(why),
            Ok(document) => return Ok(document),
        };
        text = Cow::Owned(deepened(&text, line));
    }
}

/// `text` with deeper continuation lines of a quoted scalar, from the line with this number on.
///
/// libyaml allows any indentation there. It is no part of the value, so more of it changes nothing.
fn deepened(text: &str, first: usize) -> String {
    let mut lines: Vec<Cow<'_, str>> = text.split('\n').map(Cow::Borrowed).collect();
    for line in lines.iter_mut().skip(first - 1) {
        *line = Cow::Owned(format!("{DEEPER}{line}"));
        // The scalar goes on until a quotation mark at least.
        if line.contains(['\'', '"']) {
            break;
        }
    }
    lines.join("\n")
}

enum Problem {
    /// The line continues a quoted scalar with less indentation than YAML 1.2 wants.
    Shallow(usize),
    Other(String),
}

impl From<ScanError> for Problem {
    fn from(error: ScanError) -> Self {
        let line = error.marker().line();
        if matches!(error.kind(), ErrorKind::InvalidQuotedScalarIndent) {
            return Self::Shallow(line);
        }
        // Go leaves out what the parser was at, and the first line. It counts from zero for its parser,
        // and from one for its scanner.
        let why = error.info();
        let of_parser = why
            .strip_prefix("while parsing ")
            .and_then(|why| why.split_once(", "));
        let (why, shown) = match of_parser {
            Some((_, why)) => (why, line - 1),
            None => (why.as_str(), line),
        };
        Self::Other(match line {
            1 => format!("yaml: {why}"),
            _ => format!("yaml: line {shown}: {why}"),
        })
    }
}

struct Reader<'t> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Rc<Node>>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        let mut options = options! { emit_unresolved_aliases: true };
        options.set_emit_comments(false);
        Self {
            text,
            events: Parser::new_from_str_with_options(text, options),
            anchors: HashMap::new(),
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
        Ok(event?)
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
            Event::SequenceStart(_, anchor, _) => (Content::List(self.items()?), anchor),
            Event::MappingStart(_, anchor, _) => (Content::Mapping(self.pairs()?), anchor),
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
        let line = span.start.line();
        let node = Rc::new(Node { line, content });
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        Ok(node)
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
        let last_line = self.text.rsplit('\n').next().unwrap_or_default();
        let has_content = last_line.chars().count() > span.indent.unwrap_or(usize::MAX - 1);
        match value.strip_suffix('\n') {
            Some(shorter) if is_block && at_end && has_content => Cow::Owned(shorter.to_owned()),
            _ => value,
        }
    }
}
