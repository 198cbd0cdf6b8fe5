//! An HTTP/2 connection: its opening, its pings, and requests over it.

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

/// A server that sends no settings for so long is none.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(30);
/// One stream may have this much under way: enough for full speed at 10 ms of distance, and the
/// most a slow reader can pile up.
const STREAM_WINDOW: u32 = 1 << 20;
/// Not a limit in practice, so that an answer that is read slowly does not hold up others of its
/// connection.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// A connection of which the server has said how many streams it allows.
struct Connection {
    sender: client::SendRequest<Bytes>,
    connection: client::Connection<Watched, Bytes>,
    pings: Pings,
    reads: Reads,
}

/// Opens a connection over `io`; comes with the server's settings.
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
        // Until the server's settings come, so that its limit is never exceeded, however low it is.
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
        // The pool holds the others; without any the connection ends after its last stream.
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
                // Streams hear of the error themselves.
                _ = moving => {}
                () = watch_over(ping_pong, pings, &reads, &keeper) => {
                    tracing::debug!("a connection to the API server answers no ping");
                }
            }
        })
    }
}

/// Ends when the server has been silent for the interval and a ping stays unanswered. Retires the
/// connection when it is idle.
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
        // One ping at a time: a late pong is waited for as long as other bytes come.
        let mut pong = pin!(ping_pong.ping(Ping::opaque()));
        loop {
            match timeout(pings.timeout, &mut pong).await {
                Ok(Ok(_)) => break,
                // The connection has ended, as its other half finds.
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
        // The whole body is in memory already, so waiting for the window would save none.
        upload.send_data(body, true).map_err(failure)?;
    }
    let response = response.await.map_err(failure)?;
    Ok(response.map(|received| Incoming::http2(received, stream)))
}

fn failure(error: h2::Error) -> Failure {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    // Of the streams under way, a GOAWAY ends those alone that the server has not begun to process.
    let is_turned_away =
        error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
    Failure {
        sent: true,
        unprocessed: is_refused || is_turned_away,
        broken: !error.is_reset(),
        error: error.into(),
    }
}

/// When bytes last came, in milliseconds since the connection was opened.
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

    /// Whether bytes came within the last `time`.
    fn within(&self, time: Duration) -> bool {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(last) < time
    }
}

/// Notes when bytes come.
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
