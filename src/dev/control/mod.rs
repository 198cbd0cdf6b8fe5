//! The control interface of `steersman apiserver --control`: faults, the request log, snapshots, forks and
//! namespaces, over HTTP, for tests in any language.
//!
//! It has a port of its own on 127.0.0.1 and a token, which the ready line names. docs/control.md describes
//! the requests.

mod clusters;
mod faults;
mod log;
mod time;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, serve};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::embedded::Recipe;
use clusters::Clusters;

/// The running interface. Dropping it closes the port and ends the forks.
pub(super) struct Control {
    url: String,
    token: String,
    server: JoinHandle<()>,
}

/// How clients reach the interface: a member of the ready line.
#[derive(Debug, Serialize)]
pub(super) struct Access<'a> {
    url: &'a str,
    token: &'a str,
}

impl Control {
    /// Opens the port for `cluster`. `recipe` tells how forks run.
    pub(super) async fn start(cluster: DevCluster, recipe: Recipe) -> std::io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let token = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 24]>());
        let router = router(Arc::new(Clusters::new(cluster, recipe)), &token);
        let server = tokio::spawn(async move {
            if let Err(error) = serve(listener, router).await {
                tracing::error!(%error, "the control interface ended");
            }
        });
        Ok(Self { url, token, server })
    }

    pub(super) fn access(&self) -> Access<'_> {
        Access {
            url: &self.url,
            token: &self.token,
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A refused request: the code of its answer, and the text for people.
#[derive(Debug)]
pub(super) struct Refusal(StatusCode, String);

impl Refusal {
    fn bad(why: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, why.into())
    }

    fn missing(what: &str, id: impl std::fmt::Display) -> Self {
        Self(StatusCode::NOT_FOUND, format!("there is no {what} {id}"))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Answer(json!({"error": self.1}))).into_response()
    }
}

/// A body of JSON.
struct Answer(Value);

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        (
            [(CONTENT_TYPE, "application/json")],
            format!("{}\n", self.0),
        )
            .into_response()
    }
}

type Result<T = Answer> = std::result::Result<T, Refusal>;
type Shared = State<Arc<Clusters>>;

/// The cluster that a request is about: the number of a fork, or 0 for the first cluster.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Of {
    cluster: u64,
}

/// Reads a body; an empty one is an empty object.
fn read<T: for<'a> Deserialize<'a>>(body: &Bytes) -> Result<T> {
    let text: &[u8] = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(text).map_err(|error| Refusal::bad(format!("the body: {error}")))
}

fn router(clusters: Arc<Clusters>, token: &str) -> Router {
    let expected = format!("Bearer {token}");
    let authenticate = move |request: Request, next: Next| {
        let given = request.headers().get(AUTHORIZATION);
        let is_known = given.is_some_and(|given| given.as_bytes() == expected.as_bytes());
        async move {
            if is_known {
                next.run(request).await
            } else {
                let why =
                    "the header Authorization must be \"Bearer\" and the token of the ready line";
                Refusal(StatusCode::UNAUTHORIZED, why.to_owned()).into_response()
            }
        }
    };
    Router::new()
        .route("/faults", post(add_fault))
        .route("/faults/{id}", get(show_fault).delete(remove_fault))
        .route("/watches/{plural}/{action}", post(change_watches))
        .route("/discovery/{group}/{action}", post(change_discovery))
        .route("/time", get(show_time).post(change_time))
        .route(
            "/requests",
            get(show_requests)
                .post(change_requests)
                .delete(clear_requests),
        )
        .route("/namespaces", post(add_namespace))
        .route("/snapshots", post(add_snapshot))
        .route("/snapshots/{id}", axum::routing::delete(remove_snapshot))
        .route("/snapshots/{id}/restore", post(restore_snapshot))
        .route("/clusters", post(add_cluster))
        .route("/clusters/{id}", axum::routing::delete(remove_cluster))
        .fallback(|| async {
            Refusal(
                StatusCode::NOT_FOUND,
                "there is no such path; see docs/control.md".to_owned(),
            )
        })
        .with_state(clusters)
        .layer(middleware::from_fn(authenticate))
}

async fn add_fault(State(clusters): Shared, Query(of): Query<Of>, body: Bytes) -> Result {
    let rule: faults::Rule = read(&body)?;
    clusters
        .add_fault(of.cluster, rule)
        .map(|id| Answer(json!({"id": id})))
}

