//! Access control with each kind of credentials, against a scripted API server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response as HttpResponse};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use prometheus::Registry;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use steersman_client::{ClientMetrics, ClientSettings};

use super::*;
use crate::config::{AuthenticationSettings, AuthorizationSettings, ProxyHeaders};

const TTL: Duration = Duration::from_secs(10);

/// A certificate authority that issues client certificates.
struct Authority {
    key: KeyPair,
    params: CertificateParams,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { key, params, pem }
    }

    /// Issues a certificate for `name` in `groups`; `change` edits it before it is signed.
    fn certificate(
        &self,
        name: &str,
        groups: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if !name.is_empty() {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        // `rcgen` keeps only one value per attribute type.
        if let [group] = groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let issuer = Issuer::from_params(&self.params, &self.key);
        params
            .signed_by(&KeyPair::generate().unwrap(), &issuer)
            .unwrap()
            .der()
            .clone()
    }
}

/// An API server that answers reviews and serves the ConfigMap, and records the reviews it
/// receives.
#[derive(Default)]
struct Api {
    /// Scripted answers to reviews, in order. When it is empty, a token is the name of its user,
    /// and `jane` may get `/metrics`.
    script: Mutex<VecDeque<(u16, Value)>>,
    /// The ConfigMap with the trusted authorities; 404 while it is `None`.
    config_map: Mutex<Option<Value>>,
    /// Status code of ConfigMap requests; 0 means the regular answer.
    config_map_status: AtomicUsize,
    /// Number of reviews received.
    reviews: AtomicUsize,
    /// Bodies of the reviews received.
    asked: Mutex<Vec<Value>>,
}

impl Api {
    fn client(self: &Arc<Self>) -> ApiClient {
        let api = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = Arc::clone(&api);
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let (code, answer) = api.answer(&head.uri.to_string(), &body);
                let text = answer.to_string() + "\n";
                Ok::<_, std::convert::Infallible>(
                    HttpResponse::builder()
                        .status(code)
                        .body(Body::from(text.into_bytes()))
                        .unwrap(),
                )
            }
        });
        let settings = ClientSettings {
            user_agent: "test".to_owned(),
            qps: 0.0,
            burst: 0,
            timeout: Duration::from_secs(5),
        };
        let metrics = ClientMetrics::register(&Registry::new()).unwrap();
        ApiClient::new(kube::Client::new(service, "default"), settings, metrics)
    }

    fn answer(&self, uri: &str, body: &[u8]) -> (u16, Value) {
        if uri.contains("/configmaps") {
            let status = self.config_map_status.load(Ordering::Relaxed);
            if status != 0 {
                return (
                    u16::try_from(status).unwrap(),
                    json!({"kind": "Status", "status": "Failure", "message": "no"}),
                );
            }
            return match &*self.config_map.lock() {
                Some(map) if uri.contains("watch=true") => {
                    (200, json!({"type": "ADDED", "object": map}))
                }
                Some(map) => (200, map.clone()),
                None => (
                    404,
                    json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "not found"}),
                ),
            };
        }
        self.reviews.fetch_add(1, Ordering::Relaxed);
        let review: Value = serde_json::from_slice(body).unwrap();
        self.asked.lock().push(review.clone());
        if let Some(answer) = self.script.lock().pop_front() {
            return answer;
        }
        let spec = &review["spec"];
        match review["kind"].as_str().unwrap() {
            "TokenReview" => match spec["token"].as_str().unwrap() {
                "bad" => (201, json!({"status": {"authenticated": false}})),
                "audience" => (
                    201,
                    json!({"status": {"error": "token audiences [\"x\"] is invalid for the target audiences"}}),
                ),
                user => (
                    201,
                    json!({"status": {"authenticated": true, "user": {"username": user, "groups": ["people"]}}}),
                ),
            },
            _ => {
                let is_jane = spec["user"] == "jane"
                    && spec["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"});
                (
                    201,
                    json!({"status": {"allowed": is_jane, "reason": if is_jane { "" } else { "RBAC: not found" }}}),
                )
            }
        }
    }

    fn next(&self, code: u16, answer: Value) {
        self.script.lock().push_back((code, answer));
    }

    fn reviews(&self) -> usize {
        self.reviews.load(Ordering::Relaxed)
    }
}

