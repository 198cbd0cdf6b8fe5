//! A proposed revision: the ControllerRevision for the current template of an owner.
//!
//! The two controllers that keep revisions name and label them differently. A [`Style`] holds these
//! differences. Upstream: `newRevision` in `pkg/controller/statefulset`, `snapshot` in
//! `pkg/controller/daemon`, and `pkg/controller/history`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use steersman_objects::template;
use steersman_objects::{ControllerRevision, DataDigest, Document, Meta, Object};
use steersman_runtime::owner::ControllerReference;

use super::data::{Integers, data};

/// The longest part of an owner's name in the name of a revision of a StatefulSet, in bytes.
const LONGEST_PREFIX: usize = 223;

/// The names and labels that a controller gives its revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Revisions of StatefulSets.
    StatefulSet,
    /// Revisions of DaemonSets.
    DaemonSet,
}

impl Style {
    /// The label of a revision with its hash.
    pub const fn hash_label(self) -> &'static str {
        match self {
            Self::StatefulSet => "controller.kubernetes.io/hash",
            Self::DaemonSet => super::REVISION_LABEL,
        }
    }

    const fn integers(self) -> Integers {
        match self {
            Self::StatefulSet => Integers::Rounded,
            Self::DaemonSet => Integers::Exact,
        }
    }
}

/// The revision of an owner's current template, before it is compared with the stored ones.
#[derive(Debug, Clone)]
pub struct Proposal<'a> {
    style: Style,
    owner: &'a Meta,
    document: &'a Document,
    reference: ControllerReference<'a>,
    template: &'a Value,
    data: String,
    digest: DataDigest,
    collision_count: Option<i32>,
    revision: i64,
}

impl<'a> Proposal<'a> {
    /// The revision number `revision` of the owner of type `O`. `template` is `spec.template` of its
    /// `document`, and `collision_count` its `status.collisionCount`.
    ///
    /// The revision has the labels of the template and the annotations of the owner.
    pub fn new<O: Object>(
        style: Style,
        owner: &'a Meta,
        document: &'a Document,
        template: &'a Value,
        collision_count: Option<i32>,
        revision: i64,
    ) -> Self {
        let data = data(template, style.integers());
        Self {
            style,
            owner,
            document,
            reference: ControllerReference::to::<O>(owner),
            template,
            digest: DataDigest::of(&data),
            data,
            collision_count,
            revision,
        }
    }

    /// The text of `data`.
    pub fn data(&self) -> &str {
        &self.data
    }

    /// The number of the revision.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The value of the label [`Style::hash_label`]. The label keeps the first hash, even if a
    /// collision changes the name. Most proposals equal a stored revision, which has its own label,
    /// so the hash is computed on demand.
    pub fn hash(&self) -> String {
        hash(self.style, self.template, &self.data, self.collision_count)
    }

    /// The name of the revision after `collision_count` collisions.
    pub fn name(&self, collision_count: Option<i32>) -> String {
        let hash = hash(self.style, self.template, &self.data, collision_count);
        let prefix = match self.style {
            Style::StatefulSet => cut(&self.owner.name),
            Style::DaemonSet => &self.owner.name,
        };
        format!("{prefix}-{hash}")
    }

    /// The body of the POST that creates the revision under `name`.
    pub fn body(&self, name: &str) -> Box<RawValue> {
        let data = RawValue::from_string(self.data.clone()).expect("the data is JSON");
        let namespace = (self.style == Style::DaemonSet).then_some(&*self.owner.namespace);
        let labels = self.template.pointer("/metadata/labels");
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        let mut labels: BTreeMap<&str, &str> = labels
            .filter_map(|(key, value)| Some((&**key, value.as_str()?)))
            .collect();
        let hash = self.hash();
        labels.insert(self.style.hash_label(), &hash);
        let body = Body {
            kind: "ControllerRevision",
            api_version: "apps/v1",
            metadata: BodyMeta {
                name,
                namespace,
                labels,
                annotations: self.document.annotations(),
                owner_references: [&self.reference],
            },
            data: &data,
            revision: self.revision,
        };
        to_raw_value(&body).expect("all keys are strings")
    }

    /// Whether `stored` has the same data, byte for byte.
    pub fn equals(&self, stored: &ControllerRevision) -> bool {
        stored.has_data(&self.data, self.digest)
    }

    /// Whether a rollback to `stored` would leave the template of the owner as it is.
    ///
    /// Other versions of Kubernetes store other bytes for the same template: they write
    /// `creationTimestamp: null`, or lack a field that has a default. Upstream:
    /// `setMatchesLatestExistingRevision`.
    pub fn restores(&self, stored: &ControllerRevision) -> bool {
        let Ok(mut stored) = serde_json::from_str::<Value>(&stored.data()) else {
            return false;
        };
        let Some(template) = stored.pointer_mut("/spec/template").map(Value::take) else {
            return false;
        };
        let current = template::normal(self.template);
        data(&template::defaulted(&template), self.style.integers())
            == data(&current, self.style.integers())
    }
}

/// The hash of a revision: FNV-1 over data and count for StatefulSets, the template hash for
/// DaemonSets.
fn hash(style: Style, template: &Value, data: &str, collision_count: Option<i32>) -> String {
    match style {
        Style::StatefulSet => {
            let count = collision_count.unwrap_or(0).to_string();
            let bytes = data.bytes().chain(count.bytes());
            let hash = bytes.fold(2_166_136_261, |hash: u32, byte| {
                hash.wrapping_mul(16_777_619) ^ u32::from(byte)
            });
            template::safe_encoded(hash)
        }
        Style::DaemonSet => template::hash(template, collision_count),
    }
}

/// The first [`LONGEST_PREFIX`] bytes of `name`. Names of objects are ASCII.
fn cut(name: &str) -> &str {
    name.get(..LONGEST_PREFIX).unwrap_or(name)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: BodyMeta<'a>,
    data: &'a RawValue,
    revision: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BodyMeta<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    labels: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    owner_references: [&'a ControllerReference<'a>; 1],
}
