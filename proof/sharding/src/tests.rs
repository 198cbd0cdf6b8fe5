//! The protocol in small worlds, and variants without one of its rules.

use super::step::Violation;
use super::world::{Drain, Durations, Rules, Writes};
use super::*;

/// A world with a name, as the record has it.
struct Named {
    name: &'static str,
    world: World,
}

/// One range and two replicas.
fn pair() -> World {
    World::new(2, 1)
}

/// The same with clocks at different rates. Each clock may be wrong by one tick, and so the margin is larger.
fn drifting() -> World {
    World {
        drift: true,
        durations: Durations {
            lease: 5,
            ..pair().durations
        },
        ..pair()
    }
}

/// A world in which upstream's manager stands by.
fn beside_upstream(replicas: usize) -> World {
    World {
        upstream: true,
        ..World::new(replicas, 1)
    }
}

/// The same world with other writes.
fn writing(writes: Writes, world: World) -> World {
    World { writes, ..world }
}

/// The same world with other rules.
fn with(rules: Rules, world: World) -> World {
    World { rules, ..world }
}

fn worlds() -> Vec<Named> {
    let named = |name, world| Named { name, world };
    vec![
        named("one range, two replicas, creations", pair()),
        named(
            "one range, two replicas, creations and updates",
            writing(Writes::All, pair()),
        ),
        named("one range, two replicas, drifting clocks", drifting()),
        named("one range, three replicas, creations", World::new(3, 1)),
        named(
            "two ranges, two replicas, Leases only",
            writing(Writes::None, World::new(2, 2)),
        ),
        named("one range, one replica, upstream", beside_upstream(1)),
        named("one range, two replicas, upstream", beside_upstream(2)),
    ]
}

/// Worlds that take a minute or more.
fn large_worlds() -> Vec<Named> {
    let named = |name, world| Named { name, world };
    vec![
        named("two ranges, two replicas, creations", World::new(2, 2)),
        named(
            "two ranges, three replicas, Leases only",
            writing(Writes::None, World::new(3, 2)),
        ),
        named(
            "one range, two replicas, upstream, creations and updates",
            writing(Writes::All, beside_upstream(2)),
        ),
    ]
}

/// The record of the protocol.
const RECORD: &str = include_str!("../../../docs/decisions/0017-ranges-of-namespaces.md");

/// The names of the controllers in the reference.
fn controllers() -> Vec<&'static str> {
    let reference = include_str!("../../../docs/reference.md");
    let mark = "<!-- controllers: kept true by a test -->";
    let table = reference.split(mark).nth(1).unwrap();
    let rows = table.split("<!-- end -->").next().unwrap().lines().skip(3);
    rows.filter_map(|row| row.split('`').nth(1)).collect()
}

