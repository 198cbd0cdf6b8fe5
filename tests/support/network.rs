//! A network between one manager and the API server, which can fail.

use std::net::SocketAddr;
use std::pin::pin;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Whole,
    Silent,
    Refusing,
}

/// Passes connections on to one server. All of them end when this is dropped.
pub(crate) struct Network {
    address: SocketAddr,
    state: watch::Sender<State>,
}

impl Network {
    /// A network whose other end is `server`.
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, seen) = watch::channel(State::Whole);
        tokio::spawn(accept(listener, server, seen));
        Self { address, state }
    }

    /// Where to connect to reach the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing passes and nobody is told; what was under way is lost.
    pub(crate) fn fall_silent(&self) {
        self.state.send_replace(State::Silent);
    }

    /// All connections end, and new ones do at once, as if the server were gone.
    pub(crate) fn refuse(&self) {
        self.state.send_replace(State::Refusing);
    }

    /// New connections pass again.
    pub(crate) fn mend(&self) {
        self.state.send_replace(State::Whole);
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

/// Both ends close when this returns.
async fn pass(mut client: TcpStream, server: SocketAddr, mut state: watch::Receiver<State>) {
    let mut copy = pin!(async {
        let mut server = TcpStream::connect(server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    });
    if *state.borrow_and_update() == State::Whole {
        tokio::select! {
            _ = &mut copy => return,
            changed = state.changed() => if changed.is_err() { return },
        }
    }
    // An error says that the network is no more.
    let _ = state.wait_for(|state| *state != State::Silent).await;
}
