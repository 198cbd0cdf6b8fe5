//! The rows of a comparison: each is a load with its size, such as `deployments:200x50`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};
use clap::ValueEnum;

/// A load. The numbers of its row are its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// The start of the manager, and a time of rest in seconds.
    Idle,
    /// Deployments and the pods of each: created, rolled out and deleted, in one namespace.
    Deployments,
    /// Deployments and the pods of each: doubled and halved.
    Scaling,
    /// Deployments and the pods of each, created with the default client-side throttle.
    Throttled,
    /// StatefulSets with parallel pod management, and the pods of each.
    ParallelStatefulSets,
    /// StatefulSets that start one pod after the other, and the pods of each.
    OrderedStatefulSets,
    /// DaemonSets on all nodes.
    DaemonSets,
    /// Jobs of one pod.
    Jobs,
    /// Jobs and the indexes of each.
    IndexedJobs,
    /// CronJobs that are due in the same minute.
    CronJobs,
    /// Services, each with the pods of a Deployment, which are rolled out. Also measures the writes of
    /// EndpointSlices, and the time from the readiness of a pod until a slice shows it.
    Services,
    /// Namespaces that get their account and their ConfigMap `kube-root-ca.crt`, and are deleted.
    Namespaces,
    /// Nodes that get ranges of pod addresses, send heartbeats for this time in seconds, and are
    /// deleted.
    Nodes,
    /// Requests of kubelets for client certificates, which are approved and signed.
    Csrs,
    /// HorizontalPodAutoscalers over Deployments with a sawtooth of load, for this time in minutes. A
    /// control plane without a metrics server gets one in this process.
    Autoscalers,
    /// Claims that get volumes, and are deleted with them.
    Claims,
    /// Namespaces with a quota, and the pods that come and go in each.
    Quotas,
    /// Pods with one attached volume each, which move to other nodes.
    Volumes,
    /// Chains of steps from a cause to its effect, one object at a time, while each request of the manager
    /// takes this many milliseconds longer.
    Latency,
}

/// A load with its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) workload: Workload,
    /// Number of objects, of seconds, or of milliseconds.
    pub(crate) count: usize,
    /// Size of each object; 0 for loads with one number.
    pub(crate) each: usize,
}

/// All rows. The first row of a load has its default size.
const ALL: [Row; 24] = [
    row(Workload::Idle, 20, 0),
    row(Workload::Deployments, 50, 20),
    row(Workload::Deployments, 200, 50),
    row(Workload::Deployments, 3_000, 3),
    row(Workload::Scaling, 50, 20),
    row(Workload::ParallelStatefulSets, 100, 10),
    row(Workload::OrderedStatefulSets, 100, 10),
    row(Workload::DaemonSets, 20, 0),
    row(Workload::Jobs, 2_000, 0),
    row(Workload::IndexedJobs, 20, 500),
    row(Workload::CronJobs, 1_000, 0),
    row(Workload::Services, 150, 50),
    row(Workload::Namespaces, 1_000, 0),
    row(Workload::Nodes, 5_000, 120),
    row(Workload::Csrs, 1_000, 0),
    row(Workload::Autoscalers, 500, 10),
    row(Workload::Claims, 2_000, 0),
    row(Workload::Quotas, 200, 50),
    row(Workload::Volumes, 1_000, 0),
    row(Workload::Throttled, 200, 50),
    row(Workload::Latency, 2, 0),
    row(Workload::Latency, 10, 0),
    row(Workload::Latency, 50, 0),
    row(Workload::Latency, 200, 0),
];

/// The rows without a choice of the user. Three repetitions with two managers take less than half an
/// hour on two cores.
const DEFAULT: [Row; 5] = [
    row(Workload::Idle, 20, 0),
    row(Workload::Deployments, 50, 20),
    row(Workload::Scaling, 50, 20),
    row(Workload::ParallelStatefulSets, 50, 10),
    row(Workload::Jobs, 500, 0),
];

const fn row(workload: Workload, count: usize, each: usize) -> Row {
    Row {
        workload,
        count,
        each,
    }
}

