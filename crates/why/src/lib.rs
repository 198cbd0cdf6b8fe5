//! Why an object does not move: a closed set of reasons, the objects they rest on, and their text.
//!
//! object -> explanation functions of the controllers, over a [`World`] -> [`Explanation`] -> JSON
//! or text
//!
//! An explanation is a pure function of API objects, the time, and the state of a manager if there
//! is one ([`Inside`]). A function asks the [`World`] for objects. [`gather`] reads the objects that
//! the world lacks, and calls the function again until it has all of them. So the same function
//! answers in the leader, in a command beside another controller manager, and in a test.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

mod affinity;
mod classes;
mod code;
pub mod conditions;
mod cordoned;
mod defaults;
mod demand;
mod devices;
mod doc;
mod events;
mod explanation;
mod gather;
mod inside;
pub mod keys;
mod placement;
pub mod pod;
mod programs;
mod reason;
mod refusal;
mod report;
mod room;
mod site;
mod spread;
mod text;
mod workload;
mod world;

pub use code::{Code, Role};
pub use defaults::{Bound, default_of};
pub use demand::{claim_names, listed, quantity, total};
pub use doc::Doc;
pub use events::{COMBINED, LastEvent, event, warning};
pub use explanation::{Explanation, Subject};
pub use gather::{ClientReader, Guard, Reader, gather};
pub use inside::{Dependent, Failure, Inside, KeyState, ManagerState, Relative, StuckKey};
pub use programs::{Program, is_name, is_tool, named_trouble, origin, trouble_of_domain};
pub use reason::Reason;
pub use refusal::refusal;
pub use report::{Question, Report};
pub use site::remover;
pub use text::{age, count, existing, ordinal};
pub use workload::{Workload, maker, workloads};
pub use world::{Explain, Known, Loaded, Need, PAGE, World, event_time};
