//! The blocks of one cluster CIDR: a bitmap with one bit per block.
//!
//! Blocks are handed out in ascending order, and the search continues after the last block. So a
//! released block is used again only after all higher ones. Example: 10.0.0.0/22 with masks of 24
//! bits has the blocks 0 to 3, and block 2 is 10.0.2.0/24.
//!
//! Upstream: `pkg/controller/nodeipam/ipam/cidrset`.

use std::ops::RangeInclusive;

use steersman_values::cidr::Cidr;

/// Indexes of adjacent blocks.
pub(super) type Blocks = RangeInclusive<u64>;

/// A range has no address in common with the cluster CIDR.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cidr {cidr} is out the range of cluster cidr {cluster}")]
pub(super) struct OutOfRange {
    cidr: Cidr,
    cluster: Cidr,
}

/// The blocks of one cluster CIDR.
#[derive(Debug)]
pub(super) struct CidrSet {
    cluster: Cidr,
    node_mask: u8,
    /// One bit per block, in words. It grows with the highest used block, because a range may have
    /// millions of blocks.
    used: Vec<u64>,
    /// Number of used blocks.
    count: u64,
    /// The first block that the next search looks at.
    next: u64,
}

impl CidrSet {
    /// The set of all blocks of `cluster` with prefixes of `node_mask` bits. The mask is at least
    /// as long as the prefix of the cluster.
    pub(super) fn new(cluster: Cidr, node_mask: u8) -> Self {
        Self {
            cluster,
            node_mask,
            used: Vec::new(),
            count: 0,
            next: 0,
        }
    }

    /// The cluster CIDR.
    pub(super) fn cluster(&self) -> Cidr {
        self.cluster
    }

    /// Number of blocks.
    pub(super) fn size(&self) -> u64 {
        1 << (self.node_mask - self.cluster.length())
    }

    /// Used blocks.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The range of the block with this index. Upstream: `indexToCIDRBlock`.
    pub(super) fn block(&self, index: u64) -> Cidr {
        let family = self.cluster.family();
        let first = self.cluster.first() | (u128::from(index) << self.host_bits());
        Cidr::new(family, first, self.node_mask)
    }

    /// The blocks that have an address in common with `cidr`. A range below the size of a block
    /// takes the whole block. Upstream: `getBeginningAndEndIndices`.
    pub(super) fn blocks_of(&self, cidr: Cidr) -> Result<Blocks, OutOfRange> {
        let cluster = self.cluster;
        if !cluster.overlaps(&cidr) {
            return Err(OutOfRange { cidr, cluster });
        }
        if cidr.contains(&cluster) {
            return Ok(0..=self.size() - 1);
        }
        let index = |address: u128| {
            let offset = (address - cluster.first()) >> self.host_bits();
            u64::try_from(offset).expect("a cluster CIDR has fewer than 2^64 blocks")
        };
        Ok(index(cidr.first())..=index(cidr.last()))
    }

    /// Takes the next free block. The answer has its index, and the number of used blocks that the
    /// search skipped. `None` if all blocks are used. Upstream: `AllocateNext`.
    pub(super) fn take_next(&mut self) -> Option<(u64, u64)> {
        if self.count == self.size() {
            return None;
        }
        let size = self.size();
        let first_free = (0..size).find(|tries| !self.is_used((self.next + tries) % size));
        let tries = first_free?;
        let index = (self.next + tries) % size;
        self.next = (index + 1) % size;
        self.take(index);
        Some((index, tries))
    }

    /// Marks a block as used. False if it was used before.
    pub(super) fn take(&mut self, index: u64) -> bool {
        let (word, bit) = place(index);
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
        }
        let is_new = self.used[word] & bit == 0;
        self.used[word] |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    /// Marks a block as free. False if it was free before.
    pub(super) fn give_back(&mut self, index: u64) -> bool {
        let was_used = self.is_used(index);
        if was_used {
            let (word, bit) = place(index);
            self.used[word] &= !bit;
            self.count -= 1;
        }
        was_used
    }

    fn is_used(&self, index: u64) -> bool {
        let (word, bit) = place(index);
        self.used.get(word).is_some_and(|used| used & bit != 0)
    }

    /// The bits of an address that tell the addresses of one block apart.
    fn host_bits(&self) -> u8 {
        self.cluster.family().bits() - self.node_mask
    }
}

/// The word and the bit of a block.
fn place(index: u64) -> (usize, u64) {
    let word = usize::try_from(index / 64).expect("the bitmap of a cluster CIDR fits in memory");
    (word, 1 << (index % 64))
}

#[cfg(test)]
mod tests;
