//! The RBAC policy: which subjects the bindings select, and which rules their roles contain.
//!
//! A policy is compiled once per change of a role or binding, because every request needs a
//! decision. Upstream: `plugin/pkg/auth/authorizer/rbac` and `pkg/registry/rbac/validation`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::attributes::{Attributes, Wanted};
use super::rules::Rule;
use super::user::{User, service_account_name};
use crate::store::Object;

/// The decision about a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// The binding that allowed the request, or the errors in finding rules.
    pub(crate) reason: String,
}

/// All roles and bindings at one revision.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    cluster_roles: BTreeMap<String, Arc<[Rule]>>,
    /// By `namespace/name`.
    roles: BTreeMap<String, Arc<[Rule]>>,
    cluster_bindings: Vec<Binding>,
    /// By namespace.
    bindings: BTreeMap<String, Vec<Binding>>,
}

/// The objects from which a policy is compiled.
pub(crate) struct Sources<'a> {
    pub(crate) cluster_roles: &'a [Arc<Object>],
    pub(crate) roles: &'a [Arc<Object>],
    pub(crate) cluster_bindings: &'a [Arc<Object>],
    pub(crate) bindings: &'a [Arc<Object>],
}

#[derive(Debug)]
struct Binding {
    name: String,
    /// Empty for a ClusterRoleBinding.
    namespace: String,
    role: RoleRef,
    subjects: Vec<Subject>,
}

/// The role that a binding references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoleRef {
    pub(crate) kind: String,
    pub(crate) name: String,
}

#[derive(Debug)]
struct Subject {
    kind: String,
    namespace: String,
    name: String,
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

impl RoleRef {
    /// The `roleRef` of a binding.
    pub(crate) fn of(binding: &Value) -> Self {
        Self {
            kind: text(&binding["roleRef"], "kind"),
            name: text(&binding["roleRef"], "name"),
        }
    }
}

impl Binding {
    fn parse(object: &Object) -> Self {
        let value = object.to_value();
        let subjects = value["subjects"].as_array().into_iter().flatten();
        let subject = |subject| Subject {
            kind: text(subject, "kind"),
            namespace: text(subject, "namespace"),
            name: text(subject, "name"),
        };
        Self {
            name: object.name().to_owned(),
            namespace: object.namespace().to_owned(),
            role: RoleRef::of(&value),
            subjects: subjects.map(subject).collect(),
        }
    }

    /// The subject of the binding that includes the user, if any.
    fn subject_of(&self, user: &User) -> Option<&Subject> {
        self.subjects
            .iter()
            .find(|subject| match subject.kind.as_str() {
                "User" => subject.name == user.name,
                "Group" => user.is_in(&subject.name),
                "ServiceAccount" => {
                    let namespace = subject.namespace_in(&self.namespace);
                    !namespace.is_empty()
                        && service_account_name(namespace, &subject.name) == user.name
                }
                _ => false,
            })
    }

    /// The text in the reason of a decision.
    fn describe(&self, subject: &Subject) -> String {
        let RoleRef { kind, name } = &self.role;
        let binding = match self.namespace.as_str() {
            "" => format!("ClusterRoleBinding {:?}", self.name),
            namespace => format!("RoleBinding {:?}", format!("{}/{namespace}", self.name)),
        };
        let subject_name = match subject.kind.as_str() {
            "ServiceAccount" => {
                format!("{}/{}", subject.name, subject.namespace_in(&self.namespace))
            }
            _ => subject.name.clone(),
        };
        format!(
            "{binding} of {kind} {name:?} to {} {subject_name:?}",
            subject.kind
        )
    }
}

impl Subject {
    /// The namespace of the subject. A ServiceAccount without one is in the binding's namespace.
    fn namespace_in<'a>(&'a self, binding: &'a str) -> &'a str {
        if self.namespace.is_empty() {
            binding
        } else {
            &self.namespace
        }
    }
}

impl Policy {
    /// Compiles a policy from these objects. An aggregated ClusterRole has the rules that a controller
    /// has written into it.
    pub(crate) fn compile(sources: &Sources<'_>) -> Self {
        let rules = |role: &Value| Arc::from(Rule::all_of(role));
        let cluster_roles = sources
            .cluster_roles
            .iter()
            .map(|role| (role.name().to_owned(), rules(&role.to_value())));
        let roles = sources
            .roles
            .iter()
            .map(|role| (role.key.to_string(), rules(&role.to_value())));
        let mut bindings: BTreeMap<String, Vec<Binding>> = BTreeMap::new();
        for binding in sources.bindings {
            bindings
                .entry(binding.namespace().to_owned())
                .or_default()
                .push(Binding::parse(binding));
        }
        Self {
            cluster_roles: cluster_roles.collect(),
            roles: roles.collect(),
            cluster_bindings: sources
                .cluster_bindings
                .iter()
                .map(|binding| Binding::parse(binding))
                .collect(),
            bindings,
        }
    }

