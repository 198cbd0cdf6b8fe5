//! `kubeadm join`, request by request: discovery by a token, TLS bootstrap, and the end of the token.
//! The API server is that of `steersman dev`, or a real one that `KUBEBUILDER_ASSETS` selects.
//!
//! The test makes the objects of `kubeadm init` with server-side apply, because the cluster may have
//! some of them already.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use steersman_client::{connect, load_config};
use steersman_pki::jws::detached_signature;

use crate::harness::assets;
use crate::support::control_plane::ControlPlane;
use crate::support::{LIMIT, Program};

const TOKEN_ID: &str = "07401b";
const TOKEN_SECRET: &str = "f395accd246ae52d";
const TOKEN_GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";
const NODE: &str = "joining";

const INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const TOKEN: &str = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-07401b";
const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A running cluster with the controllers that kubeadm names, its address and its authority.
struct Cluster {
    _made: Made,
    home: tempfile::TempDir,
    admin: kube::Client,
    server: String,
    /// The authority's certificate, in PEM and base64.
    authority: String,
}

/// The processes of the cluster.
enum Made {
    Dev { _program: Program },
    Real { _control_plane: Box<ControlPlane> },
}

/// Sends a request. A refusal is its status code.
async fn ask(client: &kube::Client, method: Method, path: &str, body: Value) -> Result<Value, u16> {
    let form = match method {
        Method::PATCH => "application/apply-patch+yaml",
        _ => "application/json",
    };
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", form);
    match client.request(request.body(body).unwrap()).await {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{path}: {error}"),
    }
}

async fn get(client: &kube::Client, path: &str) -> Result<Value, u16> {
    ask(client, Method::GET, path, Value::Null).await
}

/// Asks until the answer has the wanted part.
async fn eventually<T>(wanted: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "still no {wanted}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// User name and groups of a client.
async fn who_is(client: &kube::Client) -> Result<(String, Vec<String>), u16> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = ask(client, Method::POST, WHO_AM_I, review).await?;
    let user = &answer["status"]["userInfo"];
    let groups = serde_json::from_value(user["groups"].clone()).unwrap();
    Ok((user["username"].as_str().unwrap().to_owned(), groups))
}

