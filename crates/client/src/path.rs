//! Paths and queries of requests.
//!
//! [`ApiPath`], [`Query`] and [`Target`] are the only ways to name a request. Each text that comes
//! from a user or a server passes through them and is escaped, so it cannot change another part of
//! the URL. A text that no escape makes safe is refused before the request, with the words of
//! `client-go/rest/request.go`.

use std::fmt::{self, Display, Write};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

use super::Target;

/// The characters that must be escaped in a path segment.
const OUTSIDE_SEGMENTS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The characters that must be escaped in a value of a query.
const OUTSIDE_VALUES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Escapes `segment` for a path. Most names need no escapes, but names of RBAC objects may contain
/// all characters except `/` and `%`.
fn escape(segment: &str) -> PercentEncode<'_> {
    utf8_percent_encode(segment, OUTSIDE_SEGMENTS)
}

/// The reason why `text` is no path segment; `None` if it is one. Upstream: `IsValidPathSegmentName`.
fn fault(text: &str) -> Option<String> {
    let faults: Vec<&str> = match text {
        "." => vec!["may not be '.'"],
        ".." => vec!["may not be '..'"],
        _ => [("/", "may not contain '/'"), ("%", "may not contain '%'")]
            .into_iter()
            .filter(|(part, _)| text.contains(part))
            .map(|(_, fault)| fault)
            .collect(),
    };
    (!faults.is_empty()).then(|| faults.join(" "))
}

/// Whether an object can have this name. The path of another name would be that of another request.
/// Upstream: `IsValidPathSegmentName`.
pub fn is_path_name(name: &str) -> bool {
    !name.is_empty() && fault(name).is_none()
}

/// The part of a URL that a text was meant for. The texts are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Group,
    Namespace,
    Resource,
    Name,
    Subresource,
    /// A part of a path without a resource.
    Segment,
}

impl Part {
    fn as_str(self) -> &'static str {
        match self {
            Self::Group => "group version",
            Self::Namespace => "namespace",
            Self::Resource => "resource",
            Self::Name => "resource name",
            Self::Subresource => "subresource",
            Self::Segment => "path segment",
        }
    }
}

/// A text that cannot be a part of a URL, so no request was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text would name another request.
    #[error("invalid {part} {text:?}: [{fault}]")]
    Invalid {
        /// The part of the URL.
        part: &'static str,
        /// The text.
        text: String,
        /// The reason.
        fault: String,
    },
    /// The text is empty.
    #[error("{0} may not be empty")]
    Empty(&'static str),
    /// The text is no path with a query.
    #[error("invalid path {0:?} in a document of the API server")]
    Served(String),
}

fn push(path: &mut String, part: Part, text: &str) -> Result<(), PathError> {
    if text.is_empty() {
        return Err(PathError::Empty(part.as_str()));
    }
    if let Some(fault) = fault(text) {
        return Err(PathError::Invalid {
            part: part.as_str(),
            text: text.to_owned(),
            fault,
        });
    }
    path.push('/');
    path.extend(escape(text));
    Ok(())
}

/// An absolute path at the API server, with a query if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiPath(String);

impl ApiPath {
    /// The discovery document of a group version; the core group is empty.
    ///
    /// # Errors
    /// When a text is no path segment.
    pub fn of_version(group: &str, version: &str) -> Result<Self, PathError> {
        if group.is_empty() {
            return Self::from("/api").join(version);
        }
        Self::from("/apis").join(group)?.join(version)
    }

    /// The path with one more segment.
    ///
    /// # Errors
    /// When the text is no path segment.
    pub fn join(mut self, segment: &str) -> Result<Self, PathError> {
        push(&mut self.0, Part::Segment, segment)?;
        Ok(self)
    }

    /// A path that a document of the API server has, such as `serverRelativeURL` of OpenAPI. It is
    /// escaped already, and may have a query.
    ///
    /// # Errors
    /// When the text is not absolute, names another host, leaves its folder, or is not escaped.
    pub fn served(text: &str) -> Result<Self, PathError> {
        let invalid = || PathError::Served(text.to_owned());
        let path = text.split('?').next().unwrap_or_default();
        let is_plain = text.starts_with('/')
            && !text.starts_with("//")
            && !text.contains('#')
            && path
                .split('/')
                .all(|segment| !matches!(segment, "." | ".."));
        let parsed = http::uri::PathAndQuery::try_from(text).map_err(|_| invalid())?;
        if !is_plain || parsed.as_str() != text {
            return Err(invalid());
        }
        Ok(Self(text.to_owned()))
    }

    /// The path and the query.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A path of the program itself.
impl From<&'static str> for ApiPath {
    fn from(path: &'static str) -> Self {
        Self(path.to_owned())
    }
}

impl Display for ApiPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The query of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(String);

impl Query {
    /// The query with one more parameter, whose value is escaped.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        let value = value.to_string();
        self.0.extend(utf8_percent_encode(&value, OUTSIDE_VALUES));
        self
    }

    /// The same; an empty value is left out.
    #[must_use]
    pub fn with_text(self, name: &'static str, value: &str) -> Self {
        if value.is_empty() {
            self
        } else {
            self.with(name, value)
        }
    }

    /// The parameters of this query, then those of `other`.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        if !self.0.is_empty() && !other.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(&other.0);
        self
    }

    /// The text of the query, without the question mark.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A query of the program itself.
impl From<&'static str> for Query {
    fn from(query: &'static str) -> Self {
        Self(query.to_owned())
    }
}

