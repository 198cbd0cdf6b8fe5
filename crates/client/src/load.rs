//! Loads the client's configuration: `--master` before `--kubeconfig`, or else the service account
//! of a pod.
//!
//! files -> kubeconfig -> cluster and user -> address, CA, credentials
//!
//! It accepts and refuses the same files as client-go, so that an existing kubeconfig works
//! unchanged. Upstream: `client-go/tools/clientcmd` and `InClusterConfig` of `client-go/rest`.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use kube::config::{AuthInfo, ExecAuthCluster};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::ConfigError;
use super::address::Address;
use super::certificate;
use super::kubeconfig::{Current, Kubeconfig};

/// Loads the configuration as kube-controller-manager does. As upstream, it ignores the variable
/// `KUBECONFIG`.
///
/// The result has kube's own retries and compression disabled. Its `cluster_url` always has a
/// scheme and an authority.
pub fn load_config(
    kubeconfig: Option<&Path>,
    master: Option<&str>,
) -> Result<kube::Config, ConfigError> {
    let kubeconfig = kubeconfig.filter(|path| !path.as_os_str().is_empty());
    let master = master.filter(|url| !url.is_empty());
    match (kubeconfig, master) {
        (Some(path), master) => from_kubeconfig(&Kubeconfig::read(path)?, master),
        (None, Some(url)) => Ok(of_master(url)?.1),
        (None, None) => Pod::of_process().config()?.ok_or(ConfigError::Missing),
    }
}

/// The `certificate-authority-data` of the current context in `kubeconfig`, decoded. Empty if the
/// context names a file or nothing, and for the service account of a pod. client-go calls it
/// `CAData`.
///
/// # Errors
/// If the kubeconfig is unreadable or invalid.
pub fn inline_authority(kubeconfig: Option<&Path>) -> Result<Vec<u8>, ConfigError> {
    let Some(path) = kubeconfig.filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(Vec::new());
    };
    let file = Kubeconfig::read(path)?;
    let data = file.current()?.cluster.certificate_authority_data;
    let decoded = data.map(|data| decode("certificate-authority-data", &data));
    decoded
        .unwrap_or_else(|| Ok(Vec::new()))
        .map_err(|problem| file.refused(problem))
}

/// Loads the configuration as kubectl does.
///
/// The first of these that exists is used: `kubeconfig`, the merged files of the variable
/// `KUBECONFIG`, `~/.kube/config`, the service account of a pod.
pub fn load_config_as_kubectl(kubeconfig: Option<&Path>) -> Result<kube::Config, ConfigError> {
    if let Some(path) = kubeconfig.filter(|path| !path.as_os_str().is_empty()) {
        return load_config(Some(path), None);
    }
    let files = match std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        Some(list) => std::env::split_paths(&list)
            .filter(|path| !path.as_os_str().is_empty())
            .collect(),
        None => std::env::home_dir()
            .map(|home| home.join(".kube/config"))
            .into_iter()
            .collect(),
    };
    match merged(files)? {
        Some(kubeconfig) => from_kubeconfig(&kubeconfig, None),
        None => load_config(None, None),
    }
}

