//! Bodies of answers: complete, or streams that are produced as the client reads them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http_body::{Frame, SizeHint};
use tokio::time::Sleep;

use crate::metrics::Measured;
use crate::store::Object;

/// Approximate size in bytes of a piece of a list. Pieces keep large lists from being in memory
/// twice.
const PIECE: usize = 64 << 10;

/// The body of an answer.
pub enum Body {
    /// Complete, or empty.
    Whole(Option<Bytes>),
    /// A stream of pieces. An error breaks the answer off, so that the client takes no part for the whole.
    Stream(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(bytes) => f.debug_tuple("Whole").field(bytes).finish(),
            Self::Stream(_) => f.debug_tuple("Stream").finish_non_exhaustive(),
        }
    }
}

impl Body {
    /// A body of these bytes.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    /// A body of the pieces that the stream yields.
    pub fn stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::fallible(pieces.map(Ok))
    }

    /// The same of pieces that may break off.
    pub(crate) fn fallible(pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self::Stream(Box::pin(pieces))
    }

    /// The same body. The request ends with the last piece of a stream, or now.
    pub(crate) fn measured(self, request: Measured) -> Self {
        match self {
            Self::Whole(bytes) => Self::Whole(bytes),
            Self::Stream(pieces) => Self::fallible(pieces.inspect(move |_| request.sent_piece())),
        }
    }

    /// Ends a stream when `stop` completes, but only while the stream has no piece ready.
    pub(crate) fn until(self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        match self {
            Self::Whole(bytes) => Self::Whole(bytes),
            Self::Stream(mut pieces) => {
                let mut stop = Box::pin(stop);
                Self::fallible(futures::stream::poll_fn(move |cx| {
                    match pieces.as_mut().poll_next(cx) {
                        Poll::Pending => stop.as_mut().poll(cx).map(|()| None),
                        ready => ready,
                    }
                }))
            }
        }
    }

    /// Breaks a stream off at the end of a `Sleep`, which may be polled again after that.
    pub(crate) fn broken_off(self, end: Sleep) -> Self {
        match self {
            Self::Whole(bytes) => Self::Whole(bytes),
            Self::Stream(mut pieces) => {
                let mut end = Box::pin(end);
                Self::fallible(futures::stream::poll_fn(move |cx| {
                    match end.as_mut().poll(cx) {
                        Poll::Pending => pieces.as_mut().poll_next(cx),
                        Poll::Ready(()) => Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into()))),
                    }
                }))
            }
        }
    }

    /// A list: `head`, the objects and the closing brackets. Objects of a `typed` list have no kind
    /// and apiVersion.
    pub(super) fn list(head: String, objects: Vec<Arc<Object>>, typed: bool) -> Self {
        let mut objects = objects.into_iter();
        let mut head = Some(head);
        let mut first = true;
        let mut ended = false;
        Self::stream(futures::stream::iter(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let mut piece = BytesMut::with_capacity(4096);
            if let Some(head) = head.take() {
                piece.put_slice(head.as_bytes());
            }
            while piece.len() < PIECE {
                let Some(object) = objects.next() else {
                    piece.put_slice(b"]}\n");
                    ended = true;
                    break;
                };
                if !std::mem::replace(&mut first, false) {
                    piece.put_slice(b",");
                }
                if typed {
                    piece.put_slice(b"{");
                    piece.put_slice(object.untyped_tail());
                } else {
                    piece.put_slice(&object.json());
                }
            }
            Some(piece.freeze())
        })))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(pieces) => pieces
                .as_mut()
                .poll_next(cx)
                .map(|piece| piece.map(|bytes| bytes.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
