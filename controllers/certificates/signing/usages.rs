//! The usages of the API in terms of X.509.
//!
//! Upstream: `keyUsagesFromStrings` in `policies.go`.

use steersman_pki::x509::{KeyUsages, ObjectIdentifier};

/// Usages that are bits of the extension "key usage". Each number is the position of a bit in RFC
/// 5280, section 4.2.1.3. Upstream: `keyUsageDict`.
const BITS: [(&str, u16); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// Usages that are values of the extension "extended key usage", in the order of their values in
/// Go. Upstream: `extKeyUsageDict`. It sorts the values, so equal requests get equal extensions.
const EXTENDED: [(&str, ObjectIdentifier); 13] = [
    ("any", ObjectIdentifier::new_unwrap("2.5.29.37.0")),
    (
        "server auth",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1"),
    ),
    (
        "client auth",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2"),
    ),
    (
        "code signing",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3"),
    ),
    ("email protection", EMAIL_PROTECTION),
    ("s/mime", EMAIL_PROTECTION),
    (
        "ipsec end system",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.5"),
    ),
    (
        "ipsec tunnel",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.6"),
    ),
    (
        "ipsec user",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.7"),
    ),
    (
        "timestamping",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.8"),
    ),
    (
        "ocsp signing",
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.9"),
    ),
    (
        "microsoft sgc",
        ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.10.3.3"),
    ),
    (
        "netscape sgc",
        ObjectIdentifier::new_unwrap("2.16.840.1.113730.4.1"),
    ),
];
/// Two usages of the API share this value, and a certificate has it once.
const EMAIL_PROTECTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.4");

/// Usages that the API does not have. They are in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unrecognized usage values: [{}]", quoted(.0))]
pub(super) struct Unrecognized(Vec<String>);

fn quoted(usages: &[String]) -> String {
    let quoted: Vec<_> = usages.iter().map(|usage| format!("{usage:?}")).collect();
    quoted.join(" ")
}

/// The extensions for these usages.
pub(super) fn key_usages(usages: &[String]) -> Result<KeyUsages, Unrecognized> {
    let bit = |usage: &str| BITS.iter().find(|(name, _)| *name == usage);
    let is_extended = |usage: &str| EXTENDED.iter().any(|(name, _)| *name == usage);
    let unknown: Vec<String> = usages
        .iter()
        .filter(|usage| bit(usage).is_none() && !is_extended(usage))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Err(Unrecognized(unknown));
    }
    let bits = usages.iter().filter_map(|usage| bit(usage));
    let mut extended: Vec<ObjectIdentifier> = EXTENDED
        .iter()
        .filter(|(name, _)| usages.iter().any(|usage| usage == name))
        .map(|(_, oid)| *oid)
        .collect();
    // Equal values are neighbours in the table.
    extended.dedup();
    Ok(KeyUsages {
        bits: bits.fold(0, |bits, (_, bit)| bits | 1 << bit),
        extended,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestKeyUsagesFromStrings`.
    #[test]
    fn key_usages_from_strings() {
        let signing = 1;
        let any = EXTENDED[0].1;
        // (usages, bits and extended usages, or the unknown ones)
        let cases: [(&[&str], Result<(u16, Vec<ObjectIdentifier>), &str>); 8] = [
            (&["signing"], Ok((signing, vec![]))),
            (&["client auth"], Ok((0, vec![EXTENDED[2].1]))),
            (
                &["client auth", "client auth"],
                Ok((0, vec![EXTENDED[2].1])),
            ),
            (
                &["cert sign", "encipher only", "decipher only", "crl sign"],
                Ok((1 << 5 | 1 << 7 | 1 << 8 | 1 << 6, vec![])),
            ),
            (
                &[
                    "ocsp signing",
                    "s/mime",
                    "any",
                    "email protection",
                    "cert sign",
                ],
                Ok((1 << 5, vec![any, EMAIL_PROTECTION, EXTENDED[10].1])),
            ),
            (&["foo", "signing", "bar"], Err(r#"["foo" "bar"]"#)),
            (&["Signing"], Err(r#"["Signing"]"#)),
            (&[], Ok((0, vec![]))),
        ];
        for (usages, expected) in cases {
            let usages: Vec<String> = usages.iter().map(|usage| (*usage).to_owned()).collect();
            let found = key_usages(&usages)
                .map(|usages| (usages.bits, usages.extended))
                .map_err(|error| error.to_string());
            let expected = expected.map_err(|list| format!("unrecognized usage values: {list}"));
            assert_eq!(found, expected, "{usages:?}");
        }
    }
}
