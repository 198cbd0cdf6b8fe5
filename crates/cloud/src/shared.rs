//! The one provider of a manager, and loops that do not run.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use steersman_runtime::controller::{Controller, ControllerContext, InitError};
use steersman_runtime::tasks::CancellationToken;

use crate::provider::{CloudProvider, ConnectError};

/// The provider of the manager. The first call connects it.
pub(crate) fn provider<P: CloudProvider>(
    context: &ControllerContext,
    controller: &'static str,
) -> Result<Arc<P>, InitError> {
    context
        .shared(|| {
            let provider = P::connect(context)?;
            tracing::info!(provider = provider.name(), "Connected the cloud provider");
            Ok::<_, ConnectError>(Arc::new(provider))
        })
        .map_err(|source| InitError { controller, source })
}

/// Makes `provider` the one of `context`, in place of a connected one. Tests thus keep a handle to
/// their provider.
pub fn share<P: CloudProvider>(context: &ControllerContext, provider: Arc<P>) {
    let Ok(_) = context.shared(|| Ok::<_, Infallible>(provider));
}

/// A loop that the provider or a flag switches off.
pub(crate) struct Off;

impl Controller for Off {
    fn run(self: Box<Self>, _: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async {})
    }

    fn is_switched_off(&self) -> bool {
        true
    }
}
