//! The Events of other components, which name the cause of a refusal.

use jiff::Timestamp;

use crate::world::event_time;
use crate::{Doc, World};

/// The newest Event of one kind about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastEvent {
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The component that sent it.
    pub from: String,
    /// Its last occurrence.
    pub at: Option<Timestamp>,
    /// Its first occurrence.
    pub first: Option<Timestamp>,
    /// The number of occurrences.
    pub count: u32,
}

/// The start of the message of an Event that the correlator joins with others.
pub const COMBINED: &str = "(combined from similar events): ";

/// The newest Warning about `object` with one of these reasons, or with any reason if `reasons` is empty.
pub fn warning(world: &World, object: &Doc, reasons: &[&str]) -> Option<LastEvent> {
    newest(world, object, |event| {
        let is_meant = reasons.is_empty() || reasons.contains(&event.text("/reason"));
        event.text("/type") == "Warning" && is_meant
    })
}

/// The newest Event about `object` with this reason, of any type.
pub fn event(world: &World, object: &Doc, reason: &str) -> Option<LastEvent> {
    newest(world, object, |event| event.text("/reason") == reason)
}

fn newest(world: &World, object: &Doc, is_meant: impl Fn(&Doc) -> bool) -> Option<LastEvent> {
    let events = world.events(object);
    let event = events.iter().find(|event| is_meant(event))?;
    let from = match event.text("/source/component") {
        "" => event.text("/reportingComponent"),
        component => component,
    };
    let message = event.text("/message");
    let count = event
        .number("/count")
        .max(event.number("/series/count"))
        .max(1);
    Some(LastEvent {
        reason: event.text("/reason").to_owned(),
        message: message.strip_prefix(COMBINED).unwrap_or(message).to_owned(),
        from: from.to_owned(),
        at: event_time(event),
        first: event.time("/firstTimestamp").or_else(|| event_time(event)),
        count: u32::try_from(count).unwrap_or(u32::MAX),
    })
}
