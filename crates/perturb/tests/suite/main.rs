//! Every controller under every plan: `cargo test -p steersman-perturb --test suite -- --help`.

mod deployment;
mod garbagecollector;
mod namespace;
mod objects;
mod podgc;
mod pods;

use std::process::ExitCode;
use std::sync::LazyLock;

use steersman_perturb::Scenario;

/// Plans that once found a bug, or tell a controller from one without a check that no other plan of
/// the sample misses. Each says what it is about, not which number that has by now, and fails when
/// it is not met.
const KNOWN: &[(&str, &str)] = &[
    // A new leader with an old cache scaled ReplicaSets by what they had been, and made another
    // beside one it did not know: pods beyond the surge, or too few available.
    ("deployment/rollover", "lag:replicasets:create/pods#6:3"),
    ("deployment/pause", "lag:replicasets:create/pods#6:3"),
    // What a write of our own had made of a ReplicaSet was not told; the sum of what was gave room
    // for pods beyond the surge.
    (
        "deployment/rollover",
        "event:replicasets:@web-688f86cb67#4:drop",
    ),
    // Pods that were already removed were removed again as long as the cache still showed them.
    ("podgc/terminated", "event:pods:@e#2:stall"),
    ("podgc/out-of-service", "event:pods:@a#1:stall"),
    // A node that the cache does not show is asked for before its pods are taken for orphans.
    ("podgc/node-returns", "event:nodes:@late#1:stall"),
    // A new leader asks for the owner or for its pods before it scales on an old view.
    ("replicaset/create", "stale:create/pods#1:2"),
    ("replicaset/create", "stale:create/pods#2:5"),
    // Pods that are free to be adopted, and in the cache still somebody else's, were not counted:
    // others were made in their place.
    ("replicaset/orphaned", "lag:pods:patch/pods#4:3"),
    ("replicationcontroller/orphaned", "lag:pods:patch/pods#4:3"),
    // A new leader let an owner go although it was to wait for dependents, which its cache lacked.
    (
        "garbagecollector/deployment",
        "lag:replicasets:update/deployments/status#1:1",
    ),
    // A pod is deleted by its UID: another one has its name by now.
    ("replicaset/namesake", "event:pods:@one#5:stall"),
    ("replicationcontroller/namesake", "event:pods:@one#5:stall"),
];

static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
    let all = [
        deployment::scenarios(),
        pods::scenarios(),
        podgc::scenarios(),
        garbagecollector::scenarios(),
        namespace::scenarios(),
    ];
    all.into_iter().flatten().collect()
});

fn main() -> ExitCode {
    steersman_perturb::main(&SCENARIOS, KNOWN)
}
