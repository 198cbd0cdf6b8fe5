//! The way to the API server: a connection and one for the election, clients over it, and the
//! checks made before anything else.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use steersman_runtime::client::{
    self, Activity, ApiClient, ApiError, ClientMetrics, ClientSettings, HttpService, Target,
    Transports, WriteGate, user_agent,
};
use steersman_runtime::resource::LEASES;
use tokio::time::{Instant, sleep, sleep_until};

use crate::config::{Access, Config, ElectionSettings, Serving};
use crate::error::RunError;
use crate::service_accounts;

/// How long the API server may take to say that it is healthy, and how often it is asked.
const WAIT: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_secs(1);
/// How often the log says what is still waited for.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Where the API server is.
#[derive(Clone)]
pub struct Connection {
    /// Sends requests.
    pub client: HttpService,
    /// Sends those of the election, best over a connection of its own: a renewal must not wait
    /// behind the work.
    pub election: HttpService,
    /// Shows no credentials of its own; for controllers that have some.
    pub anonymous: HttpService,
    /// What metrics call the API server, such as `10.0.0.1:6443`.
    pub host: String,
    /// Who is asked about users; without one, nobody is but those whose certificates files vouch
    /// for.
    pub authentication: Option<Delegate>,
    /// Who is asked about permissions; without one, there are none but those of flags.
    pub authorization: Option<Delegate>,
    /// How many connections all these are.
    pub connections: usize,
    /// What they were made with; `None` for those that are none.
    pub transports: Option<Transports>,
}

/// An API server that is asked about clients of ours, with credentials for that.
#[derive(Clone)]
pub struct Delegate {
    /// Sends the questions.
    pub client: HttpService,
    /// What metrics call it.
    pub host: String,
}

impl Connection {
    /// From `--kubeconfig` and `--master`, or the pod's service account, and for questions about
    /// clients from the flags of those. No request is made; must be called inside a runtime.
    pub fn from_config(config: &Config) -> Result<Self, RunError> {
        let loaded = client::load_config(config.kubeconfig.as_deref(), config.master.as_deref())?;
        let transports = Transports::new()?;
        let mut connection = Self::in_process(transports.connect(&loaded)?, client::host(&loaded));
        connection.election = transports.connect(&loaded)?;
        connection.connections += 1;
        if config.service_account_credentials {
            connection.anonymous = transports.connect(&client::anonymous(&loaded))?;
            connection.connections += 1;
        }
        connection.transports = Some(transports);
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

    /// The API server that `kubeconfig` names, else that of the pod; `None` where there is neither.
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
            // The same server and credentials need no connection of their own.
            return Ok(Some(Delegate {
                client: self.client.clone(),
                host: self.host.clone(),
            }));
        }
        let loaded = match client::load_config(kubeconfig, None) {
            Ok(loaded) => loaded,
            Err(client::ConfigError::Missing) if kubeconfig.is_none() => return Ok(None),
            Err(error) if kubeconfig.is_none() => {
                tracing::warn!(%error, "failed to read in-cluster kubeconfig for delegated {what}");
                return Ok(None);
            }
            Err(source) => return Err(RunError::DelegateKubeconfig { what, source }),
        };
        self.connections += 1;
        let client = match &self.transports {
            Some(transports) => transports.connect(&loaded)?,
            None => client::connect(&loaded)?,
        };
        Ok(Some(Delegate {
            client,
            host: client::host(&loaded),
        }))
    }

    /// Through one client for everything, which has no connection that could be busy. Nobody is
    /// asked about clients.
    pub fn in_process(client: impl Into<HttpService>, host: impl Into<String>) -> Self {
        let client = client.into();
        let (election, anonymous) = (client.clone(), client.clone());
        let (authentication, authorization, transports) = (None, None, None);
        Self {
            election,
            anonymous,
            client,
            host: host.into(),
            authentication,
            authorization,
            connections: 1,
            transports,
        }
    }
}

