//! Private keys: reading and signing.

use std::fmt;

use pem::{EncodeConfig, LineEnding, Pem};
use ring::digest;
use ring::error::KeyRejected;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256};

use super::curve::{EcdsaKey, to_der};
use super::{Algorithm, Curve, EC_PUBLIC_KEY, ED25519, P224, RSA_ENCRYPTION, SHA256_WITH_RSA};
use crate::asn1::{
    Elements, Error, NULL, ObjectIdentifier, Tag, bit_string, context, oid, sequence,
};

/// A text that contains no usable private key. The message begins with upstream's, and holds no
/// part of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No PEM block is a private key.
    #[error("data does not contain a valid RSA or ECDSA private key")]
    None,
    /// The last PEM block that should be a private key cannot be used.
    #[error("data does not contain a valid RSA or ECDSA private key: {0}")]
    Unusable(String),
    /// Go has the curve of the first key, and this module lacks it.
    #[error("keys on the curve P-224 are not supported")]
    P224,
}

/// A signature could not be made, since the source of random numbers failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the private key cannot sign")]
pub struct SigningError;

/// The form of ECDSA signatures. Other signatures have one form only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EcdsaForm {
    /// A sequence of two integers, as in certificates.
    Asn1,
    /// Two numbers of fixed length, as in JSON web tokens.
    Fixed,
}

/// A private key. `Debug` shows only its type.
pub struct PrivateKey {
    signer: Signer,
    public_key: Vec<u8>,
}

enum Signer {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(&'static Curve, EcdsaKey),
    Ed25519(Ed25519KeyPair),
}

impl PrivateKey {
    /// The first usable private key in `pem`: PKCS#1, PKCS#8 or SEC1, not encrypted. Other blocks
    /// are skipped. RSA keys have 2048 to 4096 bits. Upstream: `ParsePrivateKeyPEM`.
    ///
    /// # Errors
    /// If there is no such key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let mut failure = KeyError::None;
        for block in pem::parse_many(pem).unwrap_or_default() {
            let key = match block.tag() {
                "RSA PRIVATE KEY" => rsa(block.contents()),
                "EC PRIVATE KEY" => sec1(block.contents(), None),
                "PRIVATE KEY" => pkcs8(block.contents()),
                _ => continue,
            };
            match key {
                Ok(signer) => return Ok(Self::new(signer)),
                Err(KeyError::P224) => return Err(KeyError::P224),
                Err(other) => failure = other,
            }
        }
        Err(failure)
    }

    fn new(signer: Signer) -> Self {
        let algorithm = |parts: &[&[u8]]| sequence(parts);
        let (algorithm, key) = match &signer {
            Signer::Rsa(key) => (
                algorithm(&[&oid(RSA_ENCRYPTION), NULL]),
                key.public().as_ref(),
            ),
            Signer::Ecdsa(curve, key) => (
                algorithm(&[&oid(EC_PUBLIC_KEY), &oid(curve.oid)]),
                &key.point[..],
            ),
            Signer::Ed25519(key) => (algorithm(&[&oid(ED25519)]), key.public_key().as_ref()),
        };
        let public_key = sequence(&[&algorithm, &bit_string(key)]);
        Self { signer, public_key }
    }

    /// The type of the key.
    pub fn algorithm(&self) -> Algorithm {
        match &self.signer {
            Signer::Rsa(_) => Algorithm::Rsa,
            Signer::Ecdsa(curve, _) => curve.algorithm,
            Signer::Ed25519(_) => Algorithm::Ed25519,
        }
    }

    /// The public key: SubjectPublicKeyInfo in DER, as in certificates.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// Whether a public key has the type of this key: RSA, ECDSA on any curve, or Ed25519.
    pub fn has_type_of(&self, public_key: &[u8]) -> bool {
        let types = (type_of(&self.public_key), type_of(public_key));
        matches!(types, (Ok(own), Ok(other)) if own == other)
    }

    /// The public key as a PEM block `PUBLIC KEY`.
    pub fn public_key_pem(&self) -> String {
        let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
        pem::encode_config(&Pem::new("PUBLIC KEY", self.public_key()), lines)
    }