/// The names in the rows of the record whose second cell is `answer`.
fn that_split(answer: &str) -> Vec<&'static str> {
    let rows = RECORD.lines().map(|line| line.split('|'));
    let names = rows.filter_map(|mut cells| {
        let first = cells.nth(1)?;
        let is_wanted = cells.next()?.trim() == answer;
        is_wanted.then_some(first)
    });
    // The texts between two backticks are at odd positions.
    names
        .flat_map(|names| names.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn the_record_tells_of_each_controller_whether_it_splits() {
    let yes = that_split("yes");
    let mut told = [yes.clone(), that_split("no")].concat();
    told.sort_unstable();
    let mut all = controllers();
    all.sort_unstable();
    assert_eq!(told, all, "each controller is in one row");
    let sum = format!("{} of {} do", yes.len(), all.len());
    assert!(RECORD.contains(&sum), "the record lacks {sum:?}");
}

/// Searches a world in which the protocol must hold. Returns the row of the record with the size of the search.
fn row_of(named: &Named) -> String {
    let explored = explore(&named.world).unwrap_or_else(|found| panic!("{}: {found}", named.name));
    let Explored {
        states,
        transitions,
        depth,
        stuck,
    } = explored;
    assert_eq!(
        stuck, None,
        "{}: a range stays without a holder",
        named.name
    );
    let states = grouped(states);
    let transitions = grouped(transitions);
    format!("| {} | {states} | {transitions} | {depth} |", named.name)
}

/// The number with a comma before each group of three digits.
fn grouped(number: usize) -> String {
    let rest = format!("{:03}", number % 1_000);
    match number / 1_000 {
        0 => number.to_string(),
        thousands => format!("{},{rest}", grouped(thousands)),
    }
}

/// Asserts that the protocol holds in all worlds, and that the record has their sizes.
fn hold(worlds: &[Named]) {
    let rows: Vec<String> = worlds.iter().map(row_of).collect();
    let missing: Vec<&String> = rows.iter().filter(|row| !RECORD.contains(*row)).collect();
    assert!(missing.is_empty(), "the record lacks {missing:#?}");
}

#[test]
fn the_protocol_holds_in_each_state_of_small_worlds() {
    hold(&worlds());
}

#[test]
#[ignore = "takes minutes; run it in a release build"]
fn the_protocol_holds_in_each_state_of_larger_worlds() {
    hold(&large_worlds());
}

/// Asserts that a variant of the protocol violates a rule, by the shortest way.
fn fails(variant: &str, world: World, expected: Violation, way: &[&str]) {
    let found = explore(&world).expect_err(variant);
    assert_eq!(found.violation, expected, "{variant}: {found}");
    assert_eq!(lines(&found.way), way, "{variant}: {found}");
}

/// The lines of a way, without their numbers.
fn lines(way: &str) -> Vec<&str> {
    way.lines().map(|line| &line[5..]).collect()
}

#[test]
fn a_release_without_a_wait_for_requests_under_way_has_two_writers() {
    let rules = Rules {
        drain: Drain::Nothing,
        ..Rules::ALL
    };
    fails(
        "no wait",
        with(rules, pair()),
        Violation::TwoWriters(0),
        &[
            "replica 0 starts",
            "replica 0 takes the Lease of range 0",
            "replica 0 lists range 0",
            "replica 0 sends a creation for range 0",
            "replica 0 is asked to stop",
            "replica 0 releases the Lease of range 0",
            "the write of replica 0 for range 0 arrives",
        ],
    );
}

#[test]
fn a_lease_as_long_as_the_term_has_two_writers() {
    let durations = Durations {
        lease: 2,
        ..pair().durations
    };
    let world = World {
        durations,
        ..pair()
    };
    fails(
        "no margin",
        world,
        Violation::TwoWriters(0),
        &[
            "replica 0 starts",
            "replica 0 takes the Lease of range 0",
            "replica 0 lists range 0",
            "replica 1 starts",
            "a tick passes",
            "replica 0 sends a creation for range 0",
            "a tick passes",
            "replica 1 takes the Lease of range 0",
            "the write of replica 0 for range 0 arrives",
        ],
    );
}

#[test]
fn the_margin_must_cover_the_drift_of_clocks() {
    let durations = Durations {
        lease: 4,
        ..pair().durations
    };
    let world = World {
        durations,
        ..drifting()
    };
    fails(
        "a short margin",
        world,
        Violation::TwoWriters(0),
        &[
            "replica 0 starts",
            "a tick passes, and the clock of replica 0 drifts",
            "replica 0 takes the Lease of range 0",
            "replica 0 lists range 0",
            "replica 1 starts",
            "a tick passes",
            "a tick passes, and the clock of replica 0 drifts",
            "replica 0 sends a creation for range 0",
            "a tick passes, and the clock of replica 1 drifts",
            "replica 1 takes the Lease of range 0",
            "the write of replica 0 for range 0 arrives",
        ],
    );
}

#[test]
fn an_error_that_counts_as_the_end_of_a_request_has_two_writers() {
    let rules = Rules {
        drain: Drain::Answers,
        ..Rules::ALL
    };
    fails(
        "an error ends a request",
        with(rules, pair()),
        Violation::TwoWriters(0),
        &[
            "replica 0 starts",
            "replica 0 takes the Lease of range 0",
            "replica 0 lists range 0",
            "replica 0 sends a creation for range 0",
            "replica 0 is asked to stop",
            "replica 0 gets an error for its write for range 0, which goes on",
            "replica 0 releases the Lease of range 0",
            "the write of replica 0 for range 0 arrives",
        ],
    );
}

#[test]
fn a_cache_that_is_older_than_the_lease_lacks_objects() {
    let rules = Rules {
        lease_version: false,
        ..Rules::ALL
    };
    fails(
        "no wait for the version of the Lease",
        with(rules, pair()),
        Violation::StaleDecision(0),
        &[
            "replica 0 starts",
            "replica 0 takes the Lease of range 0",
            "replica 0 lists range 0 without its last object",
            "replica 0 sends a creation for range 0",
        ],
    );
}

#[test]
fn a_cache_that_is_older_than_an_answer_lacks_the_own_object() {
    let rules = Rules {
        own_versions: false,
        ..Rules::ALL
    };
    fails(
        "no wait for own versions",
        with(rules, pair()),
        Violation::StaleDecision(0),
        &[
            "replica 0 starts",
            "replica 0 takes the Lease of range 0",
            "replica 0 lists range 0",
            "replica 0 sends a creation for range 0",
            "the write of replica 0 for range 0 arrives",
            "replica 0 sends a creation for range 0",
        ],
    );
}

#[test]
fn a_cache_after_an_open_result_lacks_the_own_object() {
    let rules = Rules {
        open_results: false,
        ..Rules::ALL
    };
    fails(
        "no live read after an open result",
        with(rules, pair()),
        Violation::StaleDecision(0),
        &[
            "replica 0 starts",
            "replica 0 takes the Lease of range 0",
            "replica 0 lists range 0",
            "replica 0 sends a creation for range 0",
            "replica 0 gets an error for its write for range 0, which goes on",
            "the write of replica 0 for range 0 arrives",
            "replica 0 sends a creation for range 0",
        ],
    );
}

#[test]
fn an_update_without_a_resource_version_overwrites_a_later_one() {
    let rules = Rules {
        precondition: false,
        ..Rules::ALL
    };
    let world = with(rules, writing(Writes::All, pair()));
    fails(
        "no precondition",
        world,
        Violation::LostUpdate(0),
        &[
            "replica 0 starts",
            "replica 0 takes the Lease of range 0",
            "replica 0 sends an update for range 0",
            "replica 0 is asked to stop",
            "replica 0 gets an error for its write for range 0, which goes on",
            "replica 0 releases the Lease of range 0",
            "replica 1 starts",
            "replica 1 takes the Lease of range 0",
            "replica 1 sends an update for range 0",
            "the write of replica 0 for range 0 arrives",
            "the write of replica 1 for range 0 arrives",
        ],
    );
}

#[test]
fn ranges_without_the_common_lease_have_upstream_as_a_second_holder() {
    let rules = Rules {
        common_lease: false,
        ..Rules::ALL
    };
    let world = with(rules, beside_upstream(1));
    fails(
        "no common Lease",
        world,
        Violation::TwoHolders(0),
        &[
            "replica 0 starts",
            "replica 0 takes the Lease of range 0",
            "upstream's manager starts",
            "upstream's manager takes the common Lease",
        ],
    );
}

#[test]
fn a_common_lease_shorter_than_the_term_names_another_holder() {
    let durations = Durations {
        lease: 1,
        ..pair().durations
    };
    let world = World {
        durations,
        ..beside_upstream(1)
    };
    fails(
        "a short common Lease",
        world,
        Violation::RecordDisagrees(1),
        &[
            "replica 0 starts",
            "replica 0 takes the common Lease",
            "upstream's manager starts",
            "a tick passes",
            "upstream's manager takes the common Lease",
        ],
    );
}

#[test]
fn a_lease_that_never_expires_leaves_a_range_without_a_holder() {
    let rules = Rules {
        expiry: false,
        ..Rules::ALL
    };
    let explored = explore(&with(rules, pair())).unwrap();
    let stuck = explored.stuck.unwrap();
    let way = [
        "replica 0 starts",
        "replica 0 takes the Lease of range 0",
        "replica 0 crashes",
        "replica 0 starts",
    ];
    assert_eq!(lines(&stuck), way, "{stuck}");
}
