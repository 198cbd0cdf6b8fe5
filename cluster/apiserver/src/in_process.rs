//! The door for clients in the same process: requests go to the server as values, without a
//! connection. It needs no port, and works under Tokio's paused time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use tower::Service;

use crate::Server;
use crate::auth::{User, bearer_token};
use crate::rest::{Body, refusal};
use crate::status::Status;

/// The in-process door: a service for `kube::Client`, without a port.
#[derive(Debug, Clone)]
pub struct InProcess {
    server: Arc<Server>,
    user: Arc<User>,
}

impl InProcess {
    /// A door for `user`. A request that shows a bearer token is of that token's user instead.
    pub fn new(server: Arc<Server>, user: User) -> Self {
        Self {
            server,
            user: Arc::new(user),
        }
    }
}

impl<B> Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.server.clone();
        let user = self.user.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let user = match bearer_token(&parts.headers) {
                Some(_) => server.authenticate(&mut parts, None),
                None => Ok(user),
            };
            let user = match user {
                Ok(user) => user,
                Err(status) => return Ok(refusal(&status)),
            };
            let collected = body.collect().await.map_err(|error| {
                Status::bad_request(format!("the request body ended early: {}", error.into()))
            });
            match collected {
                Ok(body) => Ok(server
                    .handle(Request::from_parts(parts, body.to_bytes()), &user)
                    .await?),
                Err(status) => Ok(refusal(&status)),
            }
        })
    }
}
