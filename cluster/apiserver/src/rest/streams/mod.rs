//! Connections of several channels: exec, attach and port-forward.
//!
//! request -> [`Offer`] -> answer 101 with a [`Session`] -> upgraded connection: frames ([`websocket`],
//! [`spdy`]) <-> [`Input`], [`Output`] of channels <-> [`Work`] ([`command`], [`forward`])
//!
//! kubectl speaks WebSocket, where port-forward carries SPDY inside; Go programs mostly speak SPDY, and other
//! languages WebSocket. Upstream: `k8s.io/apimachinery/pkg/util/httpstream`,
//! `k8s.io/kubelet/pkg/cri/streaming`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use ring::digest;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{Receiver, UnboundedSender, channel, unbounded_channel};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::status::Status;

mod command;
mod forward;
mod spdy;
mod websocket;

pub(super) use command::Command;
pub(super) use forward::Forward;

/// Standard input of a command.
const STDIN: u32 = 0;
/// Its standard output.
const STDOUT: u32 = 1;
/// Its standard error.
const STDERR: u32 = 2;
/// The status of its end.
const ERROR: u32 = 3;
/// Changes of the size of its terminal.
const RESIZE: u32 = 4;

/// Time for a client to close its side.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Unsent pieces of output. More wait for the client.
const UNSENT: usize = 64;

const WEBSOCKET_KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const WEBSOCKET_ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const WEBSOCKET_PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// The protocols of commands, over WebSocket and over SPDY.
pub(super) const COMMAND: [&[&str]; 2] = [
    &["v5.channel.k8s.io", "v4.channel.k8s.io"],
    &["v4.channel.k8s.io"],
];
/// The protocols of port-forward.
pub(super) const FORWARD: [&[&str]; 2] = [&[TUNNEL, "v4.channel.k8s.io"], &["portforward.k8s.io"]];
/// SPDY inside of WebSocket messages.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// The protocol in which clients can close single channels.
const CLOSING: &str = "v5.channel.k8s.io";

/// An extension of requests whose connection can change its protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Upgradable;

/// The change of protocol that a client offers.
#[derive(Debug)]
pub(super) struct Offer {
    /// `Sec-WebSocket-Key`; `None` for SPDY.
    key: Option<String>,
    /// The protocols inside, in the order of the client.
    protocols: Vec<String>,
}

/// The protocol of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Transport {
    /// Channels of WebSocket messages; the client may close them one by one.
    WebSocket {
        closing: bool,
    },
    /// SPDY inside of WebSocket messages.
    Tunnel,
    Spdy,
}

/// An event of the client.
#[derive(Debug, PartialEq, Eq)]
enum Input {
    /// A new channel of a port-forward.
    Open(u32, Opened),
    Data(u32, Bytes),
    End(u32),
}

/// A new channel of a port-forward.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Opened {
    /// Whether it carries errors, beside the channel of the data.
    is_error: bool,
    port: u16,
    /// Equal for the two channels of one connection.
    request: String,
}

/// An event for the client.
#[derive(Debug, PartialEq, Eq)]
enum Output {
    Data(u32, Bytes),
    End(u32),
}

/// Both directions of a session, as its work sees them.
struct Channels {
    input: tokio::sync::mpsc::UnboundedReceiver<Input>,
    output: tokio::sync::mpsc::Sender<Output>,
}

impl Channels {
    /// Sends data. A client that is gone needs none.
    async fn send(&self, channel: u32, data: impl Into<Bytes>) {
        let data = data.into();
        if !data.is_empty() {
            drop(self.output.send(Output::Data(channel, data)).await);
        }
    }
}

/// The work of a session.
#[derive(Debug)]
pub(super) enum Work {
    Command(Command),
    Forward(Forward),
}

/// A session that begins when its connection has changed its protocol.
#[derive(Debug)]
pub(crate) struct Session {
    transport: Transport,
    work: Work,
}

/// The use of a connection after its change of protocol.
#[derive(Debug)]
pub(crate) enum Changed {
    Session(Box<Session>),
    /// Bytes pass between the client and another program.
    Piped(Upgraded),
}

/// A use of a connection in the extensions of its answer, which have to be cloneable.
#[derive(Debug, Clone)]
pub(crate) struct Begun(Arc<Mutex<Option<Changed>>>);

