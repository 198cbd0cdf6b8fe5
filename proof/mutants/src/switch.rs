//! Turns one mutant on. The program `steersman-mutants` writes this file into the crate that it changes.

use std::fs::File;
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the active mutant; none is active without this variable.
const ACTIVE: &str = "STEERSMAN_MUTANT";
/// The file that gets the numbers of all mutants that would have changed a value.
const RECORD: &str = "STEERSMAN_MUTANTS_RECORD";

struct State {
    active: Option<u32>,
    record: Option<File>,
}

static STATE: LazyLock<State> = LazyLock::new(|| State {
    active: std::env::var(ACTIVE).ok().and_then(|id| id.parse().ok()),
    record: std::env::var_os(RECORD).map(|path| {
        let file = File::options().append(true).create(true).open(path);
        file.expect("the folder of the record exists")
    }),
});

/// One bit for each recorded mutant.
static SEEN: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Whether mutant `id` is active.
pub(crate) fn on(id: u32) -> bool {
    let state = &*STATE;
    if let Some(file) = &state.record {
        record(file, id);
    }
    state.active == Some(id)
}

fn record(mut file: &File, id: u32) {
    let bit = 1_u64 << (id % 64);
    let word = &SEEN[id as usize / 64];
    if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        let written = file.write_all(&id.to_le_bytes());
        written.expect("the record can be written");
    }
}

/// `changed` if mutant `id` is active. Equal values do not reach the mutant.
pub(crate) fn pick<T: PartialEq>(id: u32, original: T, changed: T) -> T {
    if original != changed && on(id) {
        changed
    } else {
        original
    }
}

/// The opposite of `value` if mutant `id` is active.
pub(crate) fn flip(id: u32, value: bool) -> bool {
    value != on(id)
}
