//! Writes correlated Events to the API server, one at a time.
//!
//! As with upstream (`client-go/tools/record/event.go`), a patch therefore never overtakes the
//! creation of its Event.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use rand::Rng;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::Instant;

use steersman_client::{ApiClient, ApiError, Category, PatchKind, Target};
use steersman_values::clock::{Clock, whole_seconds};
use steersman_values::resource;

use super::Occurrence;
use super::correlator::{Correlated, Correlator, Moment, Record};
use crate::tasks::CancellationToken;

/// The number of attempts for one Event while the API server is unreachable, and the pause between
/// them. Upstream: `maxTriesPerEvent` and `defaultSleepDuration`.
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);
/// Time limit for queued Events at shutdown. Events are best effort, so the process does not wait
/// longer for them.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

/// The task that sends the Events of one component.
pub(super) struct Sender {
    /// It stands in `source.component` and `reportingComponent`.
    component: &'static str,
    client: ApiClient,
    clock: Clock,
    stop: CancellationToken,
    /// One per component, as upstream has one per broadcaster: limits do not span components.
    correlator: Correlator,
}

impl Sender {
    pub(super) fn new(
        component: &'static str,
        client: ApiClient,
        clock: Clock,
        stop: CancellationToken,
    ) -> Self {
        Self {
            component,
            client,
            clock,
            stop,
            correlator: Correlator::new(),
        }
    }

