//! Admission webhooks, called over HTTPS on this machine. All messages are those of
//! kube-apiserver 1.36.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, DnType, IsCa, SanType, date_time_ymd};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use tokio::net::TcpListener;

use crate::support::hook::{Certificate, Hook, Respond};
use crate::support::{Answer, ask, clock, send};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn respond(review: &Value, response: Value) -> Value {
    let mut answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    answer["response"]["uid"] = review["request"]["uid"].clone();
    answer
}

fn patch(review: &Value, operations: Value) -> Value {
    let patch = STANDARD.encode(operations.to_string());
    respond(
        review,
        json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}),
    )
}

fn configuration(kind: &str, client: Value, rest: Value) -> Value {
    let mut webhook = json!({
        "name": "h.ex.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": client,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["configmaps"]}],
    });
    let fields = webhook.as_object_mut().unwrap();
    fields.extend(rest.as_object().unwrap().clone());
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": "c"}, "webhooks": [webhook],
    })
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

async fn create(cluster: &DevCluster, data: Value) -> Answer {
    send(cluster, "POST", CONFIG_MAPS, &config_map("a", data)).await
}

/// The code and message of a creation under this configuration.
async fn refusal(configuration: Value) -> (u16, String) {
    let cluster = DevCluster::new(clock());
    cluster.create(configuration).await.unwrap();
    let answer = create(&cluster, json!({"a": "y"})).await;
    (
        answer.code,
        answer.body["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    )
}

async fn validated(respond: Respond) -> (u16, String) {
    let hook = Hook::start(respond).await;
    refusal(configuration("Validating", hook.client(), json!({}))).await
}

async fn mutated(respond: Respond) -> (u16, String) {
    let hook = Hook::start(respond).await;
    refusal(configuration("Mutating", hook.client(), json!({}))).await
}

fn broken(why: &str) -> (u16, String) {
    let message = format!("Internal error occurred: failed calling webhook \"h.ex.com\": {why}");
    (500, message)
}

#[tokio::test]
async fn a_validating_webhook_refuses_in_its_own_words() {
    let denied = |code: u16, why: &str| {
        (
            code,
            format!("admission webhook \"h.ex.com\" denied the request{why}"),
        )
    };
    let no = validated(|review| {
        respond(
            review,
            json!({"allowed": false, "status": {"message": "no", "code": 403}}),
        )
    })
    .await;
    assert_eq!(no, denied(403, ": no"));
    let silent = validated(|review| respond(review, json!({"allowed": false}))).await;
    assert_eq!(silent, denied(400, " without explanation"));
    let reason = validated(|review| {
        respond(
            review,
            json!({"allowed": false, "status": {"reason": "Conflict", "code": 409}}),
        )
    })
    .await;
    assert_eq!(reason, denied(409, ": Conflict"));
}

#[tokio::test]
async fn wrong_answers_of_webhooks_refuse_the_request() {
    let invalid = |why: &str| broken(&format!("received invalid webhook response: {why}"));
    let absent =
        validated(|_| json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}))
            .await;
    assert_eq!(absent, invalid("webhook response was absent"));
    let kind = validated(|_| json!({"apiVersion": "v1", "kind": "Foo"})).await;
    assert_eq!(
        kind,
        broken(
            "failed to call webhook: no kind \"Foo\" is registered for version \"v1\" in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\""
        )
    );
    let patched = validated(|review| patch(review, json!([]))).await;
    assert_eq!(
        patched,
        invalid("validating webhook may not return response.patch")
    );
    let untyped =
        mutated(|review| respond(review, json!({"allowed": true, "patch": "W10="}))).await;
    assert_eq!(
        untyped,
        invalid("webhook returned response.patch but not response.patchType")
    );
    let missing =
        mutated(|review| patch(review, json!([{"op": "remove", "path": "/data/nope"}]))).await;
    assert_eq!(missing, (500, "Internal error occurred: error in remove for path: '/data/nope': Unable to remove nonexistent key: nope: missing value".to_owned()));
}