/// Requests per second, and at once, about clients: high, as they hold up answers of ours.
const REVIEW_QPS: f32 = 200.0;
const REVIEW_BURST: u32 = 400;
/// Time for one attempt of such a request.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes clients, each with a throttle and a user agent of its own.
#[derive(Clone)]
pub(crate) struct Clients {
    connection: Connection,
    metrics: ClientMetrics,
    /// Requests of the work itself: those of controllers, of their informers and of their Events.
    activity: Activity,
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
        let (qps, burst, service_account_credentials) =
            (config.qps, config.burst, config.service_account_credentials);
        let activity = Activity::default();
        Ok(Self {
            connection,
            metrics,
            activity,
            qps,
            burst,
            service_account_credentials,
        })
    }

    /// For what is asked beside the work, such as whether the API server is well.
    pub(crate) fn make(&self, identity: &str, timeout: Duration) -> ApiClient {
        self.over(&self.connection.client, identity, timeout, &self.metrics)
    }

    /// For the work; [`Clients::activity`] shows the requests of this client.
    pub(crate) fn make_for_work(&self, identity: &str, timeout: Duration) -> ApiClient {
        self.over(
            &self.connection.client,
            identity,
            timeout,
            &self.metrics.observed_by(&self.activity),
        )
    }

    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// For a controller, which writes while `gate` is open: in the manager's name or, where that is
    /// wished, in its own.
    pub(crate) fn make_for_controller(
        &self,
        identity: &str,
        timeout: Duration,
        gate: &Arc<dyn WriteGate>,
    ) -> ApiClient {
        let client = if self.service_account_credentials {
            let accounts = self
                .make("controller-manager", timeout)
                .fenced(Arc::clone(gate));
            let base =
                service_accounts::client(self.connection.anonymous.clone(), accounts, identity);
            let agent = format!(
                "system:serviceaccount:{}:{identity}",
                service_accounts::NAMESPACE
            );
            self.over(
                &base,
                &agent,
                timeout,
                &self.metrics.observed_by(&self.activity),
            )
        } else {
            self.make_for_work(identity, timeout)
        };
        client.fenced(Arc::clone(gate))
    }

    pub(crate) fn make_for_election(&self, timeout: Duration) -> ApiClient {
        self.over(
            &self.connection.election,
            "leader-election",
            timeout,
            &self.metrics,
        )
    }

    /// For questions to `delegate`.
    pub(crate) fn make_for(&self, delegate: &Delegate, identity: &str) -> ApiClient {
        let (qps, burst, timeout) = (REVIEW_QPS, REVIEW_BURST, REVIEW_TIMEOUT);
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

/// Waits until the API server at `server` says that it is healthy. That it does not know us, or
/// lets us do nothing, is not waited out.
pub(crate) async fn wait_for_api_server(client: &ApiClient, server: &str) -> Result<(), RunError> {
    wait_for_health(client, server, Some(WAIT)).await
}

/// The same for a candidate, which has nothing to lose by waiting for as long as it takes: ending
/// and being started again with ever longer pauses would only delay it.
pub(crate) async fn wait_as_candidate(client: &ApiClient, server: &str) -> Result<(), RunError> {
    wait_for_health(client, server, None).await
}

async fn wait_for_health(
    client: &ApiClient,
    server: &str,
    limit: Option<Duration>,
) -> Result<(), RunError> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    let (mut reports, mut last) = (Reports::new(server), None);
    loop {
        let answer = {
            let mut asked = std::pin::pin!(client.get_path("/healthz"));
            loop {
                tokio::select! {
                    answer = &mut asked => break Some(answer),
                    () = at(deadline) => break None,
                    () = sleep_until(reports.due) => reports.report("no answer yet"),
                }
            }
        };
        match answer {
            Some(Ok(_)) => return reports.healthy(),
            Some(Err(source)) if is_refusal(&source) => {
                return Err(RunError::Refused {
                    server: server.to_owned(),
                    source,
                });
            }
            Some(Err(error)) => {
                reports.failed(&error);
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

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// What the log says of an API server that is waited for: each new cause at once, and the same one
/// every ten seconds.
struct Reports<'a> {
    server: &'a str,
    since: Instant,
    due: Instant,
    cause: String,
}

impl<'a> Reports<'a> {
    fn new(server: &'a str) -> Self {
        let now = Instant::now();
        Self {
            server,
            since: now,
            due: now + STEP,
            cause: String::new(),
        }
    }

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

/// Fails when the Lease may not be read: waiting for it would be in vain. Other errors are the
/// elector's to deal with.
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
    use crate::options::Options;
    use crate::registry::ControllerRegistry;

    /// A client whose requests are answered with these codes in turn, and with the last one from
    /// then on.
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
    async fn a_server_that_becomes_healthy_is_waited_for() {
        wait_for_api_server(&answering(&[500, 500, 200]), "test")
            .await
            .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stays_unwell_is_given_up_after_ten_seconds() {
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
    async fn credentials_that_are_refused_are_reported_at_once() {
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
