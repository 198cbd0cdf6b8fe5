//! The canonical form of a state: a number that two states share if they differ only by names and
//! times.
//!
//! pieces (objects, caches, events, requests, queue keys) -> names replaced by colours -> hash
//!
//! UIDs, generated names and addresses are identities of objects. A colour is a hash of all that a
//! state says about an object, with the colours of other objects in place of their identities.
//! Refinement repeats this, so two pods get the same colour only if all of the state tells no
//! difference between them. Owner references form trees, for which refinement is exact.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use steersman_perturb::{State, key_of};
use steersman_why::KeyState;

use crate::wire;

/// Rounds of refinement: one more than the longest chain of references, Deployment to pod.
const ROUNDS: usize = 4;

/// A text with identities of objects in it.
struct Piece(Vec<Segment>);

enum Segment {
    Text(u64),
    /// Number of the object, and which of its identities.
    Identity(usize, usize),
}

/// Collects the pieces of one state.
#[derive(Default)]
pub(crate) struct Picture {
    texts: Vec<String>,
    /// By UID: other identities and all resource versions.
    objects: BTreeMap<String, (BTreeSet<String>, BTreeSet<u64>)>,
    folds_nodes: bool,
}

impl Picture {
    /// `folds_nodes`: whether names of nodes are identities, too.
    pub(crate) fn new(folds_nodes: bool) -> Self {
        Self {
            folds_nodes,
            ..Self::default()
        }
    }

    /// Adds the objects of the server, and the caches, events and requests of the manager.
    pub(crate) fn take(&mut self, server: &State, wire: &wire::State) {
        let objects = server.iter().filter(|(plural, _)| *plural != "events");
        let objects: Vec<(&str, &Value)> = objects.collect();
        objects.iter().for_each(|(_, object)| self.meet(object));
        for watch in wire.watches.values() {
            watch.cache.values().for_each(|object| self.meet(object));
            watch
                .pending
                .iter()
                .for_each(|event| self.meet(&event.object));
        }
        for since in wire.since.values() {
            let former = since
                .delivered
                .iter()
                .filter_map(|(_, former)| former.as_ref());
            former.for_each(|object| self.meet(object));
        }
        for held in &wire.requests {
            self.meet(&held.asked.body);
            self.meet_precondition(&held.asked.body["preconditions"]);
        }
        let ranks = self.ranks();
        for (plural, object) in objects {
            self.texts
                .push(format!("server {plural} {}", masked(object, &ranks)));
        }
        for (name, watch) in &wire.watches {
            self.take_watch(name, watch, wire, &ranks);
        }
        for held in &wire.requests {
            let body = masked(&held.asked.body, &ranks);
            let label = held.asked.label();
            let query = &held.asked.query;
            self.texts
                .push(format!("held {label}?{query} {:?} {body}", held.handled));
        }
        for (identity, since) in &wire.since {
            for (watch, former) in &since.delivered {
                let former = former.as_ref().map(|former| masked(former, &ranks));
                self.texts
                    .push(format!("since {identity} {watch} {former:?}"));
            }
            for (label, status) in &since.answered {
                self.texts
                    .push(format!("answered {identity} {label} {status}"));
            }
        }
    }

    fn take_watch(
        &mut self,
        name: &str,
        watch: &wire::Watch,
        wire: &wire::State,
        ranks: &BTreeMap<u64, String>,
    ) {
        for object in watch.cache.values() {
            self.texts
                .push(format!("cache {name} {}", masked(object, ranks)));
        }
        // Events of one object follow each other; the number tells their order.
        for (number, event) in watch.pending.iter().enumerate() {
            let fate = version(&event.object["metadata"]).and_then(|rv| wire.fates.get(&rv));
            let object = masked(&event.object, ranks);
            self.texts.push(format!(
                "event {name} {number} {} {fate:?} {object}",
                event.kind
            ));
        }
    }

    /// Adds only the objects of the server, and former versions of some.
    pub(crate) fn take_server(&mut self, server: &State, former: &[&Value]) {
        let objects = server.iter().filter(|(plural, _)| *plural != "events");
        let objects: Vec<(&str, &Value)> = objects.collect();
        objects.iter().for_each(|(_, object)| self.meet(object));
        former.iter().for_each(|object| self.meet(object));
        let ranks = self.ranks();
        let present = objects.into_iter();
        let present =
            present.map(|(plural, object)| format!("{plural} {}", masked(object, &ranks)));
        let former = former.iter();
        let former = former.map(|object| format!("former {}", masked(object, &ranks)));
        self.texts.extend(present.chain(former));
    }

    /// Adds the states of queue keys. Durations are left out.
    pub(crate) fn take_key(&mut self, key: &str, states: &[KeyState]) {
        for state in states {
            self.texts.push(format!(
                "key {} {key} {} {} {} {} {:?} {} {}",
                state.controller,
                state.queued.is_some(),
                state.running.is_some(),
                state.delayed.is_some(),
                state.failure.is_some(),
                state.awaits_cache,
                state.creations,
                state.deletions,
            ));
        }
    }

