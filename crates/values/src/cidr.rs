//! CIDR ranges of both families: parsing, containment, and Go's text form.
//!
//! Addresses are numbers of 32 or 128 bits, so that controllers can count blocks of a range.
//! Upstream: `net.IPNet`, `netip.Prefix`, and `ParseCIDRSloppy` of `k8s.io/utils/net`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The family of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of `address`. An IPv4 address in IPv6 form counts as IPv6.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Bits of an address.
    pub fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// `IPv4` or `IPv6`, as fields and labels of the API have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// A text is no CIDR range. The message is Go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid CIDR address: {0}")]
pub struct InvalidCidr(pub String);

/// A range of addresses: all that begin with the same `length` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    family: Family,
    /// The lowest address of the range. An IPv4 address uses the lower 32 bits.
    first: u128,
    length: u8,
}

impl Cidr {
    /// The range of `length` bits that contains the address with the number `address`.
    ///
    /// # Panics
    /// If `length` exceeds the bits of the family.
    pub fn new(family: Family, address: u128, length: u8) -> Self {
        let host_bits = family.bits() - length;
        Self {
            family,
            first: address & !low_bits(host_bits),
            length,
        }
    }

    /// Parses `10.1.0.0/16` as `ParseCIDRSloppy` does: decimal octets may have leading zeros, and
    /// host bits are cut off.
    pub fn parse(text: &str) -> Result<Self, InvalidCidr> {
        parts(text)
            .map(|(address, length)| Self::new(Family::of(address), number(address), length))
            .ok_or_else(|| InvalidCidr(text.to_owned()))
    }

    /// The family of all addresses.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Bits of the prefix.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// The number of the lowest address, which is the network address.
    pub fn first(&self) -> u128 {
        self.first
    }

    /// The number of the highest address.
    pub fn last(&self) -> u128 {
        self.first | low_bits(self.family.bits() - self.length)
    }

    /// True if all addresses of `other` are in this range.
    pub fn contains(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains_number(other.family, other.first)
    }

    /// True if `address` is in this range.
    pub fn contains_address(&self, address: IpAddr) -> bool {
        self.contains_number(Family::of(address), number(address))
    }

    /// True if the ranges have a common address. One of them then contains the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    fn contains_number(&self, family: Family, address: u128) -> bool {
        self.family == family && (self.first..=self.last()).contains(&address)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match (self.family, u32::try_from(self.first)) {
            (Family::V4, Ok(bits)) => IpAddr::V4(Ipv4Addr::from_bits(bits)),
            _ => IpAddr::V6(Ipv6Addr::from_bits(self.first)),
        };
        write!(f, "{address}/{}", self.length)
    }
}

/// The number of `address`, with 32 or 128 bits.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn low_bits(count: u8) -> u128 {
    u128::MAX.checked_shr(u32::from(128 - count)).unwrap_or(0)
}

fn parts(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let length = decimal(length)?;
    if let Some(address) = sloppy_v4(address) {
        return (length <= 32).then_some((IpAddr::V4(address), u8::try_from(length).ok()?));
    }
    let address: Ipv6Addr = address.parse().ok()?;
    let length = u8::try_from(length).ok().filter(|length| *length <= 128)?;
    // Go prints such a range as an IPv4 range.
    match address.to_ipv4_mapped() {
        Some(mapped) if length >= 96 => Some((IpAddr::V4(mapped), length - 96)),
        _ => Some((IpAddr::V6(address), length)),
    }
}

fn sloppy_v4(text: &str) -> Option<Ipv4Addr> {
    let octets: Option<Vec<u8>> = text
        .split('.')
        .map(|octet| u8::try_from(decimal(octet)?).ok())
        .collect();
    let octets: [u8; 4] = octets?.try_into().ok()?;
    Some(octets.into())
}

/// A number of digits only: Rust's parser would also take a sign.
fn decimal(text: &str) -> Option<u32> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed_as_go_does() {
        let cases = [
            ("10.1.2.3/16", Some("10.1.0.0/16")),
            ("010.001.000.000/16", Some("10.1.0.0/16")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("1.2.3.4/032", Some("1.2.3.4/32")),
            ("fd00:0:0:0::1/64", Some("fd00::/64")),
            ("1:0:0:2::/64", Some("1:0:0:2::/64")),
            ("::/0", Some("::/0")),
            ("::ffff:10.0.0.7/104", Some("10.0.0.0/8")),
            ("10.0.0.0/33", None),
            ("10.0.0.0/-1", None),
            ("10.0.0.0/+8", None),
            ("10.0.0/8", None),
            ("256.0.0.0/8", None),
            ("fd00::/129", None),
            ("fe80::1%eth0/64", None),
            ("10.0.0.0", None),
            (" 10.0.0.0/8", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let found = Cidr::parse(text).map(|cidr| cidr.to_string());
            let expected = expected.map(str::to_owned);
            assert_eq!(
                found,
                expected.ok_or(InvalidCidr(text.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn a_range_contains_smaller_ranges_of_its_family() {
        let cidr = |text| Cidr::parse(text).unwrap();
        // (a, b, a contains b, they overlap)
        let cases = [
            ("10.0.0.0/8", "10.1.0.0/16", true, true),
            ("10.1.0.0/16", "10.0.0.0/8", false, true),
            ("10.1.0.0/16", "10.2.0.0/16", false, false),
            ("10.1.0.0/16", "10.1.0.0/16", true, true),
            ("0.0.0.0/0", "::/0", false, false),
            ("::/0", "fd00::/8", true, true),
        ];
        for (a, b, contains, overlaps) in cases {
            assert_eq!(cidr(a).contains(&cidr(b)), contains, "{a} {b}");
            assert_eq!(cidr(a).overlaps(&cidr(b)), overlaps, "{a} {b}");
        }
        let all = cidr("::/0");
        assert_eq!((all.first(), all.last()), (0, u128::MAX));
        let one = cidr("10.0.0.9/32");
        assert_eq!((one.first(), one.last()), (0x0a00_0009, 0x0a00_0009));
    }
}
