//! The interface to a server: a connection pool, or a server in the same process for tests.

use std::fmt;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

use super::pool::Sent;

/// The body of an answer.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Sends requests to an API server. Cheap to clone.
///
/// Each call runs in the task of its caller, so a panic in one call does not affect others. The
/// calls of [`kube::Client`] share one task.
#[derive(Clone)]
pub struct HttpService {
    service: BoxCloneSyncService<Request<Body>, Response<ResponseBody>, BoxError>,
    /// Whether writes are held back.
    pub(super) holds_back: bool,
}

impl HttpService {
    /// Wraps `service`, which must send a request as soon as it is called.
    pub fn new<S, B>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Future: Send, Error: Into<BoxError>>
            + Clone
            + Send
            + Sync
            + 'static,
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Self::layered(service.map_request(|request: Request<Body>| {
            Sent::mark(request.extensions());
            request
        }))
    }

    /// Wraps a `service` on top of a connection pool or another [`HttpService`].
    ///
    /// The inner service marks requests as sent. So `service` must pass on the extensions of
    /// requests.
    pub fn layered<S, B>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Future: Send, Error: Into<BoxError>>
            + Clone
            + Send
            + Sync
            + 'static,
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let service = service.map_response(|response: Response<B>| {
            response.map(|body| body.map_err(Into::into).boxed_unsync())
        });
        Self {
            service: BoxCloneSyncService::new(service.map_err(Into::into)),
            holds_back: false,
        }
    }

    /// Sends `request`, and returns as soon as the head of the answer is here. An answer with any
    /// status is a success.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        self.service.clone().oneshot(request).await
    }
}

impl HttpService {
    /// A copy that sends requests in tasks of `runtime`, for callers on other runtimes. So the
    /// connections belong to `runtime`, whichever caller's request opens them.
    #[must_use]
    pub fn on(&self, runtime: Handle) -> Self {
        let service = self.clone();
        let moved = Self::layered(tower::service_fn(move |request: Request<Body>| {
            let service = service.clone();
            let task = runtime.spawn(async move { service.send(request).await });
            // A caller that drops its request ends the task too.
            let task = AbortOnDropHandle::new(task);
            async move { task.await.map_err(BoxError::from).flatten() }
        }));
        Self {
            holds_back: self.holds_back,
            ..moved
        }
    }
}

impl From<kube::Client> for HttpService {
    fn from(client: kube::Client) -> Self {
        Self::new(tower::service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await }
        }))
    }
}

/// For users of the `kube` crate. The calls of the result share one task.
impl From<HttpService> for kube::Client {
    fn from(service: HttpService) -> Self {
        Self::new(service.service, "default")
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpService")
    }
}
