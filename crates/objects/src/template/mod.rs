//! Pod templates: equality as upstream defines it, and the template hash.
//!
//! - served template -> [`canonical`](mod@canonical) text -> SHA-256 -> equality of templates
//! - served template -> Go's [`dump`](mod@dump) -> FNV-1a -> label `pod-template-hash`
//! - stored template -> [`normal`](mod@normal) form with [`defaults`] -> equality with a served one
//!
//! Both results must be the same as upstream's. With another equality, a takeover from
//! kube-controller-manager would roll out Deployments again. With another hash, new ReplicaSets
//! would have other names than upstream's. Both therefore read the served JSON with the table of
//! Go types of Kubernetes 1.36 ([`types`]).
//!
//! Upstream: `EqualIgnoreHash` in `pkg/controller/deployment/util`, and `ComputeHash` in
//! `pkg/controller/controller_utils.go`.

mod big;
mod canonical;
pub mod defaults;
mod dump;
#[cfg(test)]
mod generated;
mod image;
mod normal;
#[cfg(test)]
mod plain;
mod quantity;
#[cfg(test)]
mod tests;
mod types;

use std::fmt;
use std::sync::Arc;

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use serde_json::Value;
use serde_json::value::RawValue;

use steersman_values::intern::Memo;
use steersman_values::labels::Labels;

use self::canonical::canonical;
pub use self::normal::{defaulted, normal};

type Digest = [u8; SHA256_OUTPUT_LEN];

/// Templates by the digest of their served text. API servers send the same text with each status
/// update, and the canonical text takes longer to compute than all other decoding.
static SERVED: Memo<Digest, Parts> = Memo::new();

/// A pod template in a cache, for comparison and for its labels.
///
/// Two templates are equal as in upstream's `EqualIgnoreHash`. The comparison ignores the label
/// `pod-template-hash`, an empty list or map equals an unset one, and quantities compare by value.
///
/// The cache keeps the SHA-256 digest of the canonical text instead of the text, which would take
/// kilobytes.
#[derive(Clone, PartialEq, Eq)]
pub struct PodTemplate(Arc<Parts>);

#[derive(PartialEq, Eq)]
struct Parts {
    canonical: Digest,
    labels: Labels,
}

impl PodTemplate {
    /// The template with the JSON `value`, which is `spec.template` as served.
    pub fn new(value: &Value) -> Self {
        Self(Arc::new(Parts::new(value)))
    }

    /// The template with the JSON text `text`, which is `spec.template` as served. An absent
    /// template is `null`. A text that another cached object has is not parsed again.
    ///
    /// Fails if the text is too deep for the parser or has a number out of range.
    pub(crate) fn served(text: Option<&RawValue>) -> Result<Self, serde_json::Error> {
        let text = text.map_or("null", RawValue::get);
        SERVED
            .get(&sha256(text), || {
                Ok(Parts::new(&serde_json::from_str(text)?))
            })
            .map(Self)
    }

    /// All labels of the template, including `pod-template-hash`.
    pub fn labels(&self) -> &Labels {
        &self.0.labels
    }

    /// Whether both templates describe the same pods, as upstream's `EqualIgnoreHash` decides.
    pub fn equal_ignoring_hash(&self, other: &Self) -> bool {
        self.0.canonical == other.0.canonical
    }
}

impl Parts {
    fn new(value: &Value) -> Self {
        let labels = value.pointer("/metadata/labels").and_then(Value::as_object);
        let pairs = labels
            .into_iter()
            .flatten()
            .filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)));
        Self {
            canonical: sha256(&canonical(value)),
            labels: Labels::new(pairs),
        }
    }
}

fn sha256(text: &str) -> Digest {
    let digest = digest(&SHA256, text.as_bytes());
    digest
        .as_ref()
        .try_into()
        .expect("a SHA-256 digest has 32 bytes")
}

impl fmt::Debug for PodTemplate {
    /// The digest in hexadecimal. Equal templates have equal digests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = &self.0.canonical;
        digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The value of the label `pod-template-hash` for `template`, which is `spec.template` as served.
/// `collision_count` is `status.collisionCount` of the Deployment.
///
/// The value is the same as from `ComputeHash` of Kubernetes 1.36.
pub fn hash(template: &Value, collision_count: Option<i32>) -> String {
    let mut fnv = Fnv1a::default();
    dump::dump(template, &mut fnv).expect("hashing does not fail");
    if let Some(count) = collision_count {
        // Upstream hashes an array of eight bytes, and sets the first four.
        fnv.bytes(&count.to_le_bytes());
        fnv.bytes(&[0; 4]);
    }
    safe_encoded(fnv.0)
}

/// The hash FNV-1a with 32 bits of `parts`, one after the other. Upstream: `New32a` of `hash/fnv`.
pub fn fnv1a(parts: &[&[u8]]) -> u32 {
    let mut fnv = Fnv1a::default();
    parts.iter().for_each(|part| fnv.bytes(part));
    fnv.0
}

/// `hash` in decimal, in an alphabet without vowels. Upstream: `SafeEncodeString`.
pub fn safe_encoded(hash: u32) -> String {
    // Upstream maps all characters. These are its letters for the digits 0 to 9.
    hash.to_string()
        .bytes()
        .map(|digit| char::from(b"456789bcdf"[usize::from(digit - b'0')]))
        .collect()
}

/// FNV-1a with 32 bits. It hashes the dump while the dump is written, so no buffer is needed.
struct Fnv1a(u32);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(2_166_136_261)
    }
}

impl Fnv1a {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(16_777_619)
        });
    }
}

impl fmt::Write for Fnv1a {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}
