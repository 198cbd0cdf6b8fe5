//! Everything that happened in a cluster, from the server's own log, and the state after each
//! change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use steersman_devcluster::DevCluster;
use steersman_devcluster::requests::RequestRecord;
use steersman_devcluster::store::EventKind;

/// Resources that are no part of the story: they tell of time passing.
pub(crate) const ASIDE: &[&str] = &["events", "leases"];

/// What was so this short a time ago may be what somebody acts on who knows all that can be known:
/// a request is under way that was decided then, and where the server asks for it (429), the client
/// sends it again two seconds later without asking anybody.
const LATELY: SignedDuration = SignedDuration::from_millis(2_500);

/// Plural resource and `namespace/name`.
type Id = (Arc<str>, Arc<str>);

/// The objects at one instant, and what became of them lately.
#[derive(Debug, Clone, Default)]
pub struct State {
    objects: BTreeMap<Id, Arc<Value>>,
    /// What was replaced or went lately, and when.
    former: VecDeque<(Timestamp, Id, Arc<Value>)>,
}

/// `namespace/name`, or the name of an object without a namespace.
pub fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match (text("namespace"), text("name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

impl State {
    /// All objects of a plural resource.
    pub fn all<'a>(&'a self, plural: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects
            .range((Arc::from(plural), Arc::from(""))..)
            .take_while(move |((of, _), _)| **of == *plural)
            .map(|(_, object)| &**object)
    }

    /// The object with that `namespace/name`.
    pub fn get(&self, plural: &str, key: &str) -> Option<&Value> {
        self.objects
            .get(&(Arc::from(plural), Arc::from(key)))
            .map(|object| &**object)
    }

    /// All objects with their resources.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.objects
            .iter()
            .map(|((plural, _), object)| (&**plural, &**object))
    }

    /// The object as it is now, and as it was at any instant lately.
    pub fn lately<'a>(
        &'a self,
        plural: &'a str,
        object: &'a Value,
    ) -> impl Iterator<Item = &'a Value> {
        let is_it = |other: &&Value| other["metadata"]["uid"] == object["metadata"]["uid"];
        let former = self
            .former
            .iter()
            .filter(move |(_, (of, _), _)| **of == *plural)
            .map(|(_, _, object)| &**object);
        former.filter(is_it).chain([object])
    }

    pub(crate) fn apply(&mut self, frame: &Frame) {
        while self
            .former
            .front()
            .is_some_and(|(until, ..)| until.duration_until(frame.at) > LATELY)
        {
            self.former.pop_front();
        }
        let id = (Arc::clone(&frame.plural), Arc::clone(&frame.key));
        let former = match frame.happened {
            Happened::Deleted => self.objects.remove(&id),
            Happened::Created | Happened::Changed => {
                self.objects.insert(id.clone(), Arc::clone(&frame.object))
            }
        };
        self.former
            .extend(former.map(|former| (frame.at, id, former)));
    }
}

/// What became of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// It appeared.
    Created,
    /// It changed.
    Changed,
    /// It went away.
    Deleted,
}

/// One change.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Its revision.
    pub revision: u64,
    /// When it was seen, which is a moment later.
    pub at: Timestamp,
    /// Plural resource.
    pub plural: Arc<str>,
    /// `namespace/name`.
    pub key: Arc<str>,
    /// What became of the object.
    pub happened: Happened,
    /// The object before.
    pub before: Option<Arc<Value>>,
    /// The object afterwards; its last state when it was deleted.
    pub object: Arc<Value>,
    /// The `User-Agent` of who did it; empty when that is not known.
    pub by: String,
}

impl Frame {
    /// Whether a client with this last part of its `User-Agent` did it.
    pub fn is_by(&self, identity: &str) -> bool {
        self.by.rsplit('/').next() == Some(identity)
    }

    /// Whether it began the end of the object: it was marked for deletion, or went away unmarked.
    pub fn begins_deletion(&self) -> bool {
        let marked = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let before = self.before.as_deref().is_some_and(marked);
        !before && (self.happened == Happened::Deleted || marked(&self.object))
    }
}

/// How many objects of each resource were created and deleted.
pub(crate) type Counts = BTreeMap<String, (i32, i32)>;

/// A film under way.
#[derive(Default)]
pub(crate) struct Film {
    position: u64,
    pub(crate) state: State,
    pub(crate) frames: Vec<Frame>,
}

