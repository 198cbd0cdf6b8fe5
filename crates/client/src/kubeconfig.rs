//! Reads kubeconfig files with the rules of `client-go/tools/clientcmd`.
//!
//! files -> merged (the first entry of a name wins) -> current context -> its cluster and its user,
//! validated
//!
//! Errors never quote a file, because it may contain credentials.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster};
use serde_json::{Map, Value};

use super::ConfigError;

/// The fields of a context, a cluster or a user.
type Entry = Map<String, Value>;

/// One kubeconfig, or several merged.
#[derive(Debug, Default)]
pub(super) struct Kubeconfig {
    /// The files that it was read from.
    origins: Vec<PathBuf>,
    current_context: String,
    contexts: BTreeMap<String, Entry>,
    clusters: BTreeMap<String, Entry>,
    users: BTreeMap<String, Entry>,
}

/// Cluster and user of the current context. Each is empty if it is missing.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) cluster_name: String,
    pub(super) cluster: Cluster,
    pub(super) user_name: String,
    pub(super) user: AuthInfo,
    /// The user's fields in the file, without empty values. `AuthInfo` hides some of them.
    typed: Entry,
    /// True if the context names a missing user.
    pub(super) lacks_user: bool,
    /// The reason for a missing cluster. `None` if there is a cluster.
    pub(super) lacks_cluster: Option<String>,
}

impl Kubeconfig {
    /// Reads `path`. Relative paths in it start from its directory. An empty file is an empty
    /// kubeconfig.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::InvalidData => malformed(path),
            _ => ConfigError::Read {
                path: path.to_owned(),
                source,
            },
        })?;
        let document = serde_saphyr::from_str(&text).map_err(|_| malformed(path))?;
        let absolute = std::path::absolute(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::from_document(document, path, absolute.parent().unwrap_or(Path::new("/")))
    }

    fn from_document(document: Value, path: &Path, base: &Path) -> Result<Self, ConfigError> {
        let problem = |problem| ConfigError::Kubeconfig {
            path: path.to_owned(),
            problem,
        };
        let mut document = match document {
            Value::Null => Entry::new(),
            Value::Object(document) => document,
            _ => return Err(malformed(path)),
        };
        let mut text = |key: &str| match document.remove(key) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(malformed(path)),
        };
        let kind = text("kind")?;
        let version = text("apiVersion")?;
        let current_context = text("current-context")?;
        if !matches!(kind.as_str(), "" | "Config") || !matches!(version.as_str(), "" | "v1") {
            return Err(problem(format!(
                "kind {kind:?} of version {version:?} is not a kubeconfig, which is Config of v1"
            )));
        }
        let mut list = |key: &str, inner: &str| {
            let named = named(document.remove(key), inner).ok_or_else(|| malformed(path))?;
            let mut entries = BTreeMap::new();
            for (name, mut entry) in named {
                resolve_paths(&mut entry, base);
                if entries.insert(name.clone(), entry).is_some() {
                    return Err(problem(format!("duplicate name {name:?} in its {key}")));
                }
            }
            Ok(entries)
        };
        let contexts = list("contexts", "context")?;
        let clusters = list("clusters", "cluster")?;
        let users = list("users", "user")?;
        let read = Self {
            origins: vec![path.to_owned()],
            current_context,
            contexts,
            clusters,
            users,
        };
        // As in client-go, unused entries must be valid too.
        let are_readable = read
            .clusters
            .values()
            .all(|cluster| parse::<Cluster>(cluster).is_some())
            && read
                .users
                .values()
                .all(|user| parse::<AuthInfo>(user).is_some());
        if are_readable {
            Ok(read)
        } else {
            Err(malformed(path))
        }
    }

    /// Adds entries of `next` with new names.
    pub(super) fn merge(&mut self, next: Self) {
        self.origins.extend(next.origins);
        if self.current_context.is_empty() {
            self.current_context = next.current_context;
        }
        for (own, others) in [
            (&mut self.contexts, next.contexts),
            (&mut self.clusters, next.clusters),
            (&mut self.users, next.users),
        ] {
            for (name, entry) in others {
                own.entry(name).or_insert(entry);
            }
        }
    }

    /// The files, in the format of `KUBECONFIG`.
    pub(super) fn origin(&self) -> PathBuf {
        std::env::join_paths(&self.origins)
            .map(PathBuf::from)
            .unwrap_or_default()
    }

    /// An error about these files.
    pub(super) fn refused(&self, problem: String) -> ConfigError {
        ConfigError::Kubeconfig {
            path: self.origin(),
            problem,
        }
    }

    /// Cluster and user of the current context. It is an error if the named context is missing, but
    /// an empty name is fine.
    pub(super) fn current(&self) -> Result<Current, ConfigError> {
        let context = match self.contexts.get(&self.current_context) {
            Some(context) => context.clone(),
            None if self.current_context.is_empty() => Entry::new(),
            None => {
                let name = &self.current_context;
                return Err(self.refused(format!(
                    "current-context {name:?} is not among its contexts; choose one with kubectl config use-context"
                )));
            }
        };
        let cluster_name = text(&context, "cluster").to_owned();
        let user_name = text(&context, "user").to_owned();
        let cluster = self.clusters.get(&cluster_name);
        let user = self.users.get(&user_name);
        let lacks_cluster = match cluster {
            Some(cluster) if !without_empty(cluster).is_empty() => None,
            Some(_) => Some(format!(
                "cluster {cluster_name:?} has no server; add it or set --master"
            )),
            None if self.current_context.is_empty() => {
                Some("no current-context; choose one with kubectl config use-context".to_owned())
            }
            None => Some(format!(
                "cluster {cluster_name:?} of the current context is not among its clusters"
            )),
        };
        let typed = user.map(without_empty).unwrap_or_default();
        Ok(Current {
            cluster: cluster
                .and_then(|cluster| parse(&without_empty(cluster)))
                .unwrap_or_default(),
            user: parse(&typed).unwrap_or_default(),
            lacks_user: user.is_none() && !user_name.is_empty(),
            lacks_cluster,
            typed,
            cluster_name,
            user_name,
        })
    }
}

