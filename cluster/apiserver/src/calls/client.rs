//! Calls webhooks over HTTPS.
//!
//! A webhook has a URL, or is a Service. A Service of type `ExternalName` leads to its external
//! name, such as `localhost`. All other Services have simulated pods, which give no answer.
//!
//! Upstream: `pkg/util/webhook/client.go` and `pkg/util/proxy` of `k8s.io/apiserver`.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use serde_json::Value;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Call;
use super::exchange::send_and_read;
use super::transport::{self, Trust};
use crate::Server;
use crate::apimachinery::errors::{list, text};

/// The largest answer, as upstream's.
const MAX_ANSWER: usize = 3 << 20;

/// Where a call goes.
struct Endpoint {
    /// In requests and messages.
    url: String,
    /// In certificates.
    name: String,
    host: String,
    port: u16,
}

/// Why a call has no answer, in the words of Go's HTTP client.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CallError {
    /// The configuration of the webhook is unusable.
    #[error("could not get REST client: {0}")]
    Client(String),
    #[error("failed to call webhook: {0}")]
    Call(String),
}

impl Server {
    /// Sends a review, and reads the answer.
    pub(super) async fn post_to(&self, call: &Call) -> Result<Value, CallError> {
        let client = &call.client;
        let url = url_of(client, call.seconds);
        let failed = |why: String| CallError::Call(format!("Post {url:?}: {why}"));
        let endpoint = self.endpoint(client, &url).map_err(&failed)?;
        let bundle = Trust::Bundle(text(client, "caBundle"));
        let connector = transport::connector(bundle, None).map_err(CallError::Client)?;
        let posting = post(&endpoint, &connector, &call.review);
        match timeout(Duration::from_secs(call.seconds), posting).await {
            Ok(Ok(response)) => answer(&response).map_err(CallError::Call),
            Ok(Err(why)) => Err(failed(why)),
            Err(_) => Err(failed("context deadline exceeded".to_owned())),
        }
    }

    /// Resolves a URL or a Service.
    fn endpoint(&self, client: &Value, url: &str) -> Result<Endpoint, String> {
        let service = &client["service"];
        let uri: Uri = url.parse().map_err(|why| format!("{why}"))?;
        let name = uri.host().unwrap_or_default();
        let name = name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let port = uri.port_u16().unwrap_or(443);
        let endpoint = |host: String| Endpoint {
            url: url.to_owned(),
            name: name.clone(),
            host,
            port,
        };
        if !service.is_object() {
            return Ok(endpoint(name.clone()));
        }
        let namespace = text(service, "namespace");
        let service = text(service, "name");
        let found = self
            .find_object("services", &format!("{namespace}/{service}"))
            .ok_or_else(|| format!("service {service:?} not found"))?
            .to_value();
        let spec = &found["spec"];
        if text(spec, "type") == "ExternalName" {
            return Ok(endpoint(text(spec, "externalName").to_owned()));
        }
        if !list(spec, "ports").iter().any(|one| one["port"] == port) {
            return Err(format!(
                "no service port {port} found for service {service:?}"
            ));
        }
        Err(format!("no endpoints available for service {service:?}"))
    }
}

fn url_of(client: &Value, seconds: u64) -> String {
    let service = &client["service"];
    let base = match client["url"].as_str() {
        Some(url) => url.to_owned(),
        None => format!(
            "https://{}.{}.svc:{}/{}",
            text(service, "name"),
            text(service, "namespace"),
            service["port"].as_u64().unwrap_or(443),
            text(service, "path").trim_start_matches('/')
        ),
    };
    format!("{base}?timeout={seconds}s")
}

async fn post(
    endpoint: &Endpoint,
    tls: &TlsConnector,
    review: &Value,
) -> Result<Response<Bytes>, String> {
    let uri: Uri = endpoint.url.parse().map_err(|why| format!("{why}"))?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let request = Request::builder()
        .method(Method::POST)
        .uri(target)
        .header(
            "host",
            uri.authority().map_or("", |authority| authority.as_str()),
        )
        .header("user-agent", "kube-apiserver-admission")
        .header("accept", "application/json, */*")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(review.to_string())))
        .map_err(|why| why.to_string())?;
    let opened = transport::open(&endpoint.host, endpoint.port, &endpoint.name, tls).await;
    send_and_read(opened?, request, MAX_ANSWER).await
}

/// The body of an answer, or Kubernetes' words for its code.
fn answer(response: &Response<Bytes>) -> Result<Value, String> {
    match response.status().as_u16() {
        200..=299 => serde_json::from_slice(response.body())
            .map_err(|why| format!("couldn't get version/kind; json parse error: {why}")),
        404 => Err("the server could not find the requested resource".to_owned()),
        500..=599 => Err(
            "an error on the server (\"unknown\") has prevented the request from succeeding"
                .to_owned(),
        ),
        _ => Err("unknown".to_owned()),
    }
}
