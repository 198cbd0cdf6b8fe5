//! Three whole electors, each in a simulated process, against one API server in paused time.
//!
//! Faults are injected at random: requests and answers are late or lost, the server refuses
//! requests, and watches are silent. Processes are disconnected, paused, killed, or get SIGTERM.
//!
//! `docs/leader-election.md` defines the invariants under the names used here. Gates open only
//! while a candidate is polled, and close with the clock. Checks around each poll therefore cover
//! every instant.
//!
//!     STEERSMAN_SEEDS=1000 cargo test -p steersman-runtime --test main election::

mod network;
mod process;
mod world;

use std::ops::Range;
use std::time::Duration;

use rand::Rng;
use steersman_devcluster::faults::{Matcher, RuleId, internal_error, throttled};
use tokio::time::{Instant, sleep, sleep_until};

use world::{CANDIDATES, LEASE, LONGEST_RETRY, LeaseVersion, World};

/// Duration of the faults.
const FAULTS: Duration = Duration::from_secs(400);
/// After the faults and [`PROGRESS`], one candidate must lead for this time without a break.
const STABLE: Duration = Duration::from_secs(60);
/// Time for the requests of one attempt, and for waits that began before the end of the faults:
/// `Retry-After`, or the pause before a failed read is repeated.
const PENDING: Duration = Duration::from_secs(2);
/// The limit of `Progress`, from the end of the faults. The next attempt may be the first to see
/// the record; the candidate waits for the lease duration; the attempt after that takes the Lease.
const PROGRESS: Duration = LEASE
    .saturating_add(LONGEST_RETRY.saturating_mul(2))
    .saturating_add(PENDING);

const SEED: &str = "STEERSMAN_SEED";
const SEEDS: &str = "STEERSMAN_SEEDS";

/// Injects faults at random.
struct Injector {
    world: World,
    rules: Vec<RuleId>,
}

impl Injector {
    async fn inject(&mut self) {
        let end = Instant::now() + FAULTS;
        while Instant::now() < end && self.world.violation().is_none() {
            self.inject_one();
            let longest_pause = self.world.rates().longest_pause;
            let pause = self
                .world
                .draw(|random| random.random_range(Duration::ZERO..longest_pause));
            sleep(pause).await;
        }
    }

    fn inject_one(&mut self) {
        let world = &self.world;
        let faults = world.cluster.faults();
        let slot = world.draw(|random| random.random_range(0..CANDIDATES));
        let seconds = |range: Range<u64>| {
            world.draw(|random| Duration::from_secs(random.random_range(range)))
        };
        let times = Some(world.draw(|random| random.random_range(1..4)));
        let on_lease = |verb| Matcher::new(verb, "leases");
        let rule = match world.draw(|random| random.random_range(0..20)) {
            0..=3 => return world.pause(slot, seconds(1..40)),
            4 => return world.kill(slot),
            5 => return world.terminate(slot),
            6 | 7 => return world.cut_off(slot, seconds(2..30)),
            8 => return faults.break_watches("leases"),
            9 => return faults.stall_watches("leases"),
            10 | 11 => return faults.resume_watches("leases"),
            12 => faults.reject(on_lease("get"), internal_error(), times),
            13 | 14 => faults.reject(on_lease("update"), internal_error(), times),
            15 => faults.reject(on_lease("update"), throttled(1), times),
            16 => faults.reject(on_lease("watch"), internal_error(), times),
            17 => faults.reject(on_lease("create"), internal_error(), times),
            _ => return,
        };
        self.rules.push(rule);
    }

    /// Ends all faults, and resets the requests under way.
    fn end(self) -> World {
        let faults = self.world.cluster.faults();
        faults.resume_watches("leases");
        self.rules.into_iter().for_each(|rule| faults.remove(rule));
        self.world.end_faults();
        self.world
    }
}

/// Runs one seed. Returns all versions of the Lease in order, or the first violated invariant.
async fn run(seed: u64) -> Result<Vec<LeaseVersion>, String> {
    let mut injector = Injector {
        world: World::start(seed),
        rules: Vec::new(),
    };
    injector.inject().await;
    let world = injector.end();
    let must_lead_by = Instant::now() + PROGRESS;
    sleep_until(must_lead_by).await;
    let leader = world.leader();
    while leader.is_some() && Instant::now() < must_lead_by + STABLE {
        if world.leader() != leader {
            world.violated(format!(
                "Progress: {leader:?} led, then {:?}",
                world.leader()
            ));
            break;
        }
        sleep(Duration::from_millis(250)).await;
    }
    if leader.is_none() {
        world.violated(format!(
            "Progress: no candidate leads {} s after the end of the faults",
            PROGRESS.as_secs()
        ));
    }
    world.violation().map_or_else(|| Ok(world.history()), Err)
}

/// Runs one seed on one thread, with a clock that advances only while all tasks wait. So a seed
/// repeats exactly.
fn run_seed(seed: u64) -> Result<Vec<LeaseVersion>, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(run(seed))
}

fn seeds() -> Range<u64> {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse().expect("a number"))
    };
    match (number(SEED), number(SEEDS)) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(10),
    }
}

#[test]
fn the_invariants_hold_under_faults_and_a_candidate_leads_afterwards() {
    let mut terms = 0;
    let mut seconds = 0;
    for seed in seeds() {
        let history = run_seed(seed).unwrap_or_else(|violation| {
            panic!("{violation}\nto repeat this run: {SEED}={seed} cargo test -p steersman-runtime --test main election:: -- --nocapture")
        });
        let led = history
            .windows(2)
            .filter(|pair| pair[0].holder != pair[1].holder && !pair[1].holder.is_empty());
        let led = led.count() + 1;
        println!(
            "seed {seed}: {led} terms, {} writes of the Lease",
            history.len()
        );
        terms += led;
        seconds += (FAULTS + PROGRESS + STABLE).as_secs();
    }
    println!("{terms} terms in {seconds} s of the paused clock");
    assert!(
        terms as u64 > seconds / 100,
        "the runs have too few terms: {terms} in {seconds} s"
    );
}

#[test]
fn a_seed_repeats_exactly() {
    let seed = seeds().start;
    assert_eq!(run_seed(seed), run_seed(seed));
}
