//! What errors of connections mean.

use std::error::Error as StdError;

use super::pool::DialError;

/// Whether an established connection broke, so that a GET may simply be repeated. A connection that
/// could not be made at all is not meant: the caller's own back-off is for that.
pub(super) fn is_lost_connection(error: &(dyn StdError + 'static)) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    if causes(error).any(|cause| cause.is::<DialError>()) {
        return false;
    }
    causes(error).any(|cause| {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            return matches!(
                io.kind(),
                BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
            );
        }
        // The end of an HTTP/2 connection (GOAWAY, unanswered ping) and the reset of a stream.
        if let Some(error) = cause.downcast_ref::<h2::Error>() {
            return error.is_go_away() || error.is_reset() || error.is_io();
        }
        // hyper reports every end of an HTTP/1.1 connection as an error of its own that is neither
        // ours nor a malformed message.
        cause
            .downcast_ref::<hyper::Error>()
            .is_some_and(|e| !e.is_user() && !e.is_parse())
    })
}

/// Whether an attempt to connect, or the connection, took too long.
pub(super) fn is_timeout(error: &(dyn StdError + 'static)) -> bool {
    causes(error).any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut)
            || cause
                .downcast_ref::<hyper::Error>()
                .is_some_and(hyper::Error::is_timeout)
    })
}

/// `error` and what it comes from.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&e| e.source())
}
