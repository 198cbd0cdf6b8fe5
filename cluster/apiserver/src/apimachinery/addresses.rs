//! IP addresses and networks. Fields that once accepted sloppy forms are checked by [`complaints`] and
//! [`network_complaints`]; newer fields also need the canonical form.
//!
//! Upstream is `apimachinery/pkg/util/validation/ip.go`, with the gate StrictIPCIDRValidation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::errors::Errors;
use super::path::Path;

/// Reads an address as old Go releases did: leading zeros in IPv4 are decimal.
pub(crate) fn sloppy(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = decimal(parts.next()?)?.try_into().ok()?;
    }
    parts
        .next()
        .is_none()
        .then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

fn decimal(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// Whether all texts are addresses, of both families.
pub(crate) fn is_dual_stack<'a>(texts: impl Iterator<Item = &'a str>) -> bool {
    let mut v4 = false;
    let mut v6 = false;
    for text in texts {
        match sloppy(text) {
            None => return false,
            Some(address) if address.is_ipv6() && !is_mapped(address) => v6 = true,
            Some(_) => v4 = true,
        }
    }
    v4 && v6
}

/// The feature gate of strict rules in fields that once accepted sloppy forms.
const STRICT: &str = "StrictIPCIDRValidation";

/// Complaints about an address. Upstream: `IsValidIPForLegacyField`.
pub(crate) fn complaints(text: &str, errors: &Errors) -> Vec<String> {
    if !errors.release().enables(STRICT) && sloppy(text).is_some() {
        return Vec::new();
    }
    strict_complaints(text)
}

fn strict_complaints(text: &str) -> Vec<String> {
    let complaint = match sloppy(text) {
        None => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        Some(_) if text.parse::<IpAddr>().is_err() => "must not have leading 0s",
        Some(address) if is_mapped(address) => "must not be an IPv4-mapped IPv6 address",
        Some(_) => return Vec::new(),
    };
    vec![complaint.to_owned()]
}

/// Complaints about an address in a newer field. Upstream: `IsValidIP`.
pub(crate) fn canonical_complaints(text: &str) -> Vec<String> {
    canonical(
        text,
        strict_complaints(text),
        sloppy(text).map(|address| address.to_string()),
    )
}

/// Adds the complaint about a valid `text` that is not in its canonical form.
fn canonical(text: &str, complaints: Vec<String>, canonical: Option<String>) -> Vec<String> {
    match canonical {
        Some(canonical) if complaints.is_empty() && canonical != text => {
            vec![format!("must be in canonical form (\"{canonical}\")")]
        }
        _ => complaints,
    }
}

/// Checks an address.
pub(crate) fn check(field: impl fmt::Display, text: &str, errors: &mut Errors) {
    errors.complaints(field, text, complaints(text, errors));
}

