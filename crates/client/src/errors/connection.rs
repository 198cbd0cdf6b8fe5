//! Classifies errors of connections, as `IsProbableEOF` and `IsTimeout` of
//! `apimachinery/pkg/util/net` do.

use std::error::Error as StdError;

use crate::pool::DialError;

/// True if an established connection broke, so that a GET can be repeated soon. False if the
/// connection could not be opened: the caller's back-off handles that.
pub(crate) fn is_lost_connection(error: &(dyn StdError + 'static)) -> bool {
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
        // An HTTP/2 connection ended (GOAWAY, unanswered ping), or a stream was reset.
        if let Some(error) = cause.downcast_ref::<h2::Error>() {
            return error.is_go_away() || error.is_reset() || error.is_io();
        }
        // hyper has an error of its own for each end of an HTTP/1.1 connection. Errors of the
        // caller and malformed messages are excluded.
        cause
            .downcast_ref::<hyper::Error>()
            .is_some_and(|e| !e.is_user() && !e.is_parse())
    })
}

/// True if a dial or a request timed out.
pub(crate) fn is_timeout(error: &(dyn StdError + 'static)) -> bool {
    causes(error).any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut)
            || cause
                .downcast_ref::<hyper::Error>()
                .is_some_and(hyper::Error::is_timeout)
    })
}

/// `error` and its sources.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&e| e.source())
}
