//! Makes a sequence with a difference shorter, as long as some answers still differ.

use anyhow::Result;
use serde_json::Value;

use crate::play::{Difference, Servers};
use crate::sample::pointers;
use crate::sequence::Sequence;

/// The most attempts for one sequence.
const ATTEMPTS: usize = 400;

/// A small sequence with a difference. `name` makes names of objects.
pub(crate) async fn shrink(
    servers: &Servers,
    mut sequence: Sequence,
    mut difference: Difference,
    name: impl Fn() -> String,
) -> Result<(Sequence, Difference)> {
    sequence.steps.truncate(difference.at + 1);
    let mut attempts = 0;
    loop {
        let mut is_smaller = false;
        for candidate in candidates(&sequence) {
            attempts += 1;
            if attempts > ATTEMPTS {
                return Ok((sequence, difference));
            }
            if let Some(found) = servers.play(&candidate, &name()).await? {
                sequence = candidate;
                sequence.steps.truncate(found.at + 1);
                difference = found;
                is_smaller = true;
                break;
            }
        }
        if !is_smaller {
            return Ok((sequence, difference));
        }
    }
}

/// Sequences with one step or one value less.
fn candidates(sequence: &Sequence) -> Vec<Sequence> {
    let mut candidates = Vec::new();
    for at in 0..sequence.steps.len().saturating_sub(1) {
        let mut shorter = sequence.clone();
        shorter.steps.remove(at);
        candidates.push(shorter);
    }
    for (at, step) in sequence.steps.iter().enumerate() {
        for pointer in pointers(&step.body) {
            if matches!(pointer.as_str(), "/kind" | "/apiVersion" | "/metadata/name") {
                continue;
            }
            let mut smaller = sequence.clone();
            if remove(&mut smaller.steps[at].body, &pointer) {
                candidates.push(smaller);
            }
        }
    }
    candidates
}

fn remove(body: &mut Value, pointer: &str) -> bool {
    let Some((parent, key)) = pointer.rsplit_once('/') else {
        return false;
    };
    match body.pointer_mut(parent) {
        Some(Value::Object(fields)) => fields
            .remove(&key.replace("~1", "/").replace("~0", "~"))
            .is_some(),
        Some(Value::Array(items)) => match key.parse::<usize>() {
            Ok(index) if index < items.len() => {
                items.remove(index);
                true
            }
            _ => false,
        },
        _ => false,
    }
}
