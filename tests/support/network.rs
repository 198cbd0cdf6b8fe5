//! A network between one manager and the API server that can fail.

use std::net::SocketAddr;
use std::pin::pin;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The treatment of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Passing,
    Silent,
    Refusing,
}

/// A TCP proxy to one server. Dropping it closes all connections.
pub(crate) struct Network {
    address: SocketAddr,
    state: watch::Sender<State>,
}

impl Network {
    /// A proxy to `server`.
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, seen) = watch::channel(State::Passing);
        tokio::spawn(accept(listener, server, seen));
        Self { address, state }
    }

    /// The address of the proxy.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Discards all traffic without closing connections; data in transit is lost.
    pub(crate) fn drop_traffic(&self) {
        self.state.send_replace(State::Silent);
    }

    /// Closes all connections, also new ones at once, as if the server were down.
    pub(crate) fn refuse(&self) {
        self.state.send_replace(State::Refusing);
    }

    /// Lets new connections pass again.
    pub(crate) fn restore(&self) {
        self.state.send_replace(State::Passing);
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, mut state: watch::Receiver<State>) {
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.unwrap();
                tokio::spawn(pass(client, server, state.clone()));
            }
            changed = state.changed() => if changed.is_err() { return },
        }
    }
}

/// Forwards one connection; both sides are closed when this returns.
async fn pass(mut client: TcpStream, server: SocketAddr, mut state: watch::Receiver<State>) {
    let mut copy = pin!(async {
        let mut server = TcpStream::connect(server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    });
    if *state.borrow_and_update() == State::Passing {
        tokio::select! {
            _ = &mut copy => return,
            changed = state.changed() => if changed.is_err() { return },
        }
    }
    // An error means that the proxy was dropped.
    let _ = state.wait_for(|state| *state != State::Silent).await;
}
