//! The end of containers that exit by themselves: when, with which code, and how often they start
//! again.
//!
//! annotations and owner of a pod -> [`Ending`] -> exit code of each container, back-off of its
//! restart
//!
//! Upstream: the back-off of `pkg/kubelet/kuberuntime`.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;

/// Annotation with the time from the readiness of the containers to their exit: `500ms`, `1m30s`.
pub const RUN_TIME: &str = "simulate.steersman.dev/run-time";
/// Annotation with the exit code of all containers, `1`, or of some: `main=1,helper=3`.
pub const EXIT_CODE: &str = "simulate.steersman.dev/exit-code";
/// Annotation with the number of runs that end with the exit code. Later runs succeed.
pub const FAILURES: &str = "simulate.steersman.dev/failures";

/// Run time of a Job's pod by default.
const RUN_TIME_OF_JOBS: Duration = Duration::from_secs(1);
/// Back-off of the second restart of a container; it doubles with each further one.
const FIRST_BACK_OFF: Duration = Duration::from_secs(10);
/// Longest back-off.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);

/// The end of a pod's containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ending {
    /// Time from readiness to exit.
    pub(super) run_time: Duration,
    /// Exit code of containers that are not in `codes`.
    code: i32,
    codes: BTreeMap<Box<str>, i32>,
    /// Runs of a container that end with its code.
    failures: Option<i32>,
    /// Whether containers exit by themselves. Exit codes of init containers alone do not end them.
    pub(super) is_of_containers: bool,
}

impl Ending {
    /// The ending of a pod, from its annotations. `None` if its containers run for ever. `fails` is
    /// true for containers with the behaviour `fail`, and `is_init` for names of init containers.
    /// The error names a malformed annotation.
    pub(super) fn of<'a>(
        annotation: impl Fn(&str) -> Option<&'a str>,
        is_of_job: bool,
        fails: bool,
        is_init: impl Fn(&str) -> bool,
    ) -> Result<Option<Self>, String> {
        let time = annotation(RUN_TIME);
        let code = annotation(EXIT_CODE);
        if time.is_none() && code.is_none() && !is_of_job && !fails {
            return Ok(None);
        }
        let run_time = time.map_or(Ok(RUN_TIME_OF_JOBS), |text| {
            let parsed: Option<SignedDuration> = text.parse().ok();
            let wrong = format!("annotation {RUN_TIME}: {text:?} is no duration such as 500ms");
            parsed.and_then(|time| time.try_into().ok()).ok_or(wrong)
        })?;
        let mut ending = Self {
            run_time,
            code: i32::from(fails),
            codes: BTreeMap::new(),
            failures: None,
            is_of_containers: time.is_some() || is_of_job || fails,
        };
        for part in code.into_iter().flat_map(|text| text.split(',')) {
            let (name, text) = part.split_once('=').unwrap_or(("", part));
            let code = text.trim().parse::<u8>().map_err(|_| {
                format!("annotation {EXIT_CODE}: {part:?} is no exit code from 0 to 255")
            })?;
            ending.is_of_containers |= !is_init(name.trim());
            match name.trim() {
                "" => ending.code = code.into(),
                name => drop(ending.codes.insert(name.into(), code.into())),
            }
        }
        ending.failures = annotation(FAILURES)
            .map(|text| match text.parse() {
                Ok(count @ 0..) => Ok(count),
                _ => Err(format!("annotation {FAILURES}: {text:?} is no number")),
            })
            .transpose()?;
        Ok(Some(ending))
    }

    /// Exit code of an init container that has been restarted `restarts` times. Only codes with its
    /// name apply.
    pub(super) fn init_code(&self, container: &str, restarts: i32) -> i32 {
        let is_named = self.codes.contains_key(container);
        if is_named {
            self.code(container, restarts)
        } else {
            0
        }
    }

    /// Exit code of a container that has been restarted `restarts` times.
    pub(super) fn code(&self, container: &str, restarts: i32) -> i32 {
        if self.failures.is_some_and(|failures| restarts >= failures) {
            return 0;
        }
        self.codes.get(container).copied().unwrap_or(self.code)
    }
}

