//! Settings of the HTTPS server: address, TLS, authentication and authorization.
//!
//! Upstream: `k8s.io/apiserver/pkg/server/options` (`serving.go`, `authentication.go`,
//! `authorization.go`).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::ConfigError;
use crate::command_line::Options;
use crate::features::Features;

/// Settings of the server for health, metrics and configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// The address to listen on. The unspecified IPv4 address means all interfaces, IPv4 and IPv6.
    pub address: SocketAddr,
    /// TLS settings; `None` means plain HTTP, which only tests use.
    pub tls: Option<Tls>,
    /// Whether several processes may listen on the port (`SO_REUSEPORT`).
    pub share_port: bool,
    /// Access control of requests.
    pub access: Access,
}

/// Access control of requests to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// All requests are allowed. No flag selects this.
    Open,
    /// The API server authenticates and authorizes requests.
    Delegated(Box<Delegation>),
}

/// Settings of delegated authentication and authorization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delegation {
    /// How users are authenticated.
    pub authentication: AuthenticationSettings,
    /// How their requests are authorized.
    pub authorization: AuthorizationSettings,
}

/// Settings of authentication.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthenticationSettings {
    /// Credentials for TokenReviews; `None` means the pod's service account, if it has one.
    pub kubeconfig: Option<PathBuf>,
    /// File with authorities of client certificates; `None` means those of the ConfigMap
    /// `extension-apiserver-authentication`.
    pub client_ca: Option<PathBuf>,
    /// File with authorities of proxies; `None` means authorities and headers of the ConfigMap.
    pub proxy_ca: Option<PathBuf>,
    /// Headers that such a proxy sets.
    pub proxy_headers: ProxyHeaders,
    /// Whether users of client certificates have no UID.
    pub ignores_uid_of_certificates: bool,
    /// Whether HTTP/2 connections stay open after a request of the anonymous user.
    pub keeps_anonymous: bool,
    /// Whether the ConfigMap is ignored.
    pub skip_lookup: bool,
    /// Whether a refused read of the ConfigMap is accepted.
    pub tolerate_lookup_failure: bool,
    /// Time for which the outcome of a TokenReview is cached.
    pub token_ttl: Duration,
}

/// Headers in which a proxy passes a user. Header names are case-insensitive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyHeaders {
    /// Headers of the user name; the first one with a value counts.
    pub username: Vec<String>,
    /// Headers of the UID; the first one with a value counts.
    pub uid: Vec<String>,
    /// Headers of groups; all values count.
    pub groups: Vec<String>,
    /// Prefixes of extra headers; the rest of a header name is the key.
    pub extra_prefixes: Vec<String>,
    /// Common names of trusted proxies; empty means all with a valid certificate.
    pub allowed_names: Vec<String>,
}

/// Settings of authorization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationSettings {
    /// Credentials for SubjectAccessReviews; `None` means the pod's service account, if it has one.
    pub kubeconfig: Option<PathBuf>,
    /// Paths that are allowed to everyone; a path that ends in `*` is a prefix.
    pub always_allow: Vec<String>,
    /// Time for which an allowed request is cached.
    pub allowed_ttl: Duration,
    /// Time for which any other decision is cached.
    pub other_ttl: Duration,
}

/// TLS settings of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The source of the default certificate.
    pub certificate: Certificate,
    /// Certificates for particular server names (SNI).
    pub named: Vec<NamedPair>,
    /// Whether HTTP/2 is offered.
    pub http2: bool,
    /// Maximum number of concurrent streams per HTTP/2 connection.
    pub max_streams: u32,
    /// Minimum TLS version, spelled as in the flag; empty means TLS 1.2.
    pub min_version: String,
    /// Names of the offered TLS 1.2 cipher suites; empty means all secure ones.
    pub cipher_suites: Vec<String>,
    /// IANA numbers of the offered key exchange groups; empty means all.
    pub groups: Vec<u16>,
}

