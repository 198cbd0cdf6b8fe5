//! The user of a request, with upstream's well-known names and groups.

use std::collections::BTreeMap;

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// A user, as determined by an authenticator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The user of a request without credentials.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// The same user as a member of `system:authenticated`. As upstream, the anonymous user and
    /// members of either well-known group are unchanged.
    pub(super) fn authenticated(mut self) -> Self {
        let is_known = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.name != ANONYMOUS && !self.groups.iter().any(is_known) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Whether upstream takes the user for anonymous: `isAnonymousUser`.
    pub(super) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS || self.is_in(UNAUTHENTICATED)
    }

    /// Whether the user is a member of `group`.
    pub(super) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authenticated_users_join_the_group_where_upstream_adds_it() {
        // (why, name, groups, groups then)
        let cases: [(&str, &str, &[&str], &[&str]); 4] = [
            ("a user", "jane", &["dev"], &["dev", AUTHENTICATED]),
            (
                "already a member",
                "jane",
                &[AUTHENTICATED],
                &[AUTHENTICATED],
            ),
            ("a proxy names the anonymous user", ANONYMOUS, &[], &[]),
            (
                "a proxy names the opposite group",
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
