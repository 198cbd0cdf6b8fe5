//! One run: the story is told while the plan breaks something, and the end is judged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::{Matcher, RequestFault, RuleId};
use steersman_runtime::clock::Clock;
use steersman_runtime::tasks::CancellationToken;

use crate::film::{self, Film};
use crate::logs::Logs;
use crate::manager::{AGENT, Manager};
use crate::mask::masked;
use crate::oracle;
use crate::plan::{self, Fault, Plan};
use crate::recording::Recording;
use crate::scenario::Scenario;

mod pace;
mod story;

use pace::Pace;

/// When every story begins.
const BEGIN: i64 = 1_700_000_000;
/// Writes after which a manager has run away: the longest story has a few hundred.
const RUNAWAY: usize = 2_000;
/// Requests after which the log forgets the first ones, and nobody can tell any more who wrote
/// what.
const KEPT: usize = 20_000;
/// How long a view lags.
const LAG: Duration = Duration::from_secs(20);
/// How long a process needs to come back after a crash.
const RESTART: Duration = Duration::from_secs(1);
/// How long it stays away when it ended by itself, as the kubelet has it the first time.
const BACK_OFF: Duration = Duration::from_secs(10);
/// How long a group cannot be discovered: longer than the garbage collector waits from one look to
/// the next.
const HIDDEN: Duration = Duration::from_secs(40);
/// Between the end of one leadership and the start of the next.
const TAKEOVER: Duration = Duration::from_secs(15);
/// How long the former leader goes on beside the next one; with the time before, less than it waits
/// for an answer that never comes.
const AFTERLIFE: Duration = Duration::from_secs(5);

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was wrong; empty when nothing was.
    pub violations: Vec<String>,
    /// Whether the story came to every point where the plan breaks something.
    pub met: bool,
    /// What the plan broke, in words.
    pub hit: Vec<String>,
    /// Time as the story counts it.
    pub virtual_time: Duration,
    /// Time as everybody else does.
    pub real_time: Duration,
}

impl Outcome {
    /// A plan that was chosen by hand and breaks nothing proves nothing.
    pub(crate) fn must_be_met(&mut self) {
        if !self.met {
            self.violations
                .push("not met: the story never came to what the plan breaks".to_owned());
        }
    }
}

/// Tells the story without faults, twice: the second time it is known which watches there are. What
/// is drawn in the story is drawn from `seed`, and so it is in the runs under plans.
///
/// # Errors
/// The violations of a story that has no stable end of its own.
pub fn record(scenario: &'static Scenario, seed: u64) -> Result<Recording, Vec<String>> {
    let nothing = Recording {
        seed,
        ..Recording::default()
    };
    let first = flawless(stage(scenario, &Plan::Nothing, &nothing)?)?;
    flawless(stage(scenario, &Plan::Nothing, &first)?)
}

/// Tells the story under a plan.
pub fn run(scenario: &'static Scenario, plan: &Plan, reference: &Recording) -> Outcome {
    match stage(scenario, plan, reference) {
        Ok(told) => told.outcome,
        Err(violations) => Outcome {
            violations,
            ..Outcome::default()
        },
    }
}

struct Told {
    outcome: Outcome,
    recording: Recording,
}

fn flawless(told: Told) -> Result<Recording, Vec<String>> {
    if told.outcome.violations.is_empty() {
        Ok(told.recording)
    } else {
        Err(told.outcome.violations)
    }
}

fn stage(
    scenario: &'static Scenario,
    plan: &Plan,
    reference: &Recording,
) -> Result<Told, Vec<String>> {
    let (logs, begun) = (Logs::collect(), Instant::now());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let runtime = runtime.map_err(|error| vec![format!("no runtime: {error}")])?;
    let play =
        std::panic::AssertUnwindSafe(|| runtime.block_on(Play::tell(scenario, plan, reference)));
    let told =
        std::panic::catch_unwind(play).map_err(|_| vec!["panic in the story itself".to_owned()])?;
    let mut told = told?;
    let unexpected = oracle::unexpected(scenario, plan, &told.outcome.hit, logs.take());
    told.outcome.violations.extend(unexpected);
    told.outcome.real_time = begun.elapsed();
    Ok(told)
}

