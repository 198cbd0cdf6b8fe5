//! One version of an object: its JSON, encoded once, and the values that selectors read.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::kinds::{Resource, SelectableField};

/// Most bytes that a thread keeps as a buffer for frames. Larger buffers are freed.
const SCRATCH_LIMIT: usize = 64 << 10;

/// The kind of a change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It appeared.
    Added,
    /// It changed.
    Modified,
    /// It went away.
    Deleted,
}

impl EventKind {
    /// The `type` of a watch frame.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// An immutable version of an object.
///
/// The encoded form is the watch frame of its change, so that every watch sends the same bytes. A
/// `GET` answer and a list item are slices of that frame.
#[derive(Debug)]
pub struct Object {
    /// `namespace/name`, or `name`.
    pub key: Arc<str>,
    /// `metadata.resourceVersion`; 0 for an object that is not stored.
    pub revision: u64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    texts: Texts,
    frame: Bytes,
    kind_of_frame: EventKind,
    /// Offsets in the frame: the start of the object, and of its fields after `kind` and
    /// `apiVersion`.
    start: usize,
    tail: usize,
    /// Offsets of the managed fields in the frame, found when a client first drops them.
    managed_fields: OnceLock<Option<Range<usize>>>,
}

/// The name of the managed fields, as the encoder writes it.
const MANAGED_FIELDS: &str = "\"managedFields\":";

impl Object {
    /// The object that is stored at `revision`, with `metadata.resourceVersion` set.
    pub fn stored(
        resource: &Resource,
        key: &str,
        mut value: Value,
        revision: u64,
        kind: EventKind,
    ) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert(
                "resourceVersion".to_owned(),
                Value::from(revision.to_string()),
            );
        }
        Self::build(resource, Arc::from(key), &value, revision, kind)
    }

    /// An object that is not stored: a dry run, a computed object, or the state before a removal.
    pub fn unstored(resource: &Resource, key: &str, value: &Value) -> Self {
        let revision = value["metadata"]["resourceVersion"]
            .as_str()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        Self::build(
            resource,
            Arc::from(key),
            value,
            revision,
            EventKind::Modified,
        )
    }

    /// The same state at another revision.
    pub fn at_revision(&self, resource: &Resource, revision: u64, kind: EventKind) -> Self {
        let mut value = self.to_value();
        value["metadata"]["resourceVersion"] = Value::from(revision.to_string());
        Self::build(resource, self.key.clone(), &value, revision, kind).sharing(self)
    }

    /// Shares unchanged parts with the older version. The history holds thousands of versions, and
    /// their small allocations would fragment the heap.
    #[must_use]
    pub(super) fn sharing(mut self, older: &Self) -> Self {
        fn share<T: ?Sized + PartialEq>(new: &mut Arc<T>, old: &Arc<T>) {
            if *new == *old {
                *new = Arc::clone(old);
            }
        }
        share(&mut self.key, &older.key);
        share(&mut self.texts.bytes, &older.texts.bytes);
        self
    }

    fn build(
        resource: &Resource,
        key: Arc<str>,
        value: &Value,
        revision: u64,
        kind: EventKind,
    ) -> Self {
        let (frame, start, tail) = framed(resource, value, kind);
        Self {
            key,
            revision,
            deleting: value["metadata"].get("deletionTimestamp").is_some(),
            texts: Texts::of(resource, value),
            frame,
            kind_of_frame: kind,
            start,
            tail,
            managed_fields: OnceLock::new(),
        }
    }

    /// The same version without `metadata.managedFields`. Costs a copy of the rest.
    #[must_use]
    pub fn without_managed_fields(&self) -> Self {
        let range = self
            .managed_fields
            .get_or_init(|| self.find_managed_fields());
        let frame = match range {
            Some(range) => {
                Bytes::from([&self.frame[..range.start], &self.frame[range.end..]].concat())
            }
            None => self.frame.clone(),
        };
        Self {
            key: Arc::clone(&self.key),
            texts: self.texts.clone(),
            frame,
            managed_fields: OnceLock::from(None),
            ..*self
        }
    }

    /// The offsets of the managed fields with one comma beside them.
    fn find_managed_fields(&self) -> Option<Range<usize>> {
        #[derive(serde::Deserialize)]
        struct OnlyManagedFields<'a> {
            #[serde(borrow, rename = "managedFields")]
            managed_fields: &'a RawValue,
        }
        let parsed: OnlyManagedFields<'_> = serde_json::from_str(self.metadata()).ok()?;
        let value = parsed.managed_fields.get();
        let start = value.as_ptr().addr() - self.frame.as_ptr().addr();
        let end = start + value.len();
        let start = start - MANAGED_FIELDS.len();
        Some(match (self.frame[start - 1], self.frame[end]) {
            (b',', _) => start - 1..end,
            (_, b',') => start..end + 1,
            _ => start..end,
        })
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.key
            .rsplit_once('/')
            .map_or(&*self.key, |(_, name)| name)
    }

    /// `metadata.namespace`; empty for cluster objects.
    pub fn namespace(&self) -> &str {
        self.key
            .rsplit_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.texts.from(0).next().unwrap_or_default()
    }

    /// Names and values of the labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut texts = self.texts.from(self.texts.labels);
        std::iter::from_fn(move || texts.next().zip(texts.next()))
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let label = self.labels().find(|(name, _)| *name == key);
        label.map(|(_, value)| value)
    }

    /// The value of the selectable field with that position in the row of a built-in resource.
    pub fn field(&self, position: usize) -> &str {
        self.texts
            .from(0)
            .nth(1 + position)
            .expect("each selectable field of the resource has a text")
    }

    /// The value of a selectable field of a custom resource.
    pub fn custom_field(&self, field: &SelectableField) -> String {
        text_of(&self.to_value(), field).into_owned()
    }

    /// The whole object as JSON.
    pub fn json(&self) -> Bytes {
        self.frame.slice(self.start..self.frame.len() - 2)
    }

    /// The part after `{` of an object without kind and apiVersion, as in typed lists.
    pub fn untyped_tail(&self) -> &[u8] {
        &self.frame[self.tail + 1..self.frame.len() - 2]
    }

    /// The watch frame of this version; shared if `kind` is the change that created it.
    pub fn frame(&self, kind: EventKind) -> Bytes {
        if kind == self.kind_of_frame {
            return self.frame.clone();
        }
        let mut frame = Vec::with_capacity(self.frame.len() + 8);
        write!(frame, "{{\"type\":\"{}\",\"object\":", kind.as_str())
            .expect("writing to a vector cannot fail");
        frame.extend_from_slice(&self.frame[self.start..]);
        Bytes::from(frame)
    }

    /// The whole object, decoded.
    pub fn to_value(&self) -> Value {
        serde_json::from_slice(&self.frame[self.start..self.frame.len() - 2])
            .expect("the frame holds JSON that we wrote")
    }

    /// The JSON text of `metadata`.
    pub fn metadata(&self) -> &str {
        #[derive(serde::Deserialize)]
        struct OnlyMetadata<'a> {
            #[serde(borrow)]
            metadata: &'a RawValue,
        }
        let parsed: OnlyMetadata<'_> =
            serde_json::from_slice(&self.frame[self.start..self.frame.len() - 2])
                .expect("every stored object has metadata");
        parsed.metadata.get()
    }

    /// Approximate memory in bytes.
    pub fn size(&self) -> usize {
        self.frame.len()
    }
}

