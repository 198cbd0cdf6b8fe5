//! The served JSON of an object, for PUT requests of the whole object.
//!
//! Upstream PUTs whole objects of many kinds, and its RBAC roles for most of them lack the verb
//! `patch`. The views of these kinds keep the served bytes, so fields that the view lacks survive the
//! PUT.
//!
//! A document is the server's own text without the member `managedFields`. [`Served`] finds the
//! position of that member while the view is decoded. This avoids a tree of JSON values, which
//! takes longer to build than the view.
//!
//! Views read parts from the document that few decisions need, such as pod templates and the data of
//! revisions. These reads and the writes are rarer than changes of objects. So documents are
//! compressed by LZ4 with a typical document of their kind as dictionary, which takes one or two
//! microseconds.

mod typical;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::wire::Text;

/// Why the compressed bytes of a document are well-formed.
const WRITTEN: &str = "`compress` wrote these bytes";

/// The member of `metadata` that documents omit.
const MANAGED_FIELDS: &str = "managedFields";

/// The JSON of an object as the API server sent it, without `managedFields`. Every PUT of a whole
/// object starts from it.
///
/// A PUT without `managedFields` keeps the server's entries. A PUT with an empty list would delete
/// them.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    /// The text, in the block format of LZ4 with its length in front. The last byte is the position
    /// of the typical document that the block refers to.
    compressed: Arc<[u8]>,
}

impl Document {
    /// The document of the JSON object `object`. Removes `metadata.managedFields`.
    pub fn new(mut object: Map<String, Value>) -> Self {
        if let Some(Value::Object(meta)) = object.get_mut("metadata") {
            meta.remove(MANAGED_FIELDS);
        }
        Self::compress(&Value::Object(object).to_string(), "")
    }

    /// The document of the text `json`, without the members that have the values `members`. `kind`
    /// is the name of the view.
    ///
    /// `members` are slices of `json`, and no member contains another one.
    pub fn without<'a>(
        json: &'a str,
        members: impl IntoIterator<Item = &'a RawValue>,
        kind: &str,
    ) -> Self {
        let mut members: Vec<&RawValue> = members.into_iter().collect();
        members.sort_unstable_by_key(|member| member.get().as_ptr().addr());
        let mut kept = String::with_capacity(json.len());
        let mut rest = json;
        for member in members {
            // The value borrows from `json`, so its address gives its position in the text.
            let start = member.get().as_ptr().addr() - rest.as_ptr().addr();
            let before = &rest[..start];
            let after = &rest[start + member.get().len()..];
            kept.push_str(&before[..key_start(before)]);
            rest = match after.trim_ascii_start().strip_prefix(',') {
                Some(next) => next,
                None => {
                    // After the last member there is no comma, so remove the comma before it.
                    let end = kept.trim_ascii_end();
                    kept.truncate(end.strip_suffix(',').unwrap_or(end).len());
                    after
                }
            };
        }
        kept.push_str(rest);
        Self::compress(&kept, kind)
    }

    fn compress(text: &str, kind: &str) -> Self {
        let position = typical::position(kind);
        let typical = typical::text(position);
        let mut compressed = compress_prepend_size_with_dict(text.as_bytes(), typical);
        compressed.push(position);
        Self {
            compressed: compressed.into(),
        }
    }

    /// Its size in memory, in bytes.
    pub fn size(&self) -> usize {
        self.compressed.len()
    }

    /// A copy that the caller can change and write.
    pub fn to_object(&self) -> Map<String, Value> {
        serde_json::from_str(&self.text())
            .expect("a document is a JSON object, and no field of its types is 128 levels deep")
    }

    /// All annotations of the object. Views lack some.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.metadata().annotations.unwrap_or_default()
    }

    /// All finalizers of the object, in the served order. Views lack most.
    pub fn finalizers(&self) -> Vec<String> {
        self.metadata().finalizers.unwrap_or_default()
    }

    fn metadata(&self) -> Metadata {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        let object: Result<Object, _> = serde_json::from_str(&self.text());
        object.map(|object| object.metadata).unwrap_or_default()
    }

    /// The JSON text.
    pub fn text(&self) -> String {
        let (position, block) = self.compressed.split_last().expect(WRITTEN);
        let text = decompress_size_prepended_with_dict(block, typical::text(*position));
        String::from_utf8(text.expect(WRITTEN)).expect("the compressed text was UTF-8")
    }
}

/// The members of `metadata` that views lack.
#[derive(Default, Deserialize)]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
}

