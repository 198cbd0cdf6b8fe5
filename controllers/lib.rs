//! The controllers of Steersman, one folder each, and the table that names them all.

use steersman_runtime::controller::Descriptor;

/// Every controller, in alphabetical order. Help, `--controllers`, health checks and the README table come from this.
pub const ALL: &[Descriptor] = &[];
