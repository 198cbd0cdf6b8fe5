//! What a controller may do at the API server, as rules of a role.

/// One rule: every verb on every resource of every group. Roles of RBAC are made of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Rule {
    /// API groups; the core group is empty, `*` are all.
    #[serde(rename = "apiGroups")]
    pub groups: &'static [&'static str],
    /// Plural resources, or `deployments/status`; `*` are all.
    pub resources: &'static [&'static str],
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verbs: &'static [&'static str],
}

impl Rule {
    /// Verbs of a shared informer.
    pub(crate) const INFORM: &'static [&'static str] = &["list", "watch"];

    /// Writing Events, as [`crate::events::EventRecorder`] does.
    pub const EVENTS: Self = Self::new(&[""], &["events"], &["create", "patch"]);

    /// A rule.
    pub const fn new(
        groups: &'static [&'static str],
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            groups,
            resources,
            verbs,
        }
    }

    /// The part of this rule that the shared informers of the process need, in whose name they run
    /// when controllers have names of their own; `None` when nothing of it is watched.
    pub fn of_informers(&self) -> Option<Self> {
        let is_watched = Self::INFORM.iter().all(|verb| self.verbs.contains(verb));
        is_watched.then_some(Self {
            verbs: Self::INFORM,
            ..*self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn informers_need_what_is_watched_and_no_more() {
        let rule = |verbs| Rule::new(&["apps"], &["deployments"], verbs);
        assert_eq!(
            rule(&["get", "list", "update", "watch"]).of_informers(),
            Some(rule(&["list", "watch"]))
        );
        assert_eq!(
            rule(&["list", "deletecollection"]).of_informers(),
            None,
            "lists of its own"
        );
        assert_eq!(Rule::EVENTS.of_informers(), None);
    }
}
