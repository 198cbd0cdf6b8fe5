//! Which blocks are in use, and by which node.
//!
//! A block is free only if nothing holds it:
//!
//! - a service range,
//! - a node in the cache with this block in `podCIDRs`,
//! - a node in the live list at the start, until the cache is as new as that list,
//! - a reservation: a block chosen for a node with empty `podCIDRs` in the cache.
//!
//! A reservation outlives a PATCH without an answer, because the API server may still apply it. It
//! ends when the cache shows the `podCIDRs` of the node or its deletion, or after a refusal by the
//! API server. A PATCH carries the UID of the node, so a late one changes no recreated node.
//!
//! While the cache is older than the live list, it may show a node without the `podCIDRs` that it has.
//! [`Allocations::is_outdated`] recognises such a node, and its sync waits for the cache.
//!
//! Several holders may share a block, for example two nodes with equal `podCIDRs`. The block is
//! free after the last one is gone. Upstream frees it with the first one.
//!
//! Upstream: `occupyCIDRs`, `AllocateOrOccupyCIDR` and `ReleaseCIDR` of the range allocator.

use std::collections::{BTreeSet, HashMap, HashSet};

use steersman_objects::{Node, Object, ObjectKey, Uid};
use steersman_values::cidr::{Cidr, InvalidCidr};

use super::cidr_set::{Blocks, CidrSet, OutOfRange};
use super::config::Ranges;
use super::metrics::{IpamMetrics, SetMetrics};

/// The `podCIDRs` of a node do not fit the cluster CIDRs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OccupyError {
    /// An entry is no range.
    #[error("failed to parse node {node}, CIDR {first}")]
    Parse {
        /// Name of the node.
        node: String,
        /// `spec.podCIDR`, as upstream reports it.
        first: String,
        /// The malformed entry.
        #[source]
        source: InvalidCidr,
    },
    /// There are more entries than cluster CIDRs.
    #[error(
        "node:{node} has an allocated cidr: {cidr} at index:{at} that does not exist in cluster cidrs configuration"
    )]
    Surplus {
        /// Name of the node.
        node: String,
        /// The entry.
        cidr: String,
        /// Its position.
        at: usize,
    },
    /// An entry is outside the cluster CIDR at its position.
    #[error("failed to mark cidr[{cidr}] at idx [{at}] as occupied for node: {node}: {source}")]
    Outside {
        /// Name of the node.
        node: String,
        /// The entry.
        cidr: Cidr,
        /// Its position.
        at: usize,
        /// The two ranges.
        #[source]
        source: Box<OutOfRange>,
    },
}

impl OccupyError {
    /// The text of upstream's log line about a deleted node with such `podCIDRs`.
    pub(super) fn at_release(&self) -> String {
        match self {
            Self::Parse { node, source, .. } => {
                format!("failed to parse CIDR {} on Node {node}: {source}", source.0)
            }
            Self::Surplus { .. } => self.to_string(),
            Self::Outside { cidr, source, .. } => {
                format!("error when releasing CIDR {cidr}: {source}")
            }
        }
    }
}

/// A cluster CIDR has no free block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to allocate cidr from cluster cidr at idx:{at}: CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range"
)]
pub(super) struct Exhausted {
    /// Position in `--cluster-cidr`.
    at: usize,
}

/// Blocks of the cluster CIDR at a position.
type Hold = (usize, Blocks);

/// One block of each cluster CIDR, for a node without `podCIDRs` in the cache.
#[derive(Debug)]
struct Reservation {
    uid: Uid,
    holds: Vec<Hold>,
    state: Sent,
}

/// The state of the PATCH for a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// It is being sent, or about to be.
    Pending,
    /// At least one attempt had no answer.
    InDoubt,
    /// The API server accepted it.
    Confirmed,
}

/// A cluster CIDR with its blocks.
#[derive(Debug)]
struct Tracked {
    set: CidrSet,
    /// The number of further holders of a block, for blocks with more than one.
    shared: HashMap<u64, u32>,
    metrics: SetMetrics,
}

