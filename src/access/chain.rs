//! The certificate chain of one connection: bounds, and one verification per state of the
//! authorities.
//!
//! handshake -> [`check`] -> [`Chain`] -> verification on a thread of its own -> cached [`Verified`]
//!
//! The sender of a chain is a stranger, and the search for a path to an authority can take
//! exponential time. So the handshake refuses chains that are larger than any chain in use, or that
//! allow too many paths. crypto/x509 limits the same search by the number of signatures it checks.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use steersman_pki::x509;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;
use webpki::EndEntityCert;

use super::certificates::{Authorities, Holder};
use super::trust::Trust;

/// Maximum number of certificates in a chain.
pub(super) const MAX_CERTIFICATES: usize = 10;
/// Maximum size of a chain, in bytes. An RSA certificate with 4096 bits has about 1500.
pub(super) const MAX_BYTES: usize = 16 * 1024;
/// Maximum number of steps of the search for a path. Four intermediates that all name each other
/// need 64, the usual chain needs one per intermediate.
const MAX_STEPS: usize = 100;
/// Maximum number of intermediates in one path, as in webpki.
const MAX_DEPTH: usize = 6;
/// Maximum time that a request waits for the verification of its chain.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A chain that the server does not examine.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ChainError {
    /// More than [`MAX_CERTIFICATES`].
    #[error("the client sent {0} certificates, more than {MAX_CERTIFICATES}")]
    Certificates(usize),
    /// More than [`MAX_BYTES`].
    #[error("the client sent certificates of {0} bytes, more than {MAX_BYTES}")]
    Bytes(usize),
    /// Upstream refuses such certificates in the handshake too.
    #[error("tls: failed to parse client certificate: {0}")]
    Parse(String),
    /// More than [`MAX_STEPS`].
    #[error("the certificates of the client name each other as issuers in too many ways")]
    Paths,
}

