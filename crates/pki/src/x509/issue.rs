//! New certificates for end entities.
//!
//! [`Template`], certificate and key of the issuer -> [`issue`] -> DER
//!
//! The bytes equal those of Go's `x509.CreateCertificate`, except for the serial number and the
//! random part of signatures. A new certificate is never that of an authority.

use std::net::IpAddr;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::request::SUBJECT_ALT_NAME;
use super::{AlternativeNames, Certificate, CertificateRequest};
use crate::asn1::{ObjectIdentifier, Tag, bit_string, context, element, oid, sequence, unsigned};
use crate::keys::{EcdsaForm, PrivateKey, SigningError};

const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const AUTHORITY_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.35");

/// A random serial number below 2^128.
///
/// # Errors
/// If the system has no random numbers.
pub fn serial_number() -> Result<[u8; 16], SigningError> {
    let mut serial = [0; 16];
    SystemRandom::new()
        .fill(&mut serial)
        .map_err(|_| SigningError)?;
    Ok(serial)
}

/// The permitted usages of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyUsages {
    /// The bits of the extension "key usage": bit 0 is `digitalSignature`, bit 8 `decipherOnly`.
    pub bits: u16,
    /// The values of the extension "extended key usage", in order.
    pub extended: Vec<ObjectIdentifier>,
}

/// The content of a new certificate.
#[derive(Debug)]
pub struct Template<'a> {
    /// Subject, public key and alternative names come from here.
    pub request: &'a CertificateRequest,
    /// Serial number, big-endian.
    pub serial: [u8; 16],
    /// Start of the validity period, Unix seconds.
    pub not_before: i64,
    /// End of the validity period, Unix seconds.
    pub not_after: i64,
    /// Usages.
    pub usages: KeyUsages,
}

/// A certificate with the content of `template`, in DER. `key` signs it, and `issuer` is the
/// certificate of that key.
///
/// # Errors
/// If the key cannot sign.
pub fn issue(
    template: &Template<'_>,
    issuer: &Certificate,
    key: &PrivateKey,
) -> Result<Vec<u8>, SigningError> {
    let algorithm = key.signature_algorithm();
    let subject = template.request.subject.standard_der();
    let content = sequence(&[
        &element(context(0, true), &unsigned(&[2])),
        &unsigned(&template.serial),
        &algorithm,
        &issuer.subject_der,
        &sequence(&[&time(template.not_before), &time(template.not_after)]),
        &subject,
        &template.request.public_key,
        &element(context(3, true), &extensions(template, &subject, issuer)),
    ]);
    let signature = key.sign(&content, EcdsaForm::Asn1)?;
    Ok(sequence(&[&content, &algorithm, &bit_string(&signature)]))
}

fn extensions(template: &Template<'_>, subject: &[u8], issuer: &Certificate) -> Vec<u8> {
    let mut extensions = Vec::new();
    let mut add = |kind, is_critical: bool, value: &[u8]| {
        let critical = if is_critical {
            element(Tag::Boolean, &[0xff])
        } else {
            Vec::new()
        };
        let value = element(Tag::OctetString, value);
        extensions.extend(sequence(&[&oid(kind), &critical, &value]));
    };
    let KeyUsages { bits, extended } = &template.usages;
    if *bits != 0 {
        add(KEY_USAGE, true, &bit_flags(*bits));
    }
    if !extended.is_empty() {
        let usages: Vec<u8> = extended.iter().flat_map(|usage| oid(*usage)).collect();
        add(EXTENDED_KEY_USAGE, false, &element(Tag::Sequence, &usages));
    }
    add(BASIC_CONSTRAINTS, true, &sequence(&[]));
    if let Some(id) = &issuer.subject_key_id
        && issuer.subject_der != subject
    {
        let id = element(context(0, false), id);
        add(AUTHORITY_KEY_ID, false, &sequence(&[&id]));
    }
    let names = general_names(&template.request.alternative_names);
    if !names.is_empty() {
        let has_no_subject = subject == sequence(&[]);
        add(
            SUBJECT_ALT_NAME,
            has_no_subject,
            &element(Tag::Sequence, &names),
        );
    }
    element(Tag::Sequence, &extensions)
}

/// A bit string without trailing zeros. Bit 0 of `bits` is the first one.
fn bit_flags(bits: u16) -> Vec<u8> {
    let octets = bits.reverse_bits().to_be_bytes();
    let used = if octets[1] == 0 {
        &octets[..1]
    } else {
        &octets[..]
    };
    let unused = (used.len() * 8) as u32 - (16 - bits.leading_zeros());
    element(Tag::BitString, &[&[unused as u8], used].concat())
}

fn general_names(names: &AlternativeNames) -> Vec<u8> {
    let texts = |number, texts: &[String]| -> Vec<u8> {
        let name = |text: &String| element(context(number, false), text.as_bytes());
        texts.iter().flat_map(name).collect()
    };
    let ips = names.ips.iter().flat_map(|ip| match ip {
        IpAddr::V4(ip) => element(context(7, false), &ip.octets()),
        IpAddr::V6(ip) => element(context(7, false), &ip.octets()),
    });
    [
        texts(2, &names.dns),
        texts(1, &names.emails),
        ips.collect(),
        texts(6, &names.uris),
    ]
    .concat()
}

/// The time in the form that RFC 5280, 4.1.2.5 demands for its year.
fn time(seconds: i64) -> Vec<u8> {
    const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let time = EPOCH.saturating_add(SignedDuration::from_secs(seconds));
    let (tag, year) = match time.year() {
        1950..2050 => (Tag::UtcTime, format!("{:02}", time.year() % 100)),
        year => (Tag::GeneralizedTime, format!("{year:04}")),
    };
    let rest = time.strftime("%m%d%H%M%SZ");
    element(tag, format!("{year}{rest}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_usages_are_bits_without_trailing_zeros() {
        // (bits, DER)
        let cases: [(u16, &[u8]); 5] = [
            (0b1, &[3, 2, 7, 0x80]),
            (0b101, &[3, 2, 5, 0xa0]),
            (0b10_0000, &[3, 2, 2, 0x04]),
            (0b1000_0000, &[3, 2, 0, 0x01]),
            (0b1_0000_0001, &[3, 3, 7, 0x80, 0x80]),
        ];
        for (bits, expected) in cases {
            assert_eq!(bit_flags(bits), expected, "{bits:b}");
        }
    }

    #[test]
    fn times_have_the_type_of_their_year() {
        let cases = [
            (0, Tag::UtcTime, "700101000000Z"),
            (2_524_607_999, Tag::UtcTime, "491231235959Z"),
            (2_524_608_000, Tag::GeneralizedTime, "20500101000000Z"),
            (253_402_300_799, Tag::GeneralizedTime, "99991231235959Z"),
            (-631_152_001, Tag::GeneralizedTime, "19491231235959Z"),
        ];
        for (seconds, tag, text) in cases {
            assert_eq!(time(seconds), element(tag, text.as_bytes()), "{text}");
        }
    }
}
