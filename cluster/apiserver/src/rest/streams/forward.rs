//! The work of port-forward: HTTP servers with the pages of a pod.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, WriteHalf};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::{Channels, Input, Opened, Output};
use crate::containers::Page;

/// Bytes on their way to or from a server.
const BUFFER: usize = 64 << 10;

/// The ports of a pod.
#[derive(Debug, Default)]
pub(crate) struct Forward {
    /// The ports that the client names in advance.
    pub(crate) ports: Vec<u16>,
    pub(crate) pages: Arc<[Page]>,
    /// The UID of the pod, for errors.
    pub(crate) pod: String,
}

impl Forward {
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Serves each connection until the client is gone.
    pub(super) async fn run(self, mut channels: Channels) {
        let mut servers = JoinSet::new();
        let mut clients: HashMap<u32, WriteHalf<DuplexStream>> = HashMap::new();
        // Channels of errors by their connection.
        let mut errors: HashMap<String, u32> = HashMap::new();
        while let Some(input) = channels.input.recv().await {
            match input {
                Input::Open(channel, opened) if opened.is_error => {
                    errors.insert(opened.request, channel);
                }
                Input::Open(channel, opened) if self.pages.is_empty() => {
                    let error = errors.remove(&opened.request);
                    let ends = error.into_iter().chain([channel]);
                    if let Some(error) = error {
                        channels.send(error, self.refusal(&opened)).await;
                    }
                    for end in ends {
                        drop(channels.output.send(Output::End(end)).await);
                    }
                }
                Input::Open(channel, opened) => {
                    let (near, far) = tokio::io::duplex(BUFFER);
                    let (from_server, to_server) = tokio::io::split(near);
                    clients.insert(channel, to_server);
                    let ends = errors.remove(&opened.request).into_iter().chain([channel]);
                    let ends: Vec<u32> = ends.collect();
                    let output = channels.output.clone();
                    let pages = Arc::clone(&self.pages);
                    servers.spawn(async move {
                        tokio::join!(
                            serve(far, pages, opened.port),
                            copy(from_server, channel, &output)
                        );
                        for end in ends {
                            drop(output.send(Output::End(end)).await);
                        }
                    });
                }
                Input::Data(channel, data) => {
                    if let Some(client) = clients.get_mut(&channel) {
                        // A server that has closed its side needs no more requests.
                        drop(client.write_all(&data).await);
                    }
                }
                Input::End(channel) => {
                    if let Some(mut client) = clients.remove(&channel) {
                        drop(client.shutdown().await);
                    }
                }
            }
        }
    }

    /// The error of a port without pages, as from a container where no process listens.
    fn refusal(&self, opened: &Opened) -> String {
        let port = opened.port;
        let pod = &self.pod;
        format!(
            "error forwarding port {port} to pod {pod}, uid : failed to connect to localhost:{port}: dial tcp4 \
             127.0.0.1:{port}: connect: connection refused"
        )
    }
}

/// Answers HTTP requests with pages until the client closes its side.
async fn serve(io: DuplexStream, pages: Arc<[Page]>, port: u16) {
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let page = Page::find(&pages, port, request.uri().path()).cloned();
        async move { Ok::<_, Infallible>(response(page)) }
    });
    let served = http1::Builder::new()
        .half_close(true)
        .serve_connection(TokioIo::new(io), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a forwarded connection failed");
    }
}

fn response(page: Option<Page>) -> Response<Full<Bytes>> {
    let Some(page) = page else {
        let mut missing = Response::new(Full::from("404 page not found\n"));
        *missing.status_mut() = StatusCode::NOT_FOUND;
        return missing;
    };
    let mut response = Response::new(Full::from(page.body));
    *response.status_mut() = StatusCode::from_u16(page.status).unwrap_or(StatusCode::OK);
    if let Ok(kind) = page.content_type.parse() {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}

/// Sends the output of a server to its channel.
async fn copy(
    mut server: tokio::io::ReadHalf<DuplexStream>,
    channel: u32,
    output: &Sender<Output>,
) {
    let mut piece = BytesMut::with_capacity(BUFFER);
    while server.read_buf(&mut piece).await.is_ok_and(|read| read > 0) {
        let data = piece.split().freeze();
        if output.send(Output::Data(channel, data)).await.is_err() {
            return;
        }
    }
}
