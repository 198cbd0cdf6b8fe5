//! Requests for certificates (PKCS#10), as clients send them in CertificateSigningRequests.
//!
//! Upstream: `ParseCSR` of `pkg/apis/certificates`, and `ParseCertificateRequest` of crypto/x509. As
//! these, the parser ignores attributes that it does not know, and requested extensions except the
//! alternative names. Errors are Go's. The parser keeps URIs as they are; Go rewrites them in its own
//! form.

use std::collections::HashSet;
use std::net::IpAddr;

use super::fields::{Fields, Kind};
use super::{Name, x509};
use crate::asn1::{Elements, ObjectIdentifier, Tag, context};
use crate::keys::{self, VerifyError};

/// The type of the PEM block.
const BLOCK: &str = "CERTIFICATE REQUEST";

/// The attribute that holds the requested extensions.
const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");

/// The extension "subject alternative name".
pub(super) const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// Bytes that are not a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The first PEM block is absent or has another type.
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    Block,
    /// The block is not a request. The text is Go's.
    #[error("{0}")]
    Malformed(String),
}

impl From<String> for RequestError {
    fn from(text: String) -> Self {
        Self::Malformed(text)
    }
}

/// The alternative names of a subject. Names of other types are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    /// DNS names.
    pub dns: Vec<String>,
    /// Email addresses.
    pub emails: Vec<String>,
    /// IP addresses. IPv4 addresses in the form of IPv6 are IPv4 addresses.
    pub ips: Vec<IpAddr>,
    /// URIs.
    pub uris: Vec<String>,
}

/// A request for a certificate. The requester may claim any content.
#[derive(Debug, Clone)]
pub struct CertificateRequest {
    /// The requested subject.
    pub subject: Name,
    /// The public key: SubjectPublicKeyInfo in DER.
    pub public_key: Vec<u8>,
    /// The requested alternative names.
    pub alternative_names: AlternativeNames,
    /// The part that the signature covers.
    signed: Vec<u8>,
    algorithm: Vec<u8>,
    signature: Vec<u8>,
}

impl CertificateRequest {
    /// Parses the first PEM block of `pem`. The signature is not checked.
    ///
    /// # Errors
    /// If the block is not a request.
    pub fn from_pem(pem: &[u8]) -> Result<Self, RequestError> {
        let block = pem::parse(pem).map_err(|_| RequestError::Block)?;
        if block.tag() != BLOCK {
            return Err(RequestError::Block);
        }
        Self::from_der(block.contents())
    }

    /// Parses DER. The signature is not checked.
    ///
    /// # Errors
    /// If the bytes are not a request.
    pub fn from_der(der: &[u8]) -> Result<Self, RequestError> {
        let mut outer = Fields::of(der);
        let mut request = Fields::of(outer.content(Kind::sequence("certificateRequest"))?);
        let info = request.field(Kind::sequence("tbsCertificateRequest"))?;
        let signed = info.whole;
        let mut info = Fields::of(info.content);
        info.integer()?;
        let subject = info.any()?.whole;
        let public_key = info.field(Kind::sequence("publicKeyInfo"))?;
        let mut key = Fields::of(public_key.content);
        algorithm(key.content(Kind::sequence("AlgorithmIdentifier"))?)?;
        key.octets_of_bit_string()?;
        let attributes = Fields::of(info.content(Kind::TAGGED)?).values()?;
        let signature_algorithm = request.field(Kind::sequence("AlgorithmIdentifier"))?;
        algorithm(signature_algorithm.content)?;
        let signature = request.octets_of_bit_string()?;
        outer.end()?;
        keys::check_public_key(public_key.whole).map_err(x509)?;
        let subject = Name::of_request(subject)?;
        let attributes = attributes.iter().map(|attribute| attribute.whole);
        Ok(Self {
            subject,
            public_key: public_key.whole.to_vec(),
            alternative_names: alternative_names(attributes)?,
            signed: signed.to_vec(),
            algorithm: signature_algorithm.whole.to_vec(),
            signature: signature.to_vec(),
        })
    }

    /// Checks that the requester has the private key.
    ///
    /// # Errors
    /// If the signature is not that of the public key.
    pub fn check_signature(&self) -> Result<(), VerifyError> {
        keys::verify(
            &self.public_key,
            &self.algorithm,
            &self.signed,
            &self.signature,
        )
    }
}

/// Checks the content of an AlgorithmIdentifier.
fn algorithm(content: &[u8]) -> Result<(), String> {
    let mut fields = Fields::of(content);
    fields.oid()?;
    if !fields.is_empty() {
        fields.any()?;
    }
    Ok(())
}

