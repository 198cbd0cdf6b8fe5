//! Reads from a connection in large pieces.
//!
//! The TLS layer asks for 4 KiB at a time, and a watch event has more. With a buffer below that
//! layer, one system call reads all that has arrived.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::BufReader;

/// Two TLS records of the largest size.
const CAPACITY: usize = 32 * 1024;

/// A connection with a buffer for received bytes. Writes are not buffered.
pub(super) struct ReadAhead<C>(TokioIo<BufReader<TokioIo<C>>>);

impl<C: Read> ReadAhead<C> {
    pub(super) fn new(connection: C) -> Self {
        let connection = TokioIo::new(connection);
        Self(TokioIo::new(BufReader::with_capacity(CAPACITY, connection)))
    }
}

impl<C: Connection + Read> Connection for ReadAhead<C> {
    fn connected(&self) -> Connected {
        self.0.inner().get_ref().inner().connected()
    }
}

impl<C: Read + Unpin> Read for ReadAhead<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<C: Read + Write + Unpin> Write for ReadAhead<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
