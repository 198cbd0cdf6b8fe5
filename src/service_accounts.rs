//! `--use-service-account-credentials`: each controller uses its own service account.
//!
//! request -> cached token, or a new one (create the ServiceAccount if missing -> TokenRequest) ->
//! request with the token
//!
//! Each controller then has only the permissions of its role, and audit logs name the controller.
//! Upstream: `DynamicControllerClientBuilder` in `k8s.io/controller-manager/pkg/clientbuilder`.

use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use kube::client::Body;
use serde::Deserialize;
use serde_json::json;
use steersman_client::{ApiClient, ApiError, HttpService, ResponseBody, Target};
use steersman_values::resource::SERVICE_ACCOUNTS;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tower::BoxError;

/// Namespace of the service accounts. Ordinary users have no access to it.
pub(crate) const NAMESPACE: &str = "kube-system";
/// Requested lifetime of a token.
const LIFETIME: Duration = Duration::from_secs(3600);
/// A shorter granted lifetime is treated as this one, because clocks of two machines may differ.
const SHORTEST: Duration = Duration::from_secs(600);
/// Fraction of its lifetime for which a token is used.
const USED: f64 = 0.8;
/// Number of attempts at a token, and the pause after the first one; it doubles each time.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);

/// No token could be obtained.
#[derive(Debug, thiserror::Error)]
#[error("failed to get token for {NAMESPACE}/{account}: {source}")]
struct TokenError {
    account: String,
    #[source]
    source: ApiError,
}

/// A token as a header, and the instant of its replacement.
struct Held {
    header: HeaderValue,
    until: Instant,
}

/// The current token of one service account.
struct Tokens {
    /// Name of the service account.
    account: String,
    /// Client with the manager's own credentials; it requests tokens.
    accounts: ApiClient,
    held: Mutex<Option<Held>>,
}

/// A client with tokens of the service account `account`; `accounts` requests them. `anonymous`
/// must send no credentials of its own, because a client certificate would take precedence over a
/// token.
pub(crate) fn client(anonymous: HttpService, accounts: ApiClient, account: &str) -> HttpService {
    let tokens = Arc::new(Tokens {
        account: account.to_owned(),
        accounts,
        held: Mutex::default(),
    });
    let service = tower::service_fn(move |request: Request<Body>| {
        let anonymous = anonymous.clone();
        let tokens = Arc::clone(&tokens);
        async move { tokens.send(&anonymous, request).await }
    });
    HttpService::layered(service)
}

impl Tokens {
    /// Sends a request with the current token. A 401 discards the token, so that the next attempt
    /// uses a new one.
    async fn send(
        &self,
        anonymous: &HttpService,
        mut request: Request<Body>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let header = self.header().await?;
        request.headers_mut().insert(AUTHORIZATION, header.clone());
        let response = anonymous.send(request).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            self.forget(&header).await;
        }
        Ok(response)
    }

    /// The header with a valid token. Concurrent callers wait for the same TokenRequest.
    async fn header(&self) -> Result<HeaderValue, TokenError> {
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_ref().filter(|held| Instant::now() < held.until) {
            return Ok(held.header.clone());
        }
        let mut pause = PAUSE;
        for attempt in 1.. {
            match self.request().await {
                Ok(new) => return Ok(held.insert(new).header.clone()),
                // Once the write gate is closed, no attempt can succeed.
                Err(source) if attempt == ATTEMPTS || matches!(source, ApiError::Fenced { .. }) => {
                    return Err(TokenError {
                        account: self.account.clone(),
                        source,
                    });
                }
                Err(error) => tracing::warn!(account = self.account, %error, "get token failed"),
            }
            sleep(pause).await;
            pause *= 2;
        }
        unreachable!("the last attempt returns")
    }

    /// Drops a token that the API server rejected. The service account may have been recreated,
    /// which invalidates its tokens.
    async fn forget(&self, header: &HeaderValue) {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|held| held.header == header) {
            *held = None;
        }
    }

    /// Requests a token; creates the service account if it is missing.
    async fn request(&self) -> Result<Held, ApiError> {
        let account = Target {
            resource: &SERVICE_ACCOUNTS,
            namespace: Some(NAMESPACE),
            name: Some(&self.account),
            subresource: None,
        };
        match self.accounts.get(account).await {
            Err(error) if error.is_not_found() => self.make().await?,
            read => drop(read?),
        }
        let wanted = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME.as_secs()},
        });
        let began = Instant::now();
        let answer = self
            .accounts
            .create(
                Target {
                    subresource: Some("token"),
                    ..account
                },
                &wanted,
            )
            .await?;
        let unusable = |source: BoxError| ApiError::Decode {
            request: format!("token of {}", self.account),
            source,
        };
        let Granted { spec, status } =
            serde_json::from_slice(&answer).map_err(|error| unusable(error.into()))?;
        let mut header = HeaderValue::try_from(format!("Bearer {}", status.token))
            .map_err(|error| unusable(error.into()))?;
        header.set_sensitive(true);
        let lifetime = Duration::from_secs(spec.expiration_seconds).max(SHORTEST);
        Ok(Held {
            header,
            until: began + lifetime.mul_f64(USED),
        })
    }

    /// Creates the service account.
    async fn make(&self) -> Result<(), ApiError> {
        let collection = Target {
            resource: &SERVICE_ACCOUNTS,
            namespace: Some(NAMESPACE),
            name: None,
            subresource: None,
        };
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": NAMESPACE, "name": self.account},
        });
        match self.accounts.create(collection, &account).await {
            // Another manager has created it in the meantime.
            Err(error) if error.is_already_exists() => Ok(()),
            made => made.map(drop),
        }
    }
}

/// The answer to a TokenRequest. The server may grant another lifetime than requested.
#[derive(Deserialize)]
struct Granted {
    spec: GrantedSpec,
    status: GrantedStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GrantedSpec {
    expiration_seconds: u64,
}

#[derive(Deserialize)]
struct GrantedStatus {
    token: String,
}
