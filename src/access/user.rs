//! Who is asking.

use std::collections::BTreeMap;

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// A user as an authenticator found one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Who shows no credentials.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// The same user, as a member of those whose credentials were good.
    pub(super) fn authenticated(mut self) -> Self {
        let is_known = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.name != ANONYMOUS && !self.groups.iter().any(is_known) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    pub(super) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_the_authenticated_is_added_where_upstream_does() {
        // (why, name, groups, groups then)
        let cases: [(&str, &str, &[&str], &[&str]); 4] = [
            ("a user", "jane", &["dev"], &["dev", AUTHENTICATED]),
            (
                "already a member",
                "jane",
                &[AUTHENTICATED],
                &[AUTHENTICATED],
            ),
            ("a proxy speaks for nobody", ANONYMOUS, &[], &[]),
            (
                "a proxy says so",
                "jane",
                &[UNAUTHENTICATED],
                &[UNAUTHENTICATED],
            ),
        ];
        for (why, name, groups, expected) in cases {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            let user = User {
                name: name.to_owned(),
                groups,
                ..User::default()
            };
            assert_eq!(user.authenticated().groups, expected, "{why}");
        }
    }
}
