//! Authentication of bearer tokens by the API server.
//!
//! token -> cache -> TokenReview (one at a time per token) -> user
//!
//! Simultaneous requests with the same token share one review. Upstream:
//! `k8s.io/apiserver/pkg/authentication/token/cache` and `plugin/pkg/authenticator/token/webhook`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use parking_lot::Mutex;
use prometheus::IntGauge;
use ring::hmac;
use serde::Deserialize;
use serde_json::json;
use steersman_client::ApiClient;
use steersman_values::resource::TOKEN_REVIEWS;
use tokio::time::{Instant, timeout};

use super::cache::Expiring;
use super::metrics::AccessMetrics;
use super::review::review;
use super::user::User;

/// Time limit of a review, including all attempts.
const LIMIT: Duration = Duration::from_secs(10);

/// Maximum number of concurrent reviews. A stranger can cause any number of them with tokens that
/// differ.
const CONCURRENT: usize = 256;

/// The user, or the reason why the token is invalid. The reason may be empty.
type Outcome = Result<User, Arc<str>>;

/// Sends TokenReviews and caches their outcomes.
pub(super) struct Tokens {
    inner: Arc<Inner>,
}

/// The state that requests share with the tasks of reviews.
struct Inner {
    client: ApiClient,
    /// Time for which an outcome is cached.
    ttl: Duration,
    /// Key of the HMAC that turns tokens into cache keys. The cache therefore stores no tokens, and
    /// only this process can construct colliding keys.
    secret: hmac::Key,
    /// Cached outcomes.
    known: Expiring<Key, Outcome>,
    /// Reviews in progress.
    reviews: Mutex<HashMap<Key, Shared<BoxFuture<'static, Outcome>>>>,
    metrics: AccessMetrics,
}

/// HMAC of a token.
type Key = Vec<u8>;

/// The part of a TokenReview that the outcome depends on.
#[derive(Deserialize)]
struct TokenReview {
    #[serde(default)]
    status: TokenReviewStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TokenReviewStatus {
    authenticated: bool,
    user: UserInfo,
    error: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct UserInfo {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Tokens {
    /// Outcomes are cached for `ttl`. Fails if the operating system provides no random bytes.
    pub(super) fn new(
        client: ApiClient,
        ttl: Duration,
        metrics: AccessMetrics,
    ) -> Result<Self, ring::error::Unspecified> {
        let secret = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new())?;
        let known = Expiring::default();
        let reviews = Mutex::default();
        Ok(Self {
            inner: Arc::new(Inner {
                client,
                ttl,
                secret,
                known,
                reviews,
                metrics,
            }),
        })
    }

    /// Returns the user of `token`, from the cache or by a review.
    pub(super) async fn user(&self, token: &str) -> Outcome {
        let inner = &self.inner;
        let began = Instant::now();
        let key = hmac::sign(&inner.secret, token.as_bytes())
            .as_ref()
            .to_vec();
        if let Some(outcome) = inner.known.get(&key) {
            inner.metrics.cache.observe("hit", began.elapsed());
            return outcome;
        }
        let asked = {
            let mut reviews = inner.reviews.lock();
            if reviews.len() >= CONCURRENT && !reviews.contains_key(&key) {
                return Err("too many other tokens wait for their review".into());
            }
            let start = || {
                // A separate task: several requests may await it, and any of them may be cancelled.
                // `LIMIT` bounds its lifetime.
                let task = tokio::spawn(Arc::clone(inner).ask(key.clone(), token.to_owned()));
                task.map(|ended| {
                    ended.unwrap_or_else(|_| Err("authentication failed unexpectedly".into()))
                })
                .boxed()
                .shared()
            };
            reviews.entry(key.clone()).or_insert_with(start).clone()
        };
        let blocked = GaugeGuard::new(&inner.metrics, "blocked");
        let outcome = asked.await;
        drop(blocked);
        inner.metrics.cache.observe("miss", began.elapsed());
        outcome
    }
}

/// Increments a gauge while it exists.
struct GaugeGuard(IntGauge);

impl GaugeGuard {
    fn new(metrics: &AccessMetrics, status: &str) -> Self {
        let gauge = metrics.active.with_label_values(&[status]);
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Removes a review from `Inner::reviews` when it ends, also by a panic.
struct ReviewGuard<'a>(&'a Inner, Key);

impl Drop for ReviewGuard<'_> {
    fn drop(&mut self) {
        self.0.reviews.lock().remove(&self.1);
    }
}

impl Inner {
    /// Sends one TokenReview, and caches its outcome.
    async fn ask(self: Arc<Self>, key: Key, token: String) -> Outcome {
        let _over = ReviewGuard(&self, key.clone());
        let _active = GaugeGuard::new(&self.metrics, "in_flight");
        let document = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let asked = review::<TokenReview>(
            &self.client,
            &TOKEN_REVIEWS,
            &document,
            &self.metrics.token_reviews,
        );
        let reviewed = timeout(LIMIT, asked)
            .await
            .map_err(|_| format!("no answer within {LIMIT:?}"))
            .flatten();
        let outcome = match reviewed {
            Err(error) => {
                tracing::error!(error, "Failed to make webhook authenticator request");
                self.metrics.fetches.with_label_values(&["error"]).inc();
                return Err(error.into());
            }
            Ok(review) => judge(review.status),
        };
        // If the review itself reports an error, another attempt may succeed. Do not cache it.
        let failed = outcome.as_ref().is_err_and(|reason| !reason.is_empty());
        self.metrics
            .fetches
            .with_label_values(&[if failed { "error" } else { "ok" }])
            .inc();
        if !failed {
            self.known.put(key, outcome.clone(), self.ttl);
        }
        outcome
    }
}

/// Translates the status of a TokenReview.
fn judge(status: TokenReviewStatus) -> Outcome {
    if !status.authenticated {
        return Err(status.error.into());
    }
    let UserInfo {
        username,
        uid,
        groups,
        extra,
    } = status.user;
    Ok(User {
        name: username,
        uid,
        groups,
        extra,
    })
}

/// The bearer token of a request: from the header `Authorization`, or from the list of WebSocket
/// protocols. Browsers cannot set `Authorization` on WebSockets.
pub(super) fn token_of(headers: &HeaderMap) -> Option<String> {
    bearer(headers).or_else(|| protocol(headers))
}

/// The token in the header `Authorization: Bearer <token>`.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let mut parts = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split(' ');
    let scheme = parts.next()?;
    let token = parts.next().filter(|token| !token.is_empty())?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.to_owned())
}

/// The token in `Sec-WebSocket-Protocol`, base64url-encoded after a fixed prefix. It counts only
/// for upgrades to WebSocket.
fn protocol(headers: &HeaderMap) -> Option<String> {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let is_upgrade = headers
        .get(http::header::UPGRADE)?
        .to_str()
        .ok()?
        .eq_ignore_ascii_case("websocket");
    let lists = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .into_iter()
        .filter_map(|list| list.to_str().ok());
    let mut encoded = lists
        .flat_map(|list| list.split(','))
        .filter_map(|protocol| {
            protocol
                .trim()
                .strip_prefix("base64url.bearer.authorization.k8s.io.")
                .map(str::to_owned)
        });
    let token = URL_SAFE_NO_PAD
        .decode(encoded.next().filter(|_| is_upgrade)?)
        .ok()?;
    String::from_utf8(token)
        .ok()
        .filter(|token| !token.is_empty())
}
