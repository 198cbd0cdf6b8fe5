//! Reads the facts about a cluster. All requests are reads or reviews, which change nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use http::{Request as HttpRequest, Response, StatusCode};
use kube::client::Body;
use prometheus::Registry;
use serde::de::DeserializeOwned;
use serde_json::Value;
use steersman_client::{
    ApiClient, ApiPath, ClientMetrics, ClientSettings, HttpService, Target, user_agent,
};
use steersman_runtime::leader::DEFAULT_LEASE;
use steersman_values::resource::{
    CONFIG_MAPS, LEASES, SELF_SUBJECT_ACCESS_REVIEWS, SUBJECT_ACCESS_REVIEWS,
};

use super::admission::{Configurations, Service};
use super::files::AcceptedKeys;
use super::finding::Finding;
use super::lease::Lease;
use super::rights::{self, Answer, Request};
use super::running::{self, Running};
use crate::config::Config;
use crate::follow::ServerVersion;

/// Time limit of a request. A check that hangs helps nobody.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Reviews at the same time.
const AT_ONCE: usize = 32;

/// The facts about a cluster. An unreadable one has the error.
pub(super) struct Facts {
    pub(super) version: ServerVersion,
    pub(super) answers: BTreeMap<Request, Answer>,
    /// The Lease of the flags, or without leader election the default one; `None` if it is absent.
    pub(super) lease: Result<Option<Lease>, String>,
    /// Keys for tokens of ServiceAccounts.
    pub(super) keys: Result<AcceptedKeys, String>,
    /// Authorities of client certificates.
    pub(super) client_ca: Option<String>,
    /// The bundle in `kube-system/kube-root-ca.crt`.
    pub(super) root_ca: Option<String>,
    pub(super) metrics: Result<String, String>,
    /// Webhook configurations, and their Services without a ready endpoint.
    pub(super) webhooks: Result<(Vec<Configurations>, BTreeSet<Service>), String>,
    pub(super) running: Running,
}

/// A client that is not connected: each request is answered with 503.
pub(super) fn nowhere(registry: &Registry) -> Result<ApiClient, prometheus::Error> {
    let service = tower::service_fn(|_: HttpRequest<Body>| async {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        Ok::<_, Infallible>(response)
    });
    let metrics = ClientMetrics::register(registry)?;
    Ok(ApiClient::new(
        HttpService::new(service),
        settings(),
        metrics,
    ))
}

fn settings() -> ClientSettings {
    ClientSettings {
        user_agent: user_agent("check"),
        qps: 0.0,
        burst: 0,
        timeout: TIMEOUT,
    }
}

/// Reads facts from one cluster.
pub(super) struct Reader {
    client: ApiClient,
    host: String,
}

/// Connects as the manager would.
pub(super) fn connect(config: &Config) -> Result<Reader, Finding> {
    open(config, config.master.as_deref())
        .map_err(|error| Finding::failure("server", error, "correct --kubeconfig or --master"))
}

