//! Wrong decisions, passed to the writes in place of the right ones.

use steersman_client::{ApiError, Category};
use steersman_objects::{Object, ObjectKey, Pod, ReplicaSet, Selects};
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::pod_control::Owner;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workers::Retry;
use tracing::Level;

use super::super::scale::Scale;
use super::super::sync::SyncError;
use super::super::{NAME, Names, assemble};
use super::*;
use crate::testing::NAMESPACE;
use crate::testing::log::Log;

#[tokio::test(start_paused = true)]
async fn a_wrong_decision_is_refused_counted_and_logged() {
    let world = world_with(3).await;
    let mut foreign = loose_pod("foreign");
    foreign["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "1", "controller": true}]);
    world.create(foreign).await;
    let context = world.context();
    let names = Names {
        controller: NAME,
        component: NAME,
        queue: "replicaset",
    };
    DESCRIPTOR.watch(&context.informers, &context.features, context.release);
    let (_keyed, syncer) = assemble::<ReplicaSet>(&context, &names).unwrap();
    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    context.informers.start(&tasks, &stop);
    assert!(context.informers.wait_synced(&stop).await);
    let key = ObjectKey::new(NAMESPACE, "web");
    let set = syncer.owners.get(&key).unwrap();
    let owner = Owner {
        key: &key,
        object: &*set,
        selector: set.selector().unwrap(),
    };
    let pods = syncer.control.candidates(owner);
    assert_eq!(pods.len(), 3);

    world.clear_requests();
    let log = Log::collect();
    for wrong in [Scale::Delete(1), Scale::Create(1)] {
        let error = syncer.scale(owner, &pods, wrong).await.unwrap_err();
        let error = SyncError::Scale(error);
        assert_eq!(Category::of(&error), Category::Invariant, "{error}");
        let retry = syncer.retry(&error, ApiError::within(&error), 0);
        assert_eq!(retry, Retry::BackOff);
    }
    let store = context.informers.shared::<Pod>().store();
    let foreign = store.get(&ObjectKey::new(NAMESPACE, "foreign")).unwrap();
    let error = syncer.control.delete(owner, &[foreign]).await.unwrap_err();
    let text = format!(
        "pods default/foreign: not written, the decision breaks the invariant foreign_pod: delete the pod default/foreign of other, as owner {}",
        set.meta().uid
    );
    assert_eq!(error.to_string(), text);
    assert!(syncer.control.consistency().satisfied(&key));

    assert_eq!(world.writes(), Vec::<String>::new());
    assert_eq!(world.active_pods().len(), 4);
    let message = "Write refused: the decision breaks an invariant. This is a bug, please report";
    log.assert_has(Level::ERROR, &[message]);
    let lines = log.lines().concat();
    let decision = r#"category="invariant" invariant="wanted_pods" object="replicasets default/web" decision="delete 1 of 3 pods, of 3 wanted""#;
    assert!(lines.contains(decision), "{lines}");
    let violations = ["foreign_pod", "surplus_pods", "wanted_pods"];
    let violations = violations.map(|name| format!("{NAME} {name} 1"));
    assert_eq!(world.expect_violations(), violations);
    stop.cancel();
}