#[tokio::test]
async fn unreachable_webhooks_follow_the_failure_policy() {
    let hook = Hook::start(|review| respond(review, json!({"allowed": true}))).await;
    let client = |url: &str| json!({"url": url, "caBundle": hook.authority});
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("https://{closed}/x");
    let why = format!(
        "failed to call webhook: Post \"{url}?timeout=10s\": dial tcp {closed}: connect: connection refused"
    );
    let failing = configuration("Validating", client(&url), json!({}));
    assert_eq!(refusal(failing).await, broken(&why));
    let ignoring = configuration(
        "Validating",
        client(&url),
        json!({"failurePolicy": "Ignore"}),
    );
    assert_eq!(refusal(ignoring).await.0, 201);

    let url = format!("https://127.0.0.1:{}/x", hook.port);
    let why = format!(
        "failed to call webhook: Post \"{url}?timeout=10s\": tls: failed to verify certificate: x509: certificate signed by unknown authority"
    );
    let untrusted = configuration("Validating", json!({"url": url}), json!({}));
    assert_eq!(refusal(untrusted).await, broken(&why));
}

#[tokio::test]
async fn a_certificate_can_vouch_for_itself() {
    let allow: Respond = |review| respond(review, json!({"allowed": true}));
    let answer = async |certificate: Certificate| {
        let hook = Hook::with(certificate, allow).await;
        let (code, message) = refusal(configuration("Validating", hook.client(), json!({}))).await;
        let (_, why) = message.split_once("x509: ").unwrap_or_default();
        (code, why.to_owned())
    };
    let trusted = (201, String::new());
    assert_eq!(answer(Certificate::self_signed(|_| {})).await, trusted);
    let authority = Certificate::self_signed(|params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    assert_eq!(answer(authority).await, trusted);

    let named = |names: Vec<SanType>| {
        Certificate::self_signed(|params| {
            params.subject_alt_names = names;
            params
                .distinguished_name
                .push(DnType::CommonName, "127.0.0.1");
        })
    };
    let other = vec![SanType::IpAddress([127, 0, 0, 9].into())];
    let dns = vec![SanType::DnsName("a.b".try_into().unwrap())];
    let cases = [
        (
            named(other),
            "certificate is valid for 127.0.0.9, not 127.0.0.1",
        ),
        (
            named(dns),
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (
            named(Vec::new()),
            "certificate relies on legacy Common Name field, use SANs instead",
        ),
        (
            Certificate::self_signed(|params| params.not_after = date_time_ymd(2001, 1, 1)),
            "certificate has expired or is not yet valid: current time ",
        ),
    ];
    for (certificate, expected) in cases {
        let (code, why) = answer(certificate).await;
        assert!(code == 500 && why.starts_with(expected), "{code} {why}");
    }
}

#[tokio::test]
async fn services_lead_to_their_external_names() {
    let hook =
        Hook::start(|review| respond(review, json!({"allowed": true, "warnings": ["called"]})))
            .await;
    let client = json!({"service": {"name": "hook", "namespace": "default", "port": hook.port, "path": "/p"}, "caBundle": hook.authority});
    let config = configuration("Validating", client, json!({}));
    let post = format!(
        "failed to call webhook: Post \"https://hook.default.svc:{}/p?timeout=10s\": ",
        hook.port
    );
    assert_eq!(
        refusal(config.clone()).await,
        broken(&format!("{post}service \"hook\" not found"))
    );

    let service = |spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook", "namespace": "default"}, "spec": spec});
    let cluster = DevCluster::new(clock());
    cluster.create(config.clone()).await.unwrap();
    cluster
        .create(service(json!({"ports": [{"port": hook.port}]})))
        .await
        .unwrap();
    let answer = create(&cluster, json!({})).await;
    assert_eq!(
        answer.body["message"].as_str().unwrap(),
        broken(&format!(
            "{post}no endpoints available for service \"hook\""
        ))
        .1
    );

    let cluster = DevCluster::new(clock());
    cluster.create(config).await.unwrap();
    cluster
        .create(service(
            json!({"type": "ExternalName", "externalName": "localhost"}),
        ))
        .await
        .unwrap();
    let answer = create(&cluster, json!({})).await;
    assert_eq!(
        (answer.code, answer.warnings),
        (201, vec!["called".to_owned()])
    );
}

#[tokio::test]
async fn a_mutating_webhook_changes_new_and_changed_objects() {
    let hook = Hook::start(|review| {
        patch(
            review,
            json!([{"op": "add", "path": "/data/z", "value": "1"}]),
        )
    })
    .await;
    let cluster = DevCluster::new(clock());
    let rest = json!({"matchConditions": [{"name": "not-deleted", "expression": "request.operation != 'DELETE'"}]});
    cluster
        .create(configuration("Mutating", hook.client(), rest))
        .await
        .unwrap();
    let created = create(&cluster, json!({"a": "y"})).await;
    assert_eq!(created.body["data"], json!({"a": "y", "z": "1"}));
    let one = format!("{CONFIG_MAPS}/a");
    let changed = send(&cluster, "PUT", &one, &config_map("a", json!({"b": "y"}))).await;
    assert_eq!(changed.body["data"], json!({"b": "y", "z": "1"}));
    assert_eq!(send(&cluster, "DELETE", &one, &json!({})).await.code, 200);

    let requests = hook.requests();
    let operations: Vec<_> = requests
        .iter()
        .map(|request| request["operation"].as_str().unwrap())
        .collect();
    assert_eq!(operations, ["CREATE", "UPDATE"]);
    assert_eq!(
        requests[0]["kind"],
        json!({"group": "", "version": "v1", "kind": "ConfigMap"})
    );
    assert_eq!(requests[0]["object"]["metadata"]["uid"], Value::Null);
    assert_eq!(
        requests[1]["oldObject"]["data"],
        json!({"a": "y", "z": "1"})
    );
}

#[tokio::test]
async fn generated_names_reach_the_validating_webhook() {
    let hook = Hook::start(|review| respond(review, json!({"allowed": true}))).await;
    let cluster = DevCluster::new(clock());
    cluster
        .create(configuration("Validating", hook.client(), json!({})))
        .await
        .unwrap();
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}});
    let created = send(&cluster, "POST", CONFIG_MAPS, &object).await;
    let requests = hook.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        requests[0]["object"]["metadata"]["name"],
        created.body["metadata"]["name"]
    );
    assert_eq!(
        requests[0]["object"]["metadata"]["uid"],
        created.body["metadata"]["uid"]
    );
}