impl From<&Query> for Query {
    fn from(query: &Query) -> Self {
        query.clone()
    }
}

impl Target<'_> {
    /// The path of the request.
    pub(super) fn path(&self) -> Result<String, PathError> {
        let resource = self.resource;
        let mut path = String::with_capacity(96);
        if resource.group.is_empty() {
            path.write_str("/api/v1").unwrap_or_default();
        } else {
            path.push_str("/apis");
            push(&mut path, Part::Group, &resource.group)?;
            push(&mut path, Part::Group, &resource.version)?;
        }
        if let Some(namespace) = self.namespace {
            path.push_str("/namespaces");
            push(&mut path, Part::Namespace, namespace)?;
        }
        push(&mut path, Part::Resource, &resource.plural)?;
        for (part, text) in [
            (Part::Name, self.name),
            (Part::Subresource, self.subresource),
        ] {
            if let Some(text) = text {
                push(&mut path, part, text)?;
            }
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use steersman_values::resource::ResourceType;

    use super::*;

    /// The path with this text in one part of it.
    fn with(part: Part, text: &str) -> Result<String, PathError> {
        let or = |of: Part, usual: &'static str| {
            if of == part {
                text.to_owned()
            } else {
                usual.to_owned()
            }
        };
        let resource = ResourceType {
            group: or(Part::Group, "g").into(),
            version: "v1".into(),
            kind: "K".into(),
            plural: or(Part::Resource, "ks").into(),
            namespaced: true,
        };
        let [namespace, name, subresource] = [
            or(Part::Namespace, "n"),
            or(Part::Name, "a"),
            or(Part::Subresource, "s"),
        ];
        let target = Target {
            resource: &resource,
            namespace: Some(&namespace),
            name: Some(&name),
            subresource: Some(&subresource),
        };
        target.path()
    }

    /// Texts that would name another request if they were not escaped.
    const HOSTILE: [(&str, &str); 8] = [
        ("q?z", "q%3Fz"),
        ("x#y", "x%23y"),
        ("a b", "a%20b"),
        ("a\r\nb", "a%0D%0Ab"),
        ("é\\", "%C3%A9%5C"),
        ("a[b]", "a%5Bb%5D"),
        ("system:a@b", "system:a@b"),
        ("a\0b", "a%00b"),
    ];

    #[test]
    fn each_part_of_a_path_is_escaped() {
        let parts = [
            (Part::Group, "/apis/?/v1/namespaces/n/ks/a/s"),
            (Part::Namespace, "/apis/g/v1/namespaces/?/ks/a/s"),
            (Part::Resource, "/apis/g/v1/namespaces/n/?/a/s"),
            (Part::Name, "/apis/g/v1/namespaces/n/ks/?/s"),
            (Part::Subresource, "/apis/g/v1/namespaces/n/ks/a/?"),
        ];
        for (part, path) in parts {
            for (text, escaped) in HOSTILE {
                let expected = path.replace('?', escaped);
                assert_eq!(with(part, text), Ok(expected), "{part:?} {text:?}");
            }
        }
    }

    #[test]
    fn a_text_that_names_another_request_is_refused_in_the_words_of_upstream() {
        // (part, text, error)
        let cases = [
            (
                Part::Namespace,
                "a/b",
                r#"invalid namespace "a/b": [may not contain '/']"#,
            ),
            (
                Part::Resource,
                "a%b",
                r#"invalid resource "a%b": [may not contain '%']"#,
            ),
            (
                Part::Resource,
                "..",
                r#"invalid resource "..": [may not be '..']"#,
            ),
            (
                Part::Name,
                "%/",
                r#"invalid resource name "%/": [may not contain '/' may not contain '%']"#,
            ),
            (
                Part::Subresource,
                ".",
                r#"invalid subresource ".": [may not be '.']"#,
            ),
            (Part::Name, "", "resource name may not be empty"),
        ];
        for (part, text, expected) in cases {
            assert_eq!(with(part, text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn values_of_a_query_are_escaped() {
        let query = Query::from("limit=500")
            .with("labelSelector", "a in (b,c), !d_-.~=é&x=#")
            .with_text("continue", "")
            .with("timeoutSeconds", 5);
        assert_eq!(
            query.as_str(),
            "limit=500&labelSelector=a%20in%20%28b%2Cc%29%2C%20%21d_-.~%3D%C3%A9%26x%3D%23&timeoutSeconds=5"
        );
        assert_eq!(Query::default().and(&query), query);
        let both = Query::from("a=1").and(&Query::from("b=2"));
        assert_eq!(both.as_str(), "a=1&b=2");
    }

    #[test]
    fn a_path_of_a_document_stays_on_the_server() {
        let good = ["/openapi/v3/apis/apps/v1?hash=A%2B0", "/a"];
        for text in good {
            assert_eq!(ApiPath::served(text).unwrap().as_str(), text);
        }
        let bad = [
            "",
            "a",
            "@evil.example/x",
            "//evil.example/x",
            "http://evil.example/x",
            "/a#b",
            "/a b",
            "/a\r\nHost: b",
            "/../a",
            "/a/./b",
            ":80/a",
        ];
        for text in bad {
            assert!(ApiPath::served(text).is_err(), "{text:?}");
        }
        let version = ApiPath::of_version("a?b", "v1").unwrap();
        assert_eq!(version.as_str(), "/apis/a%3Fb/v1");
        assert!(ApiPath::of_version("a/b", "v1").is_err());
        assert_eq!(ApiPath::of_version("", "v1").unwrap().as_str(), "/api/v1");
    }
}
