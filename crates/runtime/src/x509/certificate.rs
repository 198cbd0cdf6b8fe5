//! Reads the subject, the validity period and the key of a certificate.
//!
//! The parser checks no signature: rustls does that.

use jiff::civil::DateTime;

use super::Name;
use super::request::extension;
use crate::asn1::{Elements, Error, ObjectIdentifier, Result, Tag, context};

/// The extension "subject key identifier".
const SUBJECT_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.14");

/// The fields of a certificate that Steersman uses. They are only claims until a trusted authority
/// has verified the certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificate {
    /// The subject.
    pub subject: Name,
    /// Start of the validity period, Unix seconds.
    pub not_before: i64,
    /// End of the validity period, Unix seconds. It is in the year 9999 for certificates that do
    /// not expire.
    pub not_after: i64,
    /// The subject in DER.
    pub subject_der: Vec<u8>,
    /// The public key: SubjectPublicKeyInfo in DER.
    pub public_key: Vec<u8>,
    /// The identifier of the public key, if the certificate has one.
    pub subject_key_id: Option<Vec<u8>>,
}

impl Certificate {
    /// Parses DER.
    ///
    /// # Errors
    /// If the bytes are not a certificate. The caller adds the file or connection they came from.
    pub fn read(der: &[u8]) -> std::result::Result<Self, String> {
        certificate(der).map_err(|error| format!("not a certificate: {error}"))
    }
}

fn certificate(der: &[u8]) -> Result<Certificate> {
    let mut certificate = Elements::of_sequence(der)?;
    let mut part = certificate.sequence()?;
    let (_algorithm, _signature) = (certificate.any()?, certificate.any()?);
    certificate.end()?;
    let _version = part.optional(context(0, true))?;
    let (_serial, _algorithm, _issuer) = (part.any()?, part.any()?, part.any()?);
    let mut validity = part.sequence()?;
    let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
    validity.end()?;
    let (subject, public_key) = (part.whole()?, part.whole()?);
    let mut subject_key_id = None;
    while !part.is_empty() {
        // Two identifiers that RFC 5280 forbids, and the extensions.
        let (tag, content) = part.any()?;
        if tag == context(3, true) {
            subject_key_id = key_id(Elements::of_sequence(content)?)?;
        }
    }
    Ok(Certificate {
        subject: Name::read(Elements::of_sequence(subject)?)?,
        not_before,
        not_after,
        subject_der: subject.to_vec(),
        public_key: public_key.to_vec(),
        subject_key_id,
    })
}

fn key_id(mut extensions: Elements<'_>) -> Result<Option<Vec<u8>>> {
    let mut found = None;
    while !extensions.is_empty() {
        let (kind, value) = extension(extensions.sequence()?)?;
        if kind == SUBJECT_KEY_ID.as_bytes() {
            found = Some(Elements::of(value)?.content(Tag::OctetString)?.to_vec());
        }
    }
    Ok(found)
}

fn time(elements: &mut Elements<'_>) -> Result<i64> {
    let (tag, text) = elements.any()?;
    let seconds = match tag {
        Tag::UtcTime => seconds(text, 2),
        Tag::GeneralizedTime => seconds(text, 4),
        _ => None,
    };
    seconds.ok_or_else(|| Error::from(tag.value_error()))
}

