//! The report of a large cluster: a table, a plot, and JSON.

use serde::Serialize;

use crate::report::{number, table};
use crate::run::Sample;
use crate::svg::{line, marker, text};

/// All results.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    api_server: &'static str,
    cpus: usize,
    /// Number of nodes.
    pub(super) nodes: usize,
    pub(super) lines: Vec<Line>,
    /// Sentences about single phases.
    pub(super) facts: Vec<String>,
}

/// A phase at a number of pods.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) pods: usize,
    pub(super) phase: &'static str,
    pub(super) watch_events: u64,
    pub(super) sample: Sample,
}

/// Width of the plot, and of each of its two halves.
const WIDTH: f64 = 860.0;
const HALF: f64 = WIDTH / 2.0;
/// Margins within a half, and the bottom of both.
const LEFT: f64 = 50.0;
const RIGHT: f64 = HALF - 20.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 280.0;
const HEIGHT: f64 = BOTTOM + 40.0;
/// Lines across each half.
const GRID: usize = 5;
const COLOURS: [&str; 3] = ["#1f77b4", "#d62728", "#7f7f7f"];

/// A curve over the number of pods.
struct Curve {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

impl Line {
    /// CPU time of the manager for one watch event, in microseconds; `None` without events.
    fn per_event(&self) -> Option<f64> {
        let events = self.watch_events as f64;
        (events > 0.0).then(|| self.sample.cpu_seconds * 1e6 / events)
    }
}

impl Report {
    pub(super) fn new(api_server: &'static str) -> Self {
        Self {
            api_server,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            nodes: 0,
            lines: Vec::new(),
            facts: Vec::new(),
        }
    }

    pub(super) fn markdown(&self) -> String {
        let header = [
            "pods",
            "phase",
            "wall s",
            "CPU s",
            "watch events",
            "µs of CPU per event",
            "resident MiB",
            "peak MiB",
        ];
        let rows = self.lines.iter().map(|line| {
            let Sample {
                wall_seconds,
                cpu_seconds,
                resident_mib,
                peak_mib,
                ..
            } = line.sample;
            vec![
                number(line.pods as f64),
                line.phase.to_owned(),
                number(wall_seconds),
                number(cpu_seconds),
                number(line.watch_events as f64),
                line.per_event().map(number).unwrap_or_default(),
                number(resident_mib),
                number(peak_mib),
            ]
        });
        let mut text = format!(
            "{} CPUs; {} nodes; {}.\n\n",
            self.cpus,
            number(self.nodes as f64),
            self.api_server
        );
        text += &table(&header, rows);
        for fact in &self.facts {
            text += &format!("\n{fact}\n");
        }
        text
    }

    /// Memory on the left, CPU time of a watch event on the right.
    pub(super) fn svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>A manager with {} nodes, over the number of pods</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            number(self.nodes as f64)
        );
        let memory = [
            self.curve("rest", "resident MiB", |line| {
                Some(line.sample.resident_mib)
            }),
            self.curve("create", "peak MiB during creation", |line| {
                Some(line.sample.peak_mib)
            }),
        ];
        let cost = [
            self.curve("create", "creation", Line::per_event),
            self.curve("change 5,000 pods", "changes of pods", Line::per_event),
            self.curve("rest", "heartbeats of nodes", Line::per_event),
        ];
        half(&mut svg, 0.0, "memory in MiB", &memory);
        half(&mut svg, HALF, "CPU time of a watch event in µs", &cost);
        svg.push_str("</svg>\n");
        svg
    }

    fn curve(&self, phase: &str, name: &'static str, value: fn(&Line) -> Option<f64>) -> Curve {
        let lines = self.lines.iter().filter(|line| line.phase == phase);
        let points = lines.filter_map(|line| Some((line.pods as f64, value(line)?)));
        Curve {
            name,
            points: points.collect(),
        }
    }
}

/// Draws curves with a common axis, which begins at 0.
fn half(svg: &mut String, left: f64, title: &str, curves: &[Curve]) {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let largest = |value: fn(&(f64, f64)) -> f64| ceiling(points().map(value).fold(0.0, f64::max));
    let most_pods = largest(|point| point.0);
    let most = largest(|point| point.1);
    let x = |pods: f64| left + LEFT + (RIGHT - LEFT) * pods / most_pods;
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * value / most;
    text(svg, left + LEFT, 20.0, title);
    for step in 0..=GRID {
        let part = step as f64 / GRID as f64;
        let place = y(most * part);
        let value = most * part;
        line(svg, [x(0.0), place, x(most_pods), place], "#dddddd", 1.0);
        text(svg, left + 8.0, place + 4.0, &number(value));
        text(
            svg,
            x(most_pods * part) - 14.0,
            BOTTOM + 18.0,
            &number(most_pods * part),
        );
    }
    text(svg, left + HALF / 2.0, HEIGHT - 6.0, "pods");
    for (index, (curve, colour)) in curves.iter().zip(COLOURS).enumerate() {
        let from = left + LEFT + 125.0 * index as f64;
        marker(svg, from, 38.0, colour);
        text(svg, from + 8.0, 42.0, curve.name);
        for pair in curve.points.windows(2) {
            let [(pods, value), (more, next)] = [pair[0], pair[1]];
            line(svg, [x(pods), y(value), x(more), y(next)], colour, 2.0);
        }
        for (pods, value) in &curve.points {
            marker(svg, x(*pods), y(*value), colour);
        }
    }
}

/// The end of an axis: the smallest of 1, 1.5, 2, 3, 5 and 10 times a power of ten that `value` does not
/// exceed.
fn ceiling(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|end| value <= *end).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("a server");
        for (pods, phase, watch_events) in [
            (1_000, "create", 4_000),
            (1_000, "rest", 0),
            (2_000, "create", 8_000),
        ] {
            let sample = Sample {
                cpu_seconds: 0.5,
                resident_mib: 30.0,
                peak_mib: 40.0,
                ..Sample::default()
            };
            report.lines.push(Line {
                pods,
                phase,
                watch_events,
                sample,
            });
        }
        report.facts.push("A fact.".to_owned());
        report
    }

    #[test]
    fn the_table_has_the_cost_of_an_event() {
        let text = report().markdown();
        let row = "| 1,000 | create | 0 | 0.50 | 4,000 | 125 | 30 | 40 |";
        assert!(text.contains(row), "{text}");
        let without_events = "| 1,000 | rest | 0 | 0.50 | 0 |  | 30 | 40 |";
        assert!(text.contains(without_events), "{text}");
        assert!(text.ends_with("\nA fact.\n"), "{text}");
    }

    #[test]
    fn the_plot_has_a_marker_for_each_value() {
        let svg = report().svg();
        // Five names of curves; memory has 1 + 2 values, the cost of events 2.
        assert_eq!(svg.matches("<circle").count(), 5 + 3 + 2);
        assert!(
            svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
            "{svg}"
        );
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, expected) in [
            (0.0, 1.0),
            (7.0, 10.0),
            (12.0, 15.0),
            (150_000.0, 150_000.0),
        ] {
            assert_eq!(ceiling(value), expected, "{value}");
        }
    }
}