/// The nodes of a live list, until the cache is as new.
#[derive(Debug, Default)]
struct Listed {
    version: u64,
    holds: Vec<Hold>,
    /// The nodes without `podCIDRs`.
    without_blocks: HashSet<Uid>,
}

/// All blocks and their holders.
#[derive(Debug)]
pub(super) struct Allocations {
    sets: Vec<Tracked>,
    cached: HashMap<ObjectKey, Vec<Hold>>,
    listed: Option<Listed>,
    reserved: HashMap<ObjectKey, Reservation>,
    /// Nodes that found no free block, or that wait for the cache.
    waiting: BTreeSet<ObjectKey>,
    /// Waiting nodes that were woken and have not reserved a block since.
    woken: BTreeSet<ObjectKey>,
    /// Blocks that became free since the last call of [`Allocations::take_woken`].
    freed: u64,
}

impl Allocations {
    /// Allocations in which only the service ranges are in use.
    pub(super) fn new(ranges: &Ranges, metrics: &IpamMetrics) -> Self {
        let tracked = |(cluster, mask): (&Cidr, &u8)| {
            let set = CidrSet::new(*cluster, *mask);
            let metrics = metrics.of(&set);
            Tracked {
                set,
                shared: HashMap::new(),
                metrics,
            }
        };
        let sets = ranges.clusters.iter().zip(&ranges.node_masks);
        let mut allocations = Self {
            sets: sets.map(tracked).collect(),
            cached: HashMap::new(),
            listed: None,
            reserved: HashMap::new(),
            waiting: BTreeSet::new(),
            woken: BTreeSet::new(),
            freed: 0,
        };
        for service in &ranges.services {
            for at in 0..allocations.sets.len() {
                // A service range elsewhere takes no block.
                if let Ok(blocks) = allocations.sets[at].set.blocks_of(*service) {
                    allocations.hold(&(at, blocks));
                }
            }
        }
        allocations
    }

    /// The blocks in the `podCIDRs` of `node`, up to the first entry that does not fit. The
    /// position of an entry selects its cluster CIDR, and its family does not. Upstream:
    /// `occupyCIDRs`.
    fn holds_of(&self, node: &Node) -> (Vec<Hold>, Result<(), OccupyError>) {
        let name = || node.meta.name.to_string();
        let mut holds = Vec::new();
        for (at, text) in node.spec.pod_cidrs.iter().enumerate() {
            let hold = Cidr::parse(text)
                .map_err(|source| OccupyError::Parse {
                    node: name(),
                    first: node.spec.pod_cidrs[0].to_string(),
                    source,
                })
                .and_then(|cidr| {
                    let Some(tracked) = self.sets.get(at) else {
                        return Err(OccupyError::Surplus {
                            node: name(),
                            cidr: text.to_string(),
                            at,
                        });
                    };
                    tracked
                        .set
                        .blocks_of(cidr)
                        .map_err(|source| OccupyError::Outside {
                            node: name(),
                            cidr,
                            at,
                            source: Box::new(source),
                        })
                });
            match hold {
                Ok(blocks) => holds.push((at, blocks)),
                Err(error) => return (holds, Err(error)),
            }
        }
        (holds, Ok(()))
    }

    /// Checks the `podCIDRs` of `node` against the cluster CIDRs.
    pub(super) fn check(&self, node: &Node) -> Result<(), OccupyError> {
        self.holds_of(node).1
    }

    /// The cache has a new state of `node`.
    pub(super) fn observe(&mut self, node: &Node) {
        let key = node.key();
        let (holds, _) = self.holds_of(node);
        // The new blocks are held before the old ones go, so a block in both states is never free.
        holds.iter().for_each(|hold| self.hold(hold));
        let before = self.cached.remove(&key).unwrap_or_default();
        self.release(&before);
        if !node.spec.pod_cidrs.is_empty() {
            self.cached.insert(key.clone(), holds);
            self.stop_waiting(&key);
            // `podCIDRs` is immutable, so no PATCH for this node takes effect any more.
            self.drop_reservation(&key);
        }
    }

