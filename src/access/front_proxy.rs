//! Users in the headers of a trusted proxy (request header authentication).
//!
//! The aggregation layer of the API server authenticates a user, then forwards the request with the
//! user's name, groups and extra in headers. Upstream:
//! `k8s.io/apiserver/pkg/authentication/request/headerrequest`.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;

use super::certificates::Authorities;
use super::user::User;
use crate::config::ProxyHeaders;

/// The settings of request header authentication. A proxy needs a certificate of `authorities`.
#[derive(Debug, Clone)]
pub(crate) struct FrontProxy {
    pub(crate) authorities: Arc<Authorities>,
    pub(crate) headers: ProxyHeaders,
}

impl ProxyHeaders {
    /// Checks that a proxy with this common name is allowed to set the headers.
    pub(super) fn admit(&self, common_name: &str) -> Result<(), String> {
        if self.allowed_names.is_empty()
            || self.allowed_names.iter().any(|name| name == common_name)
        {
            return Ok(());
        }
        Err(format!(
            "x509: subject with cn={common_name} is not in the allowed list"
        ))
    }

    /// The user in `headers`; `None` if no user name is set.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let first = |names: &[String]| {
            names
                .iter()
                .map(|name| first_value(headers, name))
                .find(|value| !value.is_empty())
        };
        let all = |names: &[String]| -> Vec<String> {
            names
                .iter()
                .flat_map(|name| values(headers, name))
                .filter(|value| !value.is_empty())
                .collect()
        };
        let name = first(&self.username)?;
        let mut extra = BTreeMap::<String, Vec<String>>::new();
        for prefix in &self.extra_prefixes {
            let prefix = prefix.to_ascii_lowercase();
            for header in headers.keys() {
                if let Some(key) = header.as_str().strip_prefix(&prefix) {
                    extra
                        .entry(unescape(key))
                        .or_default()
                        .extend(values(headers, header.as_str()));
                }
            }
        }
        Some(User {
            name,
            uid: first(&self.uid).unwrap_or_default(),
            groups: all(&self.groups),
            extra,
        })
    }
}

/// All values of a header. Bytes that are no UTF-8 are replaced.
fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    // An invalid header name is treated as absent.
    headers
        .get_all(name)
        .into_iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect()
}

fn first_value(headers: &HeaderMap, name: &str) -> String {
    values(headers, name).into_iter().next().unwrap_or_default()
}

/// `key` with `%` escapes decoded; unchanged if the result is not valid UTF-8.
fn unescape(key: &str) -> String {
    percent_encoding::percent_decode_str(key)
        .decode_utf8()
        .map_or_else(|_| key.to_owned(), |key| key.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ProxyHeaders {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ProxyHeaders {
            username: list(&["X-Remote-User", "X-Other-User"]),
            uid: list(&["X-Remote-Uid"]),
            groups: list(&["X-Remote-Group"]),
            extra_prefixes: list(&["X-Remote-Extra-"]),
            allowed_names: list(&["front-proxy-client"]),
        }
    }

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_first_user_name_and_all_groups_are_used() {
        let found = settings().user(&headers(&[
            ("x-remote-user", ""),
            ("x-other-user", "jane"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", ""),
            ("x-remote-group", "b"),
            ("x-remote-extra-scopes", "one"),
            ("x-remote-extra-scopes", "two"),
            ("x-remote-extra-example.com%2fkey", "v"),
            ("x-remote-extra-odd%2", "w"),
        ]));
        let extra = |key: &str, values: &[&str]| {
            (
                key.to_owned(),
                values.iter().map(|v| (*v).to_owned()).collect(),
            )
        };
        let expected = User {
            name: "jane".to_owned(),
            uid: "7".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: BTreeMap::from([
                extra("scopes", &["one", "two"]),
                extra("example.com/key", &["v"]),
                extra("odd%2", &["w"]),
            ]),
        };
        assert_eq!(found, Some(expected));
        assert_eq!(
            settings().user(&headers(&[("x-remote-group", "a")])),
            None,
            "groups without a user name are ignored"
        );
    }

    #[test]
    fn only_proxies_on_a_non_empty_allow_list_are_admitted() {
        assert_eq!(settings().admit("front-proxy-client"), Ok(()));
        assert_eq!(
            settings().admit("other"),
            Err("x509: subject with cn=other is not in the allowed list".to_owned())
        );
        assert_eq!(ProxyHeaders::default().admit("other"), Ok(()));
    }
}
