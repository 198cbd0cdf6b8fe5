//! The errors of requests, and the conversion of a failed answer (status code, body) to a Status.
//!
//! The texts are those of `apimachinery/pkg/api/errors`, because they appear in Events and
//! conditions that users and tools read.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use serde::Deserialize;

use super::refusal::Refusal;
use crate::{PathError, Target};

/// A failed request. `Display` prints upstream's text: for an API error only its message. Logs
/// should add [`ApiError::request`].
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The API server answered with an error.
    #[error("{}", status.message.as_deref().unwrap_or("unknown"))]
    Status {
        /// `PUT /apis/apps/v1/...`.
        request: String,
        /// HTTP status code.
        code: u16,
        /// The server's Status, or one made from the code.
        status: Box<Status>,
    },
    /// There is no answer, because the connection failed.
    #[error("{request}: {}", with_causes(&**source))]
    Transport {
        /// The request.
        request: String,
        /// The error of the connection.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no answer within the time limit.
    #[error("{request}: no answer within {timeout:?}")]
    Timeout {
        /// The request.
        request: String,
        /// The limit.
        timeout: Duration,
    },
    /// The write gate was closed, so the request was not sent.
    #[error("{request}: not sent, leadership has ended")]
    Fenced {
        /// The request.
        request: String,
    },
    /// The decision breaks an invariant, so the request was not sent.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// Decoding of the answer failed, or encoding of the request's body.
    #[error("{request}: {source}")]
    Decode {
        /// The request.
        request: String,
        /// The error of the decoder.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A text cannot be a part of the URL, so the request was not sent.
    #[error("{0}")]
    Path(#[source] Box<PathError>),
}

impl From<PathError> for ApiError {
    fn from(source: PathError) -> Self {
        Self::Path(Box::new(source))
    }
}

/// An answer, or a line of one, that is longer than its limit.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the API server {server} sent more than {} MiB at once", limit >> 20)]
pub(crate) struct TooLong {
    pub(crate) server: String,
    pub(crate) limit: usize,
}

/// The text of `error` with those of its causes. The text of the HTTP client alone names only the
/// failed step.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for reason in
        std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string)
    {
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
    }
    text
}

impl ApiError {
    /// Verb and path of the request.
    pub fn request(&self) -> &str {
        match self {
            Self::Status { request, .. }
            | Self::Transport { request, .. }
            | Self::Timeout { request, .. }
            | Self::Fenced { request }
            | Self::Decode { request, .. } => request,
            Self::Refused(_) | Self::Path(_) => "not sent",
        }
    }

    /// The Status, if the server answered with an error.
    pub fn status(&self) -> Option<&Status> {
        if let Self::Status { status, .. } = self {
            Some(status)
        } else {
            None
        }
    }

    /// True for a Status with this reason. A Status without a reason is compared by its code.
    fn has_reason(&self, reason: &str, code: u16) -> bool {
        match self {
            Self::Status {
                status,
                code: found,
                ..
            } => match status.reason.as_deref() {
                Some(text) if !text.is_empty() => text == reason,
                _ => *found == code,
            },
            _ => false,
        }
    }

    /// True for 404.
    pub fn is_not_found(&self) -> bool {
        self.has_reason("NotFound", 404)
    }

    /// True for a 404 that names the object: the server serves the type and has no such object.
    ///
    /// Other 404s, such as for an unserved type or from a proxy, do not prove that the object is
    /// absent.
    pub fn is_object_not_found(&self) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        let is_named = details
            .and_then(|d| d.name.as_deref())
            .is_some_and(|name| !name.is_empty());
        self.is_not_found() && is_named && !self.has_cause("UnexpectedServerResponse")
    }

    /// True if the answer was longer than its limit.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::Transport { source, .. } if source.is::<TooLong>())
    }

    /// True if the write gate refused the request. The next leader does the work, so this error
    /// needs no log line.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }

    /// True for a 409 because of a stale resource version.
    pub fn is_conflict(&self) -> bool {
        self.has_reason("Conflict", 409)
    }

    /// True for a 409 because an object with this name exists.
    pub fn is_already_exists(&self) -> bool {
        self.has_reason("AlreadyExists", u16::MAX)
    }

    /// True for 405: the type does not support this verb.
    pub fn is_method_not_allowed(&self) -> bool {
        self.has_reason("MethodNotAllowed", 405)
    }

    /// True for 422.
    pub fn is_invalid(&self) -> bool {
        self.has_reason("Invalid", 422)
    }

    /// True if the request names the UID of an earlier object, because another one has its name now.
    pub fn is_about_another_uid(&self) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        let causes = details.and_then(|details| details.causes.as_ref());
        let mut causes = causes.into_iter().flatten();
        self.is_invalid() && causes.any(|cause| cause.field.as_deref() == Some("metadata.uid"))
    }

    /// True for 403.
    pub fn is_forbidden(&self) -> bool {
        self.has_reason("Forbidden", 403)
    }

    /// True for 503, such as from an aggregated API whose server is down.
    pub fn is_unavailable(&self) -> bool {
        self.has_reason("ServiceUnavailable", 503)
    }

    /// True for a transient failure: a retry may succeed soon. The connection broke, or the server
    /// reported an internal error or overload. A refused connection does not count.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Status { code, .. } => matches!(code, 429 | 500 | 503 | 504),
            Self::Transport { source, .. } => super::connection::is_lost_connection(&**source),
            Self::Timeout { .. }
            | Self::Fenced { .. }
            | Self::Refused(_)
            | Self::Decode { .. }
            | Self::Path(_) => false,
        }
    }

    /// True if the API server may have done the request all the same: the answer was lost, or
    /// reports a failure of the server.
    pub fn may_be_done(&self) -> bool {
        match self {
            Self::Transport { .. } | Self::Timeout { .. } | Self::Decode { .. } => true,
            Self::Status { code, .. } => *code >= 500,
            Self::Fenced { .. } | Self::Refused(_) | Self::Path(_) => false,
        }
    }

    /// The status code of the answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        if let Self::Status { code, .. } = self {
            Some(*code)
        } else {
            None
        }
    }

    /// True if `details.causes` has this reason, such as `NamespaceTerminating`.
    pub fn has_cause(&self, reason: &str) -> bool {
        let causes = self
            .status()
            .and_then(|s| s.details.as_ref())
            .and_then(|d| d.causes.as_ref());
        causes.is_some_and(|causes| causes.iter().any(|c| c.reason.as_deref() == Some(reason)))
    }
}

