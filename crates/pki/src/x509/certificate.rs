//! Reads the subject, the validity period and the key of a certificate.
//!
//! The parser checks no signature: rustls does that. Upstream: `ParseCertificate` of crypto/x509, whose
//! errors these are. Of the extensions, only the identifier of the key is read.

use std::collections::HashSet;

use jiff::civil::DateTime;

use super::{Name, x509};
use crate::asn1::{Elements, ObjectIdentifier, Tag, context};
use crate::keys;

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
    pub fn read(der: &[u8]) -> Result<Self, String> {
        certificate(der).map_err(x509)
    }
}

/// Errors lack the prefix `x509: `.
type Result<T, E = String> = std::result::Result<T, E>;

/// Names the part that cannot be read.
trait Part<T> {
    fn part(self, error: &str) -> Result<T>;
}

impl<T> Part<T> for der::Result<T> {
    fn part(self, error: &str) -> Result<T> {
        self.map_err(|_| error.to_owned())
    }
}

fn certificate(der: &[u8]) -> Result<Certificate> {
    let mut outer = Elements::of(der).part("malformed certificate")?;
    let mut certificate = outer.sequence().part("malformed certificate")?;
    let mut part = certificate.sequence().part("malformed tbs certificate")?;
    let version = version(&mut part)?;
    let serial = part.integer().part("malformed serial number")?;
    if serial[0] >= 0x80 {
        return Err("negative serial number".to_owned());
    }
    let inner = part.content(Tag::Sequence);
    let inner = inner.part("malformed signature algorithm identifier")?;
    let algorithm = certificate.content(Tag::Sequence);
    if algorithm.part("malformed algorithm identifier")? != inner {
        return Err("inner and outer signature algorithm identifiers don't match".to_owned());
    }
    check_algorithm(inner)?;
    name(&mut part)?;
    let mut validity = part.sequence().part("malformed validity")?;
    let not_before = time(&mut validity)?;
    let not_after = time(&mut validity)?;
    let (subject_der, subject) = name(&mut part)?;
    let public_key = public_key(&mut part)?;
    let mut subject_key_id = None;
    if version > 0 {
        // Two identifiers that RFC 5280 forbids.
        for (number, error) in [
            (1, "malformed issuerUniqueID"),
            (2, "malformed subjectUniqueID"),
        ] {
            part.optional(context(number, false)).part(error)?;
        }
    }
    if version == 2 {
        let extensions = part
            .optional(context(3, true))
            .part("malformed extensions")?;
        let extensions = extensions.map(|extensions| Elements::of(extensions)?.sequence());
        if let Some(extensions) = extensions.transpose().part("malformed extensions")? {
            subject_key_id = key_id(extensions)?;
        }
    }
    let signature = certificate.bit_string();
    signature.part("malformed signature")?;
    outer.end().part("trailing data")?;
    Ok(Certificate {
        subject,
        not_before,
        not_after,
        subject_der: subject_der.to_vec(),
        public_key: public_key.to_vec(),
        subject_key_id,
    })
}

/// The version, from 0 to 2.
fn version(part: &mut Elements<'_>) -> Result<u8> {
    let malformed = "malformed version";
    let Some(version) = part.optional(context(0, true)).part(malformed)? else {
        return Ok(0);
    };
    let version = Elements::of(version).and_then(|mut version| {
        let number = version.integer()?;
        version.end().map(|()| number)
    });
    match version.part(malformed)? {
        [version @ 0..=2] => Ok(*version),
        [0x80..=0xff, ..] => Err(malformed.to_owned()),
        _ => Err("invalid version".to_owned()),
    }
}

/// A name in DER, and its content. Go names the subject as the issuer too.
fn name<'a>(part: &mut Elements<'a>) -> Result<(&'a [u8], Name)> {
    let is_name = part.clone().content(Tag::Sequence);
    is_name.part("malformed issuer")?;
    let der = part.whole().part("malformed issuer")?;
    let parsed = Name::parse(der);
    let without_prefix = |error: String| error.trim_start_matches("x509: ").to_owned();
    parsed.map(|name| (der, name)).map_err(without_prefix)
}

