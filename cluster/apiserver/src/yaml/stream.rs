//! The documents of a file as kubectl reads them: YAML documents, or JSON values one after another.
//!
//! Upstream: `YAMLOrJSONDecoder` of `apimachinery/pkg/util/yaml`.

use serde_json::Value;

/// Reads all documents of a text. An empty one is null, and the last of several equal keys counts.
///
/// # Errors
/// The reason why a part of the text is no document, with its line.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    let (mut documents, rest) = if text.trim_start().starts_with('{') {
        values(text)?
    } else {
        (Vec::new(), text)
    };
    let before = text[..text.len() - rest.len()].matches('\n').count();
    for document in split(before, rest)? {
        let read = super::parse(document.text.as_bytes()).or_else(|_| {
            // Blank lines in place of those before the document, for the line in the error.
            let padded = "\n".repeat(document.before) + &document.text;
            super::parse(padded.as_bytes())
        });
        documents.push(read?.0);
    }
    Ok(documents)
}

/// The JSON values at the start of a text, and the text behind them. A single one may be the first
/// document of YAML; behind several, YAML is an error.
fn values(text: &str) -> Result<(Vec<Value>, &str), String> {
    let mut values = Vec::new();
    let mut end = 0;
    let mut read = serde_json::Deserializer::from_str(text).into_iter();
    loop {
        match read.next() {
            None => return Ok((values, "")),
            Some(Ok(value)) => values.push(value),
            Some(Err(error)) if values.len() > 1 => return Err(error.to_string()),
            Some(Err(_)) => break,
        }
        end = read.byte_offset();
    }
    let rest = &text[end..];
    // The rest of the line behind the value.
    let line = rest.find('\n').map_or(rest.len(), |at| at + 1);
    let is_blank = rest[..line].trim().is_empty();
    Ok((values, if is_blank { &rest[line..] } else { rest }))
}

/// The lines between two separators.
struct Document {
    /// The number of lines before it in the file.
    before: usize,
    text: String,
}

impl Document {
    fn after(before: usize) -> Self {
        Self {
            before,
            text: String::new(),
        }
    }
}

/// The documents of a text behind as many lines as `before`. Each one ends with an end of line, as kubectl
/// passes it on.
fn split(before: usize, text: &str) -> Result<Vec<Document>, String> {
    let mut documents = Vec::new();
    let mut open = Document::after(before);
    for (number, line) in (before + 1..).zip(text.lines()) {
        let Some(rest) = line.strip_prefix("---").map(str::trim) else {
            open.text.push_str(line);
            open.text.push('\n');
            continue;
        };
        if !rest.is_empty() && !rest.starts_with('#') {
            return Err(format!(
                "yaml: line {number}: invalid Yaml document separator: {rest}"
            ));
        }
        documents.push(std::mem::replace(&mut open, Document::after(number)));
    }
    documents.push(open);
    documents.retain(|document| !document.text.is_empty());
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_those_that_kubectl_sends() {
        let text = "mode: 0644\nyes: on\nbase: &base {a: 1, b: x}\nmore: {<<: *base, b: ~}\nsame: 1\nsame: 2\n\
                    date: 2026-01-02\nlast: |\n  one";
        let expected = json!({
            "mode": 420, "true": true, "base": {"a": 1, "b": "x"}, "more": {"a": 1, "b": null}, "same": 2,
            "date": "2026-01-02", "last": "one\n",
        });
        assert_eq!(documents(text), Ok(vec![expected]));
    }

    #[test]
    fn lines_of_three_dashes_separate_documents() {
        let text = "# first\n---\n---  # c\r\na: 1\r\n---\n\n---\nb: |\n  x\n---\n[2]\n...\n[3]\n";
        let expected = [
            json!(null),
            json!({"a": 1}),
            json!(null),
            json!({"b": "x\n"}),
            json!([2]),
        ];
        assert_eq!(documents(text).as_deref(), Ok(&expected[..]));
        let why = "yaml: line 3: invalid Yaml document separator: {b: 2}";
        assert_eq!(documents("a: 1\n---\n--- {b: 2}\n"), Err(why.to_owned()));
    }

    #[test]
    fn json_values_follow_each_other() {
        let two = Ok(vec![json!({"a": 1}), json!({"b": 2})]);
        for text in [
            "{\"a\":0,\"a\":1}{\"b\":2}",
            " {\"a\": 1}\n{\"b\": 2}\n",
            "{\"a\": 1}\n---\nb: 2\n",
            "{a: 1}\n---\n{b: 2}\n",
        ] {
            assert_eq!(documents(text), two, "{text}");
        }
        let mixed = documents("{\"a\":1}{\"b\":2}\n---\nc: 3\n");
        assert_eq!(mixed, Err("invalid number at line 2 column 2".to_owned()));
    }

    #[test]
    fn errors_name_the_line_of_the_file() {
        for (text, line) in [
            ("a: 1\n---\nb: 2\nc:\n- d\n  e: f", 6),
            ("{\"a\": 1}\n---\nb: 2\nc:\n- d\n  e: f", 6),
        ] {
            let why = format!("yaml: line {line}: mapping values are not allowed in this context");
            assert_eq!(documents(text), Err(why), "{text}");
        }
    }
}
