//! The caches of a controller: from one line per type follow its watch, its indexes and its rights
//! to read.

use std::borrow::Cow;
use std::marker::PhantomData;

use crate::informer::InformerFactory;
use crate::object::Object;
use crate::owner::ByController;
use crate::rbac::Rule;

/// A type that a controller reads from the shared caches.
#[derive(Debug, Clone, Copy)]
pub struct Read {
    rule: Rule,
    watch: fn(&InformerFactory),
}

impl Read {
    /// Objects of type `O`, by key and by namespace.
    pub const fn of<O: Object>() -> Self {
        let watch = |informers: &InformerFactory| drop(informers.shared::<O>());
        Self {
            rule: Inform::<O>::RULE,
            watch,
        }
    }

    /// The same, and by the object that controls them ([`ByController`]).
    pub const fn by_controller<O: Object>() -> Self {
        let watch = |informers: &InformerFactory| {
            drop(ByController::of(&informers.shared::<O>().store()));
        };
        Self {
            rule: Inform::<O>::RULE,
            watch,
        }
    }

    /// The right that the shared informer needs.
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// Asks `informers` for the cache with its indexes; asking again is harmless.
    pub fn watch(&self, informers: &InformerFactory) {
        (self.watch)(informers);
    }
}

/// The rule of the informer of `O`, made at compile time because roles are made of static texts.
struct Inform<O>(PhantomData<O>);

impl<O: Object> Inform<O> {
    const GROUPS: &'static [&'static str] = &[text(&O::RESOURCE.group)];
    const RESOURCES: &'static [&'static str] = &[text(&O::RESOURCE.plural)];
    const RULE: Rule = Rule::new(Self::GROUPS, Self::RESOURCES, Rule::INFORM);
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
    use super::*;
    use crate::object::{Pod, ReplicaSet};

    #[test]
    fn the_right_to_read_follows_from_the_type() {
        assert_eq!(
            Read::of::<Pod>().rule(),
            Rule::new(&[""], &["pods"], &["list", "watch"])
        );
        let replica_sets = Rule::new(&["apps"], &["replicasets"], &["list", "watch"]);
        assert_eq!(Read::by_controller::<ReplicaSet>().rule(), replica_sets);
    }
}
