//! The requests that a manager has sent.
//!
//! The audit log of a control plane of our own has their verbs and resources. On another API server
//! they come from the manager's metric `rest_client_requests_total`, which has no resources.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::metrics;

/// Number of requests by verb and resource, such as `create pods`, or by method and status code,
/// such as `POST 201`.
pub(crate) type RequestCounts = BTreeMap<String, u64>;

/// Counts the requests of one manager.
pub(crate) enum Counter {
    /// By the audit log, which has the requests of managers only.
    Audit(AuditLog),
    /// By the manager's metrics.
    Metrics,
}

impl Counter {
    /// Counts from now on: by the audit log at this path, or by metrics.
    pub(crate) fn new(audit_log: Option<&Path>) -> Result<Self> {
        audit_log.map_or(Ok(Self::Metrics), |path| {
            Ok(Self::Audit(AuditLog::at_the_end_of(path)?))
        })
    }

    /// The requests so far. `page` reads the manager's metrics.
    pub(crate) async fn count(
        &mut self,
        page: impl Future<Output = Result<String>>,
    ) -> Result<RequestCounts> {
        match self {
            Self::Audit(log) => log.read(),
            Self::Metrics => Ok(of_metrics(&page.await?)),
        }
    }
}

/// An audit log, read from a position on.
pub(crate) struct AuditLog {
    path: PathBuf,
    position: u64,
    counts: RequestCounts,
}

/// The fields of an audit event that are counted.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent {
    stage: String,
    verb: String,
    object_ref: Option<ObjectReference>,
    response_status: Option<ResponseStatus>,
}

#[derive(Deserialize)]
struct ObjectReference {
    resource: Option<String>,
    subresource: Option<String>,
}

#[derive(Deserialize)]
struct ResponseStatus {
    code: Option<u16>,
}

impl AuditLog {
    fn at_the_end_of(path: &Path) -> Result<Self> {
        let length = std::fs::metadata(path).with_context(|| format!("read {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            position: length.len(),
            counts: RequestCounts::new(),
        })
    }

    /// The requests since the creation of this.
    fn read(&mut self) -> Result<RequestCounts> {
        let of_log = || format!("read {}", self.path.display());
        let mut file = File::open(&self.path).with_context(of_log)?;
        file.seek(SeekFrom::Start(self.position))
            .with_context(of_log)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(of_log)?;
        // The last line may be incomplete.
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        let complete = &bytes[..end.map_or(0, |end| end + 1)];
        for line in complete.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            let event: AuditEvent = serde_json::from_slice(line).with_context(of_log)?;
            if let Some(name) = event.name() {
                *self.counts.entry(name).or_default() += 1;
            }
        }
        self.position += complete.len() as u64;
        Ok(self.counts.clone())
    }
}

impl AuditEvent {
    /// Verb, resource, and the status code of a failure. `None` if another event of this request is
    /// counted: of a watch that at its start, of other requests that at their end.
    fn name(&self) -> Option<String> {
        let counted = if self.verb == "watch" {
            "ResponseStarted"
        } else {
            "ResponseComplete"
        };
        if self.stage != counted {
            return None;
        }
        let object = self.object_ref.as_ref();
        let resource = object.and_then(|object| object.resource.as_deref());
        let mut name = format!("{} {}", self.verb, resource.unwrap_or("other paths"));
        if let Some(subresource) = object.and_then(|object| object.subresource.as_deref()) {
            name.push('/');
            name.push_str(subresource);
        }
        let code = self.response_status.as_ref().and_then(|status| status.code);
        if let Some(code @ 400..) = code {
            name.push_str(&format!(" ({code})"));
        }
        Some(name)
    }
}

fn of_metrics(page: &str) -> RequestCounts {
    let mut counts = RequestCounts::new();
    for sample in metrics::samples(page, "rest_client_requests_total") {
        let name = format!("{} {}", sample.label("method"), sample.label("code"));
        *counts.entry(name).or_default() += sample.value as u64;
    }
    counts
}

/// The requests in `now` that are not in `before`.
pub(crate) fn since(before: &RequestCounts, now: &RequestCounts) -> RequestCounts {
    let more = |(key, count): (&String, &u64)| {
        let new = count.saturating_sub(before.get(key).copied().unwrap_or(0));
        (new > 0).then(|| (key.clone(), new))
    };
    now.iter().filter_map(more).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn counts(list: &[(&str, u64)]) -> RequestCounts {
        let list = list
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        list.collect()
    }

    #[test]
    fn metrics_count_requests_by_method_and_code() {
        let metrics = "# HELP rest_client_requests_total x\n\
            rest_client_requests_total{code=\"200\",host=\"a:1\",method=\"GET\"} 3\n\
            rest_client_requests_total{code=\"200\",host=\"b:1\",method=\"GET\"} 1e+00\n\
            rest_client_requests_total{code=\"201\",host=\"a:1\",method=\"POST\"} 7\n\
            other{code=\"200\"} 9\n";
        let now = of_metrics(metrics);
        assert_eq!(now, counts(&[("GET 200", 4), ("POST 201", 7)]));
        let before = counts(&[("GET 200", 4), ("POST 201", 5)]);
        assert_eq!(since(&before, &now), counts(&[("POST 201", 2)]));
    }

    #[test]
    fn the_audit_log_counts_each_request_once() {
        let event = |stage: &str, verb: &str, more: &str| {
            format!("{{\"stage\":\"{stage}\",\"verb\":\"{verb}\"{more}}}\n")
        };
        let pods = r#","objectRef":{"resource":"pods","name":"a"},"responseStatus":{"code":201}"#;
        let status = r#","objectRef":{"resource":"pods","subresource":"status"},"responseStatus":{"code":409}"#;
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("audit.log");
        std::fs::write(&path, event("ResponseComplete", "get", pods)).expect("it is written");
        let mut log = AuditLog::at_the_end_of(&path).expect("it exists");
        let mut file = File::options().append(true).open(&path).expect("it exists");
        let lines = [
            event("ResponseComplete", "create", pods),
            event("ResponseStarted", "watch", pods),
            event("ResponseComplete", "watch", pods),
            event("ResponseComplete", "update", status),
            event("ResponseComplete", "get", ""),
            "{\"stage\":".to_owned(),
        ];
        file.write_all(lines.concat().as_bytes())
            .expect("it is written");
        let expected = [
            ("create pods", 1),
            ("get other paths", 1),
            ("update pods/status (409)", 1),
            ("watch pods", 1),
        ];
        assert_eq!(log.read().expect("it is read"), counts(&expected));
        let rest = "\"ResponseComplete\",\"verb\":\"list\"}\n";
        file.write_all(rest.as_bytes()).expect("it is written");
        let later = log.read().expect("it is read");
        assert_eq!(
            since(&counts(&expected), &later),
            counts(&[("list other paths", 1)])
        );
    }
}