/// Checks the bounds of a chain, leaf first, without verifying it. The work is linear in its size.
pub(super) fn check(chain: &[&CertificateDer<'_>]) -> Result<(), ChainError> {
    if chain.len() > MAX_CERTIFICATES {
        return Err(ChainError::Certificates(chain.len()));
    }
    let bytes = chain.iter().map(|certificate| certificate.len()).sum();
    if bytes > MAX_BYTES {
        return Err(ChainError::Bytes(bytes));
    }
    for certificate in chain {
        x509::Certificate::read(certificate).map_err(ChainError::Parse)?;
    }
    let mut search = Search::of(chain);
    if search.steps_from(0, 0) > MAX_STEPS {
        return Err(ChainError::Paths);
    }
    Ok(())
}

/// Counts the steps of webpki's search for a path, without checks of signatures. It stops after
/// [`MAX_STEPS`].
struct Search {
    /// For each certificate, its possible issuers in the chain.
    issuers: Vec<Vec<usize>>,
    /// For each certificate, the first one with the same subject and key. A path holds only one of
    /// them.
    holders: Vec<usize>,
    /// Certificates of the current path.
    path: Vec<usize>,
    steps: usize,
}

impl Search {
    fn of(chain: &[&CertificateDer<'_>]) -> Self {
        // webpki skips intermediates that it cannot parse.
        let read = |certificate: &&CertificateDer<'_>| {
            let read = EndEntityCert::try_from(*certificate).ok()?;
            let key = read.subject_public_key_info();
            Some((read.subject().to_vec(), read.issuer().to_vec(), key))
        };
        let names: Vec<_> = chain.iter().map(read).collect();
        let issuers_of = |issued: &Option<(Vec<u8>, Vec<u8>, _)>| -> Vec<usize> {
            let Some((_, issuer, _)) = issued else {
                return Vec::new();
            };
            let is_issuer = |at: &usize| matches!(&names[*at], Some((name, ..)) if name == issuer);
            (1..names.len()).filter(is_issuer).collect()
        };
        let holder = |at: usize| {
            let is_same = |other: &usize| match (&names[at], &names[*other]) {
                (Some((name, _, key)), Some((other_name, _, other_key))) => {
                    name == other_name && key == other_key
                }
                _ => false,
            };
            (0..at).find(is_same).unwrap_or(at)
        };
        Self {
            issuers: names.iter().map(issuers_of).collect(),
            holders: (0..names.len()).map(holder).collect(),
            path: Vec::new(),
            steps: 0,
        }
    }

    /// Adds the steps that begin at `certificate`, and returns the number of all.
    fn steps_from(&mut self, certificate: usize, depth: usize) -> usize {
        self.path
            .push(self.holders.get(certificate).copied().unwrap_or_default());
        for index in 0..self.issuers.get(certificate).map_or(0, Vec::len) {
            let issuer = self.issuers[certificate][index];
            if self.steps > MAX_STEPS || self.path.contains(&self.holders[issuer]) {
                continue;
            }
            self.steps += 1;
            if depth < MAX_DEPTH {
                self.steps_from(issuer, depth + 1);
            }
        }
        self.path.pop();
        self.steps
    }
}

/// The chain of one connection. Clones of its `Arc` share the verification.
#[derive(Debug)]
pub(crate) struct Chain {
    certificates: Box<[CertificateDer<'static>]>,
    holder: Holder,
    /// The Unix times at which the validity of a certificate begins or ends, sorted. Between two of
    /// them, the outcome of a verification does not change.
    changes: Vec<i64>,
    verified: Mutex<Option<Arc<Verified>>>,
}

impl Chain {
    /// Checks the bounds of `certificates`, leaf first, and reads them. `None` without certificates.
    pub(crate) fn read(certificates: &[CertificateDer<'_>]) -> Result<Option<Self>, ChainError> {
        let Some(leaf) = certificates.first() else {
            return Ok(None);
        };
        check(&certificates.iter().collect::<Vec<_>>())?;
        let mut changes = Vec::new();
        for certificate in certificates {
            let read = x509::Certificate::read(certificate).map_err(ChainError::Parse)?;
            // A certificate is still valid at the second of its end.
            changes.extend([read.not_before, read.not_after.saturating_add(1)]);
        }
        changes.sort_unstable();
        let owned = certificates.iter().cloned();
        Ok(Some(Self {
            holder: Holder::of(leaf).map_err(ChainError::Parse)?,
            certificates: owned.map(CertificateDer::into_owned).collect(),
            changes,
            verified: Mutex::default(),
        }))
    }

    /// The holder of the leaf. Do not trust it before the chain is verified.
    pub(super) fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The outcomes of the verification against `trust` at the Unix time `now`. They are cached for
    /// the connection until `trust` changes, or the validity of a certificate begins or ends.
    pub(super) async fn verified(
        self: &Arc<Self>,
        trust: &Trust,
        now: i64,
        verifier: &Verifier,
    ) -> Result<Arc<Verified>, String> {
        // Concurrent requests of the connection wait for the same verification.
        let verification = async {
            let mut cached = self.verified.lock().await;
            if let Some(known) = cached.as_ref().filter(|known| known.holds(trust, now)) {
                return Ok(Arc::clone(known));
            }
            let verified = Arc::new(verifier.verify(self, trust, now).await?);
            *cached = Some(Arc::clone(&verified));
            Ok(verified)
        };
        timeout(MAX_WAIT, verification)
            .await
            .map_err(|_| format!("the client certificate was not verified within {MAX_WAIT:?}"))
            .flatten()
    }

    /// The time around `now` in which the outcome of a verification does not change.
    fn constant_around(&self, now: i64) -> Range<i64> {
        let after = self.changes.partition_point(|change| *change <= now);
        let start = after
            .checked_sub(1)
            .map_or(i64::MIN, |before| self.changes[before]);
        let end = self.changes.get(after).copied().unwrap_or(i64::MAX);
        start..end
    }

    fn verify(&self, trust: Trust, now: i64) -> Verified {
        let against = |authorities: &Authorities| authorities.verify(&self.certificates, now);
        Verified {
            proxy: trust
                .proxies
                .as_ref()
                .map(|proxies| against(&proxies.authorities)),
            client: trust.clients.as_ref().map(|clients| against(clients)),
            trust,
            times: self.constant_around(now),
        }
    }
}

/// The outcomes of one verification, each `None` without authorities.
#[derive(Debug)]
pub(super) struct Verified {
    /// As the certificate of a proxy.
    pub(super) proxy: Option<Result<(), String>>,
    /// As the certificate of a client.
    pub(super) client: Option<Result<(), String>>,
    trust: Trust,
    times: Range<i64>,
}

impl Verified {
    fn holds(&self, trust: &Trust, now: i64) -> bool {
        self.times.contains(&now) && self.trust.has_authorities_of(trust)
    }
}

/// Verifies chains on another thread, one at a time, so that a verification neither delays other
/// requests nor uses a second core.
#[derive(Debug)]
pub(super) struct Verifier(Arc<Semaphore>);

impl Default for Verifier {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Verifier {
    async fn verify(
        &self,
        chain: &Arc<Chain>,
        trust: &Trust,
        now: i64,
    ) -> Result<Verified, String> {
        let ended = |_| "the verification of client certificates has ended".to_owned();
        let turn = Arc::clone(&self.0).acquire_owned().await.map_err(ended)?;
        let chain = Arc::clone(chain);
        let trust = trust.clone();
        let verification = tokio::task::spawn_blocking(move || {
            // Also a verification without a waiting request takes its turn to the end.
            let _turn = turn;
            chain.verify(trust, now)
        });
        let failed = |error| format!("the verification of a client certificate failed: {error}");
        verification.await.map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;

    /// A certificate with its key, which can issue others.
    struct Certificate {
        key: KeyPair,
        params: CertificateParams,
        der: Der,
        pem: String,
    }

    type Der = CertificateDer<'static>;

    fn params(name: &str, is_ca: bool) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    }

    fn root(name: &str) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let params = params(name, true);
        let signed = params.self_signed(&key).unwrap();
        Certificate {
            key,
            params,
            der: signed.der().clone(),
            pem: signed.pem(),
        }
    }

    impl Certificate {
        fn issue(&self, params: CertificateParams) -> Self {
            let key = KeyPair::generate().unwrap();
            let issuer = Issuer::from_params(&self.params, &self.key);
            let signed = params.signed_by(&key, &issuer).unwrap();
            Self {
                key,
                der: signed.der().clone(),
                pem: signed.pem(),
                params,
            }
        }
    }

    fn checked(chain: &[Der]) -> Result<(), ChainError> {
        check(&chain.iter().collect::<Vec<_>>())
    }

    /// A leaf and intermediates that all have the same name, so that each may be the issuer of each.
    fn tangle(intermediates: usize) -> Vec<Der> {
        let root = root("same");
        let all = std::iter::repeat_with(|| root.issue(params("same", true)).der);
        let leaf = root.issue(params("jane", false)).der;
        std::iter::once(leaf)
            .chain(all.take(intermediates))
            .collect()
    }

    /// A leaf below this many intermediates, and its root.
    fn ladder(intermediates: usize) -> (Vec<Der>, Certificate) {
        let root = root("root");
        let mut chain = Vec::new();
        let mut issuer = root.issue(params("level 0", true));
        for level in 1..intermediates {
            let next = issuer.issue(params(&format!("level {level}"), true));
            chain.insert(0, issuer.der);
            issuer = next;
        }
        chain.insert(0, issuer.der.clone());
        chain.insert(0, issuer.issue(params("jane", false)).der);
        (chain, root)
    }

    #[test]
    fn only_chains_within_all_bounds_are_accepted() {
        let long = tangle(268);
        let large = {
            let mut params = params("large", false);
            params.subject_alt_names = (0..900)
                .map(|number| {
                    let name = format!("name-{number}.example").try_into();
                    rcgen::SanType::DnsName(name.unwrap())
                })
                .collect();
            root("root").issue(params).der
        };
        let size = large.len();
        let same_key = {
            let root = root("same");
            let intermediate = root.issue(params("same", true));
            let leaf = intermediate.issue(params("jane", false)).der;
            let mut chain = vec![intermediate.der; MAX_CERTIFICATES - 1];
            chain.insert(0, leaf);
            chain
        };
        let cases = [
            ("leaf alone", ladder(1).0[..1].to_vec(), Ok(())),
            ("three intermediates", ladder(3).0, Ok(())),
            ("as deep as a path can be", ladder(6).0, Ok(())),
            ("four ambiguous intermediates", tangle(4), Ok(())),
            ("one intermediate nine times", same_key, Ok(())),
            (
                "five ambiguous intermediates",
                tangle(5),
                Err(ChainError::Paths),
            ),
            (
                "many ambiguous intermediates",
                tangle(9),
                Err(ChainError::Paths),
            ),
            (
                "too many certificates",
                long,
                Err(ChainError::Certificates(269)),
            ),
            ("large", vec![large], Err(ChainError::Bytes(size))),
        ];
        for (why, chain, expected) in cases {
            assert_eq!(checked(&chain), expected, "{why}");
            assert_eq!(Chain::read(&chain).map(drop), expected, "{why}");
        }
    }

    #[test]
    fn chains_with_a_few_intermediates_are_verified() {
        let now = 1_790_000_000;
        for intermediates in 1..=6 {
            let (mut chain, root) = ladder(intermediates);
            let authorities = Authorities::parse(root.pem.as_bytes()).unwrap();
            assert_eq!(authorities.verify(&chain, now), Ok(()), "{intermediates}");
            // Go does not depend on their order either.
            chain[1..].reverse();
            assert_eq!(authorities.verify(&chain, now), Ok(()), "{intermediates}");
            chain.pop();
            let missing = authorities.verify(&chain, now).unwrap_err();
            assert_eq!(missing, "UnknownIssuer", "{intermediates}");
        }
    }

    fn trust(root: &Certificate) -> Trust {
        let authorities = Authorities::parse(root.pem.as_bytes()).unwrap();
        Trust {
            clients: Some(Arc::new(authorities)),
            proxies: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_chain_is_verified_once_per_state_of_authorities_and_validity() {
        let before = 1_500_000_000;
        let valid = 1_790_000_000;
        let after = 1_900_000_000;
        let (certificates, root) = ladder(2);
        let chain = Arc::new(Chain::read(&certificates).unwrap().unwrap());
        let verifier = Verifier::default();
        let trusted = trust(&root);
        let ask = async |trust: &Trust, now| chain.verified(trust, now, &verifier).await.unwrap();
        let first = ask(&trusted, valid).await;
        assert_eq!(first.client, Some(Ok(())));
        assert_eq!(first.proxy, None);
        let again = ask(&trusted.clone(), valid + 1000).await;
        assert!(Arc::ptr_eq(&first, &again), "the outcome is cached");
        let concurrent = futures::future::join_all((0..100).map(|_| ask(&trusted, valid))).await;
        assert!(
            concurrent
                .iter()
                .all(|outcome| Arc::ptr_eq(outcome, &first))
        );
        for (now, reason) in [(before, "CertNotValidYet"), (after, "CertExpired")] {
            let outcome = ask(&trusted, now).await.client.clone().unwrap();
            assert!(outcome.unwrap_err().starts_with(reason), "{reason}");
        }
        assert_eq!(ask(&trusted, valid).await.client, Some(Ok(())));
        let reloaded = ask(&trust(&root), valid).await;
        assert!(!Arc::ptr_eq(&first, &reloaded), "another read of the files");
        let other = ask(&trust(&self::root("root")), valid).await;
        assert!(other.client.clone().unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_a_limited_time_for_its_verification() {
        let (certificates, root) = ladder(1);
        let chain = Arc::new(Chain::read(&certificates).unwrap().unwrap());
        let verifier = Verifier::default();
        let busy = Arc::clone(&verifier.0).acquire_owned().await.unwrap();
        let trust = trust(&root);
        let error = chain.verified(&trust, 0, &verifier).await.unwrap_err();
        assert_eq!(error, "the client certificate was not verified within 10s");
        drop(busy);
        assert!(chain.verified(&trust, 0, &verifier).await.is_ok());
    }
}
