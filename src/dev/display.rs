//! Shows rollouts: one row per workload on a terminal, one line per change elsewhere.
//!
//! changes of workloads -> state -> rows, ten times a second -> terminal
//!
//! Each draw uses the current size of the terminal. Escape codes are only written to a terminal,
//! and colours only if `NO_COLOR` is unset.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use console::{Term, truncate_str};
use parking_lot::{Mutex, MutexGuard};
use steersman_objects::{Object, ObjectKey};
use steersman_runtime::informer::Change;
use steersman_runtime::tasks::CancellationToken;
use tokio::time::Instant;

use super::block::{Block, fitting};
use super::progress::{Images, Progress, State};
use super::repeats::Repeats;
use super::row::{Colour, Columns, cut, facts, image_changes, painted, printable, row};

/// Interval between two draws. A resized terminal looks wrong for at most this time.
const FRAME: Duration = Duration::from_millis(100);

/// Time without progress after which a row shows its cause.
const STILL: Duration = Duration::from_secs(5);

/// Height and width if the terminal does not report its size.
const USUAL_SIZE: (u16, u16) = (24, 80);

/// The display of rollouts on standard error.
pub(super) struct Display {
    /// Standard error, if it is a terminal that can move its cursor.
    terminal: Option<Term>,
    /// Whether to use colours.
    colours: bool,
    shown: Mutex<Shown>,
}

/// The content of the display.
#[derive(Default)]
struct Shown {
    workloads: BTreeMap<Workload, Entry>,
    /// Lines to print at the next draw.
    said: Vec<String>,
    /// Warnings and errors of the log so far.
    repeats: Repeats,
    block: Block,
    /// Rows and terminal size of the last draw.
    last: (Vec<String>, (u16, u16)),
    /// Whether drawing has ended.
    is_closed: bool,
}

/// Kind and key of a workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Workload {
    /// The kind in lower case.
    kind: String,
    key: ObjectKey,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

/// The state of one workload.
struct Entry {
    progress: Progress,
    /// Start of the current rollout; `None` when the workload is complete.
    began: Option<Instant>,
    /// The time of the last progress.
    changed: Instant,
    /// The cause, if it stands still.
    why: Option<String>,
    /// Images at the last time when it was complete.
    settled: Images,
}

impl Display {
    /// An empty display on standard error.
    pub(super) fn new() -> Arc<Self> {
        let terminal = Some(Term::stderr()).filter(|terminal| terminal.is_term());
        let terminal =
            terminal.filter(|_| std::env::var_os("TERM").is_none_or(|term| term != "dumb"));
        let colours =
            terminal.is_some() && std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty());
        Arc::new(Self {
            terminal,
            colours,
            shown: Mutex::default(),
        })
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock()
    }

    /// Kind and key of the rows that stand still. None without a terminal, which has no rows.
    pub(super) fn standing_still(&self) -> Vec<(String, ObjectKey)> {
        let shown = self.shown();
        let is_still = |entry: &Entry| {
            matches!(entry.progress.state, State::Rolling(_)) && entry.changed.elapsed() >= STILL
        };
        let still = shown.workloads.iter().filter(|(_, entry)| is_still(entry));
        let still = still.filter(|_| self.terminal.is_some());
        still
            .map(|(workload, _)| (workload.kind.clone(), workload.key.clone()))
            .collect()
    }

    /// Shows `why` below the row of a workload that stands still.
    pub(super) fn explain(&self, kind: String, key: ObjectKey, why: Option<String>) {
        let mut shown = self.shown();
        if let Some(entry) = shown.workloads.get_mut(&Workload { kind, key }) {
            entry.why = why.map(|why| printable(&why));
        }
    }

    /// Prints a line above the rows.
    pub(super) fn say(&self, line: &str) {
        self.say_in(&mut self.shown(), line.to_owned());
    }

    /// Prints a line of the log above the rows. Equal errors are counted.
    fn log(&self, line: &str) {
        let mut shown = self.shown();
        if let Some(line) = shown.repeats.shown(line) {
            self.say_in(&mut shown, line);
        }
    }

    /// Queues a line for the next draw, or prints it at once if nothing is drawn.
    fn say_in(&self, shown: &mut Shown, line: String) {
        if self.terminal.is_some() && !shown.is_closed {
            shown.said.push(line);
        } else {
            complain!("{line}");
        }
    }

    /// Redraws the rows until `stop`.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let Some(terminal) = &self.terminal else {
            return;
        };
        while !stop.is_cancelled() {
            self.draw(terminal);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(FRAME) => {}
            }
        }
    }

    /// Redraws the rows if they, the size of the terminal, or the queued lines have changed.
    fn draw(&self, terminal: &Term) {
        let size = terminal.size_checked().unwrap_or(USUAL_SIZE);
        let mut shown = self.shown();
        let rows = shown.rows(size, self.colours);
        let is_empty = rows.is_empty() && shown.last.0.is_empty();
        if shown.is_closed
            || shown.said.is_empty() && (is_empty || shown.last == (rows.clone(), size))
        {
            return;
        }
        let said = std::mem::take(&mut shown.said);
        let output = shown.block.redraw(&said, &rows, size.1.into());
        shown.last = (rows, size);
        write(terminal, &output);
    }

    /// Removes the rows. Later lines are printed in their place.
    pub(super) fn clear(&self) {
        let Some(terminal) = &self.terminal else {
            return;
        };
        let mut shown = self.shown();
        if !shown.is_closed {
            shown.is_closed = true;
            let (_, width) = terminal.size_checked().unwrap_or(USUAL_SIZE);
            let said = std::mem::take(&mut shown.said);
            let output = shown.block.redraw(&said, &[], width.into());
            write(terminal, &output);
        }
    }

    /// Applies a change of a workload to the display.
    pub(super) fn update<T: Object>(
        &self,
        change: &Change<'_, T>,
        assess: impl Fn(&T) -> Progress,
    ) {
        let workload = Workload {
            kind: T::RESOURCE.kind.to_ascii_lowercase(),
            key: change.object().key(),
        };
        let mut shown = self.shown();
        match change {
            Change::Added { object, .. } | Change::Updated { new: object, .. } => {
                let line = shown.update(
                    workload,
                    assess(object),
                    self.terminal.is_some(),
                    self.colours,
                );
                if let Some(line) = line {
                    self.say_in(&mut shown, line);
                }
            }
            Change::Deleted { .. } => {
                self.say_in(&mut shown, format!("{workload} deleted"));
                shown.workloads.remove(&workload);
            }
        }
    }
}

