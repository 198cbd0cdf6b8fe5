//! Parses YAML bodies as Go's `sigs.k8s.io/yaml` does. The last of several equal keys counts.

mod decode;
mod nodes;
mod resolve;
mod stream;
mod text;
mod words;

use serde_json::Value;

use decode::Decoder;
pub use stream::documents;

/// Begins the error of Go's strict parser, before one line for each equal key.
const ERRORS: &str = "yaml: unmarshal errors:";
/// Begins the same error in an apply request.
pub(crate) const CONVERTING: &str = "error converting YAML to JSON: ";

/// The value of the document, and the error of Go's strict parser about equal keys. An error is the
/// reason why there is no value. Keys are sorted, as Go's conversion to JSON sorts them: their order is that
/// of warnings, and of several errors it selects the first.
pub(crate) fn parse(body: &[u8]) -> Result<(Value, Option<String>), String> {
    let Some(document) = nodes::read(&text::read(body)?)? else {
        return Ok((Value::Null, None));
    };
    let mut decoder = Decoder::default();
    let mut value = decoder.value(&document)?;
    value.sort_all_objects();
    if let Some(why) = decoder.unsupported {
        return Err(why);
    }
    let repeated = decoder.repeated;
    let errors = (!repeated.is_empty()).then(|| format!("{ERRORS}\n  {}", repeated.join("\n  ")));
    Ok((value, errors))
}

