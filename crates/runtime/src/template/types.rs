//! The Go types of a pod template, as a table: names and field order make up the hash input, kinds
//! tell what unset means.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The table, parsed once. Kept in the binary as text of 23 kB.
pub(super) static TYPES: LazyLock<Types> =
    LazyLock::new(|| Types::parse(include_str!("types.txt")));

/// Index of a type in the table.
pub(super) type TypeId = u16;

/// All types reachable from [`Types::ROOT`].
pub(super) struct Types(Vec<Type>);

/// One type: a declared one or one written in place, such as `[]string`.
pub(super) struct Type {
    /// As Go prints it.
    pub(super) name: &'static str,
    /// What its values look like.
    pub(super) kind: Kind,
}

/// What the values of a type look like.
pub(super) enum Kind {
    /// A string of any name.
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
    /// JSON kept as it is (`v1.FieldsV1`).
    Raw,
    /// Unset, or a value of the target.
    Pointer(TypeId),
    /// A list of the element.
    List(TypeId),
    /// Text keys to values of this type.
    Map(TypeId),
    /// Fields in declaration order.
    Struct(Vec<Field>),
}

/// A field of a struct.
pub(super) struct Field {
    /// Name in Go.
    pub(super) name: &'static str,
    /// Key in JSON; `None` for an embedded struct, whose fields stand among its parent's.
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

    /// The type of the field that JSON calls `key`, looked for in embedded structs too.
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
    /// Types met so far; their place is their id.
    names: Vec<&'static str>,
}

impl Parser {
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
        let (name, key, kind) = (word(), word(), word());
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
    fn the_table_holds_the_types_of_1_36() {
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
