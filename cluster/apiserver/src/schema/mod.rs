//! Schemas of the built-in kinds: the fields of each type, zero values, protobuf numbers, patch
//! strategies and list types.
//!
//! The schemas are a table (`types.txt`), which follows upstream's Go types and their tags.
//! [`typed_form`], [`decode`], [`protobuf`], patches and server-side apply walk objects along it, so
//! that one table serves all of them.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::{Value, json};
use steersman_releases::Release;

pub mod decode;
pub(crate) mod descriptions;
pub(crate) mod empties;
pub(crate) mod internal;
pub mod protobuf;
mod prune;
pub mod typed_form;
mod unions;

pub use steersman_values::quantity;

/// The table of types.
pub(crate) const TABLE: &str = include_str!("types.txt");

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(TABLE));

struct Schema {
    kinds: HashMap<&'static str, usize>,
    /// Kinds with more than one type, such as `Event`.
    shared: HashSet<&'static str>,
    types: Vec<Struct>,
}

/// The type of a field's JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Text,
    Int32,
    Int64,
    Float,
    Bool,
    Bytes,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// Any JSON, stored unchanged.
    Any,
    /// Index into the table. [`Type::as_struct`] resolves it.
    Struct(usize),
    List(Box<Type>),
    Map(Box<Type>),
}

/// A type with known fields.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Name with its group, such as `apps.DeploymentSpec`.
    name: &'static str,
    /// Position in the table.
    row: usize,
    fields: Vec<Field>,
    /// [`digest`] of each field's name. A scan of them is much faster than one of the names.
    digests: Vec<u64>,
    /// For each position, and for the end: the position of the first field from there on that the
    /// encoder always writes.
    next_always: Vec<usize>,
    /// Names of the fields of Go's type `ResourceList`.
    resource_lists: Vec<&'static str>,
    /// Whether server-side apply treats the type as one value.
    pub(crate) atomic: bool,
}

/// A field of a type.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) ty: Type,
    /// A pointer in Go: an explicit zero differs from an absent field.
    pub(crate) nullable: bool,
    /// The encoder writes the field even if it is zero (no `omitempty`).
    pub(crate) always: bool,
    pub(crate) number: FieldNumber,
    pub(crate) patch: PatchMeta,
    pub(crate) topology: Topology,
    /// The type in Go, such as `[]v1.OperationType`, if `ty` does not tell it.
    pub(crate) go_type: Option<&'static str>,
    /// Names of the embedded Go structs that contain the field, such as `RuleWithOperations.Rule`.
    pub(crate) embedded: Option<&'static str>,
    /// The first release that has the field.
    pub(crate) since: Release,
}

/// Position of a field in a protobuf message: its number, and the embedded message that contains
/// it. Zero means that the table has no number.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct FieldNumber {
    /// Field numbers on the path to the embedded message, as digits of base [`FieldNumber::BASE`],
    /// the outermost first.
    pub(crate) embedded_in: u32,
    pub(crate) own: u32,
}

/// The parts of a field that can have different managers in server-side apply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Topology {
    /// The field as a whole.
    Atomic,
    /// Each field of the struct or key of the map.
    Granular,
    /// Each element of the list, which is a set of scalars.
    Set,
    /// Each element of the list, identified by these fields.
    Keyed(Vec<&'static str>),
}

/// Strategic merge patch strategy of a field. By default maps merge and lists are replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PatchMeta {
    pub(crate) merge: bool,
    pub(crate) replace: bool,
    /// Patches of the field may contain `$retainKeys`.
    pub(crate) retain_keys: bool,
    /// The merge key; `None` for lists of scalars.
    pub(crate) merge_key: Option<&'static str>,
}

impl PatchMeta {
    /// Names of the strategies that are set.
    pub(crate) fn strategies(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.merge, "merge"),
            (self.replace, "replace"),
            (self.retain_keys, "retainKeys"),
        ];
        all.into_iter()
            .filter(|(set, _)| *set)
            .map(|(_, name)| name)
    }
}

/// The type of a built-in kind.
pub(crate) fn of(kind: &str) -> Option<&'static Struct> {
    SCHEMA.kinds.get(kind).map(|index| &SCHEMA.types[*index])
}

