//! Wrong steps of roll-outs, passed to the writes in place of the right ones.

use steersman_client::Category;
use steersman_objects::ObjectKey;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workers::Retry;

use super::super::error::SyncError;
use super::super::resize::Resize;
use super::super::{NAME, assemble};
use super::*;
use crate::testing::{NAMESPACE, replica_set};

#[tokio::test(start_paused = true)]
async fn a_wrong_step_of_a_rollout_is_refused_and_counted() {
    let world = rolled_out(web(4)).await;
    let context = world.context();
    DESCRIPTOR.watch(&context.informers, &context.features, context.release);
    let (keyed, syncer) = assemble(&context);
    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    context.informers.start(&tasks, &stop);
    assert!(context.informers.wait_synced(&stop).await);
    let key = ObjectKey::new(NAMESPACE, "web");
    let d = keyed.objects().store().get(&key).unwrap();
    let old = Arc::new(replica_set("web-old").replicas(4).pods(4, 4).build());
    let new = Arc::new(replica_set("web-new").replicas(1).pods(1, 0).build());
    let work = || {
        let mut work = syncer.work(&key, Arc::clone(&d));
        work.sets.new = Some(Arc::clone(&new));
        work.sets.old = vec![Arc::clone(&old)];
        work
    };

    world.clear_requests();
    let down = [Resize::lazy(&old, 2)];
    let errors = [
        work().resize_new(&Resize::lazy(&new, 2)).await,
        work().scale_down_old(&down).await,
        work().start_alone().await,
        work().delete_all(vec![Arc::clone(&old)]).await,
    ];
    for error in errors {
        let error = error.expect_err("the step is wrong");
        assert!(matches!(error, SyncError::Refused(_)), "{error}");
        assert_eq!(Category::of(&error), Category::Invariant);
        assert_eq!(syncer.retry(&error, None, 0), Retry::BackOff);
    }
    // The size is that of the Deployment, but the new ReplicaSet would start beside four old pods.
    let mut start = work();
    start.sets.new = None;
    let error = start.start_alone().await.unwrap_err();
    assert!(matches!(error, SyncError::Refused(_)), "{error}");

    assert_eq!(world.writes(), Vec::<String>::new());
    let counts = [
        ("recreate_overlap", 2),
        ("revision_history", 1),
        ("rollout_availability", 1),
        ("rollout_surge", 1),
    ];
    let counts = counts.map(|(invariant, count)| format!("{NAME} {invariant} {count}"));
    assert_eq!(world.expect_violations(), counts);
    stop.cancel();
}
