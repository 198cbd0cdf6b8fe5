//! The canonical form of the subsets of an Endpoints object.
//!
//! Subsets are split into single ports with their addresses, and ports with equal addresses are put
//! together. All orders are fixed, so equal content has one form.
//!
//! Upstream compares `appProtocol` by its place in memory. Ports with equal texts that were read
//! from two subsets then stay apart, or are listed twice, which the API server rejects in a slice.
//! Here the texts are compared.
//!
//! Upstream: `RepackSubsets` of `pkg/api/v1/endpoints`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use steersman_objects::{EndpointAddress, EndpointPort, EndpointSubset, TargetRef, Uid};

use super::hash::{Pointer, PortOrder};

/// Whether an address, by its position, is ready.
type Readiness = BTreeMap<usize, bool>;

/// The canonical form of `subsets`, with ports and subsets in the order of a release.
pub fn repack(subsets: &[EndpointSubset], order: PortOrder) -> Vec<EndpointSubset> {
    let mut addresses = Addresses::default();
    // By port; `None` stands for subsets without ports.
    let mut ports: HashMap<Option<&EndpointPort>, Readiness> = HashMap::new();
    for subset in subsets {
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = subset
            .not_ready_addresses
            .iter()
            .map(|address| (address, false));
        for (address, is_ready) in ready.chain(not_ready) {
            let position = addresses.position(address);
            let mut add = |port| {
                let readiness = ports.entry(port).or_default();
                // One mention as unready makes an address unready.
                *readiness.entry(position).or_insert(true) &= is_ready;
            };
            if subset.ports.is_empty() {
                add(None);
            }
            subset.ports.iter().for_each(|port| add(Some(port)));
        }
    }
    let mut groups: HashMap<Readiness, Vec<EndpointPort>> = HashMap::new();
    for (port, readiness) in ports {
        let group = groups.entry(readiness).or_default();
        group.extend(port.filter(|port| port.port > 0).cloned());
    }
    let mut packed: Vec<EndpointSubset> = groups
        .into_iter()
        .map(|(readiness, mut ports)| {
            ports.sort_by_cached_key(|port| {
                order.hash(format_args!("(v1.EndpointPort){}", PortDump(port)))
            });
            EndpointSubset {
                addresses: addresses.select(&readiness, true),
                not_ready_addresses: addresses.select(&readiness, false),
                ports,
            }
        })
        .collect();
    packed.sort_by_cached_key(|subset| order.hash(format_args!("{}", SubsetDump(subset))));
    packed
}

/// The addresses of all subsets, each once. IP and UID of the object identify an address.
#[derive(Default)]
struct Addresses<'a> {
    list: Vec<&'a EndpointAddress>,
    positions: HashMap<(&'a str, Option<&'a Uid>), usize>,
}

impl<'a> Addresses<'a> {
    /// The position of `address` in the list. The first address with its identity is kept.
    fn position(&mut self, address: &'a EndpointAddress) -> usize {
        // No object counts as an object with an empty UID.
        let uid = address.target_ref.as_ref().map(|target| &target.uid);
        let uid = uid.filter(|uid| **uid != Uid::new(""));
        let list = &mut self.list;
        *self.positions.entry((&address.ip, uid)).or_insert_with(|| {
            list.push(address);
            list.len() - 1
        })
    }

    /// The addresses of `readiness` that are, or are not, ready, sorted by IP and UID.
    fn select(&self, readiness: &Readiness, ready: bool) -> Vec<EndpointAddress> {
        let selected = readiness.iter().filter(|(_, is_ready)| **is_ready == ready);
        let mut selected: Vec<&EndpointAddress> =
            selected.map(|(position, _)| self.list[*position]).collect();
        let uid = |address: &EndpointAddress| {
            address.target_ref.as_ref().map(|target| target.uid.clone())
        };
        selected.sort_by(|a, b| a.ip.cmp(&b.ip).then_with(|| uid(a).cmp(&uid(b))));
        selected.into_iter().cloned().collect()
    }
}

