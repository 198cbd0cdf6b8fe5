//! Runs the steps of the user, waits for the final state, and checks that it stays.

use std::time::Duration;

use http::Method;
use serde_json::json;
use steersman_devcluster::DevCluster;
use tokio::time::Instant;

use super::deadlines::Deadlines;
use crate::history::{History, State, is_write};
use crate::manager::AGENT;
use crate::mask::{Masked, difference, masked};
use crate::pace::Pace;
use crate::recording::Recording;
use crate::scenario::{Scenario, Step};

/// Interval at which a wait checks the state.
const POLL: Duration = Duration::from_millis(100);
/// Runs all steps, then waits for the final state. The error names the step or state that was not
/// reached.
pub(super) async fn reach_final_state(
    cluster: &DevCluster,
    scenario: &Scenario,
    reference: &Recording,
    deadlines: &mut Deadlines,
    history: &mut History,
) -> Result<(), String> {
    for step in (scenario.steps)() {
        let done = match step {
            Step::Create(object) => cluster.create(object).await,
            Step::Load(object) => cluster.load(object).map(|()| serde_json::Value::Null),
            Step::Patch(path, patch) => cluster.patch(&path, patch).await,
            Step::PatchChosen(choose) => {
                history.advance(cluster);
                let mut done = Ok(serde_json::Value::Null);
                for (path, patch) in choose(&history.state) {
                    done = done.and(cluster.patch(&path, patch).await);
                }
                done
            }
            Step::Replace(path, object) => {
                cluster
                    .call(Method::PUT, &path, "application/json", object.to_string())
                    .await
            }
            Step::Delete(path, options) => {
                cluster
                    .call(
                        Method::DELETE,
                        &path,
                        "application/json",
                        options.to_string(),
                    )
                    .await
            }
            Step::Evict(app) => {
                for pod in pods_of(&history.state, app) {
                    evict(cluster, history, deadlines, &pod).await?;
                }
                deadlines.reach();
                continue;
            }
            Step::Until(name, holds) => {
                until(cluster, history, deadlines, |state| holds(state))
                    .await
                    .map_err(|time| format!("progress: state {name:?} not reached {time}"))?;
                deadlines.reach();
                continue;
            }
            Step::Sleep(time) => {
                pass(cluster, history, time).await;
                continue;
            }
        };
        done.map_err(|status| format!("the server rejected a user request: {}", status.message))?;
    }
    if reference.is_complete() {
        until_final_state(cluster, history, deadlines, &reference.end).await?;
    } else {
        until_quiet(cluster, history, reference.subject.pace()).await?;
    }
    deadlines.reach();
    pass(cluster, history, reference.subject.pace().last_events).await;
    Ok(())
}

/// Checks that nothing changes for [`Pace::stable`] after the final state. The error lists the writes of
/// managers and the changed objects.
pub(super) async fn stay_in_final_state(
    cluster: &DevCluster,
    reference: &Recording,
    deadlines: &Deadlines,
    history: &mut History,
) -> Result<(), String> {
    if reference.is_complete() {
        // A fault may act after the first visit of the final state, such as a late event. The run
        // may leave the state for a moment and must return to it.
        pass(cluster, history, deadlines.settle()).await;
        until_final_state(cluster, history, deadlines, &reference.end).await?;
    }
    history.advance(cluster);
    let writes = written(cluster).len();
    let end = masked(&history.state);
    tokio::time::sleep(reference.subject.pace().stable).await;
    let later = written(cluster);
    history.advance(cluster);
    let moved = difference(&end, &masked(&history.state));
    match (later.get(writes..), &*moved) {
        (Some([]), "") => Ok(()),
        (Some(later), _) => Err(format!(
            "stability: changes after the final state {later:?}\n{moved}"
        )),
        (None, _) => Err("stability: the log of requests is too short".to_owned()),
    }
}

async fn until_final_state(
    cluster: &DevCluster,
    history: &mut History,
    deadlines: &Deadlines,
    end: &Masked,
) -> Result<(), String> {
    let ended = until(cluster, history, deadlines, |state| masked(state) == *end).await;
    ended.map_err(|time| {
        format!(
            "progress: another final state {time}\n{}",
            difference(end, &masked(&history.state))
        )
    })
}

/// Waits until the condition holds. The error is the time waited, as `in 95 s`.
async fn until(
    cluster: &DevCluster,
    history: &mut History,
    deadlines: &Deadlines,
    holds: impl Fn(&State) -> bool,
) -> Result<(), String> {
    // The condition is evaluated once at the start, then only after changes.
    let begun = Instant::now();
    let mut changed = true;
    loop {
        changed |= history.advance(cluster);
        if std::mem::take(&mut changed) && holds(&history.state) {
            return Ok(());
        }
        if deadlines.is_late(begun) {
            return Err(format!("in {} s", begun.elapsed().as_secs()));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Names of the pods in the namespace `default` with this value of the label `app`.
fn pods_of(state: &State, app: &str) -> Vec<String> {
    let pods = state
        .all("pods")
        .filter(|pod| pod["metadata"]["namespace"] == "default")
        .filter(|pod| pod["metadata"]["labels"]["app"] == app);
    pods.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
        .collect()
}

/// Evicts a pod. Repeats the request after a 429, which the disruption budget of the pod causes.
async fn evict(
    cluster: &DevCluster,
    history: &mut History,
    deadlines: &Deadlines,
    pod: &str,
) -> Result<(), String> {
    let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
    let begun = Instant::now();
    loop {
        let answer = cluster
            .call(
                Method::POST,
                &path,
                "application/json",
                eviction.to_string(),
            )
            .await;
        history.advance(cluster);
        match answer {
            Ok(_) => return Ok(()),
            Err(status) if status.code == 404 => return Ok(()),
            Err(status) if status.code == 429 => {}
            Err(status) => {
                return Err(format!(
                    "the server rejected a user request: {}",
                    status.message
                ));
            }
        }
        if deadlines.is_late(begun) {
            return Err(format!(
                "progress: {pod} is not evicted in {} s",
                begun.elapsed().as_secs()
            ));
        }
        pass(cluster, history, POLL).await;
    }
}

/// Waits for a fixed time, and reads changes meanwhile, so that each gets its own time in the
/// history.
async fn pass(cluster: &DevCluster, history: &mut History, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        tokio::time::sleep(POLL).await;
        history.advance(cluster);
    }
}

/// Waits until managers have written nothing for [`Pace::quiet`].
async fn until_quiet(
    cluster: &DevCluster,
    history: &mut History,
    pace: &Pace,
) -> Result<(), String> {
    let limit = Instant::now() + pace.reference;
    loop {
        let before = written(cluster).len();
        pass(cluster, history, pace.quiet).await;
        let writes = written(cluster);
        if writes.len() == before {
            return Ok(());
        }
        if Instant::now() > limit {
            return Err(format!("progress: still writing: {:?}", writes.last()));
        }
    }
}

/// The writes of managers so far. Events count, because an endless loop of Events is not stable
/// either. A program renews its Lease for ever.
fn written(cluster: &DevCluster) -> Vec<String> {
    let requests = cluster.requests();
    let ours = requests.iter().filter(|request| {
        let is_ours = is_write(request) && request.user_agent.contains(AGENT);
        is_ours && request.resource != "leases"
    });
    ours.map(|request| format!("{} {} {}", request.verb, request.path, request.status))
        .collect()
}
