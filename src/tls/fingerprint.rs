//! SHA-256 of a serving certificate, by which people recognise a server.

use std::fmt;
use std::str::FromStr;

/// SHA-256 of a certificate in DER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of `certificate`.
    pub(crate) fn of(certificate: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }
}

/// Hexadecimal digits, as in the manager's log.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Hexadecimal digits, with colons or without, as `openssl x509 -fingerprint -sha256` prints them.
impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (_, digits) = text.rsplit_once('=').unwrap_or(("", text));
        let digits: String = digits.chars().filter(|c| *c != ':').collect();
        let wrong = || "want SHA-256 as 64 hexadecimal digits".to_owned();
        let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
        if digits.len() != 64 || !is_hex {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let pair = &digits[2 * at..2 * at + 2];
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_in_the_usual_spellings() {
        let of = Fingerprint::of(b"abc");
        let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of.to_string(), digits);
        let pairs: Vec<String> = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| String::from_utf8_lossy(pair).to_uppercase())
            .collect();
        let openssl = format!("sha256 Fingerprint={}", pairs.join(":"));
        for text in [digits, &openssl, &digits.to_uppercase()] {
            assert_eq!(text.parse(), Ok(of), "{text}");
        }
        for text in ["", "ab", &digits[1..], &digits.replace('b', "ü")] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }
}