/// The texts that selectors and preconditions read, in one allocation: the UID, the selectable fields
/// in their order, then names and values of labels. An allocation per text would cost a pod of 3 KB
/// another 0.5 KB. Fields of custom resources are absent, because each version and each change of a
/// definition has its own.
#[derive(Debug, Clone)]
struct Texts {
    /// Each text follows its length, which has four bytes.
    bytes: Arc<[u8]>,
    /// Offset of the first label.
    labels: usize,
}

impl Texts {
    fn of(resource: &Resource, value: &Value) -> Self {
        let metadata = &value["metadata"];
        let mut bytes = Vec::new();
        let mut add = |text: &str| {
            let length = u32::try_from(text.len()).expect("a request has less than 4 GiB");
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
            bytes.len()
        };
        let mut labels = add(metadata["uid"].as_str().unwrap_or_default());
        let fields = resource.custom.is_none().then(|| resource.fields.iter());
        for field in fields.into_iter().flatten() {
            labels = add(&text_of(value, field));
        }
        for (name, value) in metadata["labels"].as_object().into_iter().flatten() {
            add(name);
            add(value.as_str().unwrap_or_default());
        }
        Self {
            bytes: bytes.into(),
            labels,
        }
    }

    /// The texts from this offset on.
    fn from(&self, offset: usize) -> impl Iterator<Item = &str> {
        let mut rest = &self.bytes[offset..];
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk()?;
            let (text, after) = after.split_at(u32::from_le_bytes(*length) as usize);
            rest = after;
            Some(str::from_utf8(text).expect("each length is that of a text"))
        })
    }
}

