//! The Events of the scheduler: objects of `events.k8s.io`, in which equal ones form a series.
//!
//! record() -> queue -> [`Writer`]: POST of a new Event, PATCH of the second one of a series
//!
//! Upstream: `client-go/tools/events`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{Object, ObjectKey, ObjectReference, Uid};
use steersman_runtime::events::{EventType, unique_name};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::clock::{Clock, micro_time};
use steersman_values::resource::ResourceType;
use tokio::sync::mpsc;

use crate::pod::SimPod;

const COMPONENT: &str = "default-scheduler";
/// A real scheduler adds the name of its host.
const INSTANCE: &str = "default-scheduler-simulated";
/// Capacity of the queue.
const QUEUE: usize = 100_000;
/// The longest note, in bytes. Upstream: `NoteLengthLimit`.
const LONGEST_NOTE: usize = 1024;
/// Time without a further Event after which a series has ended. Upstream: `finishTime`.
const FINISH: Duration = Duration::from_secs(6 * 60);

static EVENTS: ResourceType = ResourceType {
    group: Cow::Borrowed("events.k8s.io"),
    version: Cow::Borrowed("v1"),
    kind: Cow::Borrowed("Event"),
    plural: Cow::Borrowed("events"),
    namespaced: true,
};

/// Records the Events of the scheduler. It never blocks, and drops Events if its queue is full.
pub(crate) struct Recorder {
    queue: mpsc::Sender<Occurrence>,
    clock: Clock,
}

/// One attempt to schedule a pod, or the end of a pod that makes room.
struct Occurrence {
    pod: ObjectReference,
    key: Key,
    outcome: Outcome,
    note: String,
    at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Bound,
    Failed,
    Preempted,
}

impl Outcome {
    /// Type, reason and action of its Events.
    fn words(self) -> (EventType, &'static str, &'static str) {
        match self {
            Self::Bound => (EventType::Normal, "Scheduled", "Binding"),
            Self::Failed => (EventType::Warning, "FailedScheduling", "Scheduling"),
            Self::Preempted => (EventType::Normal, "Preempted", "Preempting"),
        }
    }
}

/// Failures with equal keys form a series: those of one version of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    pod: ObjectKey,
    uid: Uid,
    version: String,
}

impl Recorder {
    /// Writes the Events from a task of `tasks`, until `stop` is cancelled.
    pub(crate) fn start(
        client: &ApiClient,
        clock: &Clock,
        tasks: &Tasks,
        stop: &CancellationToken,
    ) -> Self {
        let (queue, occurrences) = mpsc::channel(QUEUE);
        let writer = Writer {
            client: client.clone(),
            clock: clock.clone(),
            failures: HashMap::new(),
        };
        let run = writer.run(occurrences, stop.clone());
        tasks.spawn("events of the simulated scheduler", run);
        let clock = clock.clone();
        Self { queue, clock }
    }

    /// The pod is bound to `node`.
    pub(crate) fn scheduled(&self, pod: &SimPod, node: &str) {
        let note = format!("Successfully assigned {} to {node}", pod.key());
        self.record(pod, Outcome::Bound, note);
    }

    /// The pod fits no node.
    pub(crate) fn failed(&self, pod: &SimPod, message: &str) {
        self.record(pod, Outcome::Failed, truncated(message));
    }

    /// The victim makes room for the pod on its node. kube-scheduler 1.36 means to name the pod as
    /// `related` too, but passes a wrapper without a kind.
    pub(crate) fn preempted(&self, victim: &SimPod, pod: &SimPod, node: &str) {
        let note = format!("Preempted by pod {} on node {node}", pod.meta().uid);
        self.record(victim, Outcome::Preempted, note);
    }

    fn record(&self, pod: &SimPod, outcome: Outcome, note: String) {
        let reference = ObjectReference::of(pod);
        let occurrence = Occurrence {
            key: Key {
                pod: pod.key(),
                uid: pod.meta().uid.clone(),
                version: reference.resource_version.clone(),
            },
            pod: reference,
            outcome,
            note,
            at: self.clock.now(),
        };
        if let Err(error) = self.queue.try_send(occurrence) {
            tracing::debug!(pod = %pod.key(), %error, "dropped an event of the scheduler");
        }
    }
}