/// A cluster with a manager, and whoever perturbs them.
struct Play<'a> {
    scenario: &'static Scenario,
    plan: &'a Plan,
    cluster: DevCluster,
    /// The plan's rules so far.
    faults: Vec<RuleId>,
    /// The revision the story began at; nobody sees anything older.
    begin: u64,
    leader: Option<Manager>,
    managers: usize,
    panics: usize,
    /// Controllers that ended by themselves, and their managers with them.
    ended: Vec<&'static str>,
    /// Set when nothing more is to be broken.
    over: CancellationToken,
}

impl<'a> Play<'a> {
    async fn tell(
        scenario: &'static Scenario,
        plan: &'a Plan,
        reference: &Recording,
    ) -> Result<Told, Vec<String>> {
        let clock = Clock::runtime(Timestamp::from_second(BEGIN).expect("a time of our era"));
        let builder = DevCluster::builder()
            .clock(clock)
            .managed_fields(false)
            .kept_requests(KEPT)
            .seed(reference.seed)
            .nodes(scenario.nodes);
        let cluster = builder
            .start()
            .await
            .map_err(|error| vec![error.to_string()])?;
        let counters = Counters::new(&cluster, reference.events.keys());
        if let Plan::Shuffle(seed) = plan {
            cluster.faults().seed(*seed);
        }
        let faults: Vec<RuleId> = plan
            .faults(&reference.events)
            .into_iter()
            .map(|fault| arm(&cluster, fault))
            .collect();
        let mut pace = Pace::new(&cluster, plan, &faults, reference);

        let over = CancellationToken::new();
        let begin = cluster.revision();
        let mut play = Play {
            scenario,
            plan,
            cluster: cluster.clone(),
            faults,
            begin,
            leader: None,
            managers: 0,
            panics: 0,
            ended: Vec::new(),
            over: over.clone(),
        };
        let mut film = Film::default();
        let standby =
            matches!(plan, Plan::Failover(..)).then(|| Manager::standby(&cluster, scenario, 2));
        let story = async {
            let mut told =
                story::comes_to_its_end(&cluster, scenario, reference, &mut pace, &mut film).await;
            // What comes after the end is the same over and over: leases, watches that are renewed.
            let counted = counters.read(&cluster);
            if told.is_ok() {
                told = story::stays(&cluster, reference, &pace, &mut film).await;
            }
            over.cancel();
            (told, counted)
        };
        let ((told, counted), (), runaway) =
            tokio::join!(story, play.perturb(standby), hold_runaway(&cluster, &over));
        if let Some(leader) = play.leader.take() {
            play.panics += leader.stop().await;
        }
        film.advance(&cluster);
        let requests = cluster.requests();
        film.attribute(&requests);
        cluster.stop().await;

        let mut outcome = Outcome {
            virtual_time: pace.elapsed(),
            ..Outcome::default()
        };
        let (end, counts) = (masked(&film.state), film.counts());
        let (reached, plurals, groups) =
            (pace.into_reached(), film.plurals(begin), film.groups(begin));
        // What nobody watches lags for nobody.
        let plurals = plurals
            .into_iter()
            .filter(|plural| counted.events.contains_key(plural))
            .collect();
        let recording = Recording {
            seed: reference.seed,
            reached,
            plurals,
            groups,
            end,
            counts,
            ..counted
        };
        outcome.met = play.met_all();
        outcome.hit = play
            .faults
            .iter()
            .filter_map(|rule| cluster.faults().last_hit(*rule))
            .collect();
        outcome.violations.extend(told.err());
        outcome.violations.extend(
            (requests.len() >= KEPT).then(|| format!("runaway: more than {KEPT} requests")),
        );
        outcome
            .violations
            .extend(runaway.then(|| format!("runaway: more than {RUNAWAY} writes")));
        outcome
            .violations
            .extend((play.panics > 0).then(|| format!("{} panics", play.panics)));
        outcome
            .violations
            .extend(oracle::ended(plan, &outcome.hit, &play.ended));
        outcome
            .violations
            .extend(oracle::unsafe_instants(scenario, &film));
        outcome.violations.extend(oracle::two_leaders(&requests));
        if reference.is_told() {
            outcome.violations.extend(oracle::churn(
                scenario,
                &reference.counts,
                &recording.counts,
            ));
        }
        Ok(Told { outcome, recording })
    }

