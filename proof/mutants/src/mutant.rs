//! A mutant, and the text of a file with a switch for each of its mutants.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// One change of one place.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Mutant {
    /// The number by which a test process turns it on.
    pub(crate) id: u32,
    /// The file, relative to the folder of the controllers.
    pub(crate) file: String,
    /// The line of the place, from 1.
    pub(crate) line: usize,
    /// The function around the place.
    pub(crate) function: String,
    /// The text of the place.
    pub(crate) original: String,
    /// The text that takes its place.
    pub(crate) changed: String,
    /// The edits that put the switch into the text.
    #[serde(skip)]
    pub(crate) edits: Vec<Edit>,
}

impl Mutant {
    /// The folder of the controller.
    pub(crate) fn controller(&self) -> &str {
        self.file.split('/').next().unwrap_or_default()
    }

    /// The name of the mutant across builds, in which numbers and lines differ.
    pub(crate) fn key(&self) -> [&str; 4] {
        [&self.file, &self.function, &self.original, &self.changed]
    }
}

/// A part of the switch of one mutant.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    /// Text before and after a range.
    Wrap(Range<usize>, String, String),
    /// Text in place of a range.
    Replace(Range<usize>, String),
}

/// A text with switches.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// The range of each mutant in the new text, for errors of the compiler.
    pub(crate) ranges: Vec<(u32, Range<usize>)>,
}

/// A piece of text for one position of the original.
struct Piece<'a> {
    position: usize,
    /// Pieces at one position: ends of inner ranges, of outer ones, beginnings of outer ranges, of inner ones, replaced text.
    order: (bool, isize, isize),
    skipped: usize,
    text: &'a str,
    id: u32,
}

/// Puts the switches of `mutants` into `text`. Line numbers stay.
pub(crate) fn render<'a>(text: &str, mutants: impl Iterator<Item = &'a Mutant>) -> Rendered {
    let mut pieces = Vec::new();
    // Of two edits with one range, the first is the outer one.
    let edits = mutants.flat_map(|mutant| mutant.edits.iter().map(|edit| (mutant.id, edit)));
    for (number, (id, edit)) in (0_isize..).zip(edits) {
        match edit {
            Edit::Wrap(range, open, close) => {
                pieces.push(Piece {
                    position: range.start,
                    order: (true, -(range.end as isize), number),
                    skipped: 0,
                    text: open,
                    id,
                });
                pieces.push(Piece {
                    position: range.end,
                    order: (false, -(range.start as isize), -number),
                    skipped: 0,
                    text: close,
                    id,
                });
            }
            Edit::Replace(range, text) => pieces.push(Piece {
                position: range.start,
                order: (true, isize::MAX, number),
                skipped: range.len(),
                text,
                id,
            }),
        }
    }
    pieces.sort_by_key(|piece| (piece.position, piece.order));
    let mut rendered = Rendered::default();
    let mut copied = 0;
    for piece in pieces {
        rendered.text += &text[copied..piece.position];
        let start = rendered.text.len();
        rendered.text += piece.text;
        let end = rendered.text.len();
        match rendered.ranges.iter_mut().find(|(id, _)| *id == piece.id) {
            Some((_, range)) => range.end = end,
            None => rendered.ranges.push((piece.id, start..end)),
        }
        copied = piece.position + piece.skipped;
        let skipped = &text[piece.position..copied];
        rendered.text += &"\n".repeat(skipped.matches('\n').count());
    }
    rendered.text += &text[copied..];
    rendered
}
