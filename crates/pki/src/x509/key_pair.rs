//! A certificate and its private key, in PEM.
//!
//! Upstream: `X509KeyPair` of crypto/tls, whose words the errors have. No error holds a part of a
//! key.

use std::fmt::Display;

use ::pem::Pem;

use super::fields::{Fields, Kind};
use super::{Certificate, x509};
use crate::asn1::ObjectIdentifier;
use crate::keys::{EC_PUBLIC_KEY, ED25519, KeyError, PrivateKey, RSA_ENCRYPTION};

/// The end of the type of a PEM block with a private key.
const PRIVATE_KEY: &str = "PRIVATE KEY";

/// The forms of private keys, in the order in which Go tries them: PKCS#1, PKCS#8, SEC1.
const FORMS: [&str; 3] = ["RSA PRIVATE KEY", PRIVATE_KEY, "EC PRIVATE KEY"];

/// The first certificate in `certificates`, and its key in `key`.
///
/// # Errors
/// If one of them is absent or unusable, or if they do not belong together.
pub fn key_pair(certificates: &[u8], key: &[u8]) -> Result<(Certificate, PrivateKey), String> {
    let blocks = ::pem::parse_many(certificates).unwrap_or_default();
    let is_certificate = |block: &&Pem| block.tag() == "CERTIFICATE";
    let Some(first) = blocks.iter().find(is_certificate) else {
        return Err(no_certificate(&blocks));
    };
    let blocks = ::pem::parse_many(key).unwrap_or_default();
    let is_key = |block: &&Pem| is_private_key(block.tag());
    let Some(block) = blocks.iter().find(is_key) else {
        return Err(no_key(&blocks));
    };
    let certificate = Certificate::read(first.contents())?;
    let key = private_key(block)?;
    if !key.has_type_of(&certificate.public_key) {
        return Err("tls: private key type does not match public key type".to_owned());
    }
    if certificate.public_key != key.public_key() {
        return Err("tls: private key does not match public key".to_owned());
    }
    Ok((certificate, key))
}

fn is_private_key(tag: &str) -> bool {
    tag == PRIVATE_KEY || tag.ends_with(" PRIVATE KEY")
}

/// The words about a text without a certificate.
fn no_certificate(blocks: &[Pem]) -> String {
    match blocks {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [key] if key.tag().ends_with(PRIVATE_KEY) => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched"
                .to_owned()
        }
        others => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: {}",
            types(others)
        ),
    }
}

/// The words about a text without a private key.
fn no_key(blocks: &[Pem]) -> String {
    match blocks {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [other] if other.tag() == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        others => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: {}",
            types(others)
        ),
    }
}

/// The types of these blocks as Go prints them.
fn types(blocks: &[Pem]) -> String {
    let types: Vec<_> = blocks.iter().map(Pem::tag).collect();
    format!("[{}]", types.join(" "))
}

/// The key in a block. Its type does not say the form.
fn private_key(block: &Pem) -> Result<PrivateKey, String> {
    let mut reasons = Vec::new();
    for form in FORMS {
        let text = ::pem::encode(&Pem::new(form, block.contents()));
        match PrivateKey::from_pem(text.as_bytes()) {
            Ok(key) => return Ok(key),
            Err(error) => reasons.push(error),
        }
    }
    let failed = |reason: &dyn Display| format!("tls: failed to parse private key: {reason}");
    if reasons.contains(&KeyError::P224) {
        return Err(failed(&KeyError::P224));
    }
    Err(failed(&pkcs8_error(block.contents(), &reasons)))
}

/// The reason why the key is not in PKCS#8, which is the one that Go reports. `reasons` tell why the
/// key is unusable in each of the forms.
fn pkcs8_error(der: &[u8], reasons: &[KeyError]) -> String {
    let use_other = |name| {
        x509(format_args!(
            "failed to parse private key (use {name} instead for this key format)"
        ))
    };
    let own = |form: &str| {
        let at = FORMS.iter().position(|other| *other == form);
        match at.and_then(|at| reasons.get(at)) {
            Some(KeyError::Unusable(reason)) => reason.clone(),
            _ => String::new(),
        }
    };
    let embedded = |kind| {
        let reason = own(PRIVATE_KEY);
        x509(format_args!(
            "failed to parse {kind} private key embedded in PKCS#8: {reason}"
        ))
    };
    match pkcs8_algorithm(der) {
        Ok(RSA_ENCRYPTION) => embedded("RSA"),
        Ok(EC_PUBLIC_KEY) => embedded("EC"),
        Ok(ED25519) => x509(format_args!(
            "invalid Ed25519 private key: {}",
            own(PRIVATE_KEY)
        )),
        Ok(other) => x509(format_args!(
            "PKCS#8 wrapping contained private key with unknown algorithm: {other}"
        )),
        Err(_) if is_sec1(der) => use_other("ParseECPrivateKey"),
        // Go takes smaller keys, and tells nothing about them.
        Err(_) if is_pkcs1(der) => format!(
            "{}: {}",
            use_other("ParsePKCS1PrivateKey"),
            own("RSA PRIVATE KEY")
        ),
        Err(reason) => reason,
    }
}

/// The algorithm of a key in PKCS#8.
fn pkcs8_algorithm(der: &[u8]) -> Result<ObjectIdentifier, String> {
    let mut key = Fields::of(Fields::of(der).content(Kind::sequence("pkcs8"))?);
    key.integer()?;
    let algorithm = key.content(Kind::sequence("AlgorithmIdentifier"))?;
    let mut algorithm = Fields::of(algorithm);
    let oid = algorithm.oid()?;
    if !algorithm.is_empty() {
        algorithm.any()?;
    }
    key.content(Kind::OCTET_STRING)?;
    ObjectIdentifier::from_bytes(oid).map_err(|error| error.to_string())
}

