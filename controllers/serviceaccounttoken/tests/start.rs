//! The start of the controller: keys and certificates in files.

use std::path::PathBuf;

use tracing::Level;

use super::{DESCRIPTOR, key};
use crate::testing::log::Log;
use crate::testing::world::World;

const KEY_FLAG: &str = "service-account-private-key-file";

fn testdata(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("serviceaccounttoken/testdata");
    folder.join(name).display().to_string()
}

#[tokio::test(start_paused = true)]
async fn without_a_key_the_controller_is_off() {
    let log = Log::collect();
    let world = World::bare().await;
    let controller = (DESCRIPTOR.init)(&world.context()).unwrap();
    assert!(controller.is_switched_off());
    log.assert_has(
        Level::INFO,
        &["Controller is disabled because there is no private key"],
    );
}

#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_used_end_the_start_in_upstreams_words() {
    let world = World::bare().await;
    let missing = testdata("missing.pem");
    let json = testdata("tokens.json");
    let ed25519 = testdata("ed25519.pem");
    let p224 = testdata("p224.pem");
    let read = "error reading key for service account token controller";
    let invalid = "data does not contain a valid RSA or ECDSA private key";
    // (flag, file, error)
    let cases = [
        (KEY_FLAG, &missing, format!("{read}: open {missing}: no such file or directory")),
        (KEY_FLAG, &json, format!("{read}: error reading private key file {json}: {invalid}")),
        (
            KEY_FLAG,
            &ed25519,
            "failed to build token generator: unknown private key type ed25519.PrivateKey, must be *rsa.PrivateKey, *ecdsa.PrivateKey, or jose.OpaqueSigner".to_owned(),
        ),
        (
            KEY_FLAG,
            &p224,
            "failed to build token generator: could not generate signer for ECDSA keypair: unknown private key curve, must be 256, 384, or 521".to_owned(),
        ),
        (
            "root-ca-file",
            &missing,
            format!("error parsing root-ca-file at {missing}: open {missing}: no such file or directory"),
        ),
        (
            "root-ca-file",
            &ed25519,
            format!("error parsing root-ca-file at {ed25519}: data does not contain any valid RSA or ECDSA certificates"),
        ),
    ];
    for (flag, file, expected) in cases {
        let mut context = world.context();
        context.credentials.account_key = Some(key("ec-p521").into());
        let error = (DESCRIPTOR.init)(&context.with_flag(flag, file))
            .err()
            .unwrap();
        assert_eq!(
            error.to_string(),
            format!("build {}: {expected}", DESCRIPTOR.name)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_file_of_the_flag_comes_before_the_key_of_the_cluster() {
    let world = World::bare().await;
    let mut context = world
        .context()
        .with_flag(KEY_FLAG, &testdata("missing.pem"));
    context.credentials.account_key = Some(key("ec-p521").into());
    assert!((DESCRIPTOR.init)(&context).is_err());
}
