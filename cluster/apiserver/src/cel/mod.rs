//! The expressions of the API server: policies and match conditions.
//!
//! The language is in the crate `steersman-cel`, and the rules of custom kinds are in `custom`.

pub(crate) mod policy;

pub(crate) use steersman_cel::{
    Access, Decision, Declarations, Fail, Program, ResourceCheck, Variables, admission, cost,
    declarations, declare, devices, types, value,
};
