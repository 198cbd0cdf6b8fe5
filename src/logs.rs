//! Log output: one line per event on standard error, in klog's text format or as JSON.
//!
//! `--v` has upstream's meaning. Levels of `tracing` map to verbosities as follows:
//!
//! | verbosity | level | lines |
//! |---|---|---|
//! | 0 | error, warn, info | failures (a failed sync too), start, stop, leadership |
//! | 2 | debug | decisions and writes, by object; caches that were filled |
//! | 3 | debug, target [`REQUESTS`] or of Events | requests to the server; Events |
//! | 4 | trace, or target [`REFUSALS`] | start and end of each sync; refused requests; reasons of small steps |
//! | 5 | trace, target of renewals | each renewal of the Lease |
//! | 6 | debug, target of the client's requests | answers of the API server |

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value as Json;
use steersman_values::clock::Clock;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::spans::Spans;

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// klog's text.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// Parses a value of `--logging-format`. An unknown value is returned as the error.
    pub fn from_flag(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(other.to_owned()),
        }
    }
}

/// Target of events with a message that is written without quotes.
pub(crate) const PLAIN: &str = "steersman::plain";

/// Verbosity that shows warnings and errors only, for commands with another main output than the
/// log.
pub(crate) const WARNINGS_ONLY: i64 = -1;

/// Verbosity that shows errors only, for commands that report everything else themselves.
pub(crate) const ERRORS_ONLY: i64 = -2;

/// The current verbosity, as in the table of this module; it can change at runtime. Other crates
/// only log warnings and errors. Cloning is cheap; clones share the value.
#[derive(Clone)]
pub struct Verbosity {
    level: Arc<AtomicI64>,
    apply: Arc<dyn Fn(i64) + Send + Sync>,
}

impl Verbosity {
    /// Starts at `level`. `apply` is called with each new level.
    pub fn new(level: i64, apply: impl Fn(i64) + Send + Sync + 'static) -> Self {
        Self {
            level: Arc::new(level.into()),
            apply: Arc::new(apply),
        }
    }

    /// The current level.
    pub fn get(&self) -> i64 {
        self.level.load(Ordering::Relaxed)
    }

    /// Changes the level of the log.
    pub fn set(&self, level: i64) {
        self.level.store(level, Ordering::Relaxed);
        (self.apply)(level);
    }
}

/// Target of requests to our server, one line each.
pub(crate) const REQUESTS: &str = "steersman::requests";

/// Target of requests to our server that were refused.
pub(crate) const REFUSALS: &str = "steersman::refusals";

/// Targets with a verbosity that differs from the rule of their level. The values are upstream's.
const OWN_VERBOSITY: [(&str, i64); 5] = [
    (REQUESTS, 3),
    (steersman_runtime::events::OCCURRED, 3),
    (REFUSALS, 4),
    (steersman_runtime::leader::RENEWALS, 5),
    (steersman_client::REQUESTS, 6),
];

/// The filter of events at this verbosity.
fn targets(verbosity: i64) -> Targets {
    let ours = match verbosity {
        ..=-2 => LevelFilter::ERROR,
        -1 => LevelFilter::WARN,
        0..=1 => LevelFilter::INFO,
        2..=3 => LevelFilter::DEBUG,
        4.. => LevelFilter::TRACE,
    };
    let all = Targets::new()
        .with_default(ours.min(LevelFilter::WARN))
        .with_target("steersman", ours);
    // The TLS error of the connection describes the same failure better.
    let all = all.with_target("rustls_platform_verifier", LevelFilter::OFF);
    let hidden = OWN_VERBOSITY
        .into_iter()
        .filter(|(_, from)| verbosity < *from);
    all.with_targets(hidden.map(|(target, _)| (target, ours.min(LevelFilter::INFO))))
}

