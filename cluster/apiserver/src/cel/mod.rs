//! The expressions of the API server: policies, match conditions and selectors of devices.
//!
//! The language is in the crate `steersman-cel`, and the rules of custom kinds are in `custom`.

pub(crate) mod devices;
pub(crate) mod policy;

pub(crate) use steersman_cel::{
    Access, Decision, Declarations, Fail, Library, Program, ResourceCheck, Variables, admission,
    cost, declarations, declare, types, value,
};