/// The start of the last key in `text`, which ends directly before the value of that key.
///
/// The search for the opening quotation mark is safe: the key is the name of a field. Such a name
/// contains no quotation mark, even with JSON escapes.
fn key_start(text: &str) -> usize {
    let key = text.trim_ascii_end().strip_suffix(':').unwrap_or(text);
    let key = key.trim_ascii_end().strip_suffix('"').unwrap_or(key);
    key.rfind('"').unwrap_or(key.len())
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// A decoded JSON object, and the raw values of its members `managedFields`.
///
/// API servers send at most one such member. JSON allows repeated members, so this is a list.
pub struct Served<'a, T> {
    pub object: T,
    pub managed_fields: Vec<&'a RawValue>,
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Served<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ServedVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ServedVisitor<T> {
            type Value = Served<'de, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let mut managed_fields = Vec::new();
                let members = OtherMembers {
                    map,
                    managed_fields: &mut managed_fields,
                };
                Ok(Served {
                    object: T::deserialize(MapAccessDeserializer::new(members))?,
                    managed_fields,
                })
            }
        }
        deserializer.deserialize_map(ServedVisitor(std::marker::PhantomData))
    }
}

/// A decoded member, and its text. The document can then omit the member.
pub struct Apart<'a, T> {
    pub text: &'a RawValue,
    pub value: T,
}

impl<'de: 'a, 'a, T: Deserialize<'de> + Default> Deserialize<'de> for Apart<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?;
        let value: Option<T> =
            serde_json::from_str(text.get()).map_err(serde::de::Error::custom)?;
        Ok(Self {
            text,
            value: value.unwrap_or_default(),
        })
    }
}

/// Decodes a member that is present, even if it is `null`. The document omits it in that case too.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<Option<Apart<'de, T>>, D::Error> {
    Apart::deserialize(deserializer).map(Some)
}

/// The members of an object except `managedFields`. Collects the values of `managedFields`.
struct OtherMembers<'a, 'de, A> {
    map: A,
    managed_fields: &'a mut Vec<&'de RawValue>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OtherMembers<'_, 'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<Text<'de>>()? {
            if &*key != MANAGED_FIELDS {
                return seed.deserialize((*key).into_deserializer()).map(Some);
            }
            self.managed_fields.push(self.map.next_value()?);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;
    use serde_json::json;

    use super::*;

    fn document(json: &str) -> String {
        let Served { managed_fields, .. } =
            serde_json::from_str::<Served<'_, IgnoredAny>>(json).unwrap();
        Document::without(json, managed_fields, "").text()
    }

    #[test]
    fn documents_are_kept_in_any_kind() {
        let object =
            |name: &str| json!({"kind": "Deployment", "metadata": {"name": name}}).to_string();
        for text in [object("web"), object(&"x".repeat(200_000))] {
            for kind in ["", "Deployment", "Job", "EndpointSlice", "unknown"] {
                assert_eq!(Document::without(&text, [], kind).text(), text, "{kind}");
            }
        }
    }

    #[test]
    fn documents_of_frequent_kinds_take_less_memory() {
        let claim = json!({
            "kind": "PersistentVolumeClaim", "apiVersion": "v1",
            "metadata": {
                "name": "data-db-0", "namespace": "shop", "uid": "2f0c8a35-6d7e-4d0a-8d9b-0d7f3f0e3c11",
                "resourceVersion": "4711", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                "finalizers": ["kubernetes.io/pvc-protection"],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Gi"}},
                "storageClassName": "fast", "volumeMode": "Filesystem",
            },
            "status": {"phase": "Pending"},
        });
        let text = claim.to_string();
        let size = |kind| Document::without(&text, [], kind).size();
        assert!(2 * size("PersistentVolumeClaim") < size(""));
    }

    #[test]
    fn managed_fields_are_removed_at_any_position() {
        // (served, document)
        let cases = [
            (r#"{}"#, r#"{}"#),
            (r#"{"a":1,"b":"x"}"#, r#"{"a":1,"b":"x"}"#),
            (r#"{"managedFields":[]}"#, r#"{}"#),
            (r#"{"managedFields":[{"m":"}]"}],"a":1}"#, r#"{"a":1}"#),
            (r#"{"a":1,"managedFields":[],"b":2}"#, r#"{"a":1,"b":2}"#),
            (r#"{"a":1,"managedFields":null}"#, r#"{"a":1}"#),
            (
                "{ \"a\" : 1 , \"managedFields\" : [ ] , \"b\" : 2 }",
                "{ \"a\" : 1 ,  \"b\" : 2 }",
            ),
            (
                "{\n\t\"a\": 1,\n\t\"managedFields\": []\n}",
                "{\n\t\"a\": 1\n}",
            ),
            (r#"{"managedFields":1,"managedFields":2}"#, r#"{}"#),
            (
                r#"{"a":1,"managedFields":1,"b":2,"managedFields":2,"managedFields":3}"#,
                r#"{"a":1,"b":2}"#,
            ),
            (
                r#"{"a":1,"managed\u0046ields":[],"b":2}"#,
                r#"{"a":1,"b":2}"#,
            ),
            (
                r#"{"x":"\"managedFields\":1"}"#,
                r#"{"x":"\"managedFields\":1"}"#,
            ),
            (
                r#"{"x":{"managedFields":1},"managedFields":2,"y\"":3}"#,
                r#"{"x":{"managedFields":1},"y\"":3}"#,
            ),
        ];
        for (served, expected) in cases {
            let found = document(served);
            assert_eq!(found, expected, "{served}");
            serde_json::from_str::<Value>(&found).unwrap();
        }
    }
}
