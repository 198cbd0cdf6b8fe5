//! `steersman ui`: the page for a cluster, on 127.0.0.1 and with the rights of the user.
//!
//! browser -> this process -> leader (queues, writes, graph) | API server (objects)
//!
//! Objects are read from the API server with the credentials of the user, so these views need no
//! leader. Data that only a leader has come from its own paths, with the same credentials.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use clap::Parser;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use jiff::Timestamp;
use prometheus::Registry;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, user_agent};
use steersman_controllers::why::ask;
use steersman_why::ClientReader;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tower::Service;

use super::asked::Refusal;
use super::views::{View, report};
use super::{
    Produce, answer_with, assets, browser, is_loopback, leadership, nodes, rollouts, steps, stream,
};
use crate::access::text;
use crate::leader::{self, Caller, Leader, ManagerFlags};
use crate::signals::Signals;
use crate::version;

/// Time limit of one attempt of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Throttle: a view of a large cluster reads a few lists and some hundred objects.
const QPS: f32 = 50.0;
const BURST: u32 = 200;
/// Time limit for the head of a request, and between requests.
const HEAD: Duration = Duration::from_secs(90);

/// Serves a page on 127.0.0.1 that shows the controller manager of a cluster at work.
#[derive(Debug, Parser)]
#[command(
    disable_version_flag = true,
    after_help = "The page has your rights on the cluster: everybody who can reach the port of this machine can read with it."
)]
struct Args {
    /// Port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
    /// Opens the page in a browser.
    #[arg(long)]
    open: bool,
    /// Lets pages of this origin read the same, such as Headlamp at https://headlamp.example.com; repeatable.
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    allow_origin: Vec<HeaderValue>,
    /// Kubeconfig file; by default as kubectl.
    #[arg(long)]
    kubeconfig: Option<String>,
    #[command(flatten)]
    manager: ManagerFlags,
}

/// The summary of the command, in the help of the program.
pub(crate) const ABOUT: &str = "Serves a page on 127.0.0.1 that shows the manager at work.";

/// Runs the command.
pub(crate) fn run(arguments: Vec<String>) -> ExitCode {
    let program = std::iter::once("steersman ui".to_owned());
    let args = match Args::try_parse_from(program.chain(arguments)) {
        Ok(args) => args,
        Err(error) => {
            // Fails only if the output is closed.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let served = match runtime {
        Ok(runtime) => runtime.block_on(serve(args)),
        Err(error) => Err(format!("cannot start threads: {error}")),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Scheme, host and port of a page. `null`, which a frame of any site may have, is none.
fn origin(text: &str) -> Result<HeaderValue, String> {
    let form = || "an origin is scheme and host, such as https://headlamp.example.com".to_owned();
    let parsed: http::Uri = text.parse().map_err(|_| form())?;
    let scheme = parsed.scheme_str().unwrap_or_default();
    let authority = parsed.authority().map(http::uri::Authority::as_str);
    let is_whole = authority.is_some_and(|authority| {
        matches!(scheme, "http" | "https")
            && !authority.contains('@')
            && format!("{scheme}://{authority}") == text
    });
    if !is_whole {
        return Err(form());
    }
    HeaderValue::from_str(&text.to_ascii_lowercase()).map_err(|_| form())
}

/// Serves until a signal.
async fn serve(args: Args) -> Result<(), String> {
    let mut signals = Signals::listen_on_terminal().map_err(|error| error.to_string())?;
    let path = args.kubeconfig.as_deref().map(Path::new);
    let config =
        steersman_client::load_config_as_kubectl(path).map_err(|error| error.to_string())?;
    let service = steersman_client::connect(&config).map_err(|error| error.to_string())?;
    let settings = ClientSettings {
        user_agent: user_agent("ui"),
        qps: QPS,
        burst: BURST,
        timeout: TIMEOUT,
    };
    let metrics = ClientMetrics::register(&Registry::new()).map_err(|error| error.to_string())?;
    let api = ApiClient::new(service, settings, metrics);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("listen on {address}: {error}; --port names another port"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let cluster = Arc::new(Cluster {
        api,
        config,
        args,
        leader: Mutex::default(),
        streams: stream::Limit::default(),
    });
    if let Err(why) = cluster.leader().await {
        complain!("The leader cannot be asked: {why}");
    }
    let page = format!("http://{address}/ui/");
    say!("look at it at {page}\n\nCtrl-C ends it.");
    if cluster.args.open {
        browser::open(&page);
    }
    let served = Arc::clone(&cluster);
    let router =
        Router::new().fallback(move |request: Request| answer(Arc::clone(&served), request));
    tokio::select! {
        () = accept(listener, router) => {}
        () = signals.next() => {}
    }
    // Ends the port-forward.
    drop(cluster.leader.lock().await.take());
    Ok(())
}

async fn accept(listener: TcpListener, router: Router) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Most likely the process is out of file descriptors.
                complain!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let router = router.clone();
        tokio::spawn(async move {
            let service =
                hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    router.clone().call(request)
                });
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder
                .http1()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD);
            let served = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
            // A browser ends connections at any time.
            drop(served);
        });
    }
}

