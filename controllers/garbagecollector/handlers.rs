//! Handlers of metadata informers: each change updates the graph at once.
//!
//! Upstream queues changes for one goroutine (`processGraphChanges`). Here the informer's task
//! updates the graph, so that a synced informer means a complete graph.

use std::sync::Weak;

use steersman_objects::Meta;
use steersman_runtime::informer::MetadataChange;
use steersman_values::intern::Sym;
use steersman_values::resource::ResourceType;

use super::graph::Seen;
use super::sync::Collector;

/// The handler for objects of `resource`. It runs on the informer's task and does no IO.
pub(super) fn handler(
    collector: Weak<Collector>,
    resource: &ResourceType,
) -> impl Fn(MetadataChange<'_>) + Send + Sync + 'static {
    let api_version = Sym::new(&resource.api_version());
    let kind = Sym::new(&resource.kind);
    move |change| {
        // The informer outlives the controller, whose term has ended.
        let Some(collector) = collector.upgrade() else {
            return;
        };
        let seen = |meta| Seen {
            api_version: &api_version,
            kind: &kind,
            meta,
        };
        match change {
            MetadataChange::Added(meta) => collector.apply(|graph| graph.observe(seen(meta), None)),
            // A gap of the watch hid the deletion of the old object.
            MetadataChange::Updated { old, new } if old.uid != new.uid => {
                collector.apply(|graph| graph.removed(seen(old)));
                collector.apply(|graph| graph.observe(seen(new), None));
            }
            MetadataChange::Updated { old, new } if is_same(old, new) => {
                // The collector deletes only objects with owners.
                if !new.owners.is_empty() {
                    collector
                        .graph()
                        .note_version(&new.uid, new.resource_version);
                }
            }
            MetadataChange::Updated { old, new } => {
                collector.apply(|graph| graph.observe(seen(new), Some(old)))
            }
            MetadataChange::Deleted(meta) => collector.apply(|graph| graph.removed(seen(meta))),
        }
    }
}

/// True if the fields that the graph holds are equal, as in most updates. The changes of other
/// fields, such as labels, are the great majority. Upstream processes them all.
fn is_same(old: &Meta, new: &Meta) -> bool {
    old.owners == new.owners
        && old.is_terminating() == new.is_terminating()
        && old.finalizers == new.finalizers
}
