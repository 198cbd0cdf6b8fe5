//! Names of images, as far as the default pull policy depends on them.
//!
//! Upstream: `pkg/util/parsers` and the module `distribution/reference`.

/// Host of names without one.
const DEFAULT_HOST: &str = "docker.io";
/// The same host under its former name.
const FORMER_HOST: &str = "index.docker.io";
/// The namespace of names of one part at this host.
const DEFAULT_NAMESPACE: &str = "library/";
/// The longest path.
const MAX_PATH: usize = 255;
const MAX_TAG: usize = 128;

/// Whether an image has the tag `latest`, which is also the tag of names without tag and digest.
/// Invalid names have no tag.
pub(super) fn is_latest(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A name of this form would be taken for the ID of an image.
    let is_id = image.len() == 64 && image.bytes().all(is_lower_hex);
    if is_id || !digest.is_none_or(is_digest) {
        return false;
    }
    let (host, path) = match name.split_once('/') {
        Some((host, path)) if is_host_part(host) => (host, path),
        _ => (DEFAULT_HOST, name),
    };
    let (path, tag) = match path.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (path, None),
    };
    let is_name = (is_host(host) || is_component(host)) && path.split('/').all(is_component);
    let has_namespace = path.contains('/') || ![DEFAULT_HOST, FORMER_HOST].contains(&host);
    let added = if has_namespace {
        0
    } else {
        DEFAULT_NAMESPACE.len()
    };
    if !is_name || path.len() + added > MAX_PATH {
        return false;
    }
    match tag {
        Some(tag) => is_tag(tag) && tag == "latest",
        None => digest.is_none(),
    }
}

/// Whether the part before the first slash is a host and not the first part of the path.
fn is_host_part(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.chars().any(|c| c.is_ascii_uppercase())
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let is_address = |text: &str| {
        let inner = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        inner.is_some_and(|inner| {
            !inner.is_empty() && inner.bytes().all(|b| b == b':' || b.is_ascii_hexdigit())
        })
    };
    let is_label = |label: &str| {
        let allowed = |b: u8| b == b'-' || b.is_ascii_alphanumeric();
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(allowed)
    };
    port.is_none_or(is_port) && (is_address(name) || name.split('.').all(is_label))
}

/// A part of a path: small letters and digits, separated by one period, one or two underscores, or
/// hyphens.
fn is_component(part: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_separator = |text: &str| {
        matches!(text, "." | "_" | "__") || (!text.is_empty() && text.bytes().all(|b| b == b'-'))
    };
    part.starts_with(is_letter)
        && part.ends_with(is_letter)
        && part
            .split(is_letter)
            .filter(|between| !between.is_empty())
            .all(is_separator)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    tag.len() <= MAX_TAG
        && tag.starts_with(is_word)
        && tag.chars().all(|c| is_word(c) || c == '.' || c == '-')
}

fn is_digest(digest: &str) -> bool {
    let digits = match digest.split_once(':') {
        Some(("sha256", digits)) if digits.len() == 64 => digits,
        Some(("sha384", digits)) if digits.len() == 96 => digits,
        Some(("sha512", digits)) if digits.len() == 128 => digits,
        _ => return false,
    };
    digits.bytes().all(is_lower_hex)
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from kube-apiserver 1.36.2: `Always` is the policy of the latest image.
    #[test]
    fn images_are_latest_as_upstream_reads_their_names() {
        let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
        let long = |host: &str, length| format!("{host}{}", "b".repeat(length));
        let cases = [
            ("x".to_owned(), true),
            ("x:latest".to_owned(), true),
            ("x:1".to_owned(), false),
            ("x:LATEST".to_owned(), false),
            ("a/b/c".to_owned(), true),
            ("localhost/x".to_owned(), true),
            ("localhost:5000/x".to_owned(), true),
            ("localhost:5000/x:1".to_owned(), false),
            ("reg.example:5000/a_b/c__d/e--f.g".to_owned(), true),
            ("reg.example:/x".to_owned(), false),
            ("reg.example:a/x".to_owned(), false),
            ("-reg.example/x".to_owned(), false),
            ("a_b.c/x".to_owned(), true),
            ("[::1]:5000/x".to_owned(), true),
            ("[::1]/x".to_owned(), true),
            ("[::g]/x".to_owned(), false),
            ("Upper/x".to_owned(), true),
            ("Upper/Case".to_owned(), false),
            ("upper/Case".to_owned(), false),
            ("Upper".to_owned(), false),
            ("a//b".to_owned(), false),
            ("/a".to_owned(), false),
            ("a/".to_owned(), false),
            ("a..b".to_owned(), false),
            ("a___b".to_owned(), false),
            ("a._b".to_owned(), false),
            ("a-".to_owned(), false),
            ("ko://example.com/cmd".to_owned(), false),
            (" x".to_owned(), false),
            (String::new(), false),
            ("x:".to_owned(), false),
            ("x:latest:latest".to_owned(), false),
            (format!("x@{digest}"), false),
            (format!("x:latest@{digest}"), true),
            (format!("x:1@{digest}"), false),
            ("x:latest@sha256:abc".to_owned(), false),
            (format!("x:latest@md5:{}", "0".repeat(32)), false),
            ("0123456789abcdef".repeat(4), false),
        ];
        for (host, most) in [
            ("", 247),
            ("a/", 253),
            ("x.y/", 255),
            ("index.docker.io/", 247),
        ] {
            assert!(is_latest(&long(host, most)), "{host}");
            assert!(!is_latest(&long(host, most + 1)), "{host}");
        }
        for (image, expected) in cases {
            assert_eq!(is_latest(&image), expected, "{image}");
        }
    }
}
