//! Random owner graphs with cycles, deletions and faults, compared with a model.
//!
//! The model states only which objects must remain, and is independent of the controller's code.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use steersman_devcluster::faults::{EventFault, Matcher, RequestFault, RuleId};
use steersman_devcluster::status::Status;
use steersman_runtime::informer::MetadataChange;
use steersman_values::resource::ResourceType;

use super::*;

/// Number of seeds; the variable `GC_SEEDS` overrides it.
///
/// A failing seed is printed, and `GC_SEED` repeats it. The seeds before it in the same cluster run
/// again too, because their effects on the watches may matter.
const SEEDS: u64 = 200;

/// Time without requests after which the collector counts as idle.
const QUIET: Duration = Duration::from_secs(2);

/// Number of idle periods to wait for late watch events. After repeated ends, a watch is reopened
/// with a delay of up to a minute.
const PATIENCE: u32 = 60;

/// Number of seeds that use the same cluster, one after the other.
const BATCH: u64 = 100;

/// The types of owners and dependents: plural and kind.
const KINDS: [(&str, &str); 2] = [("configmaps", "ConfigMap"), ("secrets", "Secret")];

/// The plural for the object with this name.
fn plural_of(name: &str) -> &'static str {
    KINDS
        .iter()
        .find(|(plural, _)| name.starts_with(plural))
        .unwrap()
        .0
}

/// Random numbers by Splitmix64, which are the same for a seed on every platform.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// A number from 0 to `sides - 1`.
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }
}

/// The objects that must remain: names with the names of their owners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model(BTreeMap<String, BTreeSet<String>>);

impl Model {
    /// Deletes an object, and all objects that lose their last owner by it.
    fn delete(&mut self, name: &str, policy: &str) {
        self.0.remove(name);
        if policy == "Orphan" {
            self.0
                .values_mut()
                .for_each(|owners| owners.retain(|owner| owner != name));
        }
        loop {
            let left: BTreeSet<String> = self.0.keys().cloned().collect();
            self.0
                .retain(|_, owners| owners.is_empty() || !owners.is_disjoint(&left));
            if self.0.len() == left.len() {
                self.0
                    .values_mut()
                    .for_each(|owners| owners.retain(|owner| left.contains(owner)));
                return;
            }
        }
    }
}

/// The objects in the cluster.
fn remaining(world: &World) -> Model {
    let objects = KINDS
        .iter()
        .flat_map(|(plural, _)| world.cluster.objects(plural));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entry = |object: Value| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let owners = owners
            .map(|owners| owners.iter().map(|o| text(&o["name"])).collect())
            .unwrap_or_default();
        (text(&object["metadata"]["name"]), owners)
    };
    Model(objects.map(entry).collect())
}

/// Prints the command that repeats a seed if the test panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            eprintln!(
                "seed {seed} failed; again: GC_SEED={seed} cargo test -p steersman-controllers remaining_objects_equal_the_model -- --nocapture"
            );
        }
    }
}

/// Injects a few random faults into the collector's requests and watches, for `victim` and other
/// objects. They end when the returned rules are removed.
fn inject_faults(world: &World, victim: &str, dice: &mut Dice) -> Vec<RuleId> {
    let faults = world.cluster.faults();
    let plural = plural_of(victim);
    let ours = |verb| Matcher::new(verb, plural).client("kube-controller-manager");
    let mut rules = Vec::new();
    for verb in ["get", "delete", "patch"] {
        let broken = Status::new(500, "InternalError", "on purpose");
        rules.push(faults.reject(Matcher::new(verb, plural), broken, Some(dice.roll(3))));
        rules.push(faults.on_request(ours(verb), RequestFault::LoseAnswer, Some(dice.roll(3) / 2)));
    }
    if dice.roll(3) == 0 {
        faults.break_watches(plural);
    }
    let soon = Duration::from_secs(1);
    let fault = match dice.roll(10) {
        0 => EventFault::DelayUpTo(soon),
        1 => EventFault::Coalesce(soon),
        2 => EventFault::Close,
        3 => EventFault::Expire,
        4 => EventFault::Drop {
            repaired_after: soon,
        },
        _ => return rules,
    };
    // A dropped event must concern the victim: also upstream's collector does not orphan a
    // dependent that its watch omits.
    let about = if matches!(fault, EventFault::Drop { .. }) {
        ours("watch").name(victim)
    } else {
        ours("watch").nth(1 + dice.roll(3))
    };
    rules.push(faults.on_event(about, fault, Some(1)));
    rules
}

