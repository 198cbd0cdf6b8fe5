//! The cached view of a Secret with the token of a ServiceAccount.
//!
//! The cache has no other Secrets, and the view keeps no token: only whether there is one. A write
//! starts from a live read. Upstream: `k8s.io/api/core/v1`, type
//! `kubernetes.io/service-account-token`; its controllers cache all Secrets with their data.

use serde::Deserialize;
use serde::de::Deserializer;

use steersman_values::intern::Sym;
use steersman_values::resource::SECRETS;

use super::wire::Text;
use crate::view;

view! {
    /// A Secret with the token of a ServiceAccount.
    pub struct TokenSecret: SECRETS, selects "type=kubernetes.io/service-account-token",
        annotations: TokenAnnotations {
        /// `data`.
        pub data: TokenData,
    }

    /// The account of a token Secret.
    pub struct TokenAnnotations {
        /// Name of the account; empty when unset.
        #[serde(rename = "kubernetes.io/service-account.name")]
        pub account: Box<str>,
        /// UID of the account; empty when unset.
        #[serde(rename = "kubernetes.io/service-account.uid")]
        pub account_uid: Box<str>,
    }

    /// `data` of a token Secret.
    pub struct TokenData {
        /// Certificates of the authority, in base64. Most Secrets of a cluster share the text.
        #[serde(rename = "ca.crt")]
        pub ca: Sym,
        /// Namespace of the account.
        pub namespace: Filled,
        /// The token.
        pub token: Filled,
    }
}

/// Whether a value of `data` is present and not empty. The value itself is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filled(pub bool);

impl<'de> Deserialize<'de> for Filled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(!Text::deserialize(deserializer)?.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Object;

    fn decoded(annotations: Value, data: Value) -> TokenSecret {
        let metadata = json!({"name": "s", "namespace": "n", "annotations": annotations});
        let secret = json!({"metadata": metadata, "type": "t", "data": data});
        TokenSecret::decode(secret.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_token_secret_is_decoded_without_its_token() {
        let annotations = json!({
            "kubernetes.io/service-account.name": "bot",
            "kubernetes.io/service-account.uid": "u", "other": "x",
        });
        let data = json!({"ca.crt": "Y2E=", "namespace": "bg==", "token": "c2VjcmV0", "extra": ""});
        let secret = decoded(annotations, data);
        assert_eq!(
            (
                &*secret.annotations.account,
                &*secret.annotations.account_uid
            ),
            ("bot", "u")
        );
        let expected = TokenData {
            ca: Sym::new("Y2E="),
            namespace: Filled(true),
            token: Filled(true),
        };
        assert_eq!(secret.data, expected);
        assert!(!format!("{secret:?}").contains("c2VjcmV0"));
    }

    #[test]
    fn absent_null_and_empty_values_are_not_filled() {
        for data in [
            json!({}),
            Value::Null,
            json!({"ca.crt": null, "namespace": null, "token": null}),
            json!({"ca.crt": "", "namespace": "", "token": ""}),
        ] {
            assert_eq!(decoded(Value::Null, data).data, TokenData::default());
        }
    }
}
