//! Reads the fields of a sequence with the rules and errors of Go's encoding/asn1.
//!
//! bytes -> [`Fields`] -> content of each field
//!
//! A certificate request that cannot be parsed is reported to its requester, so the errors are Go's
//! letter for letter. As in Go, more fields than expected are ignored. The rules are those of Go 1.26,
//! which upstream's 1.36 is built with.

use super::strings::{bmp, is_numeric, is_printable_in_go};

/// The fields in some bytes, in order.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A field with any tag.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) content: &'a [u8],
    /// The field with its tag and length.
    pub(super) whole: &'a [u8],
}

#[derive(Debug, Clone, Copy)]
struct Header {
    class: u8,
    tag: u32,
    is_compound: bool,
    length: usize,
}

/// The expected tag of a field, and Go's name of its type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    class: u8,
    tag: u32,
    is_compound: bool,
    name: &'static str,
}

impl Kind {
    pub(super) const BOOLEAN: Self = Self::universal(1, false, "bool");
    pub(super) const INTEGER: Self = Self::universal(2, false, "int");
    pub(super) const BIT_STRING: Self = Self::universal(3, false, "BitString");
    pub(super) const OCTET_STRING: Self = Self::universal(4, false, "");
    pub(super) const OID: Self = Self::universal(6, false, "ObjectIdentifier");
    pub(super) const SET: Self = Self::universal(17, true, "");
    /// `[0]`, constructed.
    pub(super) const TAGGED: Self = Self {
        class: 2,
        ..Self::universal(0, true, "")
    };

    /// A sequence whose type has this name in Go.
    pub(super) const fn sequence(name: &'static str) -> Self {
        Self::universal(16, true, name)
    }

    const fn universal(tag: u32, is_compound: bool, name: &'static str) -> Self {
        Self {
            class: 0,
            tag,
            is_compound,
            name,
        }
    }

    fn is(self, header: Header) -> bool {
        (self.class, self.tag, self.is_compound) == (header.class, header.tag, header.is_compound)
    }
}

fn syntax<T>(message: &str) -> Result<T, String> {
    Err(format!("asn1: syntax error: {message}"))
}

fn structure<T>(message: &str) -> Result<T, String> {
    Err(format!("asn1: structure error: {message}"))
}

