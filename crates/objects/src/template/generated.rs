//! Templates that use every field of the table of types, hashed by two implementations and
//! compared.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};

use super::plain::{self, Lines};
use super::{PodTemplate, dump, hash};

/// Quantities in all forms that upstream treats differently.
const QUANTITIES: [&str; 26] = [
    "500m",
    "1",
    "1500k",
    "1000",
    "129e6",
    "1E3",
    "100Mi",
    "64Mi",
    "1Gi",
    "-1",
    "-250m",
    "0.5",
    "0",
    "1234.567",
    "1n",
    "0.1n",
    "1Pi",
    "16Ei",
    "0.5Ki",
    "0.0001Ki",
    "18446744073709551616",
    "9223372036854775807",
    "12E",
    "007",
    "1e-12",
    "+3u",
];

/// Texts that a parser could trip over; none is read back by anybody.
const TEXTS: [&str; 8] = [
    "main",
    "",
    " a b ",
    "}]) {x:(string)y",
    "<nil>",
    "grüße, 世界",
    "line\nbreak\t\"\\",
    "map[a:b]",
];

/// Deterministic noise.
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// Both texts and both hashes of a template agree; the text.
fn agreed(lines: &Lines, template: &Value, collision_count: Option<i32>) -> String {
    let mut streamed = String::new();
    dump::dump(template, &mut streamed).unwrap();
    let text = lines.text(template);
    assert_eq!(streamed, text, "{template}");
    assert_eq!(
        hash(template, collision_count),
        plain::hash(&text, collision_count),
        "{template}"
    );
    text
}

/// Whether upstream's own text of this type depends on its host.
fn is_out_of_reach(kind: &str) -> bool {
    kind.trim_start_matches('*') == "v1.Time"
}

/// Calls `visit` with a value for each field of `kind` that holds no fields itself, in the objects
/// and lists that lead to it.
fn each_leaf(
    lines: &Lines,
    kind: &'static str,
    wrap: &dyn Fn(Value) -> Value,
    visit: &mut dyn FnMut(Value, Value),
) {
    let kind = lines.resolve(kind.trim_start_matches('*'));
    let kind = lines.resolve(kind);
    if let Some(element) = kind.strip_prefix("[]") {
        return each_leaf(lines, element, &|value| wrap(json!([value])), visit);
    }
    if let Some((_, element)) = kind
        .strip_prefix("map[")
        .and_then(|rest| rest.split_once(']'))
    {
        return each_leaf(lines, element, &|value| wrap(json!({"key": value})), visit);
    }
    let (one, other) = match kind {
        "string" => (json!("one"), json!("other")),
        "bool" => (json!(true), json!(false)),
        "int32" | "int64" => (json!(1), json!(2)),
        "resource.Quantity" => (json!("100m"), json!("64Mi")),
        "intstr.IntOrString" => (json!(80), json!("80")),
        "v1.FieldsV1" => (json!({"f:a": {}}), json!({"f:b": {}})),
        _ if is_out_of_reach(kind) => return,
        _ => {
            for field in lines
                .fields(kind)
                .unwrap_or_else(|| panic!("{kind} is in the table"))
            {
                let below = |value| {
                    if field.key == "-" {
                        wrap(value)
                    } else {
                        wrap(json!({ field.key: value }))
                    }
                };
                each_leaf(lines, field.kind, &below, visit);
            }
            return;
        }
    };
    visit(wrap(one), wrap(other));
}

/// Any value of `kind`, or none.
fn any(lines: &Lines, kind: &'static str, noise: &mut Noise) -> Option<Value> {
    let kind = lines.resolve(kind.trim_start_matches('*'));
    let kind = lines.resolve(kind);
    if is_out_of_reach(kind) || noise.below(3) == 0 {
        return None;
    }
    if let Some(element) = kind.strip_prefix("[]") {
        return Some(
            (0..noise.below(3))
                .map(|_| any(lines, element, noise).unwrap_or(Value::Null))
                .collect(),
        );
    }
    if let Some((_, element)) = kind
        .strip_prefix("map[")
        .and_then(|rest| rest.split_once(']'))
    {
        let entries = (0..noise.below(3))
            .map(|_| (noise.one_of(&TEXTS).to_owned(), any(lines, element, noise)));
        return Some(
            entries
                .map(|(key, value)| (key, value.unwrap_or(Value::Null)))
                .collect::<Map<_, _>>()
                .into(),
        );
    }
    Some(match kind {
        "string" => json!(noise.one_of(&TEXTS)),
        "bool" => json!(noise.below(2) == 0),
        "int32" => json!(noise.one_of(&[0, 1, -1, i32::MAX, i32::MIN])),
        "int64" => json!(noise.one_of(&[0, 30, i64::MAX, i64::MIN])),
        "resource.Quantity" => json!(noise.one_of(&QUANTITIES)),
        "intstr.IntOrString" if noise.below(2) == 0 => json!(noise.below(3)),
        "intstr.IntOrString" => json!(noise.one_of(&TEXTS)),
        "v1.FieldsV1" => json!({"f:spec": {"f:replicas": {}}}),
        _ => Value::Object(members(lines, kind, noise)),
    })
}