#[tokio::test]
async fn the_address_of_a_service_is_the_one_that_the_validating_webhook_saw() {
    let hook = Hook::start(|review| respond(review, json!({"allowed": true}))).await;
    let cluster = DevCluster::new(clock());
    let rest = json!({"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}]});
    cluster
        .create(configuration("Validating", hook.client(), rest))
        .await
        .unwrap();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]},
    });
    let path = "/api/v1/namespaces/default/services";
    let created = send(&cluster, "POST", path, &service).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let requests = hook.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0]["object"]["spec"], created.body["spec"]);
}

#[tokio::test]
async fn the_deletion_of_a_collection_lists_all_deleted_objects() {
    let hook = Hook::start(|review| respond(review, json!({"allowed": true}))).await;
    let cluster = DevCluster::new(clock());
    let path = format!("{CONFIG_MAPS}?labelSelector=a%3Db");
    for name in ["a", "b", "c"] {
        let mut object = config_map(name, json!({}));
        object["metadata"]["labels"] = json!({"a": "b"});
        send(&cluster, "POST", CONFIG_MAPS, &object).await;
    }
    cluster
        .create(configuration("Validating", hook.client(), json!({})))
        .await
        .unwrap();
    let deleted = send(&cluster, "DELETE", &path, &json!({})).await;
    let names: Vec<_> = deleted.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(hook.requests().len(), 3);
}

#[tokio::test]
async fn a_patch_is_reviewed_again_if_the_object_changes_meanwhile() {
    let hook = Hook::start(|review| respond(review, json!({"allowed": true}))).await;
    let cluster = DevCluster::new(clock());
    create(&cluster, json!({"a": "1"})).await;
    let rest = json!({"matchConditions": [{"name": "b", "expression": "has(object.data.b)"}]});
    cluster
        .create(configuration("Validating", hook.client(), rest))
        .await
        .unwrap();
    let patch = async |key: &str| {
        let body = json!({"data": {key: "1"}}).to_string();
        let one = format!("{CONFIG_MAPS}/a");
        let kind = "application/merge-patch+json";
        ask(&cluster.client(), "PATCH", &one, kind, body.as_bytes()).await
    };
    let held = hook.hold().await;
    let other = async {
        hook.asked(1).await;
        let other = patch("c").await;
        drop(held);
        other
    };
    let (patched, other) = tokio::join!(patch("b"), other);
    assert_eq!(other.body["data"], json!({"a": "1", "c": "1"}));
    assert_eq!(patched.body["data"], json!({"a": "1", "b": "1", "c": "1"}));
    let requests = hook.requests();
    let seen: Vec<_> = requests
        .iter()
        .map(|request| &request["oldObject"]["data"])
        .collect();
    assert_eq!(seen, [&json!({"a": "1"}), &other.body["data"]]);
}

