//! Stories of objects that do not move: states of a cluster that people reported, each with its true
//! cause, and the people or programs that can act.
//!
//! story (data) -> [`Stage`] on paused time -> `why` with and without the leader -> verdict
//!
//! Stories in which nothing is wrong guard against wrong causes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod stage;
pub mod stories;
mod verdict;

pub use stage::{Stage, StageError};
pub use verdict::{Verdict, codes, outputs, table, tell};

use steersman_why::Code;

/// The controllers that run in a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// All of them, with two simulated nodes.
    All,
    /// All but this one.
    Without(&'static str),
    /// None, and no nodes: the objects are the state.
    Nothing,
}

/// A step to the state of a story.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// Applies a manifest.
    Apply(&'static str),
    /// Stores a manifest with its status and all metadata.
    Load(&'static str),
    /// Waits for this many seconds.
    Wait(u64),
    /// Deletes the object with this plural, namespace and name.
    Delete(&'static str, &'static str, &'static str),
    /// The same in the foreground.
    DeleteForeground(&'static str, &'static str, &'static str),
    /// Sends a merge patch to the object with this plural, namespace and name.
    Patch(&'static str, &'static str, &'static str, &'static str),
    /// The API server refuses requests of controllers with this verb and resource: code, reason and
    /// message.
    Reject(&'static str, &'static str, u16, &'static str, &'static str),
    /// The aggregated API server of this group is down.
    Hide(&'static str),
}

/// The truth about a story.
#[derive(Debug, Clone, Copy)]
pub enum Truth {
    /// The cause: its code, a part of its message, and a part of the name of the one that can act.
    Cause(Code, &'static str, &'static str),
    /// The cause, which only the manager knows.
    Inside(Code, &'static str, &'static str),
    /// Nothing stands still; this reason helps to understand the state.
    Moves(Code),
    /// Nothing is wrong and there is nothing to tell.
    Fine,
}

/// A story.
#[derive(Debug, Clone, Copy)]
pub struct Story {
    /// Number of the question that people ask, from 1 to 16.
    pub question: u8,
    /// The state in a few words.
    pub title: &'static str,
    /// The controllers that run.
    pub run: Run,
    /// The steps to the state.
    pub steps: &'static [Step],
    /// Kind and name of the object that is asked about.
    pub about: (&'static str, &'static str),
    /// The truth.
    pub truth: Truth,
}

/// The sixteen questions.
pub const QUESTIONS: [&str; 16] = [
    "Why is it still being deleted?",
    "Why does the autoscaler not scale?",
    "Why does the Deployment not progress?",
    "Why did the CronJob not run?",
    "Why is the StatefulSet stuck?",
    "Why does the garbage collector not delete?",
    "Why is the volume not attached?",
    "Why are no pods created?",
    "Why is the DaemonSet not on that node?",
    "Why is the namespace still there?",
    "Why has the Service no endpoints?",
    "Why does the Job not start or finish?",
    "Why is the claim Pending?",
    "Why are pods of a dead node not evicted?",
    "Why does the budget refuse evictions?",
    "Is the manager itself the cause?",
];