impl Cluster {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let (made, path) = match assets() {
            None => dev(home.path()),
            Some(folder) => {
                let started =
                    tokio::task::spawn_blocking(move || ControlPlane::start(&folder, true, &[]));
                let control_plane = started.await.unwrap();
                let path = control_plane.kubeconfig().to_owned();
                let made = Made::Real {
                    _control_plane: Box::new(control_plane),
                };
                (made, path)
            }
        };
        let admin = Kubeconfig::read_from(&path).unwrap();
        let cluster = admin.clusters[0].cluster.clone().unwrap();
        let in_file = |path| STANDARD.encode(std::fs::read(path).unwrap());
        let authority = cluster.certificate_authority_data;
        Self {
            _made: made,
            admin: client_of(&path),
            home,
            server: cluster.server.unwrap(),
            authority: authority.unwrap_or_else(|| in_file(cluster.certificate_authority.unwrap())),
        }
    }

    /// A client with these credentials. It trusts `authority`, or any server if it is `None`.
    fn client(&self, user: Value, authority: Option<&str>) -> kube::Client {
        let mut cluster = json!({"server": self.server});
        match authority {
            Some(authority) => cluster["certificate-authority-data"] = json!(authority),
            None => cluster["insecure-skip-tls-verify"] = json!(true),
        }
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        let path = self.home.path().join("joining");
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        client_of(&path)
    }

    async fn apply(&self, path: &str, object: Value) {
        let path = format!("{path}?fieldManager=kubeadm&force=true");
        ask(&self.admin, Method::PATCH, &path, object)
            .await
            .unwrap();
    }

    /// A ClusterRoleBinding of this ClusterRole to this group.
    async fn bind(&self, name: &str, role: &str, group: &str) {
        let api_group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": api_group, "kind": "Group", "name": group}],
        });
        self.apply(&format!("{RBAC}/clusterrolebindings/{name}"), binding)
            .await;
    }

    /// A Role that allows one subject to get one ConfigMap.
    async fn show(&self, namespace: &str, role: &str, config_map: &str, subject: Value) {
        let object = |kind: &str| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": {"name": role, "namespace": namespace},
            })
        };
        let mut allowed = object("Role");
        let mut binding = object("RoleBinding");
        allowed["rules"] = json!([{
            "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [config_map],
            "verbs": ["get"],
        }]);
        let api_group = "rbac.authorization.k8s.io";
        binding["roleRef"] = json!({"apiGroup": api_group, "kind": "Role", "name": role});
        binding["subjects"] = json!([subject]);
        let root = format!("{RBAC}/namespaces/{namespace}");
        self.apply(&format!("{root}/roles/{role}"), allowed).await;
        self.apply(&format!("{root}/rolebindings/{role}"), binding)
            .await;
    }

    /// The objects of `kubeadm init` that a joining node needs. Returns the kubeconfig in
    /// cluster-info.
    async fn init(&self) -> String {
        let kubeconfig = format!(
            "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {}\n    server: {}\n  \
             name: \"\"\ncontexts: null\ncurrent-context: \"\"\nkind: Config\nusers: null\n",
            self.authority, self.server
        );
        let config_map = |namespace: &str, name: &str, key: &str, value: &str| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {key: value},
                "metadata": {"name": name, "namespace": namespace},
            })
        };
        self.apply(
            INFO,
            config_map("kube-public", "cluster-info", "kubeconfig", &kubeconfig),
        )
        .await;
        let anonymous = json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous",
        });
        let clusterinfo = "kubeadm:bootstrap-signer-clusterinfo";
        self.show("kube-public", clusterinfo, "cluster-info", anonymous)
            .await;
        let expiration = jiff::Timestamp::now() + Duration::from_secs(24 * 3600);
        let token = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": format!("bootstrap-token-{TOKEN_ID}"), "namespace": "kube-system"},
            "stringData": {
                "token-id": TOKEN_ID, "token-secret": TOKEN_SECRET,
                "expiration": expiration.to_string(), "auth-extra-groups": TOKEN_GROUP,
                "usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true",
            },
        });
        self.apply(TOKEN, token).await;
        let csrs = "system:certificates.k8s.io:certificatesigningrequests";
        self.bind(
            "kubeadm:kubelet-bootstrap",
            "system:node-bootstrapper",
            TOKEN_GROUP,
        )
        .await;
        let approve = "kubeadm:node-autoapprove-bootstrap";
        self.bind(approve, &format!("{csrs}:nodeclient"), TOKEN_GROUP)
            .await;
        let rotate = "kubeadm:node-autoapprove-certificate-rotation";
        self.bind(rotate, &format!("{csrs}:selfnodeclient"), "system:nodes")
            .await;
        let nodes = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "kubeadm:get-nodes"},
            "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
        });
        self.apply(&format!("{RBAC}/clusterroles/kubeadm:get-nodes"), nodes)
            .await;
        self.bind("kubeadm:get-nodes", "kubeadm:get-nodes", TOKEN_GROUP)
            .await;
        let group = json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": TOKEN_GROUP,
        });
        for (name, role) in [
            ("kubeadm-config", "kubeadm:nodes-kubeadm-config"),
            ("kubelet-config", "kubeadm:kubelet-config"),
            ("kube-proxy", "kube-proxy"),
        ] {
            let path = format!("/api/v1/namespaces/kube-system/configmaps/{name}");
            self.apply(&path, config_map("kube-system", name, "config", "{}"))
                .await;
            self.show("kube-system", role, name, group.clone()).await;
        }
        kubeconfig
    }
}

/// Starts `steersman dev`. Returns the path of its kubeconfig as well.
fn dev(home: &Path) -> (Made, PathBuf) {
    let path = home.join("admin");
    let arguments = [
        "dev",
        "--nodes=1",
        "--write-kubeconfig",
        path.to_str().unwrap(),
        "--",
        "--controllers=*,bootstrapsigner,tokencleaner",
    ];
    let mut program = Program::start(&arguments);
    program.wait_until("ready", || path.exists());
    (Made::Dev { _program: program }, path)
}

fn client_of(kubeconfig: &Path) -> kube::Client {
    let config = load_config(Some(kubeconfig), None).unwrap();
    kube::Client::from(connect(&config).unwrap())
}

/// The signature of the token in cluster-info, if there is one.
fn signature(info: &Value) -> Option<&str> {
    info["data"][format!("jws-kubeconfig-{TOKEN_ID}")].as_str()
}

