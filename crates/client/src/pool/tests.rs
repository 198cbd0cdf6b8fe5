//! Tests of the pool in paused time, against a small HTTP/2 server in the same process. The server
//! misbehaves on purpose.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::BufMut;
use futures::future::join_all;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::*;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const REFUSED_STREAM: u32 = 7;

/// The server's reaction to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Answers.
    Answer,
    /// Starts an answer that stays open, like a watch.
    Hold,
    /// Does not answer.
    Silence,
    /// Refuses the stream, and answers the next one.
    RefuseOne,
}

enum Command {
    /// Changes the limit of streams.
    Limit(u32),
    /// Sends GOAWAY with this stream as the last processed one.
    GoAway(u32),
    /// Closes the connection.
    Die,
}

struct Shared {
    mode: Mode,
    limit: Option<u32>,
    answers_pings: bool,
    refuses_connections: bool,
    refused: usize,
    /// Streams beyond the limit of their connection.
    violations: usize,
    connections: Vec<mpsc::UnboundedSender<Command>>,
    /// Connections that have not ended.
    alive: usize,
    requests: usize,
}

#[derive(Clone)]
struct Server(Arc<Mutex<Shared>>);

impl Server {
    fn new(mode: Mode, limit: Option<u32>) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            mode,
            limit,
            answers_pings: true,
            refuses_connections: false,
            refused: 0,
            violations: 0,
            connections: Vec::new(),
            alive: 0,
            requests: 0,
        })))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Shared) -> T) -> T {
        change(&mut self.0.lock())
    }

    fn set(&self, mode: Mode) {
        self.with(|shared| shared.mode = mode);
    }

    fn connections(&self) -> usize {
        self.with(|shared| shared.connections.len())
    }

    fn alive(&self) -> usize {
        self.with(|shared| shared.alive)
    }

    fn command(&self, connection: usize, command: Command) {
        self.with(|shared| shared.connections[connection].send(command).unwrap());
    }

    fn pool(&self) -> Pool {
        let server = self.clone();
        let dial: Dial = Arc::new(move || {
            let server = server.clone();
            Box::pin(async move {
                let is_refused = server.with(|shared| {
                    shared.refused += usize::from(shared.refuses_connections);
                    shared.refuses_connections
                });
                if is_refused {
                    return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into());
                }
                let (ours, theirs) = duplex(1 << 16);
                let (commands, received) = mpsc::unbounded_channel();
                server.with(|shared| {
                    shared.connections.push(commands);
                    shared.alive += 1;
                });
                tokio::spawn(async move {
                    // The tests check the end of connections on the client's side.
                    let _ = server.serve(theirs, received).await;
                    server.with(|shared| shared.alive -= 1);
                });
                Ok(Dialed {
                    io: Box::new(ours) as Box<dyn Io>,
                    is_http2: true,
                })
            })
        });
        let pings = Pings {
            interval: Duration::from_secs(15),
            timeout: Duration::from_secs(10),
        };
        Pool::new("api.test:6443", dial, pings, &PoolMetrics::new().unwrap())
    }

    async fn serve(
        &self,
        mut io: DuplexStream,
        mut commands: mpsc::UnboundedReceiver<Command>,
    ) -> std::io::Result<()> {
        let mut preface = [0; 24];
        io.read_exact(&mut preface).await?;
        let mut limit = self.with(|shared| shared.limit);
        write(&mut io, SETTINGS, 0, 0, &settings(limit)).await?;
        let mut open = BTreeSet::new();
        loop {
            let mut head = [0; 9];
            tokio::select! {
                read = io.read_exact(&mut head) => read?,
                Some(command) = commands.recv() => {
                    match command {
                        Command::Limit(to) => {
                            limit = Some(to);
                            write(&mut io, SETTINGS, 0, 0, &settings(limit)).await?;
                        }
                        Command::GoAway(last) => {
                            let mut payload = last.to_be_bytes().to_vec();
                            payload.put_u32(0);
                            write(&mut io, GOAWAY, 0, 0, &payload).await?;
                        }
                        Command::Die => return Ok(()),
                    }
                    continue;
                }
            };
            let length =
                usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let kind = head[3];
            let flags = head[4];
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let mut payload = vec![0; length];
            io.read_exact(&mut payload).await?;
            match kind {
                SETTINGS if flags & ACK == 0 => write(&mut io, SETTINGS, ACK, 0, &[]).await?,
                PING if flags & ACK == 0 && self.with(|shared| shared.answers_pings) => {
                    write(&mut io, PING, ACK, 0, &payload).await?;
                }
                HEADERS => {
                    open.insert(id);
                    let mode = self.with(|shared| {
                        shared.requests += 1;
                        shared.violations +=
                            usize::from(limit.is_some_and(|limit| open.len() > limit as usize));
                        let mode = shared.mode;
                        if mode == Mode::RefuseOne {
                            shared.mode = Mode::Answer;
                        }
                        mode
                    });
                    // `:status: 200` is entry 8 of the static table.
                    match mode {
                        Mode::Answer => {
                            open.remove(&id);
                            write(&mut io, HEADERS, END_HEADERS | END_STREAM, id, &[0x88]).await?;
                        }
                        Mode::Hold => {
                            write(&mut io, HEADERS, END_HEADERS, id, &[0x88]).await?;
                            write(&mut io, DATA, 0, id, b"{}\n").await?;
                        }
                        Mode::Silence => {}
                        Mode::RefuseOne => {
                            open.remove(&id);
                            write(&mut io, RST_STREAM, 0, id, &REFUSED_STREAM.to_be_bytes())
                                .await?;
                        }
                    }
                }
                RST_STREAM => {
                    open.remove(&id);
                }
                _ => {}
            }
        }
    }
}

