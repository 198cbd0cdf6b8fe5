//! Private keys in PEM files, and signatures.
//!
//! PEM -> [`PrivateKey`] -> signature; public key, algorithm, message, signature -> [`verify`];
//! signature of a JSON web token -> [`verify_fixed`]
//!
//! Keys are RSA, ECDSA with P-256, P-384 or P-521, and Ed25519. ring has RSA and Ed25519. It lacks
//! P-521 and, for the other two curves, most digests, so RustCrypto has all three curves. An unusual
//! pair of curve and digest is legal: `openssl req` signs with SHA-256 for every curve.
//!
//! Private keys never appear in errors or in `Debug`. Upstream: `k8s.io/client-go/util/keyutil`, and
//! Go's crypto/x509.

mod curve;
mod private;
mod verify;

pub use private::{EcdsaForm, KeyError, PrivateKey, SigningError};
pub(crate) use verify::check_public_key;
pub use verify::{VerifyError, verify, verify_fixed};

use crate::asn1::ObjectIdentifier;
use curve::Curve;

/// The type of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA, with SHA-256 and the padding of PKCS#1 1.5.
    Rsa,
    /// ECDSA with P-256 and SHA-256.
    P256,
    /// ECDSA with P-384 and SHA-384.
    P384,
    /// ECDSA with P-521 and SHA-512.
    P521,
    /// Ed25519.
    Ed25519,
}

pub(crate) const RSA_ENCRYPTION: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const SHA1_WITH_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.5");
const RSA_PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");
const SHA256_WITH_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const SHA384_WITH_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12");
const SHA512_WITH_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13");
pub(crate) const EC_PUBLIC_KEY: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// A curve that Go has and this module lacks.
const P224: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.33");
const ECDSA_WITH_SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.1");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ECDSA_WITH_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const ECDSA_WITH_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4");
pub(crate) const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
