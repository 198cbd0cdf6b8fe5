//! How the manager serves, and to whom.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::ConfigError;
use crate::options::Options;

/// How to serve health, metrics and configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// Where to listen. The unspecified IPv4 address means all interfaces of both families.
    pub address: SocketAddr,
    /// Certificates and limits; `None` is plain HTTP, which no flag asks for.
    pub tls: Option<Tls>,
    /// Whether several processes may share the port.
    pub share_port: bool,
    /// Who may see what.
    pub access: Access,
}

/// Who decides about requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Nobody: all of them are answered. No flag asks for that.
    Open,
    /// The API server.
    Delegated(Box<Delegation>),
}

/// How the API server is asked, and what is decided without it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delegation {
    /// Who somebody is.
    pub authentication: AuthenticationSettings,
    /// What they may do.
    pub authorization: AuthorizationSettings,
}

/// How users are told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthenticationSettings {
    /// Credentials for asking; `None` is the pod's own service account, if it has one.
    pub kubeconfig: Option<PathBuf>,
    /// Authorities of client certificates; `None` is what the cluster says.
    pub client_ca: Option<PathBuf>,
    /// Authorities of proxies that speak for others; `None` is what the cluster says, headers
    /// included.
    pub proxy_ca: Option<PathBuf>,
    /// Headers of such proxies.
    pub proxy_headers: ProxyHeaders,
    /// Whether the cluster is not asked whom to trust.
    pub skip_lookup: bool,
    /// Whether it is no error when it cannot be asked.
    pub tolerate_lookup_failure: bool,
    /// How long an answer about a token is good.
    pub token_ttl: Duration,
}

/// Headers in which a proxy names a user. Case does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyHeaders {
    /// The first that is there holds the name.
    pub username: Vec<String>,
    /// The first that is there holds the UID.
    pub uid: Vec<String>,
    /// All of them hold groups.
    pub groups: Vec<String>,
    /// What follows one of these is a key of the user's extra.
    pub extra_prefixes: Vec<String>,
    /// Common names of the proxies that are believed; all when there are none.
    pub allowed_names: Vec<String>,
}

/// How permissions are told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationSettings {
    /// Credentials for asking; `None` is the pod's own service account, if it has one.
    pub kubeconfig: Option<PathBuf>,
    /// Paths open to everyone; one that ends in `*` is a prefix.
    pub always_allow: Vec<String>,
    /// How long a yes is good.
    pub allowed_ttl: Duration,
    /// How long any other answer is.
    pub other_ttl: Duration,
}

/// TLS of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Where the certificate comes from.
    pub certificate: Certificate,
    /// Certificates for clients that ask for certain names.
    pub named: Vec<NamedPair>,
    /// Whether HTTP/2 is offered.
    pub http2: bool,
    /// Streams that one HTTP/2 connection may have open.
    pub max_streams: u32,
    /// Lowest version, as the flag names it; empty is TLS 1.2.
    pub min_version: String,
    /// Names of the TLS 1.2 suites to offer; empty is all that are safe.
    pub cipher_suites: Vec<String>,
    /// Numbers of the key exchange groups to offer; empty is all.
    pub groups: Vec<u16>,
}

/// A serving certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Certificate {
    /// Made at each start, kept in memory.
    #[default]
    Generated,
    /// Read from, or made into, this directory.
    Directory(PathBuf),
    /// These files, read again when they change.
    Files(Pair),
}

/// Files of a chain and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// A certificate and the names it is for; those it holds when there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPair {
    /// The files.
    pub pair: Pair,
    /// DNS names, `*.` for any first label, or IP addresses.
    pub names: Vec<String>,
}

/// Reads the flags of serving; `None` when there is to be no server.
pub(super) fn read(options: &Options) -> Result<Option<Serving>, Vec<ConfigError>> {
    let port = match options.int("secure-port") {
        0 => return Ok(None),
        port @ ..0 => return Err(vec![ConfigError::PortTooLow(port)]),
        port => u16::try_from(port).map_err(|_| vec![ConfigError::PortTooHigh(port)])?,
    };
    let address: IpAddr = options.ip("bind-address");
    let access = Access::Delegated(Box::new(delegation(options)?));
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

/// Key exchange groups that Go knows: P-256, P-384, P-521, X25519, and three with ML-KEM.
const KNOWN_GROUPS: [u16; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

/// The numbers in `list`, with upstream's checks; that they are numbers was checked when they were
/// typed.
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

/// `certificate,key[:name,...]`, whose form was checked when it was typed.
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

fn delegation(options: &Options) -> Result<Delegation, Vec<ConfigError>> {
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
        uid: headers("requestheader-uid-headers"),
    };
    if !proxy_headers.uid.is_empty()
        && !proxy_headers
            .uid
            .iter()
            .any(|name| name.eq_ignore_ascii_case("x-remote-uid"))
    {
        errors.push(ConfigError::UidHeaders);
    }
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
    fn a_named_pair_is_files_and_then_names() {
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
