//! Distinguished names: the subjects of certificates and of requests.

use super::fields::{Fields, Kind};
use super::strings::{bmp, is_numeric, is_printable, is_printable_in_go};
use super::x509;
use crate::asn1::{Elements, ObjectIdentifier, Tag, element, oid, sequence};

/// `CN`.
pub const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// `O`.
pub const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// The attributes that [`Name::standard_der`] keeps, in its order: `C`, `ST`, `L`, `STREET`,
/// `postalCode`, `O`, `OU`, `CN`, `serialNumber`.
const STANDARD: [ObjectIdentifier; 9] = [
    ObjectIdentifier::new_unwrap("2.5.4.6"),
    ObjectIdentifier::new_unwrap("2.5.4.8"),
    ObjectIdentifier::new_unwrap("2.5.4.7"),
    ObjectIdentifier::new_unwrap("2.5.4.9"),
    ObjectIdentifier::new_unwrap("2.5.4.17"),
    ORGANIZATION,
    ObjectIdentifier::new_unwrap("2.5.4.11"),
    COMMON_NAME,
    SERIAL_NUMBER,
];
const SERIAL_NUMBER: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.5");

/// The attributes of a name, in order. The sets of attributes are flattened, as in Go's
/// `pkix.Name`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Name {
    /// Content of the object identifier, and the value.
    attributes: Vec<(Vec<u8>, String)>,
}

impl Name {
    /// The values of all attributes of this type, in order.
    pub fn values(&self, attribute: ObjectIdentifier) -> impl Iterator<Item = &str> {
        self.attributes
            .iter()
            .filter(move |(found, _)| found == attribute.as_bytes())
            .map(|(_, value)| &**value)
    }

    /// The last common name; empty without one. It is the user name in client certificates.
    pub fn common_name(&self) -> &str {
        self.values(COMMON_NAME).last().unwrap_or_default()
    }

    /// The organizations. They are the groups in client certificates.
    pub fn organizations(&self) -> impl Iterator<Item = &str> {
        self.values(ORGANIZATION)
    }

    /// The name in DER with only nine standard attributes, each with all its values in one set. Of
    /// common names and serial numbers, the last one counts. Upstream: `Name.ToRDNSequence` of
    /// crypto/x509/pkix.
    pub(super) fn standard_der(&self) -> Vec<u8> {
        let sets = STANDARD.iter().filter_map(|kind| {
            let mut values: Vec<&str> = self.values(*kind).collect();
            if [COMMON_NAME, SERIAL_NUMBER].contains(kind) {
                values = values
                    .pop()
                    .filter(|last| !last.is_empty())
                    .into_iter()
                    .collect();
            }
            let mut attributes: Vec<Vec<u8>> = values
                .iter()
                .map(|value| sequence(&[&oid(*kind), &string(value)]))
                .collect();
            attributes.sort_unstable();
            (!attributes.is_empty()).then(|| element(Tag::Set, &attributes.concat()))
        });
        element(Tag::Sequence, &sets.collect::<Vec<_>>().concat())
    }

    /// Parses the subject of a request. Values that are no strings do not count. Upstream:
    /// `asn1.Unmarshal` into `pkix.RDNSequence`, whose errors these are.
    pub(super) fn of_request(der: &[u8]) -> Result<Self, String> {
        let mut attributes = Vec::new();
        let names = Fields::of(der).content(Kind::sequence("RDNSequence"))?;
        for set in Fields::of(names).elements(Kind::SET)? {
            for mut attribute in set.elements(Kind::sequence(""))? {
                let kind = attribute.oid()?.to_vec();
                attributes.extend(attribute.text()?.map(|value| (kind, value)));
            }
        }
        Ok(Self { attributes })
    }

    /// Parses the subject of a certificate. Upstream: `parseName` of crypto/x509, whose errors these
    /// are.
    pub(super) fn parse(der: &[u8]) -> Result<Self, String> {
        let malformed = |_| x509("invalid RDNSequence");
        let invalid = |part| move |_| x509(format_args!("invalid RDNSequence: invalid {part}"));
        let mut attributes = Vec::new();
        let mut names = Elements::of(der).and_then(|mut name| name.sequence());
        let names = names.as_mut().map_err(|error| malformed(*error))?;
        while !names.is_empty() {
            let set = names.content(Tag::Set).and_then(Elements::of);
            let mut set = set.map_err(malformed)?;
            while !set.is_empty() {
                let mut attribute = set.sequence().map_err(invalid("attribute"))?;
                let kind = attribute.oid().map_err(invalid("attribute type"))?;
                let (tag, value) = attribute.any().map_err(invalid("attribute value"))?;
                let value = text(tag, value).map_err(|reason| {
                    x509(format_args!(
                        "invalid RDNSequence: invalid attribute value: {reason}"
                    ))
                })?;
                attributes.push((kind.to_vec(), value));
            }
        }
        Ok(Self { attributes })
    }
}