fn settings(limit: Option<u32>) -> Vec<u8> {
    let mut payload = Vec::new();
    if let Some(limit) = limit {
        payload.put_u16(MAX_CONCURRENT_STREAMS);
        payload.put_u32(limit);
    }
    payload
}

async fn write(
    io: &mut DuplexStream,
    kind: u8,
    flags: u8,
    id: u32,
    payload: &[u8],
) -> std::io::Result<()> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.put_u32(id);
    frame.extend(payload);
    io.write_all(&frame).await
}

fn request(lane: Lane) -> Request<Body> {
    let mut request = Request::get("https://api.test:6443/api")
        .body(Body::empty())
        .unwrap();
    request.extensions_mut().insert(lane);
    request
}

async fn send(pool: &Pool, lane: Lane) -> Result<Response<Incoming>, BoxError> {
    pool.clone().call(request(lane)).await
}

/// Starts `count` requests, and returns their open bodies after the first line.
async fn held(pool: &Pool, lane: Lane, count: usize) -> Vec<Incoming> {
    let mut bodies = Vec::new();
    for answer in join_all((0..count).map(|_| send(pool, lane))).await {
        let mut body = answer.unwrap().into_body();
        assert_eq!(
            body.frame().await.unwrap().unwrap().into_data().unwrap(),
            "{}\n"
        );
        bodies.push(body);
    }
    bodies
}

/// Lets all tasks run until they wait. The clock advances by a millisecond.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_number_of_connections_follows_the_limit_of_streams() {
    // (limit, connections for 119 watches)
    let cases = [
        (Some(1), 119),
        (Some(3), 40),
        (Some(100), 2),
        (Some(250), 1),
        (None, 1),
    ];
    for (limit, expected) in cases {
        let server = Server::new(Mode::Hold, limit);
        let pool = server.pool();
        let watches = held(&pool, Lane::Watches, 119).await;
        assert!(
            (expected..=expected + 8).contains(&server.connections()),
            "limit {limit:?}: {}",
            server.connections()
        );
        server.set(Mode::Answer);
        for answer in join_all((0..500).map(|_| send(&pool, Lane::Requests))).await {
            answer.unwrap();
        }
        assert_eq!(
            server.with(|shared| shared.violations),
            0,
            "limit {limit:?}"
        );
        drop(watches);
    }
}

