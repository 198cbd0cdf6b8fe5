//! Collects the log messages of one test.

use std::collections::BTreeSet;
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest, set_global_default};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The subscriber of threads without a [`Log`]. It drops all messages, and wants to be asked about each.
///
/// A message is registered when a thread logs it for the first time, and then only the subscriber of this
/// thread decides whether the message is ever asked about again. Without a subscriber on that thread, a
/// [`Log`] of another test would miss the message.
struct Asked;

impl Subscriber for Asked {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Lets a [`Log`] see messages that another thread logs first. Every world calls it before its controllers log.
pub(super) fn see_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| set_global_default(Asked).expect("tests have no other global subscriber"));
}

/// The messages logged on this thread during its lifetime.
pub(crate) struct Log {
    messages: Arc<Mutex<Vec<Line>>>,
    _guard: DefaultGuard,
}

impl Log {
    /// Collects all messages from now on.
    pub(crate) fn collect() -> Self {
        see_all();
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