/// Checks that other hosts can reach an address. Upstream: `ValidateEndpointIP`.
pub(crate) fn check_reachable(field: &Path<'_>, text: &str, errors: &mut Errors) {
    let Some(address) = sloppy(text) else {
        return errors.invalid(field, text, "must be a valid IP address");
    };
    if address.is_unspecified() {
        errors.invalid(field, text, format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        errors.invalid(
            field,
            text,
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        );
    }
    let (local, local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (
            v6.is_unicast_link_local(),
            v6.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    if local {
        errors.invalid(
            field,
            text,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        );
    }
    if local_multicast {
        errors.invalid(
            field,
            text,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        );
    }
}

/// An address with the length of its network's prefix.
#[derive(Clone, Copy)]
pub(crate) struct Network {
    address: IpAddr,
    length: u32,
}

impl Network {
    /// Reads a network as old Go releases did.
    pub(crate) fn sloppy(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let network = Self {
            address: sloppy(address)?,
            length: decimal(length)?,
        };
        (network.length <= network.bits()).then_some(network)
    }

    pub(crate) fn is_ipv4(self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether `other` is a part of this network, and smaller.
    pub(crate) fn strictly_contains(self, other: Self) -> bool {
        let cut = Self {
            length: self.length,
            ..other
        };
        other.is_ipv4() == self.is_ipv4()
            && other.length > self.length
            && cut.masked().address == self.masked().address
    }

    fn bits(self) -> u32 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// The first address of the network.
    fn masked(self) -> Self {
        let cut = self.bits() - self.length;
        let address = match self.address {
            IpAddr::V4(v4) => {
                let bits = v4
                    .to_bits()
                    .checked_shr(cut)
                    .and_then(|b| b.checked_shl(cut));
                IpAddr::V4(Ipv4Addr::from_bits(bits.unwrap_or(0)))
            }
            IpAddr::V6(v6) => {
                let bits = v6
                    .to_bits()
                    .checked_shr(cut)
                    .and_then(|b| b.checked_shl(cut));
                IpAddr::V6(Ipv6Addr::from_bits(bits.unwrap_or(0)))
            }
        };
        Self { address, ..self }
    }

    /// Whether a current Go release reads `text`, which is a sloppy form of this network.
    fn is_strict(text: &str) -> bool {
        text.split_once('/').is_some_and(|(address, length)| {
            address.parse::<IpAddr>().is_ok() && (length == "0" || !length.starts_with('0'))
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Complaints about a network. Upstream: `IsValidCIDRForLegacyField`.
fn network_complaints(text: &str, errors: &Errors) -> Vec<String> {
    if !errors.release().enables(STRICT) && Network::sloppy(text).is_some() {
        return Vec::new();
    }
    strict_network_complaints(text)
}

fn strict_network_complaints(text: &str) -> Vec<String> {
    let complaint = match Network::sloppy(text) {
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        Some(_) if !Network::is_strict(text) => "must not have leading 0s in IP or prefix length",
        Some(network) if is_mapped(network.address) => "must not have an IPv4-mapped IPv6 address",
        Some(network) if network.masked().address != network.address => {
            "must not have bits set beyond the prefix length"
        }
        Some(_) => return Vec::new(),
    };
    vec![complaint.to_owned()]
}

/// Complaints about a network in a newer field. Upstream: `IsValidCIDR`.
pub(crate) fn canonical_network_complaints(text: &str) -> Vec<String> {
    canonical(
        text,
        strict_network_complaints(text),
        Network::sloppy(text).map(|network| network.to_string()),
    )
}

/// Checks a network.
pub(crate) fn check_network(field: impl fmt::Display, text: &str, errors: &mut Errors) {
    errors.complaints(field, text, network_complaints(text, errors));
}

/// The warning about an address in an unusual form. Upstream: `GetWarningsForIP`.
pub(crate) fn warning(field: impl fmt::Display, text: &str) -> Option<String> {
    let address = sloppy(text)?;
    if text.parse::<IpAddr>().is_err() || is_mapped(address) {
        let usual = address.to_canonical();
        return Some(format!(
            "{field}: non-standard IP address {text:?} is invalid: use {:?}",
            usual.to_string()
        ));
    }
    let canonical = address.to_string();
    (address.is_ipv6() && canonical != text).then(|| {
        format!(
            "{field}: IPv6 address {text:?} should be in RFC 5952 canonical format ({canonical:?})"
        )
    })
}

/// Warnings about a network in an unusual form. Upstream: `GetWarningsForCIDR`.
pub(crate) fn network_warnings(field: impl fmt::Display, text: &str) -> Vec<String> {
    let Some(network) = Network::sloppy(text) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    let masked = network.masked();
    if masked.address != network.address {
        let single = format!("{}/{}", network.address, network.bits());
        warnings.push(format!(
            "{field}: CIDR value {text:?} is ambiguous in this context (should be {:?} or {single:?}?)",
            masked.to_string()
        ));
    }
    if !Network::is_strict(text) || is_mapped(network.address) {
        warnings.push(format!(
            "{field}: non-standard CIDR value {text:?} is invalid: use {:?}",
            masked.to_string()
        ));
    }
    let canonical = network.to_string();
    if warnings.is_empty() && network.address.is_ipv6() && canonical != text {
        warnings.push(format!(
            "{field}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({canonical:?})"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(check: impl Fn(&mut Errors)) -> String {
        let mut errors = Errors::default();
        check(&mut errors);
        let found = errors.into_list();
        found.first().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn addresses_are_strict_where_they_were_sloppy() {
        for (text, complaint) in [
            ("10.0.0.1", ""),
            ("fd00::1", ""),
            ("FD00:0::1", ""),
            ("010.0.0.1", "leading 0s"),
            ("::ffff:1.2.3.4", "IPv4-mapped"),
            ("10.0.0", "must be a valid IP address"),
            ("fe80::1%eth0", "must be a valid IP address"),
        ] {
            let found = first(|errors| check("ip", text, errors));
            assert_eq!(found.is_empty(), complaint.is_empty(), "{text}: {found}");
            assert!(found.contains(complaint), "{text}: {found}");
        }
    }

    #[test]
    fn networks_are_strict_where_they_were_sloppy() {
        for (text, complaint) in [
            ("10.0.0.0/8", ""),
            ("0.0.0.0/0", ""),
            ("fd00::/64", ""),
            ("10.0.0.0/08", "leading 0s"),
            ("10.0.0.1/8", "bits set beyond"),
            ("::ffff:1.2.3.0/120", "IPv4-mapped"),
            ("10.0.0.0/33", "must be a valid CIDR"),
            ("10.0.0.0", "must be a valid CIDR"),
        ] {
            let found = first(|errors| check_network("cidr", text, errors));
            assert_eq!(found.is_empty(), complaint.is_empty(), "{text}: {found}");
            assert!(found.contains(complaint), "{text}: {found}");
        }
    }

    #[test]
    fn unusual_forms_cause_warnings() {
        assert_eq!(warning("ip", "10.0.0.1"), None);
        assert_eq!(
            warning("ip", "010.0.0.1").as_deref(),
            Some("ip: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"")
        );
        assert_eq!(
            warning("ip", "FD00::1").as_deref(),
            Some(
                "ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"
            )
        );
        assert_eq!(network_warnings("n", "10.0.0.0/8"), [""; 0]);
        assert_eq!(
            network_warnings("n", "10.0.0.1/8"),
            [
                "n: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)"
            ]
        );
    }

    #[test]
    fn dual_stack_needs_both_families() {
        assert!(is_dual_stack(["10.0.0.1", "fd00::1"].into_iter()));
        assert!(!is_dual_stack(["10.0.0.1", "10.0.0.2"].into_iter()));
        assert!(!is_dual_stack(["10.0.0.1", "x"].into_iter()));
    }
}
