//! Values in the form of upstream's internal types, which some errors show.
//!
//! Those types have no JSON names, so Go shows the names of their fields, in their order, and the
//! zero values of unset fields. The types are a table (`internal.txt`) that a script writes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::empties;

static TYPES: LazyLock<HashMap<&'static str, Vec<Field>>> =
    LazyLock::new(|| parse(include_str!("internal.txt")));

/// The type of selectors. Internal types have it from the API, so that Go shows its JSON.
const SELECTOR: &str = "meta.LabelSelector";
const METADATA: &str = "meta.ObjectMeta";

/// A field of an internal type.
struct Field {
    /// The name in the API. None for an embedded struct, whose fields the API has at this level.
    name: Option<&'static str>,
    /// The name in Go. None if Go shows the fields of the value at this level.
    go_name: Option<&'static str>,
    /// The type of a struct, of elements of a list, or of values of a map, if the table has it.
    ty: Option<&'static str>,
    /// The shown value of an unset field. None for a struct, which Go shows with its fields.
    unset: Option<Value>,
    is_map: bool,
}

/// The internal form of a value, or of each element of a list. `ty` is a type of the table, such
/// as `core.PodSpec`. Values of other types have the form of their JSON.
pub(crate) fn form(ty: &str, value: &Value) -> Value {
    let Some(fields) = TYPES.get(ty) else {
        return empties::encoded_as(ty, value);
    };
    let value = &converted(ty, value).map_or(Cow::Borrowed(value), Cow::Owned);
    match &**value {
        Value::Array(items) => items.iter().map(|item| form(ty, item)).collect(),
        Value::Object(_) => {
            let mut shown = Map::new();
            show(fields, value, &mut shown);
            Value::Object(shown)
        }
        other => other.clone(),
    }
}

/// A value whose fields are elsewhere in the internal type, with the fields moved there.
fn converted(ty: &str, value: &Value) -> Option<Value> {
    match (ty, value) {
        ("core.PodSpec", Value::Object(_)) => Some(with_host_fields(value)),
        ("apiextensions.JSONSchemaPropsOrArray", Value::Array(_)) => {
            Some(json!({ "jSONSchemas": value }))
        }
        ("apiextensions.JSONSchemaPropsOrBool", Value::Bool(_)) => Some(json!({ "allows": value })),
        ("apiextensions.JSONSchemaPropsOrBool", Value::Object(_)) => {
            Some(json!({ "allows": true, "schema": value }))
        }
        ("apiextensions.JSONSchemaPropsOrStringArray", Value::Array(_)) => {
            Some(json!({ "property": value }))
        }
        (
            "apiextensions.JSONSchemaPropsOrArray" | "apiextensions.JSONSchemaPropsOrStringArray",
            Value::Object(_),
        ) => Some(json!({ "schema": value })),
        _ => None,
    }
}

/// The names in the API and in Go of a type's fields, in their order.
pub(crate) fn names(ty: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let fields = TYPES.get(ty).into_iter().flatten();
    fields.filter_map(|field| Some((field.name?, field.go_name?)))
}

/// Moves fields of a pod's spec into its security context, which has them internally.
/// Upstream: `pkg/apis/core/v1/conversion.go`, Convert_v1_PodSpec_To_core_PodSpec.
fn with_host_fields(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for name in [
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "shareProcessNamespace",
        "hostUsers",
    ] {
        let Some(value) = spec.as_object_mut().and_then(|spec| spec.remove(name)) else {
            continue;
        };
        if let Some(context) = spec["securityContext"].as_object_mut() {
            context.insert(name.to_owned(), value);
        } else {
            spec["securityContext"] = json!({ name: value });
        }
    }
    spec
}

fn show(fields: &[Field], object: &Value, shown: &mut Map<String, Value>) {
    for field in fields {
        let value = field.name.map_or(object, |name| &object[name]);
        match (field.go_name, field.ty.and_then(|ty| TYPES.get(ty))) {
            (Some(name), _) => drop(shown.insert(name.to_owned(), field.shown(value))),
            (None, Some(embedded)) => show(embedded, value, shown),
            // Embedded metadata has its JSON.
            (None, None) => {
                let value = empties::encoded_as(METADATA, value);
                shown.extend(value.as_object().cloned().unwrap_or_default());
            }
        }
    }
}

