//! Descriptions of the published types and of their fields.
//!
//! `build.rs` extracts them from the documentation of k8s-openapi, so that they stay in step with
//! the types of that crate.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The descriptions, one type after the other. `build.rs` explains the format.
pub(crate) const TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/descriptions.txt"));

static TYPES: LazyLock<HashMap<&'static str, Described>> = LazyLock::new(|| parse(TEXT));

/// A described type.
#[derive(Debug)]
pub(crate) struct Described {
    /// Its name in OpenAPI, such as `io.k8s.api.apps.v1.DeploymentSpec`.
    pub(crate) definition: &'static str,
    text: &'static str,
    fields: HashMap<&'static str, (bool, &'static str)>,
}

/// The type of that name in the table of types, such as `apps.DeploymentSpec`.
pub(crate) fn of(name: &str) -> Option<&'static Described> {
    TYPES.get(name)
}

/// The description of a field of a type of the table, such as `replicas` of `apps.DeploymentSpec`.
pub(crate) fn of_field(shape: &str, field: &str) -> Option<String> {
    of(shape)?.field(field)
}

impl Described {
    /// The description of the type.
    pub(crate) fn text(&self) -> String {
        unescaped(self.text)
    }

    /// The description of a field.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        self.fields
            .get(name)
            .map(|(_, text)| unescaped(text))
            .filter(|text| !text.is_empty())
    }

    /// Whether the field is required.
    pub(crate) fn requires(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(|(required, _)| *required)
    }
}

/// Parses the lines of [`TEXT`]. `=TYPE NAME TEXT` starts a type, and `FIELD ! TEXT` is one of its
/// required fields; `?` marks optional ones.
fn parse(text: &'static str) -> HashMap<&'static str, Described> {
    let mut types = HashMap::new();
    let mut current = "";
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let Some(name) = words.next() else {
            continue;
        };
        let Some(second) = words.next() else {
            continue;
        };
        let text = words.next().unwrap_or_default();
        if let Some(name) = name.strip_prefix('=') {
            current = name;
            types.insert(
                name,
                Described {
                    definition: second,
                    text,
                    fields: HashMap::new(),
                },
            );
        } else if let Some(holder) = types.get_mut(current) {
            holder.fields.insert(name, (second == "!", text));
        }
    }
    types
}

/// Replaces the escapes `\n` and `\\`, with which each description fits on one line.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => plain.push(if letters.next() == Some('n') {
                '\n'
            } else {
                '\\'
            }),
            letter => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_fields_have_their_descriptions() {
        let deployment = of("apps.DeploymentSpec").expect("k8s-openapi has it");
        assert_eq!(deployment.definition, "io.k8s.api.apps.v1.DeploymentSpec");
        assert!(
            deployment
                .field("minReadySeconds")
                .unwrap()
                .starts_with("Minimum number of seconds")
        );
        assert!(deployment.requires("selector") && !deployment.requires("replicas"));
        assert!(
            of("core.ContainerPort")
                .unwrap()
                .field("hostPort")
                .unwrap()
                .contains("0 < x < 65536")
        );
        assert!(of("resource.Quantity").unwrap().text().contains("\n"));
    }

    #[test]
    fn every_type_of_the_table_is_described() {
        let missing: Vec<&str> = crate::schema::all()
            .map(crate::schema::Struct::name)
            .filter(|name| of(name).is_none())
            .collect();
        assert_eq!(missing, [""; 0]);
    }
}
