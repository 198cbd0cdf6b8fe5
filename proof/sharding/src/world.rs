//! The sizes, the durations and the rules of one search.

/// The position of a process or of a Lease in its array.
pub type Index = usize;

/// One small cluster. Replicas come first among its processes, and the Leases of ranges first among its Leases.
#[derive(Debug, Clone, Copy)]
pub struct World {
    /// Replicas of the manager.
    pub replicas: usize,
    /// Ranges of namespaces, each with a Lease.
    pub ranges: usize,
    /// Whether upstream's manager stands by. It knows only the common Lease, which the world then has.
    pub upstream: bool,
    /// Whether clocks run at different rates. A clock is at most one tick ahead.
    pub drift: bool,
    /// The writes of controllers.
    pub writes: Writes,
    /// Times in ticks.
    pub durations: Durations,
    /// The rules that processes follow.
    pub rules: Rules,
}

/// The writes that controllers send in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// None: only Leases change.
    None,
    /// Only creations and deletions, which say nothing about the rest of the range.
    Creations,
    /// Updates with a resource version, too.
    All,
}

/// Times in ticks.
#[derive(Debug, Clone, Copy)]
pub struct Durations {
    /// The renew deadline: a term lasts this long after its last renewal.
    pub term: u8,
    /// The lease duration: a candidate takes a Lease this long after its last change.
    pub lease: u8,
    /// The longest time that a creation is under way. Updates have no limit, because the API server refuses those
    /// that are too late.
    pub flight: u8,
}

/// The rules that a variant of the protocol may lack.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The requests that a holder waits for before it releases a Lease.
    pub drain: Drain,
    /// A holder decides by a cache only after it has reached the version of the acquired Lease.
    pub lease_version: bool,
    /// A holder decides by a cache only after it has reached the version in the answer to the last own creation.
    pub own_versions: bool,
    /// After an error that leaves the result open, a holder waits until the creation can no longer arrive, and
    /// reads live. It decides by a cache only after it has reached the version of this read.
    pub open_results: bool,
    /// Updates carry the resource version of the object that they change.
    pub precondition: bool,
    /// A replica holds ranges only while its group holds the common Lease.
    pub common_lease: bool,
    /// A candidate takes a Lease whose record has not changed for the lease duration.
    pub expiry: bool,
}

/// The requests that a holder waits for before it releases a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drain {
    /// None.
    Nothing,
    /// Those without an answer or an error. An error may leave a write under way.
    Answers,
    /// The same, and creations under way after an error. The holder cannot see their end, so in a real process it is
    /// a wait. The model allows the release from the true end on, which is at or before the end of any such wait.
    Writes,
}

impl Rules {
    /// All rules of the protocol.
    pub const ALL: Self = Self {
        drain: Drain::Writes,
        lease_version: true,
        own_versions: true,
        open_results: true,
        precondition: true,
        common_lease: true,
        expiry: true,
    };
}

impl World {
    /// A world of `replicas` and `ranges` with all rules and with equal clocks.
    pub fn new(replicas: usize, ranges: usize) -> Self {
        Self {
            replicas,
            ranges,
            upstream: false,
            drift: false,
            writes: Writes::Creations,
            durations: Durations {
                term: 2,
                lease: 3,
                flight: 1,
            },
            rules: Rules::ALL,
        }
    }

    /// The processes: the replicas, and upstream's manager as the last one.
    pub fn processes(&self) -> std::ops::Range<Index> {
        0..self.replicas + usize::from(self.upstream)
    }

    /// Whether `process` is upstream's manager.
    pub fn is_upstream(&self, process: Index) -> bool {
        process == self.replicas
    }

    /// The common Lease, if the world has one.
    pub fn common(&self) -> Option<Index> {
        self.upstream.then_some(self.ranges)
    }

    /// The Leases that `process` knows.
    pub fn leases_of(&self, process: Index) -> std::ops::Range<Index> {
        let first = if self.is_upstream(process) {
            self.ranges
        } else {
            0
        };
        first..self.ranges + usize::from(self.upstream)
    }

    /// The ranges that a replica may hold if it knows of `members` replicas.
    pub fn share(&self, members: u8) -> usize {
        self.ranges.div_ceil(usize::from(members).max(1))
    }
}
