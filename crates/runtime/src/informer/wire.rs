//! Decoders of list responses and watch events.
//!
//! They find the position of each object in the bytes and pass its text to [`Object::decode`]. A
//! tree of JSON values in between would cost more than the decoding of the view.
//!
//! line of a watch -> [`frame`] -> [`Frame`]; body of a list -> [`Page`] -> objects
//!
//! Upstream: `StreamWatcher` in `k8s.io/apimachinery/pkg/watch`, and `Reflector` in
//! `k8s.io/client-go/tools/cache`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

use steersman_objects::{DecodeError, Object};

/// Annotation of the bookmark that ends the initial state of a streaming list. Upstream:
/// `InitialEventsAnnotationKey`.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The API server sent bytes that do not decode as a list or a watch event.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error("decode watch event: {0}")]
    Frame(#[source] serde_json::Error),
    #[error("watch event of unknown type {0:?}")]
    FrameType(String),
    #[error("decode list: {0}")]
    List(#[source] serde_json::Error),
    #[error("resourceVersion {0:?} is not a decimal number above zero")]
    Version(String),
    /// An object that its view cannot read.
    #[error(transparent)]
    Object(#[from] DecodeError),
}

/// One line of a watch.
#[derive(Debug)]
pub(crate) enum Frame<T> {
    /// ADDED or MODIFIED.
    Set(T),
    /// DELETED, with the last state of the object.
    Gone(T),
    /// BOOKMARK. `ends_initial` is set if the bookmark ends the initial state of a streaming list.
    Bookmark { version: u64, ends_initial: bool },
    /// ERROR. The server closes the watch after it.
    Error(Box<Status>),
}

/// A line in any valid form of JSON.
#[derive(Deserialize)]
struct FrameWire<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct BookmarkWire<'a> {
    #[serde(borrow)]
    metadata: BookmarkMeta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    annotations: Option<BTreeMap<String, String>>,
}

/// Decodes one line of a watch.
///
/// The fast path expects the form that API servers write, and reads the object once. For any other
/// form, or an error on the fast path, the JSON parser reads the complete line.
pub(crate) fn frame<T: Object>(line: &[u8]) -> Result<Frame<T>, WireError> {
    if let Some((kind, object)) = split_usual_form(line)
        && let Ok(frame) = decode(kind, object)
    {
        return Ok(frame);
    }
    let FrameWire { kind, object } = serde_json::from_slice(line).map_err(WireError::Frame)?;
    decode(&kind, object.get().as_bytes())
}

/// Event type and object of a line in the form that API servers write:
/// `{"type":"<type>","object":<object>}`.
///
/// The function does not check the object. If further members follow it, the returned text includes
/// them. The decoding of the object then fails, and [`frame`] uses the JSON parser.
fn split_usual_form(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let (kind, rest) = rest.split_at(rest.iter().position(|byte| *byte == b'"')?);
    let object = rest
        .strip_prefix(br#"","object":"#)?
        .trim_ascii_end()
        .strip_suffix(b"}")?;
    Some((std::str::from_utf8(kind).ok()?, object))
}

/// Decodes the object of an event with the type `kind`.
fn decode<T: Object>(kind: &str, object: &[u8]) -> Result<Frame<T>, WireError> {
    Ok(match kind {
        "ADDED" | "MODIFIED" => Frame::Set(versioned(object)?),
        "DELETED" => Frame::Gone(versioned(object)?),
        "BOOKMARK" => {
            let BookmarkWire { metadata } =
                serde_json::from_slice(object).map_err(WireError::Frame)?;
            let ends_initial = metadata
                .annotations
                .is_some_and(|a| a.get(INITIAL_EVENTS_END).is_some_and(|v| v == "true"));
            Frame::Bookmark {
                version: version(&metadata.resource_version)?,
                ends_initial,
            }
        }
        "ERROR" => Frame::Error(serde_json::from_slice(object).map_err(WireError::Frame)?),
        other => return Err(WireError::FrameType(other.to_owned())),
    })
}

/// Decodes the object of a watch event. Its resource version must be above zero, because the watch
/// can resume after it.
fn versioned<T: Object>(json: &[u8]) -> Result<T, WireError> {
    let object = T::decode(json)?;
    match object.meta().resource_version {
        0 => Err(WireError::Version("0".to_owned())),
        _ => Ok(object),
    }
}

/// Parses a resource version above zero. In a request, version 0 means any version, so a watch
/// cannot resume from it.
fn version(text: &str) -> Result<u64, WireError> {
    text.parse()
        .ok()
        .filter(|v| *v > 0)
        .ok_or_else(|| WireError::Version(text.to_owned()))
}

/// One page of a list. [`Page::objects`] decodes the objects one at a time.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    /// Resource version of the list.
    pub(crate) version: u64,
    /// Token for the next page; `None` on the last page.
    pub(crate) next: Option<String>,
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct PageWire<'a> {
    #[serde(borrow)]
    metadata: PageMeta<'a>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl<'a> Page<'a> {
    /// Finds the objects in the body of a list response.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let PageWire { metadata, items } = serde_json::from_slice(body).map_err(WireError::List)?;
        Ok(Self {
            version: version(&metadata.resource_version)?,
            next: metadata.next.filter(|token| !token.is_empty()),
            items: items.unwrap_or_default(),
        })
    }

    /// Decodes the objects in the served order. Each object has its own result.
    pub(crate) fn objects<T: Object>(&self) -> impl Iterator<Item = Result<T, WireError>> {
        self.items
            .iter()
            .map(|item| Ok(T::decode(item.get().as_bytes())?))
    }
}

