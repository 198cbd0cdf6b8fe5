//! TLS handshakes with clients that support only particular versions, suites and groups.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use rustls::CipherSuite::{
    self, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::NamedGroup::{self, X25519, secp256r1, secp384r1};
use rustls::ProtocolVersion::{self, TLSv1_2, TLSv1_3};
use rustls::pki_types::ServerName;

use crate::support::{Program, api_server, free_port, kubeconfig, output, tls_with};

/// The only version, suite and group that a client supports.
type Spoken = (ProtocolVersion, CipherSuite, NamedGroup);

/// The result of a handshake with a client that supports only these algorithms.
fn handshake(
    address: SocketAddr,
    certificate: &Path,
    (version, suite, group): Spoken,
) -> Result<Spoken, String> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider
        .cipher_suites
        .retain(|known| known.suite() == suite);
    provider.kx_groups.retain(|known| known.name() == group);
    assert_eq!(
        (provider.cipher_suites.len(), provider.kx_groups.len()),
        (1, 1),
        "{suite:?} {group:?}"
    );
    let version = rustls::ALL_VERSIONS
        .iter()
        .find(|known| known.version == version)
        .unwrap();
    let config = tls_with(certificate, None, provider, &[version]);
    let mut connection =
        rustls::ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    while connection.is_handshaking() {
        connection
            .complete_io(&mut stream)
            .map_err(|error| error.to_string())?;
    }
    let group = connection.negotiated_key_exchange_group().unwrap().name();
    Ok((
        connection.protocol_version().unwrap(),
        connection.negotiated_cipher_suite().unwrap().suite(),
        group,
    ))
}

#[test]
fn handshakes_succeed_exactly_with_the_algorithms_that_flags_allow() {
    let everything = [
        (TLSv1_2, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, secp256r1),
        (TLSv1_2, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, X25519),
        (TLSv1_3, TLS13_AES_256_GCM_SHA384, X25519),
        (TLSv1_3, TLS13_CHACHA20_POLY1305_SHA256, secp384r1),
    ];
    // (flags, which clients succeed, error of the others)
    let cases: [(&[&str], [bool; 4], &str); 5] = [
        (&[], [true; 4], ""),
        (
            &["--tls-min-version=VersionTLS13"],
            [false, false, true, true],
            "ProtocolVersion",
        ),
        (&["--tls-min-version=VersionTLS10"], [true; 4], ""),
        // Upstream accepts the second suite, too; rustls omits it as insecure. TLS 1.3 suites
        // cannot be selected.
        (
            &[
                "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_RSA_WITH_AES_256_CBC_SHA",
            ],
            [false, true, true, true],
            "HandshakeFailure",
        ),
        (
            &[
                "--tls-curve-preferences=4588,24",
                "--tls-curve-preferences=23",
            ],
            [true, false, false, true],
            "HandshakeFailure",
        ),
    ];
    let directory = tempfile::tempdir().unwrap();
    let certificate = directory.path().join("kube-controller-manager.crt");
    let kubeconfig = kubeconfig(directory.path(), api_server("200 OK"));
    let port = free_port();
    let home = format!("--cert-dir={}", directory.path().display());
    let port_flag = format!("--secure-port={port}");
    let common = [
        "--kubeconfig",
        &kubeconfig,
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        &home,
        &port_flag,
    ];
    for (flags, served, told) in cases {
        let mut program = Program::start(&[&common, flags].concat());
        program.wait_for_line("Serving securely");
        for (spoken, served) in everything.into_iter().zip(served) {
            let found = handshake(
                SocketAddr::from(([127, 0, 0, 1], port)),
                &certificate,
                spoken,
            );
            match found {
                Ok(found) => assert!(
                    served && found == spoken,
                    "{flags:?}: {spoken:?} became {found:?}"
                ),
                Err(error) => assert!(
                    !served && error.contains(told),
                    "{flags:?}: {spoken:?}: {error}"
                ),
            }
        }
        program.assert_running();
    }
}

#[test]
fn unknown_algorithms_are_refused_with_upstreams_messages() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(directory.path(), api_server("200 OK"));
    let cases = [
        (
            "--tls-min-version=TLS1.2",
            r#"unknown tls version \"TLS1.2\""#,
        ),
        (
            "--tls-cipher-suites=TLS_NULL_WITH_NULL_NULL",
            "Cipher suite TLS_NULL_WITH_NULL_NULL not supported or doesn't exist",
        ),
        (
            "--tls-curve-preferences=29,30",
            "curve preference 30 is not supported by the current Go version",
        ),
        (
            "--tls-curve-preferences=29,29",
            "duplicate curve preference 29",
        ),
        (
            "--tls-curve-preferences=-1",
            "curve preference -1 is out of range (must be 1-65535)",
        ),
    ];
    for (flag, text) in cases {
        let ended = output(&[
            "--kubeconfig",
            &kubeconfig,
            "--secure-port",
            &free_port().to_string(),
            flag,
        ]);
        let said = String::from_utf8(ended.stderr).unwrap();
        let last = said.lines().last().unwrap_or_default();
        assert!(
            ended.status.code() == Some(1)
                && last.ends_with(&format!("\"command failed\" err=\"{text}\"")),
            "{flag}: {said}"
        );
    }
    // With `--secure-port=0`, these flags are not checked, as in upstream.
    let cases = ["--tls-min-version=TLS1.2", "--tls-curve-preferences=30"];
    let mut program = Program::start(
        &[
            &[
                "--kubeconfig",
                &kubeconfig,
                "--secure-port=0",
                "--leader-elect=false",
            ],
            &cases[..],
        ]
        .concat(),
    );
    program.wait_for_line("Starting");
    program.assert_running();
}
