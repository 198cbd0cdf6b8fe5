//! One HTTP exchange over a connection of its own: a request, and its answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;

use super::transport::{Connection, Open};

/// The body of an answer. Its connection makes progress while the body is polled, and closes with it.
pub(crate) struct Received {
    /// `None` after the end of the connection.
    connection: Option<Connection>,
    body: Incoming,
}

/// Sends a request, and awaits the head of its answer.
pub(crate) async fn send(
    opened: Open,
    request: Request<Full<Bytes>>,
) -> Result<Response<Received>, String> {
    let (mut sender, mut connection) = opened;
    let mut answering = std::pin::pin!(sender.send_request(request));
    // A connection may end right after the answer, which `answering` then has.
    let (answer, connection) = tokio::select! {
        biased;
        answer = &mut answering => (answer, Some(connection)),
        _ = &mut connection => (answering.await, None),
    };
    let answer = answer.map_err(|why| why.to_string())?;
    Ok(answer.map(|body| Received { connection, body }))
}

/// Sends a request, and reads the whole answer, of at most `limit` bytes.
pub(crate) async fn send_and_read(
    opened: Open,
    request: Request<Full<Bytes>>,
    limit: usize,
) -> Result<Response<Bytes>, String> {
    let (parts, body) = send(opened, request).await?.into_parts();
    let body = Limited::new(body, limit).collect().await;
    let body = body.map_err(|why| why.to_string())?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

/// The connection of an answer with code 101, after its change of protocol.
pub(crate) async fn upgraded(mut answer: Response<Received>) -> Result<Upgraded, hyper::Error> {
    let changed = hyper::upgrade::on(&mut answer);
    if let Some(connection) = answer.into_body().connection {
        connection.await?;
    }
    changed.await
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // The body tells of a connection that failed.
        if let Some(open) = &mut self.connection
            && open.as_mut().poll(cx).is_ready()
        {
            self.connection = None;
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
