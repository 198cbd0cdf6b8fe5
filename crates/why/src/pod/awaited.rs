//! The Services for which an init container waits, by its command. Such a container tries a Service again and again, and
//! tells only that it still runs.

use serde_json::Value;
use steersman_values::resource::SERVICES;

use super::{START, name};
use crate::{Code, Doc, Explanation, Reason, World, existing};

/// Characters of a command in one sentence.
const SHOWN: usize = 100;

/// Follows the Services that stand still and that the command of a running init container of `doc` names.
pub(super) fn follow(world: &World, doc: &Doc, answer: &mut Explanation) {
    let Some(status) = running(doc) else {
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
    let Some(services) = world.list(&SERVICES, doc.namespace()) else {
        return;
    };
    if let Some(host) = absent_host(doc, &command, services) {
        let namespace = doc.namespace();
        let known = existing(services.iter().map(Doc::name));
        reason.code = Code::InitContainer;
        reason.message = format!(
            "{}; Service {namespace}/{host} does not exist ({known})",
            reason.message
        );
        reason.who = format!(
            "owner of the pod template (host {host}), or creator of Service {namespace}/{host}"
        );
        return;
    }
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

/// Programs whose flag `-h` names a host.
const CLIENTS: [&str; 7] = [
    "pg_isready",
    "psql",
    "mysql",
    "mysqladmin",
    "redis-cli",
    "mongo",
    "mongosh",
];
/// Schemes of addresses with a host.
const SCHEMES: [&str; 10] = [
    "http",
    "https",
    "tcp",
    "postgres",
    "postgresql",
    "mysql",
    "mongodb",
    "redis",
    "amqp",
    "nats",
];
/// Programs whose first argument is a host.
const PROBES: [&str; 4] = ["nc", "ncat", "nslookup", "wait-for-it"];

/// The status of the init container that the others wait for. A sidecar among them runs as long as the pod.
pub(super) fn running(doc: &Doc) -> Option<&Value> {
    let is_sidecar = |status: &Value| {
        let mut specs = doc.items("/spec/initContainers").iter();
        specs.any(|spec| spec["name"] == status["name"] && spec["restartPolicy"] == "Always")
    };
    let mut statuses = doc.items("/status/initContainerStatuses").iter();
    statuses.find(|status| status.pointer("/state/running").is_some() && !is_sidecar(status))
}

/// The first host of `command` that is none of `services`, if names of one label are Services of the pod's namespace:
/// the DNS of the cluster resolves them, and no other search domain is given.
fn absent_host<'a>(doc: &Doc, command: &'a str, services: &[Doc]) -> Option<&'a str> {
    let policy = doc.text("/spec/dnsPolicy");
    let is_on_host = doc.at("/spec/hostNetwork") == Some(&Value::Bool(true));
    let is_by_cluster = match policy {
        "" | "ClusterFirst" => !is_on_host,
        policy => policy == "ClusterFirstWithHostNet",
    };
    if !is_by_cluster || !doc.items("/spec/dnsConfig/searches").is_empty() {
        return None;
    }
    let aliases = doc.items("/spec/hostAliases").iter();
    let aliases: Vec<&Value> = aliases
        .filter_map(|alias| alias["hostnames"].as_array())
        .flatten()
        .collect();
    hosts(command).into_iter().find(|host| {
        let is_service = services.iter().any(|service| service.name() == *host);
        !is_service && *host != "localhost" && aliases.iter().all(|alias| *alias != host)
    })
}

/// The hosts of one label in `command`, as loops name them that wait: after the flag or the program that takes a
/// host, in a URL, and before a port.
fn hosts(command: &str) -> Vec<&str> {
    let is_between = |c: char| c.is_whitespace() || ";|&()'\"`".contains(c);
    let words: Vec<&str> = command
        .split(is_between)
        .filter(|word| !word.is_empty())
        .collect();
    // Elsewhere, a word before a number may be a user: `chown postgres:999`.
    let is_loop = words
        .iter()
        .any(|word| matches!(*word, "until" | "while") || word.contains("wait"));
    let mut program = "";
    let mut hosts = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at + 1).copied();
        let flags = |word: &&&str| word.starts_with('-') || word.parse::<u32>().is_ok();
        let host = if CLIENTS.contains(word) {
            program = *word;
            None
        } else if PROBES.contains(word) {
            words[at + 1..].iter().find(|word| !flags(word)).copied()
        } else if *word == "--host" || (*word == "-h" && !program.is_empty()) {
            next
        } else if let Some((scheme, address)) = word.split_once("://") {
            let authority = address.split(['/', '?']).next().unwrap_or_default();
            let host = authority.rsplit('@').next().unwrap_or_default();
            host.split(':').next().filter(|_| SCHEMES.contains(&scheme))
        } else if let Some(host) = word.strip_prefix("--host=") {
            Some(host)
        } else {
            word.split_once(':')
                .filter(|(_, port)| is_loop && port.parse::<u16>().is_ok())
                .map(|(host, _)| host)
        };
        hosts.extend(host.filter(|host| is_label(host)));
    }
    hosts
}

/// Whether `text` is one label of a DNS name, as the name of a Service is.
fn is_label(text: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(is_inside)
        && !text.ends_with('-')
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
    fn hosts_of_one_label_are_found_where_commands_name_hosts() {
        let cases: [(&str, &[&str]); 15] = [
            (
                "sh -c until pg_isready -h billing-db-rw -p 5432; do echo waiting for database; sleep 2; done",
                &["billing-db-rw"],
            ),
            ("until nc -z -w 2 queue 5672; do sleep 1; done", &["queue"]),
            ("nc -zv 10.0.0.7 5432", &[]),
            ("until nslookup web; do sleep 2; done", &["web"]),
            (
                "until nslookup web.shop.svc.cluster.local; do sleep 2; done",
                &[],
            ),
            ("curl -fsS http://login:8080/healthz", &["login"]),
            ("curl https://login.example.com/healthz", &[]),
            ("wait-for-it cache:6379 --timeout=60", &["cache"]),
            ("mysqladmin ping --host=db --silent", &["db"]),
            ("df -h data", &[]),
            ("until redis-cli -h $REDIS_HOST ping; do sleep 1; done", &[]),
            ("sh -c sleep infinity", &[]),
            ("chown -R postgres:999 /data", &[]),
            ("aws s3 sync s3://models /mnt", &[]),
            (
                "psql postgres://user:pw@db:5432/shop -c 'select 1'",
                &["db"],
            ),
        ];
        for (command, expected) in cases {
            assert_eq!(hosts(command), expected, "{command}");
        }
    }

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