/// A connection that holds writes back, to `address` instead of the kubeconfig's if there is one.
fn open(config: &Config, address: Option<&str>) -> Result<Reader, String> {
    let loaded = steersman_client::load_config(config.kubeconfig.as_deref(), address)
        .map_err(|error| error.to_string())?;
    let service = steersman_client::connect(&loaded).map_err(|error| error.to_string())?;
    let metrics = ClientMetrics::register(&Registry::new()).map_err(|error| error.to_string())?;
    Ok(Reader {
        client: ApiClient::new(service.holding_back(Arc::new(|_| {})), settings(), metrics),
        host: steersman_client::host(&loaded),
    })
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

impl Reader {
    /// Reads all facts.
    ///
    /// # Errors
    /// If the API server does not answer, or rejects the credentials.
    pub(super) async fn look(
        &self,
        config: &Config,
        running: Option<&str>,
    ) -> Result<Facts, Finding> {
        let version = self.get::<ServerVersion>("/version").await;
        let version = version.map_err(|error| self.unreachable(&error))?;
        Ok(Facts {
            version,
            answers: self.review(&rights::needed(config)).await,
            lease: self.lease(config).await,
            keys: self.accepted_keys().await,
            client_ca: self
                .config_map("extension-apiserver-authentication", "client-ca-file")
                .await,
            root_ca: self.config_map("kube-root-ca.crt", "ca.crt").await,
            metrics: self.text("/metrics").await,
            webhooks: self.webhooks().await,
            running: self.running(config, running).await,
        })
    }

    fn unreachable(&self, error: &str) -> Finding {
        Finding::failure(
            "server",
            format!(
                "the API server {} does not answer the manager: {error}",
                self.host
            ),
            "correct address, authority and credentials of --kubeconfig, or start the API server",
        )
    }

    /// The keys of tokens. The API server serves them in their own media type only.
    async fn accepted_keys(&self) -> Result<AcceptedKeys, String> {
        let form = "application/jwk-set+json, application/json";
        let body = self.client.get_path_as("/openid/v1/jwks", form).await;
        decode(&body.map_err(|error| error.to_string())?)
    }

    async fn text(&self, path: &str) -> Result<String, String> {
        let path = ApiPath::served(path).map_err(|error| error.to_string())?;
        let body = self
            .client
            .get_path(path)
            .await
            .map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        decode(self.text(path).await?.as_bytes())
    }

    async fn review(&self, needed: &rights::Needed) -> BTreeMap<Request, Answer> {
        let reviews = needed.keys().map(async |request| {
            let resource = if request.is_about_account() {
                &SUBJECT_ACCESS_REVIEWS
            } else {
                &SELF_SUBJECT_ACCESS_REVIEWS
            };
            let target = Target {
                resource,
                namespace: None,
                name: None,
                subresource: None,
            };
            let answer = match self.client.create(target, &request.review()).await {
                Ok(body) => decode::<Value>(&body).map_or_else(Answer::Unknown, |review| {
                    match review["status"]["allowed"].as_bool() {
                        Some(true) => Answer::Allowed,
                        _ => Answer::Denied,
                    }
                }),
                Err(error) => Answer::Unknown(error.to_string()),
            };
            (request.clone(), answer)
        });
        stream::iter(reviews)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await
    }

    async fn lease(&self, config: &Config) -> Result<Option<Lease>, String> {
        let (namespace, name) = match &config.election {
            Some(election) => (&*election.namespace, &*election.name),
            None => DEFAULT_LEASE,
        };
        let target = Target {
            resource: &LEASES,
            namespace: Some(namespace),
            name: Some(name),
            subresource: None,
        };
        match self.client.get(target).await {
            Ok(body) => decode(&body).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The entry `key` of a ConfigMap in `kube-system`.
    async fn config_map(&self, name: &str, key: &str) -> Option<String> {
        let target = Target {
            resource: &CONFIG_MAPS,
            namespace: Some("kube-system"),
            name: Some(name),
            subresource: None,
        };
        let body = self.client.get(target).await.ok()?;
        let map: Value = decode(&body).ok()?;
        Some(map["data"][key].as_str()?.to_owned())
    }

    async fn webhooks(&self) -> Result<(Vec<Configurations>, BTreeSet<Service>), String> {
        let mut lists = Vec::new();
        let mut dead = BTreeSet::new();
        for kind in [
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
        ] {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}");
            let list: Configurations = self.get(&path).await?;
            for service in list.services() {
                if !self.has_endpoint(&service).await? {
                    dead.insert(service);
                }
            }
            lists.push(list);
        }
        Ok((lists, dead))
    }

    /// Whether a ready endpoint answers for `service`.
    async fn has_endpoint(&self, service: &Service) -> Result<bool, String> {
        let path = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{}",
            service.namespace, service.name
        );
        let slices: Value = self.get(&path).await?;
        let slices = slices["items"].as_array().into_iter().flatten();
        let mut endpoints = slices
            .filter_map(|slice| slice["endpoints"].as_array())
            .flatten();
        // An endpoint without the condition counts as ready.
        Ok(endpoints.any(|endpoint| endpoint["conditions"]["ready"] != Value::Bool(false)))
    }

    /// The present manager, as `source` names it; without it, its pods.
    async fn running(&self, config: &Config, source: Option<&str>) -> Running {
        let found = match source {
            Some(address) if address.starts_with("https://") || address.starts_with("http://") => {
                match open(config, Some(address)) {
                    Ok(manager) => manager.get("/configz").await.map(Running::Configz),
                    Err(error) => Err(error),
                }
            }
            Some(file) => std::fs::read_to_string(Path::new(file))
                .map_err(|error| error.to_string())
                .and_then(|text| running::parse(&text)),
            None => {
                let path = "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-controller-manager";
                self.get::<Value>(path).await.and_then(|list| {
                    serde_json::from_value(list["items"].clone())
                        .map(Running::Pods)
                        .map_err(|error| error.to_string())
                })
            }
        };
        found.unwrap_or_else(|error| match source {
            Some(source) => Running::Unknown(format!("{source}: {error}")),
            None => Running::Unknown(error),
        })
    }
}