/// A subset as Go dumps it.
struct SubsetDump<'a>(&'a EndpointSubset);

impl fmt::Display for SubsetDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EndpointSubset {
            addresses,
            not_ready_addresses,
            ports,
        } = self.0;
        f.write_str("(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)")?;
        list(f, addresses.iter().map(AddressDump))?;
        f.write_str(" NotReadyAddresses:([]v1.EndpointAddress)")?;
        list(f, not_ready_addresses.iter().map(AddressDump))?;
        f.write_str(" Ports:([]v1.EndpointPort)")?;
        list(f, ports.iter().map(PortDump))?;
        f.write_str("}")
    }
}

/// Writes a list as Go dumps it. Empty lists are unset here.
fn list(
    f: &mut fmt::Formatter<'_>,
    items: impl ExactSizeIterator<Item = impl fmt::Display>,
) -> fmt::Result {
    if items.len() == 0 {
        return f.write_str("<nil>");
    }
    for (n, item) in items.enumerate() {
        write!(f, "{}{item}", if n == 0 { "[" } else { " " })?;
    }
    f.write_str("]")
}

struct AddressDump<'a>(&'a EndpointAddress);

impl fmt::Display for AddressDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.0;
        write!(
            f,
            "{{IP:(string){} Hostname:(string){} NodeName:{} TargetRef:{}}}",
            address.ip,
            address.hostname,
            Pointer("string", address.node_name.as_ref()),
            Pointer(
                "v1.ObjectReference",
                address.target_ref.as_ref().map(TargetDump).as_ref()
            ),
        )
    }
}

struct TargetDump<'a>(&'a TargetRef);

impl fmt::Display for TargetDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.0;
        write!(
            f,
            "{{Kind:(string){} Namespace:(string){} Name:(string){} UID:(types.UID){} APIVersion:(string){} \
             ResourceVersion:(string){} FieldPath:(string){}}}",
            target.kind,
            target.namespace,
            target.name,
            target.uid,
            target.api_version(),
            target.resource_version(),
            target.field_path(),
        )
    }
}

struct PortDump<'a>(&'a EndpointPort);