/// The text of an attribute. Upstream: `parseASN1String` of crypto/x509.
fn text(tag: Tag, value: &[u8]) -> Result<String, String> {
    let of_these = |is_allowed: fn(u8) -> bool, kind: &str| {
        let are_allowed = value.iter().all(|byte| is_allowed(*byte));
        let text = String::from_utf8(value.to_vec()).ok();
        let text = text.filter(|_| are_allowed);
        text.ok_or_else(|| format!("invalid {kind}"))
    };
    match tag {
        Tag::TeletexString => Ok(value.iter().map(|byte| char::from(*byte)).collect()),
        Tag::BmpString => bmp(value).ok_or_else(|| "invalid BMPString".to_owned()),
        Tag::PrintableString => of_these(is_printable_in_go, "PrintableString"),
        Tag::Ia5String => of_these(|byte| byte.is_ascii(), "IA5String"),
        Tag::NumericString => of_these(is_numeric, "NumericString"),
        Tag::Utf8String => of_these(|_| true, "UTF-8 string"),
        other => Err(format!(
            "unsupported string type: {}",
            element(other, &[])[0]
        )),
    }
}

/// A PrintableString if the characters allow it, else a UTF8String.
fn string(value: &str) -> Vec<u8> {
    let tag = if value.bytes().all(is_printable) {
        Tag::PrintableString
    } else {
        Tag::Utf8String
    };
    element(tag, value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asn1::{element, oid, sequence};

    #[test]
    fn values_are_decoded_by_their_string_type() {
        // (type of the string, bytes, text)
        let cases: &[(Tag, &[u8], Option<&str>)] = &[
            (Tag::Utf8String, "é".as_bytes(), Some("é")),
            (Tag::Utf8String, b"\xff", None),
            (Tag::PrintableString, b"a", Some("a")),
            (Tag::PrintableString, b"*.a & b", Some("*.a & b")),
            (
                Tag::PrintableString,
                b"system:node:n1",
                Some("system:node:n1"),
            ),
            (Tag::PrintableString, b"a_b", None),
            (Tag::PrintableString, b"a\0", None),
            (Tag::PrintableString, "é".as_bytes(), None),
            (Tag::Ia5String, b"a@b", Some("a@b")),
            (Tag::Ia5String, "é".as_bytes(), None),
            (Tag::NumericString, b"1 2", Some("1 2")),
            (Tag::NumericString, b"1a", None),
            (Tag::VisibleString, b"a", None),
            (Tag::TeletexString, b"\xe9", Some("é")),
            (Tag::BmpString, b"\0a\0b", Some("ab")),
            (Tag::BmpString, b"\0a\0b\0\0", Some("ab")),
            (Tag::BmpString, b"\0a\0\0\0b", Some("a\0b")),
            (Tag::BmpString, b"\0a\0", None),
            (Tag::BmpString, b"\xd8\0", None),
            (Tag::BmpString, b"\xfd\xd0", None),
            (Tag::BmpString, b"\xff\xfe", None),
            (Tag::OctetString, b"a", None),
        ];
        for (tag, bytes, expected) in cases {
            let attribute = sequence(&[&oid(COMMON_NAME), &element(*tag, bytes)]);
            let name = sequence(&[&element(Tag::Set, &attribute)]);
            let read = Name::parse(&name);
            let common_name = read.ok().map(|name| name.common_name().to_owned());
            assert_eq!(common_name.as_deref(), *expected, "{tag} {bytes:?}");
        }
    }

    #[test]
    fn values_without_text_do_not_count_in_the_subject_of_a_request() {
        // (type of the value, bytes, common name or error)
        let cases: &[(Tag, &[u8], Result<&str, &str>)] = &[
            (Tag::Utf8String, "é".as_bytes(), Ok("é")),
            (Tag::Utf8String, b"\xff", Err("asn1: invalid UTF-8 string")),
            (Tag::PrintableString, b"*.a & b", Ok("*.a & b")),
            (
                Tag::PrintableString,
                b"a_b",
                Err("asn1: syntax error: PrintableString contains invalid character"),
            ),
            (Tag::TeletexString, b"\xe9", Ok("é")),
            (Tag::BmpString, b"\0a\0b", Ok("ab")),
            (Tag::BmpString, b"\xd8\0", Err("invalid BMPString")),
            (Tag::VisibleString, b"a", Ok("")),
            (Tag::OctetString, b"a", Ok("")),
            (Tag::Integer, &[7], Ok("")),
            (
                Tag::Integer,
                &[],
                Err("asn1: structure error: empty integer"),
            ),
            (
                Tag::Boolean,
                &[1],
                Err("asn1: syntax error: invalid boolean"),
            ),
            (Tag::Sequence, b"", Ok("")),
        ];
        for (tag, bytes, expected) in cases {
            let attribute = sequence(&[&oid(COMMON_NAME), &element(*tag, bytes)]);
            let name = sequence(&[&element(Tag::Set, &attribute)]);
            let read = Name::of_request(&name);
            let found = read.as_ref().map(Name::common_name);
            assert_eq!(
                found.map_err(|error| &**error),
                *expected,
                "{tag} {bytes:?}"
            );
        }
    }

    #[test]
    fn the_last_common_name_counts_and_sets_are_flattened() {
        let attribute = |kind, value: &str| {
            sequence(&[&oid(kind), &element(Tag::Utf8String, value.as_bytes())])
        };
        let set = |attributes: &[Vec<u8>]| element(Tag::Set, &attributes.concat());
        let name = [
            set(&[attribute(ORGANIZATION, "a"), attribute(ORGANIZATION, "b")]),
            set(&[attribute(COMMON_NAME, "first")]),
            set(&[attribute(ORGANIZATION, "c")]),
            set(&[attribute(COMMON_NAME, "last")]),
            set(&[]),
        ];
        let name = Name::parse(&element(Tag::Sequence, &name.concat())).unwrap();
        assert_eq!(name.common_name(), "last");
        assert_eq!(name.organizations().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(Name::default().common_name(), "");
    }
}
