//! The page `/ui/` and its data, behind the guard of a whole manager, and through `steersman ui`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use http::Method;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::User;
use steersman_values::clock::Clock;

use crate::support::secured::Secured;
use crate::support::{LIMIT, steersman};

const JOBS: &str = "/apis/batch/v1/namespaces/shop/jobs";

/// Metadata; without a namespace if it is empty.
fn named(name: &str, namespace: &str) -> Value {
    match namespace {
        "" => json!({ "name": name }),
        namespace => json!({ "name": name, "namespace": namespace }),
    }
}

/// A cluster with two namespaces that have a Job each, and users with different rights.
async fn cluster() -> DevCluster {
    let cluster = DevCluster::new(Clock::system());
    for namespace in ["shop", "bank"] {
        let made =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        cluster.create(made).await.unwrap();
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "import", "namespace": namespace},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}},
        });
        cluster.create(job).await.unwrap();
    }
    let role = |kind: &str, name: &str, namespace: &str, rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": named(name, namespace), "rules": rules,
        })
    };
    let paths = json!([{"nonResourceURLs": ["/ui/", "/ui/*", "/debug/ui", "/debug/ui/*"], "verbs": ["get"]}]);
    let jobs = json!([{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]}]);
    cluster
        .create(role("ClusterRole", "page", "", paths))
        .await
        .unwrap();
    cluster
        .create(role("Role", "jobs", "shop", jobs))
        .await
        .unwrap();
    let binding = |kind: &str, role: &str, namespace: &str| {
        let of = if kind == "RoleBinding" {
            "Role"
        } else {
            "ClusterRole"
        };
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": named(role, namespace),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": of, "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}],
        })
    };
    cluster
        .create(binding("ClusterRoleBinding", "page", ""))
        .await
        .unwrap();
    cluster
        .create(binding("RoleBinding", "jobs", "shop"))
        .await
        .unwrap();
    cluster.add_token("viewer-token", User::new("viewer", ["people"]));
    cluster.add_token("joe-token", User::new("joe", ["people"]));
    cluster
}

/// Status, head and body of a GET with a bearer token.
fn get(secured: &Secured, path: &str, token: &str) -> (u16, String, String) {
    let header = match token {
        "" => String::new(),
        token => format!("authorization: Bearer {token}\r\n"),
    };
    let (head, body) = secured.ask(&format!("GET {path}"), &header, "", None);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body)
}

fn parsed(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_its_data_need_the_rights_of_the_caller() {
    let secured = Secured::start(cluster().await, &["--ui"]).await;
    // (path, token, status)
    let cases = [
        ("/ui/", "", 403),
        ("/ui/", "made-up", 401),
        ("/ui/", "joe-token", 403),
        ("/ui/", "viewer-token", 200),
        ("/ui/main.js", "viewer-token", 200),
        ("/ui/other.js", "viewer-token", 404),
        ("/debug/ui/flow", "", 403),
        ("/debug/ui/flow", "joe-token", 403),
        ("/debug/ui/flow", "viewer-token", 200),
        ("/debug/ui/secrets", "viewer-token", 404),
        ("/debug/ui/simulate", "viewer-token", 404),
        ("/debug/ui/garbage/jobs/bank/import", "viewer-token", 403),
        ("/debug/ui/garbage/jobs/shop/import", "viewer-token", 200),
    ];
    for (path, token, expected) in cases {
        let (status, _, body) = get(&secured, path, token);
        assert_eq!(status, expected, "{path} {token:?}: {body}");
    }
    let (_, head, body) = get(&secured, "/ui/", "viewer-token");
    for part in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "cache-control: no-cache, private",
    ] {
        assert!(head.contains(part), "{part} is not in {head}");
    }
    assert!(body.contains("main.js"), "{body}");

    // All namespaces need a right for all of them. One namespace needs a right there.
    let all = parsed(&get(&secured, "/debug/ui/rollouts", "viewer-token").2);
    assert_eq!(all["items"], json!([]), "{all}");
    let left = all["withheld"].to_string();
    assert!(left.contains("jobs: you may not get them"), "{left}");
    let shop = get(
        &secured,
        "/debug/ui/rollouts?namespace=shop",
        "viewer-token",
    )
    .2;
    let shop = parsed(&shop);
    assert_eq!(shop["items"][0]["name"], "import", "{shop}");
    assert_eq!(shop["items"].as_array().unwrap().len(), 1, "{shop}");
    let bank = get(
        &secured,
        "/debug/ui/rollouts?namespace=bank",
        "viewer-token",
    )
    .2;
    assert_eq!(parsed(&bank)["items"], json!([]), "{bank}");

    let writes = timeline(&secured, "viewer-token");
    let items = writes["items"].as_array().unwrap();
    assert!(writes["withheld"].as_u64() > Some(0), "{writes}");
    for write in items {
        assert_eq!(
            (&write["resource"], &write["namespace"]),
            (&json!("jobs"), &json!("shop"))
        );
    }
    secured.stop().await;
}

