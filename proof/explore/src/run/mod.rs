//! One run: a fork of the empty cluster, a manager behind the wire, and a list of actions.
//!
//! Time stands still except in [`Action::Wait`]. After each action, the run yields until all tasks
//! are idle.

mod observe;

use std::sync::LazyLock;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::Value;
use steersman_client::HttpService;
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;
use steersman_devcluster::{DevCluster, Snapshot};
use steersman_perturb::{AGENT, History, InProcess, Masked, Step, before_the_latest};
use steersman_values::clock::Clock;

use crate::action::{Action, Lag};
use crate::wire::{Verdict, Wire};
use crate::world::{Call, World};

/// Start of the clock in every run, in seconds since the epoch.
const BEGIN: i64 = 1_700_000_000;
/// Seed of names and UIDs. Each run draws the same ones.
const SEED: u64 = 48;
/// Turns of the scheduler after an action. A chain of wakes is far shorter: from the wire to the
/// client, the sync, and back. Each exploration repeats some ways with more turns.
const TURNS: usize = 48;
/// The same after the start of a manager and after a wait, in which many tasks run.
const MANY_TURNS: usize = 10 * TURNS;
/// Most repetitions of a run that comes to another state.
const REPEATS: usize = 100;
/// Interval of the requests of living kubelets while time passes.
const PULSE: Duration = Duration::from_secs(5);
/// The longest wait while events or requests are held. It is shorter than every time limit of the
/// client, and longer than the first back-offs.
const SHORT_WAIT: Duration = Duration::from_secs(2);

/// The cluster without objects of a world, which each run forks.
static EMPTY: LazyLock<Snapshot> = LazyLock::new(|| DevCluster::new(Clock::system()).snapshot());

fn clock() -> Clock {
    Clock::runtime(Timestamp::from_second(BEGIN).expect("a valid timestamp"))
}

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// The canonical state.
    pub(crate) id: u128,
    /// The possible actions, one of each kind that differs by more than names. A restart has the
    /// number of all that its result follows from.
    pub(crate) enabled: Vec<(Action, Option<u128>)>,
    /// The possible actions as a number without names.
    pub(crate) choices: u64,
    /// Broken rules.
    pub(crate) violations: Vec<String>,
    /// Objects of the final state, if nothing but time or a fault can change the state.
    pub(crate) end: Option<Masked>,
    /// Broken rules about the end, if this is the end.
    pub(crate) final_violations: Vec<String>,
}

/// An action of the list was not possible, so the run did not repeat.
#[derive(Debug)]
pub(crate) struct Diverged(pub(crate) String);

/// The fixed parts of a run.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) world: &'static World,
    /// Most faults.
    pub(crate) faults: usize,
    /// A multiple of [`TURNS`].
    pub(crate) turns: usize,
}

/// Executes `actions` in a runtime of its own, then `last`. `known` is the state between them.
///
/// A new manager reads its caches in the order of hash maps, which differs between runs. A run that
/// comes to another state is therefore repeated.
pub(crate) fn replay(
    setup: Setup,
    actions: &[Action],
    known: Option<u128>,
    last: Option<&Action>,
) -> Result<Observed, Diverged> {
    let run = async || {
        let mut run = Run::after(setup, actions).await?;
        if known.is_some_and(|known| known != run.coloured().id()) {
            return Err(Diverged(
                "another state at the end of the same way".to_owned(),
            ));
        }
        if let Some(last) = last {
            run.perform(last).await?;
        }
        Ok(run.observe())
    };
    let mut outcome = in_runtime(run());
    for _ in 0..REPEATS {
        if outcome.is_ok() {
            break;
        }
        outcome = in_runtime(run());
    }
    outcome
}

