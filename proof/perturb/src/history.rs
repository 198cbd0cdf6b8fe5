//! The history of a cluster: every change of every object, and the state after each change.
//!
//! It reads the server's own log instead of a watch, so faults cannot hide a change from the
//! oracles. The log of requests tells which client wrote each change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use steersman_devcluster::DevCluster;
use steersman_devcluster::requests::RequestRecord;
use steersman_devcluster::store::EventKind;

/// Resources that scenarios ignore: they change as time passes, and their number varies.
pub(crate) const IGNORED: &[&str] = &[EVENTS, "leases"];

/// Events are no changes, but waits and rules about the final state can read them.
pub(crate) const EVENTS: &str = "events";

/// Age up to which an old state still justifies a write. A controller with a current cache decides
/// first and sends the request later. After a 429 with `Retry-After: 2`, the client repeats the
/// request two seconds later, without a new decision.
const RECENT: SignedDuration = SignedDuration::from_millis(2_500);

/// Plural resource and `namespace/name` of an object.
type Id = (Arc<str>, Arc<str>);

/// All objects at one instant, and their recent versions.
#[derive(Debug, Clone, Default)]
pub struct State {
    objects: BTreeMap<Id, Arc<Value>>,
    /// Versions that were replaced or deleted in the last [`RECENT`], oldest first, each with the
    /// time of its end.
    former: VecDeque<(Timestamp, Id, Arc<Value>)>,
}

/// `namespace/name`, or only the name of a cluster-scoped object.
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

    /// The object with this `namespace/name`.
    pub fn get(&self, plural: &str, key: &str) -> Option<&Value> {
        self.objects
            .get(&(Arc::from(plural), Arc::from(key)))
            .map(|object| &**object)
    }

    /// All objects with their plural resources.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.objects
            .iter()
            .map(|((plural, _), object)| (&**plural, &**object))
    }

    /// The versions of an object that justify a write now: `object` itself, and those that were
    /// current at any instant of the last 2.5 s.
    pub fn recent_versions<'a>(
        &'a self,
        plural: &'a str,
        object: &'a Value,
    ) -> impl Iterator<Item = &'a Value> {
        let is_same = |other: &&Value| other["metadata"]["uid"] == object["metadata"]["uid"];
        let former = self
            .former
            .iter()
            .filter(move |(_, (of, _), _)| **of == *plural)
            .map(|(_, _, object)| &**object);
        former.filter(is_same).chain([object])
    }

    /// The objects of a plural resource in all versions of the last 2.5 s, deleted objects included.
    pub fn recent<'a>(&'a self, plural: &'a str) -> impl Iterator<Item = &'a Value> {
        let former = self
            .former
            .iter()
            .filter(move |(_, (of, _), _)| **of == *plural);
        former
            .map(|(_, _, object)| &**object)
            .chain(self.all(plural))
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        while self
            .former
            .front()
            .is_some_and(|(until, ..)| until.duration_until(change.at) > RECENT)
        {
            self.former.pop_front();
        }
        let id = (Arc::clone(&change.plural), Arc::clone(&change.key));
        let former = match change.kind {
            ChangeKind::Deleted => self.objects.remove(&id),
            ChangeKind::Created | ChangeKind::Updated => {
                self.objects.insert(id.clone(), Arc::clone(&change.object))
            }
        };
        self.former
            .extend(former.map(|former| (change.at, id, former)));
    }
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created.
    Created,
    /// The object was updated.
    Updated,
    /// The object was removed from the store.
    Deleted,
}

/// One change of one object.
#[derive(Debug, Clone)]
pub struct Change {
    /// Resource version of the change.
    pub revision: u64,
    /// Time at which the history read the change, a moment after the write.
    pub at: Timestamp,
    /// Plural resource.
    pub plural: Arc<str>,
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Creation, update or deletion.
    pub kind: ChangeKind,
    /// The object before the change.
    pub before: Option<Arc<Value>>,
    /// The object after the change; after a deletion, its last state.
    pub object: Arc<Value>,
    /// `User-Agent` of the client that wrote the change; empty if it is unknown.
    pub by: String,
}

impl Change {
    /// Whether the client's `User-Agent` ends in this identity, such as `deployment-controller`.
    pub fn is_by(&self, identity: &str) -> bool {
        self.by.rsplit('/').next() == Some(identity)
    }

    /// Whether this change set the deletion timestamp, or removed an object without one.
    pub fn begins_deletion(&self) -> bool {
        let marked = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let before = self.before.as_deref().is_some_and(marked);
        !before && (self.kind == ChangeKind::Deleted || marked(&self.object))
    }
}

/// Number of created and of deleted objects, by plural resource.
pub(crate) type Counts = BTreeMap<String, (i32, i32)>;

