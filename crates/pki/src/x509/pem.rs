//! Certificates in PEM.

use ::pem::{EncodeConfig, LineEnding, Pem};

/// The type of the blocks.
const BLOCK: &str = "CERTIFICATE";

/// The certificates in `pem`, in DER. Blocks of other types are left out. A malformed block makes
/// the whole text unreadable.
pub fn certificates_in_pem(pem: &[u8]) -> Vec<Vec<u8>> {
    let blocks = ::pem::parse_many(pem).unwrap_or_default();
    let certificates = blocks.into_iter().filter(|block| block.tag() == BLOCK);
    certificates.map(Pem::into_contents).collect()
}

/// The number of certificates in `pem` whose blocks have no headers. Upstream's `ParseCertsPEM` skips
/// the others, and `X509KeyPair` of Go does not.
pub fn certificates_without_headers(pem: &[u8]) -> usize {
    let blocks = ::pem::parse_many(pem).unwrap_or_default();
    let is_counted = |block: &&Pem| block.tag() == BLOCK && block.headers().iter().next().is_none();
    blocks.iter().filter(is_counted).count()
}

/// A PEM block with the certificate `der`, as Go writes it.
pub fn certificate_to_pem(der: &[u8]) -> String {
    let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
    ::pem::encode_config(&Pem::new(BLOCK, der), lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_survive_the_way_through_pem() {
        let pem = certificate_to_pem(&[7; 49]);
        let lines: Vec<_> = pem.split('\n').collect();
        let lengths: Vec<_> = lines.iter().map(|line| line.len()).collect();
        assert_eq!(lengths, [27, 64, 4, 25, 0], "{pem}");
        let key = ::pem::encode(&Pem::new("PRIVATE KEY", &b"k"[..]));
        let both = pem.clone() + "text\n" + &key + &certificate_to_pem(b"other");
        assert_eq!(
            certificates_in_pem(both.as_bytes()),
            [vec![7; 49], b"other".to_vec()]
        );
        let broken = pem.clone() + "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n";
        for text in ["", "x", &broken] {
            assert!(certificates_in_pem(text.as_bytes()).is_empty(), "{text}");
        }
    }
}
