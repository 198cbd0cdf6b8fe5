//! Sends reviews to the API server, and retries after passing failures.
//!
//! Timing follows upstream's webhook back-off, `k8s.io/apiserver/pkg/util/webhook`.

use std::time::Duration;

use rand::Rng;
use serde::de::DeserializeOwned;
use serde_json::Value;
use steersman_client::{ApiClient, Target};
use steersman_values::resource::ResourceType;
use tokio::time::{Instant, sleep};

use super::metrics::Timed;

/// Maximum number of attempts, the pause after the first one, and its growth factor.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(500);
const GROWTH: f64 = 1.5;
/// Each pause is extended by up to this fraction.
const JITTER: f64 = 0.2;

/// Creates `document` and decodes the answer. The error is a text, because callers only log it or
/// return it to the client.
pub(super) async fn review<R: DeserializeOwned>(
    client: &ApiClient,
    resource: &ResourceType,
    document: &Value,
    metrics: &Timed,
) -> Result<R, String> {
    let target = Target {
        resource,
        namespace: None,
        name: None,
        subresource: None,
    };
    let mut pause = PAUSE;
    for attempt in 1.. {
        let began = Instant::now();
        let answer = client.create(target, document).await;
        let code = match &answer {
            Ok(_) => "201".to_owned(),
            Err(error) => error
                .code()
                .map_or_else(|| "<error>".to_owned(), |code| code.to_string()),
        };
        metrics.observe(&code, began.elapsed());
        match answer {
            Ok(body) => {
                return serde_json::from_slice(&body)
                    .map_err(|error| format!("{resource}: {error}"));
            }
            Err(error) if attempt < ATTEMPTS && error.is_transient() => {
                let jitter = 1.0 + JITTER * rand::rng().random::<f64>();
                sleep(pause.mul_f64(jitter)).await;
                pause = pause.mul_f64(GROWTH);
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    unreachable!("the last attempt returns")
}
