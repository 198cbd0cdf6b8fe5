//! JSON from the nodes of a YAML document, as `sigs.k8s.io/yaml` makes it.
//!
//! The last of several equal keys counts, and a merge (`<<`) replaces keys before it.
//! Upstream: `decode.go` of `go.yaml.in/yaml/v2`, and `yaml.go` of `sigs.k8s.io/yaml`.

use std::collections::HashSet;
use std::fmt::Display;

use serde_json::{Map, Value};

use super::nodes::{Content, Node, Pair};
use super::resolve::{self, Scalar};
use crate::go_format::shortest;

/// The key that merges other mappings into its own.
const MERGE: &str = "<<";
/// The full form of the tag of such a key.
const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// Upstream: `alias_ratio_range_low` and `alias_ratio_range_high`.
const FEW_NODES: f64 = 400_000.0;
const MANY_NODES: f64 = 4_000_000.0;

/// Most bytes of texts that aliases copy. Upstream has no such bound: its copies share their bytes.
const MAX_COPIED: usize = 64 << 20;

const TOO_MANY_ALIASES: &str = "yaml: document contains excessive aliasing";

/// Decodes one document.
#[derive(Default)]
pub(super) struct Decoder {
    /// The errors of Go's strict parser about equal keys.
    pub(super) repeated: Vec<String>,
    /// The error about a key that JSON cannot have. Go finds it when the whole document is read.
    pub(super) unsupported: Option<String>,
    nodes: usize,
    nodes_by_alias: usize,
    alias_depth: usize,
    bytes_by_alias: usize,
}

/// A mapping while it grows.
#[derive(Default)]
struct Mapping {
    values: Map<String, Value>,
    /// The keys in Go's syntax, which tells `1` from `"1"`, and whether they are floats.
    keys: HashSet<(String, bool)>,
}

/// A key of a mapping.
struct Key {
    /// As JSON has it.
    text: String,
    /// In Go's syntax.
    shown: String,
    is_float: bool,
}

impl Key {
    fn of(value: &impl Display) -> Self {
        Self {
            text: value.to_string(),
            shown: value.to_string(),
            is_float: false,
        }
    }
}

impl Decoder {
    pub(super) fn value(&mut self, node: &Node) -> Result<Value, String> {
        self.count()?;
        match &node.content {
            Content::Scalar { .. } => json(self.scalar(node)?),
            Content::List(items) => items.iter().map(|item| self.value(item)).collect(),
            Content::Mapping(pairs) => {
                let mut mapping = Mapping::default();
                self.fill(&mut mapping, pairs)?;
                Ok(Value::Object(mapping.values))
            }
            Content::Alias(node) => self.by_alias(|decoder| decoder.value(node)),
        }
    }

    fn by_alias<T>(&mut self, decode: impl FnOnce(&mut Self) -> T) -> T {
        self.alias_depth += 1;
        let decoded = decode(self);
        self.alias_depth -= 1;
        decoded
    }

    fn scalar(&mut self, node: &Node) -> Result<Scalar, String> {
        // Each alias reads the text again, also that of a number.
        if let Content::Scalar { text, .. } = &node.content
            && self.alias_depth > 0
        {
            self.bytes_by_alias += text.len();
        }
        if self.bytes_by_alias > MAX_COPIED {
            return Err(TOO_MANY_ALIASES.to_owned());
        }
        scalar(node)
    }

    /// Refuses documents that are mostly repetitions. Upstream: `unmarshal` and `allowedAliasRatio`.
    fn count(&mut self) -> Result<(), String> {
        self.nodes += 1;
        self.nodes_by_alias += usize::from(self.alias_depth > 0);
        let nodes = self.nodes as f64;
        let range = (nodes.clamp(FEW_NODES, MANY_NODES) - FEW_NODES) / (MANY_NODES - FEW_NODES);
        let allowed = nodes * (0.99 - 0.89 * range);
        if self.nodes_by_alias > 100 && self.nodes > 1000 && self.nodes_by_alias as f64 > allowed {
            return Err(TOO_MANY_ALIASES.to_owned());
        }
        Ok(())
    }

    fn fill(&mut self, mapping: &mut Mapping, pairs: &[Pair]) -> Result<(), String> {
        for Pair { key, value } in pairs {
            if is_merge(key) {
                self.merge(mapping, value)?;
                continue;
            }
            self.count()?;
            let key = self.key(key)?;
            let line = value.line;
            let value = self.value(value)?;
            let Key {
                text,
                shown,
                is_float,
            } = match key {
                Ok(key) => key,
                Err(unsupported) => {
                    self.unsupported.get_or_insert_with(|| {
                        let value = match value {
                            Value::Null => "<nil>".to_owned(),
                            value => go_syntax(&value),
                        };
                        format!("{unsupported}, value: {value}")
                    });
                    continue;
                }
            };
            let is_new = mapping.keys.insert((shown.clone(), is_float));
            // In Go, no two of these floats are equal.
            if !is_new && shown != NAN {
                self.repeated
                    .push(format!("line {line}: key {shown} already set in map"));
            }
            mapping.values.insert(text, value);
        }
        Ok(())
    }