/// Whether a built-in kind with types for several versions has this version.
pub(crate) fn has_version(kind: &str, api_version: &str) -> bool {
    SCHEMA.kinds.contains_key(&*format!("{api_version}/{kind}"))
        || SERVED_ALSO.contains(&(api_version, kind))
}

/// Versions of kinds with several types whose type has no version in its name.
const SERVED_ALSO: [(&str, &str); 1] = [("autoscaling/v2", "HorizontalPodAutoscaler")];

/// The type of `metadata`, which all kinds share.
pub(crate) fn metadata() -> &'static Struct {
    static METADATA: LazyLock<Option<&'static Struct>> =
        LazyLock::new(|| of("ConfigMap")?.field("metadata")?.ty.as_struct());
    METADATA.expect("the table has the metadata of a ConfigMap")
}

/// The type of `object`. Its `apiVersion` selects the type for kinds that several groups or
/// versions have, such as `Event` and `HorizontalPodAutoscaler`.
pub(crate) fn of_object(kind: &str, object: &Value) -> Option<&'static Struct> {
    if !SCHEMA.shared.contains(kind) {
        return of(kind);
    }
    let version = object
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let own = || of(&format!("{version}/{kind}"));
    version
        .split_once('/')
        .and_then(|(group, _)| of(&format!("{group}/{kind}")).or_else(own))
        .or_else(|| of(kind))
}

/// The type of this name, such as `meta.ListMeta`.
pub(crate) fn by_name(name: &str) -> Option<&'static Struct> {
    SCHEMA.types.iter().find(|shape| shape.name == name)
}

/// All types.
pub(crate) fn all() -> impl Iterator<Item = &'static Struct> {
    SCHEMA.types.iter()
}

impl Struct {
    fn new(name: &'static str, row: usize, atomic: bool) -> Self {
        Self {
            name,
            row,
            fields: Vec::new(),
            digests: Vec::new(),
            next_always: Vec::new(),
            resource_lists: Vec::new(),
            atomic,
        }
    }

    /// Name with its group, such as `apps.DeploymentSpec`.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Position in [`all`].
    pub(crate) fn row(&self) -> usize {
        self.row
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.position(name, 0).map(|at| &self.fields[at])
    }

    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Position of a field. Stored objects have their fields in order, so `next`, the position after
    /// the previous field, is usually right.
    pub(crate) fn position(&self, name: &str, next: usize) -> Option<usize> {
        let is_at = |at: usize| self.fields.get(at).is_some_and(|field| field.name == name);
        if is_at(next) {
            return Some(next);
        }
        let wanted = digest(name);
        let digests = self.digests.iter().enumerate();
        digests
            .filter(|(_, digest)| **digest == wanted)
            .map(|(at, _)| at)
            .find(|at| is_at(*at))
    }

    /// Names of the fields with amounts by name of a resource.
    pub(crate) fn resource_lists(&self) -> &[&'static str] {
        &self.resource_lists
    }

    /// Whether the encoder always writes one of the fields from `start` to `end`.
    pub(crate) fn any_always(&self, start: usize, end: usize) -> bool {
        self.next_always[start] < end
    }

    /// Fills the look-up tables from the fields.
    fn index(&mut self) {
        self.digests = self.fields.iter().map(|field| digest(field.name)).collect();
        let mut next = usize::MAX;
        let mut next_always = vec![next; self.fields.len() + 1];
        for (at, field) in self.fields.iter().enumerate().rev() {
            next = if field.always { at } else { next };
            next_always[at] = next;
        }
        self.next_always = next_always;
        let amounts = |field: &&Field| field.go_type == Some("v1.ResourceList");
        let amounts = self.fields.iter().filter(amounts);
        self.resource_lists = amounts.map(|field| field.name).collect();
    }

    /// An object of the type without any values.
    pub(crate) fn zero(&self) -> Value {
        let always = self.fields.iter().filter(|field| field.always);
        Value::Object(
            always
                .map(|field| (field.name.to_owned(), field.zero()))
                .collect(),
        )
    }

