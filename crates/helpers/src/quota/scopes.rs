//! Scopes: the objects that a quota counts.
//!
//! Upstream: `podMatchesScopeFunc` and `pvcMatchesScopeFunc` in `pkg/quota/v1/evaluator/core`.

use steersman_objects::{PersistentVolumeClaim, Pod, ResourceQuotaSpec, ScopeRequirement};

use super::claims::{ClaimCounting, attributes_classes};
use super::pods::{crosses_namespaces, is_best_effort, is_terminating_scope};

/// The scopes of a quota. Without scopes it counts every object.
#[derive(Debug, Clone, Default)]
pub struct Scopes(Vec<ScopeRequirement>);

/// An object that a quota may count.
#[derive(Debug, Clone, Copy)]
pub enum Scoped<'a> {
    /// A pod.
    Pod(&'a Pod),
    /// A PersistentVolumeClaim.
    Claim(&'a PersistentVolumeClaim),
    /// An object of a type that matches no scope.
    Other,
}

impl<'a> Scoped<'a> {
    /// A PersistentVolumeClaim by the rules of `counting`.
    pub fn of_claim(claim: &'a PersistentVolumeClaim, counting: ClaimCounting) -> Self {
        if counting.attributes_classes {
            Self::Claim(claim)
        } else {
            Self::Other
        }
    }
}

/// A requirement of a scope selector that the API server refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to parse and convert selector: {0}")]
pub struct ScopeError(String);

impl Scopes {
    /// The scopes in the spec of a quota. `scopes` are requirements with the operator `Exists`.
    pub fn of(spec: &ResourceQuotaSpec) -> Self {
        let named = spec.scopes.iter().map(|scope| ScopeRequirement {
            scope_name: scope.clone(),
            operator: "Exists".into(),
            values: Vec::new(),
        });
        let selected = spec.scope_selector.match_expressions.iter().cloned();
        Self(named.chain(selected).collect())
    }

    /// Whether the quota counts every object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `object` is in all scopes.
    ///
    /// # Errors
    /// When a selector is malformed.
    pub fn select(&self, object: Scoped<'_>) -> Result<bool, ScopeError> {
        let mut selected = true;
        for requirement in &self.0 {
            selected &= is_met_by(requirement, object)?;
        }
        Ok(selected)
    }
}

/// Whether `object` is in the scope of `requirement`.
///
/// # Errors
/// When the operator or its values are malformed.
pub(super) fn is_met_by(
    requirement: &ScopeRequirement,
    object: Scoped<'_>,
) -> Result<bool, ScopeError> {
    let exists = requirement.operator == *"Exists";
    match (&*requirement.scope_name, object) {
        ("Terminating", Scoped::Pod(pod)) => Ok(is_terminating_scope(pod)),
        ("NotTerminating", Scoped::Pod(pod)) => Ok(!is_terminating_scope(pod)),
        ("BestEffort", Scoped::Pod(pod)) => Ok(is_best_effort(pod)),
        ("NotBestEffort", Scoped::Pod(pod)) => Ok(!is_best_effort(pod)),
        ("CrossNamespacePodAffinity", Scoped::Pod(pod)) => {
            Ok(crosses_namespaces(&pod.spec.affinity))
        }
        ("PriorityClass", Scoped::Pod(pod)) => {
            let class = pod.spec.priority_class_name.as_deref();
            let class = class.filter(|name| !name.is_empty());
            if exists {
                Ok(class.is_some())
            } else {
                selects(requirement, class)
            }
        }
        ("VolumeAttributesClass", Scoped::Claim(claim)) => {
            let classes = attributes_classes(claim);
            if exists {
                Ok(!classes.is_empty())
            } else if classes.is_empty() {
                selects(requirement, None)
            } else {
                let mut matches = classes
                    .iter()
                    .map(|class| selects(requirement, Some(class)));
                matches.try_fold(false, |found, matches| Ok(found | matches?))
            }
        }
        _ => Ok(false),
    }
}

/// Whether a label of the value `value` meets the requirement. Upstream:
/// `ScopedResourceSelectorRequirementsAsSelector`.
fn selects(requirement: &ScopeRequirement, value: Option<&str>) -> Result<bool, ScopeError> {
    let is_listed =
        || value.is_some_and(|value| requirement.values.iter().any(|one| *one == *value));
    let has_values = !requirement.values.is_empty();
    match &*requirement.operator {
        "In" if has_values => Ok(is_listed()),
        "NotIn" if has_values => Ok(!is_listed()),
        "Exists" if !has_values => Ok(value.is_some()),
        "DoesNotExist" if !has_values => Ok(value.is_none()),
        "In" | "NotIn" => Err(ScopeError(
            "for 'in', 'notin' operators, values set can't be empty".to_owned(),
        )),
        "Exists" | "DoesNotExist" => Err(ScopeError(
            "values set must be empty for exists and does not exist".to_owned(),
        )),
        operator => Err(ScopeError(format!(
            "{operator:?} is not a valid scope selector operator"
        ))),
    }
}
