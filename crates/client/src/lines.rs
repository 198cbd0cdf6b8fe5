//! Cuts a response body into lines: each line of a watch is one frame.
//!
//! Watches carry most of the bytes that the manager receives, so this code copies as little as
//! possible.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures::Stream;

/// The longest line, in bytes. Upstream's `NewFrameReader` of apimachinery has the same limit.
pub(crate) const MAX_LINE: usize = 16 * 1024 * 1024;

/// The end of [`Lines`] before the end of its chunks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineError<E> {
    /// A line is longer than [`MAX_LINE`].
    TooLong,
    /// The stream of chunks failed.
    Chunks(E),
}

/// The non-empty lines of a stream of chunks, without their newlines. No line is longer than
/// [`MAX_LINE`].
///
/// A line within one chunk is a slice of it. A line over several chunks is copied once.
pub(crate) struct Lines<S> {
    chunks: S,
    /// Received bytes that are not part of a returned line yet.
    rest: Bytes,
    /// The beginning of an incomplete line.
    partial: BytesMut,
    ended: bool,
}

impl<S> Lines<S> {
    pub(crate) fn new(chunks: S) -> Self {
        Self {
            chunks,
            rest: Bytes::new(),
            partial: BytesMut::new(),
            ended: false,
        }
    }

    /// The next complete line of the received bytes.
    fn cut(&mut self) -> Option<Bytes> {
        while let Some(end) = memchr::memchr(b'\n', &self.rest) {
            let head = self.rest.split_to(end + 1).slice(..end);
            let line = if self.partial.is_empty() {
                head
            } else {
                self.partial.extend_from_slice(&head);
                std::mem::take(&mut self.partial).freeze()
            };
            if !line.is_empty() {
                return Some(line);
            }
        }
        self.partial.extend_from_slice(&self.rest);
        self.rest.clear();
        None
    }
}

impl<S, E> Stream for Lines<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    type Item = Result<Bytes, LineError<E>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(line) = self.cut() {
                return Poll::Ready(Some(Ok(line)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            if self.partial.len() > MAX_LINE {
                self.ended = true;
                self.partial = BytesMut::new();
                return Poll::Ready(Some(Err(LineError::TooLong)));
            }
            match ready!(Pin::new(&mut self.chunks).poll_next(cx)) {
                Some(Ok(chunk)) => self.rest = chunk,
                // A last line without a newline is incomplete, so it is dropped.
                None => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
                Some(Err(error)) => {
                    self.ended = true;
                    self.partial.clear();
                    return Poll::Ready(Some(Err(LineError::Chunks(error))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};

    use super::*;

    async fn lines_of(chunks: &[&'static str]) -> Vec<String> {
        let chunks: Vec<_> = chunks
            .iter()
            .map(|c| Ok::<_, std::io::Error>(Bytes::from_static(c.as_bytes())))
            .collect();
        Lines::new(stream::iter(chunks))
            .map(|line| String::from_utf8(line.unwrap().to_vec()).unwrap())
            .collect()
            .await
    }

    #[tokio::test]
    async fn lines_do_not_depend_on_chunk_boundaries() {
        // (why, chunks, expected)
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("one each", &["a\n", "b\n"], &["a", "b"]),
            ("several in one", &["a\nb\nc\n"], &["a", "b", "c"]),
            (
                "over three chunks",
                &["{\"a\"", ":", "1}\nb\n"],
                &["{\"a\":1}", "b"],
            ),
            ("newline on its own", &["a", "\n", "b\n"], &["a", "b"]),
            (
                "empty lines and chunks",
                &["\n\na\n", "", "\n", "b\n"],
                &["a", "b"],
            ),
            ("an incomplete last line", &["a\nb"], &["a"]),
            ("no chunks", &[], &[]),
        ];
        for (why, chunks, expected) in cases {
            assert_eq!(&lines_of(chunks).await, expected, "{why}");
        }
    }

    #[tokio::test]
    async fn a_line_inside_one_chunk_is_not_copied() {
        let chunk = Bytes::from_static(b"one\ntwo\n");
        let start = chunk.as_ptr();
        let lines: Vec<_> = Lines::new(stream::iter([Ok::<_, std::io::Error>(chunk)]))
            .collect()
            .await;
        let second = lines[1].as_ref().unwrap();
        assert_eq!(second.as_ptr(), start.wrapping_add(4));
    }

    #[tokio::test]
    async fn a_ten_megabyte_line_is_complete() {
        let piece = Bytes::from(vec![b'x'; 16 * 1024]);
        let mut chunks = vec![piece; 640];
        chunks.push(Bytes::from_static(b"\n"));
        let lines: Vec<_> = Lines::new(stream::iter(
            chunks.into_iter().map(Ok::<_, std::io::Error>),
        ))
        .collect()
        .await;
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].as_ref().unwrap().len(), 640 * 16 * 1024);
    }

    #[tokio::test]
    async fn an_error_is_the_last_item() {
        let chunks = [
            Ok(Bytes::from_static(b"a\nb")),
            Err("broken"),
            Ok(Bytes::from_static(b"c\n")),
        ];
        let items: Vec<_> = Lines::new(stream::iter(chunks)).collect().await;
        let broken = Err(LineError::Chunks("broken"));
        assert_eq!(items, [Ok(Bytes::from_static(b"a")), broken]);
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut_off_at_the_limit() {
        let piece = Bytes::from(vec![b'x'; 64 * 1024]);
        let mut read = 0;
        let chunks = stream::repeat_with(|| {
            read += piece.len();
            Ok::<_, std::io::Error>(piece.clone())
        });
        let items: Vec<_> = Lines::new(chunks).collect().await;
        assert!(matches!(&items[..], [Err(LineError::TooLong)]));
        assert_eq!(read, MAX_LINE + piece.len());
    }
}
