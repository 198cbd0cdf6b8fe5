//! Sets of nodes with little memory for few elements.
//!
//! A large cluster has one set per object, and most are empty, so a `HashSet` in each node would
//! dominate the memory of the graph.

use std::collections::HashSet;

/// Index of a node in the graph's table.
///
/// It takes a sixth of the memory of a UID, and the graph stores one for each end of a reference.
pub(super) type Slot = u32;

/// Largest number of elements that a linear search handles. Beyond it, a search would make the
/// arrival of thousands of dependents quadratic.
const FEW: usize = 16;

/// The nodes that refer to one node. Most nodes have no dependents, many have few, and some have
/// thousands. A node without dependents needs 8 bytes for this. An empty set has no allocation, and
/// `is_empty` relies on that.
#[derive(Debug, Default)]
pub(super) struct Dependents(Option<Box<Slots>>);

#[derive(Debug)]
enum Slots {
    Few(Vec<Slot>),
    Many(HashSet<Slot>),
}

impl Dependents {
    /// Adds `slot`, unless the set has it.
    pub(super) fn insert(&mut self, slot: Slot) {
        let slots = self
            .0
            .get_or_insert_with(|| Box::new(Slots::Few(Vec::new())));
        match &mut **slots {
            Slots::Few(few) if few.contains(&slot) => {}
            Slots::Few(few) if few.len() < FEW => few.push(slot),
            Slots::Few(few) => **slots = Slots::Many(few.drain(..).chain([slot]).collect()),
            Slots::Many(many) => drop(many.insert(slot)),
        }
    }

    /// Removes `slot`. The set frees its memory if it becomes empty.
    pub(super) fn remove(&mut self, slot: Slot) {
        let Some(slots) = &mut self.0 else {
            return;
        };
        let is_empty = match &mut **slots {
            Slots::Few(few) => {
                few.retain(|known| *known != slot);
                few.is_empty()
            }
            Slots::Many(many) => {
                many.remove(&slot);
                many.is_empty()
            }
        };
        if is_empty {
            self.0 = None;
        }
    }

    /// Whether no node refers to the owner.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// All slots, unordered.
    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> {
        let (few, many) = match self.0.as_deref() {
            None => (None, None),
            Some(Slots::Few(few)) => (Some(few), None),
            Some(Slots::Many(many)) => (None, Some(many)),
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
        assert!(dependents.is_empty(), "an empty set keeps no memory");
    }
}
