//! What the user does, and whoever waits for the end.

use std::time::Duration;

use http::Method;
use steersman_devcluster::DevCluster;
use tokio::time::Instant;

use super::pace::{PATIENCE, Pace};
use crate::film::{Film, State, is_write};
use crate::manager::AGENT;
use crate::mask::{Masked, difference, masked};
use crate::recording::Recording;
use crate::scenario::{Scenario, Step};

/// How often somebody who waits looks.
const LOOK: Duration = Duration::from_millis(100);
/// How long nothing may be written for a reference run to have come to its end.
pub(super) const QUIET: Duration = Duration::from_secs(90);
/// Until everybody was told of the last change.
const AFTERMATH: Duration = Duration::from_secs(5);
/// How long nothing may be written after the end.
pub(super) const STABLE: Duration = Duration::from_secs(600);

/// The user, and whoever waits for the end. An error is what never happened.
pub(super) async fn comes_to_its_end(
    cluster: &DevCluster,
    scenario: &Scenario,
    reference: &Recording,
    pace: &mut Pace,
    film: &mut Film,
) -> Result<(), String> {
    for step in (scenario.steps)() {
        let done = match step {
            Step::Create(object) => cluster.create(object).await,
            Step::Load(object) => cluster.load(object).map(|()| serde_json::Value::Null),
            Step::Patch(path, patch) => cluster.patch(&path, patch).await,
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
            Step::Until(what, holds) => {
                until(cluster, film, pace, |state| holds(state))
                    .await
                    .map_err(|why| format!("progress: never {what} {why}"))?;
                pace.reach();
                continue;
            }
            Step::Sleep(time) => {
                pass(cluster, film, time).await;
                continue;
            }
        };
        done.map_err(|status| format!("a user was refused: {}", status.message))?;
    }
    if reference.is_told() {
        at_the_end(cluster, film, pace, &reference.end).await?;
    } else {
        rest(cluster, film).await?;
    }
    pace.reach();
    pass(cluster, film, AFTERMATH).await;
    Ok(())
}

/// Whoever watches that it stays at its end. An error is what happened then.
pub(super) async fn stays(
    cluster: &DevCluster,
    reference: &Recording,
    pace: &Pace,
    film: &mut Film,
) -> Result<(), String> {
    if reference.is_told() {
        // Again: what was still under way, such as an event that came late, may have led away from
        // the end for a moment.
        pass(cluster, film, pace.settle()).await;
        at_the_end(cluster, film, pace, &reference.end).await?;
    }
    film.advance(cluster);
    let (writes, end) = (written(cluster).len(), masked(&film.state));
    tokio::time::sleep(STABLE).await;
    let later = written(cluster);
    film.advance(cluster);
    let moved = difference(&end, &masked(&film.state));
    match (later.get(writes..), &*moved) {
        (Some([]), "") => Ok(()),
        (Some(later), _) => Err(format!("stability: after the end {later:?}\n{moved}")),
        (None, _) => Err("stability: the log of requests is too short".to_owned()),
    }
}

async fn at_the_end(
    cluster: &DevCluster,
    film: &mut Film,
    pace: &Pace,
    end: &Masked,
) -> Result<(), String> {
    let ended = until(cluster, film, pace, |state| masked(state) == *end).await;
    ended.map_err(|why| {
        format!(
            "progress: another end {why}\n{}",
            difference(end, &masked(&film.state))
        )
    })
}

/// Waits until it is so; an error says how long it was waited for.
async fn until(
    cluster: &DevCluster,
    film: &mut Film,
    pace: &Pace,
    holds: impl Fn(&State) -> bool,
) -> Result<(), String> {
    let (begun, mut news) = (Instant::now(), true);
    loop {
        news |= film.advance(cluster);
        if std::mem::take(&mut news) && holds(&film.state) {
            return Ok(());
        }
        if pace.is_late(begun) {
            return Err(format!("in {} s", begun.elapsed().as_secs()));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Lets time pass, and writes down what happens at the time when it does.
async fn pass(cluster: &DevCluster, film: &mut Film, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        tokio::time::sleep(LOOK).await;
        film.advance(cluster);
    }
}

/// Waits until the manager has not written for a while.
async fn rest(cluster: &DevCluster, film: &mut Film) -> Result<(), String> {
    let limit = Instant::now() + PATIENCE;
    loop {
        let before = written(cluster).len();
        pass(cluster, film, QUIET).await;
        let writes = written(cluster);
        if writes.len() == before {
            return Ok(());
        }
        if Instant::now() > limit {
            return Err(format!("progress: still writing: {:?}", writes.last()));
        }
    }
}

/// The writes of managers so far, Events among them: who goes on telling the same has not come to
/// rest either.
fn written(cluster: &DevCluster) -> Vec<String> {
    let requests = cluster.requests();
    let ours = requests
        .iter()
        .filter(|request| is_write(request) && request.user_agent.contains(AGENT));
    ours.map(|request| format!("{} {} {}", request.verb, request.path, request.status))
        .collect()
}
