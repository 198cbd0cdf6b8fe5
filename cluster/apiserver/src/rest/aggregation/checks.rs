//! The checks of programs behind APIServices, each on its own: a program that hangs delays no other one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, select_all};
use futures::stream::FuturesUnordered;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::api_services::MANAGED;
use super::availability::Known;
use super::{Program, Remote};
use crate::Server;
use crate::openapi::Document;
use crate::store::Object;

/// A program is asked again after this time, as upstream's resync.
const RESYNC: Duration = Duration::from_secs(30);
/// The first wait after a failed check. Later ones double up to [`RESYNC`].
const FIRST_RETRY: Duration = Duration::from_millis(5);

/// The kinds that decide about APIServices.
const WATCHED: [(&str, &str, &str); 3] = [
    ("apiregistration.k8s.io", "v1", "apiservices"),
    ("", "v1", "services"),
    ("discovery.k8s.io", "v1", "endpointslices"),
];

/// The next look at an APIService.
#[derive(Debug)]
enum Next {
    /// A change of an object.
    Change,
    /// The end of the running check. The guard stops it when another check takes its place.
    End(#[expect(dead_code, reason = "its drop has an effect")] DropGuard),
    At(Instant),
}

/// The last check of an APIService.
struct Check {
    /// The UID and spec of the APIService, and the spec of its Service. A change asks for a new check.
    about: String,
    next: Next,
    failures: u32,
    /// `None` until the first check ends.
    condition: Option<Value>,
    remote: Arc<Remote>,
}

/// A check that ended, with the name of its APIService.
type Ended = (String, Check);

/// The checks of a server.
struct Checks<'a> {
    server: &'a Server,
    /// By the name of the APIService.
    last: BTreeMap<String, Check>,
    /// `None` is a check that was stopped.
    running: FuturesUnordered<BoxFuture<'a, Option<Ended>>>,
}

/// Checks the programs behind APIServices and proxies requests to them, until dropped.
pub async fn aggregate(server: Arc<Server>) {
    let kinds = WATCHED.iter();
    let found = kinds.filter_map(|(group, version, plural)| {
        let entry = server.registry.find(group, version, plural)?;
        Some(entry.store.committed())
    });
    let mut changes: Vec<_> = found.collect();
    let mut checks = Checks {
        server: &server,
        last: BTreeMap::new(),
        running: FuturesUnordered::new(),
    };
    loop {
        for change in &mut changes {
            change.borrow_and_update();
        }
        checks.begin_due();
        let due = checks.due();
        let next_is_due = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let waits = changes.iter_mut().map(|change| Box::pin(change.changed()));
        tokio::select! {
            () = next_is_due => {}
            Some(ended) = checks.running.next() => {
                if let Some(ended) = ended {
                    checks.settle(ended);
                }
            }
            (changed, ..) = select_all(waits) => if changed.is_err() { return },
        }
    }
}

