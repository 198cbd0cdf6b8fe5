//! `kube-apiserver` of the folder: the embedded API server with the flags of the real one.
//!
//! flags -> certificates, admission, address -> cluster -> HTTPS port -> a signal, or the end of the
//! parent -> exit 0

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use steersman_devcluster::auth::User;
use steersman_devcluster::https::Serving;
use steersman_devcluster::nodes::Latency;
use steersman_devcluster::rest::ServiceRangeError;
use steersman_devcluster::{Admission, DevCluster, Release, StartError};
use steersman_options::duration::GoDuration;
use steersman_releases::UnknownRelease;
use steersman_values::cidr::Cidr;
use steersman_values::clock::Clock;

use super::certificates::{self, FileError};
use super::flags::{self, FlagError, Given, Style};
use crate::command::print;
use crate::dev::embedded::{Embedded, EmbeddedArgs, EmbeddedError, Front, manager_config};
use crate::dev::parent;
use crate::signals::Signals;

/// Names of kube-apiserver's flags with the types of their values.
const FLAGS: &str = include_str!("apiserver_flags.txt");

/// Flags that act.
const ACTING: [&str; 18] = [
    "authorization-mode",
    "bind-address",
    "cert-dir",
    "client-ca-file",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "etcd-compaction-interval",
    "event-ttl",
    "help",
    "secure-port",
    "service-account-issuer",
    "service-account-key-file",
    SERVICE_RANGE,
    "tls-cert-file",
    "tls-private-key-file",
    "token-auth-file",
    "v",
    "version",
];

/// Flags that frameworks always give, and that change nothing here. The server keeps its objects
/// itself, and signs tokens with its own key.
const OF_FRAMEWORKS: [&str; 3] = [
    "allow-privileged",
    "etcd-servers",
    "service-account-signing-key-file",
];

const SERVICE_RANGE: &str = "service-cluster-ip-range";

/// Environment variables of the tests, because frameworks fix the command line.
const CONTROLLERS: &str = "STEERSMAN_CONTROLLERS";
const NODES: &str = "STEERSMAN_NODES";
const RELEASE: &str = "STEERSMAN_KUBERNETES_VERSION";
const OUTLIVE: &str = "STEERSMAN_OUTLIVE_PARENT";