    /// The node is not in the cache any more.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        let before = self.cached.remove(key).unwrap_or_default();
        self.release(&before);
        self.abandon(key);
    }

    /// The node is gone, so no PATCH for it takes effect any more. A sync that began before its
    /// deletion may have left a reservation.
    pub(super) fn abandon(&mut self, key: &ObjectKey) {
        self.stop_waiting(key);
        self.drop_reservation(key);
    }

    /// The node needs no block. If it was woken for a free one, the next waiting node is woken in
    /// its place.
    pub(super) fn stop_waiting(&mut self, key: &ObjectKey) {
        self.waiting.remove(key);
        if self.woken.remove(key) {
            self.freed = self.freed.saturating_add(1);
        }
    }

    /// Holds the blocks of the nodes in the live list of this version, until
    /// [`Allocations::forget_listed`]. Fails at the first node whose `podCIDRs` do not fit, since
    /// the flags of the cluster were changed then.
    pub(super) fn hold_listed(&mut self, nodes: &[Node], version: u64) -> Result<(), OccupyError> {
        let mut listed = self.listed.take().unwrap_or_default();
        listed.version = version;
        let mut result = Ok(());
        for node in nodes {
            let (holds, fits) = self.holds_of(node);
            holds.iter().for_each(|hold| self.hold(hold));
            listed.holds.extend(holds);
            // Nodes that are in the list with blocks, and those that it lacks, are outdated in an
            // older cache.
            if node.spec.pod_cidrs.is_empty() {
                listed.without_blocks.insert(node.meta.uid.clone());
            }
            result = fits;
            if result.is_err() {
                break;
            }
        }
        self.listed = Some(listed);
        result
    }

    /// The cache is as new as the live list. All waiting nodes are woken.
    pub(super) fn forget_listed(&mut self) {
        if let Some(listed) = self.listed.take() {
            self.release(&listed.holds);
            self.freed = u64::MAX;
        }
    }

    /// Whether the live list proves that `node`, as cached without `podCIDRs`, has changed: it has
    /// `podCIDRs` now, or it is gone. The node then waits until the cache is as new as the list.
    pub(super) fn is_outdated(&mut self, node: &Node) -> bool {
        let is_outdated = self.listed.as_ref().is_some_and(|listed| {
            node.meta.resource_version <= listed.version
                && !listed.without_blocks.contains(&node.meta.uid)
        });
        if is_outdated {
            self.waiting.insert(node.key());
        }
        is_outdated
    }

    /// Reserves a block of each cluster CIDR for a node without `podCIDRs`. An earlier reservation
    /// for this UID stays. `None` if the cache shows `podCIDRs` meanwhile.
    ///
    /// If a cluster CIDR is exhausted, the node counts as waiting and holds no block. While the cache
    /// is older than the live list, the answer is `None`: blocks of deleted nodes may still count.
    ///
    /// Upstream: the allocating half of `AllocateOrOccupyCIDR`.
    pub(super) fn reserve(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
    ) -> Result<Option<Vec<Cidr>>, Exhausted> {
        self.woken.remove(key);
        if self.cached.contains_key(key) {
            return Ok(None);
        }
        match self.reserved.get(key) {
            Some(reservation) if reservation.uid == *uid => {
                return Ok(Some(blocks(&self.sets, &reservation.holds)));
            }
            _ => self.drop_reservation(key),
        }
        let mut holds: Vec<Hold> = Vec::new();
        for at in 0..self.sets.len() {
            let Some((index, tries)) = self.sets[at].set.take_next() else {
                let freed = self.freed;
                self.release(&holds);
                // These blocks were free before, so they wake no other node.
                self.freed = freed;
                self.waiting.insert(key.clone());
                return match self.listed {
                    Some(_) => Ok(None),
                    None => Err(Exhausted { at }),
                };
            };
            let tracked = &self.sets[at];
            tracked.metrics.allocated(tries);
            tracked.metrics.usage(&tracked.set);
            holds.push((at, index..=index));
        }
        self.waiting.remove(key);
        let cidrs = blocks(&self.sets, &holds);
        let reservation = Reservation {
            uid: uid.clone(),
            holds,
            state: Sent::Pending,
        };
        self.reserved.insert(key.clone(), reservation);
        Ok(Some(cidrs))
    }

    /// The API server refused the PATCH, or it was not sent. Its blocks become free. If an earlier PATCH
    /// had no answer, they stay reserved.
    pub(super) fn refused(&mut self, key: &ObjectKey) {
        let is_doubtful = |r: &Reservation| r.state == Sent::InDoubt;
        if !self.reserved.get(key).is_some_and(is_doubtful) {
            self.drop_reservation(key);
        }
    }

    /// A PATCH had no answer, or one that leaves open if it took effect.
    pub(super) fn doubted(&mut self, key: &ObjectKey) {
        if let Some(reservation) = self.reserved.get_mut(key) {
            reservation.state = Sent::InDoubt;
        }
    }

    /// The API server accepted the PATCH.
    pub(super) fn confirmed(&mut self, key: &ObjectKey) {
        if let Some(reservation) = self.reserved.get_mut(key) {
            reservation.state = Sent::Confirmed;
        }
    }

    /// The cache is as new as the accepted PATCH, and has this state of the node. It shows the blocks,
    /// or the node is gone. A cache that shows neither has lost an event, and a list brings it.
    pub(super) fn settled(&mut self, key: &ObjectKey, cached: Option<&Node>) {
        let is_over = |r: &Reservation| {
            let shows_none = |node: &Node| node.meta.uid == r.uid && node.spec.pod_cidrs.is_empty();
            r.state == Sent::Confirmed && !cached.is_some_and(shows_none)
        };
        if self.reserved.get(key).is_some_and(is_over) {
            self.drop_reservation(key);
        }
    }

    /// One waiting node for each block that became free. They have to be synced again.
    pub(super) fn take_woken(&mut self) -> Vec<ObjectKey> {
        let freed = std::mem::take(&mut self.freed);
        let freed = usize::try_from(freed).unwrap_or(usize::MAX);
        let woken: Vec<ObjectKey> = self.waiting.iter().take(freed).cloned().collect();
        woken.iter().for_each(|key| {
            self.waiting.remove(key);
        });
        self.woken.extend(woken.iter().cloned());
        woken
    }

    fn drop_reservation(&mut self, key: &ObjectKey) {
        if let Some(reservation) = self.reserved.remove(key) {
            self.release(&reservation.holds);
        }
    }

    /// One more holder for these blocks. Metrics count a block once, as in upstream's `Occupy`.
    fn hold(&mut self, (at, blocks): &Hold) {
        let tracked = &mut self.sets[*at];
        for index in blocks.clone() {
            if tracked.set.take(index) {
                tracked.metrics.occupied();
            } else {
                *tracked.shared.entry(index).or_default() += 1;
            }
        }
        tracked.metrics.usage(&tracked.set);
    }

    /// One holder less. The last one frees the block. Upstream: `Release`, which frees it at once.
    fn release(&mut self, holds: &[Hold]) {
        for (at, blocks) in holds {
            let tracked = &mut self.sets[*at];
            for index in blocks.clone() {
                match tracked.shared.get_mut(&index) {
                    Some(1) => drop(tracked.shared.remove(&index)),
                    Some(others) => *others -= 1,
                    None => {
                        tracked.set.give_back(index);
                        tracked.metrics.released();
                        self.freed = self.freed.saturating_add(1);
                    }
                }
            }
            tracked.metrics.usage(&tracked.set);
        }
    }
}

fn blocks(sets: &[Tracked], holds: &[Hold]) -> Vec<Cidr> {
    let block = |(at, blocks): &Hold| sets[*at].set.block(*blocks.start());
    holds.iter().map(block).collect()
}