/// The latest resource version of each kind that the collector's informers have shown.
struct Observed([Arc<AtomicU64>; KINDS.len()]);

impl Observed {
    fn by(world: &World) -> Self {
        Self(KINDS.map(|(plural, kind)| {
            let latest = Arc::new(AtomicU64::new(0));
            let group = "".into();
            let version = "v1".into();
            let kind = kind.into();
            let plural = plural.into();
            let resource = ResourceType {
                group,
                version,
                kind,
                plural,
                namespaced: true,
            };
            let observed = Arc::clone(&latest);
            world
                .informers
                .metadata(&resource)
                .add_handler(move |change| {
                    if let MetadataChange::Added(meta) | MetadataChange::Updated { new: meta, .. } =
                        change
                    {
                        observed.fetch_max(meta.resource_version, Ordering::Relaxed);
                    }
                });
            latest
        }))
    }

    /// Waits until the informers have shown `objects`. The collector, like upstream's, does not
    /// orphan dependents that its graph lacks.
    async fn wait_for(&self, objects: &[Value]) {
        let version = |object: &Value| {
            object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        for ((_, kind), latest) in KINDS.iter().zip(&self.0) {
            let version = objects
                .iter()
                .filter(|object| object["kind"] == *kind)
                .map(version)
                .max()
                .unwrap_or(0);
            let reached = async {
                while latest.load(Ordering::Relaxed) < version {
                    tokio::time::sleep(QUIET).await;
                }
            };
            let reached = tokio::time::timeout(QUIET * PATIENCE, reached).await;
            assert!(
                reached.is_ok(),
                "no informer has shown version {version} of {kind}"
            );
        }
    }
}

/// A cluster with a running collector, and the versions that its informers have shown.
struct Stage {
    world: World,
    observed: Observed,
}

impl Stage {
    async fn new() -> Self {
        let world = World::with_collector().await;
        let observed = Observed::by(&world);
        Self { world, observed }
    }