    /// Name without the group, as in Go's error messages.
    pub(crate) fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

/// The length, the first and the last four bytes of a name, or all bytes of a shorter one. The caller
/// compares names, so equal digests only cost time.
fn digest(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let ends = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        _ => bytes
            .iter()
            .fold(0, |digest, byte| digest << 8 | u64::from(*byte)),
    };
    ends ^ (bytes.len() as u64) << 56
}

impl Type {
    /// The type with fields, for `Struct`.
    pub(crate) fn as_struct(&self) -> Option<&'static Struct> {
        match self {
            Type::Struct(index) => Some(&SCHEMA.types[*index]),
            _ => None,
        }
    }

    /// Whether the type contains a struct at any depth.
    pub(crate) fn holds_structs(&self) -> bool {
        self.innermost_struct().is_some()
    }

    /// The type with fields, of a `Struct` or of the elements of lists and maps.
    pub(crate) fn innermost_struct(&self) -> Option<&'static Struct> {
        match self {
            Type::List(item) | Type::Map(item) => item.innermost_struct(),
            _ => self.as_struct(),
        }
    }

    /// The value of an absent field that the encoder always writes.
    pub(crate) fn zero(&self) -> Value {
        match self {
            Type::Text | Type::Bytes => json!(""),
            Type::Int32 | Type::Int64 | Type::Float | Type::IntOrString => json!(0),
            Type::Bool => json!(false),
            Type::Quantity => json!("0"),
            Type::Duration => json!("0s"),
            Type::Time | Type::MicroTime | Type::Any | Type::List(_) | Type::Map(_) => Value::Null,
            Type::Struct(index) => SCHEMA.types[*index].zero(),
        }
    }
}

impl Field {
    /// Whether the field is a list that has one manager as a whole.
    fn is_atomic_list(&self) -> bool {
        matches!(self.ty, Type::List(_))
            && matches!(self.topology, Topology::Atomic | Topology::Granular)
    }

    pub(crate) fn zero(&self) -> Value {
        if self.nullable {
            Value::Null
        } else {
            self.ty.zero()
        }
    }
}

impl Schema {
    fn add(&mut self, name: &'static str, atomic: bool) {
        let row = self.types.len();
        self.types.push(Struct::new(name, row, atomic));
    }

    /// Parses the table. It panics on a wrong line, because the table is a part of this crate.
    fn parse(text: &'static str) -> Schema {
        let lines = || {
            text.lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty())
        };
        let is_type = |line: &&str| !line.starts_with(' ') && !line.starts_with("kind ");
        let name_of = |line: &'static str| line.split(' ').next().unwrap_or(line);
        let index: HashMap<&'static str, usize> = lines()
            .filter(is_type)
            .enumerate()
            .map(|(i, line)| (name_of(line), i))
            .collect();

        let mut schema = Schema {
            kinds: HashMap::new(),
            shared: HashSet::new(),
            types: Vec::new(),
        };
        for line in lines() {
            let words: Vec<&'static str> = line.split_whitespace().collect();
            match words[..] {
                ["kind", kind, name] if !line.starts_with(' ') => {
                    schema.kinds.insert(kind, index[name]);
                    schema
                        .shared
                        .extend(kind.rsplit_once('/').map(|(_, shared)| shared));
                }
                [name] => schema.add(name, false),
                [name, "@atomic"] => schema.add(name, true),
                [name, ty, ref more @ ..] => {
                    let holder = schema.types.last_mut().expect("a field follows its type");
                    holder.fields.push(Field::parse(name, ty, more, &index));
                }
                [] => {}
            }
        }
        schema.types.iter_mut().for_each(Struct::index);
        schema
    }
}

