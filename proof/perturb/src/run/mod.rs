//! One run: executes the scenario, injects the fault of the plan, and asks the oracles.
//!
//! Two futures run side by side: the steps of the user, and the plan, which starts, crashes and
//! restarts managers. The clock is paused, so waiting takes no real time. One thread runs
//! everything, which makes the reference run repeatable up to the order of tasks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use steersman_devcluster::faults::{Matcher, RequestFault, RuleId};
use steersman_devcluster::nodes::{ATTACH_DETACH, BINDER, NodesConfig};
use steersman_devcluster::{Admission, DevCluster};
use steersman_runtime::tasks::CancellationToken;
use steersman_values::clock::Clock;

use crate::history::{self, History};
use crate::logs::Logs;
use crate::manager::{AGENT, Manager};
use crate::mask::masked;
use crate::oracle;
use crate::pace::Pace;
use crate::plan::{self, Fault, Plan};
use crate::recording::Recording;
use crate::scenario::Scenario;
use crate::subject::Subject;

mod deadlines;
mod steps;

use deadlines::Deadlines;

/// Start of the clock in every run, in seconds since the epoch.
const BEGIN: i64 = 1_700_000_000;
/// Writes after which a manager counts as runaway. The longest scenario has a few hundred.
const RUNAWAY: usize = 2_000;
/// Requests that the log keeps. A longer run loses the first ones, and with them the authors of the
/// first changes.
const KEPT: usize = 20_000;
/// With this controller, the API server leaves the usage of quotas to it.
const QUOTAS: &str = "resourcequota-controller";
/// Time from the exit of a process to its next start: the first back-off of the kubelet.
const BACK_OFF: Duration = Duration::from_secs(10);
/// Time from the loss of the Lease to the start of the next leader.
const TAKEOVER: Duration = Duration::from_secs(15);
/// Time for which the former leader lives beside the next one. Together with [`TAKEOVER`] it is
/// shorter than the request timeout: the former leader still waits for the lost answer of its last
/// write.
const FORMER_LEADER_LIVES: Duration = Duration::from_secs(5);

/// The result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Violations of the oracles, each as one text.
    pub violations: Vec<String>,
    /// Whether every fault of the plan happened.
    pub met: bool,
    /// The requests and events that the faults hit.
    pub hit: Vec<String>,
    /// Time on the paused clock.
    pub virtual_time: Duration,
    /// Time on the wall clock.
    pub real_time: Duration,
}

impl Outcome {
    /// Adds a violation if a fault of a plan chosen by hand did not happen.
    pub(crate) fn must_be_met(&mut self) {
        if !self.met {
            self.violations
                .push("not met: the run never reached the point of the fault".to_owned());
        }
    }
}

/// Makes the reference run of a scenario. It runs twice, because only the first run shows which
/// resources are watched, and the second counts their events. Random values come from `seed`, here
/// and in the runs of plans.
///
/// # Errors
/// The violations of a scenario that fails even without faults.
pub fn record(
    scenario: &'static Scenario,
    seed: u64,
    subject: &Subject,
) -> Result<Recording, Vec<String>> {
    let nothing = Recording {
        subject: subject.clone(),
        seed,
        ..Recording::default()
    };
    let first = without_violations(execute(scenario, &Plan::Nothing, &nothing)?)?;
    let mut families = scenario.gauges.iter();
    let is_absent = |family: &&&str| {
        let start = format!("{family}{{");
        !first.gauges.iter().any(|sample| sample.starts_with(&start))
    };
    if let Some(family) = families.find(is_absent).filter(|_| !subject.is_program()) {
        return Err(vec![format!("gauges: no sample of {family}")]);
    }
    without_violations(execute(scenario, &Plan::Nothing, &first)?)
}

/// Runs the scenario under a plan.
pub fn run(scenario: &'static Scenario, plan: &Plan, reference: &Recording) -> Outcome {
    match execute(scenario, plan, reference) {
        Ok(finished) => finished.outcome,
        Err(violations) => Outcome {
            violations,
            ..Outcome::default()
        },
    }
}

