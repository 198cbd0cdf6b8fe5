//! The outcome of `--once` for other programs: JSON, or JUnit's XML.

use clap::ValueEnum;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use super::outcome::Verdict;
use super::progress::State;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// One JSON object.
    Json,
    /// A test suite with a case for each object.
    Junit,
}

/// One object in a document.
struct Case {
    kind: &'static str,
    namespace: String,
    name: String,
    state: &'static str,
    /// The reason if the object is not available.
    reason: Option<String>,
}

impl Format {
    /// The document about the applied objects. `error` is the reason of the end, if it was one.
    pub(super) fn document(
        self,
        verdicts: &[Verdict],
        cluster: &DevCluster,
        error: Option<&str>,
    ) -> String {
        let cases: Vec<Case> = verdicts
            .iter()
            .map(|verdict| {
                let object = &verdict.object;
                let state = state(&verdict.state);
                let reason = (state != "available").then(|| object.explain(cluster));
                Case {
                    kind: object.kind,
                    namespace: object.key.namespace.to_string(),
                    name: object.key.name.to_string(),
                    state,
                    reason,
                }
            })
            .collect();
        match self {
            Self::Json => format!("{:#}", in_json(&cases, error)),
            Self::Junit => in_xml(&cases),
        }
    }
}

fn state(state: &State) -> &'static str {
    match state {
        State::Complete | State::Scheduled(_) => "available",
        State::Stuck(_) => "impossible",
        State::Rolling(_) | State::Paused(_) => "pending",
    }
}

fn in_json(cases: &[Case], error: Option<&str>) -> Value {
    let object = |case: &Case| {
        json!({
            "kind": case.kind,
            "namespace": case.namespace,
            "name": case.name,
            "state": case.state,
            "reason": case.reason,
        })
    };
    let objects: Vec<Value> = cases.iter().map(object).collect();
    json!({"available": error.is_none(), "error": error, "objects": objects})
}

fn in_xml(cases: &[Case]) -> String {
    let failures = cases.iter().filter(|case| case.reason.is_some()).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"steersman dev\" tests=\"{}\" failures=\"{failures}\">\n",
        cases.len()
    );
    for case in cases {
        let head = format!(
            "    <testcase classname=\"{}\" name=\"{}/{}\"",
            escaped(case.kind),
            escaped(&case.namespace),
            escaped(&case.name)
        );
        text.push_str(&match &case.reason {
            None => format!("{head}/>\n"),
            Some(reason) => format!(
                "{head}>\n      <failure type=\"{}\" message=\"{}\"/>\n    </testcase>\n",
                case.state,
                escaped(reason)
            ),
        });
    }
    text.push_str("  </testsuite>\n</testsuites>");
    text
}

/// `text` in an attribute. XML has no form for most control characters, so they become spaces.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> Vec<Case> {
        let case = |name: &str, state, reason: Option<&str>| Case {
            kind: "Deployment",
            namespace: "default".to_owned(),
            name: name.to_owned(),
            state,
            reason: reason.map(str::to_owned),
        };
        vec![
            case("web", "available", None),
            case("db", "impossible", Some("quota <\"team\"> & more\n")),
        ]
    }

    #[test]
    fn a_failure_has_its_reason_in_both_formats() {
        let json = in_json(&cases(), Some("not available"));
        assert_eq!(json["available"], false);
        assert_eq!(json["objects"][0]["reason"], Value::Null);
        assert_eq!(json["objects"][1]["state"], "impossible");
        let xml = in_xml(&cases());
        let expected = [
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
            "<testsuites>",
            "  <testsuite name=\"steersman dev\" tests=\"2\" failures=\"1\">",
            "    <testcase classname=\"Deployment\" name=\"default/web\"/>",
            "    <testcase classname=\"Deployment\" name=\"default/db\">",
            "      <failure type=\"impossible\" message=\"quota &lt;&quot;team&quot;&gt; &amp; more \"/>",
            "    </testcase>",
            "  </testsuite>",
            "</testsuites>",
        ];
        assert_eq!(xml.lines().collect::<Vec<_>>(), expected);
    }
}