    /// Adds any other text.
    pub(crate) fn take_text(&mut self, text: String) {
        self.texts.push(text);
    }

    /// Computes the colours of all objects.
    pub(crate) fn coloured(self) -> Coloured {
        let mut identities = Vec::new();
        for (number, (uid, (names, _))) in self.objects.iter().enumerate() {
            let all = std::iter::once(uid).chain(names);
            identities.extend(
                all.enumerate()
                    .map(|(which, name)| (name.clone(), number, which)),
            );
        }
        let pieces = self
            .texts
            .iter()
            .map(|text| segments(text, &identities))
            .collect();
        let mut coloured = Coloured {
            colours: vec![0; self.objects.len()],
            identities,
            pieces,
        };
        (0..ROUNDS).for_each(|_| coloured.refine());
        coloured
    }

    /// Learns the identities and versions of an object.
    fn meet(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let Some(uid) = metadata["uid"].as_str() else {
            return;
        };
        let (names, versions) = self.objects.entry(uid.to_owned()).or_default();
        versions.extend(version(metadata));
        let is_folded = self.folds_nodes && object["kind"] == "Node";
        if metadata["generateName"].is_string() || is_folded {
            names.extend(metadata["name"].as_str().map(str::to_owned));
        }
        names.extend(object["status"]["podIP"].as_str().map(str::to_owned));
    }

    fn meet_precondition(&mut self, precondition: &Value) {
        if let Some(uid) = precondition["uid"].as_str() {
            let (_, versions) = self.objects.entry(uid.to_owned()).or_default();
            versions.extend(version(precondition));
        }
    }

    /// The age of each version among the versions of its object; 0 is the newest.
    fn ranks(&self) -> BTreeMap<u64, String> {
        let mut ranks = BTreeMap::new();
        for (_, versions) in self.objects.values() {
            let newest_first = versions.iter().rev().enumerate();
            ranks.extend(newest_first.map(|(age, version)| (*version, format!("v{age}"))));
        }
        ranks
    }
}

/// The pieces of a state with the colours of its objects.
pub(crate) struct Coloured {
    colours: Vec<u64>,
    /// Text, number of the object, and which of its identities.
    identities: Vec<(String, usize, usize)>,
    pieces: Vec<Piece>,
}

impl Coloured {
    /// The number of the state.
    pub(crate) fn id(&self) -> u128 {
        let mut hashes: Vec<u64> = self
            .pieces
            .iter()
            .map(|piece| self.hash_of(piece, None))
            .collect();
        hashes.sort_unstable();
        let [high, low] = [1_u8, 2].map(|salt| hash(&(salt, &hashes)));
        (u128::from(high) << 64) | u128::from(low)
    }

    /// A text with colours in place of identities: equal for acts on pods without a difference.
    pub(crate) fn fold(&self, text: &str) -> u64 {
        self.hash_of(&segments(text, &self.identities), None)
    }

    fn refine(&mut self) {
        let mut views: Vec<Vec<u64>> = vec![Vec::new(); self.colours.len()];
        for piece in &self.pieces {
            let mentioned: BTreeSet<usize> = piece
                .0
                .iter()
                .filter_map(|segment| match segment {
                    Segment::Identity(number, _) => Some(*number),
                    Segment::Text(_) => None,
                })
                .collect();
            for number in mentioned {
                views[number].push(self.hash_of(piece, Some(number)));
            }
        }
        for (colour, view) in self.colours.iter_mut().zip(&mut views) {
            view.sort_unstable();
            *colour = hash(view);
        }
    }

    /// The hash of a piece as `viewer` sees it: its own identities are marked.
    fn hash_of(&self, piece: &Piece, viewer: Option<usize>) -> u64 {
        let mut hasher = DefaultHasher::new();
        for segment in &piece.0 {
            match segment {
                Segment::Text(text) => text.hash(&mut hasher),
                Segment::Identity(number, which) if viewer == Some(*number) => {
                    ("self", which).hash(&mut hasher);
                }
                Segment::Identity(number, which) => {
                    (self.colours[*number], which).hash(&mut hasher);
                }
            }
        }
        hasher.finish()
    }
}

/// A number of a value, the same in every run.
pub(crate) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn segments(text: &str, identities: &[(String, usize, usize)]) -> Piece {
    let mut found: Vec<(usize, usize, usize, usize)> = Vec::new();
    for (name, number, which) in identities {
        let places = text.match_indices(name.as_str());
        found.extend(places.map(|(at, _)| (at, name.len(), *number, *which)));
    }
    found.sort_unstable();
    let mut segments = Vec::new();
    let mut end = 0;
    for (at, length, number, which) in found {
        if at < end {
            continue;
        }
        segments.push(Segment::Text(hash(&&text[end..at])));
        segments.push(Segment::Identity(number, which));
        end = at + length;
    }
    segments.push(Segment::Text(hash(&&text[end..])));
    Piece(segments)
}

