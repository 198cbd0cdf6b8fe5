//! Hands each controller the flags that are its own.

use steersman_runtime::controller::ControllerContext;

use crate::options::Options;

/// Adds the configuration of every controller we ship.
pub(crate) fn configure(context: ControllerContext, _options: &Options) -> ControllerContext {
    context
}