/// The cluster that the page shows.
struct Cluster {
    api: ApiClient,
    config: kube::Config,
    args: Args,
    /// The leader, until a request to it fails.
    leader: Mutex<Option<Arc<Leader>>>,
    streams: stream::Limit,
}

/// The answer, with the header that lets a page of an allowed origin read it.
async fn answer(cluster: Arc<Cluster>, request: Request) -> Response {
    let allowed = cluster.args.allow_origin.clone();
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = same_for_all(cluster, request).await;
    if !allowed.is_empty() {
        let vary = HeaderValue::from_static("origin");
        response.headers_mut().insert(header::VARY, vary);
    }
    if let Some(origin) = origin.filter(|origin| allowed.contains(origin)) {
        response
            .headers_mut()
            .insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    response
}

async fn same_for_all(cluster: Arc<Cluster>, request: Request) -> Response {
    // A page of another site must not use the rights of this user by a name of its own.
    if !is_loopback(&request) {
        return text(
            StatusCode::FORBIDDEN,
            "this page answers to 127.0.0.1 and localhost alone\n",
        );
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
    }
    let (head, _) = request.into_parts();
    let path = head.uri.path().to_owned();
    if path == "/" {
        return assets::answer("");
    }
    if let Some(file) = path.strip_prefix("/ui") {
        return assets::answer(file);
    }
    let query = head.uri.query().unwrap_or_default().to_owned();
    let view = path
        .strip_prefix("/debug/ui")
        .and_then(|name| View::named(name.trim_matches('/'), &query));
    let Some(view) = view else {
        return text(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    let target = match &*query {
        "" => path,
        query => format!("{path}?{query}"),
    };
    let limit = cluster.streams.clone();
    let source = Remote {
        cluster,
        view,
        target,
    };
    answer_with(source, &limit, &head).await
}

/// A view of a cluster.
struct Remote {
    cluster: Arc<Cluster>,
    view: View,
    /// Path and query on the leader.
    target: String,
}

impl Produce for Remote {
    fn produce(&self) -> BoxFuture<'_, Result<Value, Refusal>> {
        Box::pin(async move {
            let mut data = match &self.view {
                // The leader adds its queues.
                View::Stuck { .. } | View::Leadership => match self.of_leader().await {
                    Ok(data) => data,
                    Err(why) => self.of_objects(Some(why)).await?,
                },
                View::Rollouts { .. } | View::Steps { .. } | View::Nodes => {
                    self.of_objects(None).await?
                }
                View::About | View::Flow | View::Garbage { .. } | View::Timeline => {
                    let hint =
                        "the leader has to run with --ui, and you need the right to its path";
                    let data = self.of_leader().await;
                    data.map_err(|why| (StatusCode::BAD_GATEWAY, format!("{why}; {hint}")))?
                }
            };
            if data["about"].is_null() {
                data["about"] = json!({
                    "version": version::STEERSMAN, "kubernetes": version::GIT_VERSION,
                    "leads": null, "identity": "", "simulates": false,
                });
            }
            // Only the development cluster simulates, and not through this process.
            data["about"]["simulates"] = false.into();
            Ok(data)
        })
    }

    fn period(&self) -> Duration {
        self.view.period()
    }
}

impl Remote {
    /// The data of the leader.
    async fn of_leader(&self) -> Result<Value, String> {
        let leader = self.cluster.leader().await?;
        let answer = leader.get(&self.target).await;
        let parsed = answer.and_then(|body| {
            let data: Result<Value, _> = serde_json::from_slice(&body);
            data.map_err(|error| format!("its answer cannot be read: {error}"))
        });
        match parsed {
            Ok(mut data) => {
                if let Some(seen) = leader.unverified() {
                    data["unverified"] = seen.to_string().into();
                }
                // A leader that lost the Lease may stand by at the same address.
                let stands_by = data["about"]["leads"] == false;
                if stands_by && self.cluster.args.manager.manager.is_none() {
                    self.cluster.forget(&leader).await;
                }
                Ok(data)
            }
            Err(why) => {
                // Another manager may lead by now.
                self.cluster.forget(&leader).await;
                Err(why)
            }
        }
    }

    /// The data of the API server. `why` tells why the leader was not asked.
    async fn of_objects(&self, why: Option<String>) -> Result<Value, Refusal> {
        let reader = ClientReader::new(self.cluster.api.clone());
        let now = Timestamp::now();
        let mut data = match &self.view {
            View::Stuck { question } => {
                let asked = ask(&reader, now, None, question).await;
                report(asked)?
            }
            View::Rollouts { namespace } => rollouts::view(&reader, namespace).await,
            View::Steps { of } => steps::view(&reader, of).await?,
            View::Nodes => nodes::view(&reader).await?,
            _ => {
                let lease = &self.cluster.args.manager.manager_lease;
                let lease = Some((&*lease.namespace, &*lease.name));
                leadership::view(&reader, lease, None, Value::Null).await
            }
        };
        data["time"] = json!(now);
        if let Some(why) = why {
            data["withoutLeader"] = why.into();
        }
        Ok(data)
    }
}

impl Cluster {
    /// The leader, found anew if there is none.
    async fn leader(&self) -> Result<Arc<Leader>, String> {
        let mut known = self.leader.lock().await;
        if let Some(leader) = &*known {
            return Ok(Arc::clone(leader));
        }
        let caller = Caller {
            api: &self.api,
            config: &self.config,
            kubeconfig: self.args.kubeconfig.as_deref(),
            command: "ui",
            timeout: TIMEOUT,
            kubectl: leader::kubectl(),
        };
        let leader = Arc::new(Leader::reach(&caller, &self.args.manager).await?);
        *known = Some(Arc::clone(&leader));
        Ok(leader)
    }

    /// Forgets `leader`, unless another one was found meanwhile.
    async fn forget(&self, leader: &Arc<Leader>) {
        let mut known = self.leader.lock().await;
        if known
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, leader))
        {
            *known = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Args as clap::CommandFactory>::command().debug_assert();
        let args = Args::try_parse_from(["ui", "--port", "8001", "--open"]).unwrap();
        assert_eq!((args.port, args.open), (8001, true));
    }

    #[test]
    fn an_origin_has_scheme_and_host_alone() {
        for good in ["https://headlamp.example.com", "http://localhost:4466"] {
            assert_eq!(origin(good).unwrap(), good);
        }
        assert_eq!(
            origin("https://Example.com").unwrap(),
            "https://example.com"
        );
        for bad in [
            "null",
            "*",
            "",
            "file://",
            "headlamp.example.com",
            "https://example.com/",
            "https://me@example.com",
            "ftp://example.com",
        ] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }
}
