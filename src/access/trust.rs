//! Trusted certificate authorities: from files, or from the ConfigMap
//! `kube-system/extension-apiserver-authentication`.
//!
//! The API server publishes its own authorities in this ConfigMap. Files and ConfigMap are reloaded
//! when they change, so that a rotation needs no restart. Upstream:
//! `k8s.io/apiserver/pkg/server/dynamiccertificates` and
//! `pkg/authentication/request/headerrequest`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use parking_lot::RwLock;
use serde::Deserialize;
use steersman_client::reload::Reloading;
use steersman_client::{ApiClient, ApiError, Query, Target};
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workqueue::{ImmediateQueue, QueueMetrics};
use steersman_values::resource::CONFIG_MAPS;
use tokio::time::{Instant, sleep};

use super::AccessError;
use super::certificates::Authorities;
use super::front_proxy::FrontProxy;
use crate::config::{AuthenticationSettings, ProxyHeaders};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Upstream's name of the queue of authorities from the ConfigMap.
const OF_CONFIG_MAP: &str = "DynamicConfigMapCABundle-client-ca";

/// Shortest and longest pause between two watches of the ConfigMap.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Authorities of clients, and settings of request header authentication. Each is `None` while it
/// is unknown.
#[derive(Debug, Clone, Default)]
pub(super) struct Trust {
    pub(super) clients: Option<Arc<Authorities>>,
    pub(super) proxies: Option<FrontProxy>,
}

impl Trust {
    /// Whether `other` has the same authorities: the same reads of the same sources.
    pub(super) fn has_authorities_of(&self, other: &Self) -> bool {
        let clients = (&self.clients, &other.clients);
        let proxies = [self, other].map(|trust| trust.proxies.as_ref());
        let proxies = proxies.map(|proxies| proxies.map(|proxies| &proxies.authorities));
        is_same(clients.0.as_ref(), clients.1.as_ref()) && is_same(proxies[0], proxies[1])
    }
}