fn members(lines: &Lines, kind: &'static str, noise: &mut Noise) -> Map<String, Value> {
    let mut object = Map::new();
    for field in lines
        .fields(kind)
        .unwrap_or_else(|| panic!("{kind} is in the table"))
    {
        if field.key == "-" {
            object.append(&mut members(lines, field.kind, noise));
        } else if let Some(value) = any(lines, field.kind, noise) {
            object.insert(field.key.to_owned(), value);
        }
    }
    object
}

/// Lays `other` over `object`: members join, lists grow together.
fn merge(object: &mut Value, other: Value) {
    match (object, other) {
        (Value::Object(object), Value::Object(other)) => {
            for (key, value) in other {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(list), Value::Array(other)) => {
            for (item, value) in list.iter_mut().zip(other) {
                merge(item, value);
            }
        }
        (object, other) => *object = other,
    }
}

#[test]
fn every_field_enters_the_hash_as_the_plain_text_says() {
    let lines = Lines::new();
    let mut texts = HashSet::new();
    let mut classes = BTreeMap::new();
    let mut everything = Value::Null;
    let mut count = 0;
    each_leaf(
        &lines,
        "v1.PodTemplateSpec",
        &|value| value,
        &mut |one, other| {
            count += 1;
            let text = agreed(&lines, &one, None);
            assert_ne!(text, agreed(&lines, &other, None), "{one} and {other}");
            assert!(
                texts.insert(text),
                "no other template has the text of {one}"
            );
            // Nor is one equal to another.
            if let Some(equal) =
                classes.insert(format!("{:?}", PodTemplate::new(&one)), one.clone())
            {
                panic!("{one} is not {equal}");
            }
            assert!(
                !PodTemplate::new(&one).equal_ignoring_hash(&PodTemplate::new(&other)),
                "{one} is not {other}"
            );
            merge(&mut everything, one);
        },
    );
    assert!(count > 800, "{count}");
    let text = agreed(&lines, &everything, Some(7));
    let fields = include_str!("types.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split("; "));
    for field in fields.filter(|field| !field.contains(" = ")) {
        let name = field
            .rsplit(": ")
            .next()
            .unwrap()
            .split(' ')
            .next()
            .unwrap();
        assert!(text.contains(&format!("{name}:(")), "{field}");
    }
}

#[test]
fn templates_at_random_have_the_hash_of_their_plain_text() {
    let lines = Lines::new();
    let mut noise = Noise(1);
    let mut texts = HashSet::new();
    for _ in 0..150 {
        let template = Value::Object(members(&lines, "v1.PodTemplateSpec", &mut noise));
        let count = noise.one_of(&[None, Some(0), Some(1), Some(i32::MAX)]);
        texts.insert(agreed(&lines, &template, count));
    }
    assert!(texts.len() > 120, "{}", texts.len());
}

#[test]
fn every_quantity_is_dumped_as_the_plain_text_says() {
    let lines = Lines::new();
    let fractions = ["", ".0", ".5", ".125", ".000000001"];
    let suffixes = [
        "", "n", "u", "m", "k", "Ki", "M", "G", "T", "P", "E", "Mi", "Gi", "Ti", "e0", "e3", "E-3",
        "e7",
    ];
    // The plain text counts in 128 bits, so the long ones do without the larger suffixes.
    let short = ["0", "1", "7", "8", "64", "999", "1000", "1024", "00123"]
        .map(|whole| (whole, &suffixes[..]));
    let long = ["123456789012345", "999999999999999999"].map(|whole| (whole, &suffixes[..6]));
    let quantities = short.into_iter().chain(long).flat_map(|(whole, suffixes)| {
        fractions.iter().flat_map(move |fraction| {
            suffixes
                .iter()
                .map(move |suffix| format!("{whole}{fraction}{suffix}"))
        })
    });
    for quantity in quantities {
        for sign in ["", "-"] {
            agreed(
                &lines,
                &json!({"spec": {"overhead": {"cpu": format!("{sign}{quantity}")}}}),
                None,
            );
        }
    }
}
