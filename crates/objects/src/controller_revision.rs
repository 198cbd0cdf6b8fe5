//! The cached view of a ControllerRevision: one entry in the history of a StatefulSet or DaemonSet.
//!
//! The view keeps the served [`Document`], because the controllers PUT revisions. The document
//! contains the data, so the view reads it from there. A digest of the data answers most comparisons
//! without that. Upstream: `k8s.io/api/apps/v1`.

use std::borrow::Cow;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use steersman_values::resource::CONTROLLER_REVISIONS;

use crate::view;

view! {
    /// A ControllerRevision.
    pub struct ControllerRevision: CONTROLLER_REVISIONS, keeps document {
        /// Number of the revision. The highest one of an owner is its newest revision.
        pub revision: i64,
        /// Digest of [`ControllerRevision::data`].
        data: DataDigest,
    }
}

/// A digest of the data of a revision. Revisions with different digests have different data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataDigest(u64);

impl DataDigest {
    /// The digest of `data`, which has the form of [`ControllerRevision::data`].
    pub fn of(data: &str) -> Self {
        Self(FixedState::default().hash_one(data))
    }
}

impl Default for DataDigest {
    fn default() -> Self {
        Self::of(NO_DATA)
    }
}

impl<'de> Deserialize<'de> for DataDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let data = <&RawValue>::deserialize(deserializer)?;
        Ok(Self::of(&compact(data.get())))
    }
}

/// The data of a revision without data.
const NO_DATA: &str = "null";

impl ControllerRevision {
    /// Whether [`ControllerRevision::data`] is `data`, which has the digest `digest`.
    pub fn has_data(&self, data: &str, digest: DataDigest) -> bool {
        self.data == digest && self.data() == data
    }

    /// `data` in the form of [`compact`]; `null` if the revision has no data.
    pub fn data(&self) -> String {
        #[derive(Deserialize)]
        struct Data<'a> {
            #[serde(borrow)]
            data: Option<&'a RawValue>,
        }
        let text = self.document.text();
        let found: Option<Data<'_>> = serde_json::from_str(&text).ok();
        compact(found.and_then(|d| d.data).map_or(NO_DATA, RawValue::get)).into_owned()
    }
}

/// The JSON `text` without white space, and with the escapes that Go's encoder writes for the
/// characters of HTML. API servers of Kubernetes send raw JSON in this form.
fn compact(text: &str) -> Cow<'_, str> {
    let is_special = |c: char| {
        matches!(
            c,
            ' ' | '\n' | '\r' | '\t' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}'
        )
    };
    if !text.contains(is_special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut in_string = false;
    let mut escaped = false;
    for character in text.chars() {
        match character {
            ' ' | '\n' | '\r' | '\t' if !in_string => continue,
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
        if character == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = character == '\\' && !escaped;
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;

    #[test]
    fn data_has_the_text_that_an_api_server_sends() {
        // (served data, data)
        let cases = [
            (r#"{"a":1,"b":"x y"}"#, r#"{"a":1,"b":"x y"}"#),
            (
                "{ \"b\" : [ 1,\n\t2 ], \"a\": \"x\\\" y\" }",
                r#"{"b":[1,2],"a":"x\" y"}"#,
            ),
            (
                "{\"a\":\"\\\\\", \"b<\":\"&>\u{2028}\u{2029}\"}",
                r#"{"a":"\\","b\u003c":"\u0026\u003e\u2028\u2029"}"#,
            ),
            (r#"{"a":"\u003c"}"#, r#"{"a":"\u003c"}"#),
            ("null", "null"),
        ];
        for (served, expected) in cases {
            let json = format!(r#"{{"metadata":{{"name":"r"}},"data":{served},"revision":3}}"#);
            let revision = ControllerRevision::decode(json.as_bytes()).unwrap();
            assert_eq!(revision.data(), expected, "{served}");
            assert!(revision.has_data(expected, DataDigest::of(expected)));
            assert!(!revision.has_data("{}", DataDigest::of("{}")));
            assert_eq!(revision.revision, 3);
        }
        let bare = ControllerRevision::decode(br#"{"metadata":{"name":"r"}}"#).unwrap();
        assert_eq!((bare.revision, &*bare.data()), (0, "null"));
        assert!(bare.has_data("null", DataDigest::of("null")));
    }
}