/// All changes so far, and the state after the last one.
#[derive(Default)]
pub struct History {
    position: u64,
    /// The state after the last change.
    pub state: State,
    /// All changes, oldest first.
    pub changes: Vec<Change>,
}

impl History {
    /// Reads the changes and Events since the last call. Returns whether there were any.
    pub fn advance(&mut self, cluster: &DevCluster) -> bool {
        if cluster.revision() == self.position {
            return false;
        }
        let taken = self.changes.len();
        let now = cluster.clock().now();
        let mut has_news = false;
        let changes = cluster
            .changes(self.position)
            .expect("a scenario is shorter than the history that the server keeps");
        for (plural, event) in changes {
            self.position = event.revision;
            let id: Id = (Arc::from(&*plural), Arc::clone(&event.object().key));
            if *plural == *EVENTS && event.kind != EventKind::Deleted {
                let object = Arc::new(event.object().to_value());
                self.state.objects.insert(id.clone(), object);
                has_news = true;
            }
            if IGNORED.contains(&&*plural) {
                continue;
            }
            let change = Change {
                revision: event.revision,
                at: now,
                kind: match event.kind {
                    EventKind::Added => ChangeKind::Created,
                    EventKind::Modified => ChangeKind::Updated,
                    EventKind::Deleted => ChangeKind::Deleted,
                },
                before: self.state.objects.get(&id).cloned(),
                object: Arc::new(event.object().to_value()),
                by: String::new(),
                plural: id.0,
                key: id.1,
            };
            self.state.apply(&change);
            self.changes.push(change);
        }
        has_news || self.changes.len() > taken
    }

    /// The plural resources that changed after a revision.
    pub(crate) fn plurals(&self, begin: u64) -> BTreeSet<String> {
        self.since(begin)
            .map(|change| change.plural.to_string())
            .collect()
    }

    /// The API groups of the objects that changed after a revision.
    pub(crate) fn groups(&self, begin: u64) -> BTreeSet<String> {
        let versions = self
            .since(begin)
            .filter_map(|change| change.object["apiVersion"].as_str());
        versions
            .map(|version| {
                version
                    .rsplit_once('/')
                    .map_or("", |(group, _)| group)
                    .to_owned()
            })
            .collect()
    }

    /// The number of creations and deletions so far.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        for change in &self.changes {
            let (created, deleted) = match change.kind {
                ChangeKind::Created => (1, 0),
                ChangeKind::Deleted => (0, 1),
                ChangeKind::Updated => continue,
            };
            let count = counts.entry(change.plural.to_string()).or_default();
            *count = (count.0 + created, count.1 + deleted);
        }
        counts
    }

    fn since(&self, begin: u64) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(move |change| change.revision > begin)
    }

    /// Sets the client of each change from the log of requests, as far as the log goes back. A
    /// record holds the revision that the store had reached when the request was answered. So the
    /// first write at or beyond a change's revision made the change. A change older than the first
    /// record stays without a client.
    pub fn attribute(&mut self, requests: &[RequestRecord]) {
        let writes: Vec<&RequestRecord> = requests
            .iter()
            .filter(|request| is_write(request))
            .collect();
        for change in &mut self.changes {
            let at = writes.partition_point(|request| request.revision < change.revision);
            let before = at.checked_sub(1).and_then(|before| writes.get(before));
            if let Some(request) = writes.get(at).filter(|_| before.is_some()) {
                request.user_agent.clone_into(&mut change.by);
            }
        }
    }
}

/// The revision just before the latest `changes` changes of the scenario. `of` restricts the count
/// to one plural resource. Changes up to `begin`, when the scenario started, do not count.
pub fn before_the_latest(
    cluster: &DevCluster,
    begin: u64,
    changes: usize,
    of: Option<&str>,
) -> u64 {
    let mut counted = cluster
        .changes(begin)
        .expect("a scenario is shorter than the history that the server keeps");
    counted.retain(|(plural, _)| of.is_none_or(|of| **plural == *of));
    // Nodes update their status all the time; only their creation and deletion count.
    counted.retain(|(plural, event)| match &**plural {
        "nodes" => event.kind != EventKind::Modified,
        plural => !IGNORED.contains(&plural),
    });
    let first_hidden = counted.len().saturating_sub(changes);
    counted
        .get(first_hidden)
        .map_or(cluster.revision(), |(_, event)| event.revision - 1)
}

/// Whether the request changes objects.
pub(crate) fn is_write(request: &RequestRecord) -> bool {
    matches!(
        &*request.verb,
        "create" | "update" | "patch" | "delete" | "deletecollection"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_values::clock::Clock;

    use super::*;

    #[tokio::test]
    async fn a_stale_view_lags_only_by_changes_of_the_scenario() {
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
        // (number of hidden changes, last visible revision)
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
