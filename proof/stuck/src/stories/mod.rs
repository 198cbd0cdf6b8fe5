//! All stories, by question.

mod batch;
mod blind;
mod blind_eighth;
mod blind_eleventh;
mod blind_fifth;
mod blind_ninth;
mod blind_seventh;
mod blind_sixth;
mod blind_tenth;
mod deletion;
mod manager;
mod network;
mod storage;
mod workloads;

use crate::Story;

/// All stories, sorted by their question.
pub fn all() -> Vec<&'static Story> {
    let groups: [&[Story]; 14] = [
        workloads::STORIES,
        deletion::STORIES,
        batch::STORIES,
        storage::STORIES,
        network::STORIES,
        manager::STORIES,
        blind::STORIES,
        blind_fifth::STORIES,
        blind_sixth::STORIES,
        blind_seventh::STORIES,
        blind_eighth::STORIES,
        blind_ninth::STORIES,
        blind_tenth::STORIES,
        blind_eleventh::STORIES,
    ];
    let mut all: Vec<&Story> = groups.into_iter().flatten().collect();
    all.sort_by_key(|story| story.question);
    all
}
