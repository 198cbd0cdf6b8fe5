//! Protects each ServiceCIDR while Services have its addresses, and reports that it is ready.
//!
//! ServiceCIDR and IPAddress events -> [`handlers`] -> queue of names -> sync -> finalizer, status
//!
//! A ServiceCIDR in use has a finalizer and the condition `Ready`. After its deletion, the finalizer
//! stays until no address depends on it ([`ranges`]), and for at least ten seconds. Meanwhile all
//! API servers stop allocating from it.
//!
//! Upstream: `pkg/controller/servicecidrs`. Differences:
//!
//! - A sync waits until the cache shows the last writes, so a slow cache causes no repeated request.
//! - While the caches of a new leader are older than its term, it lists ServiceCIDRs and addresses
//!   from the API server before it removes a finalizer.
//! - Patches of finalizers carry the UID, so they change no other ServiceCIDR of the same name.

mod condition;
mod handlers;
mod ranges;
mod sync;
#[cfg(test)]
mod tests;

use steersman_objects::{IpAddress, ServiceCidr};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::Keyed;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::sync::ServiceCidrs;

/// The service CIDR controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &[],
    enabled_by_default: true,
    summary: "Protects ranges of cluster IPs while Services have addresses in them",
    identity: "service-cidrs-controller",
    reads: &[Read::of::<ServiceCidr>(), Read::of::<IpAddress>()],
    rules: &[
        Rule::new(
            &["networking.k8s.io"],
            &["servicecidrs", "servicecidrs/status"],
            &["patch"],
        ),
        Rule::EVENTS,
    ],
    init,
};

/// Name of the controller, of its Event source and of its field manager.
const NAME: &str = "service-cidr-controller";

/// Number of workers, as upstream, which has no flag for it.
const WORKERS: usize = 5;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let client = ctx.client(DESCRIPTOR.identity);
    let mut keyed = Keyed::<ServiceCidr>::new(ctx, NAME, "ipaddresses");
    let cidrs = keyed.objects().clone();
    let ips = ctx.informers.shared::<IpAddress>();
    handlers::register(&cidrs, &ips, &keyed.queue());
    let syncer = ServiceCidrs {
        cidrs: cidrs.store(),
        ips: ips.store(),
        cidrs_cache: keyed.tracked(&cidrs),
        ips_cache: keyed.tracked(&ips),
        recorder: ctx.recorder(NAME, client.clone()),
        client,
        clock: ctx.clock.clone(),
    };
    Ok(keyed.boxed(WORKERS, syncer))
}
