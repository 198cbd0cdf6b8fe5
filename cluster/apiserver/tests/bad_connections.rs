//! Connections that break off, stall or carry no HTTP. The server closes them, changes no object,
//! and serves all other clients.

use std::time::Duration;

use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{ask, both_doors, clock, connect};

/// Longer than any of these tests takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// All bytes until the other side closes. The way it closes does not matter.
async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut bytes = Vec::new();
    let closed = tokio::time::timeout(LIMIT, stream.read_to_end(&mut bytes)).await;
    let _ = closed.expect("the connection is closed");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn post(door: &HttpsDoor, headers: &str) -> String {
    let path = "/api/v1/namespaces/default/configmaps";
    let token = door.token();
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n{headers}\r\n"
    )
}

/// Checks that the server still answers in the process and through HTTPS, and that the store is at
/// `revision`.
async fn check_intact(cluster: &DevCluster, revision: u64) {
    assert_eq!(cluster.revision(), revision);
    let (doors, _open) = both_doors(cluster).await;
    for (door, client) in &doors {
        assert_eq!(
            ask(client, "GET", "/api/v1/namespaces/default", "", b"")
                .await
                .code,
            200,
            "{door}"
        );
    }
}

async fn opened() -> (DevCluster, HttpsDoor, u64) {
    let cluster = DevCluster::new(clock());
    let door = cluster
        .serve_https("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let revision = cluster.revision();
    (cluster, door, revision)
}

#[tokio::test]
async fn a_truncated_body_is_not_applied() {
    let (cluster, door, revision) = opened().await;
    // The object is complete, but the header announced more bytes.
    let whole = "{\"metadata\":{\"name\":\"x\"}}";
    for (headers, body) in [
        ("Content-Length: 4000\r\n", whole),
        (
            "Transfer-Encoding: chunked\r\n",
            "18\r\n{\"metadata\":{\"name\":\"x\"}}\r\n",
        ),
    ] {
        let mut stream = connect(&door).await;
        stream
            .write_all(format!("{}{body}", post(&door, headers)).as_bytes())
            .await
            .unwrap();
        stream.shutdown().await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer}"
        );
    }
    check_intact(&cluster, revision).await;
}

/// Without an announced length, the server reads until its limit.
#[tokio::test]
async fn an_endless_body_is_refused() {
    const PIECE: usize = 1 << 20;
    let (cluster, door, revision) = opened().await;
    let mut stream = connect(&door).await;
    stream
        .write_all(post(&door, "Transfer-Encoding: chunked\r\n").as_bytes())
        .await
        .unwrap();
    let piece = format!("{PIECE:x}\r\n{}\r\n", "x".repeat(PIECE));
    for _ in 0..16 {
        // The other side may close before it has read everything.
        if stream.write_all(piece.as_bytes()).await.is_err() {
            break;
        }
    }
    let answer = rest(&mut stream).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 413"),
        "{answer}"
    );
    check_intact(&cluster, revision).await;
}

#[tokio::test]
async fn malformed_and_oversized_requests_are_refused() {
    let (cluster, door, revision) = opened().await;
    let many: String = (0..2_000).map(|i| format!("X-{i}: y\r\n")).collect();
    let long = format!("X: {}\r\n", "y".repeat(1 << 20));
    let cases = [
        (
            "no HTTP",
            "\0\x01\x02\x03 nothing\r\n\r\n".to_owned(),
            "400",
        ),
        ("a broken request line", "GET\r\n\r\n".to_owned(), "400"),
        (
            "a broken header",
            "GET / HTTP/1.1\r\nHost x\r\n\r\n".to_owned(),
            "400",
        ),
        (
            "two lengths",
            post(&door, "Content-Length: 3\r\nContent-Length: 4\r\n"),
            "400",
        ),
        (
            "a length that is not a number",
            post(&door, "Content-Length: x\r\n"),
            "400",
        ),
        ("too many headers", post(&door, &many), "431"),
        ("a long header", post(&door, &long), "431"),
        (
            "a huge length",
            format!("{}{{", post(&door, "Content-Length: 9000000000000\r\n")),
            "413",
        ),
    ];
    for (why, sent, code) in cases {
        let mut stream = connect(&door).await;
        // The other side may close before it has read everything.
        let _ = stream.write_all(sent.as_bytes()).await;
        let answer = rest(&mut stream).await;
        assert!(
            answer.is_empty() || answer.starts_with(&format!("HTTP/1.1 {code}")),
            "{why}: {answer}"
        );
    }
    let mut plain = TcpStream::connect(door.address()).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert!(
        !rest(&mut plain).await.starts_with("HTTP"),
        "no HTTP without TLS"
    );
    check_intact(&cluster, revision).await;
}

/// Paused time advances as soon as all tasks wait.
#[tokio::test(start_paused = true)]
async fn silent_connections_time_out() {
    let (cluster, door, revision) = opened().await;
    let mut silent = TcpStream::connect(door.address()).await.unwrap();
    assert_eq!(rest(&mut silent).await, "", "no handshake");
    let mut stalled = connect(&door).await;
    stalled
        .write_all(format!("{}{{", post(&door, "Content-Length: 9\r\n")).as_bytes())
        .await
        .unwrap();
    assert!(
        rest(&mut stalled).await.starts_with("HTTP/1.1 504"),
        "no body"
    );
    assert_eq!(cluster.revision(), revision);
}
