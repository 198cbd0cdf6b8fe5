//! Handles for the metrics of the machinery, under upstream's names.
//!
//! A struct of handles per part, made with `register(&Registry)`; nothing is global, so tests can
//! run side by side.

pub use prometheus::Registry;
