//! The cached view of an Endpoints object.
//!
//! The Endpoints controller PUTs the whole object with other subsets, so the view keeps the rest of
//! the object as a [`Document`](super::Document). The decoded subsets are complete, and a write
//! serialises them in upstream's form. Upstream: `k8s.io/api/core/v1`.

use serde::{Deserialize, Serialize};

use steersman_values::intern::Sym;
use steersman_values::resource::ENDPOINTS;

use super::meta::Annotations;
use super::target_ref::TargetRef;
use super::wire::nullable;
use crate::view;

view! {
    /// An Endpoints object.
    pub struct Endpoints: ENDPOINTS, annotations: Annotations,
        keeps document without subsets: Vec<EndpointSubset> {
    }
}

/// Addresses that have the same ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSubset {
    /// Addresses that are ready.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub addresses: Vec<EndpointAddress>,
    /// Addresses that are not ready.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub ports: Vec<EndpointPort>,
}

/// One address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAddress {
    /// IP address, as served.
    #[serde(deserialize_with = "nullable")]
    pub ip: Box<str>,
    /// Hostname; empty when unset.
    #[serde(skip_serializing_if = "str::is_empty", deserialize_with = "nullable")]
    pub hostname: Box<str>,
    /// Node of the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Sym>,
    /// The object behind the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

/// A port of a subset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// Name; empty when unset.
    #[serde(skip_serializing_if = "str::is_empty", deserialize_with = "nullable")]
    pub name: Sym,
    /// Number.
    #[serde(deserialize_with = "nullable")]
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`; empty when unset.
    #[serde(skip_serializing_if = "str::is_empty", deserialize_with = "nullable")]
    pub protocol: Sym,
    /// Application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Sym>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Object;

    fn endpoints(subsets: &Value) -> Endpoints {
        let json = json!({
            "metadata": {"name": "web", "managedFields": [{}], "annotations": {"a": "1"}},
            "subsets": subsets, "x": 1,
        });
        Endpoints::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn subsets_are_written_as_they_were_read() {
        let subsets = json!([{
            "addresses": [
                {"ip": "10.0.0.1", "hostname": "web-0", "nodeName": "n1", "targetRef": {"kind": "Pod", "name": "web-0"}},
                {"ip": "010.0.0.2", "nodeName": ""},
            ],
            "notReadyAddresses": [{"ip": "fd00::1"}],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "h2c"}, {"port": 53}],
        }]);
        let found = endpoints(&subsets);
        assert_eq!(serde_json::to_value(&found.subsets).unwrap(), subsets);
        assert_eq!(found.annotations.get("a"), Some("1"));
    }

    #[test]
    fn the_document_omits_subsets_and_keeps_unknown_members() {
        let expected = json!({"metadata": {"name": "web", "annotations": {"a": "1"}}, "x": 1});
        for subsets in [json!([{"ports": [{"port": 1}]}]), json!([]), Value::Null] {
            let found = endpoints(&subsets);
            let document: Value = serde_json::from_str(&found.document.text()).unwrap();
            assert_eq!(document, expected, "{subsets}");
        }
    }

    #[test]
    fn null_members_of_subsets_are_unset() {
        let null = json!([
            {"addresses": null, "notReadyAddresses": null, "ports": null},
            {"addresses": [{"ip": null, "hostname": null, "nodeName": null, "targetRef": null}],
             "ports": [{"name": null, "port": null, "protocol": null, "appProtocol": null}]},
        ]);
        let expected = [
            EndpointSubset::default(),
            EndpointSubset {
                addresses: vec![EndpointAddress::default()],
                ports: vec![EndpointPort::default()],
                ..EndpointSubset::default()
            },
        ];
        assert_eq!(endpoints(&null).subsets, expected);
        assert!(endpoints(&Value::Null).subsets.is_empty());
    }
}