impl<'a> Fields<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// An error if a field is left.
    pub(super) fn end(&self) -> Result<(), String> {
        if self.is_empty() {
            Ok(())
        } else {
            syntax("trailing data")
        }
    }

    /// The next field, whatever its tag.
    pub(super) fn any(&mut self) -> Result<Field<'a>, String> {
        let header = self.header()?;
        self.take(header, "data truncated")
    }

    /// The content of the next field, which is of this kind.
    pub(super) fn content(&mut self, kind: Kind) -> Result<&'a [u8], String> {
        self.field(kind).map(|field| field.content)
    }

    /// The next field, which is of this kind.
    pub(super) fn field(&mut self, kind: Kind) -> Result<Field<'a>, String> {
        let header = self.header()?;
        if kind.is(header.0) {
            return self.take(header, "data truncated");
        }
        let (
            Header {
                class,
                tag,
                is_compound,
                length,
            },
            offset,
        ) = header;
        let params = "{optional:false explicit:false application:false private:false \
                      defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}";
        structure(&format!(
            "tags don't match ({} vs {{class:{class} tag:{tag} length:{length} \
             isCompound:{is_compound}}}) {params} {} @{offset}",
            kind.tag, kind.name
        ))
    }

    /// The content of the next field if it is of this kind.
    pub(super) fn optional(&mut self, kind: Kind) -> Result<Option<&'a [u8]>, String> {
        if self.is_empty() || !kind.is(self.header()?.0) {
            return Ok(None);
        }
        self.content(kind).map(Some)
    }

    /// The fields of each element of a sequence of elements of this kind.
    pub(super) fn elements(mut self, kind: Kind) -> Result<Vec<Self>, String> {
        let mut elements = Vec::new();
        while !self.is_empty() {
            let header = self.header()?;
            if !kind.is(header.0) {
                return structure("sequence tag mismatch");
            }
            elements.push(Self::of(self.take(header, "truncated sequence")?.content));
        }
        Ok(elements)
    }

    /// The elements of a sequence of any values.
    pub(super) fn values(mut self) -> Result<Vec<Field<'a>>, String> {
        let mut elements = Vec::new();
        while !self.is_empty() {
            let header = self.header()?;
            elements.push(self.take(header, "truncated sequence")?);
        }
        Ok(elements)
    }

    /// The content of the next field, an object identifier.
    pub(super) fn oid(&mut self) -> Result<&'a [u8], String> {
        let content = self.content(Kind::OID)?;
        check_oid(content).map(|()| content)
    }

    /// The octets of the next field, a bit string.
    pub(super) fn octets_of_bit_string(&mut self) -> Result<&'a [u8], String> {
        octets_of_bit_string(self.content(Kind::BIT_STRING)?)
    }

    /// The next field is an integer of 64 bits.
    pub(super) fn integer(&mut self) -> Result<(), String> {
        check_integer(self.content(Kind::INTEGER)?)
    }

    /// Whether the next field, if it is a boolean, is valid.
    pub(super) fn optional_boolean(&mut self) -> Result<(), String> {
        self.optional(Kind::BOOLEAN)?.map_or(Ok(()), check_boolean)
    }

    /// The next field, whatever its type, as text. `None` if it is no string. Upstream: `parseField`
    /// for Go's type `any`.
    pub(super) fn text(&mut self) -> Result<Option<String>, String> {
        let header = self.header()?;
        let content = self.take(header, "data truncated")?.content;
        let (Header { class, tag, .. }, _) = header;
        if class != 0 || header.0.is_compound {
            return Ok(None);
        }
        let of_these = |is_allowed: fn(u8) -> bool, kind: &str| {
            if content.iter().all(|byte| is_allowed(*byte)) {
                Ok(Some(content.iter().map(|byte| char::from(*byte)).collect()))
            } else {
                syntax(&format!("{kind} contains invalid character"))
            }
        };
        match tag {
            1 => check_boolean(content).map(|()| None),
            2 => check_integer(content).map(|()| None),
            3 => octets_of_bit_string(content).map(|_| None),
            6 => check_oid(content).map(|()| None),
            12 => String::from_utf8(content.to_vec())
                .map(Some)
                .map_err(|_| "asn1: invalid UTF-8 string".to_owned()),
            18 => of_these(is_numeric, "NumericString"),
            19 => of_these(is_printable_in_go, "PrintableString"),
            20 => of_these(|_| true, "T61String"),
            22 => of_these(|byte| byte.is_ascii(), "IA5String"),
            30 => bmp(content)
                .map(Some)
                .ok_or_else(|| "invalid BMPString".to_owned()),
            // Times are no text, and nothing reads them.
            _ => Ok(None),
        }
    }

    fn take(&mut self, header: (Header, usize), truncated: &str) -> Result<Field<'a>, String> {
        let (header, content_at) = header;
        let end = content_at + header.length;
        let Some(content) = self.bytes.get(content_at..end) else {
            return syntax(truncated);
        };
        let whole = &self.bytes[self.at..end];
        self.at = end;
        Ok(Field { content, whole })
    }

    /// The header of the next field, and the place of its content. Upstream: `parseTagAndLength`.
    fn header(&self) -> Result<(Header, usize), String> {
        let truncated = "truncated tag or length";
        let mut at = self.at;
        let next = |at: &mut usize| {
            let byte = self.bytes.get(*at).copied();
            *at += 1;
            byte
        };
        let Some(first) = next(&mut at) else {
            return syntax("sequence truncated");
        };
        let mut tag = u32::from(first & 0x1f);
        if tag == 0x1f {
            tag = base_128(self.bytes, &mut at)?;
            if tag < 0x1f {
                return syntax("non-minimal tag");
            }
        }
        let Some(short) = next(&mut at) else {
            return syntax(truncated);
        };
        let mut length = usize::from(short & 0x7f);
        if short == 0x80 {
            return syntax("indefinite length found (not DER)");
        } else if short > 0x80 {
            let octets = std::mem::take(&mut length);
            for _ in 0..octets {
                let Some(octet) = next(&mut at) else {
                    return syntax(truncated);
                };
                if length >= 1 << 23 {
                    return structure("length too large");
                }
                length = length << 8 | usize::from(octet);
                if length == 0 {
                    return structure("superfluous leading zeros in length");
                }
            }
            if length < 0x80 {
                return structure("non-minimal length");
            }
        }
        let header = Header {
            class: first >> 6,
            tag,
            is_compound: first & 0x20 != 0,
            length,
        };
        Ok((header, at))
    }
}

fn check_boolean(content: &[u8]) -> Result<(), String> {
    match content {
        [0 | 0xff] => Ok(()),
        _ => syntax("invalid boolean"),
    }
}

/// Whether `content` is an integer of 64 bits.
fn check_integer(content: &[u8]) -> Result<(), String> {
    match content {
        [] => structure("empty integer"),
        [0, 0..=0x7f, ..] | [0xff, 0x80..=0xff, ..] => structure("integer not minimally-encoded"),
        content if content.len() > 8 => structure("integer too large"),
        _ => Ok(()),
    }
}

fn check_oid(content: &[u8]) -> Result<(), String> {
    if content.is_empty() {
        return syntax("zero length OBJECT IDENTIFIER");
    }
    let mut at = 0;
    while at < content.len() {
        base_128(content, &mut at)?;
    }
    Ok(())
}

fn octets_of_bit_string(content: &[u8]) -> Result<&[u8], String> {
    match content {
        [] => syntax("zero length BIT STRING"),
        [padding, octets @ ..] => {
            let last = octets.last().copied().unwrap_or(u8::MAX);
            if *padding > 7 || u32::from(last).trailing_zeros() < u32::from(*padding) {
                return syntax("invalid padding bits in BIT STRING");
            }
            Ok(octets)
        }
    }
}

/// The number at `at`, in groups of seven bits. Upstream: `parseBase128Int`.
fn base_128(bytes: &[u8], at: &mut usize) -> Result<u32, String> {
    let mut number: u64 = 0;
    for group in 0.. {
        let Some(byte) = bytes.get(*at) else {
            break;
        };
        if group == 5 {
            return structure("base 128 integer too large");
        }
        if group == 0 && *byte == 0x80 {
            return syntax("integer is not minimally encoded");
        }
        number = number << 7 | u64::from(byte & 0x7f);
        *at += 1;
        if byte & 0x80 == 0 {
            let fits = i32::try_from(number)
                .ok()
                .and_then(|it| u32::try_from(it).ok());
            return fits.map_or_else(|| structure("base 128 integer too large"), Ok);
        }
    }
    syntax("truncated base 128 integer")
}
