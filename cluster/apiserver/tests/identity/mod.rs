//! Compares users, their rights and their certificates with a real server. Each scenario is a list of
//! requests (`certificates.json`, `nodes.json`, `tokens.json`); `scripts/record-identity.py` has
//! recorded the answers of kube-apiserver.
//!
//! `known.txt` lists the requests with another answer, with the reason. The test fails for an
//! unlisted difference, and for a listed request without one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::User;
use steersman_devcluster::https::HttpsDoor;
use steersman_values::clock::Clock;
use tower::Service;

use crate::support::recorded::{differ, known, masked};

const LOCALHOST: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const PUBLIC_KEY: &str = include_str!("token-key.pub.pem");
/// A key of this test only.
const PRIVATE_KEY: &str = include_str!("token-key.pem");

/// A request, or a token to sign. The fields `eventually` and `until...` are for the recorder, which
/// waits for the caches of the real server.
#[derive(Deserialize)]
struct Step {
    name: String,
    #[serde(default)]
    method: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    body: Option<Value>,
    #[serde(default, rename = "type")]
    content_type: Option<String>,
    #[serde(default)]
    accept: Option<String>,
    #[serde(default, rename = "as")]
    user: Requester,
    /// Variables that later steps use, and their paths in the answer.
    #[serde(default)]
    capture: BTreeMap<String, String>,
    /// The paths that are compared, if not the whole body.
    #[serde(default)]
    part: Option<String>,
    #[serde(default)]
    sign: Option<Signing>,
}

/// The user of a request: the admin, the owner of a token, or a user that the admin impersonates.
#[derive(Deserialize, Default)]
struct Requester {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
}

#[derive(Deserialize)]
struct Signing {
    into: String,
    claims: Value,
    #[serde(default)]
    head: Option<Value>,
}

#[tokio::test(start_paused = true)]
async fn certificates_equal_those_of_a_real_server() {
    let steps = include_str!("certificates.json");
    let answers = include_str!("certificates.answers.json");
    compare("certificates", steps, answers).await;
}

#[tokio::test(start_paused = true)]
async fn rights_of_nodes_equal_those_of_a_real_server() {
    let steps = include_str!("nodes.json");
    let answers = include_str!("nodes.answers.json");
    compare("nodes", steps, answers).await;
}

#[tokio::test(start_paused = true)]
async fn tokens_equal_those_of_a_real_server() {
    let steps = include_str!("tokens.json");
    let answers = include_str!("tokens.answers.json");
    compare("tokens", steps, answers).await;
}

#[tokio::test(start_paused = true)]
async fn the_date_of_token_tracking_is_restored() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let cluster = DevCluster::new(Clock::runtime(now));
    let _door = cluster.serve_https(LOCALHOST).await.unwrap();
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let path = cluster.path("configmaps", "kube-system", name);
    let since = async || cluster.get(&path).await.unwrap()["data"]["since"].clone();
    assert_eq!(since().await, "2026-01-01");
    tokio::time::advance(std::time::Duration::from_secs(24 * 60 * 60)).await;
    for (bad, restored) in [("2025-12-31", "2025-12-31"), ("soon", "2026-01-02")] {
        let patch = json!({"data": {"since": bad}});
        cluster.patch(&path, patch).await.unwrap();
        assert_eq!(since().await, restored);
    }
    cluster.delete(&path).await.unwrap();
    assert_eq!(since().await, "2026-01-02");
}

async fn compare(scenario: &str, steps: &str, answers: &str) {
    let steps: Vec<Step> = serde_json::from_str(steps).unwrap();
    let answers: BTreeMap<String, Value> = serde_json::from_str(answers).unwrap();
    let known = known(include_str!("known.txt"));
    let mut replay = Replay::new().await;
    let mut problems = String::new();
    let mut found = BTreeSet::new();
    for step in &steps {
        let Some(answer) = replay.run(step).await else {
            continue;
        };
        let id = format!("{scenario}/{}", step.name.replace(' ', "-"));
        if let Some(difference) = differ(&masked(&answers[&step.name]), &masked(&answer)) {
            if !known.contains_key(&id) {
                writeln!(problems, "--- {id} differs\n{difference}").unwrap();
            }
            found.insert(id);
        }
    }
    let listed = known.keys().filter(|id| id.starts_with(scenario));
    for id in listed.filter(|id| !found.contains(*id)) {
        writeln!(
            problems,
            "--- {id} is listed as known to differ, but is equal"
        )
        .unwrap();
    }
    assert!(problems.is_empty(), "\n{problems}");
}

/// A cluster, and the variables of a scenario.
struct Replay {
    cluster: DevCluster,
    /// The ConfigMap of token tracking exists while the server listens.
    _door: HttpsDoor,
    variables: HashMap<String, String>,
}

