//! Collects the error lines of one run, so that the oracle can demand a reason for each. A run
//! lives on one thread, so a subscriber of this thread sees exactly its lines.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Collects the lines at level `ERROR` that this thread logs, until the value is dropped.
pub(crate) struct Logs {
    lines: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

impl Logs {
    pub(crate) fn collect() -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let subscriber = tracing_subscriber::registry().with(Collector(Arc::clone(&lines)));
        Self {
            lines,
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    /// Returns the lines so far, as `message field=value ...`, and removes them.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Collector(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Collector {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?} "),
            name => write!(self.0, "{name}={value:?} "),
        };
    }
}