/// The note of a message, which ends in ` ...` if it is too long. Upstream: `truncateMessage`.
fn truncated(message: &str) -> String {
    const MARK: &str = " ...";
    if message.len() <= LONGEST_NOTE {
        return message.to_owned();
    }
    let ends = (0..=LONGEST_NOTE - MARK.len()).rev();
    let mut parts = ends.filter_map(|end| message.get(..end));
    format!("{}{MARK}", parts.next().unwrap_or_default())
}

/// The Event about a failure that may be repeated.
struct Failure {
    /// Name of the Event.
    name: String,
    count: u32,
    last: Timestamp,
    /// Whether the Event lacks the latest count.
    is_behind: bool,
}

struct Writer {
    client: ApiClient,
    clock: Clock,
    failures: HashMap<Key, Failure>,
}

impl Writer {
    async fn run(mut self, mut queue: mpsc::Receiver<Occurrence>, stop: CancellationToken) {
        let mut ends = tokio::time::interval(FINISH);
        loop {
            let done = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                next = queue.recv() => match next {
                    Some(occurrence) => self.write(occurrence).await,
                    None => return,
                },
                _ = ends.tick() => self.finish().await,
            };
            if let Err(error) = done {
                tracing::warn!(%error, "event of the scheduler not written");
            }
        }
    }

    async fn write(&mut self, occurrence: Occurrence) -> Result<(), ApiError> {
        let Occurrence { key, at, .. } = &occurrence;
        if let Some(failure) = self.failures.get_mut(key)
            && occurrence.outcome == Outcome::Failed
        {
            failure.count += 1;
            failure.last = *at;
            failure.is_behind = failure.count > 2;
            if failure.is_behind {
                // As upstream, further ones are counted and written when the series ends.
                return Ok(());
            }
            return patch(&self.client, key, failure).await;
        }
        let name = unique_name(&occurrence.pod.name, *at);
        let target = target(&key.pod, None);
        let event = event(&name, &occurrence);
        self.client.create(target, &event).await?;
        if occurrence.outcome == Outcome::Failed {
            let failure = Failure {
                name,
                count: 1,
                last: *at,
                is_behind: false,
            };
            self.failures.insert(occurrence.key, failure);
        }
        Ok(())
    }

    /// Forgets the failures that were not repeated for [`FINISH`], after their counts are written.
    async fn finish(&mut self) -> Result<(), ApiError> {
        let now = self.clock.now();
        let limit = SignedDuration::try_from(FINISH).unwrap_or(SignedDuration::MAX);
        let is_over = |failure: &Failure| now.duration_since(failure.last) >= limit;
        let ended = self.failures.extract_if(|_, failure| is_over(failure));
        let ended: Vec<(Key, Failure)> = ended.filter(|(_, failure)| failure.is_behind).collect();
        for (key, failure) in ended {
            match patch(&self.client, &key, &failure).await {
                // The Event has expired, or its namespace is gone.
                Err(error) if error.is_not_found() => {}
                written => written?,
            }
        }
        Ok(())
    }
}

/// Writes the count of a series.
async fn patch(client: &ApiClient, key: &Key, failure: &Failure) -> Result<(), ApiError> {
    let last = micro_time(failure.last);
    let series = json!({"series": {"count": failure.count, "lastObservedTime": last}});
    let target = target(&key.pod, Some(&failure.name));
    client
        .patch(target, PatchKind::Strategic, &series)
        .await
        .map(drop)
}

fn target<'a>(pod: &'a ObjectKey, name: Option<&'a str>) -> Target<'a> {
    Target {
        resource: &EVENTS,
        namespace: Some(pod.namespace.as_str()),
        name,
        subresource: None,
    }
}

fn event(name: &str, occurrence: &Occurrence) -> Value {
    let (kind, reason, action) = occurrence.outcome.words();
    let pod = &occurrence.pod;
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": pod.namespace },
        "eventTime": micro_time(occurrence.at),
        "reportingController": COMPONENT,
        "reportingInstance": INSTANCE,
        "action": action,
        "reason": reason,
        "regarding": {
            "kind": pod.kind,
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "apiVersion": pod.api_version,
            "resourceVersion": pod.resource_version
        },
        "note": occurrence.note,
        "type": kind.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_to_the_limit_of_notes() {
        let longest = "m".repeat(LONGEST_NOTE);
        assert_eq!(truncated(&longest), longest);
        let cut = truncated(&"ü".repeat(LONGEST_NOTE));
        assert_eq!(cut.len(), LONGEST_NOTE);
        assert!(cut.ends_with("ü ..."));
    }
}
