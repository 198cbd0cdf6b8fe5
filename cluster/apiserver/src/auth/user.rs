//! Users: name, groups, UID and extra fields.
//!
//! Upstream: `user.Info` in `k8s.io/apiserver/pkg/authentication/user`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Members of this group can do everything.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of all authenticated users.
pub(super) const AUTHENTICATED: &str = "system:authenticated";
/// The group of all anonymous users.
pub(super) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of anonymous users.
pub(super) const ANONYMOUS: &str = "system:anonymous";
/// The key of `extra` that tells one credential of a user from another.
pub(super) const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// A user as authentication established it. Authorization decides on it, and reviews show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Name, such as `jane` or `system:serviceaccount:default:builder`.
    pub name: String,
    /// Distinguishes users that had the same name at different times; may be empty.
    pub uid: String,
    /// Groups, in the order in which authentication found them.
    pub groups: Vec<String>,
    /// Further data about the user or its credentials.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user in these groups and in `system:authenticated`.
    pub fn new<G: Into<String>>(
        name: impl Into<String>,
        groups: impl IntoIterator<Item = G>,
    ) -> Self {
        let mut user = Self {
            name: name.into(),
            groups: groups.into_iter().map(Into::into).collect(),
            ..Self::default()
        };
        if !user.is_in(AUTHENTICATED) {
            user.groups.push(AUTHENTICATED.to_owned());
        }
        user
    }

    /// The user `admin` of the group `system:masters`.
    pub fn admin() -> Self {
        Self::new("admin", [MASTERS])
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// The user of a ServiceAccount.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(
            service_account_name(namespace, name),
            service_account_groups(namespace),
        )
    }

    /// The same user with a UID.
    pub fn with_uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }

    /// Whether the user is in `system:masters` and can do everything.
    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// The JSON form in `userInfo` of reviews.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = json!({"username": self.name});
        if !self.uid.is_empty() {
            value["uid"] = Value::from(self.uid.as_str());
        }
        if !self.groups.is_empty() {
            value["groups"] = Value::from(self.groups.as_slice());
        }
        if !self.extra.is_empty() {
            value["extra"] = self
                .extra
                .iter()
                .map(|(key, values)| (key.clone(), Value::from(values.as_slice())))
                .collect::<Map<_, _>>()
                .into();
        }
        value
    }
}

/// The user name of a ServiceAccount.
pub(crate) fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT}{namespace}:{name}")
}

/// The groups of every ServiceAccount in a namespace.
pub(crate) fn service_account_groups(namespace: &str) -> [String; 2] {
    [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

/// Namespace and name of the ServiceAccount with this user name, or `None` for other users.
pub(crate) fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}
