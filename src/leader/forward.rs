//! A local port to the pod of a manager, by `kubectl port-forward`.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

/// Time for kubectl to open a port.
const LIMIT: Duration = Duration::from_secs(10);

/// An open port. It closes when this is dropped.
pub(super) struct Forward {
    pub(super) local: u16,
    _kubectl: Child,
}

/// Opens a local port to `port` of the pod `namespace/pod`.
pub(super) async fn forward(
    kubectl: &str,
    namespace: &str,
    pod: &str,
    port: u16,
    kubeconfig: Option<&str>,
) -> Result<Forward, String> {
    let mut command = Command::new(kubectl);
    if let Some(kubeconfig) = kubeconfig {
        command.args(["--kubeconfig", kubeconfig]);
    }
    command
        .args(["port-forward", "--namespace", namespace])
        .args(["--address", "127.0.0.1"])
        .arg(format!("pod/{pod}"))
        .arg(format!(":{port}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|error| format!("{kubectl} port-forward: {error}"))?;
    let output = child.stdout.take().ok_or("kubectl has no output")?;
    let mut lines = BufReader::new(output).lines();
    let first = tokio::time::timeout(LIMIT, lines.next_line()).await;
    let local = match &first {
        Ok(Ok(Some(line))) => local_port(line),
        _ => None,
    };
    if let Some(local) = local {
        // kubectl reports each connection, and ends if its output is closed. Both tasks end with it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        if let Some(mut errors) = child.stderr.take() {
            tokio::spawn(async move { tokio::io::copy(&mut errors, &mut tokio::io::sink()).await });
        }
        let forward = Forward {
            local,
            _kubectl: child,
        };
        return Ok(forward);
    }
    // It may still run, and its errors end with it.
    let _ = child.start_kill();
    let mut said = String::new();
    if let Some(mut errors) = child.stderr.take() {
        // Without its words, the error below says enough.
        let _ = tokio::time::timeout(LIMIT, errors.read_to_string(&mut said)).await;
    }
    let said = said
        .lines()
        .last()
        .unwrap_or("no port was opened")
        .to_owned();
    Err(format!(
        "kubectl port-forward to pod {namespace}/{pod}: {said}"
    ))
}

/// The local port in a line such as `Forwarding from 127.0.0.1:41234 -> 10257`.
fn local_port(line: &str) -> Option<u16> {
    let (from, _) = line.split_once(" -> ")?;
    from.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[tokio::test]
    async fn kubectl_can_report_connections() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let script = home.path().join("kubectl");
        let place = home.path().display();
        let text = format!(
            "#!/bin/sh\necho 'Forwarding from 127.0.0.1:1 -> 2'\nuntil [ -e {place}/go ]; do sleep 0.05; done\n\
             echo 'Handling connection for 1' && touch {place}/handled\nexec sleep 600\n"
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
        let kubectl = script.display().to_string();
        let forward = forward(&kubectl, "kube-system", "m", 2, None)
            .await
            .unwrap();
        assert_eq!(forward.local, 1);
        std::fs::write(home.path().join("go"), "").unwrap();
        let limit = tokio::time::Instant::now() + LIMIT;
        while !home.path().join("handled").exists() {
            assert!(tokio::time::Instant::now() < limit, "kubectl has ended");
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn the_line_of_kubectl_has_the_port() {
        let cases = [
            ("Forwarding from 127.0.0.1:41234 -> 10257", Some(41234)),
            ("Forwarding from [::1]:41234 -> 10257", Some(41234)),
            ("error: lost connection to pod", None),
        ];
        for (line, expected) in cases {
            assert_eq!(local_port(line), expected, "{line}");
        }
    }
}
