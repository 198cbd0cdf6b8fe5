//! Parses the address of the API server: a URL, or a host with or without a port.
//!
//! It accepts and refuses the same addresses as `DefaultServerURL` of `client-go/rest`, so that a
//! kubeconfig works for both managers.

use http::Uri;
use http::uri::{Authority, Scheme};

/// The address of an API server. Credentials of the URL are separate, because addresses appear in
/// logs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Has a scheme (`http` or `https`) and an authority. Has no user information, query or
    /// fragment.
    pub(super) url: Uri,
    /// User name and password of the URL.
    pub(super) user: Option<(String, String)>,
}

impl Address {
    /// Parses `text`. The errors are client-go's texts, and never show a password.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let shown = if text.contains('@') {
            "<a URL with credentials>"
        } else {
            text
        };
        let malformed = || format!("host must be a URL or a host:port pair: {shown:?}");
        let (scheme, rest) = match text
            .split_once("://")
            .filter(|(scheme, rest)| is_scheme(scheme) && has_host(rest))
        {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            // `http` even with a certificate authority, as clientcmd: it picks the scheme without a
            // look at the TLS settings.
            None if has_path(text) => return Err(malformed()),
            None => ("http".to_owned(), text),
        };
        let scheme = match scheme.as_str() {
            "http" => Scheme::HTTP,
            "https" => Scheme::HTTPS,
            other => {
                return Err(format!(
                    "the address {shown:?} has the scheme {other:?}; only https and http are supported"
                ));
            }
        };
        let rest = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(credentials(user).ok_or_else(malformed)?), host),
            None => (None, authority),
        };
        // As in Go: an empty host means this machine, an empty port means the scheme's default.
        let host = host.strip_suffix(':').unwrap_or(host);
        let host = if host.starts_with(':') {
            format!("localhost{host}")
        } else {
            host.to_owned()
        };
        let authority: Authority = host.parse().map_err(|_| malformed())?;
        let has_number = authority.port().is_none() || authority.port_u16().is_some();
        let ends_with_number = authority.as_str() == authority.host() || authority.port().is_some();
        if !has_number || !ends_with_number {
            return Err(format!(
                "{}: the port must be a number up to 65535",
                malformed()
            ));
        }
        let path = if path.is_empty() { "/" } else { path };
        let url = Uri::builder()
            .scheme(scheme)
            .authority(authority)
            .path_and_query(path)
            .build();
        Ok(Self {
            url: url.map_err(|_| malformed())?,
            user,
        })
    }

    /// True if the connection uses TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.url.scheme() == Some(&Scheme::HTTPS)
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// True if `rest`, the text after `://`, begins with an authority.
fn has_host(rest: &str) -> bool {
    !rest.is_empty() && !rest.starts_with(['/', '?', '#'])
}

/// True if more than a slash follows the host.
fn has_path(text: &str) -> bool {
    let text = &text[..text.find(['?', '#']).unwrap_or(text.len())];
    text.find('/').is_some_and(|slash| text[slash..].len() > 1)
}

fn credentials(text: &str) -> Option<(String, String)> {
    let decode = |text| {
        percent_encoding::percent_decode_str(text)
            .decode_utf8()
            .ok()
            .map(std::borrow::Cow::into_owned)
    };
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    Some((decode(user)?, decode(password)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_as_by_client_go() {
        let cases = [
            ("https://10.0.0.1:6443", "https://10.0.0.1:6443/"),
            ("HTTPS://api.example.com", "https://api.example.com/"),
            ("127.0.0.1:6443", "http://127.0.0.1:6443/"),
            ("localhost:8080/", "http://localhost:8080/"),
            ("localhost", "http://localhost/"),
            ("[::1]:6443", "http://[::1]:6443/"),
            ("https://[fd00::1]:6443", "https://[fd00::1]:6443/"),
            ("https://[fd00::1]", "https://[fd00::1]/"),
            (
                "https://host:6443/k8s/clusters/c-1",
                "https://host:6443/k8s/clusters/c-1",
            ),
            (
                "https://host/prefix/?timeout=1s#top",
                "https://host/prefix/",
            ),
            ("https://host?x", "https://host/"),
            ("https://host:/", "https://host/"),
            ("http://:8080", "http://localhost:8080/"),
        ];
        for (text, expected) in cases {
            let address = Address::parse(text).unwrap();
            assert_eq!(
                (address.url.to_string().as_str(), address.user),
                (expected, None),
                "{text}"
            );
        }
    }

    #[test]
    fn addresses_that_client_go_refuses_are_refused() {
        let malformed = "host must be a URL or a host:port pair: ";
        let cases = [
            ("", malformed),
            ("host/prefix", malformed),
            ("//host", malformed),
            ("https://", malformed),
            ("https:///path", malformed),
            (" https://host", malformed),
            ("not a host", malformed),
            (
                "https://host:port",
                "host must be a URL or a host:port pair: \"https://host:port\"",
            ),
            (
                "https://host:70000",
                "the port must be a number up to 65535",
            ),
            ("https://::1:6443", malformed),
            (
                "ftp://host",
                "has the scheme \"ftp\"; only https and http are supported",
            ),
            ("unix:///run/api.sock", malformed),
        ];
        for (text, expected) in cases {
            let error = Address::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn credentials_of_a_url_are_removed_from_the_address() {
        let address = Address::parse("https://me:hunter%202@host:6443/prefix").unwrap();
        assert_eq!(address.url.to_string(), "https://host:6443/prefix");
        assert_eq!(address.user, Some(("me".to_owned(), "hunter 2".to_owned())));
        let error = Address::parse("https://me:hunter2@host:port").unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