/// A serving certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Certificate {
    /// Generated at each start and kept in memory.
    #[default]
    Generated,
    /// Read from this directory; generated into it if missing.
    Directory(PathBuf),
    /// Read from these files, and reloaded when they change.
    Files(Pair),
}

/// PEM files of a certificate chain and of its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// A certificate and its server names. Without names, those in the certificate count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPair {
    /// The files.
    pub pair: Pair,
    /// DNS names or IP addresses; `*.` stands for any first label.
    pub names: Vec<String>,
}

/// Reads the flags of the server; `None` if `--secure-port` is 0.
pub(super) fn read(
    options: &Options,
    features: &Features,
) -> Result<Option<Serving>, Vec<ConfigError>> {
    let port = match options.int("secure-port") {
        0 => return Ok(None),
        port @ ..0 => return Err(vec![ConfigError::PortTooLow(port)]),
        port => u16::try_from(port).map_err(|_| vec![ConfigError::PortTooHigh(port)])?,
    };
    let address: IpAddr = options.ip("bind-address");
    let access = Access::Delegated(Box::new(delegation(options, features)?));
    Ok(Some(Serving {
        address: SocketAddr::new(address, port),
        tls: Some(tls(options).map_err(|error| vec![error])?),
        share_port: options.bool("permit-port-sharing"),
        access,
    }))
}