impl Row {
    /// The rows of a list of words, each `all`, `default`, a load, or a load with its size. Numbers of
    /// objects are multiplied by `scale`.
    pub(crate) fn list(words: &[String], scale: f64) -> Result<Vec<Self>> {
        ensure!(
            scale.is_finite() && scale > 0.0,
            "the scale is {scale}; it must be a number above 0"
        );
        let mut rows = Vec::new();
        for word in words {
            match word.as_str() {
                "all" => rows.extend(ALL),
                "default" => rows.extend(DEFAULT),
                word => rows.push(word.parse()?),
            }
        }
        ensure!(!rows.is_empty(), "no rows");
        let scaled = rows.into_iter().map(|row| row.scaled(scale));
        Ok(scaled.collect())
    }

    fn scaled(self, scale: f64) -> Self {
        if matches!(self.workload, Workload::Idle | Workload::Latency) {
            return self;
        }
        let count = (self.count as f64 * scale).round() as usize;
        Self {
            count: count.max(1),
            ..self
        }
    }

    fn of(workload: Workload) -> Self {
        let mut rows = ALL.into_iter();
        rows.find(|row| row.workload == workload)
            .expect("each load has a row")
    }
}

impl FromStr for Row {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, size) = text
            .split_once(':')
            .map_or((text, None), |(name, size)| (name, Some(size)));
        let Ok(workload) = Workload::from_str(name, false) else {
            let names: Vec<String> = Workload::value_variants().iter().map(name_of).collect();
            bail!(
                "no row {name:?}; the rows are all, default, {}",
                names.join(", ")
            );
        };
        let row = Self::of(workload);
        let Some(size) = size else { return Ok(row) };
        let form = if row.each == 0 { "N" } else { "NxM" };
        let wrong = || format!("{text:?} has the size {size:?}; this row has {name}:{form}");
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
        let read = match (size.split_once('x'), row.each) {
            (None, 0) => number(size).map(|count| (count, 0)),
            (Some((count, each)), 1..) => number(count).zip(number(each)),
            _ => None,
        };
        let (count, each) = read.with_context(wrong)?;
        Ok(Self {
            workload,
            count,
            each,
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", name_of(&self.workload), self.count)?;
        match self.each {
            0 => Ok(()),
            each => write!(f, "x{each}"),
        }
    }
}

fn name_of(workload: &Workload) -> String {
    let value = workload.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &[&str], scale: f64) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let rows = Row::list(&words, scale).map_err(|error| error.to_string())?;
        let rows: Vec<String> = rows.iter().map(Row::to_string).collect();
        Ok(rows.join(" "))
    }

    #[test]
    fn rows_have_sizes_and_a_scale() {
        // (why, words, scale, rows)
        let cases: [(&str, &[&str], f64, &str); 4] = [
            (
                "default sizes",
                &["deployments", "jobs"],
                1.0,
                "deployments:50x20 jobs:2000",
            ),
            (
                "own sizes",
                &["deployments:1000x3", "idle:5"],
                1.0,
                "deployments:1000x3 idle:5",
            ),
            (
                "a scale, without time",
                &["quotas:20x9", "idle", "latency"],
                0.25,
                "quotas:5x9 idle:20 latency:2",
            ),
            (
                "at least one object",
                &["daemon-sets"],
                0.001,
                "daemon-sets:1",
            ),
        ];
        for (why, words, scale, expected) in cases {
            assert_eq!(text(words, scale).as_deref(), Ok(expected), "{why}");
        }
        assert_eq!(
            Row::list(&["all".to_owned()], 1.0).map_or(0, |rows| rows.len()),
            ALL.len()
        );
    }

    #[test]
    fn wrong_rows_are_explained() {
        // (why, word, scale, part of the error)
        let cases = [
            (
                "no load",
                "deploys",
                1.0,
                "no row \"deploys\"; the rows are all, default, idle",
            ),
            (
                "missing number",
                "deployments:5",
                1.0,
                "this row has deployments:NxM",
            ),
            ("extra number", "jobs:5x2", 1.0, "this row has jobs:N"),
            ("zero", "jobs:0", 1.0, "this row has jobs:N"),
            ("no scale", "jobs", 0.0, "the scale is 0"),
        ];
        for (why, word, scale, expected) in cases {
            let error = text(&[word], scale).expect_err(why);
            assert!(error.contains(expected), "{why}: {error}");
        }
    }

    #[test]
    fn every_load_has_a_row_with_a_default_size() {
        for workload in Workload::value_variants() {
            assert_eq!(Row::of(*workload).workload, *workload);
        }
    }
}