    /// AlgorithmIdentifier of the signatures of this key, in DER.
    pub fn signature_algorithm(&self) -> Vec<u8> {
        match &self.signer {
            Signer::Rsa(_) => sequence(&[&oid(SHA256_WITH_RSA), NULL]),
            Signer::Ecdsa(curve, _) => sequence(&[&oid(curve.signature)]),
            Signer::Ed25519(_) => sequence(&[&oid(ED25519)]),
        }
    }

    /// The signature of `message`, with the digest that [`Algorithm`] names.
    ///
    /// # Errors
    /// If the system has no random numbers for RSA. The other algorithms need none.
    pub fn sign(&self, message: &[u8], form: EcdsaForm) -> Result<Vec<u8>, SigningError> {
        match &self.signer {
            Signer::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(
                    &RSA_PKCS1_SHA256,
                    &SystemRandom::new(),
                    message,
                    &mut signature,
                )
                .map_err(|_| SigningError)?;
                Ok(signature)
            }
            Signer::Ecdsa(curve, key) => {
                let digest = digest::digest(curve.digest, message);
                let fixed = key.sign(digest.as_ref()).ok_or(SigningError)?;
                Ok(match form {
                    EcdsaForm::Asn1 => to_der(&fixed),
                    EcdsaForm::Fixed => fixed,
                })
            }
            Signer::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?})", self.algorithm())
    }
}

/// The object identifier in a SubjectPublicKeyInfo.
fn type_of(public_key: &[u8]) -> Result<&[u8], Error> {
    let mut algorithm = Elements::of_sequence(public_key)?.sequence()?;
    algorithm.content(Tag::ObjectIdentifier)
}

/// Messages of `der` name tags and positions only.
fn malformed(error: Error) -> KeyError {
    KeyError::Unusable(format!("malformed key: {error}"))
}

fn rejected(kind: &str, error: KeyRejected) -> KeyError {
    KeyError::Unusable(format!("{kind} key: {error}"))
}

/// An RSA key in PKCS#1.
fn rsa(der: &[u8]) -> Result<Signer, KeyError> {
    let key = RsaKeyPair::from_der(der).map_err(|error| rejected("RSA", error))?;
    Ok(Signer::Rsa(Box::new(key)))
}

/// A key in PKCS#8.
fn pkcs8(der: &[u8]) -> Result<Signer, KeyError> {
    let read = || {
        let mut key = Elements::of_sequence(der)?;
        let _version = key.content(Tag::Integer)?;
        let mut algorithm = key.sequence()?;
        let kind = algorithm.content(Tag::ObjectIdentifier)?;
        let parameters = algorithm.optional(Tag::ObjectIdentifier)?;
        Ok((kind, parameters, key.content(Tag::OctetString)?))
    };
    let (kind, parameters, key) = read().map_err(malformed)?;
    let is = |algorithm: ObjectIdentifier| kind == algorithm.as_bytes();
    if is(RSA_ENCRYPTION) {
        rsa(key)
    } else if is(EC_PUBLIC_KEY) {
        sec1(key, parameters)
    } else if is(ED25519) {
        ed25519(key)
    } else {
        Err(KeyError::Unusable("unknown type of key".to_owned()))
    }
}

/// An ECDSA key in SEC1. The curve is `outer`, from PKCS#8, or named in the key.
fn sec1(der: &[u8], outer: Option<&[u8]>) -> Result<Signer, KeyError> {
    let read = || {
        let mut key = Elements::of_sequence(der)?;
        let _version = key.content(Tag::Integer)?;
        let scalar = key.content(Tag::OctetString)?;
        let inner = key.optional(context(0, true))?;
        let inner = inner.map(|inner| Elements::of(inner)?.content(Tag::ObjectIdentifier));
        Ok((scalar, inner.transpose()?))
    };
    let (scalar, inner) = read().map_err(malformed)?;
    let unusable = |reason: &str| KeyError::Unusable(reason.to_owned());
    let curve = outer.or(inner).unwrap_or_default();
    if curve == P224.as_bytes() {
        return Err(KeyError::P224);
    }
    let curve = Curve::find(curve).ok_or_else(|| unusable("x509: unknown elliptic curve"))?;
    let outside = || unusable("the scalar is outside the curve");
    Ok(Signer::Ecdsa(
        curve,
        curve.open(scalar).ok_or_else(outside)?,
    ))
}