    /// Whether a user can do something. Members of `system:masters` can do everything.
    pub(crate) fn decide(&self, user: &User, wanted: &Attributes) -> Decision {
        if user.is_master() {
            return Decision {
                allowed: true,
                reason: String::new(),
            };
        }
        let namespace = match &wanted.object {
            Wanted::Resource(object) => object.namespace.as_str(),
            Wanted::Path(_) => "",
        };
        let mut problems = Vec::new();
        for (binding, subject) in self.bindings_of(user, namespace) {
            match self.rules_of(&binding.role, &binding.namespace) {
                Ok(rules) if rules.iter().any(|rule| rule.allows(wanted)) => {
                    return Decision {
                        allowed: true,
                        reason: format!("RBAC: allowed by {}", binding.describe(subject)),
                    };
                }
                Ok(_) => {}
                Err(problem) => problems.push(problem),
            }
        }
        Decision {
            allowed: false,
            reason: summary(problems)
                .map_or_else(String::new, |problems| format!("RBAC: {problems}")),
        }
    }

    /// All rules of a user in a namespace (empty for cluster-wide rules only), and the errors in
    /// finding others.
    pub(crate) fn rules_for(&self, user: &User, namespace: &str) -> (Vec<Rule>, Option<String>) {
        let mut rules = Vec::new();
        let mut problems = Vec::new();
        for (binding, _) in self.bindings_of(user, namespace) {
            match self.rules_of(&binding.role, &binding.namespace) {
                Ok(found) => rules.extend(found.iter().cloned()),
                Err(problem) => problems.push(problem),
            }
        }
        (rules, summary(problems))
    }

    /// The rules of a role. `namespace` is the namespace of the binding.
    pub(crate) fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<Arc<[Rule]>, String> {
        let RoleRef { kind, name } = role;
        let found = match kind.as_str() {
            "ClusterRole" => self.cluster_roles.get(name),
            "Role" => self.roles.get(&format!("{namespace}/{name}")),
            other => return Err(format!("unsupported role reference kind: {other:?}")),
        };
        found.cloned().ok_or_else(|| {
            format!(
                "{}.rbac.authorization.k8s.io {name:?} not found",
                kind.to_lowercase()
            )
        })
    }

    /// Bindings that include the user: those of the cluster, and those of the namespace.
    fn bindings_of<'a>(
        &'a self,
        user: &'a User,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Binding, &'a Subject)> {
        let local = if namespace.is_empty() {
            None
        } else {
            self.bindings.get(namespace)
        };
        let bindings = self
            .cluster_bindings
            .iter()
            .chain(local.into_iter().flatten());
        bindings
            .filter_map(move |binding| binding.subject_of(user).map(|subject| (binding, subject)))
    }
}

/// Several errors in one line without duplicates.
fn summary(problems: Vec<String>) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut problems: Vec<String> = problems
        .into_iter()
        .filter(|problem| seen.insert(problem.clone()))
        .collect();
    match problems.len() {
        0 | 1 => problems.pop(),
        _ => Some(format!("[{}]", problems.join(", "))),
    }
}
