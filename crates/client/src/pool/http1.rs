//! An HTTP/1.1 connection: one request at a time, on top of hyper.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri, request};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};
use tower::BoxError;

use super::{Failure, IDLE, Io, Keeper, Kept, Stream};

type SendRequest = http1::SendRequest<Full<Bytes>>;

/// hyper's sender. `None` while a request uses it.
pub(super) struct Sender(Arc<Mutex<Option<SendRequest>>>);

struct Connection {
    sender: Arc<Mutex<Option<SendRequest>>>,
    connection: http1::Connection<TokioIo<Box<dyn Io>>, Full<Bytes>>,
}

pub(super) async fn open(io: Box<dyn Io>) -> Result<Box<dyn Kept>, BoxError> {
    let (sender, connection) = http1::handshake(TokioIo::new(io)).await?;
    Ok(Box::new(Connection {
        sender: Arc::new(Mutex::new(Some(sender))),
        connection,
    }))
}

impl Kept for Connection {
    fn sender(&self) -> super::Sender {
        super::Sender::Http1(Sender(Arc::clone(&self.sender)))
    }

    fn limit(&self) -> usize {
        1
    }

    fn drive(self: Box<Self>, keeper: Keeper) -> BoxFuture<'static, ()> {
        let Self { sender, connection } = *self;
        // The pool has the other handle. When it drops that, the connection ends after its request.
        drop(sender);
        Box::pin(async move {
            let mut ticks = interval(IDLE / 2);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let watching = async {
                loop {
                    ticks.tick().await;
                    keeper.retire_idle();
                }
            };
            tokio::select! {
                // The pending request gets the error itself.
                _ = connection => {}
                () = watching => {}
            }
        })
    }
}

/// A pending request. It returns the sender after the answer was read.
pub(super) struct Exchange {
    sender: Option<SendRequest>,
    home: Arc<Mutex<Option<SendRequest>>>,
    stream: Option<Stream>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let sender = self.sender.take();
        let has_ended = sender.as_ref().is_none_or(SendRequest::is_closed);
        *self.home.lock() = sender;
        let Some(stream) = self.stream.take() else {
            return;
        };
        if has_ended {
            stream.retire();
        }
        // Only after the sender is returned, because the next request may start at once.
        drop(stream);
    }
}

/// Sends one request over `stream`. The exchange must live until the body has been read.
pub(super) async fn send(
    home: &Sender,
    stream: Stream,
    parts: request::Parts,
    body: Bytes,
) -> Result<(Response<Incoming>, Exchange), Failure> {
    let sender = home.0.lock().take();
    let mut exchange = Exchange {
        sender,
        home: Arc::clone(&home.0),
        stream: Some(stream),
    };
    let gone = |error: BoxError| Failure {
        error,
        sent: false,
        unprocessed: true,
        broken: true,
    };
    let Some(sender) = &mut exchange.sender else {
        return Err(gone("the connection has ended".into()));
    };
    // Waits until the previous answer is complete. Fails if the connection ended with it.
    sender.ready().await.map_err(|error| gone(error.into()))?;
    let request = in_origin_form(parts, body);
    match sender.try_send_request(request).await {
        Ok(response) => Ok((response, exchange)),
        Err(mut error) => {
            let unprocessed = error.take_message().is_some();
            Err(Failure {
                sent: true,
                unprocessed,
                broken: true,
                error: error.into_error().into(),
            })
        }
    }
}

/// HTTP/1.1 needs only the path in the first line, and the server's name in the header `Host`.
fn in_origin_form(mut parts: request::Parts, body: Bytes) -> Request<Full<Bytes>> {
    if let Some(authority) = parts.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        parts.headers.entry(HOST).or_insert(host);
    }
    parts.uri = parts
        .uri
        .path_and_query()
        .map_or_else(Uri::default, |path| Uri::from(path.clone()));
    Request::from_parts(parts, Full::new(body))
}
