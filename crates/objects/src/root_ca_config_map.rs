//! The cached view of a ConfigMap `kube-root-ca.crt`.
//!
//! Every namespace has one, all with equal data, so the view interns the data and its document
//! omits it. Upstream: `k8s.io/api/core/v1`; its controllers cache all ConfigMaps.

use std::ops::Deref;

use serde::Deserialize;

use steersman_values::labels::Labels;
use steersman_values::resource::CONFIG_MAPS;

use crate::view;

view! {
    /// A ConfigMap `kube-root-ca.crt`.
    pub struct RootCaConfigMap: CONFIG_MAPS, selects "metadata.name=kube-root-ca.crt",
        annotations: Description, keeps document without data: PublishedData {
    }

    /// The annotation of a published ConfigMap.
    pub struct Description {
        /// A text for users; empty when unset.
        #[serde(rename = "kubernetes.io/description")]
        pub text: Box<str>,
    }
}

/// `data` of a ConfigMap. Equal data is shared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct PublishedData(Labels);

impl PublishedData {
    /// Data with one pair.
    pub fn of(key: &str, value: &str) -> Self {
        Self(Labels::new([(key, value)]))
    }
}

impl Deref for PublishedData {
    type Target = Labels;
    fn deref(&self) -> &Labels {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;

    #[test]
    fn a_published_config_map_keeps_everything_but_its_data() {
        let metadata = json!({
            "name": "kube-root-ca.crt", "namespace": "n", "resourceVersion": "7",
            "annotations": {"kubernetes.io/description": "d", "x": "y"},
        });
        let json = json!({"metadata": metadata, "data": {"ca.crt": "pem"}, "immutable": true});
        let map = RootCaConfigMap::decode(json.to_string().as_bytes()).unwrap();
        assert_eq!(&*map.annotations.text, "d");
        assert_eq!(map.data, PublishedData::of("ca.crt", "pem"));
        let kept = serde_json::to_value(map.document.to_object()).unwrap();
        assert_eq!(kept, json!({"metadata": metadata, "immutable": true}));
        let bare = RootCaConfigMap::decode(br#"{"metadata":{"name":"m"},"data":null}"#).unwrap();
        assert_eq!(bare.data, PublishedData::default());
    }
}
