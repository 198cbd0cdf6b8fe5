//! The protocol: the actions that a state allows, their effects, and the rules that must hold.

mod allowed;
mod effects;
mod rules;

pub use allowed::actions;
pub use effects::apply;
pub use rules::{Violation, check, is_served};
