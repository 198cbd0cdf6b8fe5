//! An HTTP/2 connection: handshake, pings and requests, on top of the crate `h2`.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, poll_fn};
use h2::{Ping, PingPong, Reason, client};
use http::{Request, Response, request};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep, timeout};
use tower::BoxError;

use super::{Failure, Incoming, Io, Keeper, Kept, Pings, Sender, Stream};

/// Time limit for the server's first SETTINGS frame.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that the server may send on one stream before they are read. This is enough for full speed
/// with a latency of 10 ms, and it bounds the memory of a slow reader.
const STREAM_WINDOW: u32 = 1 << 20;
/// The same limit for a whole connection. It is so high that a slowly read answer does not block
/// other answers.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// A connection after the server's first SETTINGS frame, which contains the limit of streams.
struct Connection {
    sender: client::SendRequest<Bytes>,
    connection: client::Connection<Watched, Bytes>,
    pings: Pings,
    reads: Reads,
}

/// Opens a connection over `io`. Returns after the server's SETTINGS frame.
pub(super) async fn open(io: Box<dyn Io>, pings: Pings) -> Result<Box<dyn Kept>, BoxError> {
    let reads = Reads::default();
    let io = Watched {
        io,
        reads: reads.clone(),
    };
    let handshake = client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .enable_push(false)
        // Zero until the server's SETTINGS frame, so that even a limit of one is never exceeded.
        .initial_max_send_streams(0)
        .handshake::<_, Bytes>(io);
    let opening = async {
        let (sender, mut connection) = handshake.await?;
        poll_fn(|cx| match connection.poll_unpin(cx) {
            Poll::Ready(Ok(())) => {
                Poll::Ready(Err(BoxError::from("the server closed the new connection")))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Pending if connection.max_concurrent_send_streams() > 0 => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        })
        .await?;
        let kept: Box<dyn Kept> = Box::new(Connection {
            sender,
            connection,
            pings,
            reads,
        });
        Ok(kept)
    };
    let opened = timeout(SETTINGS_TIMEOUT, opening).await;
    opened.unwrap_or_else(|_| Err("the server allows no HTTP/2 stream on a new connection".into()))
}

impl Kept for Connection {
    fn sender(&self) -> Sender {
        Sender::Http2(self.sender.clone())
    }

    fn limit(&self) -> usize {
        self.connection.max_concurrent_send_streams()
    }

    fn drive(self: Box<Self>, keeper: Keeper) -> BoxFuture<'static, ()> {
        let Self {
            sender,
            mut connection,
            pings,
            reads,
        } = *self;
        // The pool has the other senders. Without any, the connection ends after its last stream.
        drop(sender);
        Box::pin(async move {
            let ping_pong = connection.ping_pong();
            let mut limit = connection.max_concurrent_send_streams();
            let moving = poll_fn(|cx| {
                let ended = connection.poll_unpin(cx);
                let now = connection.max_concurrent_send_streams();
                if now != limit {
                    limit = now;
                    keeper.limited(limit);
                }
                ended
            });
            tokio::select! {
                // Pending streams get the error themselves.
                _ = moving => {}
                () = watch_over(ping_pong, pings, &reads, &keeper) => {
                    tracing::debug!("a connection to the API server answers no ping");
                }
            }
        })
    }
}

/// Returns when the server was silent for the interval and then did not answer a ping. Meanwhile it
/// removes the connection from the pool if it is idle.
async fn watch_over(ping_pong: Option<PingPong>, pings: Pings, reads: &Reads, keeper: &Keeper) {
    let Some(mut ping_pong) = ping_pong else {
        return std::future::pending().await;
    };
    loop {
        sleep(pings.interval).await;
        keeper.retire_idle();
        if reads.within(pings.interval) {
            continue;
        }
        // h2 allows one ping at a time. While other bytes arrive, a late pong is fine.
        let mut pong = pin!(ping_pong.ping(Ping::opaque()));
        loop {
            match timeout(pings.timeout, &mut pong).await {
                Ok(Ok(_)) => break,
                // The connection has ended. `moving` in `drive` returns then.
                Ok(Err(_)) => return std::future::pending().await,
                Err(_) if reads.within(pings.timeout) => keeper.retire_idle(),
                Err(_) => return,
            }
        }
    }
}

/// Sends one request over `stream`.
pub(super) async fn send(
    sender: client::SendRequest<Bytes>,
    stream: Stream,
    parts: request::Parts,
    body: Bytes,
) -> Result<Response<Incoming>, Failure> {
    let ended = |error: h2::Error| Failure {
        error: error.into(),
        sent: false,
        unprocessed: true,
        broken: true,
    };
    let mut sender = sender.ready().await.map_err(ended)?;
    let ends_here = body.is_empty();
    let (response, mut upload) = sender
        .send_request(Request::from_parts(parts, ()), ends_here)
        .map_err(ended)?;
    if !ends_here {
        // The whole body is in memory already, so a wait for the window would save no memory.
        upload.send_data(body, true).map_err(failure)?;
    }
    let response = response.await.map_err(failure)?;
    Ok(response.map(|received| Incoming::http2(received, stream)))
}

/// Classifies an error of a sent request. Only REFUSED_STREAM and a GOAWAY with NO_ERROR prove that
/// the request is unprocessed.
fn failure(error: h2::Error) -> Failure {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    // A GOAWAY ends only streams that the server has not started to process.
    let is_turned_away =
        error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
    Failure {
        sent: true,
        unprocessed: is_refused || is_turned_away,
        broken: !error.is_reset(),
        error: error.into(),
    }
}

/// The time of the last received bytes, in milliseconds since the connection was opened.
#[derive(Clone)]
struct Reads {
    opened: Instant,
    last: Arc<AtomicU64>,
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            opened: Instant::now(),
            last: Arc::default(),
        }
    }
}

impl Reads {
    fn note(&self) {
        self.last
            .store(self.opened.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// True if bytes arrived within the last `time`.
    fn within(&self, time: Duration) -> bool {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(last) < time
    }
}

/// A byte stream that records the time of received bytes.
struct Watched {
    io: Box<dyn Io>,
    reads: Reads,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        if read.is_ready() {
            self.reads.note();
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
