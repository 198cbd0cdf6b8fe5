//! The result of one check, and its output.

use std::fmt::Write as _;

use serde::Serialize;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// The manager would start. Something may be other than intended, or could not be checked.
    Warning,
    /// The manager or a controller would not work.
    Failure,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The subject: `flags`, `files`, `server`, `skew`, `rights`, `lease`, `admission`, `running`.
    pub(super) check: &'static str,
    pub(super) message: String,
    /// The remedy. Findings that are no success have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self {
            level: Level::Ok,
            check,
            message: message.into(),
            advice: None,
        }
    }

    pub(super) fn warning(
        check: &'static str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Warning,
            advice: Some(advice.into()),
            ..Self::ok(check, message)
        }
    }

    pub(super) fn failure(
        check: &'static str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Failure,
            ..Self::warning(check, message, advice)
        }
    }
}

/// Whether one of the findings is a failure.
pub(super) fn has_failed(findings: &[Finding]) -> bool {
    findings.iter().any(|one| one.level == Level::Failure)
}

/// One line for each finding, with its remedy on the next one, and a line with the counts.
pub(super) fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding {
        level,
        check,
        message,
        advice,
    } in findings
    {
        let word = match level {
            Level::Ok => "ok     ",
            Level::Warning => "WARNING",
            Level::Failure => "FAILURE",
        };
        let _ = writeln!(text, "{word} {check:9} {message}");
        if let Some(advice) = advice {
            let _ = writeln!(text, "                  {advice}");
        }
    }
    let count = |level| findings.iter().filter(|one| one.level == level).count();
    let _ = writeln!(
        text,
        "{} failures, {} warnings, {} ok",
        count(Level::Failure),
        count(Level::Warning),
        count(Level::Ok)
    );
    text
}

/// All findings as one JSON document.
pub(super) fn json(findings: &[Finding]) -> String {
    let passed = !has_failed(findings);
    format!(
        "{:#}",
        serde_json::json!({ "passed": passed, "findings": findings })
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Level and message of each finding, for tables of tests.
    pub(in crate::check) fn words(findings: &[Finding]) -> Vec<(Level, &str)> {
        let words = |one: &'_ Finding| {
            assert_eq!(one.advice.is_some(), one.level != Level::Ok, "{one:?}");
        };
        findings.iter().for_each(words);
        findings
            .iter()
            .map(|one| (one.level, &*one.message))
            .collect()
    }

    #[test]
    fn findings_are_lines_or_a_document() {
        let findings = [
            Finding::ok("skew", "same minor version"),
            Finding::failure("files", "no key", "set the flag"),
        ];
        let expected = "ok      skew      same minor version\n\
                        FAILURE files     no key\n                  set the flag\n\
                        1 failures, 0 warnings, 1 ok\n";
        assert_eq!(text(&findings), expected);
        let document: serde_json::Value = serde_json::from_str(&json(&findings)).unwrap();
        let expected = serde_json::json!({"passed": false, "findings": [
            {"level": "ok", "check": "skew", "message": "same minor version"},
            {"level": "failure", "check": "files", "message": "no key", "advice": "set the flag"},
        ]});
        assert_eq!(document, expected);
    }
}