struct Finished {
    outcome: Outcome,
    recording: Recording,
}

fn without_violations(finished: Finished) -> Result<Recording, Vec<String>> {
    if finished.outcome.violations.is_empty() {
        Ok(finished.recording)
    } else {
        Err(finished.outcome.violations)
    }
}

/// Executes one run in its own runtime, and adds the log errors that no fault explains.
fn execute(
    scenario: &'static Scenario,
    plan: &Plan,
    reference: &Recording,
) -> Result<Finished, Vec<String>> {
    let logs = Logs::collect();
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(!reference.subject.is_program())
        .build();
    let runtime = runtime.map_err(|error| vec![format!("no runtime: {error}")])?;
    let run =
        std::panic::AssertUnwindSafe(|| runtime.block_on(Run::execute(scenario, plan, reference)));
    let finished =
        std::panic::catch_unwind(run).map_err(|_| vec!["panic in the test harness".to_owned()])?;
    let mut finished = finished?;
    let errors = logs.take();
    // A program has its log for itself, in words of its own.
    if !reference.subject.is_program() {
        let unexpected = oracle::unexpected(scenario, plan, &finished.outcome.hit, errors);
        finished.outcome.violations.extend(unexpected);
    }
    finished.outcome.real_time = begun.elapsed();
    Ok(finished)
}

/// A run in progress: the cluster, its managers and the faults of the plan.
struct Run<'a> {
    scenario: &'static Scenario,
    plan: &'a Plan,
    subject: &'a Subject,
    pace: &'static Pace,
    cluster: DevCluster,
    /// The fault rules of the plan so far.
    faults: Vec<RuleId>,
    /// Revision at the start of the scenario; stale views do not go further back.
    begin: u64,
    leader: Option<Manager>,
    /// Number of manager processes so far.
    managers: usize,
    /// Panics in managers that have ended.
    panics: usize,
    /// Controllers that returned by themselves, which ends their process.
    ended: Vec<String>,
    /// Cancelled at the end of the scenario; no fault happens afterwards.
    over: CancellationToken,
}

