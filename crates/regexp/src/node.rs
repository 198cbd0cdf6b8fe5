//! Translated parts of a pattern, and the numbers that limit them.

use crate::error::Code;

/// Go's limit of instructions in a compiled pattern.
const MAX_SIZE: u64 = (128 << 20) / 40;
/// Go's limit of levels.
pub(crate) const MAX_HEIGHT: u32 = 1000;
/// Go's limit of a repetition, and of the product of nested ones.
pub(crate) const MAX_REPEAT: u64 = 1000;
/// The longest translation. Classes of Unicode have thousands of characters when written out.
const MAX_TEXT: usize = 8 << 20;

/// A translated part.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) text: String,
    /// Instructions of Go's program.
    size: u64,
    /// Levels of Go's tree.
    height: u32,
    /// The largest product of nested repetitions.
    pub(crate) product: u64,
}

/// The bounds of a repetition.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Repeat {
    /// `*`
    Star,
    /// `+`
    Plus,
    /// `?`
    Question,
    /// `{min,max}`
    Counted {
        /// The least number.
        min: u64,
        /// The largest number, if there is one.
        max: Option<u64>,
    },
}

impl Node {
    /// A part that consists of one instruction.
    pub(crate) fn atom(text: String) -> Self {
        Self {
            text,
            size: 1,
            height: 1,
            product: 1,
        }
    }

    /// Parts one after another.
    pub(crate) fn concat(items: Vec<Node>) -> Result<Self, Code> {
        Self::join(items, "", 0)
    }

    /// Parts of which one matches.
    pub(crate) fn alternate(items: Vec<Node>) -> Result<Self, Code> {
        Self::join(items, "|", 1)
    }

    fn join(items: Vec<Node>, between: &str, cost: u64) -> Result<Self, Code> {
        let mut items = items.into_iter();
        let Some(mut joined) = items.next() else {
            return Ok(Self::atom(String::new()));
        };
        let mut highest = joined.height;
        let mut is_single = true;
        for item in items {
            is_single = false;
            joined.text.push_str(between);
            joined.text.push_str(&item.text);
            joined.size += item.size + cost;
            joined.product = joined.product.max(item.product);
            highest = highest.max(item.height);
        }
        if !is_single {
            joined.height = highest + 1;
        }
        joined.within_limits()
    }

    /// The part as a group.
    pub(crate) fn grouped(mut self, captures: bool) -> Result<Self, Code> {
        self.text = format!("(?:{})", self.text);
        if captures {
            self.size += 2;
            self.height += 1;
        }
        self.within_limits()
    }

    /// The part, repeated.
    pub(crate) fn repeated(self, repeat: Repeat, lazy: bool) -> Result<Self, Code> {
        let (operator, size, times) = match repeat {
            Repeat::Star => ("*".to_owned(), self.size + 2, 1),
            Repeat::Plus => ("+".to_owned(), self.size + 1, 1),
            Repeat::Question => ("?".to_owned(), self.size + 1, 1),
            Repeat::Counted { min, max: None } => {
                let size = if min == 0 {
                    self.size + 2
                } else {
                    1 + min * self.size
                };
                (format!("{{{min},}}"), size, min.max(1))
            }
            Repeat::Counted {
                min,
                max: Some(max),
            } => {
                let size = max * self.size + (max - min);
                (format!("{{{min},{max}}}"), size, max)
            }
        };
        let lazy = if lazy { "?" } else { "" };
        let repeated = Self {
            text: format!("(?:{}){operator}{lazy}", self.text),
            size: size.max(1),
            height: self.height + 1,
            // Nothing below a repetition of zero counts.
            product: self.product.saturating_mul(times).max(1),
        };
        repeated.within_limits()
    }

    fn within_limits(self) -> Result<Self, Code> {
        if self.size > MAX_SIZE || self.text.len() > MAX_TEXT {
            return Err(Code::Large);
        }
        if self.height > MAX_HEIGHT {
            return Err(Code::NestingDepth);
        }
        Ok(self)
    }
}