fn write(mut terminal: &Term, output: &str) {
    // Fails only if the terminal is gone; then there is no user to inform.
    let _ = terminal
        .write_all(output.as_bytes())
        .and_then(|()| terminal.flush());
}

impl Shown {
    /// Stores the progress of a workload. Returns a line about the change if no row shows it.
    fn update(
        &mut self,
        workload: Workload,
        progress: Progress,
        has_rows: bool,
        colours: bool,
    ) -> Option<String> {
        let is_complete = matches!(progress.state, State::Complete | State::Scheduled(_));
        let before = self.workloads.get(&workload);
        if before.is_some_and(|entry| entry.progress == progress) {
            return None;
        }
        let began = before.and_then(|entry| entry.began);
        let settled = before.map(|entry| entry.settled.clone());
        let changes = image_changes(settled.as_deref().unwrap_or_default(), &progress.images);
        let line = line(
            &workload,
            &progress,
            &changes,
            began.map(|began| began.elapsed()),
            colours,
        );
        let is_row = has_rows && matches!(progress.state, State::Rolling(_) | State::Paused(_));
        let entry = Entry {
            settled: settled
                .filter(|_| !is_complete)
                .unwrap_or_else(|| progress.images.clone()),
            began: if is_complete {
                None
            } else {
                began.or_else(|| Some(Instant::now()))
            },
            progress,
            changed: Instant::now(),
            why: None,
        };
        self.workloads.insert(workload, entry);
        Some(line).filter(|_| !is_row)
    }

    /// The rows of all workloads with a rollout in progress, as many as fit.
    fn rows(&self, (height, width): (u16, u16), colours: bool) -> Vec<String> {
        let is_row =
            |entry: &Entry| matches!(entry.progress.state, State::Rolling(_) | State::Paused(_));
        let under_way: Vec<_> = self
            .workloads
            .iter()
            .filter(|(_, entry)| is_row(entry))
            .collect();
        let name = |workload: &Workload| match &*workload.kind {
            // Deployments are the usual case, and short of room for their kind.
            "deployment" => workload.key.to_string(),
            _ => workload.to_string(),
        };
        let names: Vec<String> = under_way
            .iter()
            .map(|(workload, _)| name(workload))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let columns = Columns::of(
            width.into(),
            names.iter().map(|name| name.len()).max().unwrap_or(0),
        );
        let draw = |((_, entry), name): (&(&Workload, &Entry), &&str)| {
            let changes = image_changes(&entry.settled, &entry.progress.images);
            let elapsed = entry.began.map(|began| began.elapsed()).unwrap_or_default();
            let row = row(
                &cut(name, columns.name, &names),
                &entry.progress,
                &changes,
                columns,
                colours,
                elapsed,
            );
            let why = entry.why.as_ref();
            let why =
                why.map(|why| truncate_str(&format!("  {why}"), width.into(), "…").into_owned());
            [Some(row), why]
        };
        let whys = under_way.iter().filter(|(_, entry)| entry.why.is_some());
        let all = under_way.len() + whys.count();
        let drawn = under_way
            .iter()
            .zip(&names)
            .take(height.into())
            .flat_map(draw)
            .flatten()
            .collect();
        fitting(drawn, all, height.into())
    }
}

