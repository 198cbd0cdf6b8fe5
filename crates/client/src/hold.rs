//! Holding writes back: a service that passes reads on and refuses everything else.
//!
//! request -> read, or harmless review: sent; anything else: described, refused, never sent
//!
//! The service wraps a connection below all clients, so that no client has another way to write.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{Method, Request};
use kube::client::Body;
use tower::BoxError;

use super::service::HttpService;

/// Paths of reviews end in these resources. A review only asks, and the API server stores nothing.
const REVIEWS: [&str; 4] = [
    "/selfsubjectaccessreviews",
    "/selfsubjectrulesreviews",
    "/subjectaccessreviews",
    "/tokenreviews",
];

/// A write that was held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldWrite {
    /// POST, PUT, PATCH or DELETE.
    pub method: Method,
    /// Path of the request, such as `/api/v1/namespaces/shop/pods`.
    pub path: String,
    /// Its query; empty without one.
    pub query: String,
    /// `Content-Type`; empty without a body.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
    /// The last part of the user agent: the identity of the controller.
    pub client: String,
}

/// The write was held back, so it was not sent.
#[derive(Debug, thiserror::Error)]
#[error("writes are held back")]
pub(super) struct HeldBack;

/// Whether the API server changes nothing because of this request.
pub(super) fn is_harmless(method: &Method, path: &str) -> bool {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return true;
    }
    let is_review_group = [
        "/apis/authorization.k8s.io/",
        "/apis/authentication.k8s.io/",
    ]
    .iter()
    .any(|group| path.starts_with(group));
    *method == Method::POST
        && is_review_group
        && REVIEWS.iter().any(|review| path.ends_with(review))
}

impl HttpService {
    /// A copy that sends reads and harmless reviews only. Each other request goes to `held`, in the
    /// task of its sender, and fails. An [`ApiClient`](super::ApiClient) reports this as
    /// [`ApiError::Fenced`](super::ApiError::Fenced), which controllers treat as a write that
    /// another manager makes.
    #[must_use]
    pub fn holding_back(&self, held: Arc<dyn Fn(HeldWrite) + Send + Sync>) -> Self {
        let service = self.clone();
        let mut reading = Self::layered(tower::service_fn(move |request: Request<Body>| {
            let service = service.clone();
            let held = Arc::clone(&held);
            async move {
                if is_harmless(request.method(), request.uri().path()) {
                    return service.send(request).await;
                }
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                held(describe(parts, body));
                Err(BoxError::from(HeldBack))
            }
        }));
        reading.holds_back = true;
        reading
    }
}

