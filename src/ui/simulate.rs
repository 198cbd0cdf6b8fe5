//! Simulated failures, for the embedded cluster of `steersman dev` alone.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Deserialize;

use crate::access::text;

/// The header that a page of another site cannot send without leave; the server gives none.
const OWN: &str = "x-steersman-ui";
/// The longest body of a request, in bytes.
const MAX_BODY: usize = 1024;
/// Time limit for the body.
const BODY: Duration = Duration::from_secs(10);

/// A change of the simulated cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Wish {
    /// The kubelets of a zone get this behaviour; an empty one is the usual.
    Zone {
        /// The zone.
        name: String,
        /// Such as `dead`.
        behaviour: String,
    },
    /// The kubelet of a node.
    Node {
        /// The node.
        name: String,
        /// Such as `dead`.
        behaviour: String,
    },
    /// The containers of the next pods of a Deployment.
    Deployment {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Such as `hang`.
        behaviour: String,
    },
    /// A Deployment to try things on.
    Example {},
}

/// Carries out the actions of the page's buttons.
pub(crate) trait Simulator: Send + Sync {
    /// Fulfils `wish`. The error is for the reader of the page.
    fn fulfil(&self, wish: Wish) -> BoxFuture<'_, Result<(), String>>;
}

/// The answer to a button.
pub(super) async fn answer(
    simulator: Option<&Arc<dyn Simulator>>,
    head: &Parts,
    body: Body,
) -> Response {
    let Some(simulator) = simulator else {
        return text(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    if head.method != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only POST\n");
    }
    if !head.headers.contains_key(OWN) {
        return text(StatusCode::FORBIDDEN, "only the page itself may ask\n");
    }
    let body = match tokio::time::timeout(BODY, axum::body::to_bytes(body, MAX_BODY)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return text(StatusCode::PAYLOAD_TOO_LARGE, "the wish is too long\n"),
        Err(_) => {
            return text(
                StatusCode::REQUEST_TIMEOUT,
                "the wish did not come in time\n",
            );
        }
    };
    let wish: Wish = match serde_json::from_slice(&body) {
        Ok(wish) => wish,
        Err(error) => return text(StatusCode::BAD_REQUEST, format!("{error}\n")),
    };
    match simulator.fulfil(wish).await {
        Ok(()) => text(StatusCode::OK, "ok\n"),
        Err(reason) => text(StatusCode::BAD_GATEWAY, format!("{reason}\n")),
    }
}
