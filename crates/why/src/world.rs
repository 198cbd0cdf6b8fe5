//! The objects that an explanation rests on.
//!
//! An explanation never concludes anything from an object that it did not get: [`Known`] tells an
//! absent object from an unread one, and the list of an unread type is `None`.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use steersman_values::labels::Labels;
use steersman_values::resource::{CUSTOM_RESOURCE_DEFINITIONS, EVENTS, PODS, ResourceType};

use crate::{Doc, Explanation, Inside, Reason, Subject};

/// An object, its absence, or the lack of knowledge about it.
#[derive(Debug, Clone)]
pub enum Known<T> {
    /// The object.
    Yes(T),
    /// The API server has no such object.
    Absent,
    /// The object is unread, or may not be read.
    Unknown,
}

impl<T> Known<T> {
    /// The object, if it is known and exists.
    pub fn found(self) -> Option<T> {
        match self {
            Self::Yes(object) => Some(object),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Whether the API server has no such object.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// Objects of a [`Need::First`].
pub const PAGE: usize = 500;

/// A read that an explanation needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Need {
    /// The type with this group and this kind or plural name.
    Type {
        /// API group; `*` for any.
        group: String,
        /// Kind or plural name.
        name: String,
    },
    /// One object.
    Object {
        /// Its type.
        of: ResourceType,
        /// Its namespace; empty for cluster-scoped types.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// All objects of a type.
    List {
        /// The type.
        of: ResourceType,
        /// The namespace; empty for all.
        namespace: String,
        /// The field selector; empty for all.
        fields: String,
    },
    /// The first objects of a type, at most [`PAGE`].
    First {
        /// The type.
        of: ResourceType,
        /// The namespace; empty for all.
        namespace: String,
    },
    /// The objects of a type in all namespaces with some labels.
    Labelled {
        /// The type.
        of: ResourceType,
        /// The label selector.
        labels: String,
    },
}

impl Need {
    /// Whether it is about a group beside those of Kubernetes.
    fn is_custom(&self) -> bool {
        let group = match self {
            Self::Type { group, .. } => group,
            Self::Object { of, .. }
            | Self::List { of, .. }
            | Self::First { of, .. }
            | Self::Labelled { of, .. } => &*of.group,
        };
        let of_kubernetes = group.strip_suffix(".k8s.io").is_some_and(|name| {
            !name.contains('.') || name == "rbac.authorization" || name.ends_with(".apiserver")
        });
        group.contains('.') && !of_kubernetes
    }
}

/// The outcome of a read.
#[derive(Debug, Clone)]
pub enum Loaded {
    /// The type; `None` if the API server does not serve it.
    Type(Option<ResourceType>),
    /// The objects: one, or those of a list.
    Objects(Vec<Doc>),
    /// No such object.
    Absent,
    /// The caller may not read it.
    Denied,
    /// The read failed.
    Failed(String),
}

/// The answer about an object of a type, by the controllers that handle it.
pub type Explain = fn(&World, &ResourceType, &Doc) -> Explanation;

/// Objects between the one that was asked about and the last one that is followed: a Deployment, its ReplicaSet, a
/// pod, the Certificate of its Secret, and the three steps of that.
const DEPTH: usize = 8;

/// Answers below one object. Objects that name each other have many more paths than there are objects.
const ANSWERS: usize = 5_000;

/// The objects whose answers are being made, each below the one before it, and the answers below the first one.
#[derive(Default)]
struct Path {
    objects: Vec<Subject>,
    answers: usize,
}

/// The objects of an explanation, its time, and the state of a manager.
pub struct World {
    /// The time of the explanation.
    pub now: Timestamp,
    /// The manager that leads; `None` outside its process.
    pub inside: Option<Arc<dyn Inside>>,
    explain: Explain,
    path: Mutex<Path>,
    loaded: HashMap<Need, Loaded>,
    asked: Mutex<Vec<Need>>,
}

impl World {
    /// A world without objects. `explain` answers about any object.
    pub fn new(now: Timestamp, inside: Option<Arc<dyn Inside>>, explain: Explain) -> Self {
        Self {
            now,
            inside,
            explain,
            path: Mutex::default(),
            loaded: HashMap::new(),
            asked: Mutex::default(),
        }
    }

    /// Whether the manager that leads has the feature gate called `gate` off. `false` outside its process, where the
    /// gates are unknown.
    pub fn has_gate_off(&self, gate: &str) -> bool {
        let inside = self.inside.as_ref();
        inside.is_some_and(|inside| !inside.enables(gate))
    }

    /// Adds the outcome of a read.
    pub fn load(&mut self, need: Need, outcome: Loaded) {
        self.loaded.insert(need, outcome);
    }

    /// The reads that were asked for and that the world lacks.
    pub fn take_asked(&self) -> Vec<Need> {
        std::mem::take(&mut *self.asked.lock())
    }

    /// Whether reads were asked for that the world lacks.
    pub fn awaits_reads(&self) -> bool {
        !self.asked.lock().is_empty()
    }

    /// The reads that the caller may not do, or that failed, in words. Types of the built-in groups come first.
    pub fn withheld(&self) -> Vec<String> {
        self.withheld_except(|_| false)
    }

    /// The same for a question about `namespace`. Users of a namespace rarely may read the types of custom resources.
    pub fn withheld_within(&self, namespace: &str) -> Vec<String> {
        self.withheld_except(|need| {
            let is_types =
                matches!(need, Need::List { of, .. } if *of == CUSTOM_RESOURCE_DEFINITIONS);
            is_types && !namespace.is_empty()
        })
    }

    fn withheld_except(&self, is_expected: impl Fn(&Need) -> bool) -> Vec<String> {
        let mut found = BTreeSet::new();
        for (need, outcome) in &self.loaded {
            if matches!(outcome, Loaded::Denied) && is_expected(need) {
                continue;
            }
            let why = match outcome {
                Loaded::Denied => "the caller may not read them".to_owned(),
                Loaded::Failed(error) => error.clone(),
                _ => continue,
            };
            let text = match need {
                Need::Type { group, name } => format!("type {name} of group {group:?}: {why}"),
                Need::Object { of, namespace, .. }
                | Need::List { of, namespace, .. }
                | Need::First { of, namespace }
                    if !namespace.is_empty() =>
                {
                    format!("{of} in namespace {namespace}: {why}")
                }
                Need::Object { of, .. }
                | Need::List { of, .. }
                | Need::First { of, .. }
                | Need::Labelled { of, .. } => {
                    format!("{of}: {why}")
                }
            };
            found.insert((need.is_custom(), text));
        }
        found.into_iter().map(|(_, text)| text).collect()
    }

    /// The answer about `doc`, an object of type `of`, by the controllers that handle it. A chain of
    /// objects ends after a few steps, and at an object that it has.
    pub fn explain(&self, of: &ResourceType, doc: &Doc) -> Explanation {
        let subject = doc.subject(of);
        if !self.enters(&subject) {
            return Explanation::new(subject, "");
        }
        let answer = (self.explain)(self, of, doc);
        self.path.lock().objects.pop();
        answer
    }

    fn enters(&self, subject: &Subject) -> bool {
        let mut path = self.path.lock();
        if path.objects.is_empty() {
            path.answers = 0;
        }
        let is_new = path.objects.len() < DEPTH && !path.objects.contains(subject);
        let is_within = is_new && path.answers < ANSWERS;
        if is_within {
            path.objects.push(subject.clone());
            path.answers += 1;
        }
        is_within
    }

    /// The memory of `controller` about `key`. Empty outside the leader.
    pub fn memory(&self, controller: &str, key: &str) -> Vec<Reason> {
        let inside = self.inside.as_ref();
        inside
            .map(|inside| inside.memory(controller, key, self.now))
            .unwrap_or_default()
    }

    fn read(&self, need: Need) -> Option<&Loaded> {
        let known = self.loaded.get(&need);
        if known.is_none() {
            let mut asked = self.asked.lock();
            if !asked.contains(&need) {
                asked.push(need);
            }
        }
        known
    }

    /// The type with this group and this kind or plural name.
    pub fn resource(&self, group: &str, name: &str) -> Known<ResourceType> {
        let need = Need::Type {
            group: group.to_owned(),
            name: name.to_owned(),
        };
        match self.read(need) {
            Some(Loaded::Type(Some(found))) => Known::Yes(found.clone()),
            Some(Loaded::Type(None)) => Known::Absent,
            _ => Known::Unknown,
        }
    }

    /// One object.
    pub fn get(&self, of: &ResourceType, namespace: &str, name: &str) -> Known<Doc> {
        let need = Need::Object {
            of: of.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        match self.read(need) {
            Some(Loaded::Objects(found)) => {
                found.first().cloned().map_or(Known::Absent, Known::Yes)
            }
            Some(Loaded::Absent) => Known::Absent,
            _ => Known::Unknown,
        }
    }

    /// All objects of a type in `namespace`, or in all namespaces if it is empty. `None` if they are
    /// unread or may not be read.
    pub fn list(&self, of: &ResourceType, namespace: &str) -> Option<&[Doc]> {
        self.select(of, namespace, String::new())
    }

    /// The first objects of a type in `namespace`, or in all namespaces if it is empty: at most [`PAGE`], or all if these
    /// were read. `None` if they are unread or may not be read.
    pub fn first(&self, of: &ResourceType, namespace: &str) -> Option<&[Doc]> {
        let all = Need::List {
            of: of.clone(),
            namespace: namespace.to_owned(),
            fields: String::new(),
        };
        if let Some(Loaded::Objects(all)) = self.loaded.get(&all) {
            return Some(all);
        }
        self.objects(Need::First {
            of: of.clone(),
            namespace: namespace.to_owned(),
        })
    }

    /// All objects of a type in `namespace`, from those of all namespaces if these were read.
    pub fn within(&self, of: &ResourceType, namespace: &str) -> Option<Vec<&Doc>> {
        if let Some(all) = self.everywhere(of) {
            let here = all.iter().filter(|doc| doc.namespace() == namespace);
            return Some(here.collect());
        }
        Some(self.list(of, namespace)?.iter().collect())
    }

    /// The objects of a type with all `labels`, in all namespaces. `None` if they are unread or may not
    /// be read.
    pub fn labelled(&self, of: &ResourceType, labels: &Labels) -> Option<Vec<&Doc>> {
        if let Some(all) = self.everywhere(of) {
            let has = |doc: &&Doc| {
                let mut pairs = labels.iter();
                pairs.all(|(key, value)| doc.label(key) == Some(&**value))
            };
            return Some(all.iter().filter(has).collect());
        }
        let pairs = labels.iter().map(|(key, value)| format!("{key}={value}"));
        let labels = pairs.collect::<Vec<_>>().join(",");
        let need = Need::Labelled {
            of: of.clone(),
            labels,
        };
        Some(self.objects(need)?.iter().collect())
    }

    /// The objects of a type with this name, in all namespaces. `None` if they are unread or may not be read.
    pub fn named(&self, of: &ResourceType, name: &str) -> Option<Vec<&Doc>> {
        if let Some(all) = self.everywhere(of) {
            return Some(all.iter().filter(|doc| doc.name() == name).collect());
        }
        let fields = format!("metadata.name={name}");
        Some(self.select(of, "", fields)?.iter().collect())
    }

    /// The pods on the node `name`. `None` if they are unread or may not be read.
    pub fn pods_on(&self, name: &str) -> Option<Vec<&Doc>> {
        if let Some(all) = self.everywhere(&PODS) {
            let here = all.iter().filter(|pod| pod.text("/spec/nodeName") == name);
            return Some(here.collect());
        }
        let fields = format!("spec.nodeName={name}");
        Some(self.select(&PODS, "", fields)?.iter().collect())
    }

    /// The objects of a type in all namespaces, if another question has read them.
    fn everywhere(&self, of: &ResourceType) -> Option<&[Doc]> {
        let need = Need::List {
            of: of.clone(),
            namespace: String::new(),
            fields: String::new(),
        };
        match self.loaded.get(&need) {
            Some(Loaded::Objects(all)) => Some(all),
            _ => None,
        }
    }

    fn select(&self, of: &ResourceType, namespace: &str, fields: String) -> Option<&[Doc]> {
        self.objects(Need::List {
            of: of.clone(),
            namespace: namespace.to_owned(),
            fields,
        })
    }

    fn objects(&self, need: Need) -> Option<&[Doc]> {
        match self.read(need) {
            Some(Loaded::Objects(found)) => Some(found),
            // A server without the type has no objects of it.
            Some(Loaded::Absent) => Some(&[]),
            _ => None,
        }
    }

    /// The objects of a type whose controller reference has this UID.
    pub fn controlled(&self, of: &ResourceType, namespace: &str, uid: &str) -> Option<Vec<Doc>> {
        let all = self.list(of, namespace)?.iter();
        Some(
            all.filter(|doc| doc.is_controlled_by(uid))
                .cloned()
                .collect(),
        )
    }

    /// The Events about `object`, newest first.
    pub fn events(&self, object: &Doc) -> Vec<Doc> {
        // Events of cluster-scoped objects are in the namespace `default`.
        let namespace = match object.namespace() {
            "" => "default",
            namespace => namespace,
        };
        let fields = format!("involvedObject.uid={}", object.uid());
        let mut found = self
            .select(&EVENTS, namespace, fields)
            .unwrap_or_default()
            .to_vec();
        found.sort_by_key(|event| std::cmp::Reverse(event_time(event)));
        found
    }
}

/// The time of the last occurrence of an Event.
pub fn event_time(event: &Doc) -> Option<Timestamp> {
    [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ]
    .iter()
    .find_map(|at| event.time(at))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use steersman_values::resource::{CONFIG_MAPS, DEPLOYMENTS, INGRESSES};

    use super::*;

    #[test]
    fn types_of_kubernetes_come_first_among_those_that_were_not_seen() {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let list = |of: ResourceType| Need::List {
            of,
            namespace: "shop".to_owned(),
            fields: String::new(),
        };
        for number in 0..9 {
            let of = ResourceType {
                group: "a.example.com".into(),
                plural: format!("a{number}").into(),
                ..PODS.clone()
            };
            let first = Need::First {
                of,
                namespace: "shop".to_owned(),
            };
            world.load(first, Loaded::Denied);
        }
        for of in [&DEPLOYMENTS, &INGRESSES] {
            world.load(list(of.clone()), Loaded::Denied);
        }
        let types = Need::List {
            of: CUSTOM_RESOURCE_DEFINITIONS.clone(),
            namespace: String::new(),
            fields: String::new(),
        };
        world.load(types.clone(), Loaded::Denied);
        let seen = world.withheld();
        assert_eq!(seen.len(), 12);
        assert!(
            seen[..3].iter().all(|text| !text.contains("example.com")),
            "{seen:?}"
        );
        let within = world.withheld_within("shop");
        assert_eq!(within.len(), 11);
        assert!(
            !within.iter().any(|text| text.contains("customresource")),
            "{within:?}"
        );
        assert_eq!(world.withheld_within(""), seen);
        // Only a missing right is expected.
        world.load(types, Loaded::Failed("time-out".to_owned()));
        assert_eq!(world.withheld_within("shop").len(), 12);
    }

    static ANSWERED: AtomicUsize = AtomicUsize::new(0);

    fn name(number: usize) -> Doc {
        Doc::new(json!({"metadata": {"namespace": "n", "name": format!("o{number}")}}))
    }

    /// Each of 13 objects waits for all others.
    fn all(world: &World, of: &ResourceType, doc: &Doc) -> Explanation {
        ANSWERED.fetch_add(1, Ordering::Relaxed);
        for number in 0..13 {
            world.explain(of, &name(number));
        }
        Explanation::new(doc.subject(of), "")
    }

    #[test]
    fn objects_that_wait_for_each_other_have_a_bound_of_answers() {
        let world = World::new(Timestamp::UNIX_EPOCH, None, all);
        for question in 1..3 {
            world.explain(&CONFIG_MAPS, &name(0));
            assert_eq!(ANSWERED.load(Ordering::Relaxed), question * ANSWERS);
        }
    }
}