fn path(options: &Options, flag: &str) -> Option<PathBuf> {
    Some(options.text(flag))
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// Reads the flags of TLS.
fn tls(options: &Options) -> Result<Tls, ConfigError> {
    let certificate = match (
        path(options, "tls-cert-file"),
        path(options, "tls-private-key-file"),
        path(options, "cert-dir"),
    ) {
        (None, None, None) => Certificate::Generated,
        (None, None, Some(directory)) => Certificate::Directory(directory),
        (Some(certificate), Some(key), _) => Certificate::Files(Pair { certificate, key }),
        _ => return Err(ConfigError::HalfAPair),
    };
    let min_version = options.text("tls-min-version");
    if ![
        "",
        "VersionTLS10",
        "VersionTLS11",
        "VersionTLS12",
        "VersionTLS13",
    ]
    .contains(&min_version.as_str())
    {
        return Err(ConfigError::TlsVersion(min_version));
    }
    Ok(Tls {
        certificate,
        named: options
            .list("tls-sni-cert-key")
            .iter()
            .map(|text| named_pair(text))
            .collect(),
        http2: !options.bool("disable-http2-serving"),
        max_streams: u32::try_from(options.int("http2-max-streams-per-connection"))
            .ok()
            .filter(|n| *n > 0)
            .unwrap_or(100),
        min_version,
        cipher_suites: options.list("tls-cipher-suites"),
        groups: groups(&options.list("tls-curve-preferences"))?,
    })
}

/// Key exchange groups that Go supports: P-256, P-384, P-521, X25519, and three with ML-KEM.
const KNOWN_GROUPS: [u16; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

/// Parses the groups in `list` with upstream's checks. The flag parser has already checked that
/// they are numbers.
fn groups(list: &[String]) -> Result<Vec<u16>, ConfigError> {
    let mut groups = Vec::with_capacity(list.len());
    for text in list {
        let number: i64 = text.parse().unwrap_or_default();
        let group = u16::try_from(number)
            .ok()
            .filter(|group| *group > 0)
            .ok_or(ConfigError::CurveRange(number))?;
        if groups.contains(&group) {
            return Err(ConfigError::CurveTwice(group));
        }
        if !KNOWN_GROUPS.contains(&group) {
            return Err(ConfigError::Curve(group));
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Parses `certificate,key[:name,...]`. The flag parser has checked the form.
fn named_pair(text: &str) -> NamedPair {
    let (files, names) = text.split_once(':').unwrap_or((text, ""));
    let (certificate, key) = files.split_once(',').unwrap_or((files, ""));
    let names = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_lowercase)
        .collect();
    NamedPair {
        pair: Pair {
            certificate: certificate.trim().into(),
            key: key.trim().into(),
        },
        names,
    }
}

/// Upstream: the last part of `RequestHeaderAuthenticationOptions.Validate`.
fn check_uid_headers(names: &[String], features: &Features) -> Vec<ConfigError> {
    if names.is_empty() {
        return Vec::new();
    }
    if !features.is_on("RemoteRequestHeaderUID") {
        return vec![ConfigError::UidHeadersOff];
    }
    let mut errors = Vec::new();
    if names.iter().any(|name| name.trim().is_empty()) {
        errors.push(ConfigError::EmptyHeader("requestheader-uid-headers"));
    }
    if !names
        .iter()
        .any(|name| name.eq_ignore_ascii_case("x-remote-uid"))
    {
        errors.push(ConfigError::UidHeaders);
    }
    errors
}

/// Reads the flags of authentication and authorization. Reports all their errors at once.
fn delegation(options: &Options, features: &Features) -> Result<Delegation, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let mut headers = |flag: &'static str| {
        let names = options.list(flag);
        if names.iter().any(|name| name.trim().is_empty()) {
            errors.push(ConfigError::EmptyHeader(flag));
        }
        names
    };
    let proxy_headers = ProxyHeaders {
        username: headers("requestheader-username-headers"),
        groups: headers("requestheader-group-headers"),
        extra_prefixes: headers("requestheader-extra-headers-prefix"),
        allowed_names: headers("requestheader-allowed-names"),
        uid: options.list("requestheader-uid-headers"),
    };
    errors.extend(check_uid_headers(&proxy_headers.uid, features));
    let always_allow = options.list("authorization-always-allow-paths");
    let odd = always_allow
        .iter()
        .filter(|path| path.strip_suffix('*').unwrap_or(path).contains('*'));
    errors.extend(odd.map(|path| ConfigError::Star(path.clone())));
    if !errors.is_empty() {
        return Err(errors);
    }
    let ttl = |flag: &str| options.duration(flag).to_std();
    Ok(Delegation {
        authentication: AuthenticationSettings {
            kubeconfig: path(options, "authentication-kubeconfig"),
            client_ca: path(options, "client-ca-file"),
            proxy_ca: path(options, "requestheader-client-ca-file"),
            proxy_headers,
            ignores_uid_of_certificates: !features.is_on("AllowParsingUserUIDFromCertAuth"),
            keeps_anonymous: !features.is_on("UnauthenticatedHTTP2DOSMitigation"),
            skip_lookup: options.bool("authentication-skip-lookup"),
            tolerate_lookup_failure: options.bool("authentication-tolerate-lookup-failure"),
            token_ttl: ttl("authentication-token-webhook-cache-ttl"),
        },
        authorization: AuthorizationSettings {
            kubeconfig: path(options, "authorization-kubeconfig"),
            always_allow,
            allowed_ttl: ttl("authorization-webhook-cache-authorized-ttl"),
            other_ttl: ttl("authorization-webhook-cache-unauthorized-ttl"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_pairs_consist_of_files_and_names() {
        let pair = |certificate: &str, key: &str| Pair {
            certificate: certificate.into(),
            key: key.into(),
        };
        let cases: [(&str, Pair, &[&str]); 3] = [
            ("a.crt,a.key", pair("a.crt", "a.key"), &[]),
            (
                "a.crt, a.key:Example.com,*.example.com",
                pair("a.crt", "a.key"),
                &["example.com", "*.example.com"],
            ),
            ("a.crt,a.key:", pair("a.crt", "a.key"), &[]),
        ];
        for (text, pair, names) in cases {
            assert_eq!(
                named_pair(text),
                NamedPair {
                    pair,
                    names: names.iter().map(|name| (*name).to_owned()).collect()
                },
                "{text}"
            );
        }
    }
}