#[tokio::test]
async fn a_namespace_that_goes_while_a_webhook_answers_gets_no_object() {
    let hook = Hook::start(|review| respond(review, json!({"allowed": true}))).await;
    let cluster = DevCluster::new(clock());
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}))
        .await
        .unwrap();
    cluster
        .create(configuration("Validating", hook.client(), json!({})))
        .await
        .unwrap();
    let held = hook.hold().await;
    let deletion = async {
        hook.asked(1).await;
        let deleted = send(&cluster, "DELETE", "/api/v1/namespaces/n", &json!({})).await;
        drop(held);
        deleted
    };
    let path = "/api/v1/namespaces/n/configmaps";
    let object = config_map("a", json!({}));
    let (created, deleted) = tokio::join!(send(&cluster, "POST", path, &object), deletion);
    assert_eq!((created.code, deleted.code), (403, 200));
    assert_eq!(
        created.body["message"],
        "configmaps \"a\" is forbidden: unable to create new content in namespace n because it is being terminated"
    );
}

#[tokio::test]
async fn wrong_configurations_are_refused() {
    let url = json!({"url": "https://x.y/z"});
    let cases = [
        (
            url.clone(),
            json!({"name": "x"}),
            "webhooks[0].name: Invalid value: \"x\": should be a domain with at least three segments separated by dots",
        ),
        (
            url.clone(),
            json!({"sideEffects": "Some"}),
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
        ),
        (
            url.clone(),
            json!({"timeoutSeconds": 31}),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            url,
            json!({"admissionReviewVersions": ["v2"]}),
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
        ),
        (
            json!({}),
            json!({}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (
            json!({"url": "http://x/y?a=b"}),
            json!({}),
            "[webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path], webhooks[0].clientConfig.url: Invalid value: \"a=b\": query parameters are not permitted in the URL]",
        ),
        (
            json!({"service": {"name": "x", "namespace": "", "port": 0}}),
            json!({}),
            "[webhooks[0].clientConfig.service.name: Required value, webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive]",
        ),
    ];
    let cluster = DevCluster::new(clock());
    for (client, rest, problem) in cases {
        let refused = cluster
            .create(configuration("Validating", client, rest))
            .await
            .unwrap_err();
        let (_, shown) = refused.message.split_once(" is invalid: ").unwrap();
        assert_eq!(shown, problem);
    }
}

/// Code and message of the answer to an apply of the new ConfigMap `b`, which must come.
async fn applied(cluster: &DevCluster) -> (u16, Value) {
    let client = cluster.client();
    let body = config_map("b", json!({})).to_string();
    let path = format!("{CONFIG_MAPS}/b?fieldManager=m");
    let apply = "application/apply-patch+yaml";
    let answer = ask(&client, "PATCH", &path, apply, body.as_bytes());
    let limit = std::time::Duration::from_secs(30);
    let answer = tokio::time::timeout(limit, answer).await.unwrap();
    (answer.code, answer.body["message"].clone())
}

#[tokio::test]
async fn an_apply_that_a_webhook_denies_as_a_duplicate_is_refused() {
    let cluster = DevCluster::new(clock());
    let hook = Hook::start(|review| {
        let status =
            json!({"reason": "AlreadyExists", "code": 409, "details": {"name": "b"}, "message": "no"});
        respond(review, json!({"allowed": false, "status": status}))
    })
    .await;
    let denying = configuration("Validating", hook.client(), json!({}));
    cluster.create(denying).await.unwrap();
    let applied = applied(&cluster).await;
    let denied = "admission webhook \"h.ex.com\" denied the request: no";
    assert_eq!(applied, (409, json!(denied)));
}

/// kube-apiserver stores such an object under the name of the request, where a read finds another
/// name. A creation by POST is refused on both servers.
#[tokio::test]
async fn an_apply_that_a_webhook_renames_to_an_existing_object_is_refused() {
    let cluster = DevCluster::new(clock());
    create(&cluster, json!({})).await;
    let hook = Hook::start(|review| {
        let rename = json!([{"op": "replace", "path": "/metadata/name", "value": "a"}]);
        patch(review, rename)
    })
    .await;
    let renaming = configuration("Mutating", hook.client(), json!({}));
    cluster.create(renaming).await.unwrap();
    let applied = applied(&cluster).await;
    assert_eq!(applied, (409, json!("configmaps \"a\" already exists")));
}