/// The lowest verbosity that shows an event below the level of errors.
fn verbosity_of(metadata: &tracing::Metadata<'_>) -> i64 {
    let own = || {
        OWN_VERBOSITY
            .iter()
            .find(|(target, _)| *target == metadata.target())
            .map(|(_, from)| *from)
    };
    match *metadata.level() {
        Level::ERROR | Level::WARN | Level::INFO => 0,
        Level::DEBUG => own().unwrap_or(2),
        Level::TRACE => own().unwrap_or(4),
    }
}

/// The file name with its folder, because many folders have a file of the same name.
fn short(path: &str) -> &str {
    let start = path.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    &path[start..]
}

/// Writes events of the process to standard error, filtered by `verbosity`, which can change later.
/// Has no effect if a subscriber is already installed. `spans` receives the spans of all syncs and
/// writes, at any verbosity.
pub fn init(format: LogFormat, verbosity: i64, spans: Option<&Spans>) -> Verbosity {
    init_to(std::io::stderr, format, verbosity, spans)
}

/// As [`init`], with the lines below the level of errors on standard output. Warnings count as errors in text.
///
/// Upstream: `SplitStream`. It sorts lines of text by their first letter, and JSON has no warnings.
pub(crate) fn init_split(format: LogFormat, verbosity: i64, spans: Option<&Spans>) -> Verbosity {
    init_to(Split { format }, format, verbosity, spans)
}

/// Writes each line to one of the two outputs of the process.
struct Split {
    format: LogFormat,
}

impl Split {
    /// Whether lines of this level go to standard error.
    fn is_error(&self, level: Level) -> bool {
        match self.format {
            LogFormat::Text => level <= Level::WARN,
            LogFormat::Json => level <= Level::ERROR,
        }
    }
}

impl<'a> MakeWriter<'a> for Split {
    type Writer = Box<dyn std::io::Write + 'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Box::new(std::io::stderr())
    }

    fn make_writer_for(&'a self, metadata: &tracing::Metadata<'_>) -> Self::Writer {
        if self.is_error(*metadata.level()) {
            Box::new(std::io::stderr())
        } else {
            Box::new(std::io::stdout())
        }
    }
}

/// As [`init`], with another destination than standard error. Each line is a single write.
pub(crate) fn init_to<W>(
    writer: W,
    format: LogFormat,
    verbosity: i64,
    spans: Option<&Spans>,
) -> Verbosity
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    match spans {
        None => {
            let (filter, handle) = reload::Layer::new(targets(verbosity));
            let _ = tracing_subscriber::registry()
                .with(filter)
                .with(lines(writer, format))
                .try_init();
            changed_by(handle, verbosity)
        }
        Some(spans) => {
            let (filter, handle) = reload::Layer::new(targets(verbosity));
            let lines = lines(writer, format).with_filter(filter);
            let _ = tracing_subscriber::registry()
                .with(lines)
                .with(spans.layer())
                .try_init();
            changed_by(handle, verbosity)
        }
    }
}

/// Writes events to standard error as [`init`] does. `layer` sees events and spans at any verbosity.
pub(crate) fn init_over<L>(layer: L, format: LogFormat, verbosity: i64)
where
    L: Layer<tracing_subscriber::Registry> + Send + Sync,
{
    let lines = lines(std::io::stderr, format).with_filter(targets(verbosity));
    let _ = tracing_subscriber::registry()
        .with(layer)
        .with(lines)
        .try_init();
}

/// A verbosity that reloads `filter`.
fn changed_by<S: 'static>(filter: reload::Handle<Targets, S>, verbosity: i64) -> Verbosity {
    Verbosity::new(verbosity, move |level| {
        // Reloading fails only after the subscriber has been dropped.
        let _ = filter.reload(targets(level));
    })
}

/// The layer that writes log lines to `writer`.
fn lines<S, W>(writer: W, format: LogFormat) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        // The report of a failed write would panic if standard error is closed.
        .log_internal_errors(false)
        .with_ansi(false);
    lines.fmt_fields(Fields(format)).event_format(Lines {
        format,
        clock: Clock::system(),
    })
}