/// The warnings of a strict error: one for each line of the parser's error.
/// Upstream: `parseYAMLWarnings` of `apiserver/pkg/endpoints/handlers`.
pub(crate) fn warnings(error: String) -> Vec<String> {
    let parsers = error.strip_prefix(CONVERTING).unwrap_or(&error);
    match parsers.strip_prefix(ERRORS) {
        Some(lines) => lines
            .trim()
            .lines()
            .map(|line| line.trim().to_owned())
            .collect(),
        None => vec![error],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Value {
        let (value, errors) = parse(text.as_bytes()).unwrap();
        assert_eq!(errors, None, "{text}");
        value
    }

    #[test]
    fn keys_are_in_the_order_of_go() {
        let sorted = value("b: [{d: 1, B: 2}]\na: 3").to_string();
        assert_eq!(sorted, r#"{"a":3,"b":[{"B":2,"d":1}]}"#);
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_go_names_the_lines_of_the_later_ones() {
        let text = "a: 1\nb:\n  c: p\n  c: q\na:\n- d: {e: 1, e: 2}\n  d: null\n";
        // The second `a` has its value in line 6.
        let expected = "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  \
                        line 6: key \"e\" already set in map\n  line 7: key \"d\" already set in map\n  \
                        line 6: key \"a\" already set in map";
        let value = json!({"a": [{"d": null}], "b": {"c": "q"}});
        assert_eq!(
            parse(text.as_bytes()),
            Ok((value, Some(expected.to_owned())))
        );
        let unique = json!({"a": {"b": 1}, "c": {"b": 1}});
        assert_eq!(parse(b"a: {b: 1}\nc: {b: 1}\n"), Ok((unique, None)));
    }

    /// A real API server takes each of these texts, and stores this value.
    #[test]
    fn quoted_scalars_continue_with_any_indentation() {
        let one = json!({"d": {"a": "one two", "b": 1}});
        for text in [
            "d:\n  a: 'one\n  two'\n  b: 1\n",
            "d:\n    a: 'one\n  two'\n    b: 1\n",
            "d:\n  a: \"one\n two\"\n  b: 1\n",
            "d:\n  a:\n    \"one\ntwo\"\n  b: 1\n",
        ] {
            assert_eq!(value(text), one, "{text}");
        }
        let many = "l:\n- 'it''s\n\n  a\n  \"b\"\n  c'\n- d\n- - \"e\\\n  f\"\n";
        assert_eq!(value(many), json!({"l": ["it's\na \"b\" c", "d", ["ef"]]}));
    }

    #[test]
    fn a_block_ends_as_the_text_does() {
        for (text, expected) in [
            ("a: |\n  one", "one"),
            ("a: |+\n  one", "one"),
            ("a: |-\n  one", "one"),
            ("a: >\n  one\n  two", "one two"),
            ("a: |\n  one\n   ", "one\n "),
            ("a: |\n  one\n  ", "one\n"),
            ("a: |\n  one\n", "one\n"),
            ("a: |+\n  one\n\n", "one\n\n"),
            ("a: |\n  one\n# end", "one\n"),
        ] {
            assert_eq!(value(text), json!({"a": expected}), "{text:?}");
        }
    }

    #[test]
    fn comments_have_no_limit() {
        let text = format!("a:\n{}b: 1\n", "  # c\n".repeat(200));
        assert_eq!(value(&text), json!({"a": null, "b": 1}));
    }

    #[test]
    fn a_merge_replaces_the_keys_before_it() {
        let text = "a: &a {x: 1, q: 1}\nb: &b {q: 2}\nc: {x: 0, <<: [*a, *b], z: 3}\n";
        let (merged, errors) = parse(text.as_bytes()).unwrap();
        let expected = json!({"a": {"x": 1, "q": 1}, "b": {"q": 2}, "c": {"x": 1, "q": 1, "z": 3}});
        assert_eq!(merged, expected);
        let lines = "yaml: unmarshal errors:\n  line 1: key \"x\" already set in map\n  \
                     line 1: key \"q\" already set in map";
        assert_eq!(errors.as_deref(), Some(lines));
    }

    #[test]
    fn whole_floats_and_keys_become_what_go_writes_as_json() {
        let text = "{1e3: 1e3, 0x10: 08, yes: 1.5, 'no': !!str 5}";
        let expected = json!({"1000": 1000, "16": 8, "true": 1.5, "no": "5"});
        assert_eq!(value(text), expected);
        let refused = [
            ("a: .inf", "json: unsupported value: +Inf"),
            ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
            ("a: *b", "yaml: unknown anchor 'b' referenced"),
            (
                "a:\n- b\n  c: d",
                "yaml: line 3: mapping values are not allowed in this context",
            ),
            (
                "a: b\nc: 'd'\n e: f",
                "yaml: line 2: did not find expected key",
            ),
            (
                "a: {<<: 1}",
                "yaml: map merge requires map or sequence of maps as the value",
            ),
        ];
        for (text, why) in refused {
            assert_eq!(parse(text.as_bytes()), Err(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn keys_that_are_floats_have_the_text_of_32_bits() {
        let text = "{1e6: a, 123456.0: b, 1.234567e6: c, -1e-5: d, 0.1: e, 1e39: f, -1e39: g, .nan: h, .nan: i}";
        let expected = json!({"1e+06": "a", "123456": "b", "1.234567e+06": "c", "-1e-05": "d", "0.1": "e",
            ".inf": "f", "-.inf": "g", ".nan": "i"});
        assert_eq!(value(text), expected);
        assert_eq!(value("{1: a, 1.0: b}"), json!({"1": "b"}));
        let (_, errors) = parse(b"{1e6: a, 1e6: b, 1.5: c, 1.5: d}").unwrap();
        let lines = "yaml: unmarshal errors:\n  line 1: key 1e+06 already set in map\n  \
                     line 1: key 1.5 already set in map";
        assert_eq!(errors.as_deref(), Some(lines));
    }

    #[test]
    fn aliases_copy_a_bounded_number_of_bytes() {
        // A text, and a number of as many bytes.
        let longs = [
            "x".repeat(1 << 20),
            format!("0{}", "_".repeat((1 << 20) - 1)),
        ];
        for long in longs {
            let text = |aliases: usize| format!("a: &a {long}\nb: [{}]\n", "*a,".repeat(aliases));
            assert!(parse(text(64).as_bytes()).is_ok());
            let why = "yaml: document contains excessive aliasing";
            assert_eq!(parse(text(65).as_bytes()), Err(why.to_owned()));
        }
    }

    #[test]
    fn a_carriage_return_ends_a_line() {
        assert_eq!(value("a: 'x\ry'\r\nb: 1\r"), json!({"a": "x y", "b": 1}));
    }

    #[test]
    fn only_the_first_document_counts() {
        assert_eq!(value("--- {a: 1}\n--- {a: 2}\n"), json!({"a": 1}));
        assert_eq!(value("# nothing\n"), Value::Null);
    }
}
