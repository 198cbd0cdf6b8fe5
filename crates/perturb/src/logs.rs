//! The error lines of one run.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Collects what is logged as an error on this thread, as long as it lives.
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
