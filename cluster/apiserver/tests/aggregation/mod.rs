//! APIServices that lead to a program on this machine. The expected answers are those of
//! kube-apiserver 1.36.2 with such a program.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, BodyStream, Full};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::User;
use tokio::net::TcpListener;
use tower::Service;

use crate::support::hook::Certificate;
use program::{Program, resources};

mod checks;
mod documents;
mod program;
mod proxy;

const PATIENCE: Duration = Duration::from_secs(30);
const VERSION: &str = "/apis/things.example.com/v1";
const THINGS: &str = "/apis/things.example.com/v1/namespaces/default/things";
const BROKEN: &str = "/apis/things.example.com/v1/broken";
const ECHO: &str = "/apis/things.example.com/v1/echo";
const SILENT: &str = "/apis/things.example.com/v1/silent";
const DOCUMENT: &str = "/openapi/v3/apis/things.example.com/v1";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn api_service(certificate: &Certificate, port: u16) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.things.example.com"},
        "spec": {"group": "things.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "caBundle": certificate.bundle(), "service": {"name": "hook", "namespace": "default", "port": port}},
    })
}

fn external_name() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}})
}

async fn ask(
    cluster: &DevCluster,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response<steersman_devcluster::rest::Body> {
    let user = User {
        uid: "7".to_owned(),
        extra: [(
            "example.com/scopes".to_owned(),
            vec!["a".to_owned(), "b".to_owned()],
        )]
        .into(),
        ..User::new("jane", ["system:masters", "makers"])
    };
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::from(Bytes::from(body.to_owned())));
    cluster
        .service_as(user)
        .call(request.unwrap())
        .await
        .unwrap()
}

