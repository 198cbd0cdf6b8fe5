//! Elements of DER, the encoding of certificates and keys.
//!
//! bytes -> [`Elements`] -> content of each element; content -> [`element`] -> bytes
//!
//! The crate `der` parses tags and lengths. It returns an error for all bytes that are not
//! canonical, and never panics. This module has the few operations that X.509 needs, so that its
//! readers look like the ASN.1 modules of the standards.

use der::asn1::AnyRef;
use der::{Encode, Reader as _, SliceReader, Tagged as _};
pub(crate) use der::{Error, Result, Tag, TagNumber, asn1::ObjectIdentifier};

/// The elements in some bytes, in order. After an error, all further reads fail.
#[derive(Clone)]
pub(crate) struct Elements<'a>(SliceReader<'a>);

impl<'a> Elements<'a> {
    /// The elements in `bytes`.
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Self> {
        SliceReader::new(bytes).map(Self)
    }

    /// The elements inside of the sequence that `bytes` consist of.
    pub(crate) fn of_sequence(bytes: &'a [u8]) -> Result<Self> {
        let mut outer = Self::of(bytes)?;
        let inner = outer.sequence()?;
        outer.end()?;
        Ok(inner)
    }

    /// Whether all elements were read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_finished()
    }

    /// An error if an element is left.
    pub(crate) fn end(self) -> Result<()> {
        self.0.finish()
    }

    /// The tag and the content of the next element.
    pub(crate) fn any(&mut self) -> Result<(Tag, &'a [u8])> {
        let element: AnyRef<'a> = self.0.decode()?;
        Ok((element.tag(), element.value()))
    }

    /// The content of the next element, which has this tag.
    pub(crate) fn content(&mut self, tag: Tag) -> Result<&'a [u8]> {
        let (found, content) = self.any()?;
        found.assert_eq(tag)?;
        Ok(content)
    }

    /// The tag of the next element, if there is a valid one.
    pub(crate) fn tag(&self) -> Option<Tag> {
        (!self.is_empty())
            .then(|| Tag::peek(&self.0).ok())
            .flatten()
    }

    /// The content of the next element if it has this tag.
    pub(crate) fn optional(&mut self, tag: Tag) -> Result<Option<&'a [u8]>> {
        if self.tag() != Some(tag) {
            return Ok(None);
        }
        self.content(tag).map(Some)
    }

    /// The elements of the next element, which is a sequence.
    pub(crate) fn sequence(&mut self) -> Result<Self> {
        Self::of(self.content(Tag::Sequence)?)
    }

    /// The next element with its tag and length.
    pub(crate) fn whole(&mut self) -> Result<&'a [u8]> {
        self.0.tlv_bytes()
    }

    /// Reads the next element, a bit string.
    pub(crate) fn bit_string(&mut self) -> Result<()> {
        match self.content(Tag::BitString)? {
            [unused @ 0..=7, octets @ ..]
                if octets.last().map_or(*unused == 0, |last| {
                    last.trailing_zeros() >= u32::from(*unused)
                }) =>
            {
                Ok(())
            }
            _ => Err(Tag::BitString.value_error().into()),
        }
    }

    /// The content of the next element, a bit string without unused bits.
    pub(crate) fn octets_of_bit_string(&mut self) -> Result<&'a [u8]> {
        match self.content(Tag::BitString)?.split_first() {
            Some((0, octets)) => Ok(octets),
            _ => Err(Tag::BitString.value_error().into()),
        }
    }

    /// The content of the next element, an integer in its shortest form.
    pub(crate) fn integer(&mut self) -> Result<&'a [u8]> {
        match self.content(Tag::Integer)? {
            [] | [0, 0..=0x7f, ..] | [0xff, 0x80..=0xff, ..] => {
                Err(Tag::Integer.value_error().into())
            }
            content => Ok(content),
        }
    }

    /// The content of the next element, an object identifier whose numbers have at most 31 bits, as
    /// in Go.
    pub(crate) fn oid(&mut self) -> Result<&'a [u8]> {
        let content = self.content(Tag::ObjectIdentifier)?;
        let ends = content.last().is_some_and(|byte| byte & 0x80 == 0);
        let mut numbers = content.split_inclusive(|byte| byte & 0x80 == 0);
        let is_number = |number: &[u8]| {
            number[0] != 0x80 && (number.len() < 5 || (number.len() == 5 && number[0] < 0x88))
        };
        if ends && numbers.all(is_number) {
            Ok(content)
        } else {
            Err(Tag::ObjectIdentifier.value_error().into())
        }
    }

    /// The content of the next element, a positive integer or zero, without leading zeros.
    pub(crate) fn unsigned(&mut self) -> Result<&'a [u8]> {
        match self.content(Tag::Integer)? {
            [0, rest @ ..] if starts_high(rest) => Ok(rest),
            whole @ ([1..0x80, ..] | [0]) => Ok(whole),
            _ => Err(Tag::Integer.value_error().into()),
        }
    }
}

