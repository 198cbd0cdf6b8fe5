//! Types of expressions, and declarations: types with the sizes that cost estimates need.
//!
//! Upstream: `common/types` of cel-go, `k8s.io/apiserver/pkg/cel/types.go`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression or value.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Any type; the check happens during evaluation.
    Dyn,
    /// The type of an expression with an error, which prevents further errors.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Optional(Arc<Type>),
    /// The type of a type. Its parameter has no effect on checks.
    Meta,
    Object(Arc<Object>),
    /// A type of a library, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A type that the checker infers.
    Var(usize),
    /// A parameter of a signature.
    Param(char),
}

/// A type with named fields.
#[derive(Debug, PartialEq, Default)]
pub struct Object {
    pub name: String,
    pub fields: BTreeMap<String, Field>,
    /// Whether every other name is a field too, of any type.
    pub open: bool,
}

impl Object {
    /// The type of a field; `None` without such a field. Reserved words need no escape.
    pub(super) fn field(&self, name: &str) -> Option<Type> {
        let reserved = || self.fields.get(&reserved(name)?);
        let declared = self.fields.get(name).or_else(reserved);
        let declared = declared.map(|field| field.decl.ty.clone());
        declared.or_else(|| self.open.then_some(Type::Dyn))
    }
}

#[derive(Debug, PartialEq)]
pub struct Field {
    /// The name in JSON, which expressions may have to escape.
    pub json: String,
    pub decl: Arc<Decl>,
}

/// `x-kubernetes-list-type`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    Atomic,
    Set,
    /// With the keys of an element.
    Map(Arc<[String]>),
}

/// A type with the sizes of its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Decl {
    pub ty: Type,
    /// The most elements or bytes of a value.
    pub max_elements: u64,
    /// The least bytes of a value in JSON.
    pub min_size: u64,
    /// Elements of a list, values of a map.
    pub element: Option<Arc<Decl>>,
    pub list_kind: ListKind,
}

impl Decl {
    /// A type without elements, whose values have at least `min_size` bytes.
    pub fn simple(ty: Type, max_elements: u64, min_size: u64) -> Self {
        Self {
            ty,
            max_elements,
            min_size,
            element: None,
            list_kind: ListKind::Atomic,
        }
    }

    pub fn list(element: Decl, max_elements: u64, list_kind: ListKind) -> Self {
        Self {
            ty: Type::List(Arc::new(element.ty.clone())),
            max_elements,
            min_size: 2,
            element: Some(Arc::new(element)),
            list_kind,
        }
    }

    pub fn map(value: Decl, max_elements: u64) -> Self {
        Self {
            ty: Type::Map(Arc::new(Type::Text), Arc::new(value.ty.clone())),
            max_elements,
            min_size: 2,
            element: Some(Arc::new(value)),
            list_kind: ListKind::Atomic,
        }
    }

    /// An object whose fields have the escaped names of JSON.
    pub fn object<'a>(name: &str, fields: impl IntoIterator<Item = (&'a str, Decl)>) -> Self {
        let escaped = |(json, decl)| escape(json).map(|escaped| (escaped, json, decl));
        Self::of_fields(name, fields.into_iter().filter_map(escaped))
    }

    /// An object whose fields have the names of JSON, even reserved ones such as `namespace`.
    pub fn unescaped<'a>(name: &str, fields: impl IntoIterator<Item = (&'a str, Decl)>) -> Self {
        let fields = fields.into_iter();
        Self::of_fields(
            name,
            fields.map(|(json, decl)| (json.to_owned(), json, decl)),
        )
    }

    fn of_fields<'a>(name: &str, fields: impl Iterator<Item = (String, &'a str, Decl)>) -> Self {
        let field = |(shown, json, decl): (String, &str, Decl)| {
            let field = Field {
                json: json.to_owned(),
                decl: Arc::new(decl),
            };
            (shown, field)
        };
        let object = Object {
            name: name.to_owned(),
            fields: fields.map(field).collect(),
            open: false,
        };
        Self::simple(Type::Object(Arc::new(object)), 0, 2)
    }

    /// The declaration of a field of an object, by its name in expressions.
    pub fn field(&self, name: &str) -> Option<&Arc<Decl>> {
        match &self.ty {
            Type::Object(object) => object.fields.get(name).map(|field| &field.decl),
            _ => None,
        }
    }
}

impl Type {
    pub fn list(element: Type) -> Self {
        Type::List(Arc::new(element))
    }

    pub fn map(key: Type, value: Type) -> Self {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    pub fn optional(value: Type) -> Self {
        Type::Optional(Arc::new(value))
    }

    /// The name of the type of a value, without the types of its elements. Upstream: `TypeName` of `cel-go`.
    pub fn name(&self) -> String {
        match self {
            Type::Null => "null_type".to_owned(),
            Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Type::Duration => "google.protobuf.Duration".to_owned(),
            Type::List(_) => "list".to_owned(),
            Type::Map(..) => "map".to_owned(),
            Type::Optional(_) => "optional_type".to_owned(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn | Type::Var(_) => f.write_str("dyn"),
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::Text => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Duration => f.write_str("duration"),
            Type::List(element) => write!(f, "list({element})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Optional(value) => write!(f, "optional_type({value})"),
            Type::Meta => f.write_str("type"),
            Type::Object(object) => f.write_str(&object.name),
            Type::Opaque(name) => f.write_str(name),
            Type::Param(name) => write!(f, "{name}"),
        }
    }
}

/// Words of the grammar, besides the reserved ones.
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Words that are no names, for later versions of the language.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The escaped form of a reserved word that the grammar allows as the name of a field.
///
/// Upstream: `SetRecognizeKeywordAsFieldName`.
pub(super) fn reserved(name: &str) -> Option<String> {
    RESERVED.contains(&name).then(|| format!("__{name}__"))
}

/// The name of a JSON field in expressions. `None` for a name that no expression can mention.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    if WORDS.contains(&name) || RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.-/".contains(letter);
    if !name.chars().all(allowed) {
        return None;
    }
    let escaped = name
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::escape;

    /// Upstream: `k8s.io/apiserver/pkg/cel/escaping_test.go`.
    #[test]
    fn names_of_fields_are_escaped_as_upstream() {
        let cases = [
            ("/slash", Some("__slash__slash")),
            (".dot", Some("__dot__dot")),
            ("-dash", Some("__dash__dash")),
            ("", None),
            ("1abc", None),
            ("a@b", None),
            ("namespace", Some("__namespace__")),
            ("__", Some("__underscores__")),
            ("foo__bar", Some("foo__underscores__bar")),
            ("a_b", Some("a_b")),
            ("true", Some("__true__")),
            ("trueish", Some("trueish")),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
