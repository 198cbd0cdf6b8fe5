//! Decodes escaped paths as Go's `net/http` does.

use http::Uri;
use http::uri::PathAndQuery;
use percent_encoding::percent_decode_str;

/// `uri` with a decoded path, so that `/%68ealthz` is `/healthz` for routes and for authorization
/// alike. Returns `None` if the path is already decoded. It also returns `None` for a path that
/// requires escapes, which no route has.
pub(super) fn decoded(uri: &Uri) -> Option<Uri> {
    if !uri.path().contains('%') {
        return None;
    }
    let path = percent_decode_str(uri.path()).decode_utf8().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'?' | b'#');
    if !path.bytes().all(is_plain) {
        return None;
    }
    let query = uri
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("{path}{query}")).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once_if_it_can_be_written_without_escapes() {
        // (requested path, decoded path if it changes)
        let cases = [
            ("/healthz", None),
            ("/%68ealthz", Some("/healthz")),
            ("/%68ealthz?verbose=%31", Some("/healthz?verbose=%31")),
            ("/metrics%2Fslis", Some("/metrics/slis")),
            ("https://host:1/%6d", Some("https://host:1/m")),
            ("/%2568ealthz", None),
            ("/healthz%3Fverbose", None),
            ("/healthz%20", None),
            ("/healthz%0a", None),
            ("/%c3%a9", None),
            ("/%ff", None),
            ("/%zz", None),
        ];
        for (asked, expected) in cases {
            let uri: Uri = asked.parse().unwrap();
            assert_eq!(
                decoded(&uri).map(|uri| uri.to_string()).as_deref(),
                expected,
                "{asked}"
            );
        }
    }
}
