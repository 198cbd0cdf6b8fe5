use serde_json::Value;

use super::{compile, translate};

/// Patterns with the answers of Go 1.27: the error, or where each of the texts matches.
const RECORDED: &str = include_str!("../testdata/go.json");

#[test]
fn patterns_are_accepted_and_match_as_in_go() {
    let recorded: Value = serde_json::from_str(RECORDED).expect("the file is JSON");
    let texts = recorded["texts"].as_array().expect("a list of texts");
    let patterns = recorded["patterns"].as_array().expect("a list of patterns");
    assert!(patterns.len() >= 400, "{} patterns", patterns.len());
    let mut wrong = Vec::new();
    for entry in patterns {
        let pattern = entry["pattern"].as_str().expect("a pattern");
        match (compile(pattern), entry["error"].as_str()) {
            (Err(ours), Some(theirs)) => {
                if ours.to_string() != theirs {
                    wrong.push(format!("{pattern}\n  ours   {ours}\n  theirs {theirs}"));
                }
            }
            (Err(ours), None) => wrong.push(format!("{pattern}\n  ours   {ours}\n  theirs accept")),
            (Ok(_), Some(theirs)) => {
                wrong.push(format!("{pattern}\n  ours   accept\n  theirs {theirs}"));
            }
            (Ok(regex), None) => {
                for (index, text) in texts.iter().enumerate() {
                    let text = text.as_str().expect("a text");
                    let ours = regex.find(text).map(|found| (found.start(), found.end()));
                    let ours = ours.map_or(Value::Null, |(from, to)| Value::from(vec![from, to]));
                    let theirs = &entry["found"][index];
                    if ours != *theirs {
                        wrong.push(format!("{pattern} on {text:?}\n  {ours} {theirs}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn deep_and_large_patterns_are_refused_as_in_go() {
    let nested = |depth| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(translate(&nested(999)).is_ok());
    let refused = translate(&nested(1000)).expect_err("the pattern is too deep");
    assert!(
        refused.to_string().contains("expression nests too deeply"),
        "{refused}"
    );
    let large = format!("(?:{}){{1000}}", "x".repeat(4000));
    let refused = translate(&large).expect_err("the pattern is too large");
    assert!(
        refused.to_string().contains("expression too large"),
        "{refused}"
    );
}

#[test]
fn a_pattern_that_only_go_can_compile_is_valid_and_too_large() {
    let fits = r"\pL{1000}";
    assert!(compile(fits).is_ok());
    let pattern = fits.repeat(5);
    assert!(translate(&pattern).is_ok());
    let refused = compile(&pattern).expect_err("the compiled form is beyond the limit");
    assert!(
        refused.to_string().contains("expression too large"),
        "{refused}"
    );
}

#[test]
fn long_patterns_are_read_in_linear_time() {
    for part in ["{", "{1", "(?i)k", "[a-z]", "(?:a|b)", r"\Qx\E", "(?i"] {
        let pattern = part.repeat(100_000);
        // The answer does not matter; a quadratic reader would need minutes.
        let _ = translate(&pattern);
    }
}