/// The timeline, as soon as it has a write about the Job of the shop.
fn timeline(secured: &Secured, token: &str) -> Value {
    let began = std::time::Instant::now();
    loop {
        let found = parsed(&get(secured, "/debug/ui/timeline", token).2);
        if found["items"]
            .as_array()
            .is_some_and(|items| !items.is_empty())
        {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "{found}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_flag_there_is_no_page() {
    let secured = Secured::start(DevCluster::new(Clock::system()), &[]).await;
    let master = secured.clients.master();
    for path in ["/ui/", "/ui", "/debug/ui", "/debug/ui/flow"] {
        let (head, body) = secured.ask(&format!("GET {path}"), "", "", Some(&master));
        assert!(head.starts_with("HTTP/1.1 404 "), "{path}: {head}");
        assert_eq!(body, "404 page not found\n");
    }
    secured.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_sends_a_view_again_when_it_has_changed() {
    let secured = Secured::start(cluster().await, &["--ui"]).await;
    let tls = secured.tls(Some(&secured.clients.master()));
    let address = secured.address;
    let (seen, changed) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let name = ServerName::try_from("localhost").unwrap();
        let mut connection = rustls::ClientConnection::new(tls, name).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut tls = rustls::Stream::new(&mut connection, &mut stream);
        let request = "GET /debug/ui/rollouts?namespace=shop HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
        tls.write_all(request.as_bytes()).unwrap();
        for line in BufReader::new(tls).lines() {
            let line = line.unwrap();
            let Some(data) = line.strip_prefix("data: ") else {
                continue;
            };
            let names = parsed(data)["items"].to_string();
            if seen.send(names.contains("\"second\"")).is_err() || names.contains("\"second\"") {
                return;
            }
        }
    });
    let first = tokio::task::block_in_place(|| changed.recv_timeout(LIMIT)).unwrap();
    assert!(!first, "the Job does not exist yet");
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "second", "namespace": "shop"},
        "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}},
    });
    let created = secured
        .cluster
        .call(Method::POST, JOBS, "application/json", job.to_string())
        .await;
    created.unwrap();
    tokio::task::block_in_place(|| {
        while !changed.recv_timeout(LIMIT).unwrap() {}
        reader.join().unwrap();
    });
    secured.stop().await;
}

