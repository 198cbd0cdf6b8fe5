//! Formats of names and texts, with the errors that users read.
//!
//! Upstream: `k8s.io/apimachinery/pkg/util/validation` and `k8s.io/kube-openapi/pkg/validation/strfmt`.

pub mod formats;
pub mod string_formats;
