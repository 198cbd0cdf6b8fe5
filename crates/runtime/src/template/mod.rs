//! Pod templates: equality as upstream defines it, and the template hash.
//!
//! Both read the template as served, by the table of Go types of Kubernetes 1.36 ([`types`]):
//! equality through one text per class of equal templates ([`canonical`](mod@canonical)), the hash
//! through the text that Go dumps ([`dump`](mod@dump)).

mod big;
mod canonical;
mod dump;
#[cfg(test)]
mod generated;
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

use self::canonical::canonical;
use crate::intern::Memo;
use crate::labels::Labels;

type Digest = [u8; SHA256_OUTPUT_LEN];

/// Templates by the digest of their served text. API servers send the same text with each status
/// update, and making the canonical text takes longer than all other decoding.
static SERVED: Memo<Digest, Parts> = Memo::new();

/// A pod template, comparable by upstream's `EqualIgnoreHash`: the label `pod-template-hash` does
/// not count, unset and empty lists and maps are equal, quantities compare by value.
///
/// Templates are compared by the SHA-256 digest of their canonical text, so that a template takes
/// 100 bytes in the caches instead of the text.
#[derive(Clone, PartialEq, Eq)]
pub struct PodTemplate(Arc<Parts>);

#[derive(PartialEq, Eq)]
struct Parts {
    canonical: Digest,
    labels: Labels,
}

impl PodTemplate {
    /// The template in `value` (`spec.template` as served).
    pub fn new(value: &Value) -> Self {
        Self(Arc::new(Parts::new(value)))
    }

    /// The template with this text, `spec.template` as served; absent is `null`. The text of a
    /// cached template is not parsed again.
    pub(crate) fn served(text: Option<&RawValue>) -> Result<Self, serde_json::Error> {
        let text = text.map_or("null", RawValue::get);
        SERVED
            .get(&sha256(text), || {
                Ok(Parts::new(&serde_json::from_str(text)?))
            })
            .map(Self)
    }

    /// The template's labels, `pod-template-hash` included.
    pub fn labels(&self) -> &Labels {
        &self.0.labels
    }

    /// Whether both ask for the same pods; see the type.
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
    /// The digest: equal templates have equal texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = &self.0.canonical;
        digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Value of the label `pod-template-hash` for the template `template` (`spec.template` as served),
/// bit for bit upstream's `ComputeHash` of 1.36.
pub fn hash(template: &Value, collision_count: Option<i32>) -> String {
    let mut fnv = Fnv1a::default();
    dump::dump(template, &mut fnv).expect("hashing does not fail");
    if let Some(count) = collision_count {
        fnv.bytes(&count.to_le_bytes());
        fnv.bytes(&[0; 4]);
    }
    // Upstream's alphabet of letters and digits that spell no words, at the places of the
    // characters 0 to 9.
    fnv.0
        .to_string()
        .bytes()
        .map(|digit| char::from(b"456789bcdf"[usize::from(digit - b'0')]))
        .collect()
}

/// FNV-1a of 32 bits; the dump is hashed as it is written.
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