fn is_sec1(der: &[u8]) -> bool {
    let read = || {
        let mut key = Fields::of(Fields::of(der).content(Kind::sequence("ecPrivateKey"))?);
        key.integer()?;
        key.content(Kind::OCTET_STRING)
    };
    read().is_ok()
}

fn is_pkcs1(der: &[u8]) -> bool {
    let read = || {
        let mut key = Fields::of(Fields::of(der).content(Kind::sequence("pkcs1PrivateKey"))?);
        key.integer()?;
        (0..5).try_for_each(|_| key.content(Kind::INTEGER).map(|_| ()))
    };
    read().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RSA: &str = include_str!("../keys/testdata/rsa-pkcs1.pem");
    const P256: &str = include_str!("../keys/testdata/p256-sec1.pem");
    const P384: &str = include_str!("../keys/testdata/p384-pkcs8.pem");

    /// A certificate of `key`. The parser checks no signature.
    fn certificate(key: &str) -> String {
        use crate::asn1::{Tag, bit_string, element, sequence, unsigned};
        let key = PrivateKey::from_pem(key.as_bytes()).unwrap();
        let time = element(Tag::UtcTime, b"300101000000Z");
        let algorithm = key.signature_algorithm();
        let part = sequence(&[
            &unsigned(&[1]),
            &algorithm,
            &sequence(&[]),
            &sequence(&[&time, &time]),
            &sequence(&[]),
            key.public_key(),
        ]);
        super::super::certificate_to_pem(&sequence(&[&part, &algorithm, &bit_string(&[0; 64])]))
    }

    fn block(tag: &str, contents: &[u8]) -> String {
        ::pem::encode(&Pem::new(tag, contents))
    }

    #[test]
    fn a_certificate_and_its_key_are_a_pair() {
        let renamed = P256.replace("EC PRIVATE KEY", "ANOTHER PRIVATE KEY");
        let parameters = block("EC PARAMETERS", b"x") + P256;
        for (certificates, key) in [
            (certificate(RSA), RSA),
            (certificate(P256) + &certificate(RSA), P256),
            (block("OTHER", b"x") + &certificate(P384), P384),
            (certificate(P256), &renamed),
            (certificate(P256), &parameters),
        ] {
            let (leaf, key) = key_pair(certificates.as_bytes(), key.as_bytes()).unwrap();
            assert_eq!(leaf.public_key, key.public_key());
        }
    }

    #[test]
    fn an_unusable_pair_is_refused_in_the_words_of_go() {
        let own = certificate(P256);
        let others = block("A", b"x") + &block("B", b"x");
        // (certificate, key, error)
        let cases = [
            (
                "",
                P256,
                "tls: failed to find any PEM data in certificate input",
            ),
            (
                P256,
                P256,
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
            ),
            (
                &others,
                P256,
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [A B]",
            ),
            (&own, "x", "tls: failed to find any PEM data in key input"),
            (
                &own,
                &own,
                "tls: found a certificate rather than a key in the PEM for the private key",
            ),
            (
                &own,
                &others,
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [A B]",
            ),
            (
                &block("CERTIFICATE", b"x"),
                P256,
                "x509: malformed certificate",
            ),
            (
                &own,
                &block("ENCRYPTED PRIVATE KEY", b"x"),
                "tls: failed to parse private key: asn1: syntax error: truncated tag or length",
            ),
            (
                &own,
                RSA,
                "tls: private key type does not match public key type",
            ),
            (&own, P384, "tls: private key does not match public key"),
        ];
        for (certificate, key, expected) in cases {
            let found = key_pair(certificate.as_bytes(), key.as_bytes()).unwrap_err();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_unusable_key_is_refused_in_the_words_of_go() {
        use crate::asn1::{Tag, context, element, oid, sequence, unsigned};
        let curve = |curve: &str| oid(ObjectIdentifier::new_unwrap(curve));
        let sec1 = |of: &str| {
            let scalar = element(Tag::OctetString, &[1; 28]);
            sequence(&[
                &unsigned(&[1]),
                &scalar,
                &element(context(0, true), &curve(of)),
            ])
        };
        let pkcs8 = |algorithm: &[&[u8]], key: &[u8]| {
            let key = element(Tag::OctetString, key);
            sequence(&[&unsigned(&[0]), &sequence(algorithm), &key])
        };
        let secp256k1 = "1.3.132.0.10";
        let p224 = "1.3.132.0.33";
        let ec = oid(EC_PUBLIC_KEY);
        let dsa = curve("1.2.840.10040.4.1");
        // (key, error)
        let cases = [
            (
                sec1(secp256k1),
                "x509: failed to parse private key (use ParseECPrivateKey instead for this key format)",
            ),
            (
                pkcs8(&[&ec, &curve(secp256k1)], &sec1(secp256k1)),
                "x509: failed to parse EC private key embedded in PKCS#8: x509: unknown elliptic curve",
            ),
            (
                pkcs8(&[&dsa], &[]),
                "x509: PKCS#8 wrapping contained private key with unknown algorithm: 1.2.840.10040.4.1",
            ),
            (
                vec![0x30, 3, 2, 1, 1],
                "asn1: syntax error: sequence truncated",
            ),
            (sec1(p224), "keys on the curve P-224 are not supported"),
        ];
        for (key, expected) in cases {
            let found = private_key(&Pem::new(PRIVATE_KEY, key)).unwrap_err();
            assert_eq!(
                found,
                format!("tls: failed to parse private key: {expected}")
            );
        }
    }
}
