//! A certificate and its private key, in PEM.
//!
//! Upstream: `X509KeyPair` of crypto/tls, whose words the errors have. No error holds a part of a
//! key.

use ::pem::Pem;

use super::Certificate;
use crate::keys::{KeyError, PrivateKey};

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
    let certificate = Certificate::read(first.contents())
        .map_err(|_| "x509: malformed certificate".to_owned())?;
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
    let mut reason = String::new();
    for form in FORMS {
        let text = ::pem::encode(&Pem::new(form, block.contents()));
        match PrivateKey::from_pem(text.as_bytes()) {
            Ok(key) => return Ok(key),
            // A block of one of the forms tells why its own form is unusable.
            Err(KeyError::Unusable(why)) if form == block.tag() => reason = format!(": {why}"),
            Err(_) => {}
        }
    }
    Err(format!("tls: failed to parse private key{reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RSA: &str = include_str!("../keys/testdata/rsa-pkcs1.pem");
    const P256: &str = include_str!("../keys/testdata/p256-sec1.pem");
    const P384: &str = include_str!("../keys/testdata/p384-pkcs8.pem");

    /// A certificate of `key`. The parser checks no signature.
    fn certificate(key: &str) -> String {
        use crate::asn1::{NULL, Tag, element, sequence};
        let key = PrivateKey::from_pem(key.as_bytes()).unwrap();
        let time = element(Tag::UtcTime, b"300101000000Z");
        let part = sequence(&[
            &NULL.repeat(3),
            &sequence(&[&time, &time]),
            &sequence(&[]),
            key.public_key(),
        ]);
        super::super::certificate_to_pem(&sequence(&[&part, NULL, NULL]))
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
                "tls: failed to parse private key",
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
        let small = block("RSA PRIVATE KEY", &[0x30, 0]);
        let found = key_pair(own.as_bytes(), small.as_bytes()).unwrap_err();
        assert!(
            found.starts_with("tls: failed to parse private key: RSA key: "),
            "{found}"
        );
    }
}
