//! The time that a request has for its answer.
//!
//! Upstream: `WithRequestDeadline` of `apiserver/pkg/endpoints/filters`, and `BasicLongRunningRequestCheck`.

use std::time::Duration;

use steersman_options::duration::GoDuration;

use crate::auth::{Attributes, Wanted};
use crate::status::Status;

/// The longest time, as upstream's default of `--request-timeout`.
const LONGEST: Duration = Duration::from_secs(60);

/// Subresources whose requests last as long as the client wants.
const LONG_PARTS: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

/// The time for a request: `given` by the client, or the longest one. `None` for watches and other requests
/// that run long. 400 if `given` is no duration.
pub(super) fn of(wanted: &Attributes, given: &str) -> Result<Option<Duration>, Status> {
    if runs_long(wanted) {
        return Ok(None);
    }
    if given.is_empty() {
        return Ok(Some(LONGEST));
    }
    let given: GoDuration = given.parse().map_err(|why| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - {why}"
        ))
    })?;
    let given = given.to_std();
    Ok(Some(if given.is_zero() {
        LONGEST
    } else {
        given.min(LONGEST)
    }))
}

fn runs_long(wanted: &Attributes) -> bool {
    match &wanted.object {
        Wanted::Resource(object) => {
            matches!(&*wanted.verb, "watch" | "proxy") || LONG_PARTS.contains(&&*object.subresource)
        }
        Wanted::Path(path) => path.starts_with("/debug/pprof/"),
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::auth::Selected;

    #[test]
    fn only_requests_that_do_not_run_long_have_a_limit() {
        let limit = |path: &str, is_watch, given: &str| {
            let wanted = Attributes::of_request(&Method::GET, path, is_watch, Selected::default());
            of(&wanted, given).map_err(|status| status.message)
        };
        let things = "/apis/a.dev/v1/namespaces/n/things";
        let seconds = |seconds| Ok(Some(Duration::from_secs(seconds)));
        for (given, expected) in [("", 60), ("0s", 60), ("-3s", 60), ("3s", 3), ("2m", 60)] {
            assert_eq!(limit(things, false, given), seconds(expected), "{given}");
        }
        for path in [
            &*format!("{things}/x/log"),
            "/apis/a.dev/v1/watch/things",
            "/debug/pprof/profile",
        ] {
            assert_eq!(limit(path, false, "x"), Ok(None), "{path}");
        }
        assert_eq!(limit(things, true, ""), Ok(None));
        let why = "invalid timeout specified in the request URL - time: invalid duration \"x\"";
        assert_eq!(limit(things, false, "x"), Err(why.to_owned()));
    }
}
