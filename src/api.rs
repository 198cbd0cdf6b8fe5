//! The way to the API server: connections, the clients that use them, and the checks before start.
//!
//! kubeconfig -> [`Connection`] -> `Clients` -> one `ApiClient` per controller, with its own
//! throttle
//!
//! Leader election has its own connection, so that renewals never queue behind controllers'
//! requests. Upstream: `SimpleControllerClientBuilder` in
//! `k8s.io/controller-manager/pkg/clientbuilder`, and `WaitForAPIServer` in
//! `k8s.io/controller-manager/app`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use steersman_client::{
    self, Activity, ApiClient, ApiError, ClientMetrics, ClientSettings, HeldWrite, HttpService,
    Target, Transports, Witness, WriteGate, user_agent,
};
use steersman_runtime::controller::{ClusterCredentials, MANAGERS_IDENTITIES};
use steersman_values::resource::LEASES;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::config::{Access, Config, ElectionSettings, Serving};
use crate::error::RunError;
use crate::service_accounts;

/// Time limit for the API server to become healthy, and the pause between health checks.
const WAIT: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_secs(1);
/// Interval of repeated log messages while the API server is not healthy.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The connections to the API server.
#[derive(Clone)]
pub struct Connection {
    /// Sends the requests of controllers and informers.
    pub client: HttpService,
    /// Sends the requests of leader election. Use a separate connection, because a renewal must not
    /// wait behind other requests.
    pub election: HttpService,
    /// Sends requests without credentials, for controllers that add a token of their own.
    pub anonymous: HttpService,
    /// The label value `host` in metrics, such as `10.0.0.1:6443`.
    pub host: String,
    /// Client for TokenReviews; without it, only client certificates of authorities in files
    /// authenticate.
    pub authentication: Option<Delegate>,
    /// Client for SubjectAccessReviews; without it, only `system:masters` and the always-allowed
    /// paths are permitted.
    pub authorization: Option<Delegate>,
    /// Number of distinct connections, for the metric of connections.
    pub connections: usize,
    /// Keys and certificates of the cluster that no flag names as files.
    pub credentials: ClusterCredentials,
    /// The transports that these connections share; `None` for clients from other sources.
    pub transports: Option<Transports>,
    /// Address and credentials of `client`; `None` for clients from other sources.
    pub server: Option<Arc<kube::Config>>,
}

/// A client for reviews of requests to our HTTPS port, with its own credentials.
#[derive(Clone)]
pub struct Delegate {
    /// Sends the reviews.
    pub client: HttpService,
    /// The label value `host` in metrics.
    pub host: String,
}

impl Delegate {
    /// The same client, with its connections on `runtime`.
    pub(crate) fn on(&self, runtime: &Handle) -> Self {
        Self {
            client: self.client.on(runtime.clone()),
            host: self.host.clone(),
        }
    }
}

impl Connection {
    /// Connects as `--kubeconfig` and `--master` say, or with the pod's service account. Clients
    /// for reviews come from `--authentication-kubeconfig` and `--authorization-kubeconfig`. Sends
    /// no request. Must be called inside a Tokio runtime.
    pub fn from_config(config: &Config) -> Result<Self, RunError> {
        let loaded =
            steersman_client::load_config(config.kubeconfig.as_deref(), config.master.as_deref())?;
        let transports = Transports::new()?;
        let mut connection = Self::in_process(
            transports.connect(&loaded)?,
            steersman_client::host(&loaded),
        );
        connection.election = transports.connect(&loaded)?;
        connection.connections += 1;
        if config.service_account_credentials {
            connection.anonymous = transports.connect(&steersman_client::anonymous(&loaded))?;
            connection.connections += 1;
        }
        connection.transports = Some(transports);
        connection.server = Some(Arc::new(loaded));
        connection.credentials.root_ca =
            steersman_client::inline_authority(config.kubeconfig.as_deref())?.into();
        if let Some(Serving {
            access: Access::Delegated(settings),
            ..
        }) = &config.serving
        {
            connection.authentication = connection.delegate(
                config,
                settings.authentication.kubeconfig.as_deref(),
                "authentication",
            )?;
            connection.authorization = connection.delegate(
                config,
                settings.authorization.kubeconfig.as_deref(),
                "authorization",
            )?;
        }
        Ok(connection)
    }

    /// A client with new connections, which may reach another API server behind the same address.
    pub(crate) fn fresh(&self) -> HttpService {
        let (Some(transports), Some(server)) = (&self.transports, &self.server) else {
            return self.client.clone();
        };
        let connected = transports.connect(server);
        connected.unwrap_or_else(|_| self.client.clone())
    }

