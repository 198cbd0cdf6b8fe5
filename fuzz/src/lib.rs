//! What is fuzzed: everything that reads bytes which somebody else wrote. None of it may panic,
//! take long, or take much memory.
//!
//! bytes -> parts between zero bytes -> the code under test -> what must hold of its answer
//!
//! Each function is a target of `scripts/fuzz.sh`. Inputs that once broke one are kept in `seeds/`,
//! which every `cargo test` reads.

pub mod requests;

use bytes::Bytes;
use serde_json::{Value, json};
use steersman::options;
use steersman_controllers::deployment;
use steersman_devcluster::kinds::Registry;
use steersman_devcluster::selectors::{LabelSelector, Selection};
use steersman_devcluster::{patch, validate};
use steersman_options::duration::GoDuration;
use steersman_runtime::fuzzing;
use steersman_runtime::labels::{Labels, Selector, WireSelector};
use steersman_runtime::object::{
    Deployment, Namespace, Node, Object, ObjectMetadata, Pod, ReplicaSet, ReplicationController,
};
use steersman_runtime::template::{self, PodTemplate};
use steersman_runtime::x509::Certificate;

/// Takes any bytes, and panics when something that must hold does not.
pub type Target = fn(&[u8]);

/// The targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("wire", wire),
    ("patches", patches),
    ("selectors", selectors),
    ("values", values),
    ("flags", flags),
    ("template", template),
    ("certificates", certificates),
    ("requests", requests::requests),
];

fn parts(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|byte| *byte == 0)
}

fn texts(data: &[u8]) -> impl Iterator<Item = &str> {
    parts(data).filter_map(|part| std::str::from_utf8(part).ok())
}

fn documents(data: &[u8]) -> impl Iterator<Item = Value> {
    parts(data).filter_map(|part| serde_json::from_slice(part).ok())
}

/// What informers read: events of a watch, lists, objects, discovery; and the cutting of a stream
/// into lines.
pub fn wire(data: &[u8]) {
    fn read<T: Object>(data: &[u8]) {
        fuzzing::watch_event::<T>(data);
        fuzzing::list::<T>(data);
        if let Ok(object) = T::decode(data) {
            let _ = (object.key().to_string(), object.heap_size());
        }
    }
    for read in [
        read::<Deployment>,
        read::<Namespace>,
        read::<Node>,
        read::<ObjectMetadata>,
        read::<Pod>,
        read::<ReplicaSet>,
        read::<ReplicationController>,
    ] {
        read(data);
    }
    fuzzing::discovery(data);

    // However the stream is cut into chunks, the lines are the same.
    let whole = fuzzing::lines([Bytes::copy_from_slice(data)]);
    let middle = data
        .first()
        .map_or(0, |byte| usize::from(*byte) % (data.len() + 1));
    let (head, tail) = data.split_at(middle);
    assert_eq!(
        fuzzing::lines([head, tail].map(Bytes::copy_from_slice)),
        whole
    );
    assert_eq!(
        fuzzing::lines(data.iter().map(|byte| Bytes::copy_from_slice(&[*byte]))),
        whole
    );
}

/// The patch engines: an object, then a patch.
pub fn patches(data: &[u8]) {
    let mut documents = documents(data);
    let (Some(object), Some(change)) = (documents.next(), documents.next()) else {
        return;
    };
    if patch::check_object(&change).is_ok() {
        let mut once = object.clone();
        patch::merge(&mut once, &change);
        let mut twice = once.clone();
        patch::merge(&mut twice, &change);
        assert_eq!(once, twice, "a merge patch says what is, not what to do");
        for kind in ["Pod", "Deployment", "Service", "ConfigMap"] {
            let _ = patch::strategic(kind, &mut object.clone(), &change);
        }
    }
    let _ = patch::json(&mut object.clone(), &change);
    let _ = patch::go_print(&change);
}

/// Label and field selectors of requests, and those in objects.
pub fn selectors(data: &[u8]) {
    let mut texts = texts(data);
    let (labels, fields) = (
        texts.next().unwrap_or_default(),
        texts.next().unwrap_or_default(),
    );
    if let Ok(selector) = LabelSelector::parse(labels) {
        assert!(
            !selector.is_everything() || selector.matches(|_| None),
            "what selects everything selects what has no labels"
        );
        let _ = selector.matches(|_| Some("web"));
    }
    let pods = Registry::built_in()
        .find("", "v1", "pods")
        .expect("pods are served");
    let _ = Selection::parse(&pods.resource, labels, fields);

    if let Ok(wire) = serde_json::from_str::<WireSelector>(labels)
        && let Ok(selector) = Selector::parse(Some(&wire))
    {
        let none = Labels::new([]);
        assert!(!selector.is_everything() || selector.matches(&none));
        assert!(!selector.is_nothing() || !selector.matches(&none));
    }
}

/// Texts that stand for values: durations, quantities, numbers or percentages.
pub fn values(data: &[u8]) {
    for text in texts(data).take(4) {
        if let Ok(duration) = text.parse::<GoDuration>() {
            assert_eq!(duration.to_string().parse(), Ok(duration), "{text:?}");
        }
        let resources = json!({"limits": {"cpu": text}, "requests": {"memory": text}});
        template_of(&json!({"spec": {"containers": [{"name": "main", "resources": resources}]}}));

        let limit: Value = serde_json::from_str(text)
            .ok()
            .filter(Value::is_number)
            .unwrap_or_else(|| Value::from(text));
        let web = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 7, "strategy": {"rollingUpdate": {"maxSurge": limit, "maxUnavailable": limit}}},
        });
        let _ = validate::create("Deployment", &web);
        if let Ok(web) = Deployment::decode(web.to_string().as_bytes()) {
            let _ = deployment::limits_of(&web);
        }
    }
}

/// The command line, an argument per part.
pub fn flags(data: &[u8]) {
    let arguments = texts(data).take(32).map(str::to_owned);
    if let Err(error) = options::parse(arguments, |warning| assert!(!warning.is_empty())) {
        assert!(!error.to_string().is_empty());
    }
}

/// Pod templates: the hash in names of ReplicaSets, and what counts as the same template.
pub fn template(data: &[u8]) {
    documents(data)
        .take(2)
        .for_each(|template| template_of(&template));
}

fn template_of(value: &Value) {
    assert_eq!(template::hash(value, None), template::hash(value, None));
    let _ = template::hash(value, Some(1));
    assert!(PodTemplate::new(value).equal_ignoring_hash(&PodTemplate::new(value)));
}

/// Certificates that clients show before anybody vouches for them.
pub fn certificates(data: &[u8]) {
    if let Ok(Certificate {
        not_before,
        not_after,
        ..
    }) = Certificate::read(data)
    {
        // The years that can be written in one.
        let years = -62_167_219_200..=253_402_300_799;
        assert!(years.contains(&not_before) && years.contains(&not_after));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::TARGETS;

    #[test]
    fn every_seed_is_read_by_its_target() -> std::io::Result<()> {
        for (name, target) in TARGETS {
            let seeds = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("seeds")
                .join(name);
            let mut read = 0;
            for seed in fs::read_dir(seeds)? {
                let data = fs::read(seed?.path())?;
                target(&data);
                // Cut short, as by a connection that breaks.
                (0..data.len().min(200)).for_each(|end| target(&data[..end]));
                read += 1;
            }
            assert!(read > 0, "no seed for {name}");
        }
        Ok(())
    }
}