/// Executes `actions`, then lets everything happen without further faults, in at most `most`
/// actions.
pub(crate) fn drain(setup: Setup, actions: &[Action], most: usize) -> Result<Observed, Diverged> {
    in_runtime(async {
        let mut run = Run::after(setup, actions).await?;
        let mut further = Vec::new();
        for turn in 0..most {
            let mut next = run.enabled();
            next.retain(|action| !action.is_fault());
            // Fairness: every kind of action has its turn.
            let Some(action) = next.get(turn % next.len().max(1)).cloned() else {
                break;
            };
            let before = (next == [Action::Wait]).then(|| run.coloured().id());
            run.perform(&action).await?;
            if before.is_some_and(|before| before == run.coloured().id()) {
                break;
            }
            further.push(action.to_string());
        }
        let is_settled = further.len() < most;
        let mut observed = run.observe();
        let endless = format!("liveness: not settled after {most} fair actions");
        observed.violations.extend((!is_settled).then_some(endless));
        let way = further.join(", ");
        for violation in &mut observed.violations {
            *violation += &format!(", after the way below and {way}");
        }
        Ok(observed)
    })
}

fn in_runtime<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("a runtime without IO needs no resources");
    runtime.block_on(run)
}

struct Run {
    setup: Setup,
    cluster: DevCluster,
    wire: Wire,
    leader: Option<InProcess>,
    /// A manager that has lost its Lease.
    former: Option<InProcess>,
    managers: usize,
    panics: usize,
    history: History,
    steps: Vec<Step>,
    /// Number of the user's next step.
    next: usize,
    faults: usize,
    /// Revision at the start; caches lag only by later changes.
    begin: u64,
    violations: Vec<String>,
}

impl Run {
    async fn after(setup: Setup, actions: &[Action]) -> Result<Self, Diverged> {
        let mut run = Self::start(setup).await;
        for action in actions {
            run.perform(action).await?;
        }
        Ok(run)
    }

    async fn start(setup: Setup) -> Self {
        let world = setup.world;
        let builder = DevCluster::builder()
            .snapshot(&EMPTY)
            .clock(clock())
            .seed(SEED);
        let started = builder.managed_fields(false).start().await;
        let cluster = started.expect("a fork without objects starts");
        for object in (world.scenario.before)() {
            cluster
                .load(object)
                .expect("the objects of a world are valid");
        }
        let mut run = Self {
            setup,
            wire: Wire::to(&cluster),
            begin: cluster.revision(),
            cluster,
            leader: None,
            former: None,
            managers: 0,
            panics: 0,
            history: History::default(),
            steps: (world.scenario.steps)(),
            next: 0,
            faults: 0,
            violations: Vec::new(),
        };
        run.lead(None).await;
        run.settle(MANY_TURNS).await;
        run
    }

    /// Starts a manager that leads.
    async fn lead(&mut self, lag: Option<&Lag>) {
        self.managers += 1;
        let client = format!("{AGENT}{})", self.managers);
        self.wire
            .led_by(self.managers, lag.map(|lag| lag.resource.clone()));
        let view = lag.map(|lag| {
            let of = Matcher {
                resource: Some(lag.resource.clone()),
                ..Matcher::default()
            };
            let shown =
                before_the_latest(&self.cluster, self.begin, lag.changes, Some(&lag.resource));
            self.cluster.faults().hold_view(of.client(&client), shown)
        });
        let server = HttpService::new(self.wire.clone());
        let clock = self.cluster.clock();
        let mut manager =
            InProcess::standby_over(server, clock, &self.setup.world.scenario, self.managers);
        manager.lead(self.cluster.revision()).await;
        self.leader = Some(manager);
        if let Some(view) = view {
            self.settle(MANY_TURNS).await;
            self.cluster.faults().remove(view);
        }
    }

    /// Lets all tasks run until they wait for the wire or for time.
    async fn settle(&mut self, turns: usize) {
        for _ in 0..turns * self.setup.turns {
            tokio::task::yield_now().await;
        }
        self.wire.prune();
        self.history.advance(&self.cluster);
        let late: Vec<String> = std::mem::take(&mut self.wire.state().late_writes);
        let late = late
            .into_iter()
            .map(|write| format!("two leaders: {write} after the loss of the Lease"));
        self.violations.extend(late);
    }