    /// Of several mappings, earlier ones count more. Upstream: `merge`.
    fn merge(&mut self, mapping: &mut Mapping, node: &Node) -> Result<(), String> {
        match &node.content {
            Content::List(items) => items
                .iter()
                .rev()
                .try_for_each(|item| self.merge_one(mapping, item)),
            _ => self.merge_one(mapping, node),
        }
    }

    fn merge_one(&mut self, mapping: &mut Mapping, node: &Node) -> Result<(), String> {
        self.count()?;
        match &node.content {
            Content::Mapping(pairs) => self.fill(mapping, pairs),
            Content::Alias(node) if matches!(node.content, Content::Mapping(_)) => {
                self.by_alias(|decoder| decoder.merge_one(mapping, node))
            }
            _ => Err("yaml: map merge requires map or sequence of maps as the value".to_owned()),
        }
    }

    /// A key, or the start of the error about one that JSON cannot have.
    fn key(&mut self, node: &Node) -> Result<Result<Key, String>, String> {
        let key = match &node.content {
            Content::Alias(node) => return self.by_alias(|decoder| decoder.key(node)),
            Content::Scalar { .. } => self.scalar(node)?,
            Content::List(_) | Content::Mapping(_) => {
                let value = self.value(node)?;
                return Err(format!("yaml: invalid map key: {}", go_syntax(&value)));
            }
        };
        Ok(match key {
            Scalar::Text(text) => {
                let shown = format!("{text:?}");
                Ok(Key {
                    text,
                    shown,
                    is_float: false,
                })
            }
            Scalar::Bool(value) => Ok(Key::of(&value)),
            Scalar::Int(value) => Ok(Key::of(&value)),
            Scalar::Float(value) => Ok(float_key(value)),
            Scalar::Null => Err("%!s(<nil>), key: <nil>".to_owned()),
            Scalar::Unsigned(value) => Err(format!("uint64, key: {value:#x}")),
        }
        .map_err(|key| format!("unsupported map key of type: {key}")))
    }
}

/// A value as Go's `%#v` prints it.
fn go_syntax(value: &Value) -> String {
    let list = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", list(items))
        }
        Value::Object(fields) => {
            let mut pairs: Vec<_> = fields.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            let pairs = pairs
                .into_iter()
                .map(|(key, value)| format!("{key:?}:{}", go_syntax(value)));
            format!(
                "map[interface {{}}]interface {{}}{{{}}}",
                list(pairs.collect())
            )
        }
        other => other.to_string(),
    }
}

fn is_merge(key: &Node) -> bool {
    match &key.content {
        Content::Scalar {
            text,
            tag,
            is_plain,
        } if text == MERGE => match tag.as_deref() {
            Some(tag) => tag == MERGE_TAG,
            None => *is_plain,
        },
        _ => false,
    }
}

fn scalar(node: &Node) -> Result<Scalar, String> {
    match &node.content {
        Content::Scalar {
            text,
            tag: Some(tag),
            ..
        } if tag != "!" => resolve::tagged(tag, text),
        Content::Scalar {
            text,
            tag: None,
            is_plain: true,
        } => Ok(resolve::plain(text)),
        Content::Scalar { text, .. } => Ok(Scalar::Text(text.clone())),
        _ => Err("yaml: not a scalar".to_owned()),
    }
}

/// Go writes a whole float without a fraction, and so reads it as an integer again. A number beyond
/// `i64` becomes a float. Upstream: `ConvertMapNumbers` of `k8s.io/apimachinery/pkg/util/json`.
fn json(scalar: Scalar) -> Result<Value, String> {
    match scalar {
        Scalar::Null => Ok(Value::Null),
        Scalar::Bool(value) => Ok(Value::Bool(value)),
        Scalar::Int(value) => Ok(Value::from(value)),
        Scalar::Unsigned(value) => Ok(Value::from(value as f64)),
        Scalar::Text(text) => Ok(Value::String(text)),
        Scalar::Float(value) => match (infinite(value), value.to_string().parse::<i64>()) {
            (Some(name), _) => Err(format!("json: unsupported value: {name}")),
            (None, Ok(whole)) => Ok(Value::from(whole)),
            (None, Err(_)) => Ok(Value::from(value)),
        },
    }
}

/// Upstream shortens the text to 32 bits.
fn float_key(value: f64) -> Key {
    let short = value as f32;
    let text = match infinite(f64::from(short)) {
        None => shortest(short),
        Some(NAN) => ".nan".to_owned(),
        Some("-Inf") => "-.inf".to_owned(),
        Some(_) => ".inf".to_owned(),
    };
    Key {
        text,
        shown: infinite(value).map_or_else(|| shortest(value), str::to_owned),
        is_float: true,
    }
}

const NAN: &str = "NaN";

/// Go's name of a number that is none or has no end.
fn infinite(value: f64) -> Option<&'static str> {
    match value {
        value if value.is_finite() => None,
        value if value.is_nan() => Some(NAN),
        value if value < 0.0 => Some("-Inf"),
        _ => Some("+Inf"),
    }
}
