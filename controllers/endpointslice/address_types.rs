//! The address types of the slices of a Service.
//!
//! Upstream: `getAddressTypesForService` of `k8s.io/endpointslice`.

use steersman_helpers::endpointslice::{AddressType, addresses};
use steersman_objects::Service;

/// The address types, in a fixed order.
///
/// A Service without families comes from an API server before dual stack. It has the family of its
/// cluster IP, and both families if it has none.
pub(super) fn address_types(service: &Service) -> Vec<AddressType> {
    use AddressType::{IPv4, IPv6};
    let families = &service.spec.ip_families;
    let has = |family: &AddressType| families.iter().any(|name| *name == family.as_str());
    // Unknown names are ignored, as in upstream. If all are unknown, the Service counts as one
    // without families.
    let named: Vec<AddressType> = [IPv4, IPv6].into_iter().filter(has).collect();
    if !named.is_empty() {
        return named;
    }
    // Nothing tells the family of such a Service. A slice too many stays empty, while a missing one
    // would cut off the traffic of its family.
    if service.is_headless() {
        return vec![IPv4, IPv6];
    }
    // A text that is no address counts as IPv4, as in upstream.
    let address = addresses::parse(&service.spec.cluster_ip);
    vec![address.map_or(IPv4, AddressType::of)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_objects::Object;

    use super::*;

    /// Upstream: `TestSupportedServiceAddressType`.
    #[test]
    fn families_or_the_cluster_ip_decide_about_address_types() {
        use AddressType::{IPv4, IPv6};
        // (upstream's case, families, cluster IP, address types)
        let cases = [
            (
                "v4 service with no ip families (cluster upgrade)",
                json!([]),
                "10.0.0.10",
                vec![IPv4],
            ),
            (
                "v6 service with no ip families (cluster upgrade)",
                json!([]),
                "2000::1",
                vec![IPv6],
            ),
            ("v4 service", json!(["IPv4"]), "10.0.0.10", vec![IPv4]),
            ("v6 services", json!(["IPv6"]), "2000::1", vec![IPv6]),
            (
                "v4,v6 service",
                json!(["IPv4", "IPv6"]),
                "10.0.0.10",
                vec![IPv4, IPv6],
            ),
            (
                "v6,v4 service",
                json!(["IPv6", "IPv4"]),
                "2000::1",
                vec![IPv4, IPv6],
            ),
            (
                "headless with no selector and no families (old api-server)",
                json!(null),
                "None",
                vec![IPv4, IPv6],
            ),
            (
                "headless with selector and no families (old api-server)",
                json!([]),
                "None",
                vec![IPv4, IPv6],
            ),
            (
                "headless with no selector with families",
                json!(["IPv4", "IPv6"]),
                "None",
                vec![IPv4, IPv6],
            ),
            (
                "headless with selector with families",
                json!(["IPv6"]),
                "None",
                vec![IPv6],
            ),
            ("no cluster IP yet", json!([]), "", vec![IPv4, IPv6]),
            ("unknown family", json!(["IPv5"]), "10.0.0.10", vec![IPv4]),
            ("cluster IP that is no address", json!([]), "x", vec![IPv4]),
        ];
        for (case, families, cluster_ip, expected) in cases {
            let spec = json!({"ipFamilies": families, "clusterIP": cluster_ip});
            let json = json!({"metadata": {"name": "web"}, "spec": spec});
            let service = Service::decode(json.to_string().as_bytes()).unwrap();
            assert_eq!(address_types(&service), expected, "{case}");
        }
    }
}
