//! The Services for which an init container waits, by its command. Such a container tries a Service again and again, and
//! tells only that it still runs.

use serde_json::Value;
use steersman_values::resource::SERVICES;

use super::{START, name};
use crate::{Code, Doc, Explanation, Reason, World};

/// Characters of a command in one sentence.
const SHOWN: usize = 100;

/// Follows the Services that stand still and that the command of a running init container of `doc` names.
pub(super) fn follow(world: &World, doc: &Doc, answer: &mut Explanation) {
    let mut statuses = doc.items("/status/initContainerStatuses").iter();
    let Some(status) = statuses.find(|status| status.pointer("/state/running").is_some()) else {
        return;
    };
    let mut specs = doc.items("/spec/initContainers").iter();
    let Some(spec) = specs.find(|spec| spec["name"] == status["name"]) else {
        return;
    };
    let started = status
        .pointer("/state/running/startedAt")
        .and_then(Value::as_str);
    let is_new = started
        .and_then(|at| at.parse().ok())
        .is_none_or(|at| world.now.duration_since(at) < START);
    let is_waiting = |reason: &&mut Reason| {
        let is_start = matches!(reason.code, Code::InitContainer | Code::PodStarting);
        is_start && reason.message == still_runs(name(status))
    };
    let Some(reason) = answer
        .reasons
        .iter_mut()
        .find(is_waiting)
        .filter(|_| !is_new)
    else {
        return;
    };
    let command = command(spec);
    let mut shown: String = command.chars().take(SHOWN).collect();
    if shown.len() < command.len() {
        shown.push_str("...");
    }
    if !shown.is_empty() {
        reason.message = format!("{}: {shown}", reason.message);
    }
    let services = world.list(&SERVICES, doc.namespace()).unwrap_or_default();
    let text = format!("{command} {}", variables(spec));
    let named = services
        .iter()
        .filter(|service| has_word(&text, service.name()));
    let about = named.map(|service| world.explain(&SERVICES, service));
    let stuck: Vec<Explanation> = about.filter(Explanation::is_stuck).collect();
    if let Some(first) = stuck.first() {
        reason.code = Code::InitContainer;
        reason.who = Reason::see(&first.object.long());
    }
    answer.waits_for.extend(stuck);
}

/// The message about an init container without an end.
pub(super) fn still_runs(name: &str) -> String {
    format!("init container {name} still runs")
}

/// The command and the arguments of a container.
fn command(spec: &Value) -> String {
    let parts = ["command", "args"]
        .into_iter()
        .filter_map(|field| spec[field].as_array());
    let parts = parts.flatten().filter_map(Value::as_str);
    let words = parts.flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

/// The values of the variables of a container, some of which take the host from one. They may be secret.
fn variables(spec: &Value) -> String {
    let variables = spec["env"].as_array().into_iter().flatten();
    let values = variables.filter_map(|one| one["value"].as_str());
    values.collect::<Vec<_>>().join(" ")
}

/// Whether `text` has `name` as a host: alone, or as the first part of a longer one.
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
    let mut words = text.split(|c: char| !is_part(c));
    words.any(|word| {
        word == name
            || word
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hosts_are_read_from_a_command() {
        let spec = json!({
            "command": ["sh", "-c", "until nc -z db-main 5432;\n  do sleep 2; done"], "args": ["queue.shop.svc:6379"],
            "env": [{"name": "HOST", "value": "cache"}, {"name": "KEY", "valueFrom": {}}],
        });
        let text = command(&spec);
        assert_eq!(
            text,
            "sh -c until nc -z db-main 5432; do sleep 2; done queue.shop.svc:6379"
        );
        let text = format!("{text} {}", variables(&spec));
        for name in ["db-main", "queue", "cache"] {
            assert!(has_word(&text, name), "{name}");
        }
        for name in ["db", "main", "shop", "svc", "until-nc"] {
            assert!(!has_word(&text, name), "{name}");
        }
    }
}
