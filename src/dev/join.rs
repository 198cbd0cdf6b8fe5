//! The simulated nodes join as kubelets do: each requests a certificate with the bootstrap token, and
//! then reads its Node with it.

use std::time::Duration;

use futures::{StreamExt, stream};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use prometheus::Registry;
use steersman_client::{
    self, ApiClient, ApiError, ClientMetrics, ClientSettings, ConnectError, Target, user_agent,
};
use steersman_devcluster::bootstrap::BootstrapToken;
use steersman_devcluster::https::HttpsDoor;
use steersman_devcluster::nodes::{Credential, JoinError, Joining};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::resource::NODES;

/// Nodes that join at once.
const AT_ONCE: usize = 16;
/// Period of the log line that names informers that have not stopped yet.
const REPORT: Duration = Duration::from_secs(5);

/// A node could not join.
#[derive(Debug, thiserror::Error)]
enum JoiningError {
    #[error("read the cluster's kubeconfig: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error("read the Node with its certificate: {0}")]
    Read(#[from] ApiError),
}

/// Lets the nodes join as a task of `tasks`. Failures are logged, because pods run without the
/// certificates.
pub(super) fn start(
    door: &HttpsDoor,
    token: &BootstrapToken,
    nodes: Vec<String>,
    tasks: &Tasks,
    stop: &CancellationToken,
) {
    let kubeconfig = door.kubeconfig();
    let token = token.text();
    let stop = stop.clone();
    tasks.spawn("joining nodes", async move {
        if let Err(error) = join(&kubeconfig, token, nodes, &stop).await {
            tracing::warn!(%error, "simulated nodes cannot request certificates");
        }
    });
}

async fn join(
    kubeconfig: &str,
    token: String,
    nodes: Vec<String>,
    stop: &CancellationToken,
) -> Result<(), JoiningError> {
    let kubeconfig = &Kubeconfig::from_yaml(kubeconfig)?;
    let user = AuthInfo {
        token: Some(token.into()),
        ..AuthInfo::default()
    };
    let client = client_of(kubeconfig, user).await?;
    let tasks = Tasks::default();
    let ended = stop.child_token();
    let joining = &Joining::start(client, &tasks, &ended).await?;
    let joins = nodes.into_iter().map(|node| async move {
        match join_one(joining, kubeconfig, &node).await {
            Ok(()) => tracing::info!(node, "the simulated node has joined"),
            Err(error) => tracing::warn!(node, %error, "the simulated node cannot join"),
        }
    });
    let all = stream::iter(joins)
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<()>>();
    // Nodes that stop need no certificates.
    let _ = stop.run_until_cancelled(all).await;
    ended.cancel();
    tasks.join(REPORT).await;
    Ok(())
}

/// Requests the certificate of a node, and reads the Node with it.
async fn join_one(
    joining: &Joining,
    kubeconfig: &Kubeconfig,
    node: &str,
) -> Result<(), JoiningError> {
    let Credential {
        certificate_pem,
        key_pem,
    } = joining.certificate(node).await?;
    let user = AuthInfo {
        client_certificate_data: Some(encoded(&certificate_pem)),
        client_key_data: Some(encoded(&key_pem).into()),
        ..AuthInfo::default()
    };
    let own = Target {
        resource: &NODES,
        namespace: None,
        name: Some(node),
        subresource: None,
    };
    client_of(kubeconfig, user).await?.get(own).await?;
    Ok(())
}

fn encoded(pem: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(pem)
}

/// A client of `user` for the cluster of the kubeconfig.
async fn client_of(kubeconfig: &Kubeconfig, user: AuthInfo) -> Result<ApiClient, JoiningError> {
    let mut kubeconfig = kubeconfig.clone();
    for known in &mut kubeconfig.auth_infos {
        known.auth_info = Some(user.clone());
    }
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    let settings = ClientSettings {
        user_agent: user_agent("kubelet"),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(30),
    };
    Ok(ApiClient::new(
        steersman_client::connect(&config)?,
        settings,
        ClientMetrics::register(&Registry::new())?,
    ))
}
