//! Problems of JSON texts in the words of Go.
//!
//! Upstream: `encoding/json` of Go 1.25, with a map as the target.

use serde_json::Value;
use serde_json::error::Category;

/// The problem of bytes that must be a JSON object or null; `None` if they are.
pub(super) fn object_problem(bytes: &[u8]) -> Option<String> {
    let kind = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => return None,
        Ok(Value::Bool(_)) => "bool",
        Ok(Value::Number(_)) => "number",
        Ok(Value::String(_)) => "string",
        Ok(Value::Array(_)) => "array",
        Err(problem) => return Some(syntax_problem(bytes, &problem)),
    };
    Some(format!(
        "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    ))
}

/// The problem of a text that is no JSON. Go tells the character, and the token that it expected. The latter
/// is exact for texts that do not even begin well.
fn syntax_problem(bytes: &[u8], problem: &serde_json::Error) -> String {
    if problem.classify() == Category::Eof {
        return "unexpected end of JSON input".to_owned();
    }
    let place = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .take(problem.line() - 1)
        .map(<[u8]>::len)
        .sum::<usize>()
        + problem.column().saturating_sub(1);
    let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace());
    let wrong = bytes.get(place).copied().unwrap_or(b' ');
    let looked_for = if start == Some(place) {
        "looking for beginning of value"
    } else {
        "after top-level value"
    };
    let shown = match wrong {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        other => format!("'{}'", char::from(other).escape_default()),
    };
    format!("invalid character {shown} {looked_for}")
}
