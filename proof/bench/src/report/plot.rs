//! The ratios of the report as an SVG: for each phase, the median and the range of each measure.

use super::{Line, MEASURES, Measure, Report};
use crate::svg::{escape, line, marker, text};

const WIDTH: f64 = 860.0;
/// Left end of the axis; the names of the phases are left of it.
const LEFT: f64 = 290.0;
const RIGHT: f64 = WIDTH - 20.0;
/// Height above the first phase, for the legend and the numbers of the axis.
const TOP: f64 = 64.0;
/// Width of an entry of the legend.
const ENTRY: f64 = 112.0;
/// Height of a measure of a phase.
const STEP: f64 = 9.0;
/// Space between phases.
const GAP: f64 = 8.0;
/// Ratios from here on are drawn at the right end of the axis.
const LARGEST: f64 = 1.6;
/// Ratios with a line: the goal for CPU time, and equality.
const BOLD: [usize; 2] = [2, 10];

impl Report {
    /// The plot; `None` for a single manager.
    pub(crate) fn svg(&self) -> Option<String> {
        let [ours, theirs] = self.managers.as_slice() else {
            return None;
        };
        let drawn: Vec<&Measure> = MEASURES.iter().filter(|m| m.colour.is_some()).collect();
        let height_of_line = STEP * drawn.len() as f64 + GAP;
        let height = TOP + height_of_line * self.lines.len() as f64 + GAP;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>{} / {}: median and range of the ratios</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            escape(file_name(ours)),
            escape(file_name(theirs))
        );
        legend(&mut svg, &drawn);
        axis(&mut svg, height);
        for (index, line) in self.lines.iter().enumerate() {
            let top = TOP + height_of_line * index as f64;
            draw(&mut svg, line, &drawn, top);
        }
        svg.push_str("</svg>\n");
        Some(svg)
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The place of a ratio on the axis.
fn x(ratio: f64) -> f64 {
    LEFT + (RIGHT - LEFT) * ratio.clamp(0.0, LARGEST) / LARGEST
}

fn legend(svg: &mut String, drawn: &[&Measure]) {
    text(svg, 10.0, 20.0, "first manager / second manager");
    for (index, measure) in drawn.iter().enumerate() {
        let left = LEFT + ENTRY * index as f64;
        marker(svg, left, 16.0, measure.colour.unwrap_or_default());
        text(svg, left + 8.0, 20.0, measure.title);
    }
}

/// Vertical lines with their ratios, each tenth; those of even tenths have numbers.
fn axis(svg: &mut String, height: f64) {
    let tenths = (LARGEST * 10.0).round() as usize;
    for tenth in (0..=tenths).step_by(2) {
        let ratio = tenth as f64 / 10.0;
        let is_bold = BOLD.contains(&tenth);
        let colour = if is_bold { "#555555" } else { "#dddddd" };
        let place = x(ratio);
        let top = TOP - 12.0;
        let bottom = height - GAP;
        line(svg, [place, top, place, bottom], colour, 1.0);
        text(svg, place - 9.0, TOP - 16.0, &format!("{ratio:.1}"));
    }
}

fn draw(svg: &mut String, phase: &Line, drawn: &[&Measure], top: f64) {
    let middle = top + STEP * drawn.len() as f64 / 2.0;
    text(svg, 10.0, middle, &phase.title());
    for (index, measure) in drawn.iter().enumerate() {
        let Some(ratio) = phase.ratio(measure) else {
            continue;
        };
        let y = top + STEP * index as f64;
        let colour = measure.colour.unwrap_or_default();
        line(svg, [x(ratio.min), y, x(ratio.max), y], colour, 2.0);
        marker(svg, x(ratio.median), y, colour);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn the_plot_has_a_marker_for_each_ratio() {
        let requests: &[(&str, u64)] = &[("create pods", 5)];
        let run = [(1.0, requests), (2.0, requests)];
        let mut report = report(&[run, run]);
        report.managers[1] = "/folder/a<b>&c".to_owned();
        let svg = report.svg().expect("two managers");
        let count = |part: &str| svg.matches(part).count();
        // Ratios of both times, memory and requests; the API server has none. The legend has five.
        assert_eq!(count("<circle"), 4 + 5);
        assert_eq!(count("<line"), 4 + 9);
        assert!(svg.contains(" / a&lt;b&gt;&amp;c:"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        report.managers.pop();
        assert_eq!(report.svg(), None, "one manager has no ratios");
    }

    #[test]
    fn ratios_outside_the_axis_are_drawn_at_its_end() {
        for (ratio, expected) in [(0.0, LEFT), (-1.0, LEFT), (LARGEST, RIGHT), (9.0, RIGHT)] {
            assert_eq!(x(ratio), expected, "{ratio}");
        }
    }
}