impl Current {
    /// A text field of the user in the file.
    pub(super) fn typed(&self, key: &str) -> Option<&str> {
        self.typed.get(key).and_then(Value::as_str)
    }

    /// All errors of client-go's validation (`validateClusterInfo`, `validateAuthInfo`).
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = self.problems_of_cluster();
        problems.extend(self.problems_of_user());
        problems
    }

    fn problems_of_cluster(&self) -> Vec<String> {
        let name = &self.cluster_name;
        let cluster = &self.cluster;
        let mut problems = Vec::new();
        if cluster.server.is_none() {
            problems.push(format!(
                "no server found for cluster {name:?}; add it or set --master"
            ));
        }
        if let Some(proxy) = &cluster.proxy_url
            && let Err(reason) = check_proxy(proxy)
        {
            problems.push(format!(
                "invalid 'proxy-url' for cluster {name:?}: {reason}"
            ));
        }
        if let Some(file) = &cluster.certificate_authority {
            if cluster.certificate_authority_data.is_some() {
                problems.push(format!(
                    "certificate-authority-data and certificate-authority are both specified for {name}; remove one of them"
                ));
            }
            problems.extend(unreadable("certificate-authority", file, name));
        }
        problems
    }

    fn problems_of_user(&self) -> Vec<String> {
        let name = &self.user_name;
        let user = &self.user;
        let mut problems = Vec::new();
        let has = |key| self.typed.contains_key(key);
        if has("client-certificate") || has("client-certificate-data") {
            for (file, data) in [
                ("client-certificate", "client-certificate-data"),
                ("client-key", "client-key-data"),
            ] {
                if has(file) && has(data) {
                    problems.push(format!(
                        "{data} and {file} are both specified for {name}; remove one of them"
                    ));
                }
            }
            if !has("client-key") && !has("client-key-data") {
                problems.push(format!(
                    "client-key-data or client-key must be specified for {name} to use the clientCert authentication method"
                ));
            }
            for (what, file) in [
                ("client-certificate", &user.client_certificate),
                ("client-key", &user.client_key),
            ] {
                problems.extend(file.as_ref().and_then(|file| unreadable(what, file, name)));
            }
        }
        let is_basic = has("username") || has("password");
        if is_basic && (has("token") || has("tokenFile")) {
            problems
                .push(format!("more than one authentication method found for {name}: token and basic auth; remove one of them"));
        }
        if let Some(provider) = &user.auth_provider {
            problems.push(if user.exec.is_some() {
                format!(
                    "authProvider cannot be provided in combination with an exec plugin for {name}"
                )
            } else {
                format!(
                    "no Auth Provider found for name {:?} of {name}; use an exec plugin",
                    provider.name
                )
            });
        }
        if let Some(exec) = &user.exec {
            let mut needs = |what: &str, is_there: bool| {
                if !is_there {
                    problems.push(format!(
                        "{what} must be specified for {name} to use exec authentication plugin"
                    ));
                }
            };
            let version = exec.api_version.as_deref().unwrap_or_default();
            // Versions before v1 have a default for `interactiveMode`.
            let needs_mode = !matches!(
                version,
                "client.authentication.k8s.io/v1beta1" | "client.authentication.k8s.io/v1alpha1"
            );
            needs(
                "command",
                exec.command
                    .as_ref()
                    .is_some_and(|command| !command.is_empty()),
            );
            needs("apiVersion", !version.is_empty());
            let named = |env: &std::collections::HashMap<String, String>| {
                env.get("name").is_some_and(|name| !name.is_empty())
            };
            needs("env variable name", exec.env.iter().flatten().all(named));
            needs(
                "interactiveMode",
                exec.interactive_mode.is_some() || !needs_mode,
            );
        }
        if !has("as") && (has("as-uid") || has("as-groups") || has("as-user-extra")) {
            problems.push(format!(
                "requesting uid, groups or user-extra for {name} without impersonating a user"
            ));
        }
        problems
    }
}