    async fn perturb(&mut self, standby: Option<Manager>) {
        self.start().await;
        match (self.plan, self.faults.first().copied()) {
            (Plan::Crash(points), Some(mut rule)) => {
                for at in 0..points.len() {
                    if !self.met(rule).await {
                        break;
                    }
                    self.crash().await;
                    tokio::time::sleep(RESTART).await;
                    if let Some((when, point)) = points.get(at + 1) {
                        rule = self.cluster.faults().on_request(
                            point.among(plan::writes()),
                            when.fault(),
                            Some(1),
                        );
                        self.faults.push(rule);
                    }
                    self.start().await;
                }
            }
            (Plan::Failover(..), Some(rule)) if self.met(rule).await => {
                let former = self.leader.take();
                if let Some(former) = &former {
                    former.lose_lease();
                }
                tokio::time::sleep(TAKEOVER).await;
                self.managers += 1;
                if let Some(next) = standby {
                    self.lead(next).await;
                }
                // Whoever has lost the Lease and does not know it may live on for a while, and
                // still must not write.
                tokio::time::sleep(AFTERLIFE).await;
                if let Some(former) = former {
                    self.panics += former.crash().await;
                }
            }
            (
                Plan::Stale(_, behind)
                | Plan::StaleEvent(_, _, behind)
                | Plan::StaleOf(_, _, behind),
                Some(rule),
            ) if self.met(rule).await => {
                self.crash().await;
                let of = if let Plan::StaleOf(plural, ..) = self.plan {
                    Some(plural.as_str())
                } else {
                    None
                };
                let revision = film::before_the_latest(&self.cluster, self.begin, *behind, of);
                let late = Matcher {
                    resource: of.map(str::to_owned),
                    ..Matcher::default()
                }
                .client(AGENT);
                let view = self.cluster.faults().hold_view(late, revision);
                let cluster = self.cluster.clone();
                let catch_up = async {
                    tokio::time::sleep(LAG).await;
                    cluster.faults().remove(view);
                };
                tokio::join!(self.start(), catch_up);
            }
            (Plan::Hidden(group, _), Some(rule)) if self.met(rule).await => {
                let cluster = self.cluster.clone();
                cluster.faults().hide_from_discovery(&group.0);
                let show = async {
                    tokio::time::sleep(HIDDEN).await;
                    cluster.faults().show_in_discovery(&group.0);
                };
                tokio::join!(self.keep_running(), show);
            }
            _ => {}
        }
        self.keep_running().await;
    }

    /// Starts the manager anew when it ends by itself, until the story is over.
    async fn keep_running(&mut self) {
        while let Some(leader) = &self.leader {
            let Some(ended) = self.over.run_until_cancelled(leader.ended()).await else {
                return;
            };
            self.ended.push(ended);
            self.crash().await;
            tokio::time::sleep(BACK_OFF).await;
            self.start().await;
        }
        self.over.cancelled().await;
    }

    /// Whether everything that was to go wrong did.
    fn met_all(&self) -> bool {
        let is_met = |rule: &RuleId| self.cluster.faults().hits(*rule) > 0;
        match self.plan {
            Plan::Crash(points) => {
                self.faults.len() == points.len() && self.faults.iter().all(is_met)
            }
            // Of a resource that is watched there need not be any event.
            Plan::Shuffle(_) => self.faults.iter().any(is_met),
            _ => self.faults.iter().all(is_met),
        }
    }

