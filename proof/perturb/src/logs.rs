//! Collects the log errors of one run, so that the oracle can demand a reason for each.
//!
//! A run lives on one thread, so a subscriber of this thread receives exactly its log events. The
//! oracle compares fields, never parts of texts: a reworded message or error must not change the
//! result of a run.

use std::fmt::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;

use steersman_client::Category;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// A log event at level `ERROR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoggedError {
    /// The controller, from the innermost span with this field. Outside controllers, such as in
    /// the sender of Events, the target of the event: its module.
    pub(crate) source: String,
    /// The key of the sync; empty outside syncs.
    pub(crate) key: String,
    /// The field `category`. An event without the field reports no failed request, which is
    /// [`Category::Decision`].
    pub(crate) category: String,
    /// The message of the log call, without fields.
    pub(crate) message: String,
    /// The other fields, as `name=value ...`.
    pub(crate) fields: String,
}

/// For failures: message and fields, then category, source and key.
impl fmt::Display for LoggedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            key,
            category,
            message,
            fields,
        } = self;
        write!(f, "{message} {fields}({category} in {source} {key})")
    }
}

/// Collects the log errors of this thread, until the value is dropped.
pub(crate) struct Logs {
    errors: Arc<Mutex<Vec<LoggedError>>>,
    _guard: DefaultGuard,
}

impl Logs {
    pub(crate) fn collect() -> Self {
        let errors = Arc::<Mutex<Vec<LoggedError>>>::default();
        let subscriber = tracing_subscriber::registry().with(Collector(Arc::clone(&errors)));
        Self {
            errors,
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    /// Returns the errors so far, and removes them.
    pub(crate) fn take(&self) -> Vec<LoggedError> {
        std::mem::take(&mut self.errors.lock())
    }
}

struct Collector(Arc<Mutex<Vec<LoggedError>>>);

/// The field of spans that names the controller.
const CONTROLLER: &str = "controller";

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        if metadata.is_span() {
            metadata.fields().field(CONTROLLER).is_some()
        } else {
            *metadata.level() == Level::ERROR
        }
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut place = Place::default();
        attributes.record(&mut place);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(place);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let place = context.event_span(event).and_then(|span| {
            let extensions = span.extensions();
            extensions.get::<Place>().cloned()
        });
        let place = place.unwrap_or_else(|| Place {
            controller: event.metadata().target().to_owned(),
            ..Place::default()
        });
        let category = fields.category;
        let error = LoggedError {
            source: place.controller,
            key: place.key,
            category: category.unwrap_or_else(|| Category::Decision.to_string()),
            message: fields.message,
            fields: fields.others,
        };
        self.0.lock().push(error);
    }
}

/// The fields of a span: of a sync, or of a whole controller.
#[derive(Default, Clone)]
struct Place {
    controller: String,
    key: String,
}

impl Visit for Place {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            CONTROLLER => self.controller = format!("{value:?}"),
            "key" => self.key = format!("{value:?}"),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    category: Option<String>,
    others: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "category" => self.category = Some(format!("{value:?}")),
            name => {
                // A String cannot fail to be written.
                let _ = write!(self.others, "{name}={value:?} ");
            }
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_controller_of_its_innermost_span_and_its_category() {
        let logs = Logs::collect();
        let controller = tracing::info_span!("controller", controller = "podgc");
        controller.in_scope(|| {
            tracing::error!(category = "server", error = "no", "pod not removed");
            let sync = tracing::info_span!("sync", controller = "ttl", key = %"default/web");
            sync.in_scope(|| {
                tracing::info_span!("write").in_scope(|| tracing::error!("sync panicked"));
            });
            tracing::warn!("not an error");
        });
        tracing::error!(count = 3, "lost");
        let error = |source: &str, key: &str, category: &str, message: &str, fields: &str| {
            let [source, key, category, message, fields] =
                [source, key, category, message, fields].map(str::to_owned);
            LoggedError {
                source,
                key,
                category,
                message,
                fields,
            }
        };
        let expected = [
            error("podgc", "", "server", "pod not removed", "error=no "),
            error("ttl", "default/web", "decision", "sync panicked", ""),
            error(module_path!(), "", "decision", "lost", "count=3 "),
        ];
        assert_eq!(logs.take(), expected);
        assert_eq!(logs.take(), []);
    }
}
