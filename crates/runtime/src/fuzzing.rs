//! What reads bytes from the API server, for the fuzzer: the parts that are nobody else's business.

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};

use crate::object::Object;

/// Reads one line of a watch; whether it made sense.
pub fn watch_event<T: Object>(line: &[u8]) -> bool {
    crate::informer::wire::frame::<T>(line).is_ok()
}

/// Reads a list; how many of its objects made sense.
pub fn list<T: Object>(body: &[u8]) -> usize {
    let page = crate::informer::wire::Page::parse(body);
    page.map_or(0, |page| page.objects::<T>().filter(Result::is_ok).count())
}

/// Reads a document of discovery, in each of its forms; whether it made sense as one of them.
pub fn discovery(body: &[u8]) -> bool {
    crate::discovery::reads(body)
}

/// The lines of a body that comes in these chunks.
pub fn lines(chunks: impl IntoIterator<Item = Bytes>) -> Vec<Bytes> {
    let chunks: Vec<Result<Bytes, std::convert::Infallible>> = chunks.into_iter().map(Ok).collect();
    let lines = crate::client::lines::Lines::new(stream::iter(chunks))
        .filter_map(|line| std::future::ready(line.ok()));
    lines
        .collect()
        .now_or_never()
        .expect("all chunks are there")
}