/// Formats the fields of an event or a span, each after a separator.
struct Fields(LogFormat);

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = Visitor {
            format: self.0,
            message: None,
            rest: String::new(),
        };
        fields.record(&mut visitor);
        writer.write_str(&visitor.rest)
    }
}

/// Collects the fields of an event or a span.
struct Visitor {
    format: LogFormat,
    message: Option<String>,
    rest: String,
}

impl Visitor {
    fn put(&mut self, field: &Field, value: &Json) {
        let _ = match self.format {
            LogFormat::Text => write!(self.rest, " {}={value}", field.name()),
            LogFormat::Json => write!(self.rest, ",{}:{value}", Json::from(field.name())),
        };
    }
}

impl Visit for Visitor {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = Some(text);
        } else if self.format == LogFormat::Text && text.starts_with(['"', '[']) {
            // Already quoted, or a list, which klog does not quote either.
            let _ = write!(self.rest, " {}={text}", field.name());
        } else {
            self.put(field, &Json::from(text));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // A string field can also be called `message`, as in the line of an Event. The message of
        // the line itself always arrives as format arguments.
        self.put(field, &Json::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, &Json::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, &Json::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, &Json::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, &Json::from(value));
    }
}

/// Formats whole lines: head, message, fields of the event, then fields of its spans.
struct Lines {
    format: LogFormat,
    clock: Clock,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut visitor = Visitor {
            format: self.format,
            message: None,
            rest: String::new(),
        };
        event.record(&mut visitor);
        for span in context.event_scope().into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                visitor.rest.push_str(&fields.fields);
            }
        }
        let metadata = event.metadata();
        let file = metadata.file().map_or("unknown", short);
        let line = metadata.line().unwrap_or(0);
        let now = self.clock.now();
        let message = visitor.message.unwrap_or_default();
        match self.format {
            LogFormat::Text => {
                let severity = match *metadata.level() {
                    Level::ERROR => 'E',
                    Level::WARN => 'W',
                    _ => 'I',
                };
                let message = if metadata.target() == PLAIN {
                    message
                } else {
                    Json::from(message).to_string()
                };
                let time = now.strftime("%m%d %H:%M:%S%.6f");
                let process = std::process::id();
                writeln!(
                    writer,
                    "{severity}{time} {process:>7} {file}:{line}] {message}{}",
                    visitor.rest
                )
            }
            LogFormat::Json => {
                // Milliseconds with four decimals, as in upstream's JSON.
                let nanos = now.as_nanosecond();
                let millis = nanos / 1_000_000;
                let fraction = nanos % 1_000_000 / 100;
                let verbosity = match *metadata.level() {
                    Level::ERROR => String::new(),
                    _ => format!(r#","v":{}"#, verbosity_of(metadata)),
                };
                let caller = Json::from(format!("{file}:{line}"));
                let message = Json::from(message);
                let head = format!(
                    r#"{{"ts":{millis}.{fraction:04},"caller":{caller},"msg":{message}{verbosity}"#
                );
                writeln!(writer, "{head}{}}}", visitor.rest)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, log: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_ansi(false);
        let lines = lines.fmt_fields(Fields(format)).event_format(Lines {
            format,
            clock: Clock::system(),
        });
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), log);
        String::from_utf8(sink.0.lock().clone()).unwrap()
    }

    /// As upstream's `klogMsgRouter`, and `NewJSONLogger` with two streams.
    #[test]
    fn split_lines_go_to_the_output_of_their_level() {
        for (format, level, expected) in [
            (LogFormat::Text, Level::ERROR, true),
            (LogFormat::Text, Level::WARN, true),
            (LogFormat::Text, Level::INFO, false),
            (LogFormat::Text, Level::TRACE, false),
            (LogFormat::Json, Level::ERROR, true),
            (LogFormat::Json, Level::WARN, false),
            (LogFormat::Json, Level::DEBUG, false),
        ] {
            assert_eq!(
                Split { format }.is_error(level),
                expected,
                "{format:?} {level}"
            );
        }
    }

    fn everything() {
        let span = tracing::info_span!("controller", controller = "deployment-controller");
        let _entered = span.enter();
        let error = std::io::Error::other("no \"luck\"");
        tracing::error!(%error, count = 3, ok = false, names = ?["a", "b"], "command failed");
    }

    #[test]
    fn events_appear_at_upstreams_verbosity() {
        let client = steersman_client::REQUESTS;
        // (target, level, lowest verbosity that shows it)
        let cases = [
            ("steersman::manager", Level::INFO, 0),
            ("steersman_client::exchange", Level::DEBUG, 2),
            (REQUESTS, Level::DEBUG, 3),
            (REFUSALS, Level::DEBUG, 4),
            (steersman_runtime::events::OCCURRED, Level::DEBUG, 3),
            ("steersman_runtime::workers", Level::TRACE, 4),
            ("steersman_runtime::leader", Level::TRACE, 4),
            (steersman_runtime::leader::RENEWALS, Level::TRACE, 5),
            (client, Level::DEBUG, 6),
            ("rustls", Level::WARN, -1),
        ];
        for (target, level, from) in cases {
            let shown: Vec<i64> = (-1..=10)
                .filter(|verbosity| targets(*verbosity).would_enable(target, &level))
                .collect();
            assert_eq!(shown, (from..=10).collect::<Vec<_>>(), "{target}");
        }
        let line = logged(
            LogFormat::Json,
            || tracing::debug!(target: REQUESTS, "HTTP"),
        );
        assert!(line.contains(r#""msg":"HTTP","v":3"#), "{line}");
        let line = logged(LogFormat::Json, || tracing::trace!("Finished syncing"));
        assert!(line.contains(r#""msg":"Finished syncing","v":4"#), "{line}");
    }

    #[test]
    fn the_source_is_the_file_name_with_its_folder() {
        // (path from the compiler, source in the log)
        let cases = [
            ("controllers/deployment/sync.rs", "deployment/sync.rs"),
            ("/build/crates/runtime/src/workers.rs", "src/workers.rs"),
            ("src/logs.rs", "src/logs.rs"),
            ("main.rs", "main.rs"),
        ];
        for (path, source) in cases {
            assert_eq!(short(path), source);
        }
    }

    #[test]
    fn text_lines_equal_klogs_format() {
        let line = logged(LogFormat::Text, everything);
        let (head, rest) = line.split_once("] ").unwrap();
        assert!(
            head.starts_with('E') && head.contains(" src/logs.rs:"),
            "{line}"
        );
        assert_eq!(
            head.split_whitespace().next().unwrap().len(),
            "E1121".len(),
            "{line}"
        );
        let expected = r#""command failed" error="no \"luck\"" count=3 ok=false names=["a", "b"] controller="deployment-controller""#;
        assert_eq!(rest, format!("{expected}\n"));
        let both = logged(LogFormat::Text, || {
            tracing::info!(message = "Created pod: web-1", "event occurred")
        });
        assert!(
            both.ends_with("] \"event occurred\" message=\"Created pod: web-1\"\n"),
            "{both}"
        );
        let plain = logged(
            LogFormat::Text,
            || tracing::info!(target: PLAIN, "FLAG: --{}={:?}", "v", "2"),
        );
        assert!(plain.ends_with("] FLAG: --v=\"2\"\n"), "{plain}");
    }

    #[test]
    fn json_lines_are_one_object_with_all_fields() {
        let line = logged(LogFormat::Json, everything);
        let mut object: serde_json::Map<String, Json> = serde_json::from_str(&line).unwrap();
        assert!(object.remove("ts").unwrap().as_f64().unwrap() > 1.7e12);
        assert!(
            object
                .remove("caller")
                .unwrap()
                .as_str()
                .unwrap()
                .starts_with("src/logs.rs:")
        );
        let expected = serde_json::json!({
            "msg": "command failed", "error": "no \"luck\"", "count": 3, "ok": false, "names": "[\"a\", \"b\"]",
            "controller": "deployment-controller",
        });
        assert_eq!(Json::Object(object), expected);
    }
}
