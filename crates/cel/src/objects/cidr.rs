//! Networks in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::fail::Fail;

/// An address with the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) length: u8,
}

impl Cidr {
    pub(crate) fn parse(text: &str) -> Result<Self, Fail> {
        const ERROR: &str = "network address parse error during conversion from string: ";
        let problem = |why: &str| {
            // Two layers of upstream add the same words.
            Fail::new(format!("{ERROR}{ERROR}netip.ParsePrefix({text:?}): {why}"))
        };
        let (address, length) = text.rsplit_once('/').ok_or_else(|| problem("no '/'"))?;
        let address: IpAddr = address
            .parse()
            .map_err(|_| problem(&format!("ParseAddr({address:?}): unable to parse IP")))?;
        if let IpAddr::V6(v6) = address
            && v6.to_ipv4_mapped().is_some()
        {
            let why = format!("{ERROR}IPv4-mapped IPv6 address {text:?} is not allowed");
            return Err(Fail::new(why));
        }
        let bits = bits(address);
        let is_number = !length.is_empty()
            && length.chars().all(|digit| digit.is_ascii_digit())
            && (length == "0" || !length.starts_with('0'));
        let length: Option<u8> = length.parse().ok().filter(|_| is_number);
        match length {
            Some(length) if length <= bits => Ok(Self { address, length }),
            Some(_) => Err(problem("prefix length out of range")),
            None => Err(problem(&format!(
                "bad bits after slash: {:?}",
                text.rsplit_once('/').map_or("", |(_, bits)| bits)
            ))),
        }
    }

    pub(crate) fn masked(self) -> Self {
        let shift = u32::from(bits(self.address) - self.length);
        let address = match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(shift).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(shift).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
            }
        };
        Self { address, ..self }
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        let other = Self { address, ..self };
        bits(address) == bits(self.address) && other.masked() == self.masked()
    }

    pub(crate) fn includes(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}
