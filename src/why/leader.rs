//! The way from the command to the leader.
//!
//! Lease -> holder -> on this machine: its port; elsewhere: `kubectl port-forward` to its pod ->
//! debug page
//!
//! The API server's pod proxy would be no way: it drops the caller's credentials, and the leader
//! answers by the caller's rights. A port-forward keeps them, and it also reaches a manager that
//! listens on 127.0.0.1 of its node alone.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use steersman_client::{ApiClient, ApiPath, Target};
use steersman_values::resource::{LEASES, PODS};
use steersman_why::{Question, Report};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Namespace of the Lease and of the pods of managers.
const NAMESPACE: &str = "kube-system";
/// Time for kubectl to open a port.
const FORWARD: Duration = Duration::from_secs(10);

/// The leader, as far as the caller can reach it.
pub(super) struct Leader {
    client: ApiClient,
    /// The port-forward; it ends when this is dropped.
    _forward: Option<Child>,
}

/// Makes a client for another address with the caller's credentials.
pub(super) type Connect<'a> = &'a (dyn Fn(&str) -> Result<ApiClient, String> + Sync);

impl Leader {
    /// Finds and reaches the holder of the Lease. The error tells why it cannot be asked.
    pub(super) async fn find(
        api: &ApiClient,
        port: u16,
        kubeconfig: Option<&str>,
        connect: Connect<'_>,
    ) -> Result<Self, String> {
        let lease = Target {
            resource: &LEASES,
            namespace: Some(NAMESPACE),
            name: Some("kube-controller-manager"),
            subresource: None,
        };
        let lease = api
            .get(lease)
            .await
            .map_err(|error| format!("the Lease cannot be read: {error}"))?;
        let lease: Value = serde_json::from_slice(&lease).map_err(|error| error.to_string())?;
        let holder = lease
            .pointer("/spec/holderIdentity")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let Some((host, _)) = holder.rsplit_once('_') else {
            return Err("no controller manager holds the Lease".to_owned());
        };
        let here = gethostname::gethostname();
        if here.to_str() == Some(host) {
            let client = connect(&format!("https://127.0.0.1:{port}"))?;
            return Ok(Self {
                client,
                _forward: None,
            });
        }
        let pod = pod_of(api, host).await?;
        let (forward, local) = forward(&pod, port, kubeconfig).await?;
        let client = connect(&format!("https://127.0.0.1:{local}"))?;
        Ok(Self {
            client,
            _forward: Some(forward),
        })
    }

    /// A leader at a known address.
    pub(super) fn at(url: &str, connect: Connect<'_>) -> Result<Self, String> {
        Ok(Self {
            client: connect(url)?,
            _forward: None,
        })
    }

    /// The leader's answer.
    pub(super) async fn ask(&self, question: &Question) -> Result<Report, String> {
        let path = ApiPath::served(&question.path()).map_err(|error| error.to_string())?;
        let body = self
            .client
            .get_path(path)
            .await
            .map_err(|error| error.to_string())?;
        serde_json::from_slice(&body).map_err(|error| format!("its answer cannot be read: {error}"))
    }
}

/// The pod of a manager on `host`: a pod of that name, or a static pod on the node of that name.
async fn pod_of(api: &ApiClient, host: &str) -> Result<String, String> {
    let pods = Target {
        resource: &PODS,
        namespace: Some(NAMESPACE),
        name: None,
        subresource: None,
    };
    let pods = api
        .list(pods, "resourceVersion=0")
        .await
        .map_err(|error| error.to_string())?;
    let pods: Value = serde_json::from_slice(&pods).map_err(|error| error.to_string())?;
    let name = |pod: &Value| {
        pod.pointer("/metadata/name")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let is_manager = |pod: &&Value| {
        let names = name(pod);
        names.as_deref() == Some(host)
            || pod.pointer("/spec/nodeName").and_then(Value::as_str) == Some(host)
                && names.is_some_and(|name| {
                    name.contains("controller-manager") || name.contains("steersman")
                })
    };
    let items = pods["items"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let found = items.iter().find(is_manager).and_then(name);
    found.ok_or_else(|| format!("the leader runs on {host}, outside the pods of {NAMESPACE}; name its address with --manager"))
}

/// Opens a local port to `port` of `pod`.
async fn forward(pod: &str, port: u16, kubeconfig: Option<&str>) -> Result<(Child, u16), String> {
    let kubectl = std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let mut command = Command::new(&kubectl);
    if let Some(kubeconfig) = kubeconfig {
        command.args(["--kubeconfig", kubeconfig]);
    }
    command
        .args([
            "port-forward",
            "--namespace",
            NAMESPACE,
            "--address",
            "127.0.0.1",
        ])
        .arg(format!("pod/{pod}"))
        .arg(format!(":{port}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|error| format!("{kubectl} port-forward: {error}"))?;
    let output = child.stdout.take().ok_or("kubectl has no output")?;
    let mut lines = BufReader::new(output).lines();
    let first = tokio::time::timeout(FORWARD, lines.next_line()).await;
    // Forwarding from 127.0.0.1:41234 -> 10257
    let local = match first {
        Ok(Ok(Some(line))) => line
            .split(" -> ")
            .next()
            .and_then(|start| start.rsplit_once(':')?.1.parse().ok()),
        _ => None,
    };
    let local =
        local.ok_or_else(|| format!("kubectl port-forward to pod {pod} did not open a port"))?;
    Ok((child, local))
}
