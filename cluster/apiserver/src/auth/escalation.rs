//! Privilege escalation checks: users can only grant permissions that they hold.
//!
//! Writes of roles need every granted rule, or the verb `escalate`. Writes of bindings need every
//! rule of the role, or the verb `bind`. Upstream: `pkg/registry/rbac/escalation_check.go` and the
//! `policybased` storages.

use std::sync::Arc;

use serde_json::{Value, json};

use super::attributes::{Attributes, ResourceRequest};
use super::policy::{Policy, RoleRef};
use super::rules::{Rule, missing, quoted};
use super::user::User;
use crate::Server;
use crate::route::Target;
use crate::status::{Qualified, Status};

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// Metadata fields that cannot grant permissions when they change.
const HARMLESS: [&str; 3] = ["ownerReferences", "finalizers", "managedFields"];

impl Server {
    /// 403 if `new`, which replaces `old`, grants more than `user` has. The verbs `escalate` for
    /// roles and `bind` for bindings lift the check.
    pub(super) fn check_escalation(
        &self,
        user: &User,
        target: &Target,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<(), Status> {
        let resource = target.resource();
        if resource.group != GROUP
            || user.is_master()
            || old.is_some_and(|old| is_harmless(old, new))
        {
            return Ok(());
        }
        let check = Attempt {
            policy: self.policy(),
            user,
            target,
            name: new["metadata"]["name"].as_str().unwrap_or_default(),
        };
        match &*resource.plural {
            "roles" | "clusterroles" => check.write_role(old, new),
            _ => check.bind(&RoleRef::of(new)),
        }
    }
}

/// A write of a role or binding by a user.
struct Attempt<'a> {
    policy: Arc<Policy>,
    user: &'a User,
    target: &'a Target,
    name: &'a str,
}

impl Attempt<'_> {
    /// Checks that a role only contains rules that the user has.
    fn write_role(&self, old: Option<&Value>, new: &Value) -> Result<(), Status> {
        if self.may(
            "escalate",
            &self.target.resource().plural,
            &self.target.name,
        ) {
            return Ok(());
        }
        self.covers(&Rule::all_of(new))?;
        // Roles that controllers later add to an aggregation are unknown now, so the user must hold
        // every permission.
        let is_aggregated = |role: &Value| {
            role["aggregationRule"]["clusterRoleSelectors"]
                .as_array()
                .is_some_and(|selectors| !selectors.is_empty())
        };
        if is_aggregated(new) || old.is_some_and(is_aggregated) {
            let anything = ["*".to_owned()].to_vec();
            let everything = [
                Rule {
                    verbs: anything.clone(),
                    groups: anything.clone(),
                    resources: anything.clone(),
                    ..Rule::default()
                },
                Rule {
                    verbs: anything.clone(),
                    urls: anything,
                    ..Rule::default()
                },
            ];
            let why = "must have cluster-admin privileges to use the aggregationRule";
            self.covers(&everything).map_err(|_| self.refused(why))?;
        }
        Ok(())
    }

    /// Checks that the user has all rules of the role that a binding references.
    fn bind(&self, role: &RoleRef) -> Result<(), Status> {
        let plural = if role.kind == "ClusterRole" {
            "clusterroles"
        } else {
            "roles"
        };
        if self.may("bind", plural, &role.name) {
            return Ok(());
        }
        let kind = role.kind.to_lowercase();
        let missing = |_| {
            Status::not_found(
                Qualified {
                    group: GROUP,
                    name: &kind,
                },
                &role.name,
            )
        };
        self.covers(
            &self
                .policy
                .rules_of(role, &self.target.namespace)
                .map_err(missing)?,
        )
    }

    /// 403 unless the user has all of `rules`.
    fn covers(&self, rules: &[Rule]) -> Result<(), Status> {
        let (held, problem) = self.policy.rules_for(self.user, &self.target.namespace);
        let missing = missing(&held, rules);
        if missing.is_empty() {
            return Ok(());
        }
        let mut why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            self.user.name,
            quoted(&self.user.groups),
            missing.join("\n")
        );
        if let Some(problem) = problem {
            why = format!("{why}; resolution errors: [{problem}]");
        }
        Err(self.refused(&why))
    }

    /// Whether RBAC allows the user a verb on a role.
    fn may(&self, verb: &str, plural: &str, name: &str) -> bool {
        let object = ResourceRequest {
            group: GROUP.to_owned(),
            resource: plural.to_owned(),
            namespace: self.target.namespace.clone(),
            name: name.to_owned(),
            ..ResourceRequest::default()
        };
        self.policy
            .decide(self.user, &Attributes::resource(verb, object))
            .allowed
    }

    fn refused(&self, why: &str) -> Status {
        Status::forbidden(self.target.resource().named(), self.name, why)
    }
}

/// Whether a change only touches metadata that the garbage collector changes.
fn is_harmless(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        for field in HARMLESS {
            object["metadata"][field] = json!(null);
        }
        object
    };
    rest(old) == rest(new)
}
