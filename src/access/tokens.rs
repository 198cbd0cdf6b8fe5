//! Bearer tokens, which the API server is asked about.
//!
//! token -> cache -> (one review at a time per token) TokenReview -> user

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use prometheus::IntGauge;
use ring::hmac;
use serde::Deserialize;
use serde_json::json;
use steersman_runtime::client::ApiClient;
use steersman_runtime::resource::TOKEN_REVIEWS;
use tokio::time::{Instant, timeout};

use super::cache::Expiring;
use super::metrics::AccessMetrics;
use super::review::review;
use super::user::User;

/// Time for a review, with all its attempts.
const LIMIT: Duration = Duration::from_secs(10);

/// The user, or why there is none.
type Outcome = Result<User, Arc<str>>;

/// Asks the API server who a token belongs to.
pub(super) struct Tokens {
    inner: Arc<Inner>,
}

struct Inner {
    client: ApiClient,
    ttl: Duration,
    /// So that the cache holds no tokens, and nobody can choose keys that collide.
    secret: hmac::Key,
    known: Expiring<Key, Outcome>,
    asking: Mutex<HashMap<Key, Shared<BoxFuture<'static, Outcome>>>>,
    metrics: AccessMetrics,
}

type Key = Vec<u8>;

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
    /// Answers are kept for `ttl`.
    pub(super) fn new(
        client: ApiClient,
        ttl: Duration,
        metrics: AccessMetrics,
    ) -> Result<Self, ring::error::Unspecified> {
        let secret = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new())?;
        let (known, asking) = (Expiring::default(), Mutex::default());
        Ok(Self {
            inner: Arc::new(Inner {
                client,
                ttl,
                secret,
                known,
                asking,
                metrics,
            }),
        })
    }

    /// The user behind `token`.
    pub(super) async fn user(&self, token: &str) -> Outcome {
        let (inner, began) = (&self.inner, Instant::now());
        let key = hmac::sign(&inner.secret, token.as_bytes())
            .as_ref()
            .to_vec();
        if let Some(outcome) = inner.known.get(&key) {
            inner.metrics.cache.observe("hit", began.elapsed());
            return outcome;
        }
        let asked = {
            let mut asking = inner.asking.lock().unwrap_or_else(PoisonError::into_inner);
            let start = || {
                // A task of its own, as several requests may wait for it and any of them may be
                // given up. It ends within its limit.
                let task = tokio::spawn(Arc::clone(inner).ask(key.clone(), token.to_owned()));
                task.map(|ended| {
                    ended.unwrap_or_else(|_| Err("authentication failed unexpectedly".into()))
                })
                .boxed()
                .shared()
            };
            asking.entry(key.clone()).or_insert_with(start).clone()
        };
        let blocked = Counted::new(&inner.metrics, "blocked");
        let outcome = asked.await;
        drop(blocked);
        inner.metrics.cache.observe("miss", began.elapsed());
        outcome
    }
}

/// Something under way, for as long as this lives.
struct Counted(IntGauge);

impl Counted {
    fn new(metrics: &AccessMetrics, status: &str) -> Self {
        let gauge = metrics.active.with_label_values(&[status]);
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Forgets a review when it is over, however it ends.
struct Asking<'a>(&'a Inner, Key);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0
            .asking
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.1);
    }
}

impl Inner {
    async fn ask(self: Arc<Self>, key: Key, token: String) -> Outcome {
        let _over = Asking(&self, key.clone());
        let _active = Counted::new(&self.metrics, "in_flight");
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
        // Where the review itself says what is wrong with a token, asking again may give another
        // answer.
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

/// The token a request carries, in its `Authorization` header or, as browsers have to, in the list
/// of WebSocket protocols.
pub(super) fn token_of(headers: &HeaderMap) -> Option<String> {
    bearer(headers).or_else(|| protocol(headers))
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let mut parts = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split(' ');
    let scheme = parts.next()?;
    let token = parts.next().filter(|token| !token.is_empty())?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.to_owned())
}

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
