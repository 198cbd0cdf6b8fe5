//! Histograms that have native buckets beside their classic ones, behind the gate
//! `NativeHistograms`.
//!
//! [`Histogram`] and [`HistogramVec`] stand in for those of the crate `prometheus`, which have
//! classic buckets only. Controllers use them whose upstream registers its metrics at its start:
//! kube-controller-manager registers all other families before it reads the gate, so these keep
//! classic buckets only (seen in 1.36.2). Upstream: `k8s.io/component-base/metrics` and
//! `client_golang/prometheus/histogram.go`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod histogram;
mod native;

pub use histogram::{Histogram, HistogramVec, keep_native_buckets};
pub use native::{NativeBuckets, Span, ZERO_THRESHOLD};
