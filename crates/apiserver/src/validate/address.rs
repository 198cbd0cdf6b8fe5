//! IP addresses and CIDRs in fields.
//!
//! Upstream is `apimachinery/pkg/util/validation/ip.go`. Fields that existed before its strict
//! rules are checked by [`cidr_complaints`] and [`ip_complaints`]; newer ones also need the
//! canonical form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// A range of addresses.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Cidr {
    /// The first address of the range.
    network: IpAddr,
    /// The address in the text, which may be another one of the range.
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address = parse_ip(address)?;
        let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u8 = prefix.parse().ok().filter(|_| is_number)?;
        let network = masked(address, prefix)?;
        Some(Self {
            network,
            address,
            prefix,
        })
    }

    pub(super) fn is_ipv4(self) -> bool {
        self.network.is_ipv4()
    }

    /// Whether `other` is a part of this range, and smaller.
    pub(super) fn strictly_contains(self, other: Self) -> bool {
        other.is_ipv4() == self.is_ipv4()
            && other.prefix > self.prefix
            && masked(other.address, self.prefix) == Some(self.network)
    }
}

/// The first address of a range; `None` if the prefix is longer than the address.
fn masked(address: IpAddr, prefix: u8) -> Option<IpAddr> {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(address) => {
            let host = 32_u32.checked_sub(prefix)?;
            let mask = u32::MAX.checked_shl(host).unwrap_or(0);
            Some(Ipv4Addr::from_bits(address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let host = 128_u32.checked_sub(prefix)?;
            let mask = u128::MAX.checked_shl(host).unwrap_or(0);
            Some(Ipv6Addr::from_bits(address.to_bits() & mask).into())
        }
    }
}

/// Parses an address. As in older versions of Go, numbers of IPv4 may have leading zeros.
pub(super) fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| {
        let parts: Vec<u8> = text
            .split('.')
            .map(|part| {
                let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
                part.parse().ok().filter(|_| is_number)
            })
            .collect::<Option<_>>()?;
        let parts: [u8; 4] = parts.try_into().ok()?;
        Some(Ipv4Addr::from(parts).into())
    })
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// Complaints about an address.
pub(super) fn ip_complaints(text: &str) -> Vec<String> {
    let complaint = match (parse_ip(text), text.parse::<IpAddr>()) {
        (None, _) => IP,
        (Some(_), Err(_)) => "must not have leading 0s",
        (Some(address), _) if is_mapped(address) => "must not be an IPv4-mapped IPv6 address",
        _ => return Vec::new(),
    };
    vec![complaint.to_owned()]
}

/// Complaints about an address in a field that requires the canonical form.
pub(super) fn canonical_ip_complaints(text: &str) -> Vec<String> {
    let complaints = ip_complaints(text);
    match parse_ip(text).map(|address| address.to_string()) {
        Some(canonical) if complaints.is_empty() && canonical != text => {
            vec![format!("must be in canonical form (\"{canonical}\")")]
        }
        _ => complaints,
    }
}

/// Complaints about a range.
pub(super) fn cidr_complaints(text: &str) -> Vec<String> {
    let has_zeros = || {
        let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
        address.parse::<IpAddr>().is_err() || (prefix.len() > 1 && prefix.starts_with('0'))
    };
    let complaint = match Cidr::parse(text) {
        None => CIDR,
        Some(_) if has_zeros() => "must not have leading 0s in IP or prefix length",
        Some(cidr) if is_mapped(cidr.address) => "must not have an IPv4-mapped IPv6 address",
        Some(cidr) if cidr.address != cidr.network => {
            "must not have bits set beyond the prefix length"
        }
        _ => return Vec::new(),
    };
    vec![complaint.to_owned()]
}

/// Complaints about a range in a field that requires the canonical form.
pub(super) fn canonical_cidr_complaints(text: &str) -> Vec<String> {
    let complaints = cidr_complaints(text);
    let canonical = Cidr::parse(text).map(|cidr| format!("{}/{}", cidr.network, cidr.prefix));
    match canonical {
        Some(canonical) if complaints.is_empty() && canonical != text => {
            vec![format!("must be in canonical form (\"{canonical}\")")]
        }
        _ => complaints,
    }
}