impl Begun {
    pub(super) fn new(changed: Changed) -> Self {
        Self(Arc::new(Mutex::new(Some(changed))))
    }

    /// The use, once.
    pub(crate) fn take(&self) -> Option<Changed> {
        self.0.lock().take()
    }
}

impl Offer {
    /// The offer of a request; `None` without one.
    pub(super) fn of(parts: &Parts) -> Option<Self> {
        parts.extensions.get::<Upgradable>()?;
        let list = |name: HeaderName| {
            let values = parts.headers.get_all(name).into_iter();
            let texts = values.filter_map(|value| value.to_str().ok());
            let names = texts.flat_map(|text| text.split(','));
            names.map(|name| name.trim().to_owned()).collect()
        };
        let is = |wanted: &str| super::header(parts, &UPGRADE).eq_ignore_ascii_case(wanted);
        if is("websocket") {
            Some(Self {
                key: Some(super::header(parts, &WEBSOCKET_KEY).to_owned()),
                protocols: list(WEBSOCKET_PROTOCOL),
            })
        } else if is("SPDY/3.1") {
            Some(Self {
                key: None,
                protocols: list(STREAM_PROTOCOL),
            })
        } else {
            None
        }
    }

    /// The session of the first protocol that both sides know, with the headers of its answer.
    pub(super) fn accept(
        &self,
        [websocket, spdy]: [&[&str]; 2],
        work: Work,
    ) -> Result<(Session, HeaderMap), Status> {
        let known = if self.key.is_some() { websocket } else { spdy };
        let mut offered = self.protocols.iter();
        let protocol = offered.find(|name| known.contains(&name.as_str()));
        if protocol.is_none() && !self.protocols.is_empty() {
            return Err(Status::new(
                403,
                "Forbidden",
                format!(
                    "unable to negotiate protocol: client supports [{}], server accepts [{}]",
                    self.protocols.join(" "),
                    known.join(" ")
                ),
            ));
        }
        let protocol = protocol.map(String::as_str);
        let transport = match (&self.key, protocol) {
            (None, _) => Transport::Spdy,
            (Some(_), Some(TUNNEL)) => Transport::Tunnel,
            (Some(_), protocol) => Transport::WebSocket {
                closing: protocol == Some(CLOSING),
            },
        };
        Ok((Session { transport, work }, self.headers(protocol)))
    }

    fn headers(&self, protocol: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        let protocol = protocol.and_then(|name| HeaderValue::from_str(name).ok());
        let (upgrade, name) = match &self.key {
            Some(key) => {
                let answer = HeaderValue::try_from(accept_key(key));
                headers.insert(WEBSOCKET_ACCEPT, answer.expect("Base64 is a header value"));
                ("websocket", WEBSOCKET_PROTOCOL)
            }
            None => ("SPDY/3.1", STREAM_PROTOCOL),
        };
        headers.insert(UPGRADE, HeaderValue::from_static(upgrade));
        if let Some(protocol) = protocol {
            headers.insert(name, protocol);
        }
        headers
    }
}

/// `Sec-WebSocket-Accept` for a key (RFC 6455, section 4.2.2).
fn accept_key(key: &str) -> String {
    const SALT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let text = format!("{key}{SALT}");
    let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    STANDARD.encode(sum)
}

impl Work {
    async fn run(self, channels: Channels) {
        match self {
            Self::Command(command) => command.run(channels).await,
            Self::Forward(forward) => forward.run(channels).await,
        }
    }

    /// The ports that a client names in advance.
    fn ports(&self) -> &[u16] {
        match self {
            Self::Command(_) => &[],
            Self::Forward(forward) => forward.ports(),
        }
    }

    /// The channels that a client opens before the work begins; `None` if it may open any.
    fn awaited(&self) -> Option<Vec<u32>> {
        match self {
            Self::Command(command) => Some(command.channels()),
            Self::Forward(_) => None,
        }
    }
}

impl Changed {
    /// Uses an upgraded connection until one side ends it, or the server stops.
    pub(crate) async fn run(
        self,
        io: impl AsyncRead + AsyncWrite + Send + Unpin,
        stop: &CancellationToken,
    ) {
        match self {
            Self::Session(session) => {
                stop.run_until_cancelled(session.run(io)).await;
            }
            Self::Piped(program) => pipe(io, TokioIo::new(program), stop).await,
        }
    }
}

