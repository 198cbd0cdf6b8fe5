//! Conversion between events.k8s.io/v1 and the stored version core/v1 of Events.
//!
//! Only field names differ. Upstream: `pkg/apis/events/v1/conversion.go`.

use serde_json::{Map, Value};

use super::Conversion;
use crate::validate;

/// The conversion of `events.k8s.io/v1`.
pub(crate) static EVENTS: Conversion = Conversion {
    group: "",
    version: "v1",
    to_kept: to_core,
    from_kept: from_core,
    errors: validate::strict_event,
    update_errors: validate::strict_event_update,
};

/// Field names: (core/v1, events.k8s.io/v1).
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// An Event of either version as core/v1.
fn to_core(event: Value) -> Value {
    renamed(event, "v1", |name| {
        NAMES
            .iter()
            .find(|(_, new)| *new == name)
            .map_or(name, |(core, _)| core)
    })
}

/// A core/v1 Event as events.k8s.io/v1. Empty fields of the reporter and of `regarding` are
/// omitted, as upstream.
fn from_core(event: Value) -> Value {
    let mut event = renamed(event, "events.k8s.io/v1", |name| {
        NAMES
            .iter()
            .find(|(core, _)| *core == name)
            .map_or(name, |(_, new)| new)
    });
    if let Some(fields) = event.as_object_mut() {
        for name in ["reportingController", "reportingInstance"] {
            if fields.get(name).is_some_and(|value| value == "") {
                fields.remove(name);
            }
        }
        if fields
            .get("regarding")
            .is_some_and(|value| value.as_object().is_some_and(Map::is_empty))
        {
            fields.remove("regarding");
        }
    }
    event
}

/// Renames the fields of an Event, and sets its version.
fn renamed<'a>(event: Value, version: &str, name: impl Fn(&'a str) -> &'a str) -> Value
where
    'static: 'a,
{
    let Value::Object(fields) = event else {
        return event;
    };
    let mut renamed = Map::new();
    for (key, value) in fields {
        if key == "apiVersion" {
            renamed.insert(key, Value::from(version));
            continue;
        }
        let found = NAMES
            .iter()
            .flat_map(|(core, new)| [*core, *new])
            .find(|known| *known == key);
        let key = found.map_or(key, |known| name(known).to_owned());
        renamed.insert(key, value);
    }
    Value::Object(renamed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_convert_between_both_versions() {
        let core = json!({
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"},
            "involvedObject": {"name": "p"}, "message": "m", "source": {"component": "c"}, "count": 2,
            "firstTimestamp": "a", "lastTimestamp": "b", "reportingComponent": "r", "reportingInstance": "i", "reason": "R",
        });
        let new = json!({
            "kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e"},
            "regarding": {"name": "p"}, "note": "m", "deprecatedSource": {"component": "c"}, "deprecatedCount": 2,
            "deprecatedFirstTimestamp": "a", "deprecatedLastTimestamp": "b", "reportingController": "r", "reportingInstance": "i",
            "reason": "R",
        });
        assert_eq!(from_core(core.clone()), new);
        assert_eq!(to_core(new), core);
    }
}
