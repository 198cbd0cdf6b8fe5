//! The cached view of an EndpointSlice.
//!
//! A large cluster has one endpoint per pod and Service. An endpoint is therefore kept once, in the
//! decoded form, and the [`Document`](super::Document) omits the endpoints. [`Endpoint`] has all
//! fields of upstream's type, so a write of the whole object loses none of them. Upstream:
//! `k8s.io/api/discovery/v1`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use steersman_values::intern::Sym;
use steersman_values::resource::ENDPOINT_SLICES;

use super::target_ref::TargetRef;
use super::wire::{Text, nullable};
use crate::view;

view! {
    /// An EndpointSlice.
    pub struct EndpointSlice: ENDPOINT_SLICES, keeps document without endpoints: Vec<Endpoint> {
        /// `IPv4`, `IPv6` or `FQDN`.
        pub address_type: Sym,
        /// Ports of all endpoints of the slice.
        pub ports: Vec<EndpointSlicePort>,
    }
}

/// One endpoint. It serialises in the order of upstream's Go type, and omits the fields that Go
/// omits. `deprecatedTopology` is missing, because the API server drops it from every write of v1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Addresses, at least one.
    #[serde(deserialize_with = "nullable")]
    pub addresses: Addresses,
    /// Conditions.
    #[serde(deserialize_with = "nullable")]
    pub conditions: EndpointConditions,
    /// Hostname.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Box<str>>,
    /// The object behind the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// Node of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Sym>,
    /// Zone of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Sym>,
    /// The clients that should prefer the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Box<EndpointHints>>,
}

/// Conditions of an endpoint. Unset differs from false.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Whether the endpoint is ready for traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Whether the endpoint serves, even if it is terminating.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// Whether the endpoint is terminating.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// The names of zones and nodes. Clients there should prefer the endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    /// Zones.
    #[serde(with = "names", skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<Sym>,
    /// Nodes.
    #[serde(with = "names", skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<Sym>,
}

/// A port of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlicePort {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Sym>,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Sym>,
    /// Number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Sym>,
}

/// The addresses of an endpoint, joined with commas to save allocations. IP addresses and domain
/// names contain no comma.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addresses(Box<str>);

impl Addresses {
    /// The list of `addresses`.
    pub fn new<'a>(addresses: impl IntoIterator<Item = &'a str>) -> Self {
        let mut joined = String::new();
        for address in addresses {
            if !joined.is_empty() {
                joined.push(',');
            }
            joined.push_str(address);
        }
        Self(joined.into())
    }

    /// The addresses, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split(',').filter(|address| !address.is_empty())
    }

    /// Whether there is no address.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Addresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list: Vec<Text<'de>> = Vec::deserialize(deserializer)?;
        Ok(Self::new(list.iter().map(|address| &**address)))
    }
}

/// Lists of objects that have only a name.
mod names {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use steersman_values::intern::Sym;

    use super::nullable;

    #[derive(Serialize, Deserialize)]
    struct Named {
        #[serde(default, deserialize_with = "nullable")]
        name: Sym,
    }

    pub(super) fn serialize<S: Serializer>(
        names: &[Sym],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(names.iter().map(|name| Named { name: name.clone() }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Sym>, D::Error> {
        let list: Vec<Named> = nullable(deserializer)?;
        Ok(list.into_iter().map(|named| named.name).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Object;

    fn slice(endpoints: &Value, ports: &Value) -> EndpointSlice {
        let json = json!({
            "metadata": {"name": "web-x", "managedFields": [{}], "labels": {"a": "1"}},
            "addressType": "IPv4", "endpoints": endpoints, "ports": ports, "x": 1,
        });
        EndpointSlice::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn endpoints_and_ports_are_written_as_they_were_read() {
        let endpoints = json!([
            {
                "addresses": ["10.0.0.1", "10.0.0.2"],
                "conditions": {"ready": true, "serving": false, "terminating": true},
                "hostname": "web-0", "targetRef": {"kind": "Pod", "name": "web-0"}, "nodeName": "n1", "zone": "a",
                "hints": {"forZones": [{"name": "a"}, {"name": "b"}], "forNodes": [{"name": "n1"}]},
            },
            {"addresses": ["10.0.0.3"], "conditions": {}, "hints": {}},
        ]);
        let ports = json!([
            {"name": "", "protocol": "TCP", "port": 80, "appProtocol": "h2c"},
            {},
        ]);
        let found = slice(&endpoints, &ports);
        assert_eq!(serde_json::to_value(&found.endpoints).unwrap(), endpoints);
        assert_eq!(serde_json::to_value(&found.ports).unwrap(), ports);
    }

    #[test]
    fn null_members_of_a_slice_are_unset() {
        let null = json!([{
            "addresses": null, "conditions": null, "hostname": null, "targetRef": null, "nodeName": null,
            "zone": null, "hints": null, "deprecatedTopology": {"a": "1"},
        }]);
        let port = json!([{"name": null, "protocol": null, "port": null, "appProtocol": null}]);
        let found = slice(&null, &port);
        assert_eq!(found.endpoints, [Endpoint::default()]);
        assert_eq!(found.ports, [EndpointSlicePort::default()]);
        let bare = slice(&Value::Null, &Value::Null);
        assert!(bare.endpoints.is_empty() && bare.ports.is_empty());
    }

    #[test]
    fn the_document_omits_endpoints_and_keeps_unknown_members() {
        let expected = json!({
            "metadata": {"name": "web-x", "labels": {"a": "1"}}, "addressType": "IPv4", "ports": [], "x": 1,
        });
        for endpoints in [json!([{"addresses": ["10.0.0.1"]}]), Value::Null] {
            let found = slice(&endpoints, &json!([]));
            let document: Value = serde_json::from_str(&found.document.text()).unwrap();
            assert_eq!(document, expected, "{endpoints}");
        }
    }
}