fn version(metadata: &Value) -> Option<u64> {
    metadata["resourceVersion"].as_str()?.parse().ok()
}

/// The object as text without times, and with ages in place of versions.
fn masked(object: &Value, ranks: &BTreeMap<u64, String>) -> String {
    let mut object = object.clone();
    mask(&mut object, ranks);
    object.sort_all_objects();
    object.to_string()
}

fn mask(value: &mut Value, ranks: &BTreeMap<u64, String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (name.as_str(), &*field) {
                    ("resourceVersion", Value::String(version)) => {
                        let rank = version
                            .parse()
                            .ok()
                            .and_then(|version: u64| ranks.get(&version));
                        *field = rank.map_or_else(|| "old".into(), |rank| rank.as_str().into());
                    }
                    _ => mask(field, ranks),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, ranks)),
        Value::String(text) if text.len() >= 20 && text.parse::<Timestamp>().is_ok() => {
            "time".clone_into(text);
        }
        _ => {}
    }
}

/// The keys of all objects that the server or a cache has.
pub(crate) fn keys(server: &State, wire: &wire::State) -> BTreeSet<String> {
    let of_server = server.iter().filter(|(plural, _)| *plural != "events");
    let of_server = of_server.map(|(_, object)| key_of(object));
    let watches = || wire.watches.values();
    let cached = watches().flat_map(|watch| {
        watch
            .cache
            .values()
            .map(|object: &Arc<Value>| key_of(object))
    });
    let pending =
        watches().flat_map(|watch| watch.pending.iter().map(|event| key_of(&event.object)));
    of_server.chain(cached).chain(pending).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A state with two pods, of which these facts are known, by UID and name.
    fn state(facts: &[(&str, &str, &str)]) -> Picture {
        let mut picture = Picture::new(false);
        for (uid, name, _) in facts {
            picture.meet(&json!({"metadata": {"uid": uid, "name": name, "generateName": "web-", "resourceVersion": "1"}}));
        }
        for (_, name, fact) in facts {
            picture.take_text(format!("{name} {fact}"));
        }
        picture
    }

    #[test]
    fn states_differ_by_facts_and_not_by_names() {
        let one = || state(&[("u-1", "web-x", "runs"), ("u-2", "web-y", "waits")]);
        let exchanged = state(&[("u-1", "web-x", "waits"), ("u-2", "web-y", "runs")]);
        let renamed = state(&[("u-8", "web-q", "runs"), ("u-9", "web-p", "waits")]);
        let other = state(&[("u-1", "web-x", "runs"), ("u-2", "web-y", "runs")]);
        let id = one().coloured().id();
        assert_eq!(id, exchanged.coloured().id());
        assert_eq!(id, renamed.coloured().id());
        assert_ne!(id, other.coloured().id());
    }

    #[test]
    fn references_count_as_facts() {
        let pods = || state(&[("u-1", "web-x", "runs"), ("u-2", "web-y", "waits")]);
        let with = |text: &str| {
            let mut picture = pods();
            picture.take_text(text.to_owned());
            picture.coloured().id()
        };
        assert_ne!(with("deletes u-1"), with("deletes u-2"));
        assert_eq!(
            pods().coloured().fold("start web-x"),
            pods().coloured().fold("start web-x")
        );
        assert_ne!(
            pods().coloured().fold("start web-x"),
            pods().coloured().fold("start web-y")
        );
    }

    #[test]
    fn acts_on_equal_pods_are_equal() {
        let equal = state(&[("u-1", "web-x", "waits"), ("u-2", "web-y", "waits")]).coloured();
        assert_eq!(equal.fold("start web-x"), equal.fold("start web-y"));
        assert_ne!(equal.fold("start web-x"), equal.fold("stop web-x"));
    }

    #[test]
    fn versions_count_by_their_age_and_times_not_at_all() {
        let object = |version: &str, time: &str| json!({"metadata": {"uid": "u", "resourceVersion": version, "creationTimestamp": time}});
        let early = "2023-11-14T22:13:20Z";
        let seen = |versions: [&str; 2], time: &str| {
            let mut picture = Picture::new(false);
            let objects = versions.map(|version| object(version, time));
            objects.iter().for_each(|object| picture.meet(object));
            let ranks = picture.ranks();
            objects.map(|object| masked(&object, &ranks))
        };
        assert_eq!(
            seen(["4", "9"], early),
            seen(["17", "30"], "2024-01-01T00:00:00Z")
        );
        assert_ne!(seen(["4", "9"], early), seen(["9", "9"], early));
    }
}