/// The line about a change of one workload.
fn line(
    workload: &Workload,
    progress: &Progress,
    images: &str,
    elapsed: Option<Duration>,
    colours: bool,
) -> String {
    let time = |word: &str| {
        elapsed
            .map(|elapsed| format!(" {word} {:.1}s", elapsed.as_secs_f64()))
            .unwrap_or_default()
    };
    let facts = Some(facts(progress, images)).filter(|facts| !facts.is_empty());
    match &progress.state {
        State::Rolling(text) => format!("{workload} rolling out: {}", printable(text)),
        State::Paused(text) => format!("{workload} paused: {}", printable(text)),
        State::Scheduled(text) => {
            let note = if progress.paused { " (suspended)" } else { "" };
            format!("{workload} scheduled{note}: {}", printable(text))
        }
        State::Complete => {
            let complete = painted("complete", Colour::Green, colours);
            let note = if progress.paused { " (paused)" } else { "" };
            let plural = if progress.wanted == 1 { "" } else { "s" };
            let facts = facts
                .map(|facts| format!(", {}", printable(&facts)))
                .unwrap_or_default();
            format!(
                "{workload} {complete}{note}{}: {} {}{plural}{facts}",
                time("in"),
                progress.wanted,
                progress.unit
            )
        }
        State::Stuck(text) => {
            format!(
                "{workload} {}{}: {}",
                painted("stuck", Colour::Red, colours),
                time("after"),
                printable(text)
            )
        }
    }
}

/// Writes the log above the rows, so that log lines and rows do not overwrite each other. Each
/// write must be a whole line.
#[derive(Clone)]
pub(super) struct LogLines(pub(super) Arc<Display>);

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.log(text.strip_suffix('\n').unwrap_or(&text));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn progress(state: State, image: &str) -> Progress {
        let images = vec![("main".to_owned(), image.to_owned())];
        Progress {
            wanted: 3,
            done: 0,
            unit: "pod",
            state,
            paused: false,
            revision: Some("2".to_owned()),
            images,
        }
    }

    fn workload(kind: &str, name: &str) -> Workload {
        Workload {
            kind: kind.to_owned(),
            key: ObjectKey::new("default", name),
        }
    }

    fn rolling() -> State {
        State::Rolling("1 of 3 new pods created".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn lines_contain_duration_revision_and_changed_images() {
        let mut shown = Shown::default();
        let mut tell = |state, image| {
            shown.update(
                workload("deployment", "web"),
                progress(state, image),
                false,
                false,
            )
        };
        assert_eq!(
            tell(State::Complete, "web:1").unwrap(),
            "deployment default/web complete: 3 pods, revision 2"
        );
        assert_eq!(tell(State::Complete, "web:1"), None, "nothing has changed");
        assert_eq!(
            tell(rolling(), "web:2").unwrap(),
            "deployment default/web rolling out: 1 of 3 new pods created"
        );
        tokio::time::advance(Duration::from_millis(1500)).await;
        let paused = State::Paused("2 of 3 new pods created".to_owned());
        assert_eq!(
            tell(paused, "web:2").unwrap(),
            "deployment default/web paused: 2 of 3 new pods created"
        );
        let complete = "deployment default/web complete in 1.5s: 3 pods, revision 2, web:1 → web:2";
        assert_eq!(tell(State::Complete, "web:2").unwrap(), complete);
        tell(rolling(), "web:2");
        let stuck = State::Stuck("quota\u{1b}[2J".to_owned());
        assert_eq!(
            tell(stuck, "web:2").unwrap(),
            "deployment default/web stuck after 0.0s: quota [2J"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_cause_is_below_its_row_until_the_next_progress() {
        let mut shown = Shown::default();
        let web = || workload("deployment", "web");
        shown.update(web(), progress(rolling(), "web:1"), true, false);
        let why = "exceeded quota: team, which is a long text".to_owned();
        shown.workloads.get_mut(&web()).unwrap().why = Some(why);
        let rows = shown.rows((24, 30), false);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1], "  exceeded quota: team, which…");
        assert_eq!(shown.rows((2, 30), false), ["… and 2 more"]);
        shown.update(web(), progress(State::Complete, "web:1"), true, false);
        assert!(shown.rows((24, 30), false).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn rows_fit_the_size_of_the_terminal() {
        let mut shown = Shown::default();
        for number in 0..45 {
            let name = format!("checkout-production-eu-{number:02}-service-frontend");
            assert_eq!(
                shown.update(
                    workload("deployment", &name),
                    progress(rolling(), "web:1"),
                    true,
                    false
                ),
                None,
                "a row replaces the line"
            );
        }
        tokio::time::advance(Duration::from_secs(61)).await;
        for (height, width) in [(24, 40), (24, 80), (60, 130), (60, 20)] {
            let rows = shown.rows((height, width), false);
            assert_eq!(rows.len(), usize::from(height - 1).min(45));
            assert!(
                rows.iter()
                    .all(|row| console::measure_text_width(row) <= usize::from(width)),
                "{rows:#?}"
            );
            let names: BTreeSet<_> = rows.iter().map(|row| row.split(' ').next()).collect();
            assert_eq!(names.len(), rows.len(), "{rows:#?}");
        }
        let wide = shown.rows((60, 130), false);
        assert!(
            wide[7].starts_with("default/checkout-production-eu-07-service-frontend ["),
            "{}",
            wide[7]
        );
        assert!(
            wide[7].contains("]  1m01s  1 of 3 new pods created, revision 2"),
            "{}",
            wide[7]
        );
    }
}
