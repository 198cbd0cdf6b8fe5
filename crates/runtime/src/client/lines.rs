//! Cuts a response body into lines.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures::Stream;

/// The lines of a stream of chunks, without their newlines; empty lines are left out. A line inside
/// one chunk is a slice of it; one that spans chunks is put together once. Every byte is looked at
/// once.
pub(crate) struct Lines<S> {
    chunks: S,
    /// What has come and is not yet given out.
    rest: Bytes,
    /// The beginning of a line whose end has not come yet.
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

    /// The next line of what has come, if one is complete.
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
    type Item = Result<Bytes, E>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(line) = self.cut() {
                return Poll::Ready(Some(Ok(line)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.chunks).poll_next(cx)) {
                Some(Ok(chunk)) => self.rest = chunk,
                // A line without its newline was cut short; what is left of it is of no use.
                None => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
                Some(Err(error)) => {
                    self.ended = true;
                    self.partial.clear();
                    return Poll::Ready(Some(Err(error)));
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
    async fn lines_do_not_depend_on_where_the_chunks_end() {
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
            ("cut short", &["a\nb"], &["a"]),
            ("nothing", &[], &[]),
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
    async fn a_ten_megabyte_line_comes_whole() {
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
        assert_eq!(items, [Ok(Bytes::from_static(b"a")), Err("broken")]);
    }
}