async fn show_fault(State(clusters): Shared, Path(id): Path<u64>) -> Result {
    let (hits, last) = clusters.fault(id)?;
    Ok(Answer(json!({"hits": hits, "last": last})))
}

async fn remove_fault(State(clusters): Shared, Path(id): Path<u64>) -> Result {
    clusters.remove_fault(id)?;
    Ok(Answer(json!({})))
}

async fn change_watches(
    State(clusters): Shared,
    Query(of): Query<Of>,
    Path((plural, action)): Path<(String, String)>,
) -> Result {
    let cluster = clusters.get(of.cluster)?;
    let faults = cluster.faults();
    match action.as_str() {
        "stall" => faults.stall_watches(&plural),
        "resume" => faults.resume_watches(&plural),
        "break" => faults.break_watches(&plural),
        _ => {
            return Err(Refusal::bad(format!(
                "{action:?} is none of stall, resume, break"
            )));
        }
    }
    Ok(Answer(json!({})))
}

async fn change_discovery(
    State(clusters): Shared,
    Query(of): Query<Of>,
    Path((group, action)): Path<(String, String)>,
) -> Result {
    let cluster = clusters.get(of.cluster)?;
    match action.as_str() {
        "hide" => cluster.faults().hide_from_discovery(&group),
        "show" => cluster.faults().show_in_discovery(&group),
        _ => return Err(Refusal::bad(format!("{action:?} is neither hide nor show"))),
    }
    Ok(Answer(json!({})))
}

async fn show_time(State(clusters): Shared) -> Result {
    let first = clusters.get(0)?;
    Ok(Answer(clusters.pace.show(first.clock()).await))
}

async fn change_time(State(clusters): Shared, body: Bytes) -> Result {
    clusters.pace.change(read(&body)?).await?;
    show_time(State(clusters)).await
}

async fn show_requests(State(clusters): Shared, Query(of): Query<Of>) -> Result {
    let cluster = clusters.get(of.cluster)?;
    let requests: Vec<Value> = cluster.requests().iter().map(log::shown).collect();
    Ok(Answer(json!({"requests": requests})))
}

async fn change_requests(State(clusters): Shared, Query(of): Query<Of>, body: Bytes) -> Result {
    let change: log::Change = read(&body)?;
    change.apply(&clusters.get(of.cluster)?);
    Ok(Answer(json!({})))
}

async fn clear_requests(State(clusters): Shared, Query(of): Query<Of>) -> Result {
    clusters.get(of.cluster)?.clear_requests();
    Ok(Answer(json!({})))
}

/// The body of a request for a namespace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(default = "prefix")]
    prefix: String,
}

fn prefix() -> String {
    "test-".to_owned()
}

async fn add_namespace(State(clusters): Shared, Query(of): Query<Of>, body: Bytes) -> Result {
    let named: Named = read(&body)?;
    let cluster = clusters.get(of.cluster)?;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": named.prefix},
    });
    let created = cluster.create(namespace).await;
    let created = created.map_err(|status| Refusal::bad(status.message))?;
    Ok(Answer(json!({"namespace": created["metadata"]["name"]})))
}

async fn add_snapshot(State(clusters): Shared, Query(of): Query<Of>) -> Result {
    let (id, revision) = clusters.add_snapshot(of.cluster)?;
    Ok(Answer(json!({"snapshot": id, "revision": revision})))
}

async fn restore_snapshot(
    State(clusters): Shared,
    Query(of): Query<Of>,
    Path(id): Path<u64>,
) -> Result {
    clusters.restore(id, of.cluster)?;
    Ok(Answer(json!({})))
}

async fn remove_snapshot(State(clusters): Shared, Path(id): Path<u64>) -> Result {
    clusters.remove_snapshot(id)?;
    Ok(Answer(json!({})))
}

async fn add_cluster(State(clusters): Shared, body: Bytes) -> Result {
    let fork = clusters.fork(read(&body)?).await?;
    Ok(Answer(fork))
}

async fn remove_cluster(State(clusters): Shared, Path(id): Path<u64>) -> Result {
    clusters.remove(id).await?;
    Ok(Answer(json!({})))
}
