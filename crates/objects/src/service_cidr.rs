//! The cached views of ServiceCIDRs and of the IP addresses of Services.
//!
//! A cluster has few ServiceCIDRs. So their view keeps the whole document, where the finalizers are.
//! An IPAddress has its address as name and its family as label, so metadata is sufficient.
//! Upstream: `k8s.io/api/networking/v1`.

use steersman_values::intern::Sym;
use steersman_values::resource::{IP_ADDRESSES, SERVICE_CIDRS};

use crate::view;

view! {
    /// A range of cluster IPs.
    pub struct ServiceCidr: SERVICE_CIDRS, keeps document {
        /// `spec`.
        pub spec: ServiceCidrSpec,
        /// `status`.
        pub status: ServiceCidrStatus,
    }

    /// `spec` of a ServiceCIDR.
    pub struct ServiceCidrSpec {
        /// One range, or one of each family.
        pub cidrs: Vec<Box<str>>,
    }

    /// `status` of a ServiceCIDR.
    pub struct ServiceCidrStatus {
        /// Conditions.
        pub conditions: Vec<ServiceCidrCondition>,
    }

    /// A condition of a ServiceCIDR.
    pub struct ServiceCidrCondition {
        /// Type, such as `Ready`.
        #[serde(rename = "type")]
        pub kind: Sym,
        /// `True`, `False` or `Unknown`.
        pub status: Sym,
        /// Reason; empty when unset.
        pub reason: Sym,
        /// Message for users.
        pub message: Box<str>,
    }
}

impl ServiceCidr {
    /// Whether the list of finalizers contains `finalizer`.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        let object = self.document.to_object();
        let finalizers = object.get("metadata").map(|meta| &meta["finalizers"]);
        let finalizers = finalizers.and_then(|list| list.as_array());
        finalizers.is_some_and(|list| list.iter().any(|name| name == finalizer))
    }
}

view! {
    /// An IP address of a Service. Its name is the address.
    pub struct IpAddress: IP_ADDRESSES {
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Object;

    #[test]
    fn a_service_cidr_is_decoded() {
        let decode = |finalizers: Value, status: Value| {
            let json = json!({
                "metadata": {"name": "c", "finalizers": finalizers},
                "spec": {"cidrs": ["10.0.0.0/24"]}, "status": status,
            });
            ServiceCidr::decode(json.to_string().as_bytes()).unwrap()
        };
        let ready = json!({"conditions": [{"type": "Ready", "status": "True", "message": "m"}]});
        let cidr = decode(json!(["a", "b"]), ready);
        assert_eq!(cidr.spec.cidrs, [Box::from("10.0.0.0/24")]);
        let expected = ServiceCidrCondition {
            kind: Sym::new("Ready"),
            status: Sym::new("True"),
            reason: Sym::new(""),
            message: "m".into(),
        };
        assert_eq!(cidr.status.conditions, [expected]);
        assert!(cidr.has_finalizer("b") && !cidr.has_finalizer("c"));
        let bare = decode(Value::Null, Value::Null);
        assert!(bare.status.conditions.is_empty() && !bare.has_finalizer("b"));
    }
}