#[tokio::test(start_paused = true)]
async fn watches_and_requests_use_different_connections() {
    let server = Server::new(Mode::Hold, Some(100));
    let pool = server.pool();
    let _watches = held(&pool, Lane::Watches, 100).await;
    server.set(Mode::Answer);
    send(&pool, Lane::Requests).await.unwrap();
    assert_eq!(server.connections(), 2);
    send(&pool, Lane::Requests).await.unwrap();
    assert_eq!(
        server.connections(),
        2,
        "a finished request frees its stream"
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_limit_applies_at_once() {
    let server = Server::new(Mode::Hold, Some(4));
    let pool = server.pool();
    let mut streams = held(&pool, Lane::Watches, 4).await;
    server.command(0, Command::Limit(2));
    settle().await;
    streams.truncate(2);
    settle().await;
    streams.extend(held(&pool, Lane::Watches, 1).await);
    assert_eq!(server.connections(), 2, "two of two streams are in use");
    server.command(0, Command::Limit(10));
    settle().await;
    streams.extend(held(&pool, Lane::Watches, 8).await);
    assert_eq!(
        server.connections(),
        2,
        "the first connection has free streams again"
    );
    assert_eq!(server.with(|shared| shared.violations), 0);
}

#[tokio::test(start_paused = true)]
async fn streams_rejected_by_goaway_move_to_another_connection() {
    let server = Server::new(Mode::Hold, Some(100));
    let pool = server.pool();
    let mut watch = held(&pool, Lane::Watches, 1).await.remove(0);
    server.set(Mode::Silence);
    let turned_away = tokio::spawn({
        let pool = pool.clone();
        async move { send(&pool, Lane::Watches).await.map(drop) }
    });
    settle().await;
    assert!(!turned_away.is_finished());
    server.set(Mode::Answer);
    // The watch is stream 1.
    server.command(0, Command::GoAway(1));
    turned_away.await.unwrap().unwrap();
    assert_eq!(server.connections(), 2);
    send(&pool, Lane::Watches).await.unwrap();
    assert_eq!(
        server.connections(),
        2,
        "a connection after GOAWAY gets no new requests"
    );
    assert!(
        tokio::time::timeout(Duration::from_millis(1), watch.frame())
            .await
            .is_err(),
        "the watch stays open"
    );
}

#[tokio::test(start_paused = true)]
async fn watches_of_a_closed_connection_end_with_an_error() {
    let server = Server::new(Mode::Hold, Some(100));
    let pool = server.pool();
    let watches = held(&pool, Lane::Watches, 100).await;
    server.command(0, Command::Die);
    for mut watch in watches {
        watch.frame().await.unwrap().unwrap_err();
    }
    held(&pool, Lane::Watches, 100).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_sent_again() {
    let server = Server::new(Mode::RefuseOne, Some(100));
    send(&server.pool(), Lane::Requests).await.unwrap();
    assert_eq!(
        server.with(|shared| (shared.requests, shared.connections.len())),
        (2, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn idle_connections_close() {
    let server = Server::new(Mode::Hold, Some(3));
    let pool = server.pool();
    let mut watches = held(&pool, Lane::Watches, 7).await;
    assert_eq!(server.alive(), 3);
    watches.truncate(1);
    sleep(IDLE / 2).await;
    assert_eq!(server.alive(), 3);
    sleep(IDLE).await;
    assert_eq!(server.alive(), 1);
    drop((watches, pool));
    settle().await;
    assert_eq!(
        server.alive(),
        0,
        "the last connection closes with the pool"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_leaves_its_stream_to_others() {
    let server = Server::new(Mode::Silence, Some(1));
    server.with(|shared| shared.refuses_connections = false);
    let pool = server.pool();
    let hanging = tokio::spawn({
        let pool = pool.clone();
        async move { send(&pool, Lane::Requests).await.map(drop) }
    });
    settle().await;
    server.with(|shared| shared.refuses_connections = true);
    let sent = Sent::default();
    let mut waiting = request(Lane::Requests);
    waiting.extensions_mut().insert(sent.clone());
    let dropped = tokio::time::timeout(Duration::from_secs(5), pool.clone().call(waiting)).await;
    assert!(dropped.is_err() && !sent.get(), "it was not sent");
    server.set(Mode::Answer);
    hanging.abort();
    settle().await;
    send(&pool, Lane::Requests).await.unwrap();
    assert_eq!(server.with(|shared| shared.violations), 0);
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_failed_dial_names_server_and_cause() {
    let server = Server::new(Mode::Answer, None);
    server.with(|shared| shared.refuses_connections = true);
    let pool = server.pool();
    for outcome in join_all((0..3).map(|_| send(&pool, Lane::Requests))).await {
        let error = outcome.err().unwrap();
        assert_eq!(
            error.to_string(),
            "cannot connect to api.test:6443: connection refused"
        );
    }
    server.with(|shared| shared.refuses_connections = false);
    send(&pool, Lane::Requests).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panicking_dial_is_a_failed_dial() {
    let dial: Dial = Arc::new(|| Box::pin(async { panic!("on purpose") }));
    let pings = Pings {
        interval: Duration::from_secs(15),
        timeout: Duration::from_secs(10),
    };
    let pool = Pool::new("api.test", dial, pings, &PoolMetrics::new().unwrap());
    for _ in 0..2 {
        let error = send(&pool, Lane::Requests).await.err().unwrap();
        assert_eq!(
            error.to_string(),
            "cannot connect to api.test: the dial was not finished"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_allows_no_stream_is_an_error() {
    let server = Server::new(Mode::Answer, Some(0));
    let error = send(&server.pool(), Lane::Requests)
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.ends_with("allows no HTTP/2 stream on a new connection"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_answers_to_pings_ends() {
    let server = Server::new(Mode::Hold, None);
    let pool = server.pool();
    let mut watch = held(&pool, Lane::Watches, 1).await.remove(0);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.alive(), 1, "answered pings keep it open");
    server.with(|shared| shared.answers_pings = false);
    let began = Instant::now();
    watch.frame().await.unwrap().unwrap_err();
    assert!(
        began.elapsed() <= Duration::from_secs(25 + 15),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_pong_keeps_the_connection_under_supervision() {
    let server = Server::new(Mode::Hold, None);
    let pool = server.pool();
    let mut watch = held(&pool, Lane::Watches, 1).await.remove(0);
    server.with(|shared| shared.answers_pings = false);
    // Other bytes arrive while a ping stays unanswered.
    for _ in 0..10 {
        sleep(Duration::from_secs(7)).await;
        server.command(0, Command::Limit(100));
    }
    assert_eq!(server.alive(), 1, "the connection is not silent");
    let began = Instant::now();
    watch.frame().await.unwrap().unwrap_err();
    assert!(
        began.elapsed() <= Duration::from_secs(40),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_dial_is_retried_only_after_a_pause() {
    let server = Server::new(Mode::Silence, Some(1));
    let pool = server.pool();
    let begin = || {
        let pool = pool.clone();
        tokio::spawn(async move { send(&pool, Lane::Requests).await.map(drop) })
    };
    let hanging = begin();
    settle().await;
    server.with(|shared| shared.refuses_connections = true);
    let waiting: Vec<_> = (0..5).map(|_| begin()).collect();
    sleep(Duration::from_secs(3)).await;
    let refused = server.with(|shared| shared.refused);
    assert!(
        (3..=2 * MAX_DIALS + 4).contains(&refused),
        "{refused} dials in 3 s"
    );
    server.with(|shared| shared.refuses_connections = false);
    server.set(Mode::Answer);
    for request in waiting {
        request.await.unwrap().unwrap();
    }
    hanging.abort();
}
