//! ECDSA over the curves P-256, P-384 and P-521.

use ring::digest;

use super::{Algorithm, ECDSA_WITH_SHA256, ECDSA_WITH_SHA384, ECDSA_WITH_SHA512};
use crate::asn1::{Elements, ObjectIdentifier, sequence, unsigned};

/// A curve, with the digest for new signatures. Signatures have the fixed form: r and s, each as
/// long as the field.
pub(super) struct Curve {
    pub(super) algorithm: Algorithm,
    pub(super) oid: ObjectIdentifier,
    /// The identifier of the new signatures.
    pub(super) signature: ObjectIdentifier,
    pub(super) digest: &'static digest::Algorithm,
    /// Length of a coordinate and of the private scalar, in bytes.
    field: usize,
    open: fn(&[u8]) -> Option<EcdsaKey>,
    verify: fn(point: &[u8], digest: &[u8], fixed: &[u8]) -> bool,
    has_point: fn(&[u8]) -> bool,
}

/// Makes the fixed form of the signature of a digest.
type Sign = Box<dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync>;

/// A private key on a curve.
pub(super) struct EcdsaKey {
    /// The public key: an uncompressed point.
    pub(super) point: Vec<u8>,
    sign: Sign,
}

impl EcdsaKey {
    /// The fixed form of the signature of `digest`.
    pub(super) fn sign(&self, digest: &[u8]) -> Option<Vec<u8>> {
        (self.sign)(digest)
    }
}

/// The three curves have equal types of different crates.
macro_rules! curve {
    ($algorithm:ident, $oid:literal, $signature:ident, $digest:ident, $field:literal, $curve:ident) => {
        Curve {
            algorithm: Algorithm::$algorithm,
            oid: ObjectIdentifier::new_unwrap($oid),
            signature: $signature,
            digest: &digest::$digest,
            field: $field,
            open: |scalar| {
                use $curve::ecdsa::signature::hazmat::PrehashSigner as _;
                let key = $curve::ecdsa::SigningKey::from_slice(scalar).ok()?;
                Some(EcdsaKey {
                    point: key.verifying_key().to_sec1_point(false).as_bytes().to_vec(),
                    sign: Box::new(move |digest| {
                        let signed: Result<$curve::ecdsa::Signature, _> = key.sign_prehash(digest);
                        signed.ok().map(|signature| signature.to_bytes().to_vec())
                    }),
                })
            },
            verify: |point, digest, fixed| {
                use $curve::ecdsa::signature::hazmat::PrehashVerifier as _;
                let key = $curve::ecdsa::VerifyingKey::from_sec1_bytes(point);
                let signature = $curve::ecdsa::Signature::from_slice(fixed);
                matches!((key, signature), (Ok(key), Ok(signature))
                    if key.verify_prehash(digest, &signature).is_ok())
            },
            has_point: |point| $curve::ecdsa::VerifyingKey::from_sec1_bytes(point).is_ok(),
        }
    };
}

static CURVES: [Curve; 3] = [
    curve!(
        P256,
        "1.2.840.10045.3.1.7",
        ECDSA_WITH_SHA256,
        SHA256,
        32,
        p256
    ),
    curve!(P384, "1.3.132.0.34", ECDSA_WITH_SHA384, SHA384, 48, p384),
    curve!(P521, "1.3.132.0.35", ECDSA_WITH_SHA512, SHA512, 66, p521),
];

impl Curve {
    /// The curve with this encoded object identifier.
    pub(super) fn find(oid: &[u8]) -> Option<&'static Self> {
        CURVES.iter().find(|curve| curve.oid.as_bytes() == oid)
    }

    /// The key with this secret scalar. As Go, this ignores leading zeros and their absence.
    pub(super) fn open(&self, scalar: &[u8]) -> Option<EcdsaKey> {
        (self.open)(&padded(scalar, self.field)?)
    }

    /// Whether `point` is an uncompressed point of the curve.
    pub(super) fn has_point(&self, point: &[u8]) -> bool {
        point.first() == Some(&4) && (self.has_point)(point)
    }

    /// Whether `signature` in the form of X.509 is that of `digest` by the owner of `point`.
    pub(super) fn verify(&self, point: &[u8], digest: &[u8], signature: &[u8]) -> bool {
        self.fixed(signature)
            .is_some_and(|fixed| self.verify_fixed(point, digest, &fixed))
    }

    /// As [`Curve::verify`], for a signature in the fixed form.
    pub(super) fn verify_fixed(&self, point: &[u8], digest: &[u8], fixed: &[u8]) -> bool {
        // Go refuses compressed points.
        point.first() == Some(&4) && (self.verify)(point, digest, fixed)
    }

    /// The fixed form of a signature.
    fn fixed(&self, signature: &[u8]) -> Option<Vec<u8>> {
        let mut numbers = Elements::of_sequence(signature).ok()?;
        let r = numbers.unsigned().ok()?;
        let s = numbers.unsigned().ok()?;
        numbers.end().ok()?;
        Some([padded(r, self.field)?, padded(s, self.field)?].concat())
    }
}

/// The form of X.509 of a signature in the fixed form: a sequence of two integers.
pub(super) fn to_der(fixed: &[u8]) -> Vec<u8> {
    let (r, s) = fixed.split_at(fixed.len() / 2);
    sequence(&[&unsigned(r), &unsigned(s)])
}

/// The big-endian `number` with exactly `length` bytes, if it fits.
fn padded(number: &[u8], length: usize) -> Option<Vec<u8>> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let digits = &number[zeros..];
    let missing = length.checked_sub(digits.len())?;
    Some([&vec![0; missing], digits].concat())
}