    /// Makes all clients refuse writes, and pass them to `held`.
    pub(crate) fn hold_back(&mut self, held: &Arc<dyn Fn(HeldWrite) + Send + Sync>) {
        let hold = |client: &mut HttpService| *client = client.holding_back(Arc::clone(held));
        hold(&mut self.client);
        hold(&mut self.election);
        hold(&mut self.anonymous);
        let delegates = self
            .authentication
            .iter_mut()
            .chain(&mut self.authorization);
        delegates.for_each(|delegate| hold(&mut delegate.client));
    }

    /// A client from `kubeconfig`, else from the pod's service account; `None` if neither exists.
    fn delegate(
        &mut self,
        config: &Config,
        kubeconfig: Option<&Path>,
        what: &'static str,
    ) -> Result<Option<Delegate>, RunError> {
        if kubeconfig.is_some()
            && kubeconfig == config.kubeconfig.as_deref()
            && config.master.is_none()
        {
            // Server and credentials are the same, so both share one connection.
            return Ok(Some(Delegate {
                client: self.client.clone(),
                host: self.host.clone(),
            }));
        }
        let loaded = match steersman_client::load_config(kubeconfig, None) {
            Ok(loaded) => loaded,
            Err(steersman_client::ConfigError::Missing) if kubeconfig.is_none() => return Ok(None),
            Err(error) if kubeconfig.is_none() => {
                tracing::warn!(%error, "failed to read in-cluster kubeconfig for delegated {what}");
                return Ok(None);
            }
            Err(source) => return Err(RunError::DelegateKubeconfig { what, source }),
        };
        self.connections += 1;
        let client = match &self.transports {
            Some(transports) => transports.connect(&loaded)?,
            None => steersman_client::connect(&loaded)?,
        };
        Ok(Some(Delegate {
            client,
            host: steersman_client::host(&loaded),
        }))
    }

    /// Uses one client for all requests, such as an API server in memory. Without clients for
    /// reviews, only files authenticate.
    pub fn in_process(client: impl Into<HttpService>, host: impl Into<String>) -> Self {
        let client = client.into();
        let election = client.clone();
        let anonymous = client.clone();
        let authentication = None;
        let authorization = None;
        let transports = None;
        Self {
            election,
            anonymous,
            client,
            host: host.into(),
            authentication,
            authorization,
            connections: 1,
            credentials: ClusterCredentials::default(),
            transports,
            server: None,
        }
    }
}

/// Throttle of reviews, in requests per second and burst. It is high because responses of our HTTPS
/// port wait for reviews. Upstream's values.
const REVIEW_QPS: f32 = 200.0;
const REVIEW_BURST: u32 = 400;
/// Time limit of one attempt of a review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// A factory of API clients. Each client has its own throttle and user agent.
#[derive(Clone)]
pub(crate) struct Clients {
    connection: Connection,
    metrics: ClientMetrics,
    /// Activity of controllers, informers and Event recorders; the stall detector reads it.
    activity: Activity,
    /// Sees the writes of controllers and Event recorders.
    witness: Option<Witness>,
    qps: f32,
    burst: u32,
    service_account_credentials: bool,
}

impl Clients {
    pub(crate) fn new(
        connection: Connection,
        config: &Config,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let metrics = ClientMetrics::register(registry)?.for_host(&connection.host);
        metrics.connected(connection.connections);
        connection
            .transports
            .as_ref()
            .map_or(Ok(()), |transports| transports.register(registry))?;
        let qps = config.qps;
        let burst = config.burst;
        let service_account_credentials = config.service_account_credentials;
        let activity = Activity::default();
        Ok(Self {
            connection,
            metrics,
            activity,
            witness: None,
            qps,
            burst,
            service_account_credentials,
        })
    }

    /// A client for requests that are no part of the controllers' work, such as health checks.
    pub(crate) fn make(&self, identity: &str, timeout: Duration) -> ApiClient {
        self.over(&self.connection.client, identity, timeout, &self.metrics)
    }

    /// As [`Clients::make`], over `base`.
    pub(crate) fn make_over(
        &self,
        base: &HttpService,
        identity: &str,
        timeout: Duration,
    ) -> ApiClient {
        self.over(base, identity, timeout, &self.metrics)
    }

    /// A client for controllers and informers. [`Clients::activity`] observes its requests.
    pub(crate) fn make_for_work(&self, identity: &str, timeout: Duration) -> ApiClient {
        self.over(
            &self.connection.client,
            identity,
            timeout,
            &self.metrics_of_work(),
        )
    }

    /// Shows the writes of controllers to `witness` from now on.
    pub(crate) fn show_writes_to(&mut self, witness: &Witness) {
        self.witness = Some(witness.clone());
    }

