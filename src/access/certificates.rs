//! Client certificates: verification against trusted authorities, and the user of a certificate.
//!
//! The TLS layer accepts a client certificate if the client has its private key and the chain is
//! within bounds. The chain is verified later, with a request, because the trusted authorities can
//! change while a connection is open. Upstream:
//! `k8s.io/apiserver/pkg/authentication/request/x509`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use steersman_pki::x509;
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter};

use super::user::User;

/// The attribute that upstream uses for the UID of a user.
const UID: x509::ObjectIdentifier = x509::ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57683.2");

/// The key usages "client authentication" and "any", each of which permits client authentication.
const CLIENT_USAGES: [KeyPurposeId<'static>; 2] = [
    KeyPurposeId::new(&[0x2b, 6, 1, 5, 5, 7, 3, 2]),
    KeyPurposeId::new(&[0x55, 0x1d, 0x25, 0]),
];

/// A bundle of certificate authorities that client certificates are verified against.
#[derive(Debug)]
pub(crate) struct Authorities {
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Authorities {
    /// Reads a PEM bundle. The error does not name the source of the bundle; callers add it.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("not PEM: {error}"))?;
            roots
                .add(certificate)
                .map_err(|error| format!("not the certificate of an authority: {error}"))?;
        }
        if roots.is_empty() {
            return Err("data does not contain any valid RSA or ECDSA certificates".to_owned());
        }
        Ok(Self {
            roots,
            algorithms: provider::default_provider().signature_verification_algorithms,
        })
    }

    /// Verifies that `chain`, leaf first, leads to one of the authorities, is valid at the Unix time
    /// `now`, and permits client authentication.
    pub(super) fn verify(&self, chain: &[CertificateDer<'_>], now: i64) -> Result<(), String> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Err("no certificate".to_owned());
        };
        let seconds = u64::try_from(now).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        EndEntityCert::try_from(leaf)
            .and_then(|leaf| {
                let algorithms = self.algorithms.all;
                let roots = &self.roots.roots;
                leaf.verify_for_usage(
                    algorithms,
                    roots,
                    intermediates,
                    now,
                    ForClients,
                    None,
                    None,
                )
                .map(drop)
            })
            .map_err(|error| error.to_string())
    }
}

/// The rule for the extended key usage of certificates. A certificate without the extension is
/// permitted, and as in Go, one for any usage is, too.
#[derive(Clone, Copy)]
struct ForClients;

impl ExtendedKeyUsageValidator for ForClients {
    fn validate(&self, usages: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut is_empty = true;
        for usage in usages {
            is_empty = false;
            if CLIENT_USAGES.contains(&usage?) {
                return Ok(());
            }
        }
        if is_empty {
            return Ok(());
        }
        Err(webpki::Error::RequiredEkuNotFoundContext(
            webpki::RequiredEkuNotFoundContext {
                required: webpki::KeyUsage::client_auth(),
                // The path search repeats this check, so it collects nothing of a stranger's list.
                present: Vec::new(),
            },
        ))
    }
}

/// The fields of a certificate that identify its holder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) common_name: String,
    organizations: Vec<String>,
    uids: Vec<String>,
    /// End of validity, in seconds since the Unix epoch.
    pub(super) not_after: i64,
    /// SHA-256 of the DER encoding, in hexadecimal.
    fingerprint: String,
}

impl Holder {
    /// Reads a certificate without verifying it. Do not trust the result before
    /// [`Authorities::verify`] has succeeded.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let x509::Certificate {
            subject, not_after, ..
        } = x509::Certificate::read(certificate)?;
        let mut holder = Self {
            common_name: subject.common_name().to_owned(),
            organizations: subject.organizations().map(str::to_owned).collect(),
            uids: subject.values(UID).map(str::to_owned).collect(),
            not_after,
            fingerprint: String::new(),
        };
        for byte in digest(&SHA256, certificate).as_ref() {
            let _ = write!(holder.fingerprint, "{byte:02x}");
        }
        Ok(holder)
    }

    /// The user: the common name is the user name, organizations are groups. `None` if the common
    /// name is empty.
    ///
    /// `has_uid` is the feature gate `AllowParsingUserUIDFromCertAuth`. Without it, UIDs are not even checked.
    pub(super) fn user(self, has_uid: bool) -> Result<Option<User>, String> {
        if self.common_name.is_empty() {
            return Ok(None);
        }
        let uid = match &self.uids[..] {
            _ if !has_uid => String::new(),
            [] => String::new(),
            [uid] if !uid.is_empty() => uid.clone(),
            [_] => return Err("UID cannot be an empty string".to_owned()),
            several => {
                return Err(format!(
                    "expected 1 UID, but found multiple: [{}]",
                    several.join(" ")
                ));
            }
        };
        let credential = format!("X509SHA256={}", self.fingerprint);
        let extra = BTreeMap::from([(
            "authentication.kubernetes.io/credential-id".to_owned(),
            vec![credential],
        )]);
        Ok(Some(User {
            name: self.common_name,
            uid,
            groups: self.organizations,
            extra,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feature gate `AllowParsingUserUIDFromCertAuth`.
    #[test]
    fn uids_count_only_with_their_gate() {
        // (UIDs of the certificate, UID with the gate)
        let cases: [(&[&str], Option<&str>); 4] = [
            (&[], Some("")),
            (&["7"], Some("7")),
            (&[""], None),
            (&["7", "8"], None),
        ];
        for (uids, expected) in cases {
            let holder = Holder {
                common_name: "jane".to_owned(),
                uids: uids.iter().map(|uid| (*uid).to_owned()).collect(),
                ..Holder::default()
            };
            let uid = |has_uid| {
                let user = holder.clone().user(has_uid).ok()?;
                user.map(|user| user.uid)
            };
            assert_eq!(uid(true).as_deref(), expected, "{uids:?}");
            assert_eq!(uid(false).as_deref(), Some(""), "{uids:?}");
        }
    }
}
