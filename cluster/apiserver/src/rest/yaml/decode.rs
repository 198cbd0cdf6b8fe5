//! JSON from the nodes of a YAML document, as `sigs.k8s.io/yaml` makes it.
//!
//! The last of several equal keys counts, and a merge (`<<`) replaces keys before it.
//! Upstream: `decode.go` of `go.yaml.in/yaml/v2`, and `yaml.go` of `sigs.k8s.io/yaml`.

use std::collections::HashSet;

use serde_json::{Map, Number, Value};

use super::nodes::{Content, Node, Pair};
use super::resolve::{self, Scalar};

/// The key that merges other mappings into its own.
const MERGE: &str = "<<";
/// The full form of the tag of such a key.
const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// Upstream: `alias_ratio_range_low` and `alias_ratio_range_high`.
const FEW_NODES: f64 = 400_000.0;
const MANY_NODES: f64 = 4_000_000.0;

/// Decodes one document.
#[derive(Default)]
pub(super) struct Decoder {
    /// The errors of Go's strict parser about equal keys.
    pub(super) repeated: Vec<String>,
    nodes: usize,
    nodes_by_alias: usize,
    alias_depth: usize,
}

/// A mapping while it grows.
#[derive(Default)]
struct Mapping {
    values: Map<String, Value>,
    /// The keys in Go's syntax, which tells `1` from `"1"`.
    keys: HashSet<String>,
}

impl Decoder {
    pub(super) fn value(&mut self, node: &Node) -> Result<Value, String> {
        self.count()?;
        match &node.content {
            Content::Scalar { .. } => json(scalar(node)?),
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

    /// Refuses documents that are mostly repetitions. Upstream: `unmarshal` and `allowedAliasRatio`.
    fn count(&mut self) -> Result<(), String> {
        self.nodes += 1;
        self.nodes_by_alias += usize::from(self.alias_depth > 0);
        let nodes = self.nodes as f64;
        let range = (nodes.clamp(FEW_NODES, MANY_NODES) - FEW_NODES) / (MANY_NODES - FEW_NODES);
        let allowed = nodes * (0.99 - 0.89 * range);
        if self.nodes_by_alias > 100 && self.nodes > 1000 && self.nodes_by_alias as f64 > allowed {
            return Err("yaml: document contains excessive aliasing".to_owned());
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
            let (key, shown) = self.key(key)?;
            let line = value.line;
            let value = self.value(value)?;
            if mapping.keys.contains(&shown) {
                self.repeated
                    .push(format!("line {line}: key {shown} already set in map"));
            }
            mapping.keys.insert(shown);
            mapping.values.insert(key, value);
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

    /// The key as JSON has it, and in Go's syntax.
    fn key(&mut self, node: &Node) -> Result<(String, String), String> {
        let key = match &node.content {
            Content::Alias(node) => return self.key(node),
            Content::Scalar { .. } => scalar(node)?,
            Content::List(_) | Content::Mapping(_) => {
                let value = self.value(node)?;
                return Err(format!("yaml: invalid map key: {value}"));
            }
        };
        match key {
            Scalar::Text(text) => {
                let shown = format!("{text:?}");
                Ok((text, shown))
            }
            Scalar::Bool(value) => Ok((value.to_string(), value.to_string())),
            Scalar::Int(value) => Ok((value.to_string(), value.to_string())),
            // Upstream shortens to 32 bits here.
            Scalar::Float(value) if value.is_finite() => {
                Ok(((value as f32).to_string(), value.to_string()))
            }
            Scalar::Float(value) if value.is_nan() => Ok((".nan".to_owned(), "NaN".to_owned())),
            Scalar::Float(value) if value < 0.0 => Ok(("-.inf".to_owned(), "-Inf".to_owned())),
            Scalar::Float(_) => Ok((".inf".to_owned(), "+Inf".to_owned())),
            Scalar::Null => Err("unsupported map key of type: %!s(<nil>)".to_owned()),
            Scalar::Unsigned(_) => Err("unsupported map key of type: uint64".to_owned()),
        }
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
        Scalar::Float(value) => {
            if let Ok(whole) = value.to_string().parse::<i64>() {
                return Ok(Value::from(whole));
            }
            let number = Number::from_f64(value).map(Value::Number);
            number.ok_or_else(|| format!("json: unsupported value: {}", infinite(value)))
        }
    }
}

fn infinite(value: f64) -> &'static str {
    match value {
        value if value.is_nan() => "NaN",
        value if value < 0.0 => "-Inf",
        _ => "+Inf",
    }
}