    /// The metrics of clients for the controllers' work.
    fn metrics_of_work(&self) -> ClientMetrics {
        let metrics = self.metrics.observed_by(&self.activity);
        match &self.witness {
            Some(witness) => metrics.witnessed_by(witness),
            None => metrics,
        }
    }

    /// The number of requests of `identity` that wait for its throttle now, and the time until the
    /// last of them is sent.
    pub(crate) fn waiting(&self, identity: &str) -> Option<(usize, Duration)> {
        self.metrics.waiting(identity)
    }

    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// A client for a controller, which can write while `gate` is open. With
    /// `--use-service-account-credentials`, it uses the service account `identity`, else the
    /// manager's credentials. [`MANAGERS_IDENTITIES`] always have the latter.
    pub(crate) fn make_for_controller(
        &self,
        identity: &str,
        timeout: Duration,
        gate: &Arc<dyn WriteGate>,
    ) -> ApiClient {
        let client = if self.service_account_credentials && !MANAGERS_IDENTITIES.contains(&identity)
        {
            let accounts = self
                .make("controller-manager", timeout)
                .fenced(Arc::clone(gate));
            let base =
                service_accounts::client(self.connection.anonymous.clone(), accounts, identity);
            let agent = format!(
                "system:serviceaccount:{}:{identity}",
                service_accounts::NAMESPACE
            );
            self.over(&base, &agent, timeout, &self.metrics_of_work())
        } else {
            self.make_for_work(identity, timeout)
        };
        client.fenced(Arc::clone(gate))
    }

    /// A client for leader election, over its own connection.
    pub(crate) fn make_for_election(&self, timeout: Duration) -> ApiClient {
        self.over(
            &self.connection.election,
            "leader-election",
            timeout,
            &self.metrics,
        )
    }

    /// A client for reviews through `delegate`.
    pub(crate) fn make_for(&self, delegate: &Delegate, identity: &str) -> ApiClient {
        let qps = REVIEW_QPS;
        let burst = REVIEW_BURST;
        let timeout = REVIEW_TIMEOUT;
        let settings = ClientSettings {
            user_agent: user_agent(identity),
            qps,
            burst,
            timeout,
        };
        self.metrics.shared_connection();
        ApiClient::new(
            delegate.client.clone(),
            settings,
            self.metrics.for_host(&delegate.host),
        )
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    fn over(
        &self,
        base: &HttpService,
        identity: &str,
        timeout: Duration,
        metrics: &ClientMetrics,
    ) -> ApiClient {
        let settings = ClientSettings {
            user_agent: user_agent(identity),
            qps: self.qps,
            burst: self.burst,
            timeout,
        };
        self.metrics.shared_connection();
        ApiClient::new(base.clone(), settings, metrics.clone())
    }
}

/// Waits until `/healthz` of the API server at `server` passes, for at most ten seconds. Rejected
/// credentials (401, 403) are an error at once, because waiting would not help.
pub(crate) async fn wait_for_api_server(client: &ApiClient, server: &str) -> Result<(), RunError> {
    wait_for_health(client, server, Some(WAIT)).await
}

/// As [`wait_for_api_server`], but without a time limit. Waiting costs a candidate nothing, while
/// an exit would lead to restarts with growing back-off.
pub(crate) async fn wait_as_candidate(client: &ApiClient, server: &str) -> Result<(), RunError> {
    wait_for_health(client, server, None).await
}

/// Requests `/healthz` once per second until it passes, or until `limit`.
async fn wait_for_health(
    client: &ApiClient,
    server: &str,
    limit: Option<Duration>,
) -> Result<(), RunError> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    let mut wait_log = WaitLog::new(server);
    let mut last = None;
    loop {
        let answer = {
            let mut asked = std::pin::pin!(client.get_path("/healthz"));
            loop {
                tokio::select! {
                    answer = &mut asked => break Some(answer),
                    () = at(deadline) => break None,
                    () = sleep_until(wait_log.due) => wait_log.report("no answer yet"),
                }
            }
        };
        match answer {
            Some(Ok(_)) => return wait_log.healthy(),
            Some(Err(source)) if is_refusal(&source) => {
                return Err(RunError::Refused {
                    server: server.to_owned(),
                    source,
                });
            }
            Some(Err(error)) => {
                wait_log.failed(&error);
                last = Some(error);
            }
            None => {}
        }
        if deadline.is_some_and(|deadline| Instant::now() + STEP > deadline) {
            let silent = || ApiError::Timeout {
                request: "GET /healthz".to_owned(),
                timeout: WAIT,
            };
            return Err(RunError::Unhealthy {
                server: server.to_owned(),
                source: last.unwrap_or_else(silent),
            });
        }
        sleep(STEP).await;
    }
}