    async fn perform(&mut self, action: &Action) -> Result<(), Diverged> {
        self.faults += usize::from(action.is_fault());
        let is_done = match action {
            Action::Deliver(watch) => self.wire.deliver(watch),
            Action::Answer(label) => self.wire.decide(label, false, Verdict::Answer),
            Action::Handle(label) => self.wire.decide(label, false, Verdict::Handle),
            Action::Return(label) => self.wire.decide(label, true, Verdict::Answer),
            Action::Lose(label) => self.wire.decide(label, false, Verdict::Lose),
            Action::Act(name) => self.act(name).await,
            Action::User(number) => self.next_step() == Some(*number) && self.take(*number).await,
            Action::Wait => self.wait().await,
            Action::Crash(lag) => {
                self.crash().await;
                self.lead(lag.as_ref()).await;
                true
            }
            Action::HandOver(lag) => {
                self.hand_over().await;
                self.lead(lag.as_ref()).await;
                true
            }
        };
        let turns = match action {
            Action::Wait | Action::Crash(_) | Action::HandOver(_) => MANY_TURNS,
            _ => TURNS,
        };
        self.settle(turns).await;
        is_done
            .then_some(())
            .ok_or_else(|| Diverged(action.to_string()))
    }

    async fn act(&self, name: &str) -> bool {
        let mut acts = (self.setup.world.acts)(&self.history.state).into_iter();
        let Some(act) = acts.find(|act| act.name == name) else {
            return false;
        };
        for call in act.calls {
            let refused = self.call(call).await.err();
            if refused.is_some_and(|status| status.code != 404) {
                return false;
            }
        }
        true
    }

    async fn call(&self, call: Call) -> Result<Value, Status> {
        let Call {
            method,
            path,
            content_type,
            body,
        } = call;
        self.cluster
            .call(method, &path, content_type, body.to_string())
            .await
    }

    /// The user takes a step.
    async fn take(&mut self, number: usize) -> bool {
        let Some(step) = self.steps.get(number).cloned() else {
            return false;
        };
        self.next = number + 1;
        let cluster = &self.cluster;
        let done = match step {
            Step::Create(object) => cluster.create(object).await,
            Step::Load(object) => cluster.load(object).map(|()| Value::Null),
            Step::Patch(path, patch) => cluster.patch(&path, patch).await,
            Step::Replace(path, object) => {
                cluster
                    .call(Method::PUT, &path, "application/json", object.to_string())
                    .await
            }
            Step::Delete(path, options) => self.call(Call::delete(path, options)).await,
            // A wait is no action: it only holds back the next step.
            _ => return false,
        };
        done.is_ok()
    }

    /// The number of the user's next action, if its condition holds.
    fn next_step(&self) -> Option<usize> {
        let mut next = self.next;
        while let Some(step) = self.steps.get(next) {
            match step {
                Step::Until(_, holds) if holds(&self.history.state) => next += 1,
                Step::Until(..) => return None,
                _ => return Some(next),
            }
        }
        None
    }

    /// Lets time pass until the manager sends a request or an event comes.
    async fn wait(&mut self) -> bool {
        let mut news = self.wire.news();
        let is_quiet = self.is_quiet();
        let limit = if is_quiet {
            Duration::from_secs(self.setup.world.longest_wait)
        } else {
            SHORT_WAIT
        };
        let mut passed = Duration::ZERO;
        while passed < limit {
            let pulse = PULSE.min(limit - passed);
            if tokio::time::timeout(pulse, news.changed()).await.is_ok() {
                break;
            }
            passed += pulse;
            for call in (self.setup.world.pulse)(&self.history.state, self.cluster.clock().now()) {
                // A kubelet repeats a refused request at its next pulse.
                drop(self.call(call).await);
            }
        }
        true
    }

    async fn crash(&mut self) {
        if let Some(leader) = self.leader.take() {
            self.panics += leader.crash().await;
        }
    }

    async fn hand_over(&mut self) {
        if let Some(former) = self.former.take() {
            self.panics += former.crash().await;
        }
        if let Some(leader) = self.leader.take() {
            leader.lose_lease();
            self.former = Some(leader);
        }
    }

    /// Whether no event and no request is held.
    fn is_quiet(&self) -> bool {
        let state = self.wire.state();
        state.requests.is_empty() && state.watches.values().all(|watch| watch.pending.is_empty())
    }
}