/// The alternative names in the attributes of a request.
fn alternative_names<'a>(
    attributes: impl Iterator<Item = &'a [u8]>,
) -> Result<AlternativeNames, String> {
    let mut names = AlternativeNames::default();
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for extensions in attributes.filter_map(requested_extensions) {
        let extensions = Fields::of(extensions).content(Kind::sequence(""))?;
        let extensions = Fields::of(extensions).elements(Kind::sequence(""))?;
        let extensions: Vec<_> = extensions
            .into_iter()
            .map(extension)
            .collect::<Result<_, _>>()?;
        for (kind, value) in extensions {
            if !seen.insert(kind) {
                return Err(x509(
                    "certificate request contains duplicate requested extensions",
                ));
            }
            if kind == SUBJECT_ALT_NAME.as_bytes() {
                found.push(value);
            }
        }
    }
    for value in found {
        names.read(value)?;
    }
    Ok(names)
}

/// The extensions in this attribute; `None` for other attributes, and for malformed ones.
fn requested_extensions(attribute: &[u8]) -> Option<&[u8]> {
    let mut outer = Fields::of(attribute);
    let mut attribute = Fields::of(outer.content(Kind::sequence("")).ok()?);
    let kind = attribute.oid().ok()?;
    let values = Fields::of(attribute.content(Kind::SET).ok()?)
        .values()
        .ok()?;
    outer.end().ok()?;
    let first = values.first()?;
    (kind == EXTENSION_REQUEST.as_bytes()).then_some(first.whole)
}

/// Object identifier and value of a requested extension.
fn extension<'a>(mut extension: Fields<'a>) -> Result<(&'a [u8], &'a [u8]), String> {
    let kind = extension.oid()?;
    extension.optional_boolean()?;
    Ok((kind, extension.content(Kind::OCTET_STRING)?))
}

impl AlternativeNames {
    /// Reads the value of the extension.
    fn read(&mut self, value: &[u8]) -> Result<(), String> {
        const EMAIL: Tag = context(1, false);
        const DNS: Tag = context(2, false);
        const URI: Tag = context(6, false);
        const IP: Tag = context(7, false);
        let ascii = |bytes: &[u8], kind| match std::str::from_utf8(bytes) {
            Ok(text) if text.is_ascii() => Ok(text.to_owned()),
            _ => Err(x509(format_args!("SAN {kind} is malformed"))),
        };
        let names = Elements::of(value).and_then(|mut value| value.sequence());
        let mut names = names.map_err(|_| x509("invalid subject alternative names"))?;
        while !names.is_empty() {
            let name = names.any();
            match name.map_err(|_| x509("invalid subject alternative name"))? {
                (EMAIL, name) => self.emails.push(ascii(name, "rfc822Name")?),
                (DNS, name) => self.dns.push(ascii(name, "dNSName")?),
                (URI, name) => self.uris.push(ascii(name, "uniformResourceIdentifier")?),
                (IP, address) => self.ips.push(ip(address)?),
                _ => {}
            }
        }
        Ok(())
    }
}

