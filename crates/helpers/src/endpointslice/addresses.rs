//! IP addresses in the texts that old clusters may contain.
//!
//! Numbers of IPv4 addresses may have leading zeros, which have no meaning, as in Go before 1.17.
//! An IPv4 address in the form of IPv6 counts as IPv4. Slices contain the shortest text of an
//! address. Upstream: `ParseIPSloppy` of `k8s.io/utils/net`.

use std::net::IpAddr;

/// The address with this text; `None` if the text is no address.
pub fn parse(text: &str) -> Option<IpAddr> {
    let address: IpAddr = match text.parse() {
        Ok(address) => address,
        Err(_) => without_leading_zeros(text).parse().ok()?,
    };
    Some(address.to_canonical())
}

/// `text` with each number in its shortest form. IPv6 groups are numbers too.
fn without_leading_zeros(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(['.', ':']).unwrap_or(rest.len());
        let (number, separator) = rest.split_at(end);
        match number.trim_start_matches('0') {
            "" if !number.is_empty() => short.push('0'),
            digits => short.push_str(digits),
        }
        let end = separator.len().min(1);
        short.push_str(&separator[..end]);
        rest = &separator[end..];
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_canonical_text() {
        // (text, canonical text)
        let cases = [
            ("10.0.0.7", Some("10.0.0.7")),
            ("010.000.000.007", Some("10.0.0.7")),
            ("0000000001.2.3.4", Some("1.2.3.4")),
            ("::ffff:10.0.0.8", Some("10.0.0.8")),
            ("::ffff:010.0.0.08", Some("10.0.0.8")),
            ("FD00:0:0:0:0:0:0:00AA", Some("fd00::aa")),
            ("2001:db8:0:0:1::", Some("2001:db8:0:0:1::")),
            ("00000::00001", Some("::1")),
            ("::", Some("::")),
            ("", None),
            ("None", None),
            ("10.0.0", None),
            ("10.0.0.256", None),
            ("10.0.0.1.", None),
            (".10.0.0.1", None),
            ("fe80::1%eth0", None),
            ("1:2:3:4:5:6:7:8:9", None),
            ("example.com", None),
        ];
        for (text, expected) in cases {
            let found = parse(text).map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }
}
