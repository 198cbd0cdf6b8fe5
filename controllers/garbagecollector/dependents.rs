//! Sets of nodes with little memory for few elements.
//!
//! A large cluster has one set per object, and most are empty, so a `HashSet` in each node would
//! dominate the memory of the graph.

use std::collections::HashSet;

/// Index of a node in the graph's table.
///
/// It takes a sixth of the memory of a UID, and the graph stores one for each end of a reference.
pub(super) type Slot = u32;

/// Largest number of elements that a linear search handles.
const FEW: usize = 16;

/// The nodes that refer to one node. Most nodes have no dependents, many have few, and some have
/// thousands.
#[derive(Debug)]
pub(super) enum Dependents {
    Few(Vec<Slot>),
    #[expect(
        clippy::box_collection,
        reason = "large sets are rare, and a HashSet takes six words"
    )]
    Many(Box<HashSet<Slot>>),
}

impl Default for Dependents {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Dependents {
    /// Adds `slot`, unless the set has it.
    pub(super) fn insert(&mut self, slot: Slot) {
        match self {
            Self::Few(few) if few.contains(&slot) => {}
            Self::Few(few) if few.len() < FEW => few.push(slot),
            Self::Few(few) => *self = Self::Many(Box::new(few.drain(..).chain([slot]).collect())),
            Self::Many(many) => drop(many.insert(slot)),
        }
    }

    /// Removes `slot`. The set frees its memory if it becomes empty.
    pub(super) fn remove(&mut self, slot: Slot) {
        match self {
            Self::Few(few) => few.retain(|known| *known != slot),
            Self::Many(many) => drop(many.remove(&slot)),
        }
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Whether no node refers to the owner.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Few(few) => few.is_empty(),
            Self::Many(many) => many.is_empty(),
        }
    }

    /// All slots, unordered.
    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        few.into_iter()
            .flatten()
            .chain(many.into_iter().flat_map(|many| many.iter()))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_sets_hold_each_slot_once() {
        let mut dependents = Dependents::default();
        for count in 1..4 * FEW {
            let slot = Slot::try_from(count).unwrap();
            dependents.insert(slot);
            dependents.insert(slot);
            let mut all: Vec<Slot> = dependents.iter().collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(1..=slot), "{all:?}");
        }
        for count in 1..4 * FEW {
            assert!(!dependents.is_empty());
            dependents.remove(Slot::try_from(count).unwrap());
            dependents.remove(0);
        }
        assert!(
            dependents.is_empty() && matches!(dependents, Dependents::Few(_)),
            "an empty set keeps no memory"
        );
    }
}
