//! The body of an answer. It occupies its stream until it is dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use super::{Stream, http1};

/// A body from an HTTP/2 or an HTTP/1.1 connection.
pub(crate) struct Incoming {
    kind: Kind,
}

enum Kind {
    Http2 {
        received: h2::RecvStream,
        _stream: Stream,
    },
    Http1 {
        received: hyper::body::Incoming,
        _exchange: http1::Exchange,
    },
}

impl Incoming {
    pub(super) fn http2(received: h2::RecvStream, stream: Stream) -> Self {
        Self {
            kind: Kind::Http2 {
                received,
                _stream: stream,
            },
        }
    }

    pub(super) fn http1(received: hyper::body::Incoming, exchange: http1::Exchange) -> Self {
        Self {
            kind: Kind::Http1 {
                received,
                _exchange: exchange,
            },
        }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.kind {
            Kind::Http2 { received, .. } => Poll::Ready(match ready!(received.poll_data(cx)) {
                Some(Ok(bytes)) => {
                    // Allows the server to send as many bytes again. This fails if the stream has
                    // ended, and the next poll reports that.
                    let _ = received.flow_control().release_capacity(bytes.len());
                    Some(Ok(Frame::data(bytes)))
                }
                Some(Err(error)) => Some(Err(error.into())),
                None => None,
            }),
            Kind::Http1 { received, .. } => Pin::new(received).poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Http2 { received, .. } => received.is_end_stream(),
            Kind::Http1 { received, .. } => received.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Http2 { .. } => SizeHint::default(),
            Kind::Http1 { received, .. } => received.size_hint(),
        }
    }
}
