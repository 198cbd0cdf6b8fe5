//! URLs, as Go parses request URIs.
//!
//! Upstream: `net/url` of Go.

use percent_encoding::percent_decode_str;

/// The parts of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub(crate) scheme: String,
    /// With the port.
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: String,
}

impl Url {
    /// The problems of a text that should be a URL.
    pub(super) fn complaints(text: &str) -> Vec<String> {
        let problem = Self::parse(text).err();
        problem
            .map(|why| format!("parse {text:?}: {why}"))
            .into_iter()
            .collect()
    }

    /// Parses an absolute URL or an absolute path. The error is Go's.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const NOT_A_REQUEST: &str = "invalid URI for request";
        if text.chars().any(|letter| letter.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        let (scheme, rest) = match text.split_once(':') {
            Some(("", _)) => return Err("missing protocol scheme".to_owned()),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), text),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            return Err(NOT_A_REQUEST.to_owned());
        }
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() => {
                let end = rest.find('/').unwrap_or(rest.len());
                (&rest[..end], &rest[end..])
            }
            _ => ("", rest),
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        check_host(host)?;
        check_escapes(path)?;
        Ok(Self {
            scheme,
            host: host.to_owned(),
            path: escaped(path),
            query: query.to_owned(),
        })
    }

    /// The host without brackets, and the port.
    pub(crate) fn split_host(&self) -> (&str, &str) {
        if let Some((inside, rest)) = self.host.strip_prefix('[').and_then(|h| h.split_once(']')) {
            return (inside, rest.strip_prefix(':').unwrap_or(""));
        }
        self.host.rsplit_once(':').unwrap_or((&self.host, ""))
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((_, port)) => port.to_owned(),
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host
            .split_once(':')
            .map(|(_, port)| format!(":{port}"))
            .unwrap_or_default(),
    };
    let digits = port.strip_prefix(':').unwrap_or(&port);
    if !port.is_empty() && (!port.starts_with(':') || !digits.chars().all(|d| d.is_ascii_digit())) {
        return Err(format!("invalid port {port:?} after host"));
    }
    match host.chars().find(|letter| " \"<>\\^`{|}".contains(*letter)) {
        Some(letter) => Err(format!(
            "invalid character {:?} in host name",
            letter.to_string()
        )),
        None => Ok(()),
    }
}

fn check_escapes(path: &str) -> Result<(), String> {
    for (at, _) in path.match_indices('%') {
        let digits = path.get(at + 1..at + 3).unwrap_or_default();
        if digits.len() != 2 || !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
            let end = path.len().min(at + 3);
            let shown = path.get(at..end).unwrap_or("%");
            return Err(format!("invalid URL escape {shown:?}"));
        }
    }
    Ok(())
}

/// The path as Go escapes it: a valid encoding stays, other letters are encoded.
fn escaped(path: &str) -> String {
    const ALLOWED: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'~')
        .remove(b'$')
        .remove(b'&')
        .remove(b'+')
        .remove(b',')
        .remove(b'/')
        .remove(b':')
        .remove(b';')
        .remove(b'=')
        .remove(b'@')
        .remove(b'!')
        .remove(b'\'')
        .remove(b'(')
        .remove(b')')
        .remove(b'*')
        .remove(b'[')
        .remove(b']')
        .remove(b'%');
    let valid = percent_decode_str(path).decode_utf8().is_ok();
    if valid {
        percent_encoding::utf8_percent_encode(path, ALLOWED).to_string()
    } else {
        path.to_owned()
    }
}
