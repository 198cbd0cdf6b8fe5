//! The caches of a controller.
//!
//! A descriptor lists each cached type once, as a [`Read`]. The watch, the indexes and the RBAC
//! rule of the type follow from it. So a controller cannot read a cache without the right to fill
//! it. Upstream states the rules apart from the informers, in the bootstrap policy.

use std::borrow::Cow;
use std::marker::PhantomData;

use steersman_objects::Object;
use steersman_options::features::{FeatureGates, Gate};
use steersman_releases::Release;

use crate::informer::InformerFactory;
use crate::owner::ByController;
use crate::rbac::Rule;

/// A type that a controller reads from the shared caches.
#[derive(Debug, Clone, Copy)]
pub struct Read {
    /// Lists and watches of the type, in the namespace of its view.
    rule: Rule,
    /// Requests the informer with its indexes. A function pointer hides the type.
    watch: fn(&InformerFactory),
    other: Option<Other>,
}

/// The other form of a type.
#[derive(Debug, Clone, Copy)]
struct Other {
    /// Whether the controller reads this form.
    is_read: IsRead,
    /// Requests the informer of this form.
    watch: fn(&InformerFactory),
}

/// Whether a controller reads a form of a type with these feature gates, as this release.
pub type IsRead = fn(&FeatureGates, Release) -> bool;

impl Read {
    /// Objects of type `O`, by key and by namespace.
    pub const fn of<O: Object>() -> Self {
        let watch = |informers: &InformerFactory| drop(informers.shared::<O>());
        Self {
            rule: Inform::<O>::RULE,
            watch,
            other: None,
        }
    }

    /// The same, and also indexed by controller reference ([`ByController`]).
    pub const fn by_controller<O: Object>() -> Self {
        let watch = |informers: &InformerFactory| {
            drop(ByController::of(&informers.shared::<O>().store()));
        };
        Self {
            rule: Inform::<O>::RULE,
            watch,
            other: None,
        }
    }

    /// Objects of type `O`, which the controller lists from the API server as
    /// [`INFORMERS`](crate::controller::INFORMERS), without a cache. The rule is that of an informer,
    /// since the identity is.
    pub const fn listed<O: Object>() -> Self {
        Self {
            rule: Inform::<O>::RULE,
            watch: |_| {},
            other: None,
        }
    }

    /// The same, but objects of type `Form` instead while `is_read` holds. Both are forms of one resource, so the
    /// rule serves either.
    #[must_use]
    pub const fn or<Form: Object>(self, is_read: IsRead) -> Self {
        let watch = |informers: &InformerFactory| drop(informers.shared::<Form>());
        Self {
            other: Some(Other { is_read, watch }),
            ..self
        }
    }

    /// The same, only while `gate` is on.
    #[must_use]
    pub const fn with_gate(self, gate: Gate) -> Self {
        Self {
            rule: self.rule.with_gate(gate),
            ..self
        }
    }

    /// The right that the shared informer needs.
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// Requests the cache with its indexes from `informers`, unless its feature gate is off. A
    /// second call has no effect.
    pub fn watch(&self, informers: &InformerFactory, features: &FeatureGates, release: Release) {
        if !self.rule.is_needed(features) {
            return;
        }
        match self.other {
            Some(other) if (other.is_read)(features, release) => (other.watch)(informers),
            _ => (self.watch)(informers),
        }
    }
}

/// The rule of the informer of `O`. It is a constant, because [`Rule`] holds static texts.
struct Inform<O>(PhantomData<O>);

impl<O: Object> Inform<O> {
    const GROUPS: &'static [&'static str] = &[text(&O::RESOURCE.group)];
    const RESOURCES: &'static [&'static str] = &[text(&O::RESOURCE.plural)];
    const RULE: Rule = Rule::new(Self::GROUPS, Self::RESOURCES, Rule::INFORM).within(O::NAMESPACE);
}

#[allow(clippy::ptr_arg, reason = "the deref of a Cow is not const")]
const fn text(name: &'static Cow<'static, str>) -> &'static str {
    match name {
        Cow::Borrowed(name) => name,
        Cow::Owned(_) => panic!("names of built-in types are static"),
    }
}

#[cfg(test)]
mod tests {
    use steersman_objects::{BootstrapToken, Pod, ReplicaSet};

    use super::*;

    #[test]
    fn the_right_to_read_follows_from_the_type() {
        assert_eq!(
            Read::of::<Pod>().rule(),
            Rule::new(&[""], &["pods"], &["list", "watch"])
        );
        let replica_sets = Rule::new(&["apps"], &["replicasets"], &["list", "watch"]);
        assert_eq!(Read::by_controller::<ReplicaSet>().rule(), replica_sets);
        let tokens = Rule::new(&[""], &["secrets"], &["list", "watch"]);
        assert_eq!(
            Read::of::<BootstrapToken>().rule(),
            tokens.within(Some("kube-system"))
        );
    }
}