/// The seed of an Ed25519 key, as an octet string in PKCS#8.
fn ed25519(der: &[u8]) -> Result<Signer, KeyError> {
    let seed = Elements::of(der)
        .and_then(|mut seed| seed.content(Tag::OctetString))
        .map_err(malformed)?;
    let key = Ed25519KeyPair::from_seed_unchecked(seed);
    Ok(Signer::Ed25519(
        key.map_err(|error| rejected("Ed25519", error))?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asn1::{element, unsigned};
    use crate::keys::{VerifyError, verify, verify_fixed};

    macro_rules! pem {
        ($name:literal) => {
            include_str!(concat!("testdata/", $name, ".pem"))
        };
    }

    /// Keys of OpenSSL: text, algorithm, SHA-256 of the public key as `openssl pkey -pubout`
    /// computes it, and the length of the fixed form of a signature.
    const KEYS: [(&str, Algorithm, &str, usize); 6] = [
        (
            pem!("rsa-pkcs1"),
            Algorithm::Rsa,
            "503613be3c94b5719de45a651b5af32486e37144899f2f0e57bff4a1122ab32f",
            256,
        ),
        (
            pem!("rsa-pkcs8"),
            Algorithm::Rsa,
            "503613be3c94b5719de45a651b5af32486e37144899f2f0e57bff4a1122ab32f",
            256,
        ),
        (
            pem!("p256-sec1"),
            Algorithm::P256,
            "8a6e3058296e4b9e934e1a1b51fa08c35930f0f4b6c45100df25a4fe1f401695",
            64,
        ),
        (
            pem!("p384-pkcs8"),
            Algorithm::P384,
            "e8812a21e4decf4c4ee71c8b6fe9c74d1647d18e4359771b7acb7a0f6f2f90a0",
            96,
        ),
        (
            pem!("p521-sec1"),
            Algorithm::P521,
            "12093707fa9617bce49d863f2d8858974f40f1ad320dee7149837cc6e5a01aff",
            132,
        ),
        (
            pem!("ed25519-pkcs8"),
            Algorithm::Ed25519,
            "e1a552f45eb395ecd11e5ba30992ee488833da73fd621793f5715f894eb6130f",
            64,
        ),
    ];

    #[test]
    fn keys_of_every_type_and_form_are_read_and_sign() {
        for (pem, algorithm, public_key, length) in KEYS {
            let key = PrivateKey::from_pem(pem.as_bytes()).unwrap();
            assert_eq!(key.algorithm(), algorithm);
            let digest = digest::digest(&digest::SHA256, key.public_key());
            let hex: String = digest
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(hex, public_key, "{algorithm:?}");
            assert_eq!(format!("{key:?}"), format!("PrivateKey({algorithm:?})"));

            let signature = key.sign(b"message", EcdsaForm::Asn1).unwrap();
            let fixed = key.sign(b"message", EcdsaForm::Fixed).unwrap();
            assert_eq!(fixed.len(), length, "{algorithm:?}");
            let check = |message, signature: &[u8]| {
                verify(
                    key.public_key(),
                    &key.signature_algorithm(),
                    message,
                    signature,
                )
            };
            assert_eq!(check(b"message", &signature), Ok(()), "{algorithm:?}");
            if matches!(
                algorithm,
                Algorithm::P256 | Algorithm::P384 | Algorithm::P521
            ) {
                assert_eq!(check(b"message", &to_der(&fixed)), Ok(()), "{algorithm:?}");
                assert_eq!(check(b"message", &fixed), Err(VerifyError::Ecdsa));
                let of_token =
                    |message, signature| verify_fixed(key.public_key(), message, signature);
                assert_eq!(of_token(b"message", &fixed), Ok(()), "{algorithm:?}");
                let wrong: [(&[u8], &[u8]); 4] = [
                    (b"massage", &fixed),
                    (b"message", &fixed[1..]),
                    (b"message", &[]),
                    (b"message", &signature),
                ];
                for (message, signature) in wrong {
                    assert_eq!(of_token(message, signature), Err(VerifyError::Ecdsa));
                }
            }
            assert!(check(b"massage", &signature).is_err(), "{algorithm:?}");
            let public = pem::parse(key.public_key_pem()).unwrap();
            assert_eq!(
                (public.tag(), public.contents()),
                ("PUBLIC KEY", key.public_key())
            );
        }
    }

    #[test]
    fn keys_that_cannot_be_used_are_refused_without_their_content() {
        let pem = |tag: &str, der: &[u8]| pem::encode(&pem::Pem::new(tag, der));
        let whole = KEYS[4].0;
        let (parameters, _) = whole.split_once("-----BEGIN EC PRIVATE").unwrap();
        let sec1 = |scalar: &[u8], curve: &str| {
            let curve = oid(ObjectIdentifier::new_unwrap(curve));
            sequence(&[
                &unsigned(&[1]),
                &element(Tag::OctetString, scalar),
                &element(context(0, true), &curve),
            ])
        };
        let p256 = "1.2.840.10045.3.1.7";
        let unusable = |reason: &str| KeyError::Unusable(reason.to_owned());
        let cases = [
            (String::new(), KeyError::None),
            (
                "-----BEGIN PRIVATE KEY-----\n?\n-----END PRIVATE KEY-----".to_owned(),
                KeyError::None,
            ),
            (parameters.to_owned(), KeyError::None),
            (pem("CERTIFICATE", b"x"), KeyError::None),
            (pem("ENCRYPTED PRIVATE KEY", b"x"), KeyError::None),
            (
                pem("EC PRIVATE KEY", &sec1(&[0; 32], p256)),
                unusable("the scalar is outside the curve"),
            ),
            (
                pem("EC PRIVATE KEY", &sec1(&[0xff; 32], p256)),
                unusable("the scalar is outside the curve"),
            ),
            (
                pem("EC PRIVATE KEY", &sec1(&[1; 33], p256)),
                unusable("the scalar is outside the curve"),
            ),
            (
                pem("EC PRIVATE KEY", &sec1(&[1; 32], "1.3.132.0.10")),
                unusable("x509: unknown elliptic curve"),
            ),
            (
                pem("EC PRIVATE KEY", &sec1(&[1; 28], "1.3.132.0.33")) + KEYS[3].0,
                KeyError::P224,
            ),
            (
                pem("RSA PRIVATE KEY", b"x"),
                unusable("RSA key: InvalidEncoding"),
            ),
        ];
        for (text, expected) in cases {
            let found = PrivateKey::from_pem(text.as_bytes()).unwrap_err();
            assert_eq!(found, expected, "{text}");
        }
        // A later key is used, and so is a scalar without its leading zeros.
        let [unknown, short] = [sec1(&[1; 32], "1.3.132.0.10"), sec1(&[1], p256)];
        let text = pem("EC PRIVATE KEY", &unknown) + &pem("EC PRIVATE KEY", &short);
        let key = PrivateKey::from_pem(text.as_bytes()).unwrap();
        assert_eq!(key.algorithm(), Algorithm::P256);
    }

    #[test]
    fn truncated_and_corrupted_keys_never_cause_a_panic() {
        for (text, ..) in KEYS {
            let block = pem::parse_many(text).unwrap().pop().unwrap();
            let whole = block.contents();
            // A change in the middle of a number is a valid key, or one that the library refuses.
            for at in (0..whole.len()).filter(|at| *at < 48 || at + 8 > whole.len()) {
                for byte in [0, 1, 2, 0x30, 0x7f, 0x80, 0x81, 0x82, 0x84, 0xff] {
                    let mut wrong = whole.to_vec();
                    wrong[at] = byte;
                    let _ = PrivateKey::from_pem(
                        pem::encode(&pem::Pem::new(block.tag(), wrong)).as_bytes(),
                    );
                }
                let cut = pem::encode(&pem::Pem::new(block.tag(), &whole[..at]));
                assert!(PrivateKey::from_pem(cut.as_bytes()).is_err(), "{at}");
            }
        }
    }
}
