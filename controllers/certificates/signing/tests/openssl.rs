//! Certificates of the controller, as OpenSSL sees them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Files, approved};
use crate::certificates::testing::{
    CLIENT, CLIENT_USAGES, certificate, csr, dns, pem, with_conditions,
};
use crate::testing::world::World;

/// Keys of every type that can sign.
const KEYS: [&str; 5] = [
    "rsa-pkcs1",
    "p256-sec1",
    "p384-pkcs8",
    "p521-sec1",
    "ed25519-pkcs8",
];

/// The output of `openssl` with these arguments, which must succeed.
fn openssl(arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn is_absent() -> bool {
    let is_absent = Command::new("openssl").arg("version").output().is_err();
    if is_absent {
        eprintln!("skipped: there is no openssl");
    }
    is_absent
}

#[tokio::test(start_paused = true)]
async fn certificates_of_every_type_of_authority_verify() {
    if is_absent() {
        return;
    }
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/pki/src/keys/testdata");
    for name in KEYS {
        let files = Files::new(365);
        let text = std::fs::read_to_string(keys.join(format!("{name}.pem"))).unwrap();
        files.write("ca.key", &text);
        let path = |name| files.path(name).to_str().unwrap().to_owned();
        let authority = path("ca.crt");
        let key = path("ca.key");
        let leaf = path("leaf.crt");
        openssl(&[
            "req",
            "-x509",
            "-new",
            "-subj",
            "/CN=authority",
            "-days",
            "36500",
            "-key",
            &key,
            "-out",
            &authority,
        ]);
        let world = World::signing(&files).await;
        world.cluster.load(approved("c")).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        files.write("leaf.crt", &certificate(&world.csr("c")));
        let verified = openssl(&["verify", "-no_check_time", "-CAfile", &authority, &leaf]);
        assert!(verified.ends_with("leaf.crt: OK\n"), "{name}: {verified}");
        let text = openssl(&["x509", "-noout", "-text", "-in", &leaf]);
        for part in [
            "Version: 3",
            "Issuer: CN = authority",
            "Subject: O = system:nodes, CN = system:node:n1",
            "X509v3 Key Usage: critical\n                Digital Signature\n",
            "X509v3 Extended Key Usage: \n                TLS Web Client Authentication\n",
            "X509v3 Basic Constraints: critical\n                CA:FALSE\n",
            "X509v3 Authority Key Identifier",
        ] {
            assert!(text.contains(part), "{name} lacks {part:?}: {text}");
        }
        assert!(!text.contains("Subject Key Identifier"), "{name}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn alternative_names_follow_the_request() {
    if is_absent() {
        return;
    }
    let files = Files::new(365);
    let world = World::signing(&files).await;
    let names = vec![dns("b.example"), dns("*.a.example")];
    let request = csr("c", CLIENT, &["client auth"], &pem(&[], "jane", names));
    world
        .cluster
        .load(with_conditions(request, &["Approved"]))
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    files.write("leaf.crt", &certificate(&world.csr("c")));
    let leaf = files.path("leaf.crt").to_str().unwrap().to_owned();
    let text = openssl(&["x509", "-noout", "-ext", "subjectAltName", "-in", &leaf]);
    assert!(text.ends_with("DNS:b.example, DNS:*.a.example\n"), "{text}");
}

/// The request asks for the rights of an authority, and has an IPv4 address in the form of IPv6.
#[tokio::test(start_paused = true)]
async fn a_request_for_an_authority_gets_a_certificate_that_signs_nothing() {
    if is_absent() {
        return;
    }
    let files = Files::new(365);
    let world = World::signing(&files).await;
    let names = [
        "ca.crt",
        "leaf.key",
        "leaf.csr",
        "leaf.crt",
        "other.csr",
        "forged.crt",
    ];
    let paths = names.map(|name| files.path(name).to_str().unwrap().to_owned());
    let [authority, key, request, leaf, other, forged] = paths.each_ref().map(String::as_str);
    let generate = [
        "ecparam",
        "-name",
        "prime256v1",
        "-genkey",
        "-noout",
        "-out",
    ];
    openssl(&[&generate[..], &[key]].concat());
    let req = ["req", "-new", "-key", key, "-out"];
    let wanted = [
        request,
        "-subj",
        "/CN=jane",
        "-addext",
        "basicConstraints=critical,CA:TRUE,pathlen:3",
        "-addext",
        "keyUsage=critical,keyCertSign,cRLSign",
        "-addext",
        "subjectAltName=IP:::ffff:10.0.0.7,IP:fd00::7",
    ];
    openssl(&[&req[..], &wanted].concat());
    openssl(&[&req[..], &[other, "-subj", "/CN=eve"]].concat());
    let pem = std::fs::read_to_string(request).unwrap();
    let request = csr("c", CLIENT, &CLIENT_USAGES, &pem);
    world
        .cluster
        .load(with_conditions(request, &["Approved"]))
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    files.write("leaf.crt", &certificate(&world.csr("c")));

    let text = openssl(&["x509", "-noout", "-text", "-in", leaf]);
    for part in [
        "X509v3 Key Usage: critical\n                Digital Signature\n",
        "X509v3 Basic Constraints: critical\n                CA:FALSE\n",
        "IP Address:10.0.0.7, IP Address:FD00:0:0:0:0:0:0:7\n",
    ] {
        assert!(text.contains(part), "no {part:?}: {text}");
    }
    let sign = ["x509", "-req", "-in", other, "-CA", leaf, "-CAkey", key];
    openssl(&[&sign[..], &["-CAcreateserial", "-out", forged]].concat());
    let verify = ["verify", "-no_check_time", "-CAfile", authority];
    openssl(&[&verify[..], &[leaf]].concat());
    let chain = [&verify[..], &["-untrusted", leaf, forged]].concat();
    let refused = Command::new("openssl").args(chain).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{error}");
    assert!(error.contains("invalid CA certificate"), "{error}");
}
