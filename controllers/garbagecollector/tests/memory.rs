//! Memory of an object in the graph, without and with the name and references that it shares with
//! the cache of its informer.
//!
//! The test is ignored by default, because it measures the whole process, including other tests.
//! It reads `/proc` and runs on Linux only:
//! `cargo test --release -p steersman-controllers -- --ignored memory_per_object_in_the_graph
//! --nocapture`.

use std::sync::Arc;

use steersman_objects::{CollectorFinalizers, Meta, OwnerReference, Owners, Uid};
use steersman_values::intern::Sym;
use steersman_values::labels::Labels;

use super::model::Dice;
use crate::garbagecollector::graph::{Graph, Seen};

const OBJECTS: usize = 100_000;

/// Maximum of bytes per object, beside the memory of the cache.
const LIMIT: usize = 400;

/// Number of objects with the same owner, as with the pods of a ReplicaSet.
const SIBLINGS: usize = 20;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn uid(number: usize) -> Uid {
    Uid::new(&format!("{number:08x}-1111-4222-8333-{number:012x}"))
}

fn name(number: usize) -> String {
    format!(
        "application-{:03}-{:09x}-{number:05x}",
        number % 1000,
        number * 2_654_435_761 % 0xf_ffff_ffff
    )
}

fn object(number: usize, owners: &[usize]) -> Meta {
    let references: Vec<OwnerReference> = owners
        .iter()
        .map(|&owner| OwnerReference {
            api_version: Sym::new("apps/v1"),
            kind: Sym::new("ReplicaSet"),
            name: Sym::new(&name(owner)),
            uid: uid(owner),
            controller: true,
            block_owner_deletion: true,
        })
        .collect();
    Meta {
        namespace: Sym::new(&format!("team-{}", number % 100)),
        name: Arc::from(name(number)),
        uid: uid(number),
        resource_version: 1,
        generation: 0,
        created: None,
        deleted: None,
        labels: Labels::default(),
        owners: Owners::new(&references),
        finalizers: CollectorFinalizers::default(),
    }
}

#[test]
#[ignore = "measures memory"]
fn memory_per_object_in_the_graph() {
    let mut dice = Dice(1);
    let mut up_to_three = |number: usize| -> Vec<usize> {
        let mut owners: Vec<usize> = (0..dice.roll(4).min(number))
            .map(|_| dice.roll(number))
            .collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    };
    let alike = |number: usize| {
        vec![number / SIBLINGS * SIBLINGS]
            .into_iter()
            .filter(|owner| *owner != number)
            .collect()
    };
    let ways: [(&str, &mut dyn FnMut(usize) -> Vec<usize>); 2] = [
        ("at most 3 owners each, at random", &mut up_to_three),
        ("pods of ReplicaSets", &mut { alike }),
    ];
    for (way, (name, owners_of)) in ways.into_iter().enumerate() {
        // Each round has its own names and UIDs, so the interners contain none of them yet.
        let first = way * OBJECTS;
        let api_version = Sym::new("apps/v1");
        let kind = Sym::new("ReplicaSet");
        let empty = resident();
        let cached: Vec<Meta> = (0..OBJECTS)
            .map(|number| {
                let owners: Vec<usize> = owners_of(number)
                    .into_iter()
                    .map(|owner| first + owner)
                    .collect();
                object(first + number, &owners)
            })
            .collect();
        let edges: usize = cached.iter().map(|meta| meta.owners.len()).sum();
        let before = resident();
        let mut graph = Graph::default();
        for meta in &cached {
            graph.observe(
                Seen {
                    api_version: &api_version,
                    kind: &kind,
                    meta,
                },
                None,
            );
        }
        let each = (resident() - before) / OBJECTS;
        let shared = (before - empty) / OBJECTS - size_of::<Meta>();
        let average = edges as f64 / OBJECTS as f64;
        println!(
            "{name}: {each} bytes per object, {} with name and references, {average:.1} owners on average",
            each + shared
        );
        assert_eq!(graph.iter().count(), OBJECTS);
        assert!(each <= LIMIT, "{name}");
        // The next round would reuse freed memory and measure too little.
        std::mem::forget((graph, cached));
    }
}
