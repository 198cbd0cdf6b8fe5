//! The page about the manager at work, `/ui/`, and its data below `/debug/ui/`.
//!
//! request -> guard of the server -> [`Ui::answer`] -> a file | a view as JSON | a stream of a view
//!
//! Views read objects with the manager's client, as far as the caller may get them. Nothing runs
//! without a reader: a sample of the metrics is taken by a request, and the record of writes has a
//! fixed size. docs/page.md describes paths, rights and cost.

mod asked;
mod assets;
pub(crate) mod browser;
pub(crate) mod command;
mod flow;
mod garbage;
mod leadership;
mod nodes;
mod rollouts;
#[cfg(feature = "dev")]
mod simulate;
mod steps;
mod stream;
mod timeline;
mod views;

use std::sync::{Arc, OnceLock};

use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use http::header;
use http::request::Parts;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::{Value, json};
use steersman_client::Witness;
use steersman_runtime::controller::DebugPages;
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::workqueue::QueueMetrics;

use crate::access::{Caller, NOSNIFF, text};
use crate::version;
use crate::why::Why;
use flow::Flow;
#[cfg(feature = "dev")]
pub(crate) use simulate::{Simulator, Wish};
use timeline::Timeline;
use views::View;

pub(crate) use stream::Streamed;

/// The page before, during and after the leadership. Clones share the state.
#[derive(Clone)]
pub(crate) struct Ui(Arc<Inner>);

struct Inner {
    why: Why,
    flow: Flow,
    timeline: Timeline,
    debug: DebugPages,
    informers: OnceLock<InformerFactory>,
    streams: stream::Limit,
    #[cfg(feature = "dev")]
    simulator: OnceLock<Arc<dyn Simulator>>,
}

impl Ui {
    /// A page with the metrics of `registry`.
    pub(crate) fn new(
        why: Why,
        registry: Registry,
        queues: QueueMetrics,
        debug: DebugPages,
    ) -> Self {
        queues.name_syncs();
        Self(Arc::new(Inner {
            why,
            flow: Flow::new(registry, queues),
            timeline: Timeline::default(),
            debug,
            informers: OnceLock::new(),
            streams: stream::Limit::default(),
            #[cfg(feature = "dev")]
            simulator: OnceLock::new(),
        }))
    }

    /// The witness that records writes for the timeline.
    pub(crate) fn witness(&self) -> Witness {
        let timeline = self.0.timeline.clone();
        let clock = self.0.why.clone();
        Witness::new(move |write| timeline.record(clock.now(), &write))
    }

    /// Shows the state of `informers` from now on.
    pub(crate) fn set_informers(&self, informers: &InformerFactory) {
        // A manager has one factory; a second call has nothing new.
        let _ = self.0.informers.set(informers.clone());
    }

    /// Offers simulated failures.
    #[cfg(feature = "dev")]
    pub(crate) fn set_simulator(&self, simulator: Arc<dyn Simulator>) {
        let _ = self.0.simulator.set(simulator);
    }

    /// Whether the page has buttons for simulated failures.
    fn simulates(&self) -> bool {
        #[cfg(feature = "dev")]
        return self.0.simulator.get().is_some();
        #[cfg(not(feature = "dev"))]
        false
    }

    /// The answer to a request for `/ui` or `/debug/ui` or a path below.
    pub(crate) async fn answer(&self, request: axum::extract::Request) -> Response {
        let path = request.uri().path().to_owned();
        // A page of another site must not reach a port without credentials by a name of its own.
        if self.simulates() && !is_loopback(&request) {
            return text(
                StatusCode::FORBIDDEN,
                "this page answers to 127.0.0.1 and localhost alone\n",
            );
        }
        if let Some(file) = path.strip_prefix("/ui") {
            return assets::answer(file);
        }
        let name = path.strip_prefix("/debug/ui").unwrap_or_default();
        let name = name.trim_matches('/').to_owned();
        let (head, body) = request.into_parts();
        let Some(caller) = head.extensions.get::<Caller>().cloned() else {
            return text(StatusCode::FORBIDDEN, "the caller is unknown\n");
        };
        #[cfg(feature = "dev")]
        if name == "simulate" {
            return simulate::answer(self.0.simulator.get(), &head, body).await;
        }
        // No view has a use for a body.
        drop(body);
        let Some(view) = View::named(&name, head.uri.query().unwrap_or_default()) else {
            return text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        if head.method != Method::GET && head.method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        let source = Source {
            ui: self.clone(),
            caller,
            view,
        };
        answer_with(source, &self.0.streams, &head).await
    }

    /// The state of this process, for the head of the page.
    fn about(&self) -> Value {
        let inside = self.0.why.inside().map(|inside| inside.manager());
        json!({
            "version": version::STEERSMAN,
            "kubernetes": version::GIT_VERSION,
            "leads": inside.is_some(),
            "identity": inside.map(|manager| manager.identity).unwrap_or_default(),
            "simulates": self.simulates(),
        })
    }
}

/// Makes the data of one view for one caller.
trait Produce: Send + Sync + 'static {
    /// The data, or the reason why there is none.
    fn produce(&self) -> BoxFuture<'_, Result<Value, (StatusCode, String)>>;

    /// The shortest time between two answers of a stream.
    fn period(&self) -> std::time::Duration;
}

/// A view of this manager.
struct Source {
    ui: Ui,
    caller: Caller,
    view: View,
}

impl Produce for Source {
    fn produce(&self) -> BoxFuture<'_, Result<Value, (StatusCode, String)>> {
        Box::pin(async move {
            let mut data = self.view.data(&self.ui, &self.caller).await?;
            data["about"] = self.ui.about();
            Ok(data)
        })
    }

    fn period(&self) -> std::time::Duration {
        self.view.period()
    }
}

/// One answer as JSON, or a stream of them if the request asks for events.
async fn answer_with(source: impl Produce, limit: &stream::Limit, head: &Parts) -> Response {
    let accept = head.headers.get(header::ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    if accept.is_some_and(|accept| accept.contains("text/event-stream")) {
        return stream::answer(source, limit, &head.headers);
    }
    match source.produce().await {
        Ok(data) => json_of(StatusCode::OK, &data),
        Err((status, reason)) => json_of(status, &json!({ "error": reason })),
    }
}

fn json_of(status: StatusCode, body: &Value) -> Response {
    let content = [(header::CONTENT_TYPE, "application/json"), NOSNIFF];
    (status, content, format!("{body}\n")).into_response()
}

/// Whether the request names a loopback address as its host.
fn is_loopback(request: &axum::extract::Request) -> bool {
    let header = request.headers().get(header::HOST);
    let host = request.uri().host().map(str::to_owned).or_else(|| {
        let host = header?.to_str().ok()?;
        let authority: http::uri::Authority = host.parse().ok()?;
        Some(authority.host().to_owned())
    });
    host.is_some_and(|host| matches!(&*host, "127.0.0.1" | "localhost" | "[::1]"))
}

/// A lock on shared state of a view.
type Shared<T> = Arc<Mutex<T>>;
