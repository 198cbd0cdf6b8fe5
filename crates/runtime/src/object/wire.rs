//! Shapes that the decoders share: borrowed texts and metadata, lenient times, conditions.
//!
//! Absent and `null` mean the default everywhere, and unknown fields are skipped, as in Go's JSON.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{self, Deserializer, IgnoredAny, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::meta::{Annotations, CollectorFinalizers, Meta, OwnerReference, Owners, Uid};
use crate::intern::Sym;
use crate::labels::Labels;

/// Bytes from the API server that are not the object they should be.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, or not of the expected shape.
    #[error("decode {kind}: {source}")]
    Json {
        /// What was expected.
        kind: &'static str,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A resourceVersion that is no decimal number; Kubernetes guarantees the form since 1.35.
    #[error("decode {kind}: resourceVersion {version:?} is not a decimal number")]
    ResourceVersion {
        /// What was decoded.
        kind: &'static str,
        /// The offending text.
        version: String,
    },
}

/// Reads one JSON value of kind `kind`.
///
/// The text is checked for UTF-8 once as a whole. The parser would check each string and each raw
/// value again.
pub(super) fn parse<'a, T: Deserialize<'a>>(
    json: &'a [u8],
    kind: &'static str,
) -> Result<(T, &'a str), DecodeError> {
    let error = |source| DecodeError::Json { kind, source };
    let text = std::str::from_utf8(json).map_err(|utf8| error(de::Error::custom(utf8)))?;
    Ok((serde_json::from_str(text).map_err(error)?, text))
}

/// A string that borrows from the input when it has no escapes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text<'a>(Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// A map of strings in the order of the wire. A repeated key is there twice; the last one counts,
/// as in Go's JSON.
#[derive(Debug, Default)]
pub(super) struct Pairs<'a>(Vec<(Text<'a>, Text<'a>)>);

impl Pairs<'_> {
    /// A copy that owns its texts.
    pub(super) fn to_annotations(&self) -> Annotations {
        self.iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

/// A value that may be absent or `null`; both mean the default, as in Go's JSON.
pub(super) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Text<'_> {
    /// The time it stands for; see [`lenient_time`].
    pub(super) fn to_lenient_time(&self) -> Timestamp {
        self.parse().unwrap_or(Timestamp::MAX)
    }
}

/// A text that stands for a `T`, such as the value of an annotation; unset where it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed<T>(pub Option<T>);

impl<T> Default for Parsed<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: std::str::FromStr> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Text::deserialize(deserializer)?.parse().ok()))
    }
}

/// A time, or the end of time for a text that is none. Whoever may write the status of one object
/// can store the last day of the year 9999, or a later one, which no calendar here knows; it must
/// not keep the whole list from being read.
pub(super) fn lenient_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<Text<'de>> = Option::deserialize(deserializer)?;
    Ok(text.map(|text| text.to_lenient_time()))
}

/// The same, for a time that is written back: in whole seconds, as times in statuses are.
fn condition_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let end = |time: Timestamp| Timestamp::from_second(time.as_second()).unwrap_or(time);
    Ok(lenient_time(deserializer)?.map(|time| {
        if time == Timestamp::MAX {
            end(time)
        } else {
            time
        }
    }))
}

/// `metadata`; of the annotations, those that `A` reads.
#[derive(Deserialize)]
#[serde(
    rename_all = "camelCase",
    bound(deserialize = "A: Deserialize<'de> + Default")
)]
pub(super) struct MetaWire<'a, A = IgnoredAny> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
    #[serde(default)]
    generation: i64,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    pub(super) deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    labels: Pairs<'a>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) annotations: A,
    #[serde(borrow, default, deserialize_with = "nullable")]
    owner_references: Vec<OwnerWire<'a>>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    finalizers: Vec<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerWire<'a> {
    #[serde(borrow)]
    api_version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(default, deserialize_with = "nullable")]
    controller: bool,
    #[serde(default, deserialize_with = "nullable")]
    block_owner_deletion: bool,
}

