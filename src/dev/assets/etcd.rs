//! `etcd` of the folder: answers the probes of test frameworks. It stores nothing, because the
//! embedded API server keeps its objects itself.

use std::net::SocketAddr;
use std::process::ExitCode;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;

use super::flags::{self, FlagError, Given, Style};
use crate::command::print;
use crate::dev::parent;
use crate::signals::Signals;

/// Names of etcd's flags, and which of them are switches.
const FLAGS: &str = include_str!("etcd_flags.txt");

/// The version that `/version` shows, which is that of Kubernetes 1.36.
const VERSION: &str = "3.6.8";

/// `etcd` could not start.
#[derive(Debug, thiserror::Error)]
enum EtcdError {
    #[error(transparent)]
    Flag(#[from] FlagError),
    #[error("--listen-client-urls={0}: only http://HOST:PORT is supported")]
    Url(String),
    #[error("listen on {address}: {source}")]
    Listen {
        address: String,
        source: std::io::Error,
    },
    #[error("make the folder of --data-dir {path}: {source}")]
    Data {
        path: String,
        source: std::io::Error,
    },
    #[error("listen to signals: {0}")]
    Signals(#[source] std::io::Error),
    #[error("serve: {0}")]
    Serve(#[source] std::io::Error),
}

/// Runs the program until SIGTERM, SIGINT, or the end of its parent.
pub(super) fn run(arguments: Vec<String>) -> ExitCode {
    if arguments
        .iter()
        .any(|argument| argument.trim_start_matches('-') == "version")
    {
        return print(&format!("etcd Version: {VERSION}\n"));
    }
    if arguments
        .iter()
        .any(|argument| ["-h", "-help", "--help"].contains(&argument.as_str()))
    {
        let about = "Answers as etcd does. It stores nothing: the API server of Steersman keeps its objects itself.";
        return print(&flags::help(about, "etcd", FLAGS));
    }
    crate::dev::finish(0, serve(arguments))
}

async fn serve(arguments: Vec<String>) -> Result<(), EtcdError> {
    let parent_gone = parent::gone();
    let mut signals = Signals::listen_on_terminal().map_err(EtcdError::Signals)?;
    let given = flags::parse("etcd", FLAGS, Style::Go, arguments)?;
    if let Some(path) = given.last("data-dir") {
        std::fs::create_dir_all(path).map_err(|source| EtcdError::Data {
            path: path.to_owned(),
            source,
        })?;
    }
    let mut doors = Vec::new();
    for address in addresses(&given)? {
        let listener = TcpListener::bind(&address).await;
        doors.push(listener.map_err(|source| EtcdError::Listen { address, source })?);
    }
    let mut servers = tokio::task::JoinSet::new();
    for door in doors {
        servers.spawn(async move { axum::serve(door, router()).await });
    }
    tokio::select! {
        () = signals.next() => Ok(()),
        () = parent_gone, if !super::apiserver::outlives_parent() => Ok(()),
        Some(Ok(Err(error))) = servers.join_next() => Err(EtcdError::Serve(error)),
    }
}

/// The addresses of `--listen-client-urls`.
fn addresses(given: &Given) -> Result<Vec<String>, EtcdError> {
    let urls = given
        .last("listen-client-urls")
        .unwrap_or("http://localhost:2379");
    let address = |url: &str| {
        let host = url
            .trim()
            .strip_prefix("http://")
            .map(|host| host.trim_end_matches('/'));
        let has_port = |host: &&str| {
            host.parse::<SocketAddr>().is_ok()
                || host
                    .rsplit_once(':')
                    .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        };
        host.filter(has_port)
            .map(str::to_owned)
            .ok_or_else(|| EtcdError::Url(url.to_owned()))
    };
    urls.split(',').map(address).collect()
}

fn router() -> Router {
    let json = |value: serde_json::Value| ([(CONTENT_TYPE, "application/json")], value.to_string());
    let healthy = json(json!({"health": "true", "reason": ""}));
    let version = json(json!({"etcdserver": VERSION, "etcdcluster": "3.6.0", "storage": "3.6.0"}));
    Router::new()
        .route("/health", get(async || healthy))
        .route("/readyz", get(async || "ok\n"))
        .route("/livez", get(async || "ok\n"))
        .route("/version", get(async || version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_from_the_urls_of_clients() {
        let of = |urls: &str| {
            let mut given = Given::default();
            given.add("listen-client-urls", urls.to_owned());
            addresses(&given).map_err(|error| error.to_string())
        };
        assert_eq!(addresses(&Given::default()).unwrap(), ["localhost:2379"]);
        let two = of("http://127.0.0.1:1, http://[::1]:2/").unwrap();
        assert_eq!(two, ["127.0.0.1:1", "[::1]:2"]);
        for wrong in ["https://127.0.0.1:1", "http://127.0.0.1", "unix://x"] {
            assert!(
                of(wrong).unwrap_err().contains("only http://HOST:PORT"),
                "{wrong}"
            );
        }
    }
}