#[cfg(test)]
mod tests {
    use steersman_objects::Node;

    use super::*;

    /// The decoded event or its error, in a few words.
    fn summary(line: &str) -> String {
        match frame::<Node>(line.as_bytes()) {
            Ok(Frame::Set(node)) => format!("set {}", node.meta.name),
            Ok(Frame::Gone(node)) => format!("gone {}", node.meta.name),
            Ok(Frame::Bookmark {
                version,
                ends_initial,
            }) => format!("bookmark {version} {ends_initial}"),
            Ok(Frame::Error(status)) => format!("error {}", status.reason.unwrap_or_default()),
            Err(error) => format!("{error}")
                .split(':')
                .next()
                .unwrap_or_default()
                .to_owned(),
        }
    }

    #[test]
    fn frames_in_any_json_form_are_decoded() {
        let cases = [
            (
                r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}"#,
                "set a",
            ),
            (
                "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}\n",
                "set a",
            ),
            (
                r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}"#,
                "gone a",
            ),
            (
                r#"{"object":{"metadata":{"name":"a","resourceVersion":"1"}},"type":"ADDED"}"#,
                "set a",
            ),
            (
                r#" { "type" : "ADDED" , "object" : {"metadata":{"name":"a","resourceVersion":"1"}} } "#,
                "set a",
            ),
            (
                r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}},"more":{}}"#,
                "set a",
            ),
            (
                r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#,
                "bookmark 7 false",
            ),
            (
                r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
                "bookmark 8 true",
            ),
            (
                r#"{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410}}"#,
                "error Expired",
            ),
            (
                r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
                "resourceVersion \"0\" is not a decimal number above zero",
            ),
            (
                r#"{"type":"OTHER","object":{}}"#,
                "watch event of unknown type \"OTHER\"",
            ),
            (
                r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"0"}}}"#,
                "resourceVersion \"0\" is not a decimal number above zero",
            ),
            (
                r#"{"type":"ADDED","object":{"metadata":{"nam"#,
                "decode watch event",
            ),
            (
                r#"{"type":"ADDED","object":{"kind":"Table"}}"#,
                "decode Node",
            ),
            ("", "decode watch event"),
        ];
        for (line, expected) in cases {
            assert_eq!(summary(line), expected, "{line}");
        }
    }

    #[test]
    fn each_object_of_a_page_has_its_own_result() {
        let body =
            br#"{"kind":"NodeList","metadata":{"resourceVersion":"12","continue":"abc"},"items":[{"metadata":{"name":"a","resourceVersion":"1"}},{}]}"#;
        let page = Page::parse(body).unwrap();
        assert_eq!((page.version, page.next.as_deref()), (12, Some("abc")));
        let objects: Vec<Result<Node, _>> = page.objects().collect();
        assert_eq!(&*objects[0].as_ref().unwrap().meta.name, "a");
        assert!(objects[1].is_err());
        let empty =
            Page::parse(br#"{"metadata":{"resourceVersion":"12","continue":""},"items":null}"#)
                .unwrap();
        assert!(empty.next.is_none() && empty.objects::<Node>().next().is_none());
        assert!(Page::parse(br#"{"metadata":{"resourceVersion":""},"items":[]}"#).is_err());
    }
}