impl<A> MetaWire<'_, A> {
    pub(super) fn into_meta(self, kind: &'static str) -> Result<Meta, DecodeError> {
        let version = self.resource_version.as_deref().unwrap_or("0");
        let resource_version = version.parse().map_err(|_| DecodeError::ResourceVersion {
            kind,
            version: version.to_owned(),
        })?;
        let owners: Vec<OwnerReference> = self
            .owner_references
            .iter()
            .map(|owner| OwnerReference {
                api_version: Sym::new(&owner.api_version),
                kind: Sym::new(&owner.kind),
                name: Sym::new(&owner.name),
                uid: Uid::new(&owner.uid),
                controller: owner.controller,
                block_owner_deletion: owner.block_owner_deletion,
            })
            .collect();
        Ok(Meta {
            namespace: Sym::new(self.namespace.as_deref().unwrap_or_default()),
            name: Arc::from(&*self.name),
            uid: Uid::new(self.uid.as_deref().unwrap_or_default()),
            resource_version,
            generation: self.generation,
            created: self.creation_timestamp,
            deleted: self.deletion_timestamp,
            labels: Labels::new(self.labels.iter()),
            owners: Owners::new(&owners),
            finalizers: CollectorFinalizers::among(self.finalizers.iter().map(|name| &**name)),
        })
    }
}

/// Who an object in an answer is, read without decoding the rest of it. What a `Status` lacks is
/// empty or 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: Uid,
    /// The version that the answer shows, so the one a write produced.
    pub resource_version: u64,
    /// Set once deletion has begun.
    pub deleted: Option<Timestamp>,
}

impl Identity {
    /// Reads the metadata of the JSON object `json`.
    pub fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow, default)]
            metadata: IdentityWire<'a>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct IdentityWire<'a> {
            #[serde(borrow)]
            name: Option<Text<'a>>,
            #[serde(borrow)]
            uid: Option<Text<'a>>,
            #[serde(borrow)]
            resource_version: Option<Text<'a>>,
            deletion_timestamp: Option<Timestamp>,
        }
        let Wire { metadata } =
            serde_json::from_slice(json).map_err(|source| DecodeError::Json {
                kind: "object metadata",
                source,
            })?;
        let version = metadata
            .resource_version
            .as_deref()
            .filter(|v| !v.is_empty())
            .unwrap_or("0");
        let resource_version = version.parse().map_err(|_| DecodeError::ResourceVersion {
            kind: "object metadata",
            version: version.to_owned(),
        })?;
        Ok(Self {
            name: metadata.name.as_deref().unwrap_or_default().to_owned(),
            uid: Uid::new(metadata.uid.as_deref().unwrap_or_default()),
            resource_version,
            deleted: metadata.deletion_timestamp,
        })
    }
}

/// A condition of a Deployment, ReplicaSet or Node. Fields unknown to us are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type, unique within the list.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When any field changed last (Deployments only).
    #[serde(
        default,
        deserialize_with = "condition_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_update_time: Option<Timestamp>,
    /// When the status changed last.
    #[serde(
        default,
        deserialize_with = "condition_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_transition_time: Option<Timestamp>,
    /// One word, for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_of_a_time_beyond_every_calendar_can_be_read() {
        // (time, as it is written back)
        let cases = [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            ("9999-12-31T23:59:59Z", "9999-12-30T22:00:00Z"),
            ("10000-01-01T11:59:59Z", "9999-12-30T22:00:00Z"),
        ];
        for (time, written) in cases {
            let json = serde_json::json!({"type": "Ours", "status": "True", "lastTransitionTime": time, "unknown": 1});
            let condition: Condition = serde_json::from_str(&json.to_string()).unwrap();
            assert_eq!(condition, serde_json::from_value(json).unwrap(), "{time}");
            let back = serde_json::to_value(&condition).unwrap();
            assert_eq!(
                (&back["lastTransitionTime"], back.get("lastUpdateTime")),
                (&Value::from(written), None),
                "{time}"
            );
        }
    }
}
