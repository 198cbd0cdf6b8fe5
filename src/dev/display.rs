//! Shows roll-outs: a bar per Deployment on a terminal, a line per change elsewhere.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use steersman_runtime::informer::Change;
use steersman_runtime::object::{Deployment, Object, ObjectKey};

use super::progress::{Progress, State, assess};

/// What is on display.
pub(super) struct Display {
    bars: MultiProgress,
    on_terminal: bool,
    shown: Mutex<HashMap<ObjectKey, Shown>>,
}

struct Shown {
    progress: Progress,
    bar: Option<ProgressBar>,
}

impl Display {
    /// An empty display on standard error.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { bars: MultiProgress::new(), on_terminal: std::io::stderr().is_terminal(), shown: Mutex::default() })
    }

    /// Prints a line above the bars.
    pub(super) fn say(&self, line: &str) {
        if self.on_terminal {
            // Fails only when the terminal is gone, and then nobody reads the line.
            let _ = self.bars.println(line);
        } else {
            eprintln!("{line}");
        }
    }

    /// Takes the bars away; what is said from now on goes where they were.
    pub(super) fn clear(&self) {
        // Fails only when the terminal is gone.
        let _ = self.bars.clear();
        self.bars.set_draw_target(ProgressDrawTarget::hidden());
    }

    /// Takes a change of a Deployment into the picture.
    pub(super) fn update(&self, change: &Change<'_, Deployment>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match change {
            Change::Added { object, .. } | Change::Updated { new: object, .. } => {
                let progress = assess(object);
                let before = shown.get(&object.key());
                if before.is_none_or(|shown| shown.progress != progress) {
                    let bar = before.and_then(|shown| shown.bar.clone());
                    let bar = self.show(&object.key(), &progress, bar);
                    shown.insert(object.key(), Shown { progress, bar });
                }
            }
            Change::Deleted { object, .. } => {
                if let Some(Shown { bar: Some(bar), .. }) = shown.remove(&object.key()) {
                    bar.finish_and_clear();
                }
                self.say(&format!("deployment {} deleted", object.key()));
            }
        }
    }

    fn show(&self, key: &ObjectKey, progress: &Progress, bar: Option<ProgressBar>) -> Option<ProgressBar> {
        let counts = format!("{}/{}", progress.done, progress.wanted);
        match &progress.state {
            State::Rolling(message) if self.on_terminal => {
                let bar = bar.unwrap_or_else(|| self.bars.add(ProgressBar::new(0).with_style(style())));
                bar.set_length(u64::try_from(progress.wanted).unwrap_or(0));
                bar.set_position(u64::try_from(progress.done).unwrap_or(0));
                bar.set_prefix(key.to_string());
                bar.set_message(message.clone());
                Some(bar)
            }
            state => {
                if let Some(bar) = bar {
                    bar.finish_and_clear();
                }
                let text = match state {
                    State::Rolling(message) => format!("rolling out: {message}"),
                    State::Complete => "complete".to_owned(),
                    State::Stuck(message) => format!("stuck: {message}"),
                };
                self.say(&format!("deployment {key} {counts} {text}"));
                None
            }
        }
    }
}

fn style() -> ProgressStyle {
    // The last part fills what is left of the line and is cut off there: a bar that wraps cannot be redrawn.
    ProgressStyle::with_template("{prefix:30!} [{bar:20}] {pos}/{len} {wide_msg}")
        .expect("the template is valid")
        .progress_chars("=> ")
}