/// Wait before the next restart of a container that has been restarted `restarts` times. The first
/// restart has no wait.
pub(super) fn back_off(restarts: i32) -> Duration {
    match u32::try_from(restarts).unwrap_or(0) {
        0 => Duration::ZERO,
        // Five doublings reach the limit.
        restarts => (FIRST_BACK_OFF * 2_u32.pow(restarts.min(6) - 1)).min(LONGEST_BACK_OFF),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(annotations: &[(&str, &str)], is_of_job: bool) -> Result<Option<Ending>, String> {
        let find = |key: &str| {
            let found = annotations.iter().find(|(name, _)| *name == key);
            found.map(|(_, value)| *value)
        };
        Ending::of(find, is_of_job, false, |name| name == "setup")
    }

    #[test]
    fn annotations_set_run_time_and_exit_codes() {
        // (annotations, of a Job, run time, codes of main, of helper, of main after two restarts)
        let cases: [(&[(&str, &str)], bool, u64, [i32; 3]); 6] = [
            (&[], true, 1000, [0, 0, 0]),
            (&[(RUN_TIME, "500ms")], false, 500, [0, 0, 0]),
            (&[(EXIT_CODE, "3")], false, 1000, [3, 3, 3]),
            (&[(EXIT_CODE, "main=3")], true, 1000, [3, 0, 3]),
            (&[(EXIT_CODE, "1, main=42")], true, 1000, [42, 1, 42]),
            (
                &[(EXIT_CODE, "1"), (FAILURES, "2"), (RUN_TIME, "1m")],
                true,
                60_000,
                [1, 1, 0],
            ),
        ];
        for (annotations, is_of_job, run_time, codes) in cases {
            let ending = ending(annotations, is_of_job).unwrap().unwrap();
            assert_eq!(ending.run_time, Duration::from_millis(run_time));
            let found = [("main", 0), ("helper", 0), ("main", 2)];
            assert_eq!(
                found.map(|(name, restarts)| ending.code(name, restarts)),
                codes,
                "{annotations:?}"
            );
        }
        assert_eq!(ending(&[(FAILURES, "2")], false), Ok(None));
        let of_init = ending(&[(EXIT_CODE, "setup=4"), (FAILURES, "1")], false).unwrap();
        let of_init = of_init.unwrap();
        assert!(!of_init.is_of_containers);
        let codes = [("setup", 0), ("setup", 1), ("other", 0)];
        let codes = codes.map(|(name, restarts)| of_init.init_code(name, restarts));
        assert_eq!(codes, [4, 0, 0]);
    }

    #[test]
    fn malformed_annotations_are_named() {
        // (annotation, value, error)
        let cases = [
            (RUN_TIME, "soon", "\"soon\" is no duration such as 500ms"),
            (RUN_TIME, "-1s", "\"-1s\" is no duration such as 500ms"),
            (EXIT_CODE, "256", "\"256\" is no exit code from 0 to 255"),
            (EXIT_CODE, "a=b", "\"a=b\" is no exit code from 0 to 255"),
            (FAILURES, "-1", "\"-1\" is no number"),
        ];
        for (annotation, value, expected) in cases {
            let error = ending(&[(annotation, value)], true).unwrap_err();
            assert_eq!(error, format!("annotation {annotation}: {expected}"));
        }
    }

    #[test]
    fn back_off_doubles_up_to_five_minutes() {
        let seconds = (0..9).map(|restarts| back_off(restarts).as_secs());
        assert_eq!(
            seconds.collect::<Vec<_>>(),
            [0, 10, 20, 40, 80, 160, 300, 300, 300]
        );
    }
}