fn ip(address: &[u8]) -> Result<IpAddr, String> {
    let parsed = <[u8; 4]>::try_from(address).map(IpAddr::from);
    let parsed = parsed.or_else(|_| <[u8; 16]>::try_from(address).map(IpAddr::from));
    let length = address.len();
    parsed
        .map(|ip| ip.to_canonical())
        .map_err(|_| x509(format_args!("cannot parse IP address of length {length}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asn1::{NULL, bit_string, element, oid, sequence, unsigned};
    use crate::x509::COMMON_NAME;

    /// Requests of OpenSSL for `system:node:n1`, signed with each algorithm.
    const REQUESTS: &str = include_str!("testdata/requests.pem");

    #[test]
    fn signatures_of_all_usual_algorithms_verify() {
        let expected = [
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Err(VerifyError::Rsa),
            Err(VerifyError::Unimplemented),
            Err(VerifyError::Unimplemented),
            Err(VerifyError::Unimplemented),
        ];
        let blocks = pem::parse_many(REQUESTS).unwrap();
        assert_eq!(blocks.len(), expected.len());
        for (index, (block, expected)) in blocks.iter().zip(expected).enumerate() {
            let request = CertificateRequest::from_der(block.contents()).unwrap();
            assert_eq!(request.subject.common_name(), "system:node:n1");
            assert!(request.subject.organizations().eq(["system:nodes"]));
            assert_eq!(request.check_signature(), expected, "request {index}");
            if expected.is_ok() {
                let mut forged = request.clone();
                forged.signed[40] ^= 1;
                assert!(forged.check_signature().is_err(), "request {index}");
            }
        }
    }

    #[test]
    fn key_and_signature_have_the_same_algorithm() {
        let blocks = pem::parse_many(REQUESTS).unwrap();
        let request =
            |index: usize| CertificateRequest::from_der(blocks[index].contents()).unwrap();
        let rsa = request(2);
        let ecdsa = request(8);
        let ed25519 = request(14);
        let mixed = |key: &CertificateRequest, signature: &CertificateRequest| {
            let mut mixed = signature.clone();
            mixed.public_key = key.public_key.clone();
            mixed.check_signature().unwrap_err().to_string()
        };
        let text = |algorithm, key| {
            format!(
                "x509: signature algorithm specifies an {algorithm} public key, but have public key of type {key}"
            )
        };
        assert_eq!(mixed(&rsa, &ecdsa), text("ECDSA", "*rsa.PublicKey"));
        assert_eq!(mixed(&ecdsa, &rsa), text("RSA", "*ecdsa.PublicKey"));
        assert_eq!(mixed(&ed25519, &rsa), text("RSA", "ed25519.PublicKey"));
        assert_eq!(mixed(&rsa, &ed25519), text("Ed25519", "*rsa.PublicKey"));
        // RFC 8410 forbids parameters for Ed25519.
        let mut parameters = ed25519.clone();
        let kind = &ed25519.algorithm[2..];
        parameters.algorithm = sequence(&[kind, NULL]);
        assert_eq!(
            parameters.check_signature(),
            Err(VerifyError::Unimplemented)
        );
        let mut broken = rsa;
        broken.public_key = NULL.to_vec();
        assert_eq!(broken.check_signature(), Err(VerifyError::Key));
    }

    #[test]
    fn huge_and_empty_rsa_keys_are_refused() {
        let blocks = pem::parse_many(REQUESTS).unwrap();
        let mut request = CertificateRequest::from_der(blocks[2].contents()).unwrap();
        let rsa = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
        // (bytes of the modulus, exponent)
        for (length, exponent) in [
            (2048, 3),
            (100_000, 3),
            (1025, 3),
            (0, 3),
            (256, 0),
            (256, 1),
        ] {
            let modulus = vec![0xff; length];
            let key = sequence(&[&unsigned(&modulus), &unsigned(&[exponent])]);
            let algorithm = sequence(&[&oid(rsa), NULL]);
            request.public_key = sequence(&[&algorithm, &bit_string(&key)]);
            request.signature = vec![0; length];
            assert_eq!(request.check_signature(), Err(VerifyError::Rsa), "{length}");
        }
    }

    #[test]
    fn the_first_block_must_be_a_request() {
        let block = |tag: &str| pem::encode(&pem::Pem::new(tag, &b"x"[..]));
        let requests = [
            String::new(),
            "text".to_owned(),
            block("CERTIFICATE") + REQUESTS,
            block("NEW CERTIFICATE REQUEST"),
            "-----BEGIN CERTIFICATE REQUEST-----\n?\n-----END CERTIFICATE REQUEST-----".to_owned(),
        ];
        for text in requests {
            let found = CertificateRequest::from_pem(text.as_bytes()).unwrap_err();
            assert_eq!(found, RequestError::Block, "{text}");
        }
        let found = CertificateRequest::from_pem(block(BLOCK).as_bytes()).unwrap_err();
        assert!(matches!(found, RequestError::Malformed(_)), "{found}");
    }

    /// A request without a valid signature, with these attributes.
    fn with_attributes(attributes: &[Vec<u8>]) -> Result<AlternativeNames, RequestError> {
        let algorithm = sequence(&[&oid(ObjectIdentifier::new_unwrap("1.3.101.112"))]);
        let info = sequence(&[
            &unsigned(&[0]),
            &sequence(&[]),
            &sequence(&[&algorithm, &bit_string(&[7; 32])]),
            &element(context(0, true), &attributes.concat()),
        ]);
        let der = sequence(&[&info, &algorithm, &bit_string(&[])]);
        CertificateRequest::from_der(&der).map(|request| request.alternative_names)
    }

    /// An attribute with the requested extensions: object identifiers and values.
    fn extensions(extensions: &[(ObjectIdentifier, Vec<u8>)]) -> Vec<u8> {
        let extension = |(kind, value): &(ObjectIdentifier, Vec<u8>)| {
            let critical = element(Tag::Boolean, &[0xff]);
            sequence(&[&oid(*kind), &critical, &element(Tag::OctetString, value)])
        };
        let all: Vec<u8> = extensions.iter().flat_map(extension).collect();
        let value = element(Tag::Sequence, &all);
        sequence(&[&oid(EXTENSION_REQUEST), &element(Tag::Set, &value)])
    }

    fn names(names: &[(u32, &[u8])]) -> (ObjectIdentifier, Vec<u8>) {
        let name = |(number, name): &(u32, &[u8])| element(context(*number, false), name);
        let names: Vec<u8> = names.iter().flat_map(name).collect();
        (SUBJECT_ALT_NAME, element(Tag::Sequence, &names))
    }

    #[test]
    fn only_alternative_names_are_taken_from_the_requested_extensions() {
        let basic_constraints = ObjectIdentifier::new_unwrap("2.5.29.19");
        let is_authority = sequence(&[&element(Tag::Boolean, &[0xff])]);
        let mapped = [&[0; 10][..], &[0xff, 0xff, 10, 0, 0, 1]].concat();
        let v6 = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let all = names(&[
            (2, b"a.example"),
            (7, &[10, 0, 0, 7]),
            (1, b"a@b"),
            (8, b"registered"),
            (6, b"spiffe://td/x"),
            (7, &v6),
            (7, &mapped),
            (2, b"b"),
        ]);
        let other = sequence(&[&oid(COMMON_NAME), &element(Tag::Set, NULL)]);
        let malformed = element(Tag::Sequence, &[0x30]);
        let attributes = [
            other,
            malformed,
            NULL.to_vec(),
            extensions(&[(basic_constraints, is_authority), all]),
            extensions(&[]),
        ];
        let expected = AlternativeNames {
            dns: vec!["a.example".to_owned(), "b".to_owned()],
            emails: vec!["a@b".to_owned()],
            ips: ["10.0.0.7", "fd00::1", "10.0.0.1"]
                .map(|ip| ip.parse().unwrap())
                .to_vec(),
            uris: vec!["spiffe://td/x".to_owned()],
        };
        assert_eq!(with_attributes(&attributes), Ok(expected));
        assert_eq!(with_attributes(&[]), Ok(AlternativeNames::default()));
    }

    /// Any user may send a request, and one thread reads it.
    #[test]
    fn a_request_may_have_a_hundred_thousand_extensions() {
        let kind = |n: u32| {
            let arc = [
                0x80 | (n >> 14) as u8,
                0x80 | (n >> 7) as u8,
                n as u8 & 0x7f,
            ];
            let oid = element(Tag::ObjectIdentifier, &[&[0x2a, 0x81], &arc[..]].concat());
            sequence(&[&oid, &element(Tag::OctetString, &[])])
        };
        let all: Vec<u8> = (0..100_000).flat_map(kind).collect();
        let extensions = sequence(&[
            &oid(EXTENSION_REQUEST),
            &element(Tag::Set, &element(Tag::Sequence, &all)),
        ]);
        assert_eq!(
            with_attributes(&[extensions]),
            Ok(AlternativeNames::default())
        );
    }

    #[test]
    fn malformed_and_repeated_extensions_are_refused() {
        let dns = || names(&[(2, b"a")]);
        // (attributes, error)
        let cases = [
            (
                vec![extensions(&[dns(), dns()])],
                "x509: certificate request contains duplicate requested extensions",
            ),
            (
                vec![extensions(&[dns()]), extensions(&[dns()])],
                "x509: certificate request contains duplicate requested extensions",
            ),
            (
                vec![extensions(&[names(&[(2, "é".as_bytes())])])],
                "x509: SAN dNSName is malformed",
            ),
            (
                vec![extensions(&[names(&[(1, b"\xff")])])],
                "x509: SAN rfc822Name is malformed",
            ),
            (
                vec![extensions(&[names(&[(6, b"\x80")])])],
                "x509: SAN uniformResourceIdentifier is malformed",
            ),
            (
                vec![extensions(&[names(&[(7, &[10, 0, 0])])])],
                "x509: cannot parse IP address of length 3",
            ),
        ];
        for (attributes, expected) in cases {
            assert_eq!(
                with_attributes(&attributes).unwrap_err().to_string(),
                expected
            );
        }
        let no_names = extensions(&[(SUBJECT_ALT_NAME, NULL.to_vec())]);
        let found = with_attributes(&[no_names]).unwrap_err();
        assert!(matches!(found, RequestError::Malformed(_)), "{found}");
        let no_extensions = sequence(&[&oid(EXTENSION_REQUEST), &element(Tag::Set, NULL)]);
        assert!(with_attributes(&[no_extensions]).is_err());
    }

    #[test]
    fn truncated_and_corrupted_requests_never_cause_a_panic() {
        let block = pem::parse_many(REQUESTS).unwrap().swap_remove(8);
        let whole = block.contents();
        for at in 0..whole.len() {
            assert!(CertificateRequest::from_der(&whole[..at]).is_err(), "{at}");
            for byte in 0..=255 {
                let mut wrong = whole.to_vec();
                wrong[at] = byte;
                if let Ok(request) = CertificateRequest::from_der(&wrong)
                    && byte % 32 == 1
                {
                    let is_same = wrong == whole;
                    assert_eq!(request.check_signature().is_ok(), is_same, "{at} {byte}");
                }
            }
        }
    }
}