    /// Sends Events until all recorders are dropped or `stop` is cancelled. After `stop` it sends
    /// the queued Events, for at most [`SHUTDOWN_LIMIT`].
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Occurrence>) {
        let stop = self.stop.clone();
        // A limit for all queued Events together, since each could take the tries of an outage.
        let late = async {
            stop.cancelled().await;
            tokio::time::sleep(SHUTDOWN_LIMIT).await;
        };
        tokio::select! {
            () = self.drain(&mut queue) => {}
            () = late => tracing::warn!(component = self.component, queued = queue.len(), "events not sent before shutdown"),
        }
    }

    /// Sends Events one after another. After `stop` the queue takes no more, and its rest is sent.
    async fn drain(&mut self, queue: &mut mpsc::Receiver<Occurrence>) {
        let stop = self.stop.clone();
        loop {
            let next = tokio::select! {
                // `stop` first: otherwise a full queue would keep the branch of the queue ready for
                // ever.
                biased;
                () = stop.cancelled(), if !queue.is_closed() => {
                    queue.close();
                    continue;
                }
                next = queue.recv() => next,
            };
            let Some(occurrence) = next else { return };
            let now = Moment {
                wall: self.clock.now(),
                runtime: Instant::now(),
            };
            match self.correlator.correlate(&occurrence, now) {
                Correlated::Post(record) => self.write(&occurrence, &record, false).await,
                Correlated::Patch(record) => self.write(&occurrence, &record, true).await,
                Correlated::Drop => {}
            }
        }
    }

    /// Writes one Event, with retries. The body of the answer is ignored: it would only repeat the
    /// sent fields that correlation needs. Only an error without an answer is worth a retry; later
    /// Events wait meanwhile. Upstream: `recordToSink` and `recordEvent`.
    async fn write(&self, occurrence: &Occurrence, record: &Record, patch: bool) {
        let object = &occurrence.object;
        let reason = &*occurrence.reason;
        for tried in 1..=TRIES {
            let Err(error) = self.try_write(occurrence, record, patch).await else {
                return;
            };
            let category = Category::of(&error).as_str();
            match &error {
                // The answer to an earlier try was lost, or the namespace takes no new objects.
                ApiError::Status { .. }
                    if error.is_already_exists() || error.has_cause("NamespaceTerminating") =>
                {
                    return tracing::debug!(?object, reason, %error, "server rejected event (will not retry!)");
                }
                // The term has ended, and the next leader reports by itself.
                ApiError::Fenced { .. } => {
                    return tracing::debug!(?object, reason, %error, "event not sent");
                }
                ApiError::Status { .. } | ApiError::Refused(_) | ApiError::Path(_) => {
                    return tracing::error!(?object, reason, category, %error, "server rejected event (will not retry!)");
                }
                // Upstream logs each try as an error. Here only the last one is, because the others
                // are repeated.
                ApiError::Transport { .. } | ApiError::Timeout { .. } | ApiError::Decode { .. } => {
                    tracing::warn!(?object, reason, category, %error, "unable to write event (may retry after sleeping)");
                }
            }
            if tried == TRIES {
                return tracing::error!(
                    ?object,
                    reason,
                    category,
                    "unable to write event (retry limit exceeded!)"
                );
            }
            // The first pause is random, so that clients do not all retry at once after an outage
            // of the API server.
            let pause = if tried == 1 {
                PAUSE.mul_f64(rand::rng().random())
            } else {
                PAUSE
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    return tracing::error!(?object, reason, category, "unable to write event (recorder is shut down)");
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Writes one Event once. A patch of an expired Event becomes a creation.
    async fn try_write(
        &self,
        occurrence: &Occurrence,
        record: &Record,
        patch: bool,
    ) -> Result<Bytes, ApiError> {
        let namespace = match &*occurrence.object.namespace {
            // The API has no Events outside namespaces. Upstream: `makeEvent`.
            "" => "default",
            namespace => namespace,
        };
        let events = Target {
            resource: &resource::EVENTS,
            namespace: Some(namespace),
            name: None,
            subresource: None,
        };
        if patch {
            let event = Target {
                name: Some(&record.name),
                ..events
            };
            match self
                .client
                // The patch lacks a resource version, so concurrent patches cannot conflict.
                .patch(event, PatchKind::Strategic, &Patch::new(record))
                .await
            {
                // The Event has expired: create it again with the same name and the full count.
                Err(error) if error.is_not_found() => {}
                outcome => return outcome,
            }
        }
        self.client
            .create(
                events,
                &Event::new(self.component, namespace, occurrence, record),
            )
            .await
    }
}

/// The fields that upstream's `eventObserve` changes in an Event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Patch<'a> {
    count: u32,
    last_timestamp: Timestamp,
    message: &'a str,
}

impl<'a> Patch<'a> {
    fn new(record: &'a Record) -> Self {
        Self {
            count: record.count,
            last_timestamp: whole_seconds(record.last),
            message: &record.message,
        }
    }
}

/// An Event of the core group. Upstream: `makeEvent` and `generateEvent`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
    involved_object: InvolvedObject<'a>,
    reason: &'a str,
    message: &'a str,
    source: Source<'a>,
    first_timestamp: Timestamp,
    last_timestamp: Timestamp,
    count: u32,
    #[serde(rename = "type")]
    event_type: &'static str,
    /// Always null: it belongs to Events of `events.k8s.io`.
    event_time: (),
    reporting_component: &'a str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

/// The object of an Event. Empty fields are left out, as Go's encoder does.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InvolvedObject<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    api_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    field_path: &'a str,
}

/// The reporter. `host` is set by kubelets only.
#[derive(Serialize)]
struct Source<'a> {
    component: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'a str,
}

impl<'a> Event<'a> {
    fn new(
        component: &'static str,
        namespace: &'a str,
        occurrence: &'a Occurrence,
        record: &'a Record,
    ) -> Self {
        let object = &occurrence.object;
        let origin = &occurrence.origin;
        Self {
            kind: "Event",
            api_version: "v1",
            metadata: Metadata {
                name: &record.name,
                namespace,
            },
            involved_object: InvolvedObject {
                kind: &object.kind,
                namespace: &object.namespace,
                name: &object.name,
                uid: &object.uid,
                api_version: &object.api_version,
                resource_version: &object.resource_version,
                field_path: &origin.field_path,
            },
            reason: &occurrence.reason,
            message: &record.message,
            source: Source {
                component,
                host: &origin.host,
            },
            // The API keeps whole seconds of these times.
            first_timestamp: whole_seconds(record.first),
            last_timestamp: whole_seconds(record.last),
            count: record.count,
            event_type: occurrence.kind.as_str(),
            event_time: (),
            // Upstream leaves this field empty in combined Events.
            reporting_component: if record.combined { "" } else { component },
            reporting_instance: if record.combined { "" } else { &origin.host },
        }
    }
}
