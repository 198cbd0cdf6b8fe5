//! Helpers for tests of whole managers: the program, an API server with a fixed answer, and TLS
//! clients.

pub(crate) mod cluster;
pub(crate) mod control_plane;
pub(crate) mod network;
pub(crate) mod script;
pub(crate) mod secured;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// Time limit of every wait; the test fails after it. Packing a release takes half a minute alone, and
/// minutes beside builds.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// A command that runs the program without the service account of a surrounding pod.
pub(crate) fn steersman(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steersman"));
    command
        .args(arguments)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("KUBERNETES_SERVICE_PORT")
        .stdin(Stdio::null());
    command
}

/// Reports a skipped test with the reason; shown with `--nocapture`.
pub(crate) fn skip(reason: &str) {
    let test = std::thread::current();
    eprintln!("skipped {}: {reason}", test.name().unwrap_or("a test"));
}

/// Runs the program until it ends.
pub(crate) fn output(arguments: &[&str]) -> Output {
    output_of(&mut steersman(arguments))
}

/// Runs a command until it ends.
pub(crate) fn output_of(command: &mut Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = drain(child.stdout.take().unwrap());
    let stderr = drain(child.stderr.take().unwrap());
    let status = wait(&mut child);
    Output {
        status,
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// A Python with the package `module`; `None`, with a message, if there is none.
pub(crate) fn python(module: &str) -> Option<PathBuf> {
    let named = std::env::var_os("PYTHON").map(PathBuf::from);
    let local = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/python");
    let python = named.or_else(|| local.exists().then_some(local));
    let has_it = |python: &PathBuf| {
        let tried = Command::new(python)
            .args(["-c", &format!("import {module}")])
            .stderr(Stdio::null())
            .status();
        tried.is_ok_and(|status| status.success())
    };
    let found = python.filter(has_it);
    if found.is_none() {
        eprintln!(
            "skipped: no Python with the package {module}; scripts/test.sh brings one, PYTHON names one"
        );
    }
    found
}

/// Reads a pipe to its end in a thread, so that the child never blocks on a full pipe.
fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Waits for `child`. Kills it and fails the test after the time limit.
pub(crate) fn wait(child: &mut Child) -> std::process::ExitStatus {
    let start = std::time::Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("the program did not end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running program with its log. Dropping it kills the program.
pub(crate) struct Program {
    child: Child,
    lines: mpsc::Receiver<String>,
    seen: Vec<String>,
}

impl Program {
    /// Starts the program with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::spawn(&mut steersman(arguments))
    }

    /// Starts any command.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            log.lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Waits for a line of the log that contains `part`.
    pub(crate) fn wait_for_line(&mut self, part: &str) {
        let start = std::time::Instant::now();
        loop {
            match self
                .lines
                .recv_timeout(LIMIT.saturating_sub(start.elapsed()))
            {
                Ok(line) => self.seen.push(line),
                Err(_) => panic!("no line with {part:?} in:\n{}", self.seen.join("\n")),
            }
            if self.seen.last().is_some_and(|line| line.contains(part)) {
                return;
            }
        }
    }

    /// Whether the log has a line that contains `part` by now.
    pub(crate) fn has_line(&mut self, part: &str) -> bool {
        self.seen.extend(self.lines.try_iter());
        self.seen.iter().any(|line| line.contains(part))
    }

    /// Waits until `is_so`. Prints the log if the program ends first, or after the time limit.
    pub(crate) fn wait_until(&mut self, what: &str, is_so: impl Fn() -> bool) {
        let start = std::time::Instant::now();
        while !is_so() {
            self.assert_running();
            assert!(
                start.elapsed() < LIMIT,
                "still not {what}\n{}",
                self.seen.join("\n")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Panics with the log if the program has ended.
    pub(crate) fn assert_running(&mut self) {
        self.seen.extend(self.lines.try_iter());
        let ended = self.child.try_wait().unwrap();
        assert!(
            ended.is_none(),
            "ended: {ended:?}\n{}",
            self.seen.join("\n")
        );
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits for the end of the program. Returns the exit status; `None` if a signal ended it.
    pub(crate) fn end(&mut self) -> Option<i32> {
        wait(&mut self.child).code()
    }

    /// As [`Program::end`], with the whole log.
    pub(crate) fn end_with_log(mut self) -> (Option<i32>, String) {
        let status = self.end();
        self.seen.extend(self.lines.iter());
        (status, self.seen.join("\n"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Usually the program has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An API server that answers every request with `status`, until the test process ends.
pub(crate) fn api_server(status: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap(), status));
        }
    });
    address
}

fn answer(mut stream: TcpStream, status: &str) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|n| n > 0) {
        if line == "\r\n" {
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"
            );
            if stream.write_all(head.as_bytes()).is_err() {
                return;
            }
        }
        line.clear();
    }
}

/// Writes a kubeconfig for the server at `address` to `directory`; returns its path.
pub(crate) fn kubeconfig(directory: &Path, address: SocketAddr) -> String {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\nclusters:\n- name: test\n  cluster:\n    server: http://{address}\n\
         contexts:\n- name: test\n  context:\n    cluster: test\n    user: test\nusers:\n- name: test\n  user: {{}}\n"
    );
    let path = directory.join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A port that was free a moment ago; another process may still take it.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// A certificate authority for clients, with its bundle for `--client-ca-file`, and its key.
pub(crate) struct Clients {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pub(crate) bundle: PathBuf,
    pub(crate) key: PathBuf,
}

/// The certificate and the private key of a client.
pub(crate) type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Clients {
    /// Creates an authority, and writes its certificate and its key to `directory`.
    pub(crate) fn new(directory: &Path) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "clients");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let [bundle, key_file] =
            ["crt", "key"].map(|end| directory.join(format!("client-ca.{end}")));
        std::fs::write(&bundle, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        Self {
            issuer: rcgen::Issuer::new(params, key),
            bundle,
            key: key_file,
        }
    }

    /// A client certificate for this user and group.
    pub(crate) fn identity(&self, name: &str, group: &str) -> Identity {
        self.identity_until(name, group, 4096)
    }

    /// As [`Clients::identity`], valid until the beginning of `year`.
    pub(crate) fn identity_until(&self, name: &str, group: &str, year: i32) -> Identity {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, group);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (
            certificate.der().clone(),
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
    }

    /// A client certificate in the group `system:masters`.
    pub(crate) fn master(&self) -> Identity {
        self.identity("master", "system:masters")
    }
}

/// TLS settings with `identity` as the client certificate. They trust the last certificate in the
/// file `certificate`, which is the authority.
pub(crate) fn tls(certificate: &Path, identity: Option<&Identity>) -> Arc<rustls::ClientConfig> {
    tls_with(
        certificate,
        identity,
        rustls::crypto::ring::default_provider(),
        rustls::DEFAULT_VERSIONS,
    )
}

/// As [`tls`], with a chain of client certificates.
pub(crate) fn tls_with_chain(
    certificate: &Path,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Arc<rustls::ClientConfig> {
    let provider = rustls::crypto::ring::default_provider();
    let config = trusting(certificate, provider, rustls::DEFAULT_VERSIONS);
    Arc::new(config.with_client_auth_cert(chain, key).unwrap())
}

/// As [`tls`], restricted to these algorithms and protocol versions.
pub(crate) fn tls_with(
    certificate: &Path,
    identity: Option<&Identity>,
    provider: rustls::crypto::CryptoProvider,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Arc<rustls::ClientConfig> {
    let config = trusting(certificate, provider, versions);
    Arc::new(match identity {
        Some((certificate, key)) => config
            .with_client_auth_cert(vec![certificate.clone()], key.clone_key())
            .unwrap(),
        None => config.with_no_client_auth(),
    })
}

/// Settings that trust the last certificate in the file `certificate`.
fn trusting(
    certificate: &Path,
    provider: rustls::crypto::CryptoProvider,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> rustls::ConfigBuilder<rustls::ClientConfig, rustls::client::WantsClientCert> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::pem_file_iter(certificate)
        .unwrap()
        .last()
        .unwrap()
        .unwrap();
    roots.add(authority).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .unwrap();
    config.with_root_certificates(roots)
}

/// Sends `request`, a complete request, over TLS. Returns head and body of the response.
pub(crate) fn ask(
    address: SocketAddr,
    tls: Arc<rustls::ClientConfig>,
    request: &str,
) -> (String, String) {
    let mut connection =
        rustls::ClientConnection::new(tls, ServerName::try_from("localhost").unwrap()).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let mut tls = rustls::Stream::new(&mut connection, &mut stream);
    let Err(error) = tls.write_all(request.as_bytes()) else {
        return split(tls);
    };
    // The server may refuse a long request, and close, before it has read all of it.
    assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
    split(Received { connection, stream })
}

/// The bytes that a server sent before it closed its connection.
///
/// `rustls::Stream` would write the rest of the request before each read, and fail again.
struct Received {
    connection: rustls::ClientConnection,
    stream: TcpStream,
}

impl Read for Received {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            self.connection.read_tls(&mut self.stream)?;
            self.connection
                .process_new_packets()
                .map_err(std::io::Error::other)?;
        }
    }
}

/// Sends a GET of `path` over TLS.
pub(crate) fn get(
    address: SocketAddr,
    tls: Arc<rustls::ClientConfig>,
    path: &str,
) -> (String, String) {
    ask(
        address,
        tls,
        &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"),
    )
}

/// Reads a response to its end, and splits it into head and body.
pub(crate) fn split(mut stream: impl Read) -> (String, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}