/// The fields that distinguish a Status from other answers.
#[derive(Deserialize)]
struct StatusHead<'a> {
    #[serde(borrow, default)]
    kind: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, default)]
    status: Option<std::borrow::Cow<'a, str>>,
}

/// Decodes `body` if it is a Status with `status: Failure`.
pub(crate) fn failure_in(body: &[u8]) -> Option<Status> {
    // Encoders write `kind` first, so the beginning is enough. Lists may have many megabytes and
    // must not be decoded twice.
    const HEAD: usize = 256;
    let head = &body[..body.len().min(HEAD)];
    memchr::memmem::find(head, b"\"Status\"")?;
    let found: StatusHead<'_> = serde_json::from_slice(body).ok()?;
    if found.kind.as_deref() != Some("Status") || found.status.as_deref() != Some("Failure") {
        return None;
    }
    serde_json::from_slice(body).ok()
}

/// The Status for an error answer without one, with upstream's texts (`NewGenericServerResponse`).
pub(crate) fn stand_in(
    code: u16,
    method: &http::Method,
    target: Option<&Target<'_>>,
    retry_after: Option<u32>,
    body: &[u8],
) -> Status {
    const LONGEST: usize = 2048;
    let text = String::from_utf8_lossy(&body[..body.len().min(LONGEST)]);
    let text = if text.trim().is_empty() {
        "unknown"
    } else {
        text.trim()
    };

    let (reason, mut message) = match code {
        400 => ("BadRequest", "the server rejected our request for an unknown reason".to_owned()),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials".to_owned()),
        403 => ("Forbidden", text.to_owned()),
        404 => ("NotFound", "the server could not find the requested resource".to_owned()),
        405 => ("MethodNotAllowed", "the server does not allow this method on the requested resource".to_owned()),
        406 if text == "unknown" => {
            ("NotAcceptable", "the server was unable to respond with a content type that the client supports".to_owned())
        }
        406 => ("NotAcceptable", text.to_owned()),
        409 if method == http::Method::POST => ("AlreadyExists", "the server reported a conflict".to_owned()),
        409 => ("Conflict", "the server reported a conflict".to_owned()),
        415 if text == "unknown" => {
            ("UnsupportedMediaType", "the server was unable to respond with a content type that the client supports".to_owned())
        }
        415 => ("UnsupportedMediaType", text.to_owned()),
        422 => ("Invalid", "the server rejected our request due to an error in our request".to_owned()),
        429 => ("TooManyRequests", "the server has received too many requests and has asked us to try again later".to_owned()),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request".to_owned()),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request".to_owned(),
        ),
        500.. => ("InternalError", format!("an error on the server ({text:?}) has prevented the request from succeeding")),
        _ => ("", format!("the server responded with the status code {code} but did not return more information")),
    };

    let mut details = StatusDetails {
        causes: Some(vec![StatusCause {
            reason: Some("UnexpectedServerResponse".to_owned()),
            message: Some(text.to_owned()),
            ..StatusCause::default()
        }]),
        retry_after_seconds: retry_after.and_then(|s| i32::try_from(s).ok()),
        ..StatusDetails::default()
    };
    if let Some(target) = target {
        let verb = method.as_str().to_ascii_lowercase();
        message = match target.name {
            Some(name) => format!("{message} ({verb} {} {name})", target.resource),
            None => format!("{message} ({verb} {})", target.resource),
        };
        details.group = Some(target.resource.group.clone().into_owned());
        details.kind = Some(target.resource.plural.clone().into_owned());
        details.name = target.name.map(str::to_owned);
    }
    Status {
        status: Some("Failure".to_owned()),
        code: Some(i32::from(code)),
        reason: Some(reason.to_owned()),
        message: Some(message),
        details: Some(details),
        ..Status::default()
    }
}
