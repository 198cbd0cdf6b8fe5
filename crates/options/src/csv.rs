//! Reads and writes one line of comma-separated values with the rules of Go's `encoding/csv`.
//!
//! Upstream's flag library uses that package for lists, so quoting and error messages must match.

/// Splits `line` into fields. The error has Go's message.
pub(crate) fn split(line: &str) -> Result<Vec<String>, String> {
    if line.is_empty() {
        return Ok(Vec::new());
    }
    let error =
        |at: usize, what: &str| Err(format!("parse error on line 1, column {}: {what}", at + 1));
    let mut fields = Vec::new();
    let mut start = 0;
    loop {
        let rest = &line[start..];
        let next = if let Some(quoted) = rest.strip_prefix('"') {
            let (field, length) = match unquote(quoted) {
                Ok(read) => read,
                Err(at) => {
                    return error(start + 1 + at, r#"extraneous or missing " in quoted-field"#);
                }
            };
            fields.push(field);
            start + 1 + length
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            if let Some(quote) = rest[..end].find('"') {
                return error(start + quote, r#"bare " in non-quoted field"#);
            }
            fields.push(rest[..end].to_owned());
            start + end
        };
        if next == line.len() {
            return Ok(fields);
        }
        start = next + 1;
    }
}

/// Reads a quoted field up to its closing quote. Returns the field and its length including that
/// quote, or the position of the error.
fn unquote(text: &str) -> Result<(String, usize), usize> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let Some(quote) = rest.find('"') else {
            return Err(text.len());
        };
        field.push_str(&rest[..quote]);
        let after = &rest[quote + 1..];
        let read = text.len() - after.len();
        match after.bytes().next() {
            Some(b'"') => {
                field.push('"');
                rest = &after[1..];
            }
            None | Some(b',') => return Ok((field, read)),
            Some(_) => return Err(read - 1),
        }
    }
}

/// Joins `fields`; quotes a field where Go's writer does.
pub(crate) fn join(fields: &[String]) -> String {
    let quote = |field: &String| {
        let needed = field.contains([',', '"', '\n', '\r'])
            || field.starts_with([' ', '\t'])
            || field == r"\.";
        if needed {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    };
    fields.iter().map(quote).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_in_go() {
        let cases: [(&str, &[&str]); 6] = [
            ("", &[]),
            ("a", &["a"]),
            ("a,b,", &["a", "b", ""]),
            (r#""a,b",c"#, &["a,b", "c"]),
            (r#""say ""hi""",x"#, &[r#"say "hi""#, "x"]),
            (r#"a,"""#, &["a", ""]),
        ];
        for (line, fields) in cases {
            let read = split(line).unwrap();
            assert_eq!(read, fields, "{line}");
            assert_eq!(
                split(&join(&read)).unwrap(),
                fields,
                "{line} changes when it is written and read again"
            );
        }
    }

    #[test]
    fn errors_name_the_column_of_a_broken_quote() {
        let cases = [
            (
                r#"a"b"#,
                r#"parse error on line 1, column 2: bare " in non-quoted field"#,
            ),
            (
                r#"x,"a"b"#,
                r#"parse error on line 1, column 5: extraneous or missing " in quoted-field"#,
            ),
            (
                r#""a"#,
                r#"parse error on line 1, column 3: extraneous or missing " in quoted-field"#,
            ),
        ];
        for (line, message) in cases {
            assert_eq!(split(line).unwrap_err(), message);
        }
    }
}