/// The watch frame of `value`, and the offsets of the object and of its fields after `kind` and
/// `apiVersion`.
fn framed(resource: &Resource, value: &Value, kind: EventKind) -> (Bytes, usize, usize) {
    thread_local! {
        /// A buffer per thread, so that the stored copy has its exact size.
        static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    SCRATCH.with_borrow_mut(|frame| {
        frame.clear();
        write!(frame, "{{\"type\":\"{}\",\"object\":", kind.as_str())
            .expect("writing to a vector cannot fail");
        let start = frame.len();
        write!(
            frame,
            "{{\"kind\":\"{}\",\"apiVersion\":\"{}\"",
            kind_of(value, resource),
            version_of(value, resource)
        )
        .expect("writing to a vector cannot fail");
        let tail = frame.len();
        serde_json::to_writer(&mut *frame, &Tail(value))
            .expect("a JSON value with text keys serialises");
        // The opening brace of the tail becomes the comma after kind and apiVersion.
        frame[tail] = b',';
        frame.extend_from_slice(b"}\n");
        let kept = Bytes::copy_from_slice(frame);
        frame.shrink_to(SCRATCH_LIMIT);
        (kept, start, tail)
    })
}

fn kind_of<'a>(value: &'a Value, resource: &'a Resource) -> &'a str {
    value["kind"].as_str().unwrap_or(&resource.kind)
}

fn version_of(value: &Value, resource: &Resource) -> String {
    value["apiVersion"]
        .as_str()
        .map_or_else(|| resource.api_version(), str::to_owned)
}

fn text_of<'a>(value: &'a Value, field: &'a SelectableField) -> Cow<'a, str> {
    let text = text_at(value, &field.pointer, field.absent);
    if text.is_empty() && !field.fallback.is_empty() {
        text_at(value, field.fallback, field.absent)
    } else {
        text
    }
}

fn text_at<'a>(value: &'a Value, pointer: &str, absent: &'a str) -> Cow<'a, str> {
    let found = if pointer.contains('~') {
        value.pointer(pointer)
    } else {
        // `Value::pointer` copies each step, for escapes that it may have.
        let mut steps = pointer.split('/').skip(1);
        steps.try_fold(value, |value, step| value.get(step))
    };
    match found {
        Some(Value::String(text)) => text.into(),
        None | Some(Value::Null) => absent.into(),
        Some(other) => other.to_string().into(),
    }
}

/// An object without its kind and apiVersion.
struct Tail<'a>(&'a Value);

impl Serialize for Tail<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let empty = Map::new();
        let fields = self.0.as_object().unwrap_or(&empty);
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in fields {
            if key != "kind" && key != "apiVersion" {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use serde_json::json;

    fn pod() -> Object {
        let pods = Registry::built_in().find("", "v1", "pods").unwrap();
        let value = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "b", "c": ""}},
            "spec": {"nodeName": "node"},
        });
        Object::stored(&pods.resource, "n/p", value, 7, EventKind::Added)
    }

    #[test]
    fn json_and_list_items_are_slices_of_the_frame() {
        let pod = pod();
        let frame: Value = serde_json::from_slice(&pod.frame(EventKind::Added)).unwrap();
        let object: Value = serde_json::from_slice(&pod.json()).unwrap();
        assert_eq!(frame, json!({"type": "ADDED", "object": object}));
        assert_eq!(object["metadata"]["resourceVersion"], "7");
        assert_eq!(pod.to_value(), object);

        let modified: Value = serde_json::from_slice(&pod.frame(EventKind::Modified)).unwrap();
        assert_eq!(modified, json!({"type": "MODIFIED", "object": object}));
        assert!(pod.frame(EventKind::Modified).ends_with(b"}\n"));

        let item = [b"{", pod.untyped_tail()].concat();
        let item: Value = serde_json::from_slice(&item).unwrap();
        assert_eq!(
            item,
            json!({"metadata": object["metadata"], "spec": object["spec"]})
        );
    }

    #[test]
    fn versions_share_unchanged_parts() {
        let pods = Registry::built_in().find("", "v1", "pods").unwrap();
        let old = pod();
        let mut value = old.to_value();
        value["spec"]["nodeName"] = json!("another");
        let new =
            Object::stored(&pods.resource, "n/p", value, 8, EventKind::Modified).sharing(&old);
        assert!(Arc::ptr_eq(&new.key, &old.key));
        assert_eq!((new.field(0), old.field(0)), ("another", "node"));

        let mut value = new.to_value();
        value["spec"]["priority"] = json!(1);
        let newer =
            Object::stored(&pods.resource, "n/p", value, 9, EventKind::Modified).sharing(&new);
        assert!(Arc::ptr_eq(&newer.texts.bytes, &new.texts.bytes));
    }

    #[test]
    fn selectors_read_labels_and_fields_without_decoding() {
        let pod = pod();
        assert_eq!(
            (pod.namespace(), pod.name(), pod.uid(), pod.revision),
            ("n", "p", "u", 7)
        );
        assert_eq!(
            (pod.label("a"), pod.label("c"), pod.label("b")),
            (Some("b"), Some(""), None),
            "a value of a label can be empty, and is no name"
        );
        assert_eq!(
            pod.field(0),
            "node",
            "spec.nodeName comes first in the row of pods"
        );
        assert!(!pod.deleting);
    }
}