impl Field {
    fn parse(
        name: &'static str,
        ty: &'static str,
        more: &[&'static str],
        index: &HashMap<&'static str, usize>,
    ) -> Field {
        let after = |mark| more.iter().find_map(|word| word.strip_prefix(mark));
        let patch = more
            .iter()
            .find(|word| !word.starts_with(['=', '@', '%', '^', '+']))
            .copied();
        let (strategies, merge_key) = match patch.map(|p| p.split_once(':').ok_or(p)) {
            None => ("", None),
            Some(Ok((strategies, key))) => (strategies, Some(key)),
            Some(Err(strategies)) => (strategies, None),
        };
        let has = |wanted| strategies.split(',').any(|s| s == wanted);
        let ty_text = ty.trim_start_matches('*');
        let topology = match after('@') {
            Some("atomic") => Topology::Atomic,
            Some("set") => Topology::Set,
            Some(keys) => Topology::Keyed(keys.split(',').collect()),
            None if ty_text.starts_with("[]") => Topology::Atomic,
            None => Topology::Granular,
        };
        Field {
            name: name.trim_end_matches('!'),
            always: name.ends_with('!'),
            nullable: ty.starts_with('*'),
            number: after('=').map_or_else(FieldNumber::default, FieldNumber::parse),
            ty: Type::parse(ty_text, index),
            patch: PatchMeta {
                merge: has("merge"),
                replace: has("replace"),
                retain_keys: has("retainKeys"),
                merge_key,
            },
            topology,
            go_type: after('%'),
            embedded: after('^'),
            since: after('+').map_or(Release::OLDEST, |minor| {
                Release::of_minor(minor.parse().expect("minor versions are numbers"))
            }),
        }
    }
}

impl FieldNumber {
    /// Greater than any field number of the table.
    pub(crate) const BASE: u32 = 1000;

    /// Whether the message at the end of `way` contains the field, directly or in an embedded
    /// message.
    pub(crate) fn is_within(self, way: u32) -> bool {
        std::iter::successors(Some(self.embedded_in), |way| Some(way / Self::BASE))
            .take_while(|way| *way > 0)
            .any(|at| at == way)
    }

    /// Parses `7`, or `3.7` for field 7 of the message embedded in field 3.
    fn parse(text: &str) -> FieldNumber {
        let parse = |digits: &str| digits.parse().expect("field numbers are numbers");
        match text.rsplit_once('.') {
            Some((way, own)) => FieldNumber {
                embedded_in: way
                    .split('.')
                    .fold(0, |way, number| way * Self::BASE + parse(number)),
                own: parse(own),
            },
            None => FieldNumber {
                embedded_in: 0,
                own: parse(text),
            },
        }
    }
}

impl Type {
    fn parse(text: &'static str, index: &HashMap<&'static str, usize>) -> Type {
        if let Some(item) = text.strip_prefix("[]") {
            return Type::List(Box::new(Type::parse(item, index)));
        }
        if let Some(item) = text.strip_prefix("{}") {
            return Type::Map(Box::new(Type::parse(item, index)));
        }
        match text {
            "string" => Type::Text,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "float64" => Type::Float,
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "time" => Type::Time,
            "microtime" => Type::MicroTime,
            "duration" => Type::Duration,
            "quantity" => Type::Quantity,
            "intorstring" => Type::IntOrString,
            "any" => Type::Any,
            name => Type::Struct(index[name]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_the_table_name_their_own_types() {
        for (kind, index) in &SCHEMA.kinds {
            let kind = kind.rsplit('/').next().unwrap();
            assert!(
                SCHEMA.types[*index].name.ends_with(kind),
                "{kind} is {}",
                SCHEMA.types[*index].name
            );
        }
    }

    #[test]
    fn merge_keys_follow_from_the_type_graph() {
        let path = |kind: &str, path: &[&str]| {
            let mut at = of(kind).unwrap();
            let (last, way) = path.split_last().unwrap();
            for step in way {
                at = match &at.field(step).unwrap().ty {
                    Type::List(item) => item.as_struct().unwrap(),
                    other => other.as_struct().unwrap(),
                };
            }
            at.field(last).unwrap().patch
        };
        let merge = |key| PatchMeta {
            merge: true,
            merge_key: key,
            ..PatchMeta::default()
        };
        assert_eq!(
            path(
                "Deployment",
                &["spec", "template", "spec", "containers", "env"]
            ),
            merge(Some("name"))
        );
        assert_eq!(
            path(
                "CronJob",
                &["spec", "jobTemplate", "spec", "template", "spec", "volumes"]
            ),
            PatchMeta {
                retain_keys: true,
                ..merge(Some("name"))
            }
        );
        assert_eq!(path("Pod", &["metadata", "finalizers"]), merge(None));
        assert_eq!(path("Pod", &["spec", "tolerations"]), PatchMeta::default());
        assert!(path("PodDisruptionBudget", &["spec", "selector"]).replace);
    }
}
