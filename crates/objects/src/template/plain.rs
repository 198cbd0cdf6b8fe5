//! A second, plain implementation of the template hash, for tests.
//!
//! It builds the dump of a template from strings, and then hashes it. The two implementations share
//! only the text of the table of types. This one looks up types by name, and computes quantities
//! with integers of 128 bits. An error in one implementation therefore shows as a difference.

use std::collections::HashMap;

use serde_json::Value;

/// The lines of the table of types, by name.
pub(super) struct Lines(HashMap<&'static str, &'static str>);

/// A field in a line of the table.
#[derive(Clone, Copy)]
pub(super) struct FieldLine {
    pub(super) name: &'static str,
    /// `-` for an embedded struct.
    pub(super) key: &'static str,
    pub(super) kind: &'static str,
}

impl Lines {
    pub(super) fn new() -> Self {
        let lines = include_str!("types.txt")
            .lines()
            .filter(|line| !line.starts_with('#'));
        Self(
            lines
                .map(|line| line.split_once([':', ' ']).unwrap())
                .collect(),
        )
    }

    /// The underlying type of the type `kind`.
    pub(super) fn resolve(&self, kind: &'static str) -> &'static str {
        match self.0.get(kind).and_then(|line| line.strip_prefix("= ")) {
            Some(target) => self.resolve(target),
            None => kind,
        }
    }

    /// The fields of the struct `kind`; `None` if the table lacks it.
    pub(super) fn fields(&self, kind: &str) -> Option<Vec<FieldLine>> {
        let fields = self.0.get(kind)?.trim().split("; ").map(|field| {
            let [name, key, kind] = field.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
            FieldLine { name, key, kind }
        });
        Some(fields.collect())
    }

    /// The dump of a template.
    pub(super) fn text(&self, template: &Value) -> String {
        self.typed("v1.PodTemplateSpec", template)
    }

    fn typed(&self, kind: &'static str, value: &Value) -> String {
        format!("({kind}){}", self.bare(self.resolve(kind), value))
    }

    fn bare(&self, kind: &'static str, value: &Value) -> String {
        let pointer = kind.strip_prefix('*');
        if pointer.is_some() && value.is_null() {
            return "<nil>".to_owned();
        }
        let kind = self.resolve(pointer.unwrap_or(kind));
        let joined = |texts: Vec<String>| texts.join(" ");
        if let Some(element) = kind.strip_prefix("[]") {
            return match value.as_array() {
                Some(list) if !list.is_empty() => {
                    format!(
                        "[{}]",
                        joined(
                            list.iter()
                                .map(|item| self.bare(self.resolve(element), item))
                                .collect()
                        )
                    )
                }
                _ => "<nil>".to_owned(),
            };
        }
        if let Some((_, element)) = kind
            .strip_prefix("map[")
            .and_then(|rest| rest.split_once(']'))
        {
            let Some(map) = value.as_object().filter(|map| !map.is_empty()) else {
                return "<nil>".to_owned();
            };
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let entry =
                |key: &String| format!("{key}:{}", self.bare(self.resolve(element), &map[key]));
            return format!("map[{}]", joined(keys.into_iter().map(entry).collect()));
        }
        match (kind, value) {
            ("string", value) => value.as_str().unwrap_or_default().to_owned(),
            ("bool", value) => (value == &Value::Bool(true)).to_string(),
            ("int32" | "int64", value) => value.as_i64().unwrap_or_default().to_string(),
            ("resource.Quantity", Value::String(text)) => quantity(text),
            ("resource.Quantity", _) => {
                amount("{value:(int64)0 scale:(resource.Scale)0}", "<nil>", "", "")
            }
            ("intstr.IntOrString", Value::String(text)) => {
                format!("{{Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string){text}}}")
            }
            ("intstr.IntOrString", value) => {
                format!(
                    "{{Type:(intstr.Type)0 IntVal:(int32){} StrVal:(string)}}",
                    value.as_i64().unwrap_or_default()
                )
            }
            ("v1.Time", Value::Null) => {
                "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"
                    .to_owned()
            }
            ("v1.FieldsV1", value) => {
                let bytes: Vec<String> = value
                    .to_string()
                    .bytes()
                    .map(|byte| byte.to_string())
                    .collect();
                format!("{{Raw:([]uint8)[{}]}}", bytes.join(" "))
            }
            (kind, value) => {
                let fields = self
                    .fields(kind)
                    .unwrap_or_else(|| panic!("{kind} is in the table"));
                let of = |field: &FieldLine| {
                    if field.key == "-" {
                        value
                    } else {
                        value.get(field.key).unwrap_or(&Value::Null)
                    }
                };
                let texts = fields
                    .iter()
                    .map(|field| format!("{}:{}", field.name, self.typed(field.kind, of(field))));
                format!("{{{}}}", joined(texts.collect()))
            }
        }
    }
}

/// The hash of the dump `text`, in upstream's alphabet.
pub(super) fn hash(text: &str, collision_count: Option<i32>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    if let Some(count) = collision_count {
        bytes.extend(u64::from(count as u32).to_le_bytes());
    }
    let mut state: u64 = 0x811c_9dc5;
    for byte in bytes {
        state = ((state ^ u64::from(byte)) * 0x0100_0193) % (1 << 32);
    }
    let alphabet: Vec<char> = "bcdfghjklmnpqrstvwxz2456789".chars().collect();
    state
        .to_string()
        .chars()
        .map(|digit| alphabet[digit as usize % alphabet.len()])
        .collect()
}

/// The dump of the quantity `text`.
fn quantity(text: &str) -> String {
    if text == "0" {
        return amount(
            "{value:(int64)0 scale:(resource.Scale)0}",
            "<nil>",
            "0",
            "DecimalSI",
        );
    }
    let number_end = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(number_end);
    let negative = number.starts_with('-');
    let number = number.trim_start_matches(['+', '-']);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let digits = format!("{whole}{fraction}");
    let (binary, power, format) = match suffix {
        "n" => (false, -9, "DecimalSI"),
        "u" => (false, -6, "DecimalSI"),
        "m" => (false, -3, "DecimalSI"),
        "" => (false, 0, "DecimalSI"),
        "k" => (false, 3, "DecimalSI"),
        "M" => (false, 6, "DecimalSI"),
        "G" => (false, 9, "DecimalSI"),
        "T" => (false, 12, "DecimalSI"),
        "P" => (false, 15, "DecimalSI"),
        "E" => (false, 18, "DecimalSI"),
        "Ki" => (true, 10, "BinarySI"),
        "Mi" => (true, 20, "BinarySI"),
        "Gi" => (true, 30, "BinarySI"),
        "Ti" => (true, 40, "BinarySI"),
        "Pi" => (true, 50, "BinarySI"),
        "Ei" => (true, 60, "BinarySI"),
        exponent => (false, exponent[1..].parse().unwrap(), "DecimalExponent"),
    };
    let mut unsigned: i128 = digits.parse().unwrap();
    let (budget, scale) = match binary {
        false => (18 - digits.len() as i32, power - fraction.len() as i32),
        true if fraction.is_empty() => (15 - digits.len() as i32 - power * 3 / 10 - 1, 0),
        true => (-1, 0),
    };
    if binary {
        unsigned <<= power;
    }
    if budget >= 0 && scale >= -9 && unsigned <= i128::from(i64::MAX) {
        let is_canonical = if binary {
            digits.parse::<i128>().unwrap() % 8 != 0
        } else {
            scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
        };
        let value = if negative { -unsigned } else { unsigned };
        let kept = if is_canonical { text } else { "" };
        return amount(
            &format!("{{value:(int64){value} scale:(resource.Scale){scale}}}"),
            "<nil>",
            kept,
            format,
        );
    }
    // Go's slow path: the value in billionths, rounded up.
    let mut exponent = 9 - fraction.len() as i32 + if binary { 0 } else { power };
    while exponent > 0 {
        unsigned *= 10;
        exponent -= 1;
    }
    let divisor = 10_i128.pow(exponent.unsigned_abs());
    let mut billionths = (unsigned + divisor - 1) / divisor;
    let one = 1_000_000_000;
    let mut format = format;
    if binary {
        billionths = billionths.min(i128::from(i64::MAX) * one);
        if 0 < billionths && billionths < one {
            format = "DecimalSI";
        }
    }
    let low = billionths as u64;
    let high = (billionths >> 64) as u64;
    let words = match (low, high) {
        (0, 0) => "<nil>".to_owned(),
        (low, 0) => format!("[{low}]"),
        (low, high) => format!("[{low} {high}]"),
    };
    let decimal = format!(
        "{{unscaled:(big.Int){{neg:(bool){negative} abs:(big.nat){words}}} scale:(inf.Scale)9}}"
    );
    amount(
        "{value:(int64)0 scale:(resource.Scale)0}",
        &decimal,
        "",
        format,
    )
}

/// The dump of a `resource.Quantity` with these values of its fields.
fn amount(small: &str, big: &str, text: &str, format: &str) -> String {
    format!(
        "{{i:(resource.int64Amount){small} d:(resource.infDecAmount){{Dec:(*inf.Dec){big}}} \
         s:(string){text} Format:(resource.Format){format}}}"
    )
}
