//! Entry points for the fuzz targets in `proof/fuzz`: private parsers of bytes from the API server.
//!
//! The parsers themselves stay private; this module is the only public way to them.

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};

/// Parses a discovery document in each of its forms. True if one of them fits.
pub fn discovery(body: &[u8]) -> bool {
    crate::discovery::reads(body)
}

/// Cuts a response body, which arrives in these chunks, into lines.
pub fn lines(chunks: impl IntoIterator<Item = Bytes>) -> Vec<Bytes> {
    let chunks: Vec<Result<Bytes, std::convert::Infallible>> = chunks.into_iter().map(Ok).collect();
    let lines = crate::lines::Lines::new(stream::iter(chunks))
        .filter_map(|line| std::future::ready(line.ok()));
    lines
        .collect()
        .now_or_never()
        .expect("the stream of chunks is always ready")
}
