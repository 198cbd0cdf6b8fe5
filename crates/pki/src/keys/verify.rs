//! Verification of signatures over requests for certificates.

use ring::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use ring::signature::{self as signatures, UnparsedPublicKey, VerificationAlgorithm};

use super::{
    Curve, EC_PUBLIC_KEY, ECDSA_WITH_SHA1, ECDSA_WITH_SHA256, ECDSA_WITH_SHA384, ECDSA_WITH_SHA512,
    ED25519, P224, RSA_ENCRYPTION, RSA_PSS, SHA1_WITH_RSA, SHA256_WITH_RSA, SHA384_WITH_RSA,
    SHA512_WITH_RSA,
};
use crate::asn1::{
    self, Elements, NULL, ObjectIdentifier, Tag, context, element, oid, sequence, unsigned,
};

/// A signature does not verify. The texts are Go's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The public key is malformed.
    #[error("x509: invalid public key")]
    Key,
    /// The key or the signature has an unknown algorithm.
    #[error("x509: cannot verify signature: algorithm unimplemented")]
    Unimplemented,
    /// The algorithms of key and signature differ: the one of the signature, and Go's type of the
    /// key.
    #[error(
        "x509: signature algorithm specifies an {0} public key, but have public key of type {1}"
    )]
    Mismatch(&'static str, &'static str),
    /// The signature is not that of an RSA key.
    #[error("crypto/rsa: verification error")]
    Rsa,
    /// The signature is not that of an ECDSA key.
    #[error("x509: ECDSA verification failure")]
    Ecdsa,
    /// The signature is not that of an Ed25519 key.
    #[error("x509: Ed25519 verification failure")]
    Ed25519,
}

