//! Requests through the HTTPS port, which the server passes on to a program.

use steersman_devcluster::https::HttpsDoor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::client::TlsStream;

use super::*;
use crate::support::connect;

/// A cluster whose APIService leads to a running program, and its port.
async fn open() -> (DevCluster, HttpsDoor, Program) {
    let certificate = Certificate::issued();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = aggregating(&listener, &certificate).await;
    let program = Program::start(listener, certificate.acceptor());
    condition(&cluster, "Passed").await;
    let address = "127.0.0.1:0".parse().unwrap();
    let door = cluster.serve_https(address).await.unwrap();
    (cluster, door, program)
}

/// A connection on which a request was sent.
async fn sent(door: &HttpsDoor, path: &str, headers: &str) -> TlsStream<tokio::net::TcpStream> {
    let mut stream = connect(door).await;
    let token = door.token();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads until the text ends with `end`.
async fn read_until(stream: &mut (impl AsyncReadExt + Unpin), end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let byte = tokio::time::timeout(PATIENCE, stream.read_u8()).await;
        let byte = byte.unwrap_or_else(|_| panic!("{text}"));
        text.push(char::from(byte.unwrap()));
    }
    text
}

#[tokio::test]
async fn the_address_of_the_client_is_forwarded() {
    let (cluster, door, program) = open().await;
    let given = "X-Forwarded-For: 10.1.2.3\r\nX-Forwarded-For: 10.1.2.4\r\nConnection: close\r\n";
    let mut stream = sent(&door, THINGS, given).await;
    read_until(&mut stream, "{\"kind\":  \"ThingList\"}").await;
    let headers = program.headers(THINGS);
    assert_eq!(headers["x-forwarded-for"], "10.1.2.3, 10.1.2.4, 127.0.0.1");
    assert_eq!(headers.get_all("x-forwarded-for").iter().count(), 1);

    // Requests in the process have no address.
    get(&cluster, THINGS).await;
    assert!(!program.headers(THINGS).contains_key("x-forwarded-for"));
}

#[tokio::test]
async fn an_answer_that_breaks_off_has_no_end() {
    let (cluster, door, program) = open().await;
    let mut stream = sent(&door, BROKEN, "").await;
    read_until(&mut stream, "\r\n\r\n9\r\n{\"items\":\r\n").await;
    program.frames.add_permits(1);
    let mut rest = Vec::new();
    let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    let _closed = end.expect("the connection ends");
    // A whole answer ends with an empty piece.
    assert_eq!(String::from_utf8(rest).unwrap(), "");

    let answer = ask(&cluster, "GET", BROKEN, &[], "").await;
    let mut frames = BodyStream::new(answer.into_body());
    assert!(frames.next().await.unwrap().is_ok());
    program.frames.add_permits(1);
    assert!(frames.next().await.unwrap().is_err());
}

#[tokio::test]
async fn a_connection_changes_its_protocol_with_the_program() {
    let (_cluster, door, program) = open().await;
    // The client is `admin`, and claims another identity.
    let upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: echo\r\nX-Remote-User: root\r\n\
                   X-Remote-Group: system:nodes\r\nX-Remote-Extra-Scopes: all\r\n";
    let mut stream = sent(&door, ECHO, upgrade).await;
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("upgrade: echo\r\n"), "{head}");
    for word in ["ab", "c."] {
        stream.write_all(word.as_bytes()).await.unwrap();
        read_until(&mut stream, word).await;
    }
    // The program ends after the full stop, and so does the connection of the client.
    let mut rest = Vec::new();
    let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    end.expect("the connection ends").unwrap();
    assert_eq!(rest, b"");
    let headers = program.headers(ECHO);
    assert_eq!(headers["upgrade"], "echo");
    let users: Vec<_> = headers.get_all("x-remote-user").iter().collect();
    assert_eq!(users, ["admin"]);
    let groups: Vec<_> = headers.get_all("x-remote-group").iter().collect();
    assert_eq!(groups, ["system:masters", "system:authenticated"]);
    assert!(!headers.contains_key("x-remote-extra-scopes"));
    assert!(!headers.contains_key("x-forwarded-uri"));

    let mut stream = sent(&door, THINGS, upgrade).await;
    let refused = read_until(&mut stream, "status code 200\n").await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(
        refused.ends_with("invalid upgrade response: status code 200\n"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_answer_has_the_time_of_its_request() {
    let (cluster, _door, program) = open().await;
    let late = json!({
        "metadata": {}, "status": "Failure",
        "message": "Timeout: request did not complete within the allotted timeout",
        "reason": "Timeout", "details": {}, "code": 504,
    });
    let (code, answer) = get(&cluster, &format!("{SILENT}?timeout=50ms")).await;
    assert_eq!(
        (code, serde_json::from_str::<Value>(&answer).unwrap()),
        (504, late)
    );
    let answer = ask(&cluster, "GET", &format!("{BROKEN}?timeout=5s"), &[], "").await;
    let mut frames = BodyStream::new(answer.into_body());
    assert!(frames.next().await.unwrap().is_ok());
    assert!(frames.next().await.unwrap().is_err());
    // A watch has no limit.
    let path = format!("{THINGS}?watch=1&timeout=50ms");
    let request = get(&cluster, &path);
    let events = async {
        get(&cluster, &format!("{SILENT}?timeout=60ms")).await;
        // The broken answer may wait for one of them.
        program.frames.add_permits(3);
    };
    let ((code, events), ()) = tokio::join!(request, events);
    assert_eq!((code, events.lines().count()), (200, 2));
}

#[tokio::test]
async fn streams_end_in_order_when_the_server_stops() {
    let (_cluster, door, mut program) = open().await;
    let mut watch = sent(&door, &format!("{THINGS}?watch=1"), "").await;
    program.frames.add_permits(1);
    read_until(&mut watch, "{\"number\": 0}\n\r\n").await;
    let upgrade = "Connection: Upgrade\r\nUpgrade: echo\r\n";
    let mut echo = sent(&door, ECHO, upgrade).await;
    read_until(&mut echo, "\r\n\r\n").await;
    let mut list = sent(&door, BROKEN, "").await;
    read_until(&mut list, "{\"items\":\r\n").await;

    let mut rest = [String::new(), String::new(), String::new()];
    let [of_watch, of_echo, of_list] = &mut rest;
    let ends = async {
        let ends = tokio::join!(
            watch.read_to_string(of_watch),
            echo.read_to_string(of_echo),
            list.read_to_string(of_list),
        );
        (ends.0.is_ok(), ends.1.is_ok())
    };
    let ((), ends) = tokio::join!(door.stop(), ends);
    assert_eq!(ends, (true, true));
    // A whole answer ends with an empty piece. The list is none.
    assert_eq!(rest, ["0\r\n\r\n", "", ""]);
    let ended = program.ended.wait_for(Option::is_some).await.unwrap();
    assert!(matches!(*ended, Some(Ok(()))), "{ended:?}");
}
