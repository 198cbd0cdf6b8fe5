//! The objects with which kubeadm prepares a cluster for new nodes: a bootstrap token, the public
//! kubeconfig that the bootstrap signer signs, and the roles for both.
//!
//! Upstream: `cmd/kubeadm/app/phases/bootstraptoken`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use rand::Rng as _;
use serde_json::{Value, json};
use steersman_apiserver::https::HttpsDoor;
use steersman_apiserver::status::Status;

use crate::DevCluster;

/// The time for which kubeadm's tokens are valid.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// The group of the users of kubeadm's tokens.
const JOINING: &str = "system:bootstrappers:kubeadm:default-node-token";
const NODES: &str = "system:nodes";
const CLUSTER_INFO: &str = "cluster-info";

/// A bootstrap token.
#[derive(Clone)]
pub struct BootstrapToken {
    id: String,
    secret: String,
}

impl std::fmt::Debug for BootstrapToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BootstrapToken")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl BootstrapToken {
    /// A new token with random parts.
    pub fn random() -> Self {
        const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let mut random = rand::rng();
        let mut text = |length: usize| {
            let letters = (0..length).map(|_| LETTERS[random.random_range(0..LETTERS.len())]);
            letters.map(char::from).collect()
        };
        Self {
            id: text(6),
            secret: text(16),
        }
    }

    /// The token as users type it: `<id>.<secret>`.
    pub fn text(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// The Secret of the token. It can sign and authenticate, and expires a day after `now`.
    fn stored(&self, now: Timestamp) -> Value {
        let expiration = (now + LIFETIME).strftime("%Y-%m-%dT%H:%M:%SZ");
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": format!("bootstrap-token-{}", self.id), "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": self.id,
                "token-secret": self.secret,
                "expiration": expiration.to_string(),
                "usage-bootstrap-signing": "true",
                "usage-bootstrap-authentication": "true",
                "auth-extra-groups": JOINING,
            },
        })
    }
}

impl DevCluster {
    /// Prepares the cluster for nodes that join, as `kubeadm init` does, and returns the token. The
    /// bootstrap signer then signs the ConfigMap `kube-public/cluster-info`, which names `door`.
    pub async fn prepare_joining(&self, door: &HttpsDoor) -> Result<BootstrapToken, Status> {
        let token = BootstrapToken::random();
        let kubeconfig = public_kubeconfig(&door.url(), door.authority_pem());
        let info = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CLUSTER_INFO, "namespace": "kube-public"},
            "data": {"kubeconfig": kubeconfig},
        });
        let objects = roles()
            .into_iter()
            .chain([token.stored(self.clock().now()), info]);
        self.create_all(objects).await?;
        Ok(token)
    }
}

/// A kubeconfig with the address and the authority of the cluster, and without a user.
fn public_kubeconfig(url: &str, authority_pem: &str) -> String {
    let authority = STANDARD.encode(authority_pem);
    format!(
        "apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {authority}
    server: {url}
  name: \"\"
contexts: null
current-context: \"\"
kind: Config
users: null
"
    )
}

/// The roles and bindings: anonymous users read the public kubeconfig, token users request
/// certificates and read Nodes, and requests for certificates of nodes are approved.
fn roles() -> [Value; 7] {
    const NAME: &str = "kubeadm:bootstrap-signer-clusterinfo";
    let binding = |name: &str, role: &str, group: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
        })
    };
    let approved =
        |name: &str| format!("system:certificates.k8s.io:certificatesigningrequests:{name}");
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": NAME, "namespace": "kube-public"},
            "rules": [{
                "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CLUSTER_INFO],
                "verbs": ["get"],
            }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": NAME, "namespace": "kube-public"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"},
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "kubeadm:get-nodes"},
            "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
        }),
        binding("kubeadm:get-nodes", "kubeadm:get-nodes", JOINING),
        binding(
            "kubeadm:kubelet-bootstrap",
            "system:node-bootstrapper",
            JOINING,
        ),
        binding(
            "kubeadm:node-autoapprove-bootstrap",
            &approved("nodeclient"),
            JOINING,
        ),
        binding(
            "kubeadm:node-autoapprove-certificate-rotation",
            &approved("selfnodeclient"),
            NODES,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::{BodyExt, Full};
    use steersman_apiserver::auth::User;
    use steersman_values::clock::Clock;
    use tower::Service;

    use super::*;

    /// Code and body of a request with a bearer token, or of an anonymous one.
    async fn ask(
        cluster: &DevCluster,
        token: Option<&str>,
        (method, path): (&str, &str),
        body: Value,
    ) -> (u16, Value) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = request.body(Full::new(body.into())).unwrap();
        let mut service = cluster.service_as(User::anonymous());
        let response = service.call(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn tokens_request_certificates_and_expire_after_a_day() {
        let cluster = DevCluster::new(Clock::runtime("2026-01-01T00:00:00Z".parse().unwrap()));
        let door = cluster
            .serve_https("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let token = cluster.prepare_joining(&door).await.unwrap();
        let text = token.text();
        assert!(!format!("{token:?}").contains(&token.secret));

        let info = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
        let (code, found) = ask(&cluster, None, ("GET", info), Value::Null).await;
        let kubeconfig = found["data"]["kubeconfig"].as_str().unwrap();
        assert!(code == 200 && kubeconfig.contains(&door.url()), "{found}");
        let maps = ("GET", "/api/v1/namespaces/kube-public/configmaps");
        assert_eq!(ask(&cluster, None, maps, Value::Null).await.0, 403);

        let whoami = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");
        let (_, who) = ask(&cluster, Some(&text), whoami, json!({})).await;
        let groups = json!(["system:bootstrappers", JOINING, "system:authenticated"]);
        let expected =
            json!({"username": format!("system:bootstrap:{}", token.id), "groups": groups});
        assert_eq!(who["status"]["userInfo"], expected);
        let requests = (
            "GET",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        );
        assert_eq!(
            ask(&cluster, Some(&text), requests, Value::Null).await.0,
            200
        );
        let secrets = ("GET", "/api/v1/namespaces/kube-system/secrets");
        assert_eq!(
            ask(&cluster, Some(&text), secrets, Value::Null).await.0,
            403
        );

        let stored = format!(
            "/api/v1/namespaces/kube-system/secrets/bootstrap-token-{}",
            token.id
        );
        let expiration = &cluster.get(&stored).await.unwrap()["data"]["expiration"];
        let expected = STANDARD.encode("2026-01-02T00:00:00Z");
        assert_eq!(expiration, &json!(expected));
        let past = json!({"stringData": {"expiration": "2026-01-01T00:00:00Z"}});
        cluster.patch(&stored, past).await.unwrap();
        assert_eq!(
            ask(&cluster, Some(&text), requests, Value::Null).await.0,
            401
        );
        door.stop().await;
    }
}
