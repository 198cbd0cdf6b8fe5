//! A block of lines at the bottom of a terminal that is redrawn in place.

use console::measure_text_width;

/// The lines that were drawn last; the cursor is at the start of the line below them.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// Width of each line, in columns.
    widths: Vec<usize>,
}

impl Block {
    /// The output that replaces the previous rows by `rows` on a terminal of `width` columns. The
    /// lines `above` go on top of the rows and stay. A terminal that has become narrower has
    /// wrapped the previous rows, so one row may now take several lines.
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

/// The first of `rows` that fit a terminal of `height` lines, followed by a line with the number of
/// the others. `all` is the number of all rows.
pub(super) fn fitting(mut rows: Vec<String>, all: usize, height: usize) -> Vec<String> {
    // The cursor needs a line as well.
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
    fn previous_rows_are_erased_at_their_current_wrapping() {
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
                "no row is left to erase"
            );
        }
    }

    #[test]
    fn rows_beyond_the_height_are_replaced_by_their_number() {
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