/// Unix seconds of `260131235959Z`, or of the form with a year of four digits.
///
/// RFC 5280, 4.1.2.5 allows only these forms in a certificate: fractions and offsets are invalid.
fn seconds(text: &[u8], year_digits: usize) -> Option<i64> {
    let (last, digits) = text.split_last()?;
    if *last != b'Z' || digits.len() != year_digits + 10 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| {
        digits
            .iter()
            .fold(0_i16, |number, digit| number * 10 + i16::from(digit - b'0'))
    };
    let (year, rest) = digits.split_at(year_digits);
    let year = match number(year) {
        year if year_digits == 4 => year,
        year @ ..50 => 2000 + year,
        year => 1900 + year,
    };
    let mut rest = rest.chunks(2).map(|pair| i8::try_from(number(pair)).ok());
    let mut next = || rest.next().flatten();
    let time = DateTime::new(year, next()?, next()?, next()?, next()?, next()?, 0).ok()?;
    Some(
        time.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0))
            .as_secs(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asn1::{NULL, element, oid, sequence};
    use crate::x509::COMMON_NAME;

    /// A certificate of `jane`. Its validity period ends at `text`, with the ASN.1 type `tag`.
    /// Fields that the parser skips are empty.
    fn ends_at(tag: Tag, text: &str) -> Vec<u8> {
        let time = |tag, text: &str| element(tag, text.as_bytes());
        let common_name = sequence(&[&oid(COMMON_NAME), &element(Tag::Utf8String, b"jane")]);
        let part = sequence(&[
            &element(context(0, true), &[2, 1, 2]),
            &NULL.repeat(3),
            &sequence(&[&time(Tag::UtcTime, "700101000001Z"), &time(tag, text)]),
            &sequence(&[&element(Tag::Set, &common_name)]),
            NULL,
        ]);
        sequence(&[&part, NULL, NULL])
    }

    #[test]
    fn only_the_time_formats_of_rfc_5280_are_accepted() {
        let (utc, generalized) = (Tag::UtcTime, Tag::GeneralizedTime);
        // (tag, text, Unix seconds)
        let cases = [
            (utc, "700101000000Z", Some(0)),
            (utc, "261121192609Z", Some(1_795_289_169)),
            (utc, "491231235959Z", Some(2_524_607_999)),
            (utc, "500101000000Z", Some(-631_152_000)),
            (generalized, "20500101000000Z", Some(2_524_608_000)),
            (generalized, "99991231235959Z", Some(253_402_300_799)),
            (generalized, "00010101000000Z", Some(-62_135_596_800)),
            // Times that are out of range after the offset is applied.
            (generalized, "99991231235959-2359", None),
            (generalized, "00000101000000+2359", None),
            (generalized, "20260101000000+0100", None),
            (generalized, "20260101000000.5Z", None),
            (generalized, "20260101000000", None),
            (generalized, "202601010000Z", None),
            (generalized, "2026010100000 Z", None),
            (generalized, "-0260101000000Z", None),
            (generalized, "20260229000000Z", None),
            (generalized, "20261301000000Z", None),
            (generalized, "20260101240000Z", None),
            (generalized, "20260101000060Z", None),
            (generalized, "", None),
            (generalized, "Z", None),
            (utc, "2601010000Z", None),
            (utc, "260101000000-2359", None),
            (utc, "20260101000000Z", None),
            (utc, "26010100000éZ", None),
            (Tag::Utf8String, "260101000000Z", None),
        ];
        for (tag, text, expected) in cases {
            let read = Certificate::read(&ends_at(tag, text)).ok();
            if let Some(read) = &read {
                assert_eq!((read.subject.common_name(), read.not_before), ("jane", 1));
            }
            assert_eq!(read.map(|read| read.not_after), expected, "{text}");
        }
    }

    /// An earlier parser read beyond the end of an element with a wrong length, and panicked.
    #[test]
    fn truncated_and_corrupted_certificates_never_cause_a_panic() {
        let generated = generated().der().to_vec();
        for whole in [ends_at(Tag::GeneralizedTime, "99991231235959Z"), generated] {
            for end in 0..whole.len() {
                assert!(Certificate::read(&whole[..end]).is_err(), "{end}");
            }
            for at in 0..whole.len() {
                for byte in 0..=255 {
                    let mut wrong = whole.clone();
                    wrong[at] = byte;
                    let _ = Certificate::read(&wrong);
                    wrong.truncate(at + 1);
                    assert!(at + 1 == whole.len() || Certificate::read(&wrong).is_err());
                }
            }
        }
    }

    fn generated() -> rcgen::Certificate {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let mut add = |kind, value: &str| params.distinguished_name.push(kind, value);
        add(rcgen::DnType::OrganizationName, "people");
        add(rcgen::DnType::CommonName, "jané");
        params.not_before = rcgen::date_time_ymd(2026, 1, 2);
        params.not_after = rcgen::date_time_ymd(2126, 1, 2);
        params
            .self_signed(&rcgen::KeyPair::generate().unwrap())
            .unwrap()
    }

    #[test]
    fn a_generated_certificate_is_read() {
        let read = Certificate::read(generated().der()).unwrap();
        assert_eq!(read.subject.common_name(), "jané");
        assert_eq!(read.subject.organizations().collect::<Vec<_>>(), ["people"]);
        assert_eq!(
            (read.not_before, read.not_after),
            (1_767_312_000, 4_922_985_600)
        );
    }
}