impl Replay {
    async fn new() -> Self {
        // The day of the recording, because answers have dates.
        let now: Timestamp = "2026-11-23T00:00:00Z".parse().unwrap();
        let cluster = DevCluster::new(Clock::runtime(now));
        let door = cluster.serve_https(LOCALHOST).await.unwrap();
        cluster.add_token("admin-token", User::admin().with_uid("1"));
        cluster.add_service_account_keys(PUBLIC_KEY).unwrap();
        let pem: BTreeMap<String, String> = serde_json::from_str(include_str!("pem.json")).unwrap();
        let variables = pem
            .into_iter()
            .map(|(name, text)| (format!("pem:{name}"), text));
        Self {
            cluster,
            _door: door,
            variables: variables.collect(),
        }
    }

    /// The text with its variables replaced.
    fn filled(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.variables {
            filled = filled.replace(&format!("${{{name}}}"), value);
        }
        filled
    }

    /// The answer in the form of the recordings. `None` for a step without a request.
    async fn run(&mut self, step: &Step) -> Option<Value> {
        if let Some(signing) = &step.sign {
            let claims: Value =
                serde_json::from_str(&self.filled(&signing.claims.to_string())).unwrap();
            let token = sign(signing.head.clone(), &claims);
            if signing.into == "legacy" {
                self.variables
                    .insert("forged:legacy".to_owned(), forged(&token));
            }
            self.variables.insert(signing.into.clone(), token);
            return None;
        }
        let body = step
            .body
            .as_ref()
            .map(|body| self.filled(&body.to_string()));
        let token = step.user.token.as_deref().unwrap_or("admin-token");
        let mut request = Request::builder()
            .method(&*step.method)
            .uri(&step.path)
            .header("authorization", format!("Bearer {}", self.filled(token)))
            .header(
                "accept",
                step.accept.as_deref().unwrap_or("application/json"),
            )
            .header(
                "content-type",
                step.content_type.as_deref().unwrap_or("application/json"),
            );
        if let Some(user) = &step.user.user {
            request = request.header("impersonate-user", user);
        }
        for group in &step.user.groups {
            request = request.header("impersonate-group", group);
        }
        let body = Full::new(Bytes::from(body.unwrap_or_default()));
        let mut service = self.cluster.service_as(User::anonymous());
        let response = service.call(request.body(body).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let warnings: Vec<String> = response
            .headers()
            .get_all("warning")
            .iter()
            .map(|warning| warning.to_str().unwrap().to_owned())
            .collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = || json!(String::from_utf8_lossy(&bytes));
        let mut body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
        for (variable, path) in &step.capture {
            let value = at(&body, path).as_str().unwrap_or_default().to_owned();
            self.variables.insert(variable.clone(), value);
        }
        if let Some(paths) = &step.part
            && (200..300).contains(&status)
        {
            let parts = paths.split(' ');
            let parts = parts.map(|path| (path.to_owned(), at(&body, path).clone()));
            body = parts.collect::<Map<_, _>>().into();
        }
        let mut text = without_managers(body).to_string();
        let is_token = |value: &&String| value.len() > 20 && value.matches('.').count() == 2;
        for token in self.variables.values().filter(is_token) {
            text = text.replace(token.as_str(), "<token>");
        }
        let body: Value = serde_json::from_str(&text).unwrap();
        Some(json!({"status": status, "warnings": warnings, "body": body}))
    }
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, key| &value[key])
}

fn without_managers(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| name != "managedFields")
            .map(|(name, value)| (name, without_managers(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_managers).collect(),
        other => other,
    }
}

/// A token that the key of this test signs.
fn sign(head: Option<Value>, claims: &Value) -> String {
    let der = |pem: &str| {
        let lines = pem.lines().filter(|line| !line.starts_with("-----"));
        let text: String = lines.collect();
        base64::engine::general_purpose::STANDARD
            .decode(text)
            .unwrap()
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, &der(PUBLIC_KEY));
    let id = URL_SAFE_NO_PAD.encode(digest);
    let head = head.unwrap_or_else(|| json!({"alg": "RS256", "kid": id}));
    let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let text = format!("{}.{}", encoded(&head), encoded(claims));
    let key = RsaKeyPair::from_pkcs8(&der(PRIVATE_KEY)).unwrap();
    let mut signature = vec![0; key.public().modulus_len()];
    let random = SystemRandom::new();
    key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature)
        .unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// The token with another first character of its signature.
fn forged(token: &str) -> String {
    let (text, signature) = token.rsplit_once('.').unwrap();
    let other = if signature.starts_with('A') { 'B' } else { 'A' };
    format!("{text}.{other}{}", &signature[1..])
}
