//! Keys and certificates that flags name as files: against each other, and against the API server.
//!
//! Whether a file is readable and valid shows when the controllers are built, as at every start. This
//! module makes the comparisons that no start makes.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Deserialize;
use steersman_pki::keys::PrivateKey;
use steersman_pki::x509::{Certificate, certificates_in_pem};

use super::finding::Finding;

const CHECK: &str = "files";
/// A certificate that ends within this time is a warning.
const SOON: i64 = 30 * 24 * 3600;

/// The answer of the API server to `/openid/v1/jwks`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct AcceptedKeys {
    #[serde(default)]
    keys: Vec<AcceptedKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct AcceptedKey {
    kid: String,
}

/// The ID of a public key in tokens of ServiceAccounts. Upstream: `keyIDFromPublicKey` in
/// `pkg/serviceaccount/jwt.go`.
fn key_id(public_key: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, public_key))
}

/// Whether the API server accepts tokens that `key` signs. `accepted` is an error if its keys are not visible.
/// The user `system:kube-controller-manager` has no right to see them.
pub(super) fn account_key(key: &[u8], accepted: &Result<AcceptedKeys, String>) -> Option<Finding> {
    // An invalid key is reported when its controller is built.
    let key = PrivateKey::from_pem(key).ok()?;
    let id = key_id(key.public_key());
    let accepted = match accepted {
        Ok(accepted) => accepted,
        Err(error) => {
            return Some(Finding::warning(
                CHECK,
                format!(
                    "the key of --service-account-private-key-file is not compared with those of the API server: {error}"
                ),
                "run the check with a kubeconfig that may read /openid/v1/jwks, such as one of an administrator",
            ));
        }
    };
    if accepted.keys.is_empty() {
        return None;
    }
    if accepted.keys.iter().any(|key| key.kid == id) {
        let message = "the API server accepts tokens of --service-account-private-key-file";
        return Some(Finding::ok(CHECK, message));
    }
    Some(Finding::failure(
        CHECK,
        format!(
            "the API server does not know the key of --service-account-private-key-file (ID {id}), so it would reject its tokens"
        ),
        "use the key whose public part is in --service-account-key-file of kube-apiserver",
    ))
}

/// The time that a signing certificate has left, and whether the API server trusts what it signs.
/// `trusted` are the authorities for client certificates, in PEM.
pub(super) fn signing_certificate(
    flag: &str,
    pem: &[u8],
    trusted: Option<&str>,
    now: Timestamp,
) -> Vec<Finding> {
    let blocks = certificates_in_pem(pem);
    let Some(certificate) = blocks.first().and_then(|der| Certificate::read(der).ok()) else {
        return Vec::new();
    };
    let mut findings = vec![lifetime(
        &format!("the certificate of --{flag}"),
        &certificate,
        now,
    )];
    let trusted = trusted.map(|pem| certificates_in_pem(pem.as_bytes()));
    let is_trusted = |trusted: Vec<Vec<u8>>| {
        let keys = trusted.iter().filter_map(|der| Certificate::read(der).ok());
        keys.into_iter().any(|one| {
            one.public_key == certificate.public_key && one.subject_der == certificate.subject_der
        })
    };
    match trusted.map(is_trusted) {
        Some(true) => findings.push(Finding::ok(
            CHECK,
            format!("the API server trusts client certificates that --{flag} signs"),
        )),
        Some(false) => findings.push(Finding::warning(
            CHECK,
            format!("the API server does not trust client certificates that --{flag} signs"),
            "use the authority of --client-ca-file of kube-apiserver, unless it only signs serving certificates",
        )),
        None => {}
    }
    findings
}

fn lifetime(whose: &str, certificate: &Certificate, now: Timestamp) -> Finding {
    let left = certificate.not_after - now.as_second();
    let end = Timestamp::from_second(certificate.not_after).unwrap_or(Timestamp::MAX);
    if left <= 0 {
        return Finding::failure(
            CHECK,
            format!("{whose} ended at {end}"),
            "renew the certificate",
        );
    }
    if left < SOON {
        return Finding::warning(
            CHECK,
            format!("{whose} ends at {end}"),
            "renew the certificate",
        );
    }
    Finding::ok(CHECK, format!("{whose} is valid until {end}"))
}

/// Whether `--root-ca-file` is the bundle that the namespaces have: `published` is that of
/// `kube-system/kube-root-ca.crt`.
pub(super) fn root_ca(bundle: &str, published: Option<&str>) -> Option<Finding> {
    let published = published?;
    if certificates_in_pem(bundle.as_bytes()) == certificates_in_pem(published.as_bytes()) {
        let message = "--root-ca-file is the bundle of ConfigMap kube-root-ca.crt";
        return Some(Finding::ok(CHECK, message));
    }
    Some(Finding::warning(
        CHECK,
        "--root-ca-file differs from the bundle of ConfigMap kube-system/kube-root-ca.crt, so every namespace would get another bundle",
        "use the file of the present manager, unless the authority is being replaced",
    ))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::super::finding::Level::{Failure, Ok, Warning};
    use super::*;

    fn now() -> Timestamp {
        "2026-06-01T00:00:00Z".parse().unwrap()
    }

    fn authority(name: &str, until: i32) -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.not_after = rcgen::date_time_ymd(until, 6, 10);
        params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .pem()
    }

    #[test]
    fn tokens_are_accepted_only_from_a_known_key() {
        let pair = KeyPair::generate().unwrap();
        let pem = pair.serialize_pem();
        let known = key_id(PrivateKey::from_pem(pem.as_bytes()).unwrap().public_key());
        let accepted = |ids: &[&str]| -> AcceptedKeys {
            let keys: Vec<_> = ids
                .iter()
                .map(|id| serde_json::json!({ "kid": id }))
                .collect();
            serde_json::from_value(serde_json::json!({ "keys": keys })).unwrap()
        };
        let level = |accepted: Result<AcceptedKeys, String>| {
            account_key(pem.as_bytes(), &accepted).map(|one| one.level)
        };
        let shown = |ids: &[&str]| Result::Ok(accepted(ids));
        assert_eq!(level(shown(&["x", &known])), Some(Ok));
        assert_eq!(level(shown(&["x"])), Some(Failure));
        assert_eq!(level(shown(&[])), None, "the API server shows no key");
        let forbidden = Err("forbidden".to_owned());
        assert_eq!(level(forbidden), Some(Warning), "keys are not visible");
    }

    #[test]
    fn signing_certificates_are_trusted_and_last() {
        let own = authority("a", 2036);
        let other = authority("b", 2036);
        let levels = |pem: &str, trusted: Option<&str>| {
            let found = signing_certificate("f", pem.as_bytes(), trusted, now());
            found.iter().map(|one| one.level).collect::<Vec<_>>()
        };
        assert_eq!(levels(&own, Some(&format!("{other}{own}"))), [Ok, Ok]);
        assert_eq!(levels(&own, Some(&other)), [Ok, Warning]);
        assert_eq!(levels(&own, None), [Ok]);
        assert_eq!(levels(&authority("a", 2026), None), [Warning]);
        assert_eq!(levels(&authority("a", 2025), None), [Failure]);
    }

    #[test]
    fn another_root_bundle_is_a_warning() {
        let own = authority("a", 2036);
        let other = authority("b", 2036);
        let level = |published: Option<&str>| root_ca(&own, published).map(|one| one.level);
        assert_eq!(level(Some(&format!("# comment\n{own}"))), Some(Ok));
        assert_eq!(level(Some(&other)), Some(Warning));
        assert_eq!(level(None), None);
    }
}
