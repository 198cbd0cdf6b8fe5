//! Enumerations: fields whose texts are one of a few.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Types, fields and values.
const TABLE: &str = include_str!("enums.txt");

/// The prefix that names of types have beyond the table.
const PREFIX: &str = "io.k8s.";

/// Values by type and field.
type Enums = HashMap<&'static str, HashMap<&'static str, Vec<&'static str>>>;

static ENUMS: LazyLock<Enums> = LazyLock::new(|| {
    let mut enums = Enums::new();
    for row in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = row.split('\t');
        if let Some(definition) = columns.next()
            && let Some(field) = columns.next()
        {
            let values = columns.map(|value| if value == "\"\"" { "" } else { value });
            let fields = enums.entry(definition).or_default();
            fields.insert(field, values.collect());
        }
    }
    enums
});

/// The values of a field of a type, if they are an enumeration.
pub(super) fn of(definition: &str, field: &str) -> Option<&'static [&'static str]> {
    let fields = ENUMS.get(definition.strip_prefix(PREFIX)?)?;
    fields.get(field).map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{self, descriptions};

    #[test]
    fn enumerations_are_fields_of_known_types() {
        let known = |definition: &str, field: &str| {
            schema::all().any(|shape| {
                let described = descriptions::of(shape.name());
                described.is_some_and(|described| {
                    described.definition.strip_prefix(PREFIX) == Some(definition)
                }) && shape.field(field).is_some()
            })
        };
        let all: Vec<(&str, &str, usize)> = ENUMS
            .iter()
            .flat_map(|(definition, fields)| {
                let fields = fields.iter();
                fields.map(|(field, values)| (*definition, *field, values.len()))
            })
            .collect();
        assert!(all.len() > 90, "{} enumerations", all.len());
        for (definition, field, values) in all {
            assert!(known(definition, field), "{definition} {field}");
            assert!(values > 1, "{definition} {field}");
        }
    }
}
