//! The names that expressions can use: variables, and the types that they can construct.
//!
//! Upstream: `pkg/admission/plugin/cel/compile.go` and `pkg/cel/mutation` of `k8s.io/apiserver`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::types::{Decl, Field, Object, Type};

/// The type of the operations that a JSON patch consists of.
pub(super) const JSON_PATCH: &str = "JSONPatch";
/// The type of an applied configuration. Types of its fields have names such as `Object.spec`.
pub(super) const OBJECT: &str = "Object";
/// The text fields of [`JSON_PATCH`]; the field `value` has any type.
pub(super) const PATCH_TEXTS: [&str; 3] = ["from", "op", "path"];

/// The names in expressions of one environment.
#[derive(Debug, Clone, Default)]
pub struct Declarations {
    pub variables: HashMap<String, Type>,
    /// Whether expressions can construct objects and operations of JSON patches.
    pub patches: bool,
}

impl<const COUNT: usize> From<[(String, Type); COUNT]> for Declarations {
    fn from(variables: [(String, Type); COUNT]) -> Self {
        Self {
            variables: HashMap::from(variables),
            patches: false,
        }
    }
}

impl Declarations {
    /// The type that an expression can construct under this name.
    pub(super) fn constructed(&self, name: &str) -> Option<Arc<Object>> {
        let root = name.split('.').next().unwrap_or(name);
        match root {
            _ if !self.patches => None,
            OBJECT => Some(open(name)),
            _ => (name == JSON_PATCH).then(operation),
        }
    }

    /// Whether expressions can call the function.
    pub(super) fn has_function(&self, name: &str) -> bool {
        self.patches || !name.starts_with("jsonpatch.")
    }
}

/// A type with fields of any name and type.
fn open(name: &str) -> Arc<Object> {
    Arc::new(Object {
        name: name.to_owned(),
        fields: BTreeMap::new(),
        open: true,
    })
}

fn operation() -> Arc<Object> {
    let field = |(name, ty): (&str, Type)| {
        let field = Field {
            json: name.to_owned(),
            decl: Arc::new(Decl::simple(ty, u64::MAX, 0)),
        };
        (name.to_owned(), field)
    };
    let texts = PATCH_TEXTS.map(|name| (name, Type::Text));
    let fields = texts.into_iter().chain([("value", Type::Dyn)]).map(field);
    Arc::new(Object {
        name: JSON_PATCH.to_owned(),
        fields: fields.collect(),
        open: false,
    })
}

/// The type of an applied configuration.
pub fn configuration() -> Type {
    Type::Object(open(OBJECT))
}

/// The type of a JSON patch.
pub fn json_patch() -> Type {
    Type::list(Type::Object(operation()))
}
