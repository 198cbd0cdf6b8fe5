//! The certificates with which pods verify the API server: `--root-ca-file`, or else the inline
//! authority of the kubeconfig.
//!
//! The file is read once, when a controller is built, as upstream does. Its bytes are published as
//! they are. Upstream: `readCA` and `getKubeAPIServerCAFileContents` in
//! `cmd/kube-controller-manager/app`.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use steersman_client::files;
use steersman_pki::x509::Certificate;
use steersman_runtime::controller::ControllerContext;

/// `--root-ca-file` cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("error parsing root-ca-file at {file}: {reason}")]
pub struct RootCaError {
    file: String,
    reason: String,
}

/// The bundle, in PEM. Empty without the flag and without inline authority.
///
/// # Errors
/// If the file of the flag is unreadable, or one of its certificates, or if it has none.
pub fn bundle(ctx: &ControllerContext) -> Result<Arc<[u8]>, RootCaError> {
    let file = ctx.options.text("root-ca-file");
    if file.is_empty() {
        return Ok(Arc::clone(&ctx.credentials.root_ca));
    }
    let refused = |reason: String| RootCaError {
        file: file.clone(),
        reason,
    };
    let pem = files::read(Path::new(&file)).map_err(|error| refused(error.to_string()))?;
    check(&pem).map_err(refused)?;
    Ok(pem.into())
}

/// Checks that `pem` has certificates and no unreadable one. Other blocks, and blocks with headers,
/// are ignored. Upstream: `ParseCertsPEM` of `client-go/util/cert`.
fn check(pem: &[u8]) -> Result<(), String> {
    let mut found = false;
    for certificate in CertificateDer::pem_slice_iter(pem).filter_map(Result::ok) {
        Certificate::read(&certificate)?;
        found = true;
    }
    if found {
        Ok(())
    } else {
        Err("data does not contain any valid RSA or ECDSA certificates".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> String {
        let signed = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap();
        signed.cert.pem()
    }

    #[test]
    fn a_bundle_has_certificates_and_no_unreadable_one() {
        let one = certificate();
        let other = certificate();
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let headers = one.replacen("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n\n", 1);
        let none = "data does not contain any valid RSA or ECDSA certificates";
        // (why, text, error)
        let cases = [
            ("one", one.clone(), None),
            (
                "two, and other blocks and texts",
                format!("# us\n{one}{key}{other}"),
                None,
            ),
            ("empty", String::new(), Some(none)),
            ("no certificate", key.to_owned(), Some(none)),
            ("only one with headers", headers, Some(none)),
            (
                "unreadable",
                broken.to_owned(),
                Some("x509: malformed certificate"),
            ),
            (
                "one unreadable",
                format!("{one}{broken}"),
                Some("x509: malformed certificate"),
            ),
        ];
        for (why, text, expected) in cases {
            let found = check(text.as_bytes());
            match expected {
                None => assert_eq!(found, Ok(()), "{why}"),
                Some(start) => assert!(found.unwrap_err().starts_with(start), "{why}"),
            }
        }
    }
}
