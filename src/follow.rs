//! Follows the release of the API servers.
//!
//! `/version` over new connections -> [`Sightings`] -> the release to equal
//!
//! Without `--emulated-version`, the manager equals the kube-controller-manager of the release of
//! its API servers. If they change it, the manager ends its term in order, and starts again as the
//! other release ([`RunError::ReleaseChanged`]). `steersman-releases` has the rule.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use prometheus::Registry;
use serde::Deserialize;
use steersman_client::{ApiClient, ApiError};
use steersman_releases::Release;
use steersman_releases::follow::{INTERVAL, Sightings, WINDOW};
use steersman_runtime::tasks::CancellationToken;
use tokio::time::Instant;

use crate::api::{Clients, Connection};
use crate::config::{Config, ConfigError};
use crate::error::RunError;

/// Connections of the first look. Behind one address there may be several API servers.
const FIRST_LOOKS: usize = 3;
/// Time limit of one look.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The parts of the answer to `/version` that count.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerVersion {
    /// Such as `v1.36.2`, or `v1.36.2-eks-1234567`.
    pub(crate) git_version: String,
    /// Numbers as texts, such as `36` or `36+`.
    #[serde(default)]
    major: String,
    #[serde(default)]
    minor: String,
    #[serde(default)]
    emulation_major: String,
    #[serde(default)]
    emulation_minor: String,
}

impl ServerVersion {
    /// The release of the served API: that of the binary, or an older one that the server emulates.
    pub(crate) fn release(&self) -> Option<Release> {
        let binary = Release::in_version(&format!("{}.{}", self.major, self.minor))
            .or_else(|| Release::in_version(&self.git_version))?;
        let emulated = format!("{}.{}", self.emulation_major, self.emulation_minor);
        let emulated = Release::in_version(&emulated).unwrap_or(binary);
        Some(binary.min(emulated))
    }
}

/// Asks an API server for its version. A connection of its own may reach another server than the
/// earlier ones.
async fn look(connection: &Connection, clients: &Clients) -> Result<ServerVersion, ApiError> {
    let client: ApiClient = clients.make_over(&connection.fresh(), "release", TIMEOUT);
    let body = client.get_path("/version").await?;
    serde_json::from_slice(&body).map_err(|source| ApiError::Decode {
        request: "GET /version".to_owned(),
        source: source.into(),
    })
}

/// The configuration for the release of the API server, if it answers and the user set none.
pub(crate) async fn settle(
    config: Config,
    connection: &Connection,
    reports: &Reports,
) -> Result<Config, Settle> {
    if !config.follows_server() {
        return Ok(config);
    }
    // The manager, which starts afterwards, has metrics of its own.
    let clients = Clients::new(connection.clone(), &config, &Registry::new())?;
    let looks = (0..FIRST_LOOKS).map(|_| look(connection, &clients));
    let looks = tokio::time::timeout(TIMEOUT, join_all(looks)).await;
    let versions = looks.unwrap_or_default().into_iter().filter_map(Result::ok);
    let Some(release) = versions.filter_map(|version| version.release()).min() else {
        return Ok(config);
    };
    reports.report(release);
    config
        .following(release.nearest_known())
        .map_err(Settle::Config)
}

/// The reason why there is no configuration for the release of the API server.
#[derive(Debug)]
pub(crate) enum Settle {
    Config(Vec<ConfigError>),
    Run(RunError),
}

impl<E: Into<RunError>> From<E> for Settle {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

/// The last release of API servers that was logged. Clones share it, so that a manager does not repeat the line of the
/// start, or of the manager before it.
#[derive(Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<Option<Release>>>);

impl Reports {
    /// Logs the release of the API server, unless it was the last one.
    fn report(&self, server: Release) {
        if self.is_news(server) {
            log(server);
        }
    }

    fn is_news(&self, server: Release) -> bool {
        self.0.lock().replace(server) != Some(server)
    }
}

/// Logs the release of the API server, and warns if Steersman does not know it.
fn log(server: Release) {
    let known = server.nearest_known();
    if server == known {
        tracing::info!(release = %known, "Following the release of the API server");
    } else if server > known {
        tracing::warn!(
            %server,
            release = %known,
            "the API server is newer than Steersman knows; Steersman equals the newest release it knows"
        );
    } else {
        tracing::warn!(
            %server,
            release = %known,
            "the API server is older than Steersman knows; Steersman equals the oldest release it knows, which is not supported"
        );
    }
}

/// Watches the release of the API servers while a manager runs.
#[derive(Clone)]
pub(crate) struct Follower {
    clients: Clients,
    /// The release that the manager equals.
    current: Release,
    sightings: Arc<Mutex<Sightings>>,
    start: Instant,
    reports: Reports,
    /// Cancelled when the manager must end, because its release is wrong.
    changed: CancellationToken,
}

impl Follower {
    /// A follower of the API servers; `None` if the user set the release.
    pub(crate) fn new(
        config: &Config,
        clients: &Clients,
        reports: &Reports,
        changed: CancellationToken,
    ) -> Option<Self> {
        config.follows_server().then(|| Self {
            clients: clients.clone(),
            current: config.features.releases.emulated,
            sightings: Arc::default(),
            start: Instant::now(),
            reports: reports.clone(),
            changed,
        })
    }

