//! Collects the log messages of one test.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The messages logged on this thread during its lifetime.
pub(crate) struct Log {
    messages: Arc<Mutex<Vec<Line>>>,
    _guard: DefaultGuard,
}

impl Log {
    /// Collects all messages from now on.
    pub(crate) fn collect() -> Self {
        let messages = Arc::<Mutex<Vec<Line>>>::default();
        let layer = Collector(Arc::clone(&messages)).with_filter(LevelFilter::TRACE);
        let subscriber = tracing_subscriber::registry().with(layer);
        Self {
            messages,
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    /// The distinct messages of this level.
    pub(crate) fn at(&self, level: Level) -> BTreeSet<String> {
        let messages = self.messages.lock();
        messages
            .iter()
            .filter(|line| line.level == level)
            .map(|line| line.message.clone())
            .collect()
    }

    /// All lines, with their fields.
    pub(crate) fn lines(&self) -> Vec<String> {
        let messages = self.messages.lock();
        messages.iter().map(|line| line.fields.clone()).collect()
    }

    /// Asserts that all of `expected` were logged at `level`.
    pub(crate) fn assert_has(&self, level: Level, expected: &[&str]) {
        let logged = self.at(level);
        for message in expected {
            assert!(
                logged.contains(*message),
                "no {message:?} at {level} in {logged:#?}"
            );
        }
    }
}

struct Collector(Arc<Mutex<Vec<Line>>>);

impl<S: Subscriber> Layer<S> for Collector {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line {
            level: *event.metadata().level(),
            message: String::new(),
            fields: String::new(),
        };
        event.record(&mut line);
        self.0.lock().push(line);
    }
}

/// A logged event.
struct Line {
    level: Level,
    /// The message without the fields.
    message: String,
    /// All fields, the message among them.
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
        self.fields += &format!("{}={value:?} ", field.name());
    }
}