impl Checks<'_> {
    /// Begins all checks that are due, and publishes the state of all APIServices.
    fn begin_due(&mut self) {
        let entry = self.server.api_service_kind();
        let objects = entry.store.list(&self.server.revisions, "").objects;
        let objects: Vec<(Arc<Object>, Value)> = objects
            .into_iter()
            .filter(|object| object.label(MANAGED).is_none())
            .map(|object| (object.clone(), object.to_value()))
            .filter(|(_, value)| value["spec"]["service"].is_object())
            .collect();
        let mut last = std::mem::take(&mut self.last);
        for (object, value) in &objects {
            let name = object.name().to_owned();
            let known = last.remove(&name);
            let check = self.checked(&name, value, known);
            self.last.insert(name, check);
        }
        let remotes = self.last.values().map(|check| {
            let remote = &check.remote;
            let key = (remote.group.clone(), remote.version.clone());
            (key, Arc::clone(remote))
        });
        // Clients wait for the condition, so the program is reachable before.
        *self.server.aggregated.remotes.write() = remotes.collect();
        for (object, _) in &objects {
            let check = self.last.get(object.name());
            if let Some(condition) = check.and_then(|check| check.condition.clone()) {
                self.server.set_availability(&entry, object, condition);
            }
        }
    }

    /// The last check if it is still valid, or a new one, which may have just begun.
    fn checked(&self, name: &str, object: &Value, last: Option<Check>) -> Check {
        let spec = &object["spec"];
        let service = self.server.service_of(spec);
        let uid = object["metadata"]["uid"].to_string();
        let about = format!("{uid}{spec}{service}");
        let is_same = last.as_ref().is_some_and(|last| last.about == about);
        let last = match last {
            Some(last) if is_same && last.is_valid() => return last,
            last => last,
        };
        let remote = Remote::of(spec);
        let program = match self.server.known_of(spec, &service) {
            Known::Condition(condition) => {
                return Check {
                    about,
                    next: Next::Change,
                    failures: 0,
                    condition: Some(condition),
                    remote: Arc::new(remote),
                };
            }
            Known::Ask(program) => Arc::new(program),
        };
        let kept = last.as_ref().filter(|_| is_same);
        let failures = kept.map_or(0, |kept| kept.failures);
        let condition = kept.and_then(|kept| kept.condition.clone());
        // Until the end of the check, requests are answered as before. Those of a changed APIService go to its new program
        // at once. Upstream: `updateAPIService` takes `serviceAvailable` from the condition.
        let before = match last {
            Some(last) if is_same => last.remote,
            Some(last) if last.about.starts_with(&uid) => Arc::new(Remote {
                program: Some(Arc::clone(&program)),
                is_available: last.remote.is_available,
                ..Remote::of(spec)
            }),
            _ => Arc::new(Remote::of(spec)),
        };
        let stop = CancellationToken::new();
        let begun = Check {
            about: about.clone(),
            next: Next::End(stop.clone().drop_guard()),
            failures,
            condition,
            remote: before,
        };
        let name = name.to_owned();
        let server = self.server;
        let check = async move { (name, check(server, about, remote, program, failures).await) };
        self.running
            .push(Box::pin(stop.run_until_cancelled_owned(check)));
        begun
    }

    /// Takes the result of a check, unless its APIService changed meanwhile.
    fn settle(&mut self, (name, check): Ended) {
        if let Some(last) = self.last.get_mut(&name)
            && last.about == check.about
        {
            *last = check;
        }
    }

    /// The time of the next check.
    fn due(&self) -> Option<Instant> {
        let times = self.last.values().filter_map(|check| match &check.next {
            Next::At(due) => Some(*due),
            Next::Change | Next::End(_) => None,
        });
        times.min()
    }
}

impl Check {
    /// Whether its result counts without a new look.
    fn is_valid(&self) -> bool {
        match &self.next {
            Next::Change => false,
            Next::End(_) => true,
            Next::At(due) => Instant::now() < *due,
        }
    }
}

/// Asks the program of `remote`. `failures` are those since its last answer.
async fn check(
    server: &Server,
    about: String,
    mut remote: Remote,
    program: Arc<Program>,
    failures: u32,
) -> Check {
    let path = remote.path();
    let checked = program.check(&path).await;
    remote.program = Some(Arc::clone(&program));
    let mut count = 0;
    if checked.is_ok() {
        remote.is_available = true;
        let (resources, documents, older) = futures::join!(
            program.resources(&remote.group, &remote.version),
            program.documents(&path),
            program.older_document()
        );
        remote.resources = resources;
        remote.newer = match &documents {
            Some(_) => None,
            None => older.as_ref().map(Document::newer),
        };
        remote.documents = documents.unwrap_or_default();
        remote.older = older;
    } else {
        count = failures.saturating_add(1);
    }
    let wait = match count {
        0 => RESYNC,
        count => FIRST_RETRY
            .saturating_mul(2_u32.saturating_pow(count - 1))
            .min(RESYNC),
    };
    let condition = match checked {
        Ok(()) => server.available("True", "Passed", "all checks passed"),
        Err(why) => server.available("False", "FailedDiscoveryCheck", &why),
    };
    Check {
        about,
        next: Next::At(Instant::now() + wait),
        failures: count,
        condition: Some(condition),
        remote: Arc::new(remote),
    }
}