    /// Looks at an API server once, for at most `limit`. Returns whether the release is still right.
    pub(crate) async fn is_current(&self, limit: Duration) -> bool {
        let looked = look(self.clients.connection(), &self.clients);
        let release = match tokio::time::timeout(limit, looked).await {
            Ok(Ok(version)) => version.release(),
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot read the version of the API server");
                None
            }
            Err(_) => None,
        };
        if let Some(release) = release {
            let now = self.start.elapsed();
            self.sightings.lock().record(release, now);
        }
        let next = self.next();
        let oldest = self.sightings.lock().oldest(self.start.elapsed());
        // A newer server may be one of several, until an older one was not seen for a while.
        let is_settled = self.start.elapsed() >= WINDOW;
        let oldest = oldest.filter(|oldest| is_settled && oldest.nearest_known() == self.current);
        if let Some(oldest) = oldest {
            self.reports.report(oldest);
        }
        if next != self.current && !self.changed.is_cancelled() {
            tracing::info!(
                from = %self.current,
                to = %next,
                "The API servers have another release; handing over"
            );
            self.changed.cancel();
        }
        next == self.current
    }

    /// The release to equal from now on.
    pub(crate) fn next(&self) -> Release {
        let now = self.start.elapsed();
        self.sightings.lock().release(self.current, now)
    }

    /// Looks regularly until `stop`, or until the release changes.
    pub(crate) async fn run(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            if !self.is_current(TIMEOUT).await {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use steersman_options::Options;

    use super::*;
    use crate::registry::ControllerRegistry;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_becomes_newer_than_known_is_told_once() {
        let minor = Arc::new(AtomicU64::new(37));
        let server = Arc::clone(&minor);
        let service = tower::service_fn(move |_: Request<Body>| {
            let minor = server.load(Ordering::Relaxed);
            let body = format!(r#"{{"gitVersion":"v1.{minor}.0","major":"1","minor":"{minor}"}}"#);
            async move { Ok::<_, kube::Error>(Response::new(Body::from(body.into_bytes()))) }
        });
        let connection =
            Connection::in_process(kube::Client::new(service, "default"), "devcluster");
        let config = Config::new(Options::default(), &ControllerRegistry::empty()).unwrap();
        let reports = Reports::default();
        let config = settle(config, &connection, &reports).await.unwrap();
        let told = || reports.0.lock().map(|release| release.minor());
        assert_eq!(told(), Some(37));

        let clients = Clients::new(connection, &config, &Registry::new()).unwrap();
        let changed = CancellationToken::new();
        let follower = Follower::new(&config, &clients, &reports, changed).unwrap();
        minor.store(38, Ordering::Relaxed);
        assert!(follower.is_current(TIMEOUT).await);
        assert_eq!(told(), Some(37), "an older server may come up again");
        // (seconds since the last look, the release that was told last)
        for (seconds, expected) in [(30, 37), (240, 37), (30, 38), (30, 38)] {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            assert!(follower.is_current(TIMEOUT).await);
            assert_eq!(told(), Some(expected));
        }
        assert!(
            !reports.is_news(Release::of_minor(38)),
            "it is not told again"
        );
        assert!(reports.is_news(Release::of_minor(37)));
    }

    #[test]
    fn the_release_is_that_of_the_served_api() {
        // (answer to /version, release)
        let cases = [
            (
                r#"{"gitVersion":"v1.34.8","major":"1","minor":"34"}"#,
                Some("1.34"),
            ),
            (
                r#"{"gitVersion":"v1.35.1-eks-1","major":"1","minor":"35+","emulationMajor":"1","emulationMinor":"35"}"#,
                Some("1.35"),
            ),
            (
                r#"{"gitVersion":"v1.36.2","major":"1","minor":"36","emulationMajor":"1","emulationMinor":"34"}"#,
                Some("1.34"),
            ),
            (r#"{"gitVersion":"v1.36.2"}"#, Some("1.36")),
            (r#"{"gitVersion":"unknown"}"#, None),
        ];
        for (body, expected) in cases {
            let version: ServerVersion = serde_json::from_str(body).unwrap();
            let found = version.release().map(|release| release.to_string());
            assert_eq!(found.as_deref(), expected, "{body}");
        }
    }
}