/// Copies in both directions until one side ends, or the server stops. Upstream:
/// `UpgradeAwareHandler.tryUpgrade`.
async fn pipe(
    client: impl AsyncRead + AsyncWrite,
    program: impl AsyncRead + AsyncWrite,
    stop: &CancellationToken,
) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_program, mut to_program) = tokio::io::split(program);
    let copied = tokio::select! {
        copied = tokio::io::copy(&mut from_client, &mut to_program) => copied,
        copied = tokio::io::copy(&mut from_program, &mut to_client) => copied,
        () = stop.cancelled() => Ok(0),
    };
    // Without it, TLS tells both sides that an attacker may have cut the stream. A side that reads nothing would
    // hold the server up.
    let closed = timeout(CLOSE_LIMIT, async {
        tokio::join!(to_client.shutdown(), to_program.shutdown())
    });
    let (client, program) = closed.await.unwrap_or((Ok(()), Ok(())));
    if let Err(error) = copied.and(client).and(program) {
        tracing::debug!(%error, "a connection to another program failed");
    }
}

impl Session {
    /// Runs on an upgraded connection until the work is done or the client is gone.
    async fn run(self, io: impl AsyncRead + AsyncWrite + Send + Unpin) {
        let (to_work, input) = unbounded_channel();
        let (output, from_work) = channel(UNSENT);
        let pipes = (to_work, from_work);
        let ports = self.work.ports().to_vec();
        let awaited = self.work.awaited();
        let work = self.work.run(Channels { input, output });
        let frames = async {
            match self.transport {
                Transport::WebSocket { closing } => {
                    websocket::drive(io, &ports, closing, pipes).await
                }
                Transport::Tunnel => {
                    let (near, far) = tokio::io::duplex(64 << 10);
                    let (inner, outer) = tokio::join!(
                        spdy::drive(far, awaited, pipes),
                        websocket::tunnel(io, near)
                    );
                    inner.and(outer)
                }
                Transport::Spdy => spdy::drive(io, awaited, pipes).await,
            }
        };
        let (framed, ()) = tokio::join!(frames, work);
        if let Err(error) = framed {
            tracing::debug!(%error, "a session of channels failed");
        }
    }
}

/// Ends a connection after its last frame: the client gets a moment to close its side first, since a reset would
/// discard frames on their way to it.
async fn close(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut nowhere = tokio::io::sink();
    let rest = tokio::io::copy(&mut reader, &mut nowhere);
    drop(timeout(CLOSE_LIMIT, rest).await);
    writer.shutdown().await
}

/// The ends of the pipes between frames and work.
type Pipes = (UnboundedSender<Input>, Receiver<Output>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_websocket_is_answered_as_in_the_rfc() {
        let answer = accept_key("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(answer, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn the_first_common_protocol_is_chosen() {
        let websocket = |protocols: &[&str]| Offer {
            key: Some("k".to_owned()),
            protocols: protocols.iter().map(|name| (*name).to_owned()).collect(),
        };
        let spdy = |protocols: &[&str]| Offer {
            key: None,
            ..websocket(protocols)
        };
        let chosen = |offer: Offer, known| {
            let work = Work::Forward(Forward::default());
            let accepted = offer.accept(known, work);
            accepted.map(|(session, _)| session.transport).ok()
        };
        let channels = |closing| Some(Transport::WebSocket { closing });
        let v5 = "v5.channel.k8s.io";
        let v4 = "v4.channel.k8s.io";
        assert_eq!(chosen(websocket(&[v5, v4]), COMMAND), channels(true));
        assert_eq!(chosen(websocket(&["x", v4]), COMMAND), channels(false));
        assert_eq!(chosen(websocket(&[]), COMMAND), channels(false));
        assert_eq!(chosen(websocket(&["x"]), COMMAND), None);
        assert_eq!(
            chosen(websocket(&[TUNNEL]), FORWARD),
            Some(Transport::Tunnel)
        );
        assert_eq!(chosen(spdy(&[v4]), COMMAND), Some(Transport::Spdy));
        assert_eq!(chosen(spdy(&[v5]), COMMAND), None);
    }
}
