//! All errors of this crate's requests and configuration, and what can be asked of them.
//!
//! [`api`]: a failed request; [`config`]: a client that cannot be made; [`named`]: errors without a
//! failed request; [`refusal`]: a write that an invariant refused; [`category`]: the word for logs and
//! alerts; [`cause`]: the text that helps a user; [`connection`]: which errors of connections permit
//! another try.

pub(crate) mod api;
mod category;
mod cause;
mod config;
pub(crate) mod connection;
mod named;
mod refusal;

pub use api::ApiError;
pub use category::Category;
pub use config::{ConfigError, ConnectError};
pub use named::{Aggregate, Decision};
pub use refusal::{Refusal, Violation};