struct World {
    api: Arc<Api>,
    access: Arc<Access>,
    registry: Registry,
}

fn world(change: impl FnOnce(&mut Delegation)) -> World {
    try_world(change, true).unwrap()
}

/// As [`world`]. With `asks`, access control has clients for reviews.
fn try_world(change: impl FnOnce(&mut Delegation), asks: bool) -> Result<World, AccessError> {
    let mut settings = Delegation {
        authentication: AuthenticationSettings {
            token_ttl: TTL,
            ..AuthenticationSettings::default()
        },
        authorization: AuthorizationSettings {
            kubeconfig: None,
            always_allow: vec!["/healthz".to_owned(), "/open/*".to_owned()],
            allowed_ttl: TTL,
            other_ttl: TTL * 2,
        },
    };
    change(&mut settings);
    let api = Arc::new(Api::default());
    let registry = Registry::new();
    let metrics = AccessMetrics::register(&registry).unwrap();
    let queues = QueueMetrics::register(&registry).unwrap();
    let client = || asks.then(|| api.client());
    let access = Access::delegated(
        &settings,
        client(),
        client(),
        &queues,
        metrics,
        Clock::system(),
    )?;
    Ok(World {
        api,
        access: Arc::new(access),
        registry,
    })
}

/// Feature gate `UnauthenticatedHTTP2DOSMitigation`.
#[tokio::test]
async fn answers_to_anonymous_users_are_marked() {
    // (gate, version, path, authorization, whether the answer is marked)
    let cases = [
        (true, Version::HTTP_2, "/metrics", "", true),
        (true, Version::HTTP_2, "/healthz", "", true),
        (true, Version::HTTP_2, "/metrics", "Bearer bad", true),
        (true, Version::HTTP_2, "/metrics", "Bearer jane", false),
        (true, Version::HTTP_11, "/metrics", "", false),
        (false, Version::HTTP_2, "/metrics", "", false),
        (false, Version::HTTP_2, "/metrics", "Bearer bad", false),
    ];
    for (is_on, version, path, authorization, expected) in cases {
        let world = world(|settings| settings.authentication.keeps_anonymous = !is_on);
        let request = Request::builder().uri(path).version(version);
        let request = if authorization.is_empty() {
            request
        } else {
            request.header("authorization", authorization)
        };
        let (head, ()) = request.body(()).unwrap().into_parts();
        let peer = Peer {
            address: SocketAddr::from(([192, 0, 2, 1], 4000)),
            certificates: None,
        };
        let answer = match world.access.check(&head, &peer).await {
            Ok(caller) => {
                let mut answer = Response::default();
                caller.mark(version, &mut answer);
                answer
            }
            Err(refusal) => refusal,
        };
        let is_marked = answer.extensions().get::<OfAnonymous>().is_some();
        assert_eq!(
            is_marked, expected,
            "{is_on} {version:?} {path} {authorization}"
        );
    }
}

type Headers<'a> = &'a [(&'static str, &'a str)];

