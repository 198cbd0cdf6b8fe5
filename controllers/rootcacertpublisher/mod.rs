//! Publishes the certificates of the API server's authority in each namespace, as the ConfigMap
//! `kube-root-ca.crt`.
//!
//! Namespace and ConfigMap events -> queue of namespaces -> sync -> POST or PUT
//!
//! The token volume of every pod contains this ConfigMap. Its data is exactly `ca.crt`; other keys
//! are removed.
//!
//! Upstream: `pkg/controller/certificates/rootcacertpublisher`. Differences:
//!
//! - A sync waits until the cache shows its last write.
//! - A namespace that the cache lacks gets no request, which the API server would refuse.
//! - Without certificates, an existing ConfigMap stays as it is. Upstream empties all of them if an
//!   operator forgets `--root-ca-file`, and no new pod can verify the API server.
//! - A ConfigMap that was changed before its first event is restored, too. Upstream restores it after
//!   the next event.
//! - The cache has only the ConfigMaps of this name; upstream caches all ConfigMaps.

mod sync;
#[cfg(test)]
mod tests;

use steersman_helpers::root_ca;
use steersman_objects::{Namespace, Object, ObjectKey, PublishedData, RootCaConfigMap};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::Change;
use steersman_runtime::keyed::Keyed;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::sync::{CA_KEY, Publisher, is_complete};
use crate::publisher_metrics::{Families, PublisherMetrics};

/// The root CA certificate publisher.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["root-ca-cert-publisher"],
    enabled_by_default: true,
    summary: "Publishes the CA certificates of the API server in each namespace",
    identity: "root-ca-cert-publisher",
    reads: &[Read::of::<Namespace>(), Read::of::<RootCaConfigMap>()],
    rules: &[Rule::new(&[""], &["configmaps"], &["create", "update"])],
    init,
};

const NAME: &str = "root-ca-certificate-publisher-controller";

/// Number of workers, as upstream, which has no flag for it.
const WORKERS: usize = 1;

const FAMILIES: Families = Families {
    syncs: (
        "root_ca_cert_publisher_sync_total",
        "[ALPHA] Number of namespace syncs happened in root ca cert publisher.",
    ),
    durations: (
        "root_ca_cert_publisher_sync_duration_seconds",
        "[ALPHA] Number of namespace syncs happened in root ca cert publisher.",
    ),
};

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let failed = |source| InitError {
        controller: NAME,
        source,
    };
    let bundle = root_ca::bundle(ctx).map_err(|error| failed(error.into()))?;
    let bundle = String::from_utf8_lossy(&bundle).into_owned();
    let metrics = PublisherMetrics::register(&ctx.registry, &FAMILIES)
        .map_err(|error| failed(error.into()))?;
    let mut keyed = Keyed::<Namespace>::new(ctx, NAME, "root_ca_cert_publisher");
    let maps = ctx.informers.shared::<RootCaConfigMap>();
    let queue = keyed.queue();
    keyed.objects().add_handler(move |change| match change {
        Change::Added { object, .. } => queue.add(object.key()),
        Change::Updated { new, .. } if new.is_active() => queue.add(new.key()),
        Change::Updated { .. } | Change::Deleted { .. } => {}
    });
    let data = PublishedData::of(CA_KEY, &bundle);
    let queue = keyed.queue();
    let published = data.clone();
    maps.add_handler(move |change| match change {
        // A list after a gap of the watch may show a new ConfigMap in its second state.
        Change::Added { object: map, .. } if is_complete(map, &published) => {}
        Change::Added { object: map, .. }
        | Change::Updated { new: map, .. }
        | Change::Deleted { object: map, .. } => {
            queue.add(ObjectKey::new("", &map.meta.namespace));
        }
    });
    let syncer = Publisher {
        maps: maps.store(),
        cache: keyed.tracked(&maps),
        client: ctx.client(DESCRIPTOR.identity),
        data,
        bundle,
        metrics,
    };
    Ok(keyed.boxed(WORKERS, syncer))
}
