//! Answers that clients have not read yet.
//!
//! response -> [`Unread::hold`] -> pieces, as fast as the client reads
//!
//! A client may ask for many answers and read none: with HTTP/2, a hundred per connection. All of
//! them together take at most [`MAX_BYTES`]. A further answer then takes the place of the oldest
//! ones, which end with an error, because a client that reads its answers is done long before.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use hyper::body::Buf;
use parking_lot::{Mutex, MutexGuard};

/// Maximum size of all answers that are not read yet, in bytes. A single answer may be larger.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The memory of an answer in addition to its body: its stream and its head.
const OVERHEAD: usize = 1024;
/// The piece of an answer that is given to the connection at once. The connection holds one for each
/// stream until the client reads it.
const PIECE: usize = 4 * 1024;

/// The answers of all connections. Cheap to clone; clones share one state.
#[derive(Clone, Default)]
pub(super) struct Unread(Arc<Mutex<Answers>>);

#[derive(Default)]
struct Answers {
    /// The rest of each answer, oldest first.
    rests: BTreeMap<u64, Bytes>,
    next: u64,
    bytes: usize,
}

impl Answers {
    fn remove(&mut self, id: u64) {
        if let Some(rest) = self.rests.remove(&id) {
            self.bytes -= rest.len() + OVERHEAD;
        }
    }
}

impl Unread {
    /// The response with a body that is read piece by piece.
    pub(super) async fn hold(&self, response: Response) -> Response {
        let (head, body) = response.into_parts();
        // All bodies of this server are complete in memory.
        let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
            return Response::from_parts(head, Body::empty());
        };
        if body.is_empty() {
            return Response::from_parts(head, Body::empty());
        }
        let length = body.len();
        let mut answers = self.answers();
        answers.bytes += length + OVERHEAD;
        while answers.bytes > MAX_BYTES
            && let Some(oldest) = answers.rests.keys().next().copied()
        {
            answers.remove(oldest);
        }
        let id = answers.next;
        answers.next += 1;
        answers.rests.insert(id, body);
        drop(answers);
        let rest = Rest {
            unread: self.clone(),
            id,
            length,
        };
        Response::from_parts(head, Body::new(rest))
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock()
    }
}

/// The body of an answer.
struct Rest {
    unread: Unread,
    id: u64,
    /// The number of bytes that were not given to the connection yet.
    length: usize,
}

impl http_body::Body for Rest {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.length == 0 {
            return Poll::Ready(None);
        }
        let piece = {
            let mut answers = self.unread.answers();
            let Some(rest) = answers.rests.get_mut(&self.id) else {
                let error = io::Error::other("the client did not read this answer in time");
                return Poll::Ready(Some(Err(error)));
            };
            // A copy, because a part of `rest` would keep all of it in memory.
            let piece = Bytes::copy_from_slice(&rest[..rest.len().min(PIECE)]);
            rest.advance(piece.len());
            answers.bytes -= piece.len();
            piece
        };
        self.length -= piece.len();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.length == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length as u64)
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.unread.answers().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn held(unread: &Unread, length: usize) -> Body {
        let response = Response::new(Body::from(vec![b'x'; length]));
        unread.hold(response).await.into_body()
    }

    #[tokio::test]
    async fn unread_answers_take_a_limited_space_and_the_oldest_end() {
        let unread = Unread::default();
        let mut bodies = Vec::new();
        for _ in 0..2000 {
            bodies.push(held(&unread, 350_000).await);
            assert!(unread.answers().bytes <= MAX_BYTES);
        }
        let complete = MAX_BYTES / (350_000 + OVERHEAD);
        let newest = bodies.split_off(bodies.len() - complete);
        for body in bodies {
            assert!(body.collect().await.is_err());
        }
        for body in newest {
            assert_eq!(body.collect().await.unwrap().to_bytes().len(), 350_000);
        }
        assert_eq!(unread.answers().bytes, 0);
    }

    #[tokio::test]
    async fn a_piece_does_not_keep_the_rest_of_its_answer_in_memory() {
        let unread = Unread::default();
        let mut body = held(&unread, 350_000).await;
        let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(piece.is_unique() && piece.len() == PIECE);
        let rest = body.collect().await.unwrap().to_bytes();
        assert_eq!(rest.len(), 350_000 - PIECE);
    }

    #[tokio::test]
    async fn a_large_answer_is_delivered_alone_and_a_dropped_one_takes_no_space() {
        let unread = Unread::default();
        let small = held(&unread, 10).await;
        let large = held(&unread, MAX_BYTES * 2).await;
        assert!(small.collect().await.is_err());
        let large = large.collect().await.unwrap().to_bytes();
        assert_eq!(large.len(), MAX_BYTES * 2);
        drop(held(&unread, 10).await);
        assert_eq!(unread.answers().bytes, 0);
    }
}