fn describe(parts: Parts, body: Bytes) -> HeldWrite {
    let header = |name| {
        let value = parts.headers.get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or("")
    };
    let agent = header(USER_AGENT);
    HeldWrite {
        client: agent
            .rsplit_once('/')
            .map_or(agent, |(_, client)| client)
            .to_owned(),
        content_type: header(CONTENT_TYPE).to_owned(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or("").to_owned(),
        method: parts.method,
        body,
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use http::Response;
    use prometheus::Registry;
    use serde_json::json;
    use steersman_objects::Pod;

    use super::*;
    use crate::{ApiClient, ClientMetrics, ClientSettings, PatchKind, Target, user_agent};

    #[test]
    fn only_reads_and_reviews_are_harmless() {
        let cases = [
            (Method::GET, "/api/v1/pods", true),
            (Method::POST, "/api/v1/namespaces/a/pods", false),
            (Method::PUT, "/api/v1/namespaces/a/pods/b/status", false),
            (Method::PATCH, "/api/v1/nodes/n", false),
            (Method::DELETE, "/api/v1/namespaces/a/pods", false),
            (
                Method::POST,
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                true,
            ),
            (
                Method::POST,
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                true,
            ),
            (
                Method::POST,
                "/apis/authentication.k8s.io/v1/tokenreviews",
                true,
            ),
            (
                Method::PUT,
                "/apis/authentication.k8s.io/v1/tokenreviews",
                false,
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/serviceaccounts/b/token",
                false,
            ),
            (
                Method::POST,
                "/apis/shop.example.com/v1/tokenreviews",
                false,
            ),
        ];
        for (method, path, harmless) in cases {
            assert_eq!(is_harmless(&method, path), harmless, "{method} {path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn held_writes_do_not_wait_for_the_throttle() {
        let server = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(b"{}".to_vec())))
        });
        let settings = ClientSettings {
            user_agent: user_agent("job-controller"),
            qps: 0.1,
            burst: 1,
            timeout: Duration::from_secs(1),
        };
        let client = ApiClient::new(
            HttpService::new(server).holding_back(Arc::new(|_| {})),
            settings,
            ClientMetrics::register(&Registry::new()).unwrap(),
        );
        let pod = Target::named::<Pod>("a", "b");
        let began = tokio::time::Instant::now();
        client.get(pod).await.unwrap();
        for _ in 0..300 {
            let refusal = client.delete(pod, &json!({})).await;
            assert!(refusal.unwrap_err().is_fenced());
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        client.get(pod).await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(10), "reads wait");
    }

    #[tokio::test]
    async fn every_kind_of_write_is_described_and_never_sent() {
        let sent = Arc::new(AtomicUsize::new(0));
        let server = {
            let sent = Arc::clone(&sent);
            tower::service_fn(move |_: Request<Body>| {
                sent.fetch_add(1, Ordering::Relaxed);
                let body = Body::from(b"{}".to_vec());
                async move { Ok::<_, std::convert::Infallible>(Response::new(body)) }
            })
        };
        let held = Arc::new(Mutex::new(Vec::new()));
        let keep = {
            let held = Arc::clone(&held);
            Arc::new(move |write: HeldWrite| held.lock().push(write))
        };
        let settings = ClientSettings {
            user_agent: user_agent("job-controller"),
            qps: 0.0,
            burst: 0,
            timeout: Duration::from_secs(1),
        };
        let client = ApiClient::new(
            HttpService::new(server).holding_back(keep),
            settings,
            ClientMetrics::register(&Registry::new()).unwrap(),
        );
        assert!(!client.may_write());
        let pods = Target::collection::<Pod>("a");
        let pod = Target::named::<Pod>("a", "b");
        let patch = json!({"metadata": {"labels": {"x": "y"}}});
        let refusals = [
            client.create(pods, &patch).await,
            client.replace(pod.status(), &patch).await,
            client.patch(pod, PatchKind::Strategic, &patch).await,
            client.apply(pod, "m", &patch).await,
            client.delete(pod, &json!({})).await,
            client
                .delete_collection(pods, &json!({}), Duration::from_secs(9))
                .await,
        ];
        for refusal in refusals {
            let error = refusal.unwrap_err();
            assert!(error.is_fenced(), "{error}");
        }
        assert_eq!(sent.load(Ordering::Relaxed), 0);
        let held = std::mem::take(&mut *held.lock());
        let seen: Vec<_> = held
            .iter()
            .map(|write| format!("{} {} {}", write.method, write.path, write.content_type))
            .collect();
        let json = "application/json";
        assert_eq!(
            seen,
            [
                format!("POST /api/v1/namespaces/a/pods {json}"),
                format!("PUT /api/v1/namespaces/a/pods/b/status {json}"),
                "PATCH /api/v1/namespaces/a/pods/b application/strategic-merge-patch+json"
                    .to_owned(),
                "PATCH /api/v1/namespaces/a/pods/b application/apply-patch+yaml".to_owned(),
                format!("DELETE /api/v1/namespaces/a/pods/b {json}"),
                format!("DELETE /api/v1/namespaces/a/pods {json}"),
            ]
        );
        assert_eq!(held[0].client, "job-controller");
        assert_eq!(held[0].body, patch.to_string());
        client.get(pod).await.unwrap();
        assert_eq!(sent.load(Ordering::Relaxed), 1);
    }
}