/// The error for an invalid file. A parser's error would quote the file, so it is left out.
fn malformed(path: &Path) -> ConfigError {
    let problem = "not a kubeconfig in YAML; check it with kubectl --kubeconfig <file> config view"
        .to_owned();
    ConfigError::Kubeconfig {
        path: path.to_owned(),
        problem,
    }
}

/// The entries of a list of `{name, <inner>}`. `None` if the value has another form.
fn named(list: Option<Value>, inner: &str) -> Option<Vec<(String, Entry)>> {
    let items = match list {
        None | Some(Value::Null) => return Some(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return None,
    };
    let read = |item: Value| {
        let Value::Object(mut item) = item else {
            return None;
        };
        let name = match item.remove("name") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(name)) => name,
            Some(_) => return None,
        };
        let entry = match item.remove(inner) {
            None | Some(Value::Null) => Entry::new(),
            Some(Value::Object(entry)) => entry,
            Some(_) => return None,
        };
        Some((name, entry))
    };
    items.into_iter().map(read).collect()
}

/// Makes the paths of an entry absolute. A command without a slash stays, because it is looked up
/// in `PATH`.
fn resolve_paths(entry: &mut Entry, base: &Path) {
    let absolute = |value: &mut Value| {
        if let Value::String(path) = value
            && !path.is_empty()
            && let Some(absolute) = base.join(&*path).to_str()
        {
            *path = absolute.to_owned();
        }
    };
    [
        "certificate-authority",
        "client-certificate",
        "client-key",
        "tokenFile",
    ]
    .into_iter()
    .for_each(|key| entry.get_mut(key).into_iter().for_each(absolute));
    let command = entry
        .get_mut("exec")
        .and_then(|exec| exec.get_mut("command"));
    command
        .filter(|command| command.as_str().is_some_and(|text| text.contains('/')))
        .into_iter()
        .for_each(absolute);
}

/// `entry` without null and empty values, which mean the same as a missing field.
fn without_empty(entry: &Entry) -> Entry {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    entry
        .iter()
        .filter(|(_, value)| !is_empty(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn parse<T: serde::de::DeserializeOwned>(entry: &Entry) -> Option<T> {
    serde_json::from_value(Value::Object(entry.clone())).ok()
}

fn text<'a>(entry: &'a Entry, key: &str) -> &'a str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The error if `file` cannot be opened.
fn unreadable(what: &str, file: &str, name: &str) -> Option<String> {
    let error = std::fs::File::open(file).err()?;
    Some(format!(
        "unable to read {what} {file} for {name} due to {error}"
    ))
}

/// Checks the URL of a proxy. The error shows no password.
fn check_proxy(text: &str) -> Result<(), String> {
    let url: http::Uri = text
        .parse()
        .map_err(|_| "could not parse it; use http://<host>:<port>".to_owned())?;
    match url.scheme_str() {
        Some("http" | "https" | "socks5") if url.host().is_some_and(|host| !host.is_empty()) => {
            Ok(())
        }
        scheme => {
            let scheme = scheme.unwrap_or_default();
            Err(format!(
                "unsupported scheme {scheme:?}, must be http, https, or socks5"
            ))
        }
    }
}