/// A public key.
enum Key<'a> {
    /// PKCS#1.
    Rsa(&'a [u8]),
    /// Curve and point.
    Ecdsa(&'static Curve, &'a [u8]),
    Ed25519(&'a [u8]),
}

/// The algorithm of a signature.
enum Scheme {
    Rsa(&'static dyn VerificationAlgorithm),
    Ecdsa(&'static digest::Algorithm),
    Ed25519,
}

/// Verifies that the owner of `public_key` (SubjectPublicKeyInfo) made `signature` of `message`.
/// `algorithm` is the AlgorithmIdentifier of the signature. All are DER.
///
/// These are the algorithms that Go accepts for requests, also SHA-1. Such a signature only proves
/// that the requester has the private key. RSA keys have 1024 to 8192 bits, so that a huge key
/// costs no time; 2048 or more for SHA-384 and PSS.
///
/// # Errors
/// If the signature does not verify.
pub fn verify(
    public_key: &[u8],
    algorithm: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<(), VerifyError> {
    let scheme = scheme(algorithm).ok_or(VerifyError::Unimplemented)?;
    match (scheme, key(public_key)?) {
        (Scheme::Rsa(algorithm), Key::Rsa(key)) => UnparsedPublicKey::new(algorithm, key)
            .verify(message, signature)
            .map_err(|_| VerifyError::Rsa),
        (Scheme::Ecdsa(digest), Key::Ecdsa(curve, point)) => {
            let digest = digest::digest(digest, message);
            let verifies = curve.verify(point, digest.as_ref(), signature);
            verifies.then_some(()).ok_or(VerifyError::Ecdsa)
        }
        (Scheme::Ed25519, Key::Ed25519(key)) => UnparsedPublicKey::new(&signatures::ED25519, key)
            .verify(message, signature)
            .map_err(|_| VerifyError::Ed25519),
        (scheme, key) => Err(VerifyError::Mismatch(scheme.name(), key.go_type())),
    }
}

/// Verifies that the owner of `public_key`, an ECDSA key, made `signature` of `message`. The
/// signature has the fixed form and the digest of the curve, as in JSON web tokens.
///
/// # Errors
/// If the signature does not verify, or the key is no ECDSA key.
pub fn verify_fixed(
    public_key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<(), VerifyError> {
    match key(public_key)? {
        Key::Ecdsa(curve, point) => {
            let digest = digest::digest(curve.digest, message);
            let verifies = curve.verify_fixed(point, digest.as_ref(), signature);
            verifies.then_some(()).ok_or(VerifyError::Ecdsa)
        }
        other => Err(VerifyError::Mismatch("ECDSA", other.go_type())),
    }
}

impl Key<'_> {
    fn go_type(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "*rsa.PublicKey",
            Self::Ecdsa(..) => "*ecdsa.PublicKey",
            Self::Ed25519(_) => "ed25519.PublicKey",
        }
    }
}

impl Scheme {
    fn name(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RSA",
            Self::Ecdsa(_) => "ECDSA",
            Self::Ed25519 => "Ed25519",
        }
    }
}

/// Checks the key in a well-formed SubjectPublicKeyInfo. Keys of unknown types pass. The errors are
/// Go's, without the prefix `x509: `. Upstream: `parsePublicKey` of crypto/x509.
pub(crate) fn check_public_key(public_key: &[u8]) -> Result<(), &'static str> {
    let read = || -> asn1::Result<_> {
        let mut parts = Elements::of_sequence(public_key)?;
        let mut algorithm = parts.sequence()?;
        let kind = algorithm.content(Tag::ObjectIdentifier)?;
        // Unreadable parameters are of no key, and Go shifts a key with unused bits.
        let parameters = (!algorithm.is_empty()).then(|| algorithm.whole().unwrap_or(&[0]));
        let key = parts.octets_of_bit_string().unwrap_or_default();
        Ok((kind, parameters.unwrap_or_default(), key))
    };
    let Ok((kind, parameters, key)) = read() else {
        return Ok(());
    };
    let is = |algorithm: ObjectIdentifier| kind == algorithm.as_bytes();
    if is(RSA_ENCRYPTION) {
        check_rsa(parameters, key)
    } else if is(EC_PUBLIC_KEY) {
        let curve = Elements::of(parameters).and_then(|mut parameters| parameters.oid());
        let curve = curve.map_err(|_| "invalid ECDSA parameters")?;
        let has_point = match Curve::find(curve) {
            Some(curve) => curve.has_point(key),
            None if curve == P224.as_bytes() => key.len() == 57 && key[0] == 4,
            None => return Err("unsupported elliptic curve"),
        };
        let failed = "failed to unmarshal elliptic curve point";
        has_point.then_some(()).ok_or(failed)
    } else if is(ED25519) && !parameters.is_empty() {
        Err("Ed25519 key encoded with illegal parameters")
    } else if is(ED25519) && key.len() != 32 {
        Err("wrong Ed25519 public key size")
    } else {
        Ok(())
    }
}

fn check_rsa(parameters: &[u8], key: &[u8]) -> Result<(), &'static str> {
    if parameters != NULL {
        return Err("RSA key missing NULL parameters");
    }
    let numbers = Elements::of(key).and_then(|mut key| key.sequence());
    let mut numbers = numbers.map_err(|_| "invalid RSA public key")?;
    let modulus = numbers.integer().map_err(|_| "invalid RSA modulus")?;
    let exponent = numbers
        .integer()
        .ok()
        .filter(|exponent| exponent.len() <= 8);
    let exponent = exponent.ok_or("invalid RSA public exponent")?;
    let is_positive = |number: &[u8]| number != [0] && number[0] < 0x80;
    if !is_positive(modulus) {
        Err("RSA modulus is not a positive number")
    } else if !is_positive(exponent) {
        Err("RSA public exponent is not a positive number")
    } else {
        Ok(())
    }
}