#[tokio::test]
async fn a_node_verifies_cluster_info_with_its_token() {
    let cluster = Cluster::start().await;
    let kubeconfig = cluster.init().await;

    let stranger = cluster.client(json!({}), None);
    assert_eq!(
        get(&stranger, "/api/v1/namespaces/kube-public/configmaps").await,
        Err(403)
    );
    let info = eventually("signature", async || {
        let info = get(&stranger, INFO).await.ok()?;
        signature(&info).is_some().then_some(info)
    })
    .await;
    let content = info["data"]["kubeconfig"].as_str().unwrap();
    assert_eq!(content, kubeconfig);
    let expected =
        |secret: &str| detached_signature(content.as_bytes(), TOKEN_ID, secret.as_bytes());
    assert_eq!(signature(&info), Some(&*expected(TOKEN_SECRET)));
    assert_ne!(signature(&info), Some(&*expected("0000000000000000")));
    // The node now trusts the authority in the kubeconfig, and compares a second answer.
    let verified = cluster.client(json!({}), Some(&cluster.authority));
    let again = get(&verified, INFO).await.unwrap();
    assert_eq!(again["data"]["kubeconfig"], info["data"]["kubeconfig"]);

    ask(&cluster.admin, Method::DELETE, TOKEN, Value::Null)
        .await
        .unwrap();
    eventually("cluster-info without the signature", async || {
        signature(&get(&stranger, INFO).await.unwrap())
            .is_none()
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_node_gets_its_certificate_with_a_bootstrap_token() {
    let cluster = Cluster::start().await;
    cluster.init().await;
    let token = json!({"token": format!("{TOKEN_ID}.{TOKEN_SECRET}")});
    let bootstrap = cluster.client(token, Some(&cluster.authority));
    // A real API server learns of Secrets and rights with a delay.
    let user = async || who_is(&bootstrap).await.ok();
    let (name, groups) = eventually("user of the token", user).await;
    assert_eq!(name, format!("system:bootstrap:{TOKEN_ID}"));
    assert_eq!(
        groups,
        ["system:bootstrappers", TOKEN_GROUP, "system:authenticated"]
    );
    for name in ["kubeadm-config", "kubelet-config", "kube-proxy"] {
        let path = format!("/api/v1/namespaces/kube-system/configmaps/{name}");
        eventually(name, async || get(&bootstrap, &path).await.ok()).await;
    }
    let own = format!("/api/v1/nodes/{NODE}");
    eventually("right to get nodes", async || {
        (get(&bootstrap, &own).await == Err(404)).then_some(())
    })
    .await;
    assert_eq!(get(&bootstrap, "/api/v1/nodes").await, Err(403));
    assert_eq!(get(&bootstrap, TOKEN).await, Err(403));

    // A kubelet's request, and one for more than a kubelet may have, which stays pending.
    let key = rcgen::KeyPair::generate().unwrap();
    let request = |organization: &str| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, organization);
        let name = format!("system:node:{NODE}");
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "csr-"},
            "spec": {
                "request": STANDARD.encode(pem), "usages": ["digital signature", "client auth"],
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            },
        })
    };
    let post = async |organization: &str| {
        let request = request(organization);
        ask(&bootstrap, Method::POST, CSRS, request).await
    };
    let created = async || post("system:nodes").await.ok();
    let csr = eventually("right to request certificates", created).await;
    let master = post("system:masters").await;
    assert_eq!(csr["spec"]["username"], name);
    let path = |csr: &Value| format!("{CSRS}/{}", csr["metadata"]["name"].as_str().unwrap());
    let certificate = eventually("certificate", async || {
        let csr = get(&bootstrap, &path(&csr)).await.unwrap();
        csr["status"]["certificate"].as_str().map(str::to_owned)
    })
    .await;
    // The API server refuses the other one, or nothing approves it.
    if let Ok(master) = master {
        let master = get(&bootstrap, &path(&master)).await.unwrap();
        assert!(master["status"]["certificate"].is_null(), "{master}");
    }

    let credential = json!({
        "client-certificate-data": certificate,
        "client-key-data": STANDARD.encode(key.serialize_pem()),
    });
    let kubelet = cluster.client(credential, Some(&cluster.authority));
    let (name, groups) = who_is(&kubelet).await.unwrap();
    assert_eq!(name, format!("system:node:{NODE}"));
    assert_eq!(groups, ["system:nodes", "system:authenticated"]);

    // An expired token is deleted, and is no credential any more.
    let past = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("bootstrap-token-{TOKEN_ID}"), "namespace": "kube-system"},
        "data": {"expiration": STANDARD.encode("2020-01-01T00:00:00Z")},
    });
    let apply = format!("{TOKEN}?fieldManager=test&force=true");
    ask(&cluster.admin, Method::PATCH, &apply, past)
        .await
        .unwrap();
    eventually("deletion of the expired token", async || {
        (get(&cluster.admin, TOKEN).await == Err(404)).then_some(())
    })
    .await;
    // A real API server caches the user of a token for ten seconds.
    eventually("refusal of the expired token", async || {
        (who_is(&bootstrap).await == Err(401)).then_some(())
    })
    .await;
    assert!(who_is(&kubelet).await.is_ok());
}