async fn read(response: Response<steersman_devcluster::rest::Body>) -> (u16, String) {
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(cluster: &DevCluster, path: &str) -> (u16, String) {
    read(ask(cluster, "GET", path, &[], "").await).await
}

/// Waits until the condition `Available` has this reason, and returns its status and message.
async fn condition(cluster: &DevCluster, reason: &str) -> (Value, String) {
    let find = |objects: &[Value]| {
        let mut objects = objects.iter();
        let own = objects.find(|object| object["metadata"]["name"] == "v1.things.example.com")?;
        let condition = own["status"]["conditions"][0].clone();
        (condition["reason"] == reason).then_some(condition)
    };
    let reached = |objects: &[Value]| find(objects).is_some();
    let objects = cluster.wait_for("apiservices", PATIENCE, reached).await;
    let found = find(&objects.unwrap_or_else(|left| panic!("{reason}: {left:?}"))).unwrap();
    let message = found["message"].as_str().unwrap().to_owned();
    (found["status"].clone(), message)
}

/// The entry of the group in aggregated discovery.
async fn discovered(cluster: &DevCluster) -> Value {
    let (_, whole) = read(ask(cluster, "GET", "/apis", &[("accept", AGGREGATED)], "").await).await;
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let mut groups = whole["items"].as_array().unwrap().iter();
    let own = groups.find(|group| group["metadata"]["name"] == "things.example.com");
    own.unwrap()["versions"][0].clone()
}

/// A cluster with an APIService for a program that listens.
async fn aggregating(listener: &TcpListener, certificate: &Certificate) -> DevCluster {
    let port = listener.local_addr().unwrap().port();
    let builder = DevCluster::builder().object(external_name());
    let cluster = builder.object(api_service(certificate, port)).start().await;
    cluster.unwrap()
}

/// Deletes the APIService, and waits until the server no longer asks the program.
async fn delete(cluster: &DevCluster) {
    let path = format!("{API_SERVICES}/v1.things.example.com");
    cluster.delete(&path).await.unwrap();
    let gone = async {
        while get(cluster, VERSION).await.0 != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
}

#[tokio::test]
async fn an_api_service_is_available_when_its_program_answers() {
    let certificate = Certificate::issued();
    let cluster = DevCluster::builder().start().await.unwrap();
    // The port is free again, and refuses connections until the program starts.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);

    cluster
        .create(api_service(&certificate, port))
        .await
        .unwrap();
    let missing = "service/hook in \"default\" is not present".to_owned();
    assert_eq!(
        condition(&cluster, "ServiceNotFound").await,
        (json!("False"), missing)
    );
    cluster.create(external_name()).await.unwrap();
    let url = format!("https://localhost:{port}{VERSION}");
    let refused = format!(
        "failing or missing response from {url}: Get \"{url}\": dial tcp 127.0.0.1:{port}: connect: connection refused"
    );
    assert_eq!(
        condition(&cluster, "FailedDiscoveryCheck").await,
        (json!("False"), refused)
    );
    assert_eq!(
        get(&cluster, THINGS).await,
        (503, "service unavailable\n".to_owned())
    );
    assert_eq!(
        discovered(&cluster).await,
        json!({"version": "v1", "freshness": "Stale"})
    );
    let (code, group) = get(&cluster, "/apis/things.example.com").await;
    let group: Value = serde_json::from_str(&group).unwrap();
    assert_eq!(
        (code, &group["preferredVersion"]["groupVersion"]),
        (200, &json!("things.example.com/v1"))
    );

    let (_, groups) = get(&cluster, "/apis").await;
    let groups: Value = serde_json::from_str(&groups).unwrap();
    let groups = groups["groups"].as_array().unwrap();
    let place = |name: &str| groups.iter().position(|group| group["name"] == name);
    assert_eq!(place("apiregistration.k8s.io"), Some(0));
    assert!(place("things.example.com") > place("flowcontrol.apiserver.k8s.io"));

    // As extension API servers do, the program trusts the front proxy only. Its authority is published with
    // the port.
    let _door = cluster
        .serve_https("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let known = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let known = cluster.get(known).await.unwrap();
    let authority = known["data"]["requestheader-client-ca-file"]
        .as_str()
        .unwrap();
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let program = Program::start(listener, certificate.acceptor_for(authority));
    let passed = (json!("True"), "all checks passed".to_owned());
    assert_eq!(condition(&cluster, "Passed").await, passed);
    let (code, list) = get(&cluster, VERSION).await;
    assert_eq!(
        (code, serde_json::from_str::<Value>(&list).unwrap()),
        (200, resources())
    );
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let things = json!({
        "resource": "things", "responseKind": kind("", "", "Thing"), "scope": "Namespaced", "singularResource": "thing",
        "verbs": ["get", "list"],
        "subresources": [{"subresource": "scale", "responseKind": kind("autoscaling", "v1", "Scale"), "verbs": ["get"]}],
    });
    let current = json!({"version": "v1", "resources": [things], "freshness": "Current"});
    assert_eq!(discovered(&cluster).await, current);
    assert_eq!(program.headers(VERSION)["x-remote-user"], "jane");

    delete(&cluster).await;
}

#[tokio::test]
async fn requests_reach_the_program_with_their_user() {
    let certificate = Certificate::issued();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let cluster = aggregating(&listener, &certificate).await;
    let program = Program::start(listener, certificate.acceptor());
    condition(&cluster, "Passed").await;

    let given = [
        ("x-remote-user", "root"),
        ("x-remote-uid", "0"),
        ("x-remote-group", "system:nodes"),
        ("x-remote-extra-power", "all"),
        ("x-remote-color", "blue"),
        ("x-color", "red"),
        ("authorization", "Basic x"),
        ("user-agent", "curl/8"),
    ];
    let path = format!("{THINGS}?limit=5&b=/%20x&b&a*~=%C3%A9");
    let list = read(ask(&cluster, "GET", &path, &given, "").await).await;
    assert_eq!(list, (200, "{\"kind\":  \"ThingList\"}".to_owned()));
    let headers = program.headers(&format!("{THINGS}?a%2A~=%C3%A9&b=%2F+x&b=&limit=5"));
    let named = |name: &str| {
        let values = headers.get_all(name).iter();
        values
            .map(|value| value.to_str().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(named("x-remote-user"), ["jane"]);
    assert_eq!(named("x-remote-uid"), ["7"]);
    assert_eq!(
        named("x-remote-group"),
        ["system:masters", "makers", "system:authenticated"]
    );
    assert_eq!(named("x-remote-extra-example.com%2fscopes"), ["a", "b"]);
    assert_eq!(named("x-remote-extra-power"), [""; 0]);
    assert_eq!(named("x-remote-color"), ["blue"]);
    assert_eq!(named("x-color"), ["red"]);
    assert_eq!(named("authorization"), [""; 0]);
    assert_eq!(named("host"), [format!("localhost:{port}")]);
    assert_eq!(named("x-forwarded-uri"), [THINGS]);

    let made = ask(
        &cluster,
        "POST",
        THINGS,
        &[("content-type", "application/json")],
        "{\"a\": 1}",
    )
    .await;
    assert_eq!(read(made).await, (201, "{\"a\": 1}".to_owned()));
    let redirect = get(&cluster, "/apis/things.example.com/v1/elsewhere").await;
    let refused = "the backend attempted to redirect this request, which is not permitted";
    assert_eq!(redirect, (502, refused.to_owned()));

    let nobody = cluster.service_as(User::new("nobody", [""; 0]));
    let request = Request::get(THINGS).body(Full::<Bytes>::default()).unwrap();
    let (code, forbidden) = read(nobody.clone().call(request).await.unwrap()).await;
    assert_eq!(code, 403);
    assert!(
        forbidden.contains(
            "cannot list resource \\\"things\\\" in API group \\\"things.example.com\\\""
        ),
        "{forbidden}"
    );
}

#[tokio::test]
async fn a_watch_of_the_program_arrives_piece_by_piece() {
    let certificate = Certificate::issued();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = aggregating(&listener, &certificate).await;
    let program = Program::start(listener, certificate.acceptor());
    condition(&cluster, "Passed").await;

    let watch = ask(&cluster, "GET", &format!("{THINGS}?watch=1"), &[], "").await;
    let mut frames = BodyStream::new(watch.into_body());
    for number in 0..2 {
        program.frames.add_permits(1);
        let frame = frames.next().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(frame, format!("{{\"number\": {number}}}\n"));
    }
    assert!(frames.next().await.is_none());
}

#[tokio::test]
async fn a_program_that_ended_is_a_503_at_once() {
    let certificate = Certificate::issued();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let cluster = aggregating(&listener, &certificate).await;
    let program = Program::start(listener, certificate.acceptor());
    condition(&cluster, "Passed").await;
    program.running.abort();
    assert!(program.running.await.unwrap_err().is_cancelled());

    let why = format!(
        "error trying to reach service: dial tcp 127.0.0.1:{port}: connect: connection refused\n"
    );
    assert_eq!(get(&cluster, THINGS).await, (503, why));
}

#[tokio::test(start_paused = true)]
async fn a_service_with_simulated_pods_serves_no_api() {
    let certificate = Certificate::issued();
    let cluster = DevCluster::builder().start().await.unwrap();
    cluster
        .create(api_service(&certificate, 443))
        .await
        .unwrap();
    let service = |port: u16| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}, "spec": {"ports": [{"port": port}]}});
    let created = cluster.create(service(80)).await.unwrap();
    let (_, port) = condition(&cluster, "ServicePortError").await;
    assert_eq!(
        port,
        "service/hook in \"default\" is not listening on port 443"
    );
    let mut changed = created;
    changed["spec"]["ports"][0]["port"] = json!(443);
    cluster.replace(changed).await.unwrap();
    let (_, endpoints) = condition(&cluster, "EndpointsNotFound").await;
    assert_eq!(
        endpoints,
        "cannot find endpointslices for service/hook in \"default\""
    );
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}}, "endpoints": [], "ports": []});
    let mut slice = cluster.create(slice).await.unwrap();
    let (_, missing) = condition(&cluster, "MissingEndpoints").await;
    assert_eq!(
        missing,
        "endpointslices for service/hook in \"default\" have no addresses with port name \"\""
    );
    slice["endpoints"] = json!([{"addresses": ["10.0.0.1"]}]);
    slice["ports"] = json!([{"name": "", "port": 443}]);
    cluster.replace(slice).await.unwrap();
    let (status, _) = condition(&cluster, "FailedDiscoveryCheck").await;
    assert_eq!(status, "False");
}
