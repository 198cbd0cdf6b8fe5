//! Who makes a request.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The group whose members may do everything.
pub(super) const MASTERS: &str = "system:masters";
/// The group of everyone who is known.
pub(super) const AUTHENTICATED: &str = "system:authenticated";
/// The group of everyone who is not.
pub(super) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of everyone who is not known.
pub(super) const ANONYMOUS: &str = "system:anonymous";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// A user as authentication made it out: what authorization decides on, and what reviews show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Name, such as `jane` or `system:serviceaccount:default:builder`.
    pub name: String,
    /// Whatever tells users of one name apart over time; may be empty.
    pub uid: String,
    /// Groups, in the order they were found.
    pub groups: Vec<String>,
    /// More about the user, or about the credentials it came with.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user of these groups, and of `system:authenticated`.
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

    /// Whoever shows no credentials.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// The user that a ServiceAccount is.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(
            service_account_name(namespace, name),
            service_account_groups(namespace),
        )
    }

    /// The same with a UID.
    pub fn with_uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }

    /// Whether nothing is forbidden to the user.
    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// As `userInfo` of reviews.
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

/// The name of the user that a ServiceAccount is.
pub(crate) fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT}{namespace}:{name}")
}

/// Groups of every ServiceAccount of a namespace.
pub(crate) fn service_account_groups(namespace: &str) -> [String; 2] {
    [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

/// Namespace and name of the ServiceAccount that a user name is of.
pub(crate) fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}