impl Field {
    fn shown(&self, value: &Value) -> Value {
        match (self.ty, &self.unset, value) {
            (_, Some(unset), Value::Null) => unset.clone(),
            (Some(ty), None, Value::Null) => form(ty, &json!({})),
            (Some(ty), _, Value::Object(entries)) if self.is_map => {
                let shown = entries
                    .iter()
                    .map(|(key, value)| (key.clone(), form(ty, value)));
                Value::Object(shown.collect())
            }
            (Some(ty), _, _) => form(ty, value),
            (None, _, _) => match self.name {
                Some(name) if name.to_lowercase().ends_with("selector") => {
                    empties::encoded_as(SELECTOR, value)
                }
                _ => value.clone(),
            },
        }
    }

    /// Parses a line of the table, such as `schema Schema *apiextensions.JSONSchemaProps`.
    fn parse(line: &'static str) -> Field {
        let mut words = line
            .split_whitespace()
            .map(|word| Some(word).filter(|word| *word != "-"));
        let mut word = || words.next().flatten();
        let name = word();
        let go_name = word();
        let value = word().unwrap_or_default();
        let ty = value.trim_start_matches(['*', '[', ']', '{', '}']);
        let is_struct = ty.contains('.');
        let unset = match value {
            "text" => Some(json!("")),
            "number" => Some(json!(0)),
            "false" => Some(json!(false)),
            "quantity" => Some(json!("0")),
            _ if is_struct && ty == value => None,
            _ => Some(Value::Null),
        };
        Field {
            name,
            go_name,
            ty: is_struct.then_some(ty),
            unset,
            is_map: value.starts_with("{}"),
        }
    }
}

fn parse(table: &'static str) -> HashMap<&'static str, Vec<Field>> {
    let mut types = HashMap::new();
    let mut ty = "";
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with(' ') {
            let fields: &mut Vec<Field> = types.entry(ty).or_default();
            fields.push(Field::parse(line));
        } else {
            ty = line;
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_fields_have_zero_values() {
        let cases = [
            (
                "core.PodResourceClaim",
                json!({"name": "a"}),
                json!({"Name": "a", "ResourceClaimName": null, "ResourceClaimTemplateName": null}),
            ),
            (
                "core.ServicePort",
                json!([{"port": 80}]),
                json!([{"Name": "", "Protocol": "", "AppProtocol": null, "Port": 80, "TargetPort": 0, "NodePort": 0}]),
            ),
            (
                "resource.ResourceClaimSpec",
                json!({}),
                json!({"Devices": {"Requests": null, "Constraints": null, "Config": null}}),
            ),
            ("meta.LabelSelector", json!({"a": 1}), json!({"a": 1})),
        ];
        for (ty, value, expected) in cases {
            assert_eq!(form(ty, &value).to_string(), expected.to_string(), "{ty}");
        }
    }

    #[test]
    fn fields_of_embedded_structs_have_no_level_of_their_own() {
        let config = json!({"requests": ["a"], "opaque": {"driver": "d", "parameters": {"a": 1}}});
        assert_eq!(
            form("resource.DeviceClaimConfiguration", &config),
            json!({"Requests": ["a"], "Opaque": {"Driver": "d", "Parameters": {"a": 1}}})
        );
        let template = json!({"metadata": {"name": "a"}});
        assert_eq!(
            form("resource.ResourceClaimTemplateSpec", &template)["name"],
            "a"
        );
    }

    #[test]
    fn the_security_context_of_a_pod_has_the_fields_of_the_host() {
        let shown = form(
            "core.PodSpec",
            &json!({"hostNetwork": true, "hostUsers": false}),
        );
        let context = &shown["SecurityContext"];
        assert_eq!(context["HostNetwork"], true);
        assert_eq!(context["HostUsers"], false);
        assert_eq!(context["HostPID"], false);
        assert_eq!(
            form("core.PodSpec", &json!({}))["SecurityContext"],
            Value::Null
        );
    }
}
