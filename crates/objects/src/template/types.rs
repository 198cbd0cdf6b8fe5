//! The table of Go types of a pod template in Kubernetes 1.36.
//!
//! The dump for the template hash needs the type names and the order of fields. The canonical text
//! needs the kinds, which decide whether Go can distinguish an empty value from an unset one.
//!
//! The table stays at 1.36 for this reason: each added field would change every template hash.
//! Upstream: `types.go` of `k8s.io/api/core/v1` and of `k8s.io/apimachinery/pkg/apis/meta/v1`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The table, parsed at its first use. The binary contains it as 23 kB of text.
pub(super) static TYPES: LazyLock<Types> =
    LazyLock::new(|| Types::parse(include_str!("types.txt")));

/// Index of a type in the table.
pub(super) type TypeId = u16;

/// All types that [`Types::ROOT`] uses, directly or indirectly.
pub(super) struct Types(Vec<Type>);

/// One type: a declared type, or a type expression such as `[]string`.
pub(super) struct Type {
    /// Name as Go prints it.
    pub(super) name: &'static str,
    /// Kind of its values.
    pub(super) kind: Kind,
}

/// The kind of a type: the form of its values in JSON and in the dump.
pub(super) enum Kind {
    /// A string, or a type with a string as its underlying type.
    Text,
    /// An integer of any size.
    Int,
    /// A boolean.
    Bool,
    /// `resource.Quantity`.
    Quantity,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `v1.Time`.
    Time,
    /// Raw JSON (`v1.FieldsV1`).
    Raw,
    /// A pointer: unset, or a value of this type.
    Pointer(TypeId),
    /// A list with elements of this type.
    List(TypeId),
    /// A map from strings to values of this type.
    Map(TypeId),
    /// A struct with its fields in declaration order.
    Struct(Vec<Field>),
}

/// A field of a struct.
pub(super) struct Field {
    /// Name in Go.
    pub(super) name: &'static str,
    /// Key in JSON. `None` for an embedded struct: its members are members of the parent's object.
    pub(super) key: Option<&'static str>,
    /// Type.
    pub(super) kind: TypeId,
}

impl Types {
    /// `v1.PodTemplateSpec`.
    pub(super) const ROOT: TypeId = 0;

    pub(super) fn get(&self, id: TypeId) -> &Type {
        &self.0[usize::from(id)]
    }

    /// The type of the field with the JSON key `key`. Includes the fields of embedded structs.
    pub(super) fn field(&self, fields: &[Field], key: &str) -> Option<TypeId> {
        fields
            .iter()
            .find_map(|field| match (field.key, &self.get(field.kind).kind) {
                (Some(found), _) => (found == key).then_some(field.kind),
                (None, Kind::Struct(embedded)) => self.field(embedded, key),
                (None, _) => None,
            })
    }

    fn parse(text: &'static str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let declared = lines.map(|line| {
            let end = line.find([':', ' ']).unwrap_or(line.len());
            (&line[..end], line[end..].trim_start_matches([':', ' ']))
        });
        let mut parser = Parser {
            declared: declared.collect(),
            ids: HashMap::new(),
            names: Vec::new(),
        };
        let mut types = Vec::new();
        parser.id("v1.PodTemplateSpec");
        // Parsing a type can add the types of its fields to `names`.
        while let Some(name) = parser.names.get(types.len()).copied() {
            let kind = parser.kind(name);
            types.push(Type { name, kind });
        }
        Self(types)
    }
}

struct Parser {
    declared: HashMap<&'static str, &'static str>,
    ids: HashMap<&'static str, TypeId>,
    /// Names of the types so far. The index of a name is the id of its type.
    names: Vec<&'static str>,
}

impl Parser {
    /// The id of the type `name`; a new type gets the next id.
    fn id(&mut self, name: &'static str) -> TypeId {
        *self.ids.entry(name).or_insert_with(|| {
            self.names.push(name);
            TypeId::try_from(self.names.len() - 1).expect("the table has a few hundred types")
        })
    }

    fn kind(&mut self, name: &'static str) -> Kind {
        if let Some(target) = name.strip_prefix('*') {
            return Kind::Pointer(self.id(target));
        }
        if let Some(element) = name.strip_prefix("[]") {
            return Kind::List(self.id(element));
        }
        if let Some((_, value)) = name
            .strip_prefix("map[")
            .and_then(|rest| rest.split_once(']'))
        {
            return Kind::Map(self.id(value));
        }
        match name {
            "string" => Kind::Text,
            "bool" => Kind::Bool,
            "int" | "int32" | "int64" | "uint8" => Kind::Int,
            "resource.Quantity" => Kind::Quantity,
            "intstr.IntOrString" => Kind::IntOrString,
            "v1.Time" => Kind::Time,
            "v1.FieldsV1" => Kind::Raw,
            _ => {
                let declaration = self
                    .declared
                    .get(name)
                    .copied()
                    .expect("the table declares every type it uses");
                match declaration.strip_prefix("= ") {
                    Some(underlying) => self.kind(underlying),
                    None => Kind::Struct(
                        declaration
                            .split("; ")
                            .map(|field| self.field(field))
                            .collect(),
                    ),
                }
            }
        }
    }

    fn field(&mut self, text: &'static str) -> Field {
        let mut words = text.splitn(3, ' ');
        let mut word = || words.next().expect("a field has a name, a key and a type");
        let name = word();
        let key = word();
        let kind = word();
        Field {
            name,
            key: (key != "-").then_some(key),
            kind: self.id(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_struct_is_part_of_a_pod_template() {
        let types = &*TYPES;
        assert_eq!(types.get(Types::ROOT).name, "v1.PodTemplateSpec");
        let structs = types
            .0
            .iter()
            .filter(|t| matches!(t.kind, Kind::Struct(_)))
            .count();
        let declared = include_str!("types.txt")
            .lines()
            .filter(|line| line.contains(": ") && !line.starts_with('#'))
            .count();
        assert_eq!(structs, declared, "every declared struct is reachable");
    }

    #[test]
    fn fields_of_embedded_structs_are_found_by_their_key() {
        let types = &*TYPES;
        let volume = types.0.iter().find(|t| t.name == "v1.Volume").unwrap();
        let Kind::Struct(fields) = &volume.kind else {
            panic!("a struct")
        };
        assert_eq!(
            types.get(types.field(fields, "emptyDir").unwrap()).name,
            "*v1.EmptyDirVolumeSource"
        );
        assert!(types.field(fields, "EmptyDir").is_none());
    }
}