fn key(public_key: &[u8]) -> Result<Key<'_>, VerifyError> {
    let read = || -> asn1::Result<_> {
        let mut parts = Elements::of_sequence(public_key)?;
        let mut algorithm = parts.sequence()?;
        let kind = algorithm.content(Tag::ObjectIdentifier)?;
        let parameters = (!algorithm.is_empty())
            .then(|| algorithm.any())
            .transpose()?;
        let key = parts.octets_of_bit_string()?;
        algorithm.end()?;
        parts.end()?;
        Ok((kind, parameters, key))
    };
    let (kind, parameters, key) = read().map_err(|_| VerifyError::Key)?;
    let is = |algorithm: ObjectIdentifier| kind == algorithm.as_bytes();
    match parameters {
        Some((Tag::Null, [])) if is(RSA_ENCRYPTION) => Ok(Key::Rsa(key)),
        Some((Tag::ObjectIdentifier, curve)) if is(EC_PUBLIC_KEY) => Curve::find(curve)
            .map(|curve| Key::Ecdsa(curve, key))
            .ok_or(VerifyError::Unimplemented),
        None if is(ED25519) => Ok(Key::Ed25519(key)),
        _ if is(RSA_ENCRYPTION) || is(EC_PUBLIC_KEY) || is(ED25519) => Err(VerifyError::Key),
        _ => Err(VerifyError::Unimplemented),
    }
}

fn scheme(algorithm: &[u8]) -> Option<Scheme> {
    let mut parts = Elements::of_sequence(algorithm).ok()?;
    let kind = parts.content(Tag::ObjectIdentifier).ok()?;
    let is = |algorithm: ObjectIdentifier| kind == algorithm.as_bytes();
    if is(RSA_PSS) {
        return pss(algorithm).map(Scheme::Rsa);
    }
    // RFC 8410, section 3 forbids parameters.
    if is(ED25519) && !parts.is_empty() {
        return None;
    }
    let schemes = [
        (
            SHA1_WITH_RSA,
            Scheme::Rsa(&signatures::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY),
        ),
        (
            SHA256_WITH_RSA,
            Scheme::Rsa(&signatures::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY),
        ),
        (
            SHA384_WITH_RSA,
            Scheme::Rsa(&signatures::RSA_PKCS1_2048_8192_SHA384),
        ),
        (
            SHA512_WITH_RSA,
            Scheme::Rsa(&signatures::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY),
        ),
        (ECDSA_WITH_SHA1, Scheme::Ecdsa(&SHA1_FOR_LEGACY_USE_ONLY)),
        (ECDSA_WITH_SHA256, Scheme::Ecdsa(&SHA256)),
        (ECDSA_WITH_SHA384, Scheme::Ecdsa(&SHA384)),
        (ECDSA_WITH_SHA512, Scheme::Ecdsa(&SHA512)),
        (ED25519, Scheme::Ed25519),
    ];
    let found = schemes.into_iter().find(|(oid, _)| is(*oid));
    found.map(|(_, scheme)| scheme)
}

/// The variant of PSS that this AlgorithmIdentifier names: one digest for message and mask, and a
/// salt of its length. Go knows no other variants.
fn pss(algorithm: &[u8]) -> Option<&'static dyn VerificationAlgorithm> {
    const MGF1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.8");
    let variants: [(&str, u8, &'static dyn VerificationAlgorithm); 3] = [
        (
            "2.16.840.1.101.3.4.2.1",
            32,
            &signatures::RSA_PSS_2048_8192_SHA256,
        ),
        (
            "2.16.840.1.101.3.4.2.2",
            48,
            &signatures::RSA_PSS_2048_8192_SHA384,
        ),
        (
            "2.16.840.1.101.3.4.2.3",
            64,
            &signatures::RSA_PSS_2048_8192_SHA512,
        ),
    ];
    let named = variants.into_iter().find(|(digest, salt, _)| {
        let digest = sequence(&[&oid(ObjectIdentifier::new_unwrap(digest)), NULL]);
        let mask = sequence(&[&oid(MGF1), &digest]);
        let parameters = sequence(&[
            &element(context(0, true), &digest),
            &element(context(1, true), &mask),
            &element(context(2, true), &unsigned(&[*salt])),
        ]);
        sequence(&[&oid(RSA_PSS), &parameters]) == algorithm
    });
    named.map(|(_, _, algorithm)| algorithm)
}
