//! Histograms that have native buckets beside their classic ones, behind the gate
//! `NativeHistograms`.
//!
//! [`Histogram`] and [`HistogramVec`] stand in for those of the crate `prometheus`, which have
//! classic buckets only. Upstream registers some histograms when a controller starts, and
//! controllers use these types for them. kube-controller-manager registers the others before it
//! reads the gate, so they keep classic buckets only (seen in 1.36.2). Upstream:
//! `k8s.io/component-base/metrics` and `client_golang/prometheus/histogram.go`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod histogram;
mod native;

pub use histogram::{Histogram, HistogramVec, keep_native_buckets};
pub use native::{NativeBuckets, Span, ZERO_THRESHOLD};