/// Completes at `deadline`; `None` means never.
async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Log messages about an API server that is not healthy: each new cause at once, then every ten
/// seconds.
struct WaitLog<'a> {
    server: &'a str,
    since: Instant,
    due: Instant,
    cause: String,
}

impl<'a> WaitLog<'a> {
    fn new(server: &'a str) -> Self {
        let now = Instant::now();
        Self {
            server,
            since: now,
            due: now + STEP,
            cause: String::new(),
        }
    }

    /// Logs the cause of a failed attempt, if it is new or the last message is old enough.
    fn failed(&mut self, error: &ApiError) {
        let cause = error.cause();
        if cause != self.cause || Instant::now() >= self.due {
            self.report(&cause);
        }
    }

    fn report(&mut self, cause: &str) {
        let waiting = self.since.elapsed().as_secs();
        tracing::warn!(
            server = self.server,
            cause,
            waiting = format!("{waiting}s"),
            "the API server is not healthy, waiting for it"
        );
        cause.clone_into(&mut self.cause);
        self.due = Instant::now() + REPORT_EVERY;
    }

    fn healthy(self) -> Result<(), RunError> {
        if !self.cause.is_empty() {
            tracing::info!(server = self.server, "the API server is healthy now");
        }
        Ok(())
    }
}

/// Fails if the API server refuses to return the Lease (401, 403), because no retry would help. The
/// elector handles other errors.
pub(crate) async fn check_lock(
    client: &ApiClient,
    settings: &ElectionSettings,
) -> Result<(), RunError> {
    let target = Target {
        resource: &LEASES,
        namespace: Some(&settings.namespace),
        name: Some(&settings.name),
        subresource: None,
    };
    match client.get(target).await {
        Err(source) if is_refusal(&source) => Err(RunError::Lock {
            lock: format!("{}/{}", settings.namespace, settings.name),
            source,
        }),
        _ => Ok(()),
    }
}

/// Whether the API server rejects the credentials or denies the request.
fn is_refusal(error: &ApiError) -> bool {
    matches!(
        error,
        ApiError::Status {
            code: 401 | 403,
            ..
        }
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response, StatusCode};
    use kube::client::Body;

    use super::*;
    use crate::command_line::Options;
    use crate::registry::ControllerRegistry;

    /// A client that receives these status codes in order, and then always the last one.
    fn answering(codes: &'static [u16]) -> ApiClient {
        let asked = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |_: Request<Body>| {
            let at = asked.fetch_add(1, Ordering::Relaxed).min(codes.len() - 1);
            let status = StatusCode::from_u16(codes[at]).unwrap();
            async move {
                Ok::<_, std::convert::Infallible>(
                    Response::builder()
                        .status(status)
                        .body(Body::empty())
                        .unwrap(),
                )
            }
        });
        let connection = Connection::in_process(kube::Client::new(service, "default"), "test");
        let config = Config::new(Options::default(), &ControllerRegistry::empty()).unwrap();
        Clients::new(connection, &config, &Registry::new())
            .unwrap()
            .make("test", Duration::from_secs(5))
    }

    #[tokio::test(start_paused = true)]
    async fn the_manager_waits_until_the_api_server_is_healthy() {
        wait_for_api_server(&answering(&[500, 500, 200]), "test")
            .await
            .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_an_unhealthy_api_server_ends_after_ten_seconds() {
        let start = Instant::now();
        let error = wait_for_api_server(&answering(&[500]), "10.0.0.1:6443")
            .await
            .unwrap_err()
            .to_string();
        let took = start.elapsed();
        assert!(took > Duration::from_secs(8) && took <= WAIT, "{took:?}");
        let expected = "failed to wait for apiserver being healthy: timed out waiting for the condition: API server 10.0.0.1:6443: ";
        assert!(error.starts_with(expected), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_credentials_are_reported_at_once() {
        let start = Instant::now();
        for codes in [&[401], &[403]] {
            assert!(matches!(
                wait_for_api_server(&answering(codes), "test").await,
                Err(RunError::Refused { .. })
            ));
        }
        let settings = Config::new(Options::default(), &ControllerRegistry::empty())
            .unwrap()
            .election
            .unwrap();
        let error = check_lock(&answering(&[403]), &settings)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(
                "error retrieving resource lock kube-system/kube-controller-manager: "
            ),
            "{error}"
        );
        check_lock(&answering(&[404]), &settings).await.unwrap();
        assert!(start.elapsed() < STEP);
    }
}
