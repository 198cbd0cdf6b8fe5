//! The lines at the bottom of a terminal that are drawn again and again.

use console::measure_text_width;

/// Lines that were drawn last; the cursor is at the start of the line below them.
#[derive(Debug, Default)]
pub(super) struct Block {
    widths: Vec<usize>,
}

impl Block {
    /// What to write to put `rows` in the place of those drawn before, with `above` on top of them
    /// for good, on a terminal of `width` columns. A terminal that became narrower has wrapped the
    /// rows drawn before, so each may take several of its lines now.
    pub(super) fn redraw(&mut self, above: &[String], rows: &[String], width: usize) -> String {
        let lines: usize = self
            .widths
            .iter()
            .map(|row| row.div_ceil(width.max(1)).max(1))
            .sum();
        let mut output = "\r".to_owned();
        if lines > 0 {
            output.push_str(&format!("\x1b[{lines}A"));
        }
        output.push_str("\x1b[J");
        for line in above.iter().chain(rows) {
            output.push_str(line);
            output.push('\n');
        }
        self.widths = rows.iter().map(|row| measure_text_width(row)).collect();
        output
    }
}

/// As many of `rows`, the first of `all`, as fit a terminal of `height` lines, with a line that
/// counts the others.
pub(super) fn fitting(mut rows: Vec<String>, all: usize, height: usize) -> Vec<String> {
    // The cursor needs a line, too.
    let room = height.saturating_sub(1).max(1);
    if all > room {
        let hidden = all - (room - 1);
        rows.truncate(room - 1);
        rows.push(format!("… and {hidden} more"));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(widths: &[usize]) -> Vec<String> {
        widths.iter().map(|&width| "x".repeat(width)).collect()
    }

    #[test]
    fn rows_drawn_before_are_erased_as_the_terminal_shows_them_now() {
        // (widths of the rows, width of the terminal at the next draw, lines to go up)
        let cases: [(&[usize], usize, &str); 5] = [
            (&[], 80, "\r\x1b[J"),
            (&[10, 80], 80, "\r\x1b[2A\x1b[J"),
            (&[10, 80], 120, "\r\x1b[2A\x1b[J"),
            (&[10, 80], 40, "\r\x1b[3A\x1b[J"),
            (&[0, 81], 40, "\r\x1b[4A\x1b[J"),
        ];
        for (widths, width, expected) in cases {
            let mut block = Block::default();
            block.redraw(&[], &rows(widths), 130);
            assert_eq!(
                block.redraw(&[], &[], width),
                expected,
                "{widths:?} at {width}"
            );
            assert_eq!(
                block.redraw(&["said".to_owned()], &[], width),
                "\r\x1b[Jsaid\n",
                "nothing is left to erase"
            );
        }
    }

    #[test]
    fn rows_beyond_the_height_are_counted() {
        // (rows, height, lines)
        for (number, height, lines) in [
            (3, 24, 3),
            (23, 24, 23),
            (24, 24, 23),
            (45, 24, 23),
            (2, 1, 1),
        ] {
            let shown = fitting(rows(&vec![1; number]), number, height);
            assert_eq!(shown.len(), lines, "{number} at {height}");
        }
        assert_eq!(
            fitting(rows(&[1; 24]), 45, 24).last().unwrap(),
            "… and 23 more"
        );
    }
}