/// The tag `[number]` of the class "context-specific".
pub(crate) const fn context(number: u32, constructed: bool) -> Tag {
    Tag::ContextSpecific {
        constructed,
        number: TagNumber(number),
    }
}

/// An element with this tag and content.
pub(crate) fn element(tag: Tag, content: &[u8]) -> Vec<u8> {
    AnyRef::new(tag, content)
        .and_then(|element| element.to_der())
        .expect("no certificate or key reaches 4 GiB, the limit of lengths")
}

/// A sequence of these elements.
pub(crate) fn sequence(elements: &[&[u8]]) -> Vec<u8> {
    element(Tag::Sequence, &elements.concat())
}

/// An object identifier.
pub(crate) fn oid(oid: ObjectIdentifier) -> Vec<u8> {
    element(Tag::ObjectIdentifier, oid.as_bytes())
}

/// A bit string of whole octets.
pub(crate) fn bit_string(octets: &[u8]) -> Vec<u8> {
    element(Tag::BitString, &[&[0], octets].concat())
}

/// The integer with this big-endian magnitude.
pub(crate) fn unsigned(magnitude: &[u8]) -> Vec<u8> {
    let zeros = magnitude.iter().take_while(|byte| **byte == 0).count();
    match &magnitude[zeros..] {
        [] => element(Tag::Integer, &[0]),
        digits if starts_high(digits) => element(Tag::Integer, &[&[0], digits].concat()),
        digits => element(Tag::Integer, digits),
    }
}

/// Whether a number that starts so would be negative without a leading zero.
fn starts_high(digits: &[u8]) -> bool {
    digits.first().is_some_and(|byte| *byte >= 0x80)
}

/// NULL, the parameters of RSA.
pub(crate) const NULL: &[u8] = &[5, 0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_minimal_and_not_negative() {
        // (magnitude, DER)
        let cases: &[(&[u8], &[u8])] = &[
            (&[], &[2, 1, 0]),
            (&[0, 0], &[2, 1, 0]),
            (&[0, 1], &[2, 1, 1]),
            (&[0x7f], &[2, 1, 0x7f]),
            (&[0x80], &[2, 2, 0, 0x80]),
            (&[0, 0xff, 0], &[2, 3, 0, 0xff, 0]),
        ];
        for (magnitude, expected) in cases {
            assert_eq!(unsigned(magnitude), *expected);
            let read = Elements::of(expected).unwrap().unsigned().unwrap();
            assert_eq!(unsigned(read), *expected);
        }
        for wrong in [&[2, 0][..], &[2, 1, 0x80], &[2, 2, 0, 1], &[4, 1, 1]] {
            assert!(
                Elements::of(wrong).unwrap().unsigned().is_err(),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn elements_are_read_in_order() {
        let bytes = sequence(&[&unsigned(&[7]), &bit_string(b"b"), NULL]);
        let mut elements = Elements::of_sequence(&bytes).unwrap();
        assert_eq!(elements.optional(Tag::Null), Ok(None));
        assert_eq!(elements.unsigned(), Ok(&[7][..]));
        assert_eq!(elements.octets_of_bit_string(), Ok(&b"b"[..]));
        assert!(elements.clone().end().is_err());
        assert_eq!(elements.whole(), Ok(NULL));
        assert!(elements.is_empty() && elements.any().is_err());
        assert!(Elements::of_sequence(&[&bytes[..], NULL].concat()).is_err());
    }
}