/// `steersman ui` of a user. Dropping it ends the process.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(secured: &Secured) -> Self {
        Self::start_with(secured, &[])
    }

    fn start_with(secured: &Secured, flags: &[&str]) -> Self {
        let file = |name: &str| secured.home.path().join(name).display().to_string();
        // The manager knows tokens of the API server, and no certificates of its authority.
        let user = User::new("jane", ["system:masters"]);
        secured.cluster.add_token("of-jane", user);
        let kubeconfig = std::fs::read_to_string(file("kubeconfig")).unwrap();
        let with_token = kubeconfig
            .lines()
            .filter(|line| !line.trim().starts_with("client-key-data:"))
            .map(|line| match line.split_once("client-certificate-data:") {
                Some((indent, _)) => format!("{indent}token: of-jane\n"),
                None => format!("{line}\n"),
            });
        std::fs::write(file("jane"), with_token.collect::<String>()).unwrap();
        let mut child = steersman(&[
            "ui",
            "--kubeconfig",
            &file("jane"),
            "--manager-ca",
            &file("kube-controller-manager.crt"),
            "--manager-port",
            &secured.address.port().to_string(),
        ])
        .args(flags)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().strip_prefix("look at it at http://").unwrap();
        let address = address.strip_suffix("/ui/").unwrap().to_owned();
        Self { child, address }
    }

    /// Status and body of the answer to a request with this `Host`.
    fn ask(&self, method: &str, path: &str, host: &str) -> (u16, String) {
        let (head, body) = self.exchange(&format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n"));
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }

    /// Head and body of the answer to a request with these lines.
    fn exchange(&self, lines: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let request = format!("{lines}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_lowercase(), body.to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steersman_ui_serves_the_page_of_the_leader_on_this_machine() {
    let secured = Secured::start(cluster().await, &["--ui"]).await;
    tokio::task::block_in_place(|| {
        let page = Served::start(&secured);
        let own = page.address.clone();
        assert_eq!(page.ask("GET", "/ui/", &own).0, 200);
        for path in [
            "flow",
            "stuck",
            "timeline",
            "leadership",
            "rollouts",
            "nodes",
            "garbage",
        ] {
            let (status, body) = page.ask("GET", &format!("/debug/ui/{path}"), &own);
            assert_eq!(status, 200, "{path}: {body}");
            assert!(parsed(&body)["time"].is_string(), "{path}: {body}");
        }
        let (_, stuck) = page.ask("GET", "/debug/ui/stuck", &own);
        assert_ne!(
            parsed(&stuck)["leader"],
            "",
            "the leader has answered: {stuck}"
        );
        // A page of another site reaches this port by a name of its own.
        assert_eq!(
            page.ask("GET", "/debug/ui/stuck", "evil.example.com").0,
            403
        );
        assert_eq!(page.ask("POST", "/debug/ui/simulate", &own).0, 405);
        assert_eq!(page.ask("GET", "/metrics", &own).0, 404);
    });
    secured.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steersman_ui_shows_objects_without_a_leader_that_has_the_page() {
    let secured = Secured::start(cluster().await, &[]).await;
    tokio::task::block_in_place(|| {
        let page = Served::start(&secured);
        let own = page.address.clone();
        let (status, body) = page.ask("GET", "/debug/ui/stuck", &own);
        let stuck = parsed(&body);
        assert_eq!((status, &stuck["leader"]), (200, &json!("")), "{body}");
        assert!(
            stuck["withoutLeader"]
                .as_str()
                .is_some_and(|why| why.contains("the page needs --ui")),
            "{body}"
        );
        let (status, body) = page.ask("GET", "/debug/ui/flow", &own);
        assert_eq!(status, 502, "{body}");
        assert!(body.contains("--ui"), "{body}");
    });
    secured.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_pages_of_an_allowed_origin_read_what_steersman_ui_serves() {
    let secured = Secured::start(cluster().await, &[]).await;
    tokio::task::block_in_place(|| {
        let allowed = "https://headlamp.example.com";
        let asked_by = |page: &Served, origin: &str| {
            let host = &page.address;
            let path = "/debug/ui/stuck/jobs/shop/import";
            page.exchange(&format!(
                "GET {path} HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\n"
            ))
        };
        let page = Served::start_with(&secured, &["--allow-origin", allowed]);
        let (head, body) = asked_by(&page, allowed);
        assert!(
            head.contains(&format!("access-control-allow-origin: {allowed}\r\n")),
            "{head}"
        );
        assert!(head.contains("vary: origin"), "{head}");
        assert_eq!(parsed(&body)["answers"][0]["object"]["name"], "import");
        for other in ["https://evil.example.com", "null"] {
            let (head, _) = asked_by(&page, other);
            assert!(!head.contains("access-control"), "{other}: {head}");
        }
        let (head, _) = asked_by(&Served::start(&secured), allowed);
        assert!(!head.contains("access-control"), "{head}");
    });
    secured.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steersman_ui_leaves_a_leader_that_stands_by() {
    let cluster = cluster().await;
    let here = gethostname::gethostname().into_string().unwrap();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"holderIdentity": format!("{here}_other"), "leaseDurationSeconds": 3600,
            "acquireTime": "2126-01-01T00:00:00.000000Z", "renewTime": "2126-01-01T00:00:00.000000Z"},
    });
    cluster.create(lease).await.unwrap();
    let mut secured = Secured::start(cluster, &["--ui"]).await;
    secured
        .program
        .wait_for_line("Attempting to acquire leader lease");
    let page = tokio::task::block_in_place(|| Served::start(&secured));
    let view = || {
        tokio::task::block_in_place(|| {
            parsed(&page.ask("GET", "/debug/ui/leadership", &page.address).1)
        })
    };
    // The command finds a manager on this machine, as the Lease tells, and it does not lead.
    let standing_by = view();
    assert_eq!(standing_by["about"]["leads"], false, "{standing_by}");

    let elsewhere = json!({"spec": {"holderIdentity": "elsewhere_1"}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    let patch = "application/merge-patch+json";
    let changed = secured
        .cluster
        .call(Method::PATCH, path, patch, elsewhere.to_string())
        .await;
    changed.unwrap();
    let now = view();
    assert_eq!(now["lease"]["holder"], "elsewhere_1", "{now}");
    let why = now["withoutLeader"].as_str().unwrap_or_default();
    assert!(why.contains("elsewhere"), "{now}");
    drop(page);
    secured.stop().await;
}

/// The plugin for Headlamp, as far as it needs no packages.
#[test]
fn the_headlamp_plugin_asks_and_shows() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ui/headlamp");
    let tested = std::process::Command::new("node")
        .args(["--test", "test/why.mjs"])
        .current_dir(folder)
        .output();
    let Ok(tested) = tested else {
        crate::support::skip("no Node.js");
        return;
    };
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success() && said.contains("pass 6"), "{said}");
}

/// Stories of people in a real browser. They say so where there is none.
#[test]
fn people_find_the_cause_in_a_browser() {
    let Some(python) = crate::support::python("unittest") else {
        return;
    };
    let stories = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/stories.py");
    let done = std::process::Command::new(python)
        .args([stories, "-v"])
        .env("STEERSMAN", env!("CARGO_BIN_EXE_steersman"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    if said.contains("skipped=") {
        crate::support::skip("no Chromium; on Debian: apt-get install chromium chromium-driver");
    }
}