/// The public key in DER.
fn public_key<'a>(part: &mut Elements<'a>) -> Result<&'a [u8]> {
    let mut key = part.clone().sequence().part("malformed spki")?;
    let whole = part.whole().part("malformed spki")?;
    let algorithm = key.content(Tag::Sequence);
    check_algorithm(algorithm.part("malformed public key algorithm identifier")?)?;
    key.bit_string().part("malformed subjectPublicKey")?;
    keys::check_public_key(whole)?;
    Ok(whole)
}

fn check_algorithm(content: &[u8]) -> Result<()> {
    let mut algorithm = Elements::of(content).part("malformed OID")?;
    algorithm.oid().part("malformed OID")?;
    if !algorithm.is_empty() {
        algorithm.whole().part("malformed parameters")?;
    }
    Ok(())
}

/// The identifier of the key in these extensions.
fn key_id(mut extensions: Elements<'_>) -> Result<Option<Vec<u8>>> {
    let mut seen = HashSet::new();
    let mut found = None;
    while !extensions.is_empty() {
        let mut extension = extensions.sequence().part("malformed extension")?;
        let kind = extension.oid().part("malformed extension OID field")?;
        let critical = extension.optional(Tag::Boolean);
        let critical = match critical.part("malformed extension critical field")? {
            None | Some([0]) => false,
            Some([0xff]) => true,
            Some(_) => return Err("malformed extension critical field".to_owned()),
        };
        let value = extension.content(Tag::OctetString);
        let value = value.part("malformed extension value field")?;
        if !seen.insert(kind) {
            let kind = ObjectIdentifier::from_bytes(kind).map(|kind| kind.to_string());
            let kind = kind.unwrap_or_default();
            return Err(format!(
                "certificate contains duplicate extension with OID {kind:?}"
            ));
        }
        if kind == SUBJECT_KEY_ID.as_bytes() {
            found = Some((critical, value));
        }
    }
    match found {
        None => Ok(None),
        Some((true, _)) => Err("subject key identifier incorrectly marked critical".to_owned()),
        Some((false, value)) => {
            let id = Elements::of(value).and_then(|mut value| value.content(Tag::OctetString));
            id.part("invalid subject key identifier")
                .map(|id| Some(id.to_vec()))
        }
    }
}

fn time(elements: &mut Elements<'_>) -> Result<i64> {
    let (tag, year_digits, error) = match elements.tag() {
        Some(tag @ Tag::UtcTime) => (tag, 2, "malformed UTCTime"),
        Some(tag @ Tag::GeneralizedTime) => (tag, 4, "malformed GeneralizedTime"),
        _ => return Err("unsupported time format".to_owned()),
    };
    let text = elements.content(tag).part(error)?;
    seconds(text, year_digits).ok_or_else(|| error.to_owned())
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
    use crate::asn1::{bit_string, element, oid, sequence, unsigned};
    use crate::x509::COMMON_NAME;

    /// A certificate of `jane`. Its validity period ends at `text`, with the ASN.1 type `tag`.
    fn ends_at(tag: Tag, text: &str) -> Vec<u8> {
        let time = |tag, text: &str| element(tag, text.as_bytes());
        let common_name = sequence(&[&oid(COMMON_NAME), &element(Tag::Utf8String, b"jane")]);
        let algorithm = sequence(&[&oid(ObjectIdentifier::new_unwrap("1.3.101.112"))]);
        let part = sequence(&[
            &element(context(0, true), &[2, 1, 2]),
            &unsigned(&[1]),
            &algorithm,
            &sequence(&[]),
            &sequence(&[&time(Tag::UtcTime, "700101000001Z"), &time(tag, text)]),
            &sequence(&[&element(Tag::Set, &common_name)]),
            &sequence(&[&algorithm, &bit_string(&[7; 32])]),
        ]);
        sequence(&[&part, &algorithm, &bit_string(&[0; 64])])
    }

    #[test]
    fn only_the_time_formats_of_rfc_5280_are_accepted() {
        let utc = Tag::UtcTime;
        let generalized = Tag::GeneralizedTime;
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
