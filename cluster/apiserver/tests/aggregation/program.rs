//! A program that serves things, for APIServices.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::{BROKEN, DOCUMENT, ECHO, SILENT, THINGS, VERSION};

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

pub(super) const LIST_METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// A program that serves things.
pub(super) struct Program {
    /// Paths and headers of the requests so far.
    seen: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    /// A watch sends a frame for each permit.
    pub(super) frames: Arc<Semaphore>,
    /// How the client ended its last connection of another protocol.
    pub(super) ended: watch::Receiver<Option<std::io::Result<()>>>,
    pub(super) running: JoinHandle<()>,
}

impl Program {
    pub(super) fn start(listener: TcpListener, acceptor: TlsAcceptor) -> Self {
        Self::without("", listener, acceptor)
    }

    /// A program that lacks a path.
    pub(super) fn without(
        lacking: &'static str,
        listener: TcpListener,
        acceptor: TlsAcceptor,
    ) -> Self {
        let seen = Arc::<Mutex<Vec<_>>>::default();
        let frames = Arc::new(Semaphore::new(0));
        let (end, ended) = watch::channel(None);
        let end = Arc::new(end);
        let log = seen.clone();
        let permits = frames.clone();
        let running = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let log = log.clone();
                let permits = permits.clone();
                let end = end.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let path = request.uri().to_string();
                    log.lock().push((path, request.headers().clone()));
                    let permits = permits.clone();
                    let end = end.clone();
                    async move {
                        let is_lacking = request.uri().path() == lacking;
                        Ok::<_, std::io::Error>(if is_lacking {
                            missing()
                        } else if is_echo(&request) {
                            echo(request, end)
                        } else {
                            answer(request, permits).await
                        })
                    }
                });
                tokio::spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let connection = http.serve_connection(TokioIo::new(stream), service);
                    let _closed = connection.with_upgrades().await;
                });
            }
        });
        Self {
            seen,
            frames,
            ended,
            running,
        }
    }

    /// The headers of the last request for `path`.
    pub(super) fn headers(&self, path: &str) -> HeaderMap {
        let seen = self.seen.lock();
        let mut found = seen.iter().rev();
        found.find(|(known, _)| known == path).unwrap().1.clone()
    }
}

fn whole(code: u16, text: String) -> Response<Body> {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    let json = "application/json".parse().unwrap();
    response.headers_mut().insert("content-type", json);
    response
}

fn missing() -> Response<Body> {
    whole(404, json!({"kind": "Status", "code": 404}).to_string())
}

async fn answer(request: Request<Incoming>, permits: Arc<Semaphore>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default();
    if query.contains("watch=1") {
        let events = futures::stream::unfold((0, permits), |(number, permits)| async move {
            permits.acquire().await.unwrap().forget();
            let frame = Frame::data(Bytes::from(format!("{{\"number\": {number}}}\n")));
            Some((Ok(frame), (number + 1, permits)))
        });
        return Response::new(StreamBody::new(events.take(2)).boxed_unsync());
    }
    match &*path {
        VERSION => whole(200, resources().to_string()),
        "/openapi/v2" => whole(200, older_document().to_string()),
        "/openapi/v3" => whole(200, index().to_string()),
        DOCUMENT => whole(200, json!({"openapi": "3.0.0", "paths": {}}).to_string()),
        THINGS if request.method() == Method::POST => {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            whole(201, String::from_utf8(body.to_vec()).unwrap())
        }
        // The layout of the program stays.
        THINGS => whole(200, "{\"kind\":  \"ThingList\"}".to_owned()),
        "/apis/things.example.com/v1/elsewhere" => {
            let mut response = whole(302, String::new());
            let place = "/elsewhere".parse().unwrap();
            response.headers_mut().insert("location", place);
            response
        }
        // One piece, and with a permit a failure.
        BROKEN => {
            let piece = Ok(Frame::data(Bytes::from("{\"items\":")));
            let failure = async move {
                permits.acquire().await.unwrap().forget();
                Err(std::io::Error::other("the disk is gone"))
            };
            let pieces = futures::stream::iter([piece]).chain(futures::stream::once(failure));
            Response::new(StreamBody::new(pieces).boxed_unsync())
        }
        SILENT => std::future::pending().await,
        _ => missing(),
    }
}

fn is_echo(request: &Request<Incoming>) -> bool {
    request.uri().path() == ECHO
}

/// Changes the protocol to one that sends all bytes back, and ends after a full stop.
fn echo(
    mut request: Request<Incoming>,
    end: Arc<watch::Sender<Option<std::io::Result<()>>>>,
) -> Response<Body> {
    let changed = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(changed.await.unwrap());
        let mut byte = [0];
        loop {
            match stream.read(&mut byte).await {
                Ok(1) => stream.write_all(&byte).await.unwrap(),
                ended => break drop(end.send(Some(ended.map(drop)))),
            }
            if byte == *b"." {
                return;
            }
        }
    });
    let empty = Full::default().map_err(|never| match never {});
    let response = Response::builder()
        .status(101)
        .header("connection", "Upgrade")
        .header("upgrade", "echo");
    response.body(empty.boxed_unsync()).unwrap()
}

pub(super) fn resources() -> Value {
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "things.example.com/v1", "resources": [
        {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get", "list"]},
        {"name": "things/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
            "kind": "Scale", "verbs": ["get"]},
    ]})
}

/// The index of OpenAPI version 3.
fn index() -> Value {
    let document = json!({"serverRelativeURL": format!("{DOCUMENT}?hash=1")});
    json!({"paths": {"apis/things.example.com/v1": document}})
}

/// The document of OpenAPI version 2, where a type of Kubernetes has another content.
fn older_document() -> Value {
    let refer = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
    let get = |name: &str| json!({"get": {"responses": {"200": {"description": "OK", "schema": refer(name)}}}});
    json!({
        "swagger": "2.0", "info": {"title": "Things", "version": "v1"},
        "paths": {"/apis/things.example.com/v1/namespaces/{namespace}/things": get("com.example.ThingList"), "/version/": get("Own")},
        "definitions": {
            "com.example.ThingList": {"type": "object", "properties": {"metadata": refer(LIST_METADATA)}},
            LIST_METADATA: {"type": "object", "properties": {"color": {"type": "string"}}},
            "Own": {"type": "object"},
        },
    })
}