impl<'a> Run<'a> {
    async fn execute(
        scenario: &'static Scenario,
        plan: &'a Plan,
        reference: &'a Recording,
    ) -> Result<Finished, Vec<String>> {
        // A program has the clock of the machine.
        let clock = match &reference.subject {
            Subject::InProcess => {
                Clock::runtime(Timestamp::from_second(BEGIN).expect("a valid timestamp"))
            }
            Subject::Program(_) => Clock::system(),
        };
        let builder = DevCluster::builder()
            .clock(clock)
            .managed_fields(false)
            .admission(Admission {
                quota_controller: scenario.runs(QUOTAS),
                ..Admission::default()
            })
            .kept_requests(KEPT)
            .seed(reference.seed)
            .simulated_nodes(NodesConfig {
                count: scenario.nodes,
                binds_claims: !scenario.runs(BINDER),
                attaches_volumes: scenario.runs(ATTACH_DETACH),
                ..NodesConfig::default()
            });
        let cluster = builder
            .start()
            .await
            .map_err(|error| vec![error.to_string()])?;
        for object in (scenario.before)() {
            let loaded = cluster.load(object);
            loaded.map_err(|status| {
                vec![format!("no object before the start: {}", status.message)]
            })?;
        }
        let counters = Counters::new(&cluster, reference.events.keys());
        if let Plan::Shuffle(seed) = plan {
            cluster.faults().seed(*seed);
        }
        let faults: Vec<RuleId> = plan
            .faults(&reference.events)
            .into_iter()
            .map(|fault| arm(&cluster, fault))
            .collect();
        let mut deadlines = Deadlines::new(&cluster, plan, &faults, reference);

        let over = CancellationToken::new();
        let begin = cluster.revision();
        let mut run = Run {
            scenario,
            plan,
            subject: &reference.subject,
            pace: reference.subject.pace(),
            cluster: cluster.clone(),
            faults,
            begin,
            leader: None,
            managers: 0,
            panics: 0,
            ended: Vec::new(),
            over: over.clone(),
        };
        let mut history = History::default();
        let standby = matches!(plan, Plan::Failover(..))
            .then(|| Manager::standby(&cluster, scenario, 2, &reference.subject));
        let steps = async {
            let mut result = steps::reach_final_state(
                &cluster,
                scenario,
                reference,
                &mut deadlines,
                &mut history,
            )
            .await;
            // Later requests only repeat themselves, such as renewed watches. Faults there would
            // test the same again.
            let counted = counters.read(&cluster);
            if result.is_ok() {
                result =
                    steps::stay_in_final_state(&cluster, reference, &deadlines, &mut history).await;
            }
            over.cancel();
            (result, counted)
        };
        let ((result, counted), (), runaway) =
            tokio::join!(steps, run.perturb(standby), hold_runaway(&cluster, &over));
        let mut gauges = None;
        if let Some(leader) = run.leader.take() {
            gauges = leader.samples(scenario.gauges);
            run.panics += leader.stop().await;
        }
        history.advance(&cluster);
        let requests = cluster.requests();
        history.attribute(&requests);
        cluster.stop().await;

        let mut outcome = Outcome {
            virtual_time: deadlines.elapsed(),
            ..Outcome::default()
        };
        let end = masked(&history.state);
        let counts = history.counts();
        let reached = deadlines.into_reached();
        let plurals = history.plurals(begin);
        let groups = history.groups(begin);
        // Unwatched resources cannot lag.
        let plurals = plurals
            .into_iter()
            .filter(|plural| counted.events.contains_key(plural))
            .collect();
        let recording = Recording {
            subject: reference.subject.clone(),
            seed: reference.seed,
            reached,
            plurals,
            groups,
            end,
            gauges: gauges.clone().unwrap_or_default(),
            counts,
            ..counted
        };
        outcome.met = run.met_all();
        outcome.hit = run
            .faults
            .iter()
            .filter_map(|rule| cluster.faults().last_hit(*rule))
            .collect();
        let is_final = result.is_ok();
        match result {
            Ok(()) => outcome
                .violations
                .extend(oracle::broken_in_the_end(scenario, &history.state)),
            Err(violation) => outcome.violations.push(violation),
        }
        outcome.violations.extend(
            (requests.len() >= KEPT).then(|| format!("runaway: more than {KEPT} requests")),
        );
        outcome
            .violations
            .extend(runaway.then(|| format!("runaway: more than {RUNAWAY} writes")));
        outcome
            .violations
            .extend((run.panics > 0).then(|| format!("{} panics", run.panics)));
        outcome
            .violations
            .extend(oracle::ended(plan, &outcome.hit, &run.ended));
        outcome
            .violations
            .extend(oracle::broken_rules(scenario, &history));
        outcome.violations.extend(oracle::two_leaders(&requests));
        if reference.is_complete() {
            outcome.violations.extend(oracle::churn(
                scenario,
                &reference.counts,
                &recording.counts,
            ));
            if let Some(gauges) = gauges.filter(|_| is_final) {
                let gauges = [&reference.gauges, &gauges];
                outcome.violations.extend(oracle::other_gauges(gauges));
            }
        }
        Ok(Finished { outcome, recording })
    }

