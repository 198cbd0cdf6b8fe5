//! Parts that all decoders of views share: borrowed strings, metadata, lenient times, conditions.
//!
//! Absent and `null` members have the default value, and unknown members are skipped, as in Go's
//! JSON. The types borrow strings from the input: most of them are known to the tables of
//! [`intern`](steersman_values::intern), so a copy would be discarded at once.

use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{self, Deserializer, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use steersman_values::intern::Sym;
use steersman_values::labels::Labels;
pub(crate) use steersman_values::text::{Pairs, Text};

use super::meta::{Annotations, CollectorFinalizers, Meta, OwnerReference, Owners, Uid};
use super::time::Time;

/// The API server sent bytes that do not decode as the expected object.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are malformed JSON, or JSON of another shape.
    #[error("decode {kind}: {source}")]
    Json {
        /// Kind of the expected object.
        kind: &'static str,
        /// The error of the JSON parser.
        #[source]
        source: serde_json::Error,
    },
    /// The resource version is not a decimal number. Kubernetes guarantees this form since 1.35.
    #[error("decode {kind}: resourceVersion {version:?} is not a decimal number")]
    ResourceVersion {
        /// Kind of the decoded object.
        kind: &'static str,
        /// The served resource version.
        version: String,
    },
}

/// Decodes one JSON value, and returns it with the text of `json`. Errors name `kind`.
///
/// The function checks the whole text for UTF-8 once, which is cheaper than the parser's check of
/// each string and raw value.
pub fn parse<'a, T: Deserialize<'a>>(
    json: &'a [u8],
    kind: &'static str,
) -> Result<(T, &'a str), DecodeError> {
    let error = |source| DecodeError::Json { kind, source };
    let text = std::str::from_utf8(json).map_err(|utf8| error(de::Error::custom(utf8)))?;
    Ok((serde_json::from_str(text).map_err(error)?, text))
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(Pairs::deserialize(deserializer)?.iter()))
    }
}

/// Decodes `null` as the default value, as Go's JSON does. Absent members need `#[serde(default)]`.
pub fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// `text` as a time; see [`lenient_time`].
pub(super) fn time_of(text: &Text<'_>) -> Timestamp {
    text.parse().unwrap_or(Timestamp::MAX)
}

/// A string that is parsed as `T`, such as the value of an annotation. A malformed string gives
/// `None`.
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

/// Decodes a time. A string that is no supported time becomes [`Timestamp::MAX`].
///
/// [`Timestamp`] ends on the last day of the year 9999. Clients that write one status can store a
/// later time, and an error here would make the complete list of objects unreadable.
pub(super) fn lenient_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<Text<'de>> = Option::deserialize(deserializer)?;
    Ok(text.as_ref().map(time_of))
}

/// Like [`lenient_time`], for a time that a controller writes back. The maximum loses its
/// fraction of a second, because times in statuses have whole seconds.
pub(super) fn whole_seconds_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let whole_seconds = |time: Timestamp| Timestamp::from_second(time.as_second()).unwrap_or(time);
    Ok(lenient_time(deserializer)?.map(|time| {
        if time == Timestamp::MAX {
            whole_seconds(time)
        } else {
            time
        }
    }))
}

/// `metadata` of an object. `A` decodes the annotations; by default they are skipped.
#[derive(Deserialize)]
#[serde(
    rename_all = "camelCase",
    bound(deserialize = "A: Deserialize<'de> + Default")
)]
pub struct MetaWire<'a, A = IgnoredAny> {
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
    pub annotations: A,
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
    /// Whether the object has the finalizer `name`.
    pub(super) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| **finalizer == *name)
    }

    /// Whether the deletion of the object has started.
    pub(super) fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The metadata for a view. Errors name `kind`.
    pub fn into_meta(self, kind: &'static str) -> Result<Meta, DecodeError> {
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
            created: self.creation_timestamp.map(Time::from),
            deleted: self.deletion_timestamp.map(Time::from),
            labels: Labels::new(self.labels.iter()),
            owners: Owners::new(&owners),
            finalizers: CollectorFinalizers::among(self.finalizers.iter().map(|name| &**name)),
        })
    }
}

/// The identity of an object in a response, decoded without the rest of the object.
///
/// A response can be a `Status` instead of an object. Fields that it lacks are empty or 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: Uid,
    /// Resource version in the response. After a write, this is the version that it created.
    pub resource_version: u64,
    /// `deletionTimestamp`; set from the start of the deletion.
    pub deleted: Option<Timestamp>,
}

impl Identity {
    /// Decodes the metadata of the JSON object `json`.
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

/// A condition in the status of a Deployment, ReplicaSet or Job. Unknown fields stay in `extra`, because
/// the controller writes the condition back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type; unique within the list.
    #[serde(rename = "type")]
    pub kind: Sym,
    /// `True`, `False` or `Unknown`.
    pub status: Sym,
    /// Time of the last change of any field (Deployments only).
    #[serde(
        default,
        deserialize_with = "whole_seconds_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_update_time: Option<Timestamp>,
    /// Time of the last change of the status.
    #[serde(
        default,
        deserialize_with = "whole_seconds_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_transition_time: Option<Timestamp>,
    /// Reason: one word in CamelCase, for programs.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub reason: Sym,
    /// Message for users.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub message: Box<str>,
    /// All fields that this type lacks.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Whether Go's `omitempty` omits `text`.
fn is_empty(text: &impl std::ops::Deref<Target = str>) -> bool {
    text.deref().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_time_after_the_year_9999_is_decoded() {
        // (served time, written time)
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