fn is_same(one: Option<&Arc<Authorities>>, other: Option<&Arc<Authorities>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// The source of [`Trust`]: for each part a file, or the ConfigMap.
pub(super) struct TrustSource {
    client_file: Option<Reloading<Authorities>>,
    proxy_file: Option<(Reloading<Authorities>, ProxyHeaders)>,
    /// Content of the ConfigMap, for the parts that no file provides.
    from_config_map: RwLock<Trust>,
    /// Client for the ConfigMap; `None` if files provide everything, or if no credentials are
    /// configured.
    lookup: Option<ApiClient>,
}

/// Workqueue metrics of upstream's controllers for this data: each applied change of the ConfigMap
/// counts as a processed item.
pub(super) struct Queues {
    clients: Vec<ImmediateQueue>,
    proxies: Vec<ImmediateQueue>,
}

impl Queues {
    /// The queues that upstream has with these settings. Without `looks_up`, nothing reads the ConfigMap.
    ///
    /// Upstream: `DelegatingAuthenticationOptions.ApplyTo`.
    pub(super) fn new(
        settings: &AuthenticationSettings,
        looks_up: bool,
        metrics: &QueueMetrics,
    ) -> Self {
        let queues = |file: bool, of_file, of_map: &[&str]| -> Vec<ImmediateQueue> {
            let of_map = of_map.iter().copied().filter(|_| looks_up && !file);
            let names = of_map.chain(file.then_some(of_file));
            names.map(|name| metrics.immediate(name)).collect()
        };
        Self {
            clients: queues(
                settings.client_ca.is_some(),
                "DynamicCABundle-client-ca-bundle",
                &[OF_CONFIG_MAP],
            ),
            proxies: queues(
                settings.proxy_ca.is_some(),
                "DynamicCABundle-request-header",
                &[OF_CONFIG_MAP, "RequestHeaderAuthRequestController"],
            ),
        }
    }
}

impl TrustSource {
    /// Reads the files. `client` reads the ConfigMap.
    pub(super) fn new(
        settings: &AuthenticationSettings,
        client: Option<ApiClient>,
    ) -> Result<Self, AccessError> {
        let client_file = settings.client_ca.as_deref().map(authorities).transpose();
        let client_file = client_file.map_err(|error| {
            AccessError::Authorities("unable to load client CA provider", error)
        })?;
        let proxy_file = settings.proxy_ca.as_deref().map(authorities).transpose();
        let proxy_file = proxy_file
            .map_err(|error| {
                AccessError::Authorities(
                    "unable to create request header authentication config",
                    error,
                )
            })?
            .map(|file| (file, settings.proxy_headers.clone()));
        let complete = client_file.is_some() && proxy_file.is_some();
        let lookup = client.filter(|_| !settings.skip_lookup && !complete);
        if lookup.is_none() && !settings.skip_lookup {
            for (missing, key, what) in [
                (
                    client_file.is_none(),
                    "client-ca-file",
                    "client certificate authentication",
                ),
                (
                    proxy_file.is_none(),
                    "requestheader-client-ca-file",
                    "request-header client certificate authentication",
                ),
            ] {
                if missing {
                    tracing::warn!(
                        "No authentication-kubeconfig provided in order to lookup {key} in configmap/{NAME} in {NAMESPACE}, so {what} won't work."
                    );
                }
            }
        }
        Ok(Self {
            client_file,
            proxy_file,
            from_config_map: RwLock::default(),
            lookup,
        })
    }

    /// Whether any source of authorities is configured. Otherwise the TLS server requests no client
    /// certificates.
    pub(super) fn has_source(&self) -> bool {
        self.client_file.is_some() || self.proxy_file.is_some() || self.lookup.is_some()
    }

    /// The authorities that are trusted at this moment.
    pub(super) async fn current(&self) -> Trust {
        let mut trust = self.from_config_map.read().clone();
        if let Some(file) = &self.client_file {
            trust.clients = Some(file.current().await);
        }
        if let Some((file, headers)) = &self.proxy_file {
            trust.proxies = Some(FrontProxy {
                authorities: file.current().await,
                headers: headers.clone(),
            });
        }
        trust
    }

    /// Reads the ConfigMap for the first time. A missing ConfigMap is accepted, because the API
    /// server may create it later.
    pub(super) async fn look_up(&self, queues: &Queues) -> Result<(), ApiError> {
        let Some(client) = &self.lookup else {
            return Ok(());
        };
        match client.get(target(Some(NAME))).await {
            Ok(body) => self.take(&body, queues),
            Err(error) if error.is_not_found() => {
                tracing::warn!(%error, "the ConfigMap with the trusted authorities does not exist yet");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Watches the ConfigMap until `stop`, with growing pauses after watches that end early.
    pub(super) async fn follow(&self, queues: &Queues, stop: &CancellationToken) {
        let Some(client) = &self.lookup else { return };
        let mut pause = SHORTEST_PAUSE;
        loop {
            let began = Instant::now();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.watch(client, queues) => {}
            }
            // A watch that lasted was healthy, so the back-off starts again.
            pause = if began.elapsed() > LONGEST_PAUSE {
                SHORTEST_PAUSE
            } else {
                (pause * 2).min(LONGEST_PAUSE)
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// One watch. Its first event is the current ConfigMap.
    async fn watch(&self, client: &ApiClient, queues: &Queues) {
        let query = Query::default().with("fieldSelector", format!("metadata.name={NAME}"));
        let mut lines = match client.watch(target(None), query).await {
            Ok(lines) => lines,
            Err(error) => {
                return tracing::warn!(%error, "cannot watch the ConfigMap with the trusted authorities");
            }
        };
        while let Some(line) = lines.next().await {
            let Ok(line) = line else { return };
            match serde_json::from_slice::<Frame<'_>>(&line) {
                Ok(Frame {
                    kind: "ADDED" | "MODIFIED",
                    object: Some(object),
                }) => self.take(object.get().as_bytes(), queues),
                Ok(Frame { kind: "ERROR", .. }) | Err(_) => return,
                // After a deletion, the known authorities remain trusted: a restart of the API
                // server must not lock clients out.
                Ok(_) => {}
            }
        }
    }

    /// Applies the content of a ConfigMap. An invalid part is logged and keeps its previous value.
    fn take(&self, body: &[u8], queues: &Queues) {
        let began = Instant::now();
        let data = match serde_json::from_slice::<ConfigMap>(body) {
            Ok(map) => map.data,
            Err(error) => {
                return tracing::error!(%error, "ConfigMap {NAMESPACE}/{NAME} cannot be read");
            }
        };
        let read = |key: &str| match data.get(key).filter(|pem| !pem.is_empty()) {
            Some(pem) => Authorities::parse(pem.as_bytes())
                .map(Arc::new)
                .map_err(|reason| format!("{key}: {reason}")),
            None => Err(format!("missing content for CA bundle {key:?}")),
        };
        let warn = |reason: String| tracing::warn!(reason, "ConfigMap {NAMESPACE}/{NAME}");
        let mut trust = self.from_config_map.write();
        if self.client_file.is_none() {
            match read("client-ca-file") {
                Ok(authorities) => trust.clients = Some(authorities),
                Err(reason) => warn(reason),
            }
            processed(&queues.clients, began);
        }
        if self.proxy_file.is_none() {
            match read("requestheader-client-ca-file")
                .and_then(|authorities| Ok((authorities, headers(&data)?)))
            {
                Ok((authorities, headers)) => {
                    trust.proxies = Some(FrontProxy {
                        authorities,
                        headers,
                    })
                }
                Err(reason) => warn(reason),
            }
            processed(&queues.proxies, began);
        }
    }
}

fn processed(queues: &[ImmediateQueue], began: Instant) {
    for queue in queues {
        queue.processed(began.elapsed());
    }
}

fn authorities(path: &Path) -> Result<Reloading<Authorities>, String> {
    Reloading::new(vec![path.to_owned()], |files| Authorities::parse(&files[0]))
}

fn target(name: Option<&str>) -> Target<'_> {
    Target {
        resource: &CONFIG_MAPS,
        namespace: Some(NAMESPACE),
        name,
        subresource: None,
    }
}

/// A watch event of the ConfigMap.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: Option<&'a serde_json::value::RawValue>,
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// The header names in the ConfigMap; each value is a JSON list.
fn headers(data: &BTreeMap<String, String>) -> Result<ProxyHeaders, String> {
    let list = |key: &str| -> Result<Vec<String>, String> {
        let Some(text) = data.get(key).filter(|text| !text.is_empty()) else {
            return Ok(Vec::new());
        };
        let names: Vec<String> =
            serde_json::from_str(text).map_err(|error| format!("{key}: {error}"))?;
        let names: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
        if names.iter().any(String::is_empty) {
            Err(format!("{key}: empty header"))
        } else {
            Ok(names)
        }
    };
    Ok(ProxyHeaders {
        username: list("requestheader-username-headers")?,
        uid: list("requestheader-uid-headers")?,
        groups: list("requestheader-group-headers")?,
        extra_prefixes: list("requestheader-extra-headers-prefix")?,
        allowed_names: list("requestheader-allowed-names")?,
    })
}
