//! A leader with an HTTPS port that delegates authentication and authorization to its cluster.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;

use super::cluster::{held, wait_for_lease};
use super::{Clients, Identity, Program, ask, free_port, tls, tls_with_chain};

/// A manager with its cluster. Dropping it ends all parts.
pub(crate) struct Secured {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
    pub(crate) home: tempfile::TempDir,
    pub(crate) clients: Clients,
    pub(crate) cluster: DevCluster,
    certificate: PathBuf,
    door: HttpsDoor,
}

impl Secured {
    /// Starts a manager with more flags, and waits until it leads.
    pub(crate) async fn start(cluster: DevCluster, flags: &[&str]) -> Self {
        Self::start_as(cluster, flags, |kubeconfig, _| kubeconfig).await
    }

    /// As [`Secured::start`], with the manager's credentials from an exec plugin.
    pub(crate) async fn start_with_plugin(cluster: DevCluster, flags: &[&str]) -> Self {
        Self::start_as(cluster, flags, from_plugin).await
    }

    async fn start_as(
        cluster: DevCluster,
        flags: &[&str],
        change: fn(String, &Path) -> String,
    ) -> Self {
        let home = tempfile::tempdir().unwrap();
        let door = cluster
            .serve_https(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let kubeconfig = home.path().join("kubeconfig");
        std::fs::write(&kubeconfig, change(door.kubeconfig(), home.path())).unwrap();
        let clients = Clients::new(home.path());
        let port = free_port();
        let file = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let files = [
            file("kubeconfig", &kubeconfig),
            file("authentication-kubeconfig", &kubeconfig),
            file("authorization-kubeconfig", &kubeconfig),
            file("client-ca-file", &clients.bundle),
            file("cert-dir", home.path()),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
        ];
        let arguments: Vec<&str> = files
            .iter()
            .map(String::as_str)
            .chain(flags.iter().copied())
            .collect();
        let program = Program::start(&arguments);
        wait_for_lease(&cluster, held).await;
        let certificate = home.path().join("kube-controller-manager.crt");
        Self {
            program,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            home,
            clients,
            cluster,
            certificate,
            door,
        }
    }

    /// Sends a request. `line` is the request line without the HTTP version.
    pub(crate) fn ask(
        &self,
        line: &str,
        headers: &str,
        body: &str,
        identity: Option<&Identity>,
    ) -> (String, String) {
        let request = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n{body}"
        );
        tokio::task::block_in_place(|| {
            ask(self.address, tls(&self.certificate, identity), &request)
        })
    }

    /// TLS settings of a client of the HTTPS port.
    pub(crate) fn tls(&self, identity: Option<&Identity>) -> Arc<ClientConfig> {
        tls(&self.certificate, identity)
    }

    /// The same with a whole chain of client certificates.
    pub(crate) fn tls_with_chain(
        &self,
        (chain, key): (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
    ) -> Arc<ClientConfig> {
        tls_with_chain(&self.certificate, chain, key)
    }

    /// Ends the program, and waits for requests in progress.
    pub(crate) async fn stop(self) {
        drop(self.program);
        self.door.stop().await;
    }
}

/// `kubeconfig` with an exec plugin that prints its certificate and key.
fn from_plugin(kubeconfig: String, home: &Path) -> String {
    let decoded = |name: &str| {
        let value = kubeconfig
            .lines()
            .find_map(|line| line.trim().strip_prefix(name))
            .unwrap();
        String::from_utf8(STANDARD.decode(value.trim()).unwrap()).unwrap()
    };
    let certificate = decoded("client-certificate-data:");
    let key = decoded("client-key-data:");
    let credential = json!({
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"clientCertificateData": certificate, "clientKeyData": key},
    });
    let file = home.join("credential.json");
    std::fs::write(&file, credential.to_string()).unwrap();
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "cat",
        "args": [file.to_str().unwrap()],
        "interactiveMode": "Never",
    });
    let is_own = |line: &&str| !line.trim().starts_with("client-");
    let lines: Vec<&str> = kubeconfig.lines().filter(is_own).collect();
    lines
        .join("\n")
        .replace("  user:\n", &format!("  user:\n    exec: {exec}\n"))
}