impl Film {
    /// Takes what happened since the last time; whether anything did.
    pub(crate) fn advance(&mut self, cluster: &DevCluster) -> bool {
        if cluster.revision() == self.position {
            return false;
        }
        let (taken, now) = (self.frames.len(), cluster.clock().now());
        let changes = cluster
            .changes(self.position)
            .expect("a story is shorter than the history of the server");
        for (plural, event) in changes {
            self.position = event.revision;
            if ASIDE.contains(&&*plural) {
                continue;
            }
            let id: (Arc<str>, Arc<str>) = (Arc::from(plural), Arc::clone(&event.object().key));
            let frame = Frame {
                revision: event.revision,
                at: now,
                happened: match event.kind {
                    EventKind::Added => Happened::Created,
                    EventKind::Modified => Happened::Changed,
                    EventKind::Deleted => Happened::Deleted,
                },
                before: self.state.objects.get(&id).cloned(),
                object: Arc::new(event.object().to_value()),
                by: String::new(),
                plural: id.0,
                key: id.1,
            };
            self.state.apply(&frame);
            self.frames.push(frame);
        }
        self.frames.len() > taken
    }

    /// The plural resources of all that happened after a revision.
    pub(crate) fn plurals(&self, begin: u64) -> BTreeSet<String> {
        self.since(begin)
            .map(|frame| frame.plural.to_string())
            .collect()
    }

    /// The API groups of all that happened after a revision.
    pub(crate) fn groups(&self, begin: u64) -> BTreeSet<String> {
        let versions = self
            .since(begin)
            .filter_map(|frame| frame.object["apiVersion"].as_str());
        versions
            .map(|version| {
                version
                    .rsplit_once('/')
                    .map_or("", |(group, _)| group)
                    .to_owned()
            })
            .collect()
    }

    /// The creations and deletions so far.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        for frame in &self.frames {
            let (created, deleted) = match frame.happened {
                Happened::Created => (1, 0),
                Happened::Deleted => (0, 1),
                Happened::Changed => continue,
            };
            let count = counts.entry(frame.plural.to_string()).or_default();
            *count = (count.0 + created, count.1 + deleted);
        }
        counts
    }

    fn since(&self, begin: u64) -> impl Iterator<Item = &Frame> {
        self.frames
            .iter()
            .filter(move |frame| frame.revision > begin)
    }

    /// Writes down who did what, as far as the log of requests goes back.
    pub(crate) fn attribute(&mut self, requests: &[RequestRecord]) {
        let writes: Vec<&RequestRecord> = requests
            .iter()
            .filter(|request| is_write(request))
            .collect();
        for frame in &mut self.frames {
            let at = writes.partition_point(|request| request.revision < frame.revision);
            let before = at.checked_sub(1).and_then(|before| writes.get(before));
            if let Some(request) = writes.get(at).filter(|_| before.is_some()) {
                request.user_agent.clone_into(&mut frame.by);
            }
        }
    }
}

/// The revision before the latest so many changes that belong to the story, of those after `begin`
/// and, unless it is `None`, of one resource.
pub(crate) fn before_the_latest(
    cluster: &DevCluster,
    begin: u64,
    changes: usize,
    of: Option<&str>,
) -> u64 {
    let mut story = cluster
        .changes(begin)
        .expect("a story is shorter than the history of the server");
    story.retain(|(plural, _)| of.is_none_or(|of| **plural == *of));
    // Nodes report all the time; what counts is whether they are there.
    story.retain(|(plural, event)| match &**plural {
        "nodes" => event.kind != EventKind::Modified,
        plural => !ASIDE.contains(&plural),
    });
    let first_hidden = story.len().saturating_sub(changes);
    story
        .get(first_hidden)
        .map_or(cluster.revision(), |(_, event)| event.revision - 1)
}

pub(crate) fn is_write(request: &RequestRecord) -> bool {
    matches!(
        &*request.verb,
        "create" | "update" | "patch" | "delete" | "deletecollection"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_runtime::clock::Clock;

    use super::*;

    #[tokio::test]
    async fn a_view_lags_by_changes_of_the_story_alone() {
        let cluster = DevCluster::new(Clock::runtime(jiff::Timestamp::UNIX_EPOCH));
        let create = async |kind: &str, api: &str, name: &str| {
            let object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default"}});
            cluster.create(object).await.unwrap();
            cluster.revision()
        };
        let begin = cluster.revision();
        let first = create("ConfigMap", "v1", "a").await;
        create("Lease", "coordination.k8s.io/v1", "aside").await;
        let second = create("ConfigMap", "v1", "b").await;
        let last = create("Lease", "coordination.k8s.io/v1", "too").await;
        // (changes that are not shown, what is)
        for (changes, shown) in [(0, last), (1, second - 1), (2, first - 1), (9, first - 1)] {
            assert_eq!(
                before_the_latest(&cluster, begin, changes, None),
                shown,
                "{changes}"
            );
        }
        let other = create("Secret", "v1", "a").await;
        for (plural, shown) in [
            ("configmaps", second - 1),
            ("secrets", other - 1),
            ("pods", other),
        ] {
            assert_eq!(
                before_the_latest(&cluster, begin, 1, Some(plural)),
                shown,
                "{plural}"
            );
        }
        assert!(first > begin);
    }
}