impl fmt::Display for PortDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.0;
        write!(
            f,
            "{{Name:(string){} Port:(int32){} Protocol:(v1.Protocol){} AppProtocol:{}}}",
            port.name,
            port.port,
            port.protocol,
            Pointer("string", port.app_protocol.as_ref()),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    struct Data {
        repack: Vec<Case>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Case {
        name: String,
        input: Vec<EndpointSubset>,
        output: Vec<EndpointSubset>,
        output_hashes: Vec<Hashes>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Hashes {
        hash: String,
        hash_input: String,
    }

    /// The packings of upstream 1.36.2, computed with its code.
    #[test]
    fn subsets_are_packed_like_upstream() {
        let data: Data =
            serde_json::from_str(include_str!("endpoints_subsets-cases.json")).unwrap();
        assert_eq!(data.repack.len(), 25);
        for case in data.repack {
            let found = repack(&case.input, PortOrder::default());
            // Upstream compares `appProtocol` by its place in memory; see the module documentation.
            let ports = |subset: &EndpointSubset| subset.ports.len();
            match &*case.name {
                "app-protocol-separate-objects" => {
                    let sizes: Vec<_> = found
                        .iter()
                        .map(|s| (s.addresses.len(), ports(s)))
                        .collect();
                    assert_eq!(sizes, [(2, 1)]);
                    continue;
                }
                "app-protocol-separate-objects-same-address" => {
                    let sizes: Vec<_> = found
                        .iter()
                        .map(|s| (s.addresses.len(), ports(s)))
                        .collect();
                    assert_eq!(sizes, [(1, 1)]);
                    continue;
                }
                name => assert_eq!(found, case.output, "{name}"),
            }
            for (subset, hashes) in found.iter().zip(&case.output_hashes) {
                let dump = SubsetDump(subset).to_string();
                assert_eq!(dump, hashes.hash_input, "{}", case.name);
                let hash = PortOrder::default().hash(format_args!("{dump}"));
                assert_eq!(format!("{hash:032x}"), hashes.hash, "{}", case.name);
            }
        }
    }

    /// `TestPackSubsets` of upstream: name, subsets, packed subsets.
    ///
    /// `!` precedes an address that is not ready, `=` the UID of its object, `@` the name of its
    /// object, and `:` a port.
    const PACKINGS: [(&str, &str, &str); 33] = [
        ("empty everything", "-", ""),
        ("empty addresses", ":111", ""),
        ("empty ports", "1.2.3.4", "1.2.3.4"),
        ("empty ports", "!1.2.3.4", "!1.2.3.4"),
        ("one set, one ip, one port", "1.2.3.4 :111", "1.2.3.4 :111"),
        (
            "one set, one ip, one port (IPv6)",
            "beef::1:2:3:4 :111",
            "beef::1:2:3:4 :111",
        ),
        (
            "one set, one notReady ip, one port",
            "!1.2.3.4 :111",
            "!1.2.3.4 :111",
        ),
        (
            "one set, one ip, one UID, one port",
            "1.2.3.4=uid-1 :111",
            "1.2.3.4=uid-1 :111",
        ),
        (
            "one set, one notReady ip, one UID, one port",
            "!1.2.3.4=uid-1 :111",
            "!1.2.3.4=uid-1 :111",
        ),
        (
            "one set, one ip, empty UID, one port",
            "1.2.3.4= :111",
            "1.2.3.4= :111",
        ),
        (
            "one set, one notReady ip, empty UID, one port",
            "!1.2.3.4= :111",
            "!1.2.3.4= :111",
        ),
        (
            "one set, two ips, one port",
            "1.2.3.4 5.6.7.8 :111",
            "1.2.3.4 5.6.7.8 :111",
        ),
        (
            "one set, two mixed ips, one port",
            "1.2.3.4 !5.6.7.8 :111",
            "1.2.3.4 !5.6.7.8 :111",
        ),
        (
            "one set, two duplicate ips, one port, notReady is covered by ready",
            "1.2.3.4 !1.2.3.4 :111",
            "!1.2.3.4 :111",
        ),
        (
            "one set, one ip, two ports",
            "1.2.3.4 :111 :222",
            "1.2.3.4 :111 :222",
        ),
        (
            "one set, dup ips, one port",
            "1.2.3.4 1.2.3.4 :111",
            "1.2.3.4 :111",
        ),
        (
            "one set, dup ips, one port (IPv6)",
            "beef::1 beef::1 :111",
            "beef::1 :111",
        ),
        (
            "one set, dup ips with target-refs, one port",
            "1.2.3.4@foo 1.2.3.4@bar :111",
            "1.2.3.4@foo :111",
        ),
        (
            "one set, dup mixed ips with target-refs, one port",
            "1.2.3.4@foo !1.2.3.4@bar :111",
            "!1.2.3.4@foo :111",
        ),
        (
            "one set, one ip, dup ports",
            "1.2.3.4 :111 :111",
            "1.2.3.4 :111",
        ),
        (
            "two sets, dup ip, dup port",
            "1.2.3.4 :111 | 1.2.3.4 :111",
            "1.2.3.4 :111",
        ),
        (
            "two sets, dup mixed ip, dup port",
            "1.2.3.4 :111 | !1.2.3.4 :111",
            "!1.2.3.4 :111",
        ),
        (
            "two sets, dup ip, two ports",
            "1.2.3.4 :111 | 1.2.3.4 :222",
            "1.2.3.4 :111 :222",
        ),
        (
            "two sets, dup ip, dup uids, two ports",
            "1.2.3.4=uid-1 :111 | 1.2.3.4=uid-1 :222",
            "1.2.3.4=uid-1 :111 :222",
        ),
        (
            "two sets, dup mixed ip, dup uids, two ports",
            "1.2.3.4=uid-1 :111 | !1.2.3.4=uid-1 :222",
            "1.2.3.4=uid-1 :111 | !1.2.3.4=uid-1 :222",
        ),
        (
            "two sets, two ips, dup port",
            "1.2.3.4 :111 | 5.6.7.8 :111",
            "1.2.3.4 5.6.7.8 :111",
        ),
        (
            "two set, dup ip, two uids, dup ports",
            "1.2.3.4=uid-1 :111 | 1.2.3.4=uid-2 :111",
            "1.2.3.4=uid-1 1.2.3.4=uid-2 :111",
        ),
        (
            "two set, dup ip, with and without uid, dup ports",
            "1.2.3.4 :111 | 1.2.3.4=uid-2 :111",
            "1.2.3.4 1.2.3.4=uid-2 :111",
        ),
        (
            "two sets, two ips, two dup ip with uid, dup port, wrong order",
            "5.6.7.8 :111 | 5.6.7.8=uid-1 :111 | 1.2.3.4=uid-1 :111 | 1.2.3.4 :111",
            "1.2.3.4 1.2.3.4=uid-1 5.6.7.8 5.6.7.8=uid-1 :111",
        ),
        (
            "two sets, two mixed ips, two dup ip with uid, dup port, wrong order, ends up with split addresses",
            "5.6.7.8 :111 | !5.6.7.8=uid-1 :111 | !1.2.3.4=uid-1 :111 | !1.2.3.4 :111",
            "5.6.7.8 !1.2.3.4 !1.2.3.4=uid-1 !5.6.7.8=uid-1 :111",
        ),
        (
            "two sets, two ips, two ports",
            "1.2.3.4 :111 | 5.6.7.8 :222",
            "1.2.3.4 :111 | 5.6.7.8 :222",
        ),
        (
            "four sets, three ips, three ports, jumbled",
            "1.2.3.4 :111 | 1.2.3.5 :222 | 1.2.3.6 :111 | 1.2.3.5 :333",
            "1.2.3.4 1.2.3.6 :111 | 1.2.3.5 :222 :333",
        ),
        (
            "four sets, three mixed ips, three ports, jumbled",
            "1.2.3.4 :111 | !1.2.3.5 :222 | 1.2.3.6 :111 | !1.2.3.5 :333",
            "1.2.3.4 1.2.3.6 :111 | !1.2.3.5 :222 :333",
        ),
    ];

    fn subsets(text: &str) -> Vec<EndpointSubset> {
        let texts = text.split(" | ").filter(|text| !text.is_empty());
        texts.map(subset).collect()
    }

    fn subset(text: &str) -> EndpointSubset {
        let mut subset = EndpointSubset::default();
        for word in text.split(' ').filter(|word| *word != "-") {
            if let Some(port) = word.strip_prefix(':') {
                subset.ports.push(EndpointPort {
                    port: port.parse().unwrap(),
                    ..EndpointPort::default()
                });
            } else if let Some(word) = word.strip_prefix('!') {
                subset.not_ready_addresses.push(address(word));
            } else {
                subset.addresses.push(address(word));
            }
        }
        subset
    }

    fn address(word: &str) -> EndpointAddress {
        let (ip, target) = match word.split_once(['=', '@']) {
            Some((ip, name)) if word.contains('@') => (ip, json!({"name": name})),
            Some((ip, uid)) => (ip, json!({"uid": uid})),
            None => (word, json!(null)),
        };
        serde_json::from_value(json!({"ip": ip, "targetRef": target})).unwrap()
    }

    /// `subsets` without the order of subsets and ports, which the computed packings fix.
    fn unordered(mut subsets: Vec<EndpointSubset>) -> Vec<String> {
        let ports = subsets.iter_mut().map(|subset| &mut subset.ports);
        ports.for_each(|ports| ports.sort_by_key(|port| port.port));
        let mut texts: Vec<_> = subsets.iter().map(|subset| format!("{subset:?}")).collect();
        texts.sort();
        texts
    }

    #[test]
    fn pack_subsets() {
        for (case, given, expected) in PACKINGS {
            let found = unordered(repack(&subsets(given), PortOrder::default()));
            assert_eq!(found, unordered(subsets(expected)), "{case}");
        }
    }
}
