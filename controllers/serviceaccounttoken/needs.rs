//! The parts that a token Secret lacks, and the Secret with these parts.
//!
//! Upstream: `secretUpdateNeeded` and `generateTokenIfNeeded`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use steersman_objects::{ServiceAccount, TokenData};

/// The annotations with name and UID of the account.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The certificates that Secrets contain, in base64; empty if there are none.
pub(super) struct RootCa(String);

impl RootCa {
    pub(super) fn new(pem: &[u8]) -> Self {
        Self(BASE64_STANDARD.encode(pem))
    }
}

/// The parts that a Secret lacks, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needs {
    /// `ca.crt` is another text.
    ca: bool,
    /// `namespace` is empty. Another value stays.
    namespace: bool,
    /// `token` is empty. A token stays, whichever key has signed it.
    pub(super) token: bool,
}

impl Needs {
    /// The parts that a Secret with this data lacks; `None` if it is complete.
    pub(super) fn of(data: &TokenData, root_ca: &RootCa) -> Option<Self> {
        let needs = Self {
            ca: !root_ca.0.is_empty() && data.ca != *root_ca.0,
            namespace: !data.namespace.0,
            token: !data.token.0,
        };
        (needs.ca || needs.namespace || needs.token).then_some(needs)
    }

    /// `secret` with the missing parts, and with the annotations of `account`. `token` is the new
    /// token, if the Secret needs one.
    pub(super) fn filled(
        self,
        mut secret: Map<String, Value>,
        account: &ServiceAccount,
        token: Option<&str>,
        root_ca: &RootCa,
    ) -> Map<String, Value> {
        let meta = &account.meta;
        let data = member(&mut secret, "data");
        if self.ca {
            data.insert("ca.crt".to_owned(), json!(root_ca.0));
        }
        if self.namespace {
            let namespace = BASE64_STANDARD.encode(&*meta.namespace);
            data.insert("namespace".to_owned(), json!(namespace));
        }
        if let Some(token) = token {
            data.insert("token".to_owned(), json!(BASE64_STANDARD.encode(token)));
        }
        let annotations = member(member(&mut secret, "metadata"), "annotations");
        annotations.insert(ACCOUNT_NAME.to_owned(), json!(meta.name));
        annotations.insert(ACCOUNT_UID.to_owned(), json!(meta.uid));
        secret
    }
}

/// The object in the member `name`, which is made if it is absent or `null`.
fn member<'a>(object: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let member = object.entry(name).or_insert(Value::Null);
    if !member.is_object() {
        *member = Value::Object(Map::new());
    }
    member
        .as_object_mut()
        .expect("the line above makes an object")
}