impl World {
    /// Status and body of the refusal of a GET; 200 and an empty body if it is allowed.
    async fn get(
        &self,
        path: &str,
        headers: Headers<'_>,
        certificate: Option<&CertificateDer<'static>>,
    ) -> (u16, String) {
        self.ask("GET", path, headers, certificate).await
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: Headers<'_>,
        certificate: Option<&CertificateDer<'static>>,
    ) -> (u16, String) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("user-agent", "curl/8");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let chain: Vec<_> = certificate.cloned().into_iter().collect();
        let peer = Peer {
            address: SocketAddr::from(([192, 0, 2, 1], 4000)),
            certificates: Chain::read(&chain).unwrap().map(Arc::new),
        };
        let Err(refusal) = self.access.check(&head, &peer).await else {
            return (200, String::new());
        };
        let (head, body) = refusal.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (
            head.status.as_u16(),
            String::from_utf8_lossy(&body).into_owned(),
        )
    }

    /// Status of `GET /metrics` with this bearer token.
    async fn token(&self, token: &str) -> u16 {
        self.get(
            "/metrics",
            &[("authorization", &format!("Bearer {token}"))],
            None,
        )
        .await
        .0
    }

    /// The names of the queues, in alphabetical order.
    fn queues(&self) -> Vec<String> {
        let families = self.registry.gather();
        let family = families.iter().find(|f| f.name() == "workqueue_adds_total");
        let metrics = family.map(|f| f.get_metric()).unwrap_or_default();
        let names = metrics.iter().map(|m| m.get_label()[0].value().to_owned());
        names.collect()
    }

    fn count(&self, family: &str, label: &str) -> f64 {
        let families = self.registry.gather();
        let metrics = families
            .iter()
            .find(|f| f.name() == family)
            .map(|f| f.get_metric())
            .unwrap_or_default();
        let found = metrics
            .iter()
            .find(|m| m.get_label().iter().any(|l| l.value() == label));
        found.map_or(0.0, |m| m.get_counter().get_value())
    }
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// As seen on kube-controller-manager 1.36.2.
#[tokio::test]
async fn queues_tell_the_sources_of_authorities() {
    const OF_CLIENTS: &str = "DynamicCABundle-client-ca-bundle";
    const OF_PROXIES: &str = "DynamicCABundle-request-header";
    const OF_MAP: &str = "DynamicConfigMapCABundle-client-ca";
    const HEADERS: &str = "RequestHeaderAuthRequestController";
    let bundle = file(&Authority::new("both").pem);
    // (file of clients, file of proxies, looks up, queues)
    let cases: [(bool, bool, bool, &[&str]); 5] = [
        (true, true, true, &[OF_CLIENTS, OF_PROXIES]),
        (true, false, true, &[OF_CLIENTS, OF_MAP, HEADERS]),
        (false, true, true, &[OF_PROXIES, OF_MAP]),
        (false, false, true, &[OF_MAP, HEADERS]),
        (true, false, false, &[OF_CLIENTS]),
    ];
    for (clients, proxies, looks_up, expected) in cases {
        let path = |named: bool| named.then(|| bundle.path().to_owned());
        let world = world(|settings| {
            settings.authentication.client_ca = path(clients);
            settings.authentication.proxy_ca = path(proxies);
            settings.authentication.skip_lookup = !looks_up;
        });
        assert_eq!(world.queues(), expected, "{clients} {proxies} {looks_up}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_without_credentials_reach_only_always_allowed_paths() {
    let world = world(|_| {});
    let cases = [
        ("/healthz", 200),
        ("/open/door", 200),
        ("/healthz/ping", 403),
        ("/healthzz", 403),
        ("/metrics", 403),
    ];
    for (path, status) in cases {
        assert_eq!(world.get(path, &[], None).await.0, status, "{path}");
    }
    let basic = world
        .get(
            "/metrics",
            &[("authorization", "Basic amFuZTpzZWNyZXQ=")],
            None,
        )
        .await;
    assert_eq!(
        basic.0, 403,
        "an unsupported authentication scheme counts as no credentials"
    );
    assert!(basic.1.contains("system:anonymous"), "{basic:?}");
    let asked = world.api.asked.lock();
    assert_eq!(
        asked[0]["spec"]["groups"],
        json!(["system:unauthenticated"])
    );
    assert_eq!(world.count("authentication_attempts", "success"), 6.0);
}

#[tokio::test(start_paused = true)]
async fn refusals_equal_upstreams_responses() {
    let world = try_world(|_| {}, false).unwrap();
    let (status, body) = world.get("/metrics", &[], None).await;
    assert_eq!((status, body.len()), (403, 224));
    assert_eq!(
        body,
        "{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {},\n  \"status\": \"Failure\",\n  \"message\": \
         \"forbidden: User \\\"system:anonymous\\\" cannot get path \\\"/metrics\\\"\",\n  \"reason\": \"Forbidden\",\n  \
         \"details\": {},\n  \"code\": 403\n}"
    );
    let (_, body) = world.ask("POST", "/a&b", &[], None).await;
    assert!(
        body.contains(r#"cannot post path \"/a\u0026amp;b\""#),
        "{body}"
    );
    let (_, body) = world.get("/metrics?pretty=false", &[], None).await;
    assert!(body.starts_with(r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"forbidden"#));
    assert!(
        body.ends_with("\"reason\":\"Forbidden\",\"details\":{},\"code\":403}\n"),
        "{body}"
    );
    let (_, body) = world
        .get("/metrics", &[("accept", "application/yaml")], None)
        .await;
    let message = "message: 'forbidden: User \"system:anonymous\" cannot get path \"/metrics\"'\n";
    assert!(
        body.starts_with("apiVersion: v1\ncode: 403\ndetails: {}\nkind: Status\n")
            && body.contains(message),
        "{body}"
    );
    let (_, body) = world
        .get(
            "/metrics",
            &[("accept", "application/vnd.kubernetes.protobuf")],
            None,
        )
        .await;
    assert!(
        body.starts_with("k8s\0\n\u{c}\n\u{2}v1\u{12}\u{6}Status\u{12}"),
        "{body:?}"
    );

    let world = self::world(|_| {});
    let (status, body) = world
        .get("/metrics", &[("authorization", "Bearer bad")], None)
        .await;
    assert_eq!((status, body.len()), (401, 157));
    assert!(
        body.ends_with(
            "  \"message\": \"Unauthorized\",\n  \"reason\": \"Unauthorized\",\n  \"code\": 401\n}"
        ),
        "{body}"
    );
}

#[tokio::test(start_paused = true)]
async fn callers_may_get_the_objects_that_reviews_allow() {
    let world = world(|_| {});
    let caller = |name: &str, groups: &[&str]| Caller {
        access: Arc::clone(&world.access),
        user: Some(User {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..User::default()
        }),
    };
    let of = &steersman_values::resource::DEPLOYMENTS;
    assert!(caller("admin", &[MASTERS]).may_get(of, "a", "web").await);
    assert_eq!(world.api.reviews(), 0, "masters need no review");
    world.api.next(201, json!({"status": {"allowed": true}}));
    assert!(caller("joe", &[]).may_get(of, "a", "web").await);
    let asked = world.api.asked.lock()[0]["spec"]["resourceAttributes"].clone();
    let expected = json!({
        "verb": "get", "group": "apps", "version": "v1", "resource": "deployments", "namespace": "a", "name": "web",
    });
    assert_eq!(asked, expected);
    assert!(
        !caller("joe", &[]).may_get(of, "b", "web").await,
        "another namespace"
    );
    assert!(
        !caller("joe", &[]).may_get(of, "a", "").await,
        "all of the namespace"
    );
}

#[tokio::test(start_paused = true)]
async fn reviews_of_tokens_and_permissions_are_cached() {
    let world = world(|_| {});
    for _ in 0..3 {
        assert_eq!(world.token("jane").await, 200);
    }
    assert_eq!(world.api.reviews(), 2);
    assert_eq!(
        world.api.asked.lock()[1]["spec"]["groups"],
        json!(["people", "system:authenticated"])
    );
    assert_eq!(world.token("joe").await, 403);
    assert_eq!(world.token("bad").await, 401);
    assert_eq!(world.token("bad").await, 401);
    assert_eq!(world.api.reviews(), 5, "a rejected token is cached too");
    assert_eq!(world.token("audience").await, 401);
    assert_eq!(world.token("audience").await, 401);
    assert_eq!(
        world.api.reviews(),
        7,
        "an error in the review status is not cached"
    );

    tokio::time::advance(TTL).await;
    assert_eq!(world.token("jane").await, 200);
    assert_eq!(world.api.reviews(), 9);
    assert_eq!(world.token("joe").await, 403);
    assert_eq!(world.api.reviews(), 10, "denials are cached for longer");
    let count = |family, label| world.count(family, label);
    assert_eq!(
        count("authentication_token_cache_request_total", "hit"),
        3.0
    );
    assert_eq!(count("apiserver_delegated_authn_request_total", "201"), 7.0);
    assert_eq!(count("authorization_attempts_total", "no-opinion"), 2.0);
}

#[tokio::test(start_paused = true)]
async fn simultaneous_requests_share_one_review() {
    let world = world(|_| {});
    let all = futures::future::join_all((0..20).map(|_| world.token("jane"))).await;
    assert_eq!(all, [200; 20]);
    let tokens = world
        .api
        .asked
        .lock()
        .iter()
        .filter(|review| review["kind"] == "TokenReview")
        .count();
    assert_eq!(tokens, 1);
}

#[tokio::test(start_paused = true)]
async fn reviews_are_retried_a_limited_number_of_times() {
    let world = world(|_| {});
    let trouble = || json!({"kind": "Status", "status": "Failure", "message": "etcd is away"});
    for _ in 0..2 {
        world.api.next(500, trouble());
    }
    assert_eq!(world.token("jane").await, 200, "the third attempt succeeds");

    for _ in 0..5 {
        world.api.next(500, trouble());
    }
    assert_eq!(
        world.token("joe").await,
        401,
        "no review succeeded, so the token is invalid"
    );
    assert_eq!(world.api.script.lock().len(), 0);
    for _ in 0..5 {
        world.api.next(503, trouble());
    }
    let (status, body) = world.get("/metrics?a=1&b=2", &[], None).await;
    let expected = "Internal Server Error: \"/metrics?a=1&amp;b=2\": etcd is away\n";
    assert_eq!((status, body.as_str()), (500, expected));
    world
        .api
        .next(201, json!({"status": {"allowed": true, "denied": true}}));
    assert_eq!(
        world.get("/configz", &[], None).await.0,
        500,
        "a contradictory review is an error"
    );
}

/// `certificate`, which must end after 2049, with an end of validity that is out of range.
fn ending_beyond_all_years(certificate: &CertificateDer<'_>) -> CertificateDer<'static> {
    let was: &[u8] = b"\x18\x0f";
    let is: &[u8] = b"\x18\x1399991231235959-2359";
    let mut der = certificate.to_vec();
    let end = der.windows(2).position(|tag| tag == was).unwrap();
    der.splice(end..end + 17, is.iter().copied());
    // The lengths to adjust: certificate, TBS part, and the validity; `notBefore` takes 15 bytes.
    for length in [3, 7, end - 16] {
        der[length] += 4;
    }
    CertificateDer::from(der)
}

#[tokio::test(start_paused = true)]
async fn certificates_that_cannot_be_parsed_are_refused() {
    let clients = Authority::new("clients");
    let bundle = file(&clients.pem);
    let world = world(|settings| {
        settings.authentication.client_ca = Some(bundle.path().to_owned());
        settings.authentication.proxy_ca = Some(bundle.path().to_owned());
    });
    let good = clients.certificate("jane", &[], |params| {
        params.not_after = rcgen::date_time_ymd(2126, 1, 2)
    });
    assert_eq!(world.get("/metrics", &[], Some(&good)).await.0, 200);
    for bad in [
        ending_beyond_all_years(&good),
        CertificateDer::from(vec![0x30]),
        CertificateDer::from(Vec::new()),
    ] {
        for chain in [vec![bad.clone()], vec![good.clone(), bad.clone()]] {
            let error = Chain::read(&chain).unwrap_err().to_string();
            assert!(
                error.starts_with("tls: failed to parse client certificate: x509: "),
                "{error}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn certificates_need_a_trusted_authority_validity_and_client_usage() {
    let clients = Authority::new("clients");
    let others = Authority::new("others");
    let bundle = file(&clients.pem);
    let world = world(|settings| {
        settings.authentication.client_ca = Some(bundle.path().to_owned());
        settings.authentication.skip_lookup = true;
    });
    assert!(world.access.wants_certificates());
    let past = |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let future =
        |params: &mut CertificateParams| params.not_before = rcgen::date_time_ymd(2400, 1, 1);
    let server = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]
    };
    let any = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::Any,
        ]
    };
    let unlimited = |params: &mut CertificateParams| params.extended_key_usages = Vec::new();
    // (why, certificate, status of /metrics)
    let cases = [
        (
            "permitted user",
            clients.certificate("jane", &[], |_| {}),
            200,
        ),
        ("other user", clients.certificate("joe", &[], |_| {}), 403),
        (
            "member of system:masters",
            clients.certificate("root", &["system:masters"], |_| {}),
            200,
        ),
        (
            "no common name",
            clients.certificate("", &["system:masters"], |_| {}),
            403,
        ),
        (
            "another authority",
            others.certificate("jane", &["system:masters"], |_| {}),
            401,
        ),
        ("expired", clients.certificate("jane", &[], past), 401),
        (
            "not valid yet",
            clients.certificate("jane", &[], future),
            401,
        ),
        (
            "for server authentication",
            clients.certificate("jane", &[], server),
            401,
        ),
        ("for any usage", clients.certificate("jane", &[], any), 200),
        (
            "without a list of usages",
            clients.certificate("jane", &[], unlimited),
            200,
        ),
    ];
    for (why, certificate, status) in &cases {
        assert_eq!(
            world.get("/metrics", &[], Some(certificate)).await.0,
            *status,
            "{why}"
        );
    }
    assert_eq!(
        world.get("/healthz", &[], Some(&cases[4].1)).await.0,
        401,
        "invalid credentials are refused on every path"
    );
    let with_token = world
        .get(
            "/metrics",
            &[("authorization", "Bearer jane")],
            Some(&cases[4].1),
        )
        .await;
    assert_eq!(with_token.0, 200, "a valid token is accepted instead");
    let asked = world.api.asked.lock();
    let id = asked[0]["spec"]["extra"]["authentication.kubernetes.io/credential-id"][0]
        .as_str()
        .unwrap();
    assert_eq!(
        (asked[0]["spec"]["user"].as_str(), id.len()),
        (Some("jane"), "X509SHA256=".len() + 64)
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_bundle_file_is_reloaded() {
    let old = Authority::new("old");
    let new = Authority::new("new");
    let bundle = file(&old.pem);
    let world =
        world(|settings| settings.authentication.client_ca = Some(bundle.path().to_owned()));
    let before = old.certificate("jane", &[], |_| {});
    let after = new.certificate("jane", &[], |_| {});
    assert_eq!(world.get("/metrics", &[], Some(&before)).await.0, 200);
    assert_eq!(world.get("/metrics", &[], Some(&after)).await.0, 401);
    std::fs::write(bundle.path(), &new.pem).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(world.get("/metrics", &[], Some(&after)).await.0, 200);
    assert_eq!(world.get("/metrics", &[], Some(&before)).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn proxy_headers_count_only_with_a_trusted_proxy_certificate() {
    let clients = Authority::new("clients");
    let proxies = Authority::new("proxies");
    let client_bundle = file(&clients.pem);
    let proxy_bundle = file(&proxies.pem);
    let world = world(|settings| {
        settings.authentication.client_ca = Some(client_bundle.path().to_owned());
        settings.authentication.proxy_ca = Some(proxy_bundle.path().to_owned());
        settings.authentication.proxy_headers = ProxyHeaders {
            username: vec!["X-Remote-User".to_owned()],
            groups: vec!["X-Remote-Group".to_owned()],
            allowed_names: vec!["front-proxy".to_owned()],
            ..ProxyHeaders::default()
        };
    });
    let proxy = proxies.certificate("front-proxy", &[], |_| {});
    let impostor = proxies.certificate("impostor", &[], |_| {});
    let client = clients.certificate("joe", &[], |_| {});
    let as_jane: Headers<'_> = &[("x-remote-user", "jane")];
    let as_master: Headers<'_> = &[
        ("x-remote-user", "joe"),
        ("x-remote-group", "system:masters"),
    ];
    // (why, certificate, headers, status of /metrics)
    let cases = [
        ("proxy names a user", Some(&proxy), as_jane, 200),
        (
            "proxy names a member of system:masters",
            Some(&proxy),
            as_master,
            200,
        ),
        ("proxy names no user", Some(&proxy), &[], 401),
        (
            "common name is not on the allow list",
            Some(&impostor),
            as_jane,
            401,
        ),
        (
            "client certificate instead of a proxy's",
            Some(&client),
            as_master,
            403,
        ),
        ("no certificate", None, as_master, 403),
    ];
    for (why, certificate, headers, status) in cases {
        assert_eq!(
            world.get("/metrics", headers, certificate).await.0,
            status,
            "{why}"
        );
    }
}

fn config_map(clients: &Authority, proxies: &Authority) -> Value {
    json!({"metadata": {"name": "extension-apiserver-authentication"}, "data": {
        "client-ca-file": clients.pem,
        "requestheader-client-ca-file": proxies.pem,
        "requestheader-username-headers": "[\"X-Remote-User\"]",
        "requestheader-group-headers": "[\"X-Remote-Group\"]",
        "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        "requestheader-allowed-names": "[\"front-proxy\"]",
    }})
}

#[tokio::test(start_paused = true)]
async fn trusted_authorities_follow_the_config_map() {
    let clients = Authority::new("clients");
    let proxies = Authority::new("proxies");
    let next = Authority::new("next");
    let World {
        api,
        access,
        registry,
    } = world(|_| {});
    // The ConfigMap does not exist yet, which is accepted.
    access.look_up().await.unwrap();
    let world = World {
        api,
        access,
        registry,
    };
    let jane = clients.certificate("jane", &[], |_| {});
    assert_eq!(
        world.get("/metrics", &[], Some(&jane)).await.0,
        403,
        "no authority is known yet, so the client is anonymous"
    );

    *world.api.config_map.lock() = Some(config_map(&clients, &proxies));
    let stop = CancellationToken::new();
    let proxy = proxies.certificate("front-proxy", &[], |_| {});
    let later = next.certificate("jane", &[], |_| {});
    let story = async {
        let wait_for = async |certificate: &CertificateDer<'static>| {
            while world.get("/metrics", &[], Some(certificate)).await.0 != 200 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        wait_for(&jane).await;
        assert_eq!(
            world
                .get("/metrics", &[("x-remote-user", "jane")], Some(&proxy))
                .await
                .0,
            200
        );
        *world.api.config_map.lock() = Some(config_map(&next, &proxies));
        wait_for(&later).await;
        assert_eq!(
            world.get("/metrics", &[], Some(&jane)).await.0,
            401,
            "the authority was replaced"
        );
        let mut broken = config_map(&clients, &proxies);
        broken["data"]["client-ca-file"] = json!("oops");
        *world.api.config_map.lock() = Some(broken);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(
            world.get("/metrics", &[], Some(&later)).await.0,
            200,
            "an invalid ConfigMap keeps the previous authorities"
        );
        stop.cancel();
    };
    let both = async { tokio::join!(world.access.follow(stop.clone()), story) };
    tokio::time::timeout(Duration::from_secs(3600), both)
        .await
        .expect("the changes take effect within an hour");
}

#[tokio::test(start_paused = true)]
async fn a_refused_lookup_is_fatal_unless_tolerated() {
    // (--authentication-tolerate-lookup-failure, status of the ConfigMap request, accepted)
    for (tolerate, code, ok) in [
        (false, 403, false),
        (false, 401, false),
        (true, 403, true),
        (false, 404, true),
        (false, 500, true),
    ] {
        let world = world(|settings| settings.authentication.tolerate_lookup_failure = tolerate);
        if code != 404 {
            world.api.config_map_status.store(code, Ordering::Relaxed);
        }
        let looked_up = world.access.look_up().await;
        assert_eq!(looked_up.is_ok(), ok, "{tolerate} {code}: {looked_up:?}");
        if let Err(error) = looked_up {
            let text = error.to_string();
            assert!(
                text.starts_with(
                    "unable to load configmap based request-header-client-ca-file: no; "
                ),
                "{text}"
            );
            assert!(
                text.contains("extension-apiserver-authentication-reader"),
                "{text}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_api_server_only_files_provide_trust() {
    let clients = Authority::new("clients");
    let bundle = file(&clients.pem);
    let world = try_world(
        |settings| settings.authentication.client_ca = Some(bundle.path().to_owned()),
        false,
    )
    .unwrap();
    assert_eq!(
        world.token("jane").await,
        403,
        "a token is ignored when no API server can review it"
    );
    let master = clients.certificate("root", &["system:masters"], |_| {});
    assert_eq!(world.get("/metrics", &[], Some(&master)).await.0, 200);
    assert!(
        !try_world(|_| {}, false)
            .unwrap()
            .access
            .wants_certificates()
    );
}

#[test]
fn errors_of_invalid_bundles_name_the_file() {
    for (text, reason) in [
        (
            "",
            "data does not contain any valid RSA or ECDSA certificates",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "not the certificate of an authority",
        ),
    ] {
        let bundle = file(text);
        let path = bundle.path().to_owned();
        let made = try_world(
            |settings| settings.authentication.client_ca = Some(path.clone()),
            false,
        );
        let error = made.err().unwrap().to_string();
        assert!(
            error.starts_with(&format!(
                "unable to load client CA provider: {}: {reason}",
                path.display()
            )),
            "{error}"
        );
    }
    let missing = try_world(
        |settings| settings.authentication.proxy_ca = Some("/nowhere/ca.crt".into()),
        false,
    );
    let error = missing.err().unwrap().to_string();
    assert!(
        error.starts_with(
            "unable to create request header authentication config: open /nowhere/ca.crt: no such file"
        ),
        "{error}"
    );
}