/// `kube-apiserver` could not start, or ended early.
#[derive(Debug, thiserror::Error)]
enum ApiServerError {
    #[error(transparent)]
    Flag(#[from] FlagError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("--{flag}={text}: {reason}")]
    Value {
        flag: &'static str,
        text: String,
        reason: String,
    },
    #[error("{NODES} and {CONTROLLERS}: {0}")]
    Environment(String),
    #[error("{RELEASE}: {0}")]
    Release(#[from] UnknownRelease),
    #[error(transparent)]
    Cluster(#[from] StartError),
    #[error("failed to create listener: failed to listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error(transparent)]
    Embedded(Box<EmbeddedError>),
    #[error("listen to signals: {0}")]
    Signals(#[source] std::io::Error),
}

impl From<EmbeddedError> for ApiServerError {
    fn from(error: EmbeddedError) -> Self {
        Self::Embedded(Box::new(error))
    }
}

/// Whether the program goes on when the process that started it has ended.
pub(super) fn outlives_parent() -> bool {
    std::env::var_os(OUTLIVE).is_some_and(|value| !value.is_empty())
}

/// The release of Kubernetes to serve.
fn release() -> Result<Release, UnknownRelease> {
    let named = std::env::var(RELEASE).unwrap_or_default();
    if named.is_empty() {
        Ok(Release::DEFAULT)
    } else {
        named.parse()
    }
}

/// Runs the program until SIGTERM, SIGINT, or the end of its parent.
pub(super) fn run(arguments: Vec<String>) -> ExitCode {
    let given = match flags::parse("kube-apiserver", FLAGS, Style::Posix, arguments) {
        Ok(given) => given,
        Err(error) => return crate::dev::fail(error),
    };
    if given.last("help").is_some() {
        let about = "The API server of Steersman, with the flags of kube-apiserver. Most change nothing here;\nthe server says which.";
        return print(&flags::help(about, "kube-apiserver", FLAGS));
    }
    if given.last("version").is_some() {
        return match release() {
            Ok(release) => print(&format!("Kubernetes {}\n", release.git_version())),
            Err(error) => crate::dev::fail(error),
        };
    }
    let idle: Vec<String> = given
        .names()
        .filter(|flag| !ACTING.contains(flag) && !OF_FRAMEWORKS.contains(flag))
        .map(|flag| format!("--{flag}"))
        .collect();
    if !idle.is_empty() {
        complain!(
            "Warning: these flags change nothing here: {}",
            idle.join(", ")
        );
    }
    crate::dev::finish(0, serve(given))
}

async fn serve(given: Given) -> Result<(), ApiServerError> {
    let parent_gone = parent::gone();
    let mut signals = Signals::listen_on_terminal().map_err(ApiServerError::Signals)?;
    let settings = Settings::of(&given)?;
    let controllers = std::env::var(CONTROLLERS).unwrap_or_default();
    let nodes = std::env::var(NODES).unwrap_or_default();
    let asked_to_end = async {
        tokio::select! {
            () = signals.next() => {}
            () = parent_gone, if !outlives_parent() => {}
        }
    };
    if controllers.is_empty() && nodes.is_empty() {
        let cluster = DevCluster::builder()
            .release(release()?)
            .clock(Clock::system())
            .admission(settings.admission)
            .kept_requests(0)
            .event_ttl(settings.event_ttl.to_std())
            .metrics(false)
            .compaction_interval(settings.compaction_interval.to_std())
            .start()
            .await?;
        let serving = settings.front(&given, &cluster)?;
        let door = cluster.serve_https_as(serving).await;
        let address = settings.address;
        let _door = door.map_err(|source| ApiServerError::Listen { address, source })?;
        asked_to_end.await;
        cluster.stop().await;
        return Ok(());
    }
    let mut embedded = start(&settings, &given, &controllers, &nodes).await?;
    let ended = tokio::select! {
        error = embedded.manager_ended() => Err(EmbeddedError::from(error).into()),
        () = asked_to_end => Ok(()),
    };
    embedded.end().await;
    ended
}

/// Starts the server with controllers and simulated nodes.
async fn start(
    settings: &Settings,
    given: &Given,
    controllers: &str,
    nodes: &str,
) -> Result<Embedded, ApiServerError> {
    let folder = given
        .last("cert-dir")
        .map_or_else(std::env::temp_dir, |folder| Path::new(folder).to_owned());
    let kubeconfig = folder.join(format!("steersman-{}.kubeconfig", settings.address.port()));
    let nodes = if nodes.is_empty() { "3" } else { nodes };
    let arguments = [
        "kube-apiserver".to_owned(),
        format!("--nodes={nodes}"),
        format!("--kubernetes-version={}", release()?),
        format!("--event-ttl={}", settings.event_ttl),
        format!("--write-kubeconfig={}", kubeconfig.display()),
    ];
    let args = Arguments::try_parse_from(arguments);
    let args = args.map_err(|error| ApiServerError::Environment(error.to_string()))?;
    let flags = [format!("--controllers={controllers}")];
    let (config, _) =
        manager_config(&args.embedded, &flags).map_err(ApiServerError::Environment)?;
    let front = Front {
        clock: Clock::system(),
        kept_requests: 0,
        compaction_interval: settings.compaction_interval.to_std(),
        service_accounts: settings.admission.service_accounts,
        serving: Box::new(|cluster| {
            settings
                .front(given, cluster)
                .map_err(|error| error.to_string())
        }),
    };
    Ok(Embedded::start_behind(front, &args.embedded, Latency::default(), config).await?)
}

/// The arguments of an embedded cluster.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    embedded: EmbeddedArgs,
}

/// The flags that act.
#[derive(Debug)]
struct Settings {
    address: SocketAddr,
    admission: Admission,
    event_ttl: GoDuration,
    compaction_interval: GoDuration,
}

impl Settings {
    fn of(given: &Given) -> Result<Self, ApiServerError> {
        // kube-apiserver listens on all addresses; a server for tests should not.
        let host = value(given, "bind-address", IpAddr::from(Ipv4Addr::LOCALHOST))?;
        let port = value(given, "secure-port", 6443)?;
        Ok(Self {
            address: SocketAddr::new(host, port),
            admission: admission(given),
            event_ttl: value(given, "event-ttl", GoDuration::from_secs(3600))?,
            compaction_interval: value(
                given,
                "etcd-compaction-interval",
                GoDuration::from_secs(5 * 60),
            )?,
        })
    }

    /// Makes the credentials of the flags known to `cluster`, and returns its side of the port.
    fn front(&self, given: &Given, cluster: &DevCluster) -> Result<Serving, ApiServerError> {
        certificates::share_account_keys(given, cluster)?;
        if let Some(issuer) = given.all("service-account-issuer").first() {
            cluster.set_token_issuer(issuer);
        }
        let modes = given.all("authorization-mode").iter();
        let is_allowing = |mode: &str| mode.trim() == "AlwaysAllow";
        if modes.flat_map(|list| list.split(',')).any(is_allowing) {
            cluster.set_always_allow();
        }
        if let Some(range) = service_range(given)? {
            let refused = |error: ServiceRangeError| wrong(SERVICE_RANGE, given, &error);
            cluster.set_service_range(range).map_err(refused)?;
        }
        if let Some(tokens) = certificates::text(given, "token-auth-file")? {
            for (token, user) in users(&tokens) {
                cluster.add_token(token, user);
            }
        }
        let host = self.address.ip().to_string();
        Ok(Serving {
            certificate: Some(certificates::serving(given, cluster, &host)?),
            client_authorities: certificates::text(given, "client-ca-file")?.unwrap_or_default(),
            ..Serving::from(self.address)
        })
    }
}

/// The value of a flag, or its default.
fn value<T>(given: &Given, flag: &'static str, default: T) -> Result<T, ApiServerError>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let Some(text) = given.last(flag) else {
        return Ok(default);
    };
    text.parse()
        .map_err(|error: T::Err| wrong(flag, given, &error))
}

fn wrong(flag: &'static str, given: &Given, why: &dyn std::fmt::Display) -> ApiServerError {
    ApiServerError::Value {
        flag,
        text: given.last(flag).unwrap_or_default().to_owned(),
        reason: why.to_string(),
    }
}

/// The first range of the list. Services have addresses of one family.
fn service_range(given: &Given) -> Result<Option<Cidr>, ApiServerError> {
    let list = given.last(SERVICE_RANGE).unwrap_or_default();
    let first = list.split(',').next().filter(|range| !range.is_empty());
    let parsed = first.map(Cidr::parse).transpose();
    parsed.map_err(|error| wrong(SERVICE_RANGE, given, &error))
}

/// The plugins that can be switched, as in kube-apiserver without controllers: finalizers and usage
/// wait for the controllers, and ServiceAccounts are not made.
fn admission(given: &Given) -> Admission {
    let all = Admission {
        default_accounts: false,
        root_ca: false,
        quota_controller: true,
        protected_claims: true,
        protected_volumes: true,
        protected_classes: true,
        ..Admission::FULL
    };
    let listed = |flag: &str, plugin: &str| {
        let lists = given.all(flag).iter();
        lists
            .flat_map(|list| list.split(','))
            .any(|name| name.trim() == plugin)
    };
    // A plugin in both lists is an error upstream; here it stays on.
    let is_on = |plugin: &str| {
        listed("enable-admission-plugins", plugin) || !listed("disable-admission-plugins", plugin)
    };
    let protects = is_on("StorageObjectInUseProtection");
    Admission {
        service_accounts: is_on("ServiceAccount"),
        priority: is_on("Priority"),
        tolerations: is_on("DefaultTolerationSeconds"),
        node_taints: is_on("TaintNodesByCondition"),
        protected_claims: protects,
        protected_volumes: protects,
        protected_classes: protects,
        ..all
    }
}

/// The users of a token file: lines of `token,user,uid` and, optionally, groups in quotation marks.
fn users(text: &str) -> Vec<(String, User)> {
    let line = |line: &str| {
        let mut columns = line.splitn(4, ',').map(str::trim);
        let token = columns.next().filter(|token| !token.is_empty())?;
        let name = columns.next()?;
        let uid = columns.next()?;
        let groups = columns.next().unwrap_or_default().trim_matches('"');
        let groups = groups
            .split(',')
            .map(str::trim)
            .filter(|group| !group.is_empty());
        Some((token.to_owned(), User::new(name, groups).with_uid(uid)))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(flags: &[(&'static str, &str)]) -> Given {
        let mut given = Given::default();
        for (flag, value) in flags {
            given.add(flag, (*value).to_owned());
        }
        given
    }

    #[test]
    fn every_flag_that_acts_or_is_always_given_exists() {
        let known: Vec<&str> = FLAGS
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        for flag in ACTING.into_iter().chain(OF_FRAMEWORKS) {
            assert!(known.contains(&flag), "{flag}");
        }
    }

    #[test]
    fn plugins_are_on_unless_a_flag_disables_them() {
        let all = admission(&given(&[]));
        assert!(all.service_accounts && all.protected_claims && all.node_taints);
        let some = admission(&given(&[(
            "disable-admission-plugins",
            "ServiceAccount,StorageObjectInUseProtection",
        )]));
        assert!(!some.service_accounts && !some.protected_volumes && some.priority);
        let both = admission(&given(&[
            ("disable-admission-plugins", "ServiceAccount"),
            ("enable-admission-plugins", "ServiceAccount"),
        ]));
        assert!(both.service_accounts);
    }

    #[test]
    fn values_of_flags_are_read_with_their_defaults() {
        let settings =
            Settings::of(&given(&[("secure-port", "1"), ("event-ttl", "2h0m0s")])).unwrap();
        assert_eq!(settings.address, "127.0.0.1:1".parse().unwrap());
        assert_eq!(settings.event_ttl.to_string(), "2h0m0s");
        let error = Settings::of(&given(&[("secure-port", "high")])).unwrap_err();
        assert!(
            error.to_string().starts_with("--secure-port=high: "),
            "{error}"
        );
    }

    #[test]
    fn lines_of_a_token_file_are_users() {
        let found = users("t1,jane,u1,\"a,b\"\n\nt2,joe,u2\n");
        let shown: Vec<_> = found
            .iter()
            .map(|(token, user)| (token.as_str(), user.name.as_str(), user.groups.len()))
            .collect();
        // Each user is in system:authenticated, too.
        assert_eq!(shown, [("t1", "jane", 3), ("t2", "joe", 1)]);
    }
}
