//! Entry points for the fuzz targets in `proof/fuzz`: private parsers of bytes from the API server.
//!
//! The parsers themselves stay private; this module is the only public way to them.

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};

use crate::object::Object;

/// Parses one line of a watch. True if the line is a valid watch event.
pub fn watch_event<T: Object>(line: &[u8]) -> bool {
    crate::informer::wire::frame::<T>(line).is_ok()
}

/// Parses a list. Returns the number of objects that were decoded.
pub fn list<T: Object>(body: &[u8]) -> usize {
    let page = crate::informer::wire::Page::parse(body);
    page.map_or(0, |page| page.objects::<T>().filter(Result::is_ok).count())
}

/// Parses a discovery document in each of its forms. True if one of them fits.
pub fn discovery(body: &[u8]) -> bool {
    crate::discovery::reads(body)
}

/// Cuts a response body, which arrives in these chunks, into lines.
pub fn lines(chunks: impl IntoIterator<Item = Bytes>) -> Vec<Bytes> {
    let chunks: Vec<Result<Bytes, std::convert::Infallible>> = chunks.into_iter().map(Ok).collect();
    let lines = crate::client::lines::Lines::new(stream::iter(chunks))
        .filter_map(|line| std::future::ready(line.ok()));
    lines
        .collect()
        .now_or_never()
        .expect("the stream of chunks is always ready")
}
