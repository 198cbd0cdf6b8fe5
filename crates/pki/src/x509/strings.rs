//! The characters of ASN.1's types of text.

/// The text of a BMPString, without the zero at its end. `None` for surrogates and for code points
/// that are no characters.
pub(super) fn bmp(value: &[u8]) -> Option<String> {
    let value = value.strip_suffix(&[0, 0]).unwrap_or(value);
    let (pairs, []) = value.as_chunks::<2>() else {
        return None;
    };
    let character = |pair: &[u8; 2]| match u16::from_be_bytes(*pair) {
        0xfdd0..=0xfdef | 0xfffe | 0xffff => None,
        code => char::from_u32(code.into()),
    };
    pairs.iter().map(character).collect()
}

/// Whether a PrintableString may contain the character.
pub(super) fn is_printable(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9') || b" '()+,-./:=?".contains(&byte)
}

/// The same for Go, which reads two more characters.
pub(super) fn is_printable_in_go(byte: u8) -> bool {
    is_printable(byte) || b"*&".contains(&byte)
}

/// Whether a NumericString may contain the character.
pub(super) fn is_numeric(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b' '
}