    /// Restarts the collector. With `stale`, the API server's watch cache shows that older revision
    /// for one second.
    async fn restart(&mut self, stale: Option<u64>) {
        let ours = |(plural, _): (&str, _)| {
            let matcher = Matcher {
                resource: Some(plural.to_owned()),
                ..Matcher::default()
            };
            matcher.client("kube-controller-manager")
        };
        let faults = self.world.cluster.faults();
        let views = stale.map(|revision| KINDS.map(|kind| faults.hold_view(ours(kind), revision)));
        self.world.restart(&[DESCRIPTOR]).await;
        self.observed = Observed::by(&self.world);
        if let Some(views) = views {
            tokio::time::sleep(Duration::from_secs(1)).await;
            views
                .into_iter()
                .for_each(|view| self.world.cluster.faults().remove(view));
        }
    }
}

/// Creates random objects with random owners, some in cycles, and returns their model.
async fn populate(Stage { world, observed }: &Stage, seed: u64, dice: &mut Dice) -> Model {
    let mut model = Model::default();
    let mut made = Vec::<Value>::new();
    for number in 0..4 + dice.roll(9) {
        let mut owners: BTreeMap<String, (Value, bool)> = BTreeMap::new();
        for _ in 0..dice.roll(4).min(made.len()) {
            let owner = made[dice.roll(made.len())].clone();
            owners.insert(name_of(&owner), (owner, dice.roll(2) == 0));
        }
        let references: Vec<(&Value, bool)> = owners
            .values()
            .map(|(owner, blocks)| (owner, *blocks))
            .collect();
        let (plural, kind) = KINDS[dice.roll(KINDS.len())];
        let name = format!("{plural}-s{seed}-{number}");
        let mut object = owned(&name, &references);
        object["kind"] = json!(kind);
        made.push(world.create(object).await);
        model.0.insert(name, owners.into_keys().collect());
    }
    for _ in 0..dice.roll(6).saturating_sub(2) {
        let first = dice.roll(made.len());
        let second = dice.roll(made.len());
        let name = name_of(&made[first]);
        let owner = name_of(&made[second]);
        // An object that owns itself would wait for itself, as with upstream's collector.
        if first != second && model.0.get_mut(&name).unwrap().insert(owner) {
            let mut references = made[first]["metadata"]["ownerReferences"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let more =
                owned("", &[(&made[second], dice.roll(2) == 0)])["metadata"]["ownerReferences"][0]
                    .take();
            references.push(more);
            made[first] = world
                .patch(
                    plural_of(&name),
                    &name,
                    json!({"metadata": {"ownerReferences": references}}),
                )
                .await;
        }
    }
    observed.wait_for(&made).await;
    model
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

async fn run(stage: &mut Stage, seed: u64) {
    let _replay = Replay(seed);
    let mut dice = Dice(seed);
    let cluster = stage.world.cluster.clone();
    cluster.faults().seed(seed);
    let mut model = populate(stage, seed, &mut dice).await;
    for _ in 0..1 + dice.roll(3) {
        let names: Vec<&String> = model.0.keys().collect();
        if names.is_empty() {
            break;
        }
        let name = names[dice.roll(names.len())].clone();
        let rules = inject_faults(&stage.world, &name, &mut dice);
        let policy = ["Background", "Foreground", "Orphan"][dice.roll(3)];
        let path = cluster.path(plural_of(&name), NAMESPACE, &name);
        let before = cluster.revision();
        while cluster
            .delete_with(&path, json!({"propagationPolicy": policy}))
            .await
            .is_err()
        {}
        model.delete(&name, policy);
        if dice.roll(8) == 0 {
            tokio::time::sleep(Duration::from_millis(dice.roll(50) as u64)).await;
            stage.restart((dice.roll(2) == 0).then_some(before)).await;
        }
        settle(
            &stage.world,
            &model,
            &format!("after {name} was deleted with {policy}"),
        )
        .await;
        rules
            .into_iter()
            .for_each(|rule| cluster.faults().remove(rule));
    }
    // The next seed starts with an empty cluster.
    for name in model.0.into_keys() {
        let _ = cluster
            .delete(&cluster.path(plural_of(&name), NAMESPACE, &name))
            .await;
    }
    settle(
        &stage.world,
        &Model::default(),
        "after everything was deleted",
    )
    .await;
}

/// Waits until the collector is idle and the remaining objects equal `model`.
async fn settle(world: &World, model: &Model, when: &str) {
    let mut before = None;
    for _ in 0..PATIENCE {
        let requests = request_count(world);
        if before == Some(requests) && remaining(world) == *model {
            return;
        }
        before = Some(requests);
        tokio::time::sleep(QUIET).await;
    }
    assert_eq!(remaining(world), *model, "{when}");
    panic!("{when}: the collector does not become idle");
}

/// The number of the collector's requests so far, for [`KINDS`].
fn request_count(world: &World) -> u64 {
    let counts = world.cluster.request_counts("kube-controller-manager");
    let about = |resource: &str| KINDS.iter().any(|(plural, _)| *plural == resource);
    counts
        .into_iter()
        .filter(|((_, resource), _)| about(resource))
        .map(|(_, count)| count)
        .sum()
}

#[tokio::test(start_paused = true)]
async fn remaining_objects_equal_the_model() {
    let number = |name: &str| {
        std::env::var(name).ok().map(|text| {
            text.parse::<u64>()
                .expect("GC_SEED and GC_SEEDS must be numbers")
        })
    };
    let all = || 0..number("GC_SEEDS").unwrap_or(SEEDS);
    let seeds: Vec<u64> = number("GC_SEED")
        .map_or_else(all, |seed| seed / BATCH * BATCH..seed + 1)
        .collect();
    for batch in seeds.chunks(BATCH as usize) {
        println!("seeds {batch:?}");
        let mut stage = Stage::new().await;
        for seed in batch {
            run(&mut stage, *seed).await;
        }
    }
}
