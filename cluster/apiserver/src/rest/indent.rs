//! The layout of JSON answers: one line with its end, or indented for people.
//!
//! Clients ask for indentation with `?pretty=true` or `;pretty=1` in `Accept`. Browsers, curl and wget
//! get it without asking. Upstream: `isPrettyPrint` in
//! `apiserver/pkg/endpoints/handlers/negotiation`, and `serializer/json`.

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{Response, StatusCode};

use super::Body;
use super::aggregation::Unchanged;
use super::query::Query;

/// Beginnings of the user agents of programs that people read.
const FOR_PEOPLE: &[&str] = &["curl", "Wget", "Mozilla/5.0"];

/// Documents that upstream writes as they are.
const RAW: &[&str] = &["/openapi", "/openid", "/.well-known"];

/// Documents that upstream indents for all clients.
const ALWAYS_INDENTED: &[&str] = &["/", "/version", "/version/"];

/// The layout of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Raw,
    OneLine,
    Indented,
}

/// `response` in the layout that its request asks for. Watches stay as they are.
pub(super) fn laid_out(
    response: Response<Body>,
    request: &Parts,
    is_watch: bool,
) -> Response<Body> {
    if response.extensions().get::<Unchanged>().is_some() {
        return response;
    }
    let kind = response.headers().get(CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_json || is_watch {
        return response;
    }
    // The error about media types has no negotiated one.
    let layout = if response.status() == StatusCode::NOT_ACCEPTABLE {
        Layout::Indented
    } else {
        layout(request)
    };
    match layout {
        Layout::Raw => response,
        Layout::OneLine => response.map(ended),
        Layout::Indented => response.map(indented),
    }
}

fn layout(request: &Parts) -> Layout {
    let path = request.uri.path();
    if RAW.iter().any(|raw| path.starts_with(raw)) {
        return Layout::Raw;
    }
    let is_indented = ALWAYS_INDENTED.contains(&path) || {
        let header = |name| super::header(request, name);
        header(&ACCEPT)
            .split([',', ';'])
            .any(|part| part.trim() == "pretty=1")
            || match Query::parse(request.uri.query()).text("pretty") {
                "" => {
                    let agent = header(&USER_AGENT);
                    FOR_PEOPLE.iter().any(|begin| agent.starts_with(begin))
                }
                // The values of Go's `strconv.ParseBool`.
                given => matches!(given, "1" | "t" | "T" | "true" | "TRUE" | "True"),
            }
    };
    if is_indented {
        Layout::Indented
    } else {
        Layout::OneLine
    }
}

/// A complete body with the end of its line. Streams have it already.
fn ended(body: Body) -> Body {
    match body {
        Body::Whole(Some(bytes)) if !bytes.is_empty() && !bytes.ends_with(b"\n") => {
            let mut line = BytesMut::with_capacity(bytes.len() + 1);
            line.extend_from_slice(&bytes);
            line.extend_from_slice(b"\n");
            Body::whole(line.freeze())
        }
        other => other,
    }
}

fn indented(body: Body) -> Body {
    let mut indenter = Indenter::default();
    match body {
        Body::Whole(Some(bytes)) => Body::whole(indenter.feed(&bytes)),
        Body::Whole(None) => Body::Whole(None),
        Body::Stream(pieces) => Body::fallible(pieces.map_ok(move |piece| indenter.feed(&piece))),
    }
}

/// Indents JSON by two spaces, as Go's `json.Indent` does, whatever pieces it comes in.
#[derive(Debug, Default)]
struct Indenter {
    depth: usize,
    in_text: bool,
    after_backslash: bool,
    /// A bracket was opened, and nothing followed yet.
    is_open: bool,
}

impl Indenter {
    fn feed(&mut self, json: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(json.len() + json.len() / 2);
        for byte in json {
            self.byte(*byte, &mut out);
        }
        Bytes::from(out)
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.in_text {
            out.push(byte);
            match byte {
                _ if self.after_backslash => self.after_backslash = false,
                b'\\' => self.after_backslash = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return;
        }
        if byte.is_ascii_whitespace() {
            return;
        }
        let closes = matches!(byte, b'}' | b']');
        if self.is_open && !closes {
            self.depth += 1;
            self.line(out);
        }
        let was_open = std::mem::replace(&mut self.is_open, false);
        match byte {
            b'{' | b'[' => {
                self.is_open = true;
                out.push(byte);
            }
            b'}' | b']' => {
                // An empty object or list stays on its line.
                if !was_open {
                    self.depth = self.depth.saturating_sub(1);
                    self.line(out);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                self.line(out);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                self.in_text = byte == b'"';
                out.push(byte);
            }
        }
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_as_by_go_in_pieces_of_any_size() {
        let json = br#"{"a":[],"b":{},"c":[1,{"d":"x: [\"{,}\\"}],"e":{"f":null}}
"#;
        let expected = "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"x: [\\\"{,}\\\\\"\n    }\n  ],\n  \"e\": {\n    \"f\": null\n  }\n}";
        for size in [1, 2, 7, json.len()] {
            let mut indenter = Indenter::default();
            let pieces: Vec<Bytes> = json
                .chunks(size)
                .map(|piece| indenter.feed(piece))
                .collect();
            assert_eq!(pieces.concat(), expected.as_bytes(), "pieces of {size}");
        }
    }

    #[test]
    fn people_get_indented_answers_unless_they_ask_for_one_line() {
        let cases = [
            ("/api/v1/pods", "curl/8.0", "", Layout::Indented),
            ("/api/v1/pods", "Wget/1.21", "", Layout::Indented),
            ("/api/v1/pods", "Mozilla/5.0 (X11)", "", Layout::Indented),
            ("/api/v1/pods", "kubectl", "", Layout::OneLine),
            ("/api/v1/pods?pretty=true", "kubectl", "", Layout::Indented),
            ("/api/v1/pods?pretty=0", "curl/8.0", "", Layout::OneLine),
            ("/api/v1/pods?pretty=x", "curl/8.0", "", Layout::OneLine),
            (
                "/api",
                "kubectl",
                "application/json;pretty=1",
                Layout::Indented,
            ),
            ("/version", "kubectl", "", Layout::Indented),
            ("/", "kubectl", "", Layout::Indented),
            ("/openapi/v3/api/v1", "curl/8.0", "", Layout::Raw),
            ("/openid/v1/jwks", "curl/8.0", "", Layout::Raw),
        ];
        for (path, agent, accept, expected) in cases {
            let request = http::Request::builder()
                .uri(path)
                .header(USER_AGENT, agent)
                .header(ACCEPT, accept);
            let (parts, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(layout(&parts), expected, "{path} {agent} {accept}");
        }
    }
}
