//! Three real candidates, each a process of its own, against one API server, in paused time:
//! requests and answers are late or lost, the server refuses, watches fall silent, and processes
//! are cut off, paused, killed or asked to end.
//!
//! What must hold is written out in `docs/leader-election.md`; the names are the same here. Gates
//! open only while a candidate is polled, and close by themselves, so looking around each poll is
//! looking at every instant.
//!
//!     STEERSMAN_SEEDS=1000 cargo test -p steersman-runtime --test election
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

mod network;
mod process;
mod world;

use std::ops::Range;
use std::time::Duration;

use rand::Rng;
use steersman_devcluster::faults::{Matcher, RuleId, internal_error, throttled};
use tokio::time::{Instant, sleep, sleep_until};

use world::{CANDIDATES, Happened, LEASE, LONGEST_RETRY, World};

/// How long things go wrong.
const STORM: Duration = Duration::from_secs(400);
/// How long somebody must lead without a break after that.
const CALM: Duration = Duration::from_secs(60);
/// A pause of the client that the end of the storm does not cut short (`Retry-After`, or before a
/// broken read is repeated), and the requests of an attempt in fine weather.
const UNDER_WAY: Duration = Duration::from_secs(2);
/// `Progress`: from the end of the storm a record may be seen first at the next attempt, has to be
/// waited out, and is replaced at the attempt after that.
const PROGRESS: Duration = LEASE
    .saturating_add(LONGEST_RETRY.saturating_mul(2))
    .saturating_add(UNDER_WAY);

const SEED: &str = "STEERSMAN_SEED";
const SEEDS: &str = "STEERSMAN_SEEDS";

/// Lets go wrong whatever can, at random.
struct Storm {
    world: World,
    rules: Vec<RuleId>,
}

impl Storm {
    async fn rage(&mut self) {
        let end = Instant::now() + STORM;
        while Instant::now() < end && self.world.broken().is_none() {
            self.strike();
            let lull = self.world.weather().lull;
            let pause = self
                .world
                .draw(|random| random.random_range(Duration::ZERO..lull));
            sleep(pause).await;
        }
    }

    fn strike(&mut self) {
        let world = &self.world;
        let faults = world.cluster.faults();
        let who = world.draw(|random| random.random_range(0..CANDIDATES));
        let seconds = |range: Range<u64>| {
            world.draw(|random| Duration::from_secs(random.random_range(range)))
        };
        let times = Some(world.draw(|random| random.random_range(1..4)));
        let on_lease = |verb| Matcher::new(verb, "leases");
        let rule = match world.draw(|random| random.random_range(0..20)) {
            0..=3 => return world.pause(who, seconds(1..40)),
            4 => return world.kill(who),
            5 => return world.ask_to_end(who),
            6 | 7 => return world.cut_off(who, seconds(2..30)),
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

    /// From now on nothing goes wrong any more, and what was under way is reset.
    fn end(self) -> World {
        let faults = self.world.cluster.faults();
        faults.resume_watches("leases");
        self.rules.into_iter().for_each(|rule| faults.remove(rule));
        self.world.clear_up();
        self.world
    }
}

/// One run, or the first invariant that did not hold in it. What happened is told in order.
async fn run(seed: u64) -> Result<Vec<Happened>, String> {
    let mut storm = Storm {
        world: World::start(seed),
        rules: Vec::new(),
    };
    storm.rage().await;
    let world = storm.end();
    let somebody_leads_by = Instant::now() + PROGRESS;
    sleep_until(somebody_leads_by).await;
    let leader = world.leader();
    while leader.is_some() && Instant::now() < somebody_leads_by + CALM {
        if world.leader() != leader {
            world.break_off(format!(
                "Progress: {leader:?} led, then {:?}",
                world.leader()
            ));
            break;
        }
        sleep(Duration::from_millis(250)).await;
    }
    if leader.is_none() {
        world.break_off(format!(
            "Progress: nobody leads {} s after all is well again",
            PROGRESS.as_secs()
        ));
    }
    world.broken().map_or_else(|| Ok(world.history()), Err)
}

/// The same run each time: one thread, and time that stands still while it works.
fn tell(seed: u64) -> Result<Vec<Happened>, String> {
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
fn whatever_happens_one_leads_and_when_it_is_over_somebody_does() {
    let (mut terms, mut seconds) = (0, 0);
    for seed in seeds() {
        let history = tell(seed).unwrap_or_else(|broken| {
            panic!("{broken}\nto see this again: {SEED}={seed} cargo test -p steersman-runtime --test election -- --nocapture")
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
        seconds += (STORM + PROGRESS + CALM).as_secs();
    }
    println!("{terms} terms in {seconds} s of the paused clock");
    assert!(
        terms as u64 > seconds / 100,
        "too quiet a time to tell anything: {terms} terms in {seconds} s"
    );
}

#[test]
fn a_seed_tells_the_same_story_each_time() {
    let seed = seeds().start;
    assert_eq!(tell(seed), tell(seed));
}