    /// Whether the rule is met before the story is over.
    async fn met(&self, rule: RuleId) -> bool {
        self.over
            .run_until_cancelled(self.cluster.faults().met(rule))
            .await
            .is_some()
    }

    async fn start(&mut self) {
        self.managers += 1;
        self.lead(Manager::standby(
            &self.cluster,
            self.scenario,
            self.managers,
        ))
        .await;
    }

    async fn lead(&mut self, mut manager: Manager) {
        // Whoever starts to lead has just written its Lease.
        let since = self.cluster.revision();
        // A manager that cannot fill its caches is one that never leads.
        let over = self.over.clone();
        if over
            .run_until_cancelled(manager.lead(since))
            .await
            .is_some()
        {
            self.leader = Some(manager);
        }
    }

    async fn crash(&mut self) {
        if let Some(leader) = self.leader.take() {
            self.panics += leader.crash().await;
        }
    }
}

fn arm(cluster: &DevCluster, fault: Fault) -> RuleId {
    match fault {
        Fault::Request(matcher, fault, times) => cluster.faults().on_request(matcher, fault, times),
        Fault::Event(matcher, fault, times) => cluster.faults().on_event(matcher, fault, times),
    }
}

/// Lets no further write of a manager through once there were too many, and says whether it came to
/// that. Who writes without end lets no time pass, so that nobody's patience would.
async fn hold_runaway(cluster: &DevCluster, over: &CancellationToken) -> bool {
    let faults = cluster.faults();
    let last = faults.on_request(
        plan::writes().nth(RUNAWAY),
        RequestFault::Delay(Duration::ZERO),
        Some(1),
    );
    let ran_away = over.run_until_cancelled(faults.met(last)).await.is_some();
    if ran_away {
        faults.on_request(plan::writes(), RequestFault::Hang, None);
    }
    ran_away
}

/// Rules that break nothing and count.
struct Counters {
    writes: RuleId,
    requests: RuleId,
    looks: RuleId,
    told: [RuleId; 2],
    events: Vec<(String, RuleId)>,
}

impl Counters {
    fn new<'a>(cluster: &DevCluster, watched: impl Iterator<Item = &'a String>) -> Self {
        let faults = cluster.faults();
        let count = |matcher| faults.on_request(matcher, RequestFault::Delay(Duration::ZERO), None);
        let events = watched.map(|plural| {
            let nothing = steersman_devcluster::faults::EventFault::Delay(Duration::ZERO);
            (
                plural.clone(),
                faults.on_event(plan::events(plural), nothing, None),
            )
        });
        let [writes, requests, looks] =
            [plan::writes(), plan::requests(), plan::looks()].map(count);
        let told = plan::TELLING.map(|verb| count(Matcher::new(verb, "events").client(AGENT)));
        Self {
            writes,
            requests,
            looks,
            told,
            events: events.collect(),
        }
    }

    /// What they have counted so far, and which watches there are to count.
    fn read(self, cluster: &DevCluster) -> Recording {
        let (faults, requests) = (cluster.faults(), cluster.requests());
        let watches = requests
            .iter()
            .filter(|request| request.verb == "watch" && request.user_agent.contains(AGENT));
        let watched = watches
            .map(|request| &request.resource)
            .filter(|plural| !film::ASIDE.contains(&plural.as_str()));
        let mut events: BTreeMap<String, usize> =
            watched.map(|plural| (plural.clone(), 0)).collect();
        events.extend(
            self.events
                .into_iter()
                .map(|(plural, rule)| (plural, faults.hits(rule))),
        );
        let [writes, requests, looks] =
            [self.writes, self.requests, self.looks].map(|rule| faults.hits(rule));
        let told = self.told.map(|rule| faults.hits(rule));
        Recording {
            writes,
            requests,
            looks,
            told,
            events,
            ..Recording::default()
        }
    }
}

#[cfg(test)]
mod tests;