/// Merges the files that exist. `None` if none of them exists.
fn merged(files: Vec<PathBuf>) -> Result<Option<Kubeconfig>, ConfigError> {
    let mut merged: Option<Kubeconfig> = None;
    for path in files {
        match Kubeconfig::read(&path) {
            Ok(next) => match &mut merged {
                Some(merged) => merged.merge(next),
                None => merged = Some(next),
            },
            Err(ConfigError::Read { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(merged)
}

/// A configuration with only the address.
fn plain(address: &Address) -> kube::Config {
    let mut config = kube::Config::new(address.url.clone());
    config.default_retry = false;
    config.disable_compression = true;
    config
}

/// The configuration for `--master`, with credentials only if the URL has some.
fn of_master(url: &str) -> Result<(Address, kube::Config), ConfigError> {
    let address = Address::parse(url).map_err(|problem| ConfigError::Master {
        url: url.to_owned(),
        problem,
    })?;
    let mut config = plain(&address);
    use_credentials_of_url(&address, &mut config.auth_info);
    Ok((address, config))
}

/// The configuration of the current context. `master` replaces the address of its cluster.
fn from_kubeconfig(file: &Kubeconfig, master: Option<&str>) -> Result<kube::Config, ConfigError> {
    let mut current = file.current()?;
    match (master, &current.lacks_cluster) {
        (Some(url), _) => {
            current.cluster.server = Some(url.to_owned());
            // The name belongs to the server of the kubeconfig, and `--master` is another server.
            current.cluster.tls_server_name = None;
        }
        (None, Some(reason)) => {
            // As client-go: a file without a server is treated like a missing file.
            return match Pod::of_process().config()? {
                Some(config) => {
                    tracing::warn!(kubeconfig = %file.origin().display(), reason, "using the service account of this pod");
                    Ok(config)
                }
                None => Err(file.refused(reason.clone())),
            };
        }
        (None, None) => {}
    }
    let problems = current.problems();
    if !problems.is_empty() {
        return Err(file.refused(problems.join("; ")));
    }
    if current.lacks_user {
        let kubeconfig = file.origin();
        let user = &current.user_name;
        tracing::warn!(kubeconfig = %kubeconfig.display(), user, "the kubeconfig lacks the user of its current context; requests carry no credentials");
    }

    let (address, mut config) = match (master, current.cluster.server.as_deref()) {
        (Some(url), _) => of_master(url)?,
        (None, server) => {
            let address = Address::parse(server.unwrap_or_default()).map_err(|problem| {
                file.refused(format!(
                    "server of cluster {:?}: {problem}",
                    current.cluster_name
                ))
            })?;
            let config = plain(&address);
            (address, config)
        }
    };
    config.proxy_url = current
        .cluster
        .proxy_url
        .as_deref()
        .and_then(|url| url.parse().ok());
    if address.is_tls() {
        identify_server(&current, &mut config).map_err(|problem| file.refused(problem))?;
        identify_user(&current, &mut config).map_err(|problem| file.refused(problem))?;
    } else if has_credentials(&current.user) {
        let server = address.url.to_string();
        tracing::warn!(
            server,
            "the API server is reached without TLS, so the credentials of the kubeconfig are not sent"
        );
    }
    // Unlike credentials, impersonation headers are sent without TLS too.
    let AuthInfo {
        impersonate,
        impersonate_uid,
        impersonate_groups,
        impersonate_user_extra,
        ..
    } = current.user;
    let auth = &mut config.auth_info;
    auth.impersonate = impersonate;
    auth.impersonate_uid = impersonate_uid;
    auth.impersonate_groups = impersonate_groups;
    auth.impersonate_user_extra = impersonate_user_extra;
    use_credentials_of_url(&address, auth);
    Ok(config)
}

/// Sets the verification of the server: the CA, or none.
fn identify_server(current: &Current, config: &mut kube::Config) -> Result<(), String> {
    let cluster = &current.cluster;
    let pem = match (
        &cluster.certificate_authority_data,
        &cluster.certificate_authority,
    ) {
        (Some(data), _) => Some(decode("certificate-authority-data", data)?),
        (None, Some(file)) => Some(read("certificate-authority", file)?),
        (None, None) => None,
    };
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
    if pem.is_some() && config.accept_invalid_certs {
        return Err(
            "specifying a root certificates file with the insecure flag is not allowed; remove insecure-skip-tls-verify \
                    or the certificate authority"
                .to_owned(),
        );
    }
    if let Some(pem) = pem {
        let authorities = authorities(&pem)
            .map_err(|problem| format!("unable to load root certificates: {problem}"))?;
        config.root_cert = Some(authorities);
        // As upstream, the file is read again after changes.
        config.root_cert_file = cluster
            .certificate_authority
            .as_ref()
            .filter(|_| cluster.certificate_authority_data.is_none())
            .map(PathBuf::from);
    }
    config.tls_server_name = cluster.tls_server_name.clone();
    Ok(())
}

/// Sets the credentials of the client.
fn identify_user(current: &Current, config: &mut kube::Config) -> Result<(), String> {
    let mut user = current.user.clone();
    let bytes = |data: &str, file: &str| match (current.typed(data), current.typed(file)) {
        (Some(text), _) => decode(data, text).map(Some),
        (None, Some(path)) => read(file, path).map(Some),
        (None, None) => Ok(None),
    };
    match bytes("client-certificate-data", "client-certificate")? {
        Some(chain) => {
            let key = bytes("client-key-data", "client-key")?.unwrap_or_default();
            certificate::pair(&chain, &key).map_err(|problem| {
                format!("client certificate of {}: {problem}", current.user_name)
            })?;
        }
        // A key without a certificate is unusable.
        None => {
            user.client_key = None;
            user.client_key_data = None;
        }
    }
    // kube would panic when it makes a header of it.
    if let Some(token) = current.typed("token")
        && HeaderValue::from_str(token).is_err()
    {
        return Err(format!(
            "token of {} has a line break or another character that no header can contain",
            current.user_name
        ));
    }
    if let Some(file) = &user.token_file {
        let token = read("tokenFile", file).and_then(|token| match token.trim_ascii() {
            [] => Err(format!("read empty token from file {file:?}")),
            _ => Ok(()),
        });
        match (token, user.token.is_some()) {
            // A readable file has precedence over the token.
            (Ok(()), _) => user.token = None,
            (Err(_), true) => user.token_file = None,
            (Err(problem), false) => return Err(problem),
        }
    }
    if user.username.is_some() || user.password.is_some() {
        user.username.get_or_insert_default();
        user.password.get_or_insert_with(|| String::new().into());
    }
    if let Some(exec) = &mut user.exec
        && exec.provide_cluster_info
    {
        exec.cluster =
            Some(ExecAuthCluster::try_from(&current.cluster).map_err(|error| error.to_string())?);
    }
    config.auth_info = user;
    Ok(())
}

/// Uses the credentials of the URL if there are no others.
fn use_credentials_of_url(address: &Address, auth: &mut AuthInfo) {
    let has_others = auth.token.is_some()
        || auth.token_file.is_some()
        || auth.username.is_some()
        || auth.exec.is_some();
    if let Some((user, password)) = address.user.as_ref().filter(|_| !has_others) {
        auth.username = Some(user.clone());
        auth.password = Some(password.clone().into());
    }
}

/// True if `user` has any credentials. Impersonation does not count.
fn has_credentials(user: &AuthInfo) -> bool {
    let AuthInfo {
        token,
        token_file,
        username,
        password,
        client_certificate,
        client_certificate_data,
        exec,
        ..
    } = user;
    let texts = [
        token_file,
        username,
        client_certificate,
        client_certificate_data,
    ];
    texts.into_iter().any(Option::is_some)
        || token.is_some()
        || password.is_some()
        || exec.is_some()
}

fn read(what: &str, file: &str) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("cannot read the {what} {file}: {error}"))
}

/// Decodes base64. As in Go, the text may contain newlines.
fn decode(what: &str, text: &str) -> Result<Vec<u8>, String> {
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    BASE64_STANDARD
        .decode(text)
        .map_err(|_| format!("{what} is not base64"))
}

/// The certificates in `pem`. As in Go, invalid ones are ignored if at least one is valid.
fn authorities(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .filter_map(Result::ok)
        .collect();
    let certificates: Vec<Vec<u8>> = found
        .into_iter()
        .filter(|der| RootCertStore::empty().add(der.clone()).is_ok())
        .map(|der| der.to_vec())
        .collect();
    match (
        certificates.is_empty(),
        memchr::memmem::find(pem, b"-----BEGIN "),
    ) {
        (false, _) => Ok(certificates),
        (true, None) => Err("unable to parse bytes as PEM block".to_owned()),
        (true, Some(_)) => Err("no valid certificate authority data seen".to_owned()),
    }
}

/// Address and service account that the kubelet gives to a pod.
struct Pod {
    host: String,
    port: String,
    /// The directory with the files of the service account.
    directory: PathBuf,
}

impl Pod {
    /// The pod of this process. Host and port are empty outside a pod.
    fn of_process() -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        Self {
            host: variable("KUBERNETES_SERVICE_HOST"),
            port: variable("KUBERNETES_SERVICE_PORT"),
            directory: "/var/run/secrets/kubernetes.io/serviceaccount".into(),
        }
    }

    /// The configuration for the service account. `None` outside a pod.
    fn config(&self) -> Result<Option<kube::Config>, ConfigError> {
        if self.host.is_empty() || self.port.is_empty() {
            return Ok(None);
        }
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        let address =
            Address::parse(&format!("https://{host}:{}", self.port)).map_err(|problem| {
                ConfigError::InCluster {
                    problem: format!("KUBERNETES_SERVICE_HOST and _PORT: {problem}"),
                }
            })?;
        let file = |name: &str| self.directory.join(name).to_string_lossy().into_owned();
        let token = file("token");
        let authority = file("ca.crt");
        read("token", &token).map_err(|problem| ConfigError::InCluster { problem })?;
        let mut config = plain(&address);
        config.auth_info.token_file = Some(token);
        match read("certificate authority", &authority).and_then(|pem| authorities(&pem)) {
            Ok(certificates) => {
                config.root_cert = Some(certificates);
                config.root_cert_file = Some(authority.into());
            }
            // As client-go: use the CAs of the system instead.
            Err(error) => {
                tracing::error!(
                    file = authority,
                    error,
                    "cannot load the certificate authority of the service account"
                )
            }
        }
        Ok(Some(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "c2VjcmV0LXRva2Vu";

    /// A kubeconfig with these fields of its cluster and its user.
    fn kubeconfig_of(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {{cluster: k, user: u}}\n\
             users:\n- name: u\n  user: {{{user}}}\nclusters:\n- name: k\n  cluster: {{{cluster}}}\n"
        )
    }

    /// A kubeconfig with these fields of its cluster, and a token.
    fn kubeconfig(cluster: &str) -> String {
        kubeconfig_of(cluster, &format!("token: {SECRET}"))
    }

    /// A directory with a certificate, its key and some tokens.
    fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["me".to_owned()]).unwrap();
        let write =
            |name: &str, content: &str| std::fs::write(home.path().join(name), content).unwrap();
        write("tls.crt", &made.cert.pem());
        write("tls.key", &made.signing_key.serialize_pem());
        write(
            "other.key",
            &rcgen::KeyPair::generate().unwrap().serialize_pem(),
        );
        write("token", "from-file\n");
        write("empty", "\n");
        write(
            "garbage.crt",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        );
        home
    }

    fn load_in(
        home: &Path,
        content: &str,
        master: Option<&str>,
    ) -> Result<kube::Config, ConfigError> {
        let path = home.join("manager.conf");
        std::fs::write(&path, content).unwrap();
        load_config(Some(&path), master)
    }

    fn load(content: &str, master: Option<&str>) -> Result<kube::Config, ConfigError> {
        load_in(home().path(), content, master)
    }

    #[test]
    fn master_has_precedence_over_the_server_of_the_kubeconfig() {
        let file = kubeconfig("server: 'https://10.0.0.1:6443', tls-server-name: other");
        // (kubeconfig, --master, expected)
        let cases = [
            (Some(&file), None, "https://10.0.0.1:6443/"),
            (Some(&file), Some(""), "https://10.0.0.1:6443/"),
            (Some(&file), Some("https://10.0.0.2"), "https://10.0.0.2/"),
            (
                None,
                Some("http://localhost:8080"),
                "http://localhost:8080/",
            ),
            (None, Some("localhost:8080"), "http://localhost:8080/"),
        ];
        for (content, master, expected) in cases {
            let config = match content {
                Some(content) => load(content, master),
                None => load_config(None, master),
            };
            let config = config.unwrap();
            assert_eq!(config.cluster_url.to_string(), expected, "{master:?}");
            assert_eq!(
                config.tls_server_name.is_some(),
                expected.starts_with("https://10.0.0.1"),
                "{master:?}"
            );
            assert!(!config.default_retry && config.disable_compression);
        }
    }

    #[test]
    fn a_kubeconfig_needs_no_server_with_master() {
        let file = kubeconfig("insecure-skip-tls-verify: true");
        assert!(
            load(&file, None)
                .unwrap_err()
                .to_string()
                .ends_with("add it or set --master")
        );
        let config = load(&file, Some("https://10.0.0.2:6443")).unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://10.0.0.2:6443/");
        assert!(config.accept_invalid_certs && config.auth_info.token.is_some());
        // An empty kubeconfig is enough too.
        let config = load("", Some("https://10.0.0.2:6443")).unwrap();
        assert!(config.auth_info.token.is_none());
    }

    #[test]
    fn kubeconfigs_that_client_go_accepts_are_accepted() {
        let home = home();
        let encoded =
            |name: &str| BASE64_STANDARD.encode(std::fs::read(home.path().join(name)).unwrap());
        let certificate = encoded("tls.crt");
        let key = encoded("tls.key");
        // (why, fields of the cluster besides its server, fields of the user)
        let cases = [
            ("no credentials", String::new(), String::new()),
            ("empty values", "certificate-authority-data: '', tls-server-name: ''".to_owned(), "token: '', as: ''".to_owned()),
            ("null values", "certificate-authority: null".to_owned(), "exec: null, token: ~".to_owned()),
            (
                "relative files",
                "certificate-authority: tls.crt".to_owned(),
                "client-certificate: tls.crt, client-key: tls.key".to_owned(),
            ),
            (
                "data",
                format!("certificate-authority-data: {certificate}"),
                format!("client-certificate-data: {certificate}, client-key-data: {key}"),
            ),
            (
                "data in lines",
                format!("certificate-authority-data: \"{}\\n{}\"", &certificate[..8], &certificate[8..]),
                String::new(),
            ),
            ("a mixed pair", String::new(), format!("client-certificate: ./tls.crt, client-key-data: {key}")),
            ("a key alone", String::new(), "client-key: tls.key".to_owned()),
            ("a token file", String::new(), "tokenFile: token".to_owned()),
            ("half of basic auth", String::new(), "username: me".to_owned()),
            ("a token and a certificate", String::new(), "token: t, client-certificate: tls.crt, client-key: tls.key".to_owned()),
            ("unknown fields", "new-thing: 1".to_owned(), "new-thing: {a: b}".to_owned()),
            ("socks", "proxy-url: 'socks5://proxy:1080'".to_owned(), String::new()),
            ("proxy with TLS", "proxy-url: 'https://proxy:3128'".to_owned(), String::new()),
            (
                "an old plugin",
                String::new(),
                "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: get-token, env: [{name: A, value: ''}]}"
                    .to_owned(),
            ),
        ];
        for (why, cluster, user) in cases {
            let file = kubeconfig_of(
                &format!("server: 'https://10.0.0.1:6443', {cluster}"),
                &user,
            );
            let config =
                load_in(home.path(), &file, None).unwrap_or_else(|error| panic!("{why}: {error}"));
            let _ = rustls::crypto::ring::default_provider().install_default();
            assert!(
                tokio::runtime::Runtime::new()
                    .unwrap()
                    .block_on(async { super::super::connect(&config) })
                    .is_ok(),
                "{why}"
            );
        }
    }

    #[test]
    fn kubeconfigs_that_client_go_refuses_are_refused_at_once() {
        let home = home();
        let garbage = BASE64_STANDARD.encode("no certificate");
        let exec = |fields: &str| format!("exec: {{{fields}}}");
        let v1 = "apiVersion: client.authentication.k8s.io/v1";
        // (fields of the cluster besides its server, fields of the user, part of the error)
        let cases = [
            (
                "certificate-authority: nowhere.crt",
                String::new(),
                "unable to read certificate-authority ",
            ),
            (
                "certificate-authority: garbage.crt",
                String::new(),
                "no valid certificate authority data seen",
            ),
            (
                "certificate-authority: empty",
                String::new(),
                "unable to parse bytes as PEM block",
            ),
            (
                "certificate-authority-data: '%%%'",
                String::new(),
                "certificate-authority-data is not base64",
            ),
            (
                &*format!("certificate-authority-data: {garbage}"),
                String::new(),
                "unable to load root certificates: unable to parse bytes",
            ),
            (
                &format!("certificate-authority: tls.crt, certificate-authority-data: {garbage}"),
                String::new(),
                "certificate-authority-data and certificate-authority are both specified for k",
            ),
            (
                "certificate-authority: tls.crt, insecure-skip-tls-verify: true",
                String::new(),
                "specifying a root certificates file with the insecure flag is not allowed",
            ),
            (
                "proxy-url: 'ftp://me:hunter2@proxy'",
                String::new(),
                "unsupported scheme \"ftp\", must be http, https, or socks5",
            ),
            (
                "proxy-url: 'proxy:3128'",
                String::new(),
                "unsupported scheme",
            ),
            (
                "",
                "client-certificate: tls.crt".to_owned(),
                "client-key-data or client-key must be specified for u",
            ),
            (
                "",
                "client-certificate: nowhere.crt, client-key: tls.key".to_owned(),
                "unable to read client-certificate ",
            ),
            (
                "",
                "client-certificate: tls.crt, client-key: nowhere.key".to_owned(),
                "unable to read client-key ",
            ),
            (
                "",
                "client-certificate: tls.crt, client-key: other.key".to_owned(),
                "client certificate of u: ",
            ),
            (
                "",
                "client-certificate: empty, client-key: tls.key".to_owned(),
                "client certificate of u: no certificate",
            ),
            (
                "",
                format!(
                    "client-certificate: tls.crt, client-key: tls.key, client-certificate-data: {garbage}"
                ),
                "client-certificate-data and client-certificate are both specified for u",
            ),
            (
                "",
                "tokenFile: nowhere".to_owned(),
                "cannot read the tokenFile ",
            ),
            (
                "",
                "tokenFile: empty".to_owned(),
                "read empty token from file ",
            ),
            (
                "",
                format!("token: \"{SECRET}\\nsecond-line\""),
                "token of u has a line break",
            ),
            (
                "",
                format!("token: {SECRET}, username: me, password: x"),
                "more than one authentication method found for u",
            ),
            (
                "",
                "as-groups: [admins]".to_owned(),
                "requesting uid, groups or user-extra for u without impersonating a user",
            ),
            (
                "",
                "auth-provider: {name: gcp}".to_owned(),
                "no Auth Provider found for name \"gcp\"",
            ),
            ("", exec(v1), "command must be specified for u"),
            (
                "",
                exec("command: x, interactiveMode: Never"),
                "apiVersion must be specified for u",
            ),
            (
                "",
                exec(&format!("command: x, {v1}")),
                "interactiveMode must be specified for u",
            ),
            (
                "",
                exec(&format!(
                    "command: x, interactiveMode: Never, {v1}, env: [{{value: x}}]"
                )),
                "env variable name must be specified",
            ),
        ];
        for (cluster, user, part) in cases {
            let file = kubeconfig_of(
                &format!("server: 'https://10.0.0.1:6443', {cluster}"),
                &user,
            );
            let error = load_in(home.path(), &file, None)
                .err()
                .map(|error| error.to_string());
            let text = error.unwrap_or_else(|| panic!("{cluster} {user} is not refused"));
            assert!(
                text.contains("manager.conf") && text.contains(part),
                "{cluster} {user}: {text}"
            );
            assert!(
                !text.contains(SECRET) && !text.contains("hunter2"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_readable_token_file_has_precedence_over_the_token() {
        let home = home();
        // (user, the token is used, the file is used)
        let cases = [
            ("token: t, tokenFile: token", false, true),
            ("token: t, tokenFile: nowhere", true, false),
        ];
        for (user, token, file) in cases {
            let file_text = kubeconfig_of("server: 'https://10.0.0.1:6443'", user);
            let auth = load_in(home.path(), &file_text, None).unwrap().auth_info;
            assert_eq!(
                (auth.token.is_some(), auth.token_file.is_some()),
                (token, file),
                "{user}"
            );
        }
    }

    #[test]
    fn without_tls_no_credentials_are_sent() {
        let home = home();
        for server in ["127.0.0.1:6443", "http://127.0.0.1:6443"] {
            let cluster =
                format!("server: '{server}', certificate-authority: tls.crt, tls-server-name: x");
            let file = kubeconfig_of(&cluster, &format!("token: {SECRET}, as: jane"));
            let config = load_in(home.path(), &file, None).unwrap();
            assert_eq!(config.cluster_url.to_string(), "http://127.0.0.1:6443/");
            assert!(
                config.auth_info.token.is_none()
                    && config.root_cert.is_none()
                    && config.tls_server_name.is_none()
            );
            assert_eq!(config.auth_info.impersonate.as_deref(), Some("jane"));
        }
    }

    #[test]
    fn a_missing_user_has_no_credentials() {
        let file = kubeconfig("server: 'https://10.0.0.1:6443'").replace("user: u}", "user: v}");
        assert!(load(&file, None).unwrap().auth_info.token.is_none());
    }

    #[test]
    fn credentials_of_a_url_are_used_only_without_others() {
        let server = "server: 'https://me:hunter2@10.0.0.1:6443'";
        let config = load(&kubeconfig_of(server, ""), None).unwrap();
        assert_eq!(
            (
                config.cluster_url.to_string().as_str(),
                config.auth_info.username.as_deref()
            ),
            ("https://10.0.0.1:6443/", Some("me"))
        );
        assert_eq!(
            load(&kubeconfig(server), None).unwrap().auth_info.username,
            None
        );
    }

    #[test]
    fn a_configured_proxy_is_kept() {
        let file = kubeconfig("server: 'https://10.0.0.1:6443', proxy-url: 'http://proxy:3128'");
        assert_eq!(
            load(&file, None).unwrap().proxy_url.unwrap().to_string(),
            "http://proxy:3128/"
        );
    }

    #[test]
    fn errors_name_the_file_and_never_show_its_content() {
        let good = kubeconfig("server: 'https://x'");
        // (why, content, part of the error)
        let cases = [
            (
                "not YAML",
                format!("{good}   {{{{{{ oops\n"),
                "not a kubeconfig in YAML",
            ),
            (
                "not a kubeconfig",
                format!("users: {{token: {SECRET}}}\n"),
                "not a kubeconfig in YAML",
            ),
            (
                "a number for a token",
                kubeconfig_of("server: 'https://x'", "token: 12"),
                "not a kubeconfig in YAML",
            ),
            (
                "another kind",
                good.replace("kind: Config", "kind: Secret"),
                "kind \"Secret\" of version \"v1\" is not a kubeconfig",
            ),
            ("an empty file", String::new(), "no current-context"),
            (
                "no context",
                good.replace("current-context: c\n", ""),
                "no current-context",
            ),
            (
                "empty context",
                good.replace("current-context: c\n", "current-context: ''\n"),
                "no current-context",
            ),
            (
                "unknown context",
                good.replace("current-context: c", "current-context: d"),
                "current-context \"d\" is not among",
            ),
            (
                "unknown cluster",
                good.replace("cluster: k,", "cluster: l,"),
                "cluster \"l\" of the current context is not among",
            ),
            (
                "two clusters with one name",
                format!("{good}- name: k\n  cluster: {{server: 'https://y'}}\n"),
                "duplicate name \"k\" in its clusters",
            ),
            (
                "a path without a scheme",
                kubeconfig("server: host/prefix"),
                "host must be a URL or a host:port pair: \"host/prefix\"",
            ),
        ];
        for (why, content, part) in cases {
            let error = load(&content, None).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains("manager.conf") && text.contains(part),
                "{why}: {text}"
            );
            assert!(
                !text.contains(SECRET) && !format!("{error:?}").contains(SECRET),
                "{why}: {text}"
            );
        }
        let missing = load_config(Some(Path::new("/no/such/manager.conf")), None)
            .unwrap_err()
            .to_string();
        assert!(
            missing.contains("/no/such/manager.conf") && missing.contains("--kubeconfig"),
            "{missing}"
        );
    }

    #[test]
    fn several_files_are_merged_as_by_kubectl() {
        let home = home();
        let file = |name: &str, content: String| {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
            path
        };
        let first = file(
            "a/config",
            "current-context: ''\nusers:\n- name: u\n  user: {tokenFile: token}\n".to_owned(),
        );
        std::fs::write(home.path().join("a/token"), "t").unwrap();
        let second = file("b/config", kubeconfig("server: 'https://10.0.0.1:6443'"));
        let third = file(
            "c/config",
            kubeconfig("server: 'https://10.0.0.2:6443'")
                .replace("current-context: c", "current-context: d"),
        );
        let files = vec![home.path().join("nowhere"), first.clone(), second, third];
        let config = from_kubeconfig(&merged(files).unwrap().unwrap(), None).unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://10.0.0.1:6443/");
        assert_eq!(
            config.auth_info.token_file.as_deref(),
            home.path().join("a/token").to_str()
        );

        assert!(merged(vec![home.path().join("nowhere")]).unwrap().is_none());
        let alone = from_kubeconfig(&merged(vec![first]).unwrap().unwrap(), None)
            .unwrap_err()
            .to_string();
        assert!(alone.contains("a/config: no current-context"), "{alone}");
        let broken = file("broken", "clusters: [".to_owned());
        assert!(
            merged(vec![broken])
                .unwrap_err()
                .to_string()
                .contains("broken: not a kubeconfig")
        );
    }

    #[test]
    fn a_pod_needs_its_environment_variables_and_its_token() {
        let home = home();
        let pod = |host: &str, port: &str| Pod {
            host: host.to_owned(),
            port: port.to_owned(),
            directory: home.path().to_owned(),
        };
        assert!(
            pod("", "443").config().unwrap().is_none()
                && pod("10.0.0.1", "").config().unwrap().is_none()
        );
        let config = pod("fd00::1", "443").config().unwrap().unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://[fd00::1]:443/");
        // As in client-go, `ca.crt` may be missing; the CAs of the system are used.
        assert!(config.auth_info.token_file.is_some() && config.root_cert.is_none());
        std::fs::rename(home.path().join("tls.crt"), home.path().join("ca.crt")).unwrap();
        assert!(
            pod("10.0.0.1", "443")
                .config()
                .unwrap()
                .unwrap()
                .root_cert_file
                .is_some()
        );
        std::fs::remove_file(home.path().join("token")).unwrap();
        let error = pod("10.0.0.1", "443").config().unwrap_err().to_string();
        assert!(
            error.starts_with("service account of this pod: cannot read the token "),
            "{error}"
        );
    }

    #[test]
    fn the_error_without_flags_outside_a_pod_is_upstreams() {
        assert_eq!(
            ConfigError::Missing.to_string(),
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
        );
    }

    #[test]
    fn an_invalid_master_url_is_refused() {
        let error = load_config(None, Some("https://not a host"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("--master") && error.contains("not a host"),
            "{error}"
        );
    }
}
