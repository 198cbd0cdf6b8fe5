//! Random owner graphs, deletions and faults against a model that knows nothing of the controller.

use std::collections::{BTreeMap, BTreeSet};

use steersman_devcluster::faults::{Matcher, RequestFault};
use steersman_devcluster::status::Status;

use super::*;

/// How many seeds, unless `GC_SEEDS` says; a failing one is printed and runs alone with `GC_SEED`.
const SEEDS: u64 = 1000;

/// How long nothing may be asked for the end to count as reached; no back-off of so few failures is as long.
const QUIET: Duration = Duration::from_secs(2);

/// Seeds that share a cluster, one after the other.
const BATCH: u64 = 100;

/// Splitmix64: the same numbers everywhere for one seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }
}

/// What must remain: names with the names of their owners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model(BTreeMap<String, BTreeSet<String>>);

impl Model {
    fn delete(&mut self, name: &str, policy: &str) {
        self.0.remove(name);
        if policy == "Orphan" {
            self.0.values_mut().for_each(|owners| owners.retain(|owner| owner != name));
        }
        loop {
            let left: BTreeSet<String> = self.0.keys().cloned().collect();
            self.0.retain(|_, owners| owners.is_empty() || !owners.is_disjoint(&left));
            if self.0.len() == left.len() {
                self.0.values_mut().for_each(|owners| owners.retain(|owner| left.contains(owner)));
                return;
            }
        }
    }
}

fn remaining(world: &World) -> Model {
    let maps = world.cluster.objects("configmaps");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Model(
        maps.iter()
            .map(|map| {
                let owners = map["metadata"]["ownerReferences"].as_array();
                let owners = owners.map(|owners| owners.iter().map(|o| text(&o["name"])).collect()).unwrap_or_default();
                (text(&map["metadata"]["name"]), owners)
            })
            .collect(),
    )
}

async fn run(world: &mut World, seed: u64) {
    let mut dice = Dice(seed);
    let (mut model, mut made) = (Model::default(), Vec::new());
    for number in 0..4 + dice.roll(9) {
        let mut owners: BTreeMap<String, (Value, bool)> = BTreeMap::new();
        for _ in 0..dice.roll(4).min(made.len()) {
            let owner: Value = Value::clone(&made[dice.roll(made.len())]);
            owners.insert(owner["metadata"]["name"].as_str().unwrap().to_owned(), (owner, dice.roll(2) == 0));
        }
        let references: Vec<(&Value, bool)> = owners.values().map(|(owner, blocks)| (owner, *blocks)).collect();
        let name = format!("s{seed}-{number}");
        made.push(world.map(&name, &references).await);
        model.0.insert(name, owners.into_keys().collect());
    }
    for _ in 0..1 + dice.roll(3) {
        let faults = world.cluster.faults();
        for verb in ["get", "delete", "patch"] {
            let broken = Status::new(500, "InternalError", "on purpose");
            faults.reject(Matcher::new(verb, "configmaps"), broken, Some(dice.roll(3)));
            let ours = Matcher::new(verb, "configmaps").client("kube-controller-manager");
            faults.on_request(ours, RequestFault::LoseAnswer, Some(dice.roll(3) / 2));
        }
        if dice.roll(3) == 0 {
            faults.break_watches("configmaps");
        }
        let names: Vec<&String> = model.0.keys().collect();
        if names.is_empty() {
            break;
        }
        let name = names[dice.roll(names.len())].clone();
        let policy = ["Background", "Foreground", "Orphan"][dice.roll(3)];
        let path = world.cluster.path("configmaps", NAMESPACE, &name);
        while world.cluster.delete_with(&path, json!({"propagationPolicy": policy})).await.is_err() {}
        model.delete(&name, policy);
        if dice.roll(8) == 0 {
            tokio::time::sleep(Duration::from_millis(dice.roll(50) as u64)).await;
            world.restart(&[DESCRIPTOR]).await;
        }
        quiet(world).await;
        assert_eq!(remaining(world), model, "seed {seed}: after {name} was deleted with {policy}");
    }
    // The next seed begins with nothing.
    for name in model.0.into_keys() {
        let _ = world.cluster.delete(&world.cluster.path("configmaps", NAMESPACE, &name)).await;
    }
    quiet(world).await;
    assert_eq!(remaining(world), Model::default(), "seed {seed}: after everything was deleted");
}

/// Waits until the collector has asked for nothing for a while. That this ends needs no limit: it does not poll what nobody changes.
async fn quiet(world: &World) {
    let asked = || {
        let counts = world.cluster.request_counts("kube-controller-manager");
        counts.into_iter().filter(|((_, resource), _)| resource == "configmaps").map(|(_, count)| count).sum::<u64>()
    };
    loop {
        let before = asked();
        tokio::time::sleep(QUIET).await;
        if asked() == before {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_is_deleted_however_what_remains_is_what_the_model_says() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number of a seed, or of seeds"));
    let all = || (0..number("GC_SEEDS").unwrap_or(SEEDS)).collect();
    let seeds: Vec<u64> = number("GC_SEED").map_or_else(all, |seed| vec![seed]);
    for batch in seeds.chunks(BATCH as usize) {
        let mut world = World::collected().await;
        for seed in batch {
            run(&mut world, *seed).await;
        }
    }
}
