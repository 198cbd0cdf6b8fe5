//! Reads the subject and the validity period of a certificate.
//!
//! The bytes come from clients, also before any authority has verified them. So the parser returns
//! a certificate or an error for all inputs, and never panics. It checks no signature: rustls does
//! that. Go programs use crypto/x509 for this.

use jiff::civil::DateTime;
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, Tag};

/// The fields of a certificate that Steersman uses. They are only claims until a trusted authority
/// has verified the certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificate {
    /// The attributes of the subject's name, in order: object identifier and text.
    pub subject: Vec<(Vec<u64>, String)>,
    /// Start of the validity period, Unix seconds.
    pub not_before: i64,
    /// End of the validity period, Unix seconds. It is in the year 9999 for certificates that do
    /// not expire.
    pub not_after: i64,
}

impl Certificate {
    /// Parses DER.
    ///
    /// # Errors
    /// If the bytes are not a certificate. The caller adds the file or connection they came from.
    pub fn read(der: &[u8]) -> Result<Self, String> {
        yasna::parse_der(der, certificate).map_err(|error| format!("not a certificate: {error}"))
    }
}

fn certificate(reader: BERReader<'_, '_>) -> ASN1Result<Certificate> {
    let mut found = Certificate::default();
    reader.read_sequence(|certificate| {
        certificate.next().read_sequence(|part| {
            // Version, serial number, signature algorithm, issuer.
            part.read_optional(|version| {
                version.read_tagged(Tag::context(0), |version| version.read_der())
            })?;
            for _ in 0..3 {
                part.next().read_der()?;
            }
            (found.not_before, found.not_after) = part
                .next()
                .read_sequence(|validity| Ok((time(validity.next())?, time(validity.next())?)))?;
            part.next().read_sequence_of(|names| {
                names.read_set_of(|name| {
                    found.subject.push(attribute(name)?);
                    Ok(())
                })
            })?;
            // The verifier reads the key and the extensions.
            while part.read_optional(|rest| rest.read_der())?.is_some() {}
            Ok(())
        })?;
        certificate.next().read_der()?;
        certificate.next().read_der()?;
        Ok(found)
    })
}

fn attribute(name: BERReader<'_, '_>) -> ASN1Result<(Vec<u64>, String)> {
    name.read_sequence(|name| {
        let kind = name.next().read_oid()?;
        let value = name.next().read_tagged_der()?;
        // Every string type in use is ASCII or UTF-8. The two others, BMPString and
        // UniversalString, are obsolete.
        Ok((
            kind.components().clone(),
            String::from_utf8_lossy(value.value()).into_owned(),
        ))
    })
}

fn time(reader: BERReader<'_, '_>) -> ASN1Result<i64> {
    let value = reader.read_tagged_der()?;
    let seconds = match value.tag() {
        yasna::tags::TAG_UTCTIME => seconds(value.value(), 2),
        yasna::tags::TAG_GENERALIZEDTIME => seconds(value.value(), 4),
        _ => None,
    };
    seconds.ok_or_else(|| ASN1Error::new(ASN1ErrorKind::Invalid))
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
    use yasna::tags::{TAG_GENERALIZEDTIME, TAG_UTCTIME, TAG_UTF8STRING};
    use yasna::{DERWriter, construct_der};

    use super::*;

    /// A certificate of `jane`. Its validity period ends at `text`, with the ASN.1 type `tag`.
    /// Fields that the parser skips are empty.
    fn ends_at(tag: Tag, text: &str) -> Vec<u8> {
        let time = |writer: DERWriter<'_>, tag, text: &str| {
            writer.write_tagged_implicit(tag, |writer| writer.write_bytes(text.as_bytes()));
        };
        construct_der(|writer| {
            writer.write_sequence(|certificate| {
                certificate.next().write_sequence(|part| {
                    part.next()
                        .write_tagged(Tag::context(0), |version| version.write_u8(2));
                    (0..3).for_each(|_| part.next().write_null());
                    part.next().write_sequence(|validity| {
                        time(validity.next(), TAG_UTCTIME, "700101000001Z");
                        time(validity.next(), tag, text);
                    });
                    part.next().write_sequence_of(|names| {
                        names.next().write_set_of(|names| {
                            names.next().write_sequence(|name| {
                                name.next().write_oid(
                                    &yasna::models::ObjectIdentifier::from_slice(&[2, 5, 4, 3]),
                                );
                                name.next().write_tagged_implicit(TAG_UTF8STRING, |value| {
                                    value.write_bytes(b"jane")
                                });
                            });
                        });
                    });
                    part.next().write_null();
                });
                (0..2).for_each(|_| certificate.next().write_null());
            });
        })
    }

    #[test]
    fn only_the_time_formats_of_rfc_5280_are_accepted() {
        let (utc, generalized) = (TAG_UTCTIME, TAG_GENERALIZEDTIME);
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
            (TAG_UTF8STRING, "260101000000Z", None),
        ];
        for (tag, text, expected) in cases {
            let read = Certificate::read(&ends_at(tag, text)).ok();
            let subject = vec![(vec![2, 5, 4, 3], "jane".to_owned())];
            let expected = expected.map(|not_after| Certificate {
                subject,
                not_before: 1,
                not_after,
            });
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn truncated_and_corrupted_certificates_never_cause_a_panic() {
        let whole = ends_at(TAG_GENERALIZEDTIME, "99991231235959Z");
        for end in 0..whole.len() {
            assert!(Certificate::read(&whole[..end]).is_err(), "{end}");
        }
        for bit in 0..whole.len() * 8 {
            let mut wrong = whole.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let _ = Certificate::read(&wrong);
        }
    }

    #[test]
    fn a_generated_certificate_is_read() {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, "people");
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "jané");
        params.not_before = rcgen::date_time_ymd(2026, 1, 2);
        params.not_after = rcgen::date_time_ymd(2126, 1, 2);
        let made = params
            .self_signed(&rcgen::KeyPair::generate().unwrap())
            .unwrap();
        let subject = vec![
            (vec![2, 5, 4, 10], "people".to_owned()),
            (vec![2, 5, 4, 3], "jané".to_owned()),
        ];
        let expected = Certificate {
            subject,
            not_before: 1_767_312_000,
            not_after: 4_922_985_600,
        };
        assert_eq!(Certificate::read(made.der()), Ok(expected));
    }
}
