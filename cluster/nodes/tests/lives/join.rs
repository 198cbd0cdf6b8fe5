//! Nodes request their certificates, and wait for approval and signature.

use std::time::Duration;

use prometheus::Registry;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ClientMetrics, ClientSettings};
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::User;
use steersman_devcluster::nodes::Joining;
use steersman_runtime::tasks::{CancellationToken, Tasks};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A client of a bootstrap token, which can request certificates.
async fn client(cluster: &DevCluster) -> ApiClient {
    let bootstrappers = "system:bootstrappers";
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "bootstrap"},
        "roleRef": {"kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "Group", "name": bootstrappers}],
    });
    cluster.create(binding).await.unwrap();
    let settings = ClientSettings {
        user_agent: "kubelet".to_owned(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(30),
    };
    let user = User::new("system:bootstrap:abcdef", [bootstrappers]);
    let metrics = ClientMetrics::register(&Registry::new()).unwrap();
    ApiClient::new(cluster.client_as(user), settings, metrics)
}

/// Waits for the requests of `count` nodes, and returns each request by the number of the node.
async fn requests(cluster: &DevCluster, count: usize) -> Vec<Value> {
    let limit = Duration::from_secs(60);
    let all = |requests: &[Value]| requests.len() == count;
    let plural = "certificatesigningrequests";
    cluster.wait_for(plural, limit, all).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn nodes_wait_for_their_certificates() {
    let cluster = DevCluster::builder().start().await.unwrap();
    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    let client = client(&cluster).await;
    let joining = Joining::start(client, &tasks, &stop).await.unwrap();
    let decide = async {
        let requests = requests(&cluster, 3).await;
        for (request, change) in requests.iter().zip(["issue", "deny", "delete"]) {
            assert_eq!(request["spec"]["username"], "system:bootstrap:abcdef");
            let name = request["metadata"]["name"].as_str().unwrap();
            let path = format!("{REQUESTS}/{name}");
            let condition =
                |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
            let part = format!("{path}/approval");
            match change {
                "issue" => {
                    cluster.patch(&part, condition("Approved")).await.unwrap();
                    let user = User::new("system:node:n", ["system:nodes"]);
                    let certificate = cluster.client_certificate(&user).unwrap();
                    let encoded = encoded(certificate.certificate_pem.as_bytes());
                    let issued = json!({"status": {"certificate": encoded}});
                    let part = format!("{path}/status");
                    cluster.patch(&part, issued).await.unwrap();
                }
                "deny" => drop(cluster.patch(&part, condition("Denied")).await.unwrap()),
                _ => drop(cluster.delete(&path).await.unwrap()),
            }
        }
    };
    let [one, two, three] = ["n-0", "n-1", "n-2"].map(|node| joining.certificate(node));
    let (one, two, three, ()) = tokio::join!(one, two, three, decide);
    let mut outcomes = [one, two, three].map(|result| match result {
        Ok(credential) => {
            let has_key = credential.key_pem.contains("PRIVATE KEY");
            format!("issued, with a key: {has_key}")
        }
        Err(error) => error.to_string().split(' ').next_back().unwrap().to_owned(),
    });
    outcomes.sort();
    assert_eq!(outcomes, ["deleted", "denied", "issued, with a key: true"]);
    stop.cancel();
    tasks.join(Duration::from_secs(5)).await;
}

fn encoded(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
