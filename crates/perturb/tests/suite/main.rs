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

/// Plans that once found a bug.
const KNOWN: &[(&str, &str)] = &[];

static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
    let all =
        [deployment::scenarios(), pods::scenarios(), podgc::scenarios(), garbagecollector::scenarios(), namespace::scenarios()];
    all.into_iter().flatten().collect()
});

fn main() -> ExitCode {
    steersman_perturb::main(&SCENARIOS, KNOWN)
}
