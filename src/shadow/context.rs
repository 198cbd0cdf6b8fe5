//! The origin of a held-back write: its controller, the key of its sync, and the last log messages
//! of that sync.
//!
//! span of a sync -> its decisions, kept in the span -> [`Context::current`], in the task of the
//! write

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::{Debug, Write as _};

use steersman_runtime::workers;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer;
use tracing_subscriber::registry::LookupSpan;

/// Target of the event that asks [`Origins`] for the present context.
const ASK: &str = "steersman::shadow::ask";
/// Messages that are kept for each sync, and characters of each.
const MESSAGES: usize = 3;
const LONGEST: usize = 300;

/// The origin of a write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Context {
    /// Name of the controller, or the identity of its client.
    pub(super) controller: String,
    /// The key of the sync; empty for writes outside a sync.
    pub(super) key: String,
    /// The last messages of the sync before the write.
    pub(super) messages: Vec<String>,
}

thread_local! {
    /// The answer of [`Origins`]. Question and answer happen in one call, on one thread.
    static ANSWER: RefCell<Option<Context>> = const { RefCell::new(None) };
}

impl Context {
    /// The context of a write outside a sync.
    pub(super) fn of_client(client: &str) -> Self {
        Self {
            controller: client.to_owned(),
            ..Self::default()
        }
    }

    /// The context of the present task, which writes through `client`.
    pub(super) fn current(client: &str) -> Self {
        tracing::info!(target: ASK, "");
        ANSWER
            .with(RefCell::take)
            .unwrap_or_else(|| Self::of_client(client))
    }
}

/// The context that a span of a sync keeps.
#[derive(Default)]
struct Sync {
    controller: String,
    key: String,
    messages: VecDeque<String>,
}

/// The layer that keeps the contexts of syncs.
pub(super) struct Origins;

impl Origins {
    /// The layer, which sees decisions of controllers at every verbosity of the log.
    pub(super) fn layer<S>() -> impl Layer<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let decisions = Targets::new()
            .with_target("steersman_controllers", LevelFilter::DEBUG)
            .with_target("steersman_helpers", LevelFilter::DEBUG)
            .with_target("steersman_runtime::pod_control", LevelFilter::DEBUG)
            .with_target(workers::SPANS, LevelFilter::INFO)
            .with_target(ASK, LevelFilter::INFO);
        Self.with_filter(decisions)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Origins {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: layer::Context<'_, S>) {
        if attributes.metadata().target() != workers::SPANS {
            return;
        }
        if let Some(span) = context.span(id) {
            let mut sync = Sync::default();
            attributes.record(&mut sync);
            span.extensions_mut().insert(sync);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: layer::Context<'_, S>) {
        let is_question = event.metadata().target() == ASK;
        let Some(scope) = context.event_scope(event) else {
            return;
        };
        for span in scope {
            let mut extensions = span.extensions_mut();
            let Some(sync) = extensions.get_mut::<Sync>() else {
                continue;
            };
            if is_question {
                let answer = Context {
                    controller: sync.controller.clone(),
                    key: sync.key.clone(),
                    messages: sync.messages.iter().cloned().collect(),
                };
                return ANSWER.with(|slot| *slot.borrow_mut() = Some(answer));
            }
            let mut text = Message::default();
            event.record(&mut text);
            if sync.messages.len() == MESSAGES {
                sync.messages.pop_front();
            }
            return sync.messages.push_back(text.finish());
        }
    }
}

impl Visit for Sync {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "controller" => self.controller = format!("{value:?}"),
            "key" => self.key = format!("{value:?}"),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "controller" => self.controller = value.to_owned(),
            "key" => self.key = value.to_owned(),
            _ => {}
        }
    }
}

/// A log message with its fields, on one line.
#[derive(Default)]
struct Message {
    text: String,
    fields: String,
}

impl Message {
    fn finish(self) -> String {
        let mut text = self.text + &self.fields;
        if let Some((end, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(end);
            text.push('…');
        }
        text
    }
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.text = format!("{value:?}");
        } else {
            let _ = write!(self.fields, " {}={value:?}", field.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn a_write_knows_the_sync_and_its_last_decisions() {
        let subscriber = tracing_subscriber::registry().with(Origins::layer());
        tracing::subscriber::with_default(subscriber, || {
            assert_eq!(Context::current("x"), Context::of_client("x"));
            let sync = tracing::info_span!(target: workers::SPANS, "sync", controller = "job", key = %"a/b");
            let _sync = sync.enter();
            for pods in 1..=4 {
                tracing::debug!(target: "steersman_controllers::job", pods, "Too few pods");
            }
            tracing::debug!(target: "steersman_client::requests", "Response");
            let write = tracing::info_span!(target: "kubernetes::writes", "write");
            let context = write.in_scope(|| Context::current("x"));
            let expected = Context {
                controller: "job".to_owned(),
                key: "a/b".to_owned(),
                messages: [2, 3, 4].map(|n| format!("Too few pods pods={n}")).to_vec(),
            };
            assert_eq!(context, expected);
        });
        assert_eq!(Context::current("y"), Context::of_client("y"));
    }
}