    /// Starts the manager, injects the faults that are more than one rule, and keeps a manager
    /// running until the end.
    async fn perturb(&mut self, standby: Option<Manager>) {
        self.start().await;
        match (self.plan, self.faults.first().copied()) {
            (Plan::Crash(points), Some(mut rule)) => {
                for at in 0..points.len() {
                    if !self.met(rule).await {
                        break;
                    }
                    self.crash().await;
                    tokio::time::sleep(self.pace.restart).await;
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
                // A former leader may live on without its Lease. It must not write.
                tokio::time::sleep(FORMER_LEADER_LIVES).await;
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
                let revision = history::before_the_latest(&self.cluster, self.begin, *behind, of);
                let late = Matcher {
                    resource: of.map(str::to_owned),
                    ..Matcher::default()
                }
                .client(AGENT);
                let view = self.cluster.faults().hold_view(late, revision);
                let cluster = self.cluster.clone();
                let pace = self.pace;
                let catch_up = async {
                    tokio::time::sleep(pace.lag).await;
                    cluster.faults().remove(view);
                };
                tokio::join!(self.start(), catch_up);
            }
            (Plan::Hidden(group, _), Some(rule)) if self.met(rule).await => {
                let cluster = self.cluster.clone();
                let pace = self.pace;
                cluster.faults().hide_from_discovery(&group.0);
                let show = async {
                    tokio::time::sleep(pace.hidden).await;
                    cluster.faults().show_in_discovery(&group.0);
                };
                tokio::join!(self.keep_running(), show);
            }
            _ => {}
        }
        self.keep_running().await;
    }

    /// Restarts the manager after it ends by itself, until the end of the scenario.
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

    /// Whether every fault of the plan happened.
    fn met_all(&self) -> bool {
        let is_met = |rule: &RuleId| self.cluster.faults().hits(*rule) > 0;
        match self.plan {
            Plan::Crash(points) => {
                self.faults.len() == points.len() && self.faults.iter().all(is_met)
            }
            // A watched resource may have no event at all.
            Plan::Shuffle(_) => self.faults.iter().any(is_met),
            _ => self.faults.iter().all(is_met),
        }
    }

    /// Waits until the rule applies. Returns false if the scenario ends before.
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
            self.subject,
        ))
        .await;
    }

    async fn lead(&mut self, mut manager: Manager) {
        // A real leader has just written its Lease, so its term begins at the latest revision.
        let since = self.cluster.revision();
        // A manager without filled caches waits, at most until the end of the scenario.
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

/// Adds the fault to the rules of the cluster.
fn arm(cluster: &DevCluster, fault: Fault) -> RuleId {
    match fault {
        Fault::Request(matcher, fault, times) => cluster.faults().on_request(matcher, fault, times),
        Fault::Event(matcher, fault, times) => cluster.faults().on_event(matcher, fault, times),
    }
}

/// Blocks all writes of managers after [`RUNAWAY`] writes, and returns whether that happened. An
/// endless loop of writes keeps the paused clock from advancing, so no deadline would end it.
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

/// Fault rules with a delay of zero, which only count.
struct Counters {
    writes: RuleId,
    requests: RuleId,
    discovery_requests: RuleId,
    event_writes: [RuleId; 2],
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
        let [writes, requests, discovery_requests] =
            [plan::writes(), plan::requests(), plan::discovery_requests()].map(count);
        let event_writes =
            plan::EVENT_VERBS.map(|verb| count(Matcher::new(verb, "events").client(AGENT)));
        Self {
            writes,
            requests,
            discovery_requests,
            event_writes,
            events: events.collect(),
        }
    }

    /// Returns the counts so far, with an entry for each watched resource.
    fn read(self, cluster: &DevCluster) -> Recording {
        let faults = cluster.faults();
        let requests = cluster.requests();
        let watches = requests
            .iter()
            .filter(|request| request.verb == "watch" && request.user_agent.contains(AGENT));
        let watched = watches
            .map(|request| &request.resource)
            .filter(|plural| !history::IGNORED.contains(&plural.as_str()));
        let mut events: BTreeMap<String, usize> =
            watched.map(|plural| (plural.clone(), 0)).collect();
        events.extend(
            self.events
                .into_iter()
                .map(|(plural, rule)| (plural, faults.hits(rule))),
        );
        let [writes, requests, discovery_requests] =
            [self.writes, self.requests, self.discovery_requests].map(|rule| faults.hits(rule));
        let event_writes = self.event_writes.map(|rule| faults.hits(rule));
        Recording {
            writes,
            requests,
            discovery_requests,
            event_writes,
            events,
            ..Recording::default()
        }
    }
}

#[cfg(test)]
mod tests;
