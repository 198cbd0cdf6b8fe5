//! The expressions that select devices.
//!
//! Upstream: `k8s.io/dynamic-resource-allocation/cel/compile.go`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};
use steersman_values::quantity::Quantity;

use super::objects::semver::Semver;
use super::types::{Decl, Type};
use super::value::{Key, Val};
use super::{Declarations, Library, Program, Variables};

/// The most that an expression can cost.
const MAX_COST: u64 = 1_000_000;
/// Longest name of a driver, and longest text of an attribute, in bytes.
const DRIVER: u64 = 63;
const VALUE: u64 = 64;
/// Most attributes and capacities of a device.
const PROPERTIES: u64 = 32;

/// The variable `device`.
static DEVICE: LazyLock<Decl> = LazyLock::new(|| {
    let by_name = |value: Decl| Decl::map(Decl::map(value, PROPERTIES), PROPERTIES);
    let quantity = Decl::simple(Type::Opaque("kubernetes.Quantity"), 8, 8);
    let fields = [
        ("driver", Decl::simple(Type::Text, DRIVER, 2)),
        ("attributes", by_name(Decl::simple(Type::Dyn, VALUE, 1))),
        ("capacity", by_name(quantity)),
        ("allowMultipleAllocations", Decl::simple(Type::Bool, 1, 4)),
    ];
    Decl::object("kubernetes.DRADevice", fields)
});

/// The entries of a map of an expression.
type Entries = Arc<BTreeMap<Key, Val>>;

/// A device as a ResourceSlice publishes it.
#[derive(Debug, Clone, Copy)]
pub struct Device<'a> {
    /// The driver. Names of attributes and capacities without a domain have its domain.
    pub driver: &'a str,
    /// `attributes`, such as `{"model": {"string": "a"}}`.
    pub attributes: &'a Map<String, Value>,
    /// `capacity`, such as `{"memory": {"value": "1Gi"}}`.
    pub capacity: &'a Map<String, Value>,
    /// `allowMultipleAllocations`.
    pub allow_multiple_allocations: bool,
}

/// The compiled expression of a selector.
#[derive(Debug)]
pub struct Selector(Program);

impl Selector {
    /// Compiles `expression`, whose result must be a bool or unknown. The error is the text about the source.
    pub fn compile(expression: &str) -> Result<Self, String> {
        let declarations = Declarations::from([("device".to_owned(), DEVICE.ty.clone())]);
        let program = Program::compile_with(expression, &declarations, &*DEVICE, Library::Bindings)
            .map_err(|problem| format!("compilation failed: {problem}"))?;
        match program.result() {
            Type::Bool | Type::Dyn => Ok(Self(program)),
            other => Err(format!(
                "must evaluate to bool or the unknown type, not {other}"
            )),
        }
    }

    /// Whether an evaluation can cost more than API servers accept.
    pub fn is_too_expensive(&self) -> bool {
        self.0.max_cost() > MAX_COST
    }

    /// Whether the expression selects `device`. Upstream: `DeviceMatches`.
    pub fn matches(&self, device: &Device<'_>) -> Result<bool, String> {
        let result = self.0.run(&Bound::new(device)?, &mut 0);
        let result = result.map_err(|fail| fail.to_string())?;
        as_bool(&result).map_err(|why| {
            let kind = result.kind().name();
            format!("CEL result of type {kind} could not be converted to bool: {why}")
        })
    }
}

/// The bool of a result. Upstream: `ConvertToNative` of each type.
fn as_bool(result: &Val) -> Result<bool, String> {
    let of = |kind: &str| Err(format!("type conversion error from {kind} to 'bool'"));
    let unsupported = |rest: &str| Err(format!("unsupported {rest}"));
    match result {
        Val::Bool(is_true) => Ok(*is_true),
        Val::Optional(Some(value)) => as_bool(value),
        Val::Optional(None) => Err("optional.none() dereference".to_owned()),
        Val::Int(_) => unsupported("type conversion from 'int' to bool"),
        Val::Uint(_) => unsupported("type conversion from 'uint' to bool"),
        Val::Text(_) => unsupported("native conversion from string to 'bool'"),
        Val::Type(_) => Err("type conversion not supported for 'type'".to_owned()),
        Val::Double(_) => of("Double"),
        Val::Bytes(_) => of("Bytes"),
        Val::List(_) => of("list"),
        Val::Map(_) => of("map"),
        Val::Timestamp(_) => of("'Timestamp'"),
        Val::Duration(_) => of("'Duration'"),
        Val::Quantity(_) => of("'Quantity'"),
        Val::Semver(_) => of("'Semver'"),
        Val::Url(_) => of("'URL'"),
        Val::Ip(_) => of("'IP'"),
        Val::Cidr(_) => of("'CIDR'"),
        Val::Format(_) => of("'Format'"),
        Val::Null | Val::Constructed(_) | Val::Authz(_) => {
            of(&format!("'{}'", result.kind().name()))
        }
    }
}

/// The variable `device` with its value.
struct Bound {
    device: Val,
    /// `device.attributes` and `device.capacity`. A domain that they lack is an empty map.
    domains: [Entries; 2],
}

impl Bound {
    fn new(device: &Device<'_>) -> Result<Self, String> {
        let attributes = by_domain(device, "attribute", device.attributes, attribute)?;
        let capacity = by_domain(device, "capacity", device.capacity, quantity)?;
        let fields = [
            ("driver", Val::text(device.driver)),
            ("attributes", Val::Map(Arc::clone(&attributes))),
            ("capacity", Val::Map(Arc::clone(&capacity))),
            (
                "allowMultipleAllocations",
                Val::Bool(device.allow_multiple_allocations),
            ),
        ];
        let fields = fields.map(|(name, value)| (Key::text(name), value));
        Ok(Self {
            device: Val::Map(Arc::new(BTreeMap::from(fields))),
            domains: [attributes, capacity],
        })
    }
}

impl Variables for Bound {
    fn get(&self, name: &str) -> Option<Val> {
        (name == "device").then(|| self.device.clone())
    }

    /// Upstream: `newStringInterfaceMapWithDefault`. So `has(device.attributes["a"].b)` is false without `a`.
    fn default_in(&self, map: &Entries) -> Option<Val> {
        let mut domains = self.domains.iter();
        domains
            .any(|domain| Arc::ptr_eq(domain, map))
            .then(|| Val::Map(Entries::default()))
    }
}

/// Properties by domain and name. Upstream: `parseQualifiedName`.
fn by_domain(
    device: &Device<'_>,
    kind: &str,
    properties: &Map<String, Value>,
    value: impl Fn(&Value) -> Result<Val, String>,
) -> Result<Entries, String> {
    let mut domains = BTreeMap::<Key, BTreeMap<Key, Val>>::new();
    for (name, property) in properties {
        let value = value(property).map_err(|why| format!("{kind} {name}: {why}"))?;
        let (domain, id) = name.split_once('/').unwrap_or((device.driver, name));
        let domain = domains.entry(Key::text(domain)).or_default();
        domain.insert(Key::text(id), value);
    }
    let maps = domains.into_iter();
    let maps = maps.map(|(domain, values)| (domain, Val::Map(Arc::new(values))));
    Ok(Arc::new(maps.collect()))
}

/// The one value of an attribute. Upstream: `getAttributeValue`.
fn attribute(attribute: &Value) -> Result<Val, String> {
    let unsupported = || "unsupported attribute value".to_owned();
    let given = |name: &str| attribute.get(name).filter(|value| !value.is_null());
    if let Some(int) = given("int") {
        return int.as_i64().map(Val::Int).ok_or_else(unsupported);
    }
    if let Some(bool) = given("bool") {
        return bool.as_bool().map(Val::Bool).ok_or_else(unsupported);
    }
    if let Some(text) = given("string") {
        return text.as_str().map(Val::text).ok_or_else(unsupported);
    }
    let version = given("version").and_then(Value::as_str);
    let version = Semver::parse(version.ok_or_else(unsupported)?);
    version
        .map(|version| Val::Semver(Arc::new(version)))
        .map_err(|why| format!("parse semantic version: {why}"))
}

/// The value of a capacity.
fn quantity(capacity: &Value) -> Result<Val, String> {
    let value = capacity.get("value").and_then(Value::as_str);
    let parsed = value.and_then(Quantity::parse);
    parsed
        .map(Val::Quantity)
        .ok_or_else(|| "unsupported capacity".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_of_devices_are_checked() {
        let valid = [
            "true",
            "device.driver == 'gpu.example.com'",
            "device.attributes['gpu.example.com'].healthy",
            "device.attributes['gpu.example.com'].model == 'a' && 'x' in device.attributes",
            "device.capacity['gpu.example.com'].memory.compareTo(quantity('1Gi')) >= 0",
            "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.a == 1 && gpu.b)",
            "device.allowMultipleAllocations",
        ];
        for expression in valid {
            let refused = Selector::compile(expression).err();
            assert_eq!(refused, None, "{expression}");
        }
        for (expression, wanted) in [
            ("unknown", "undeclared reference to 'unknown'"),
            ("device.other", "undefined field 'other'"),
            (
                "device.driver",
                "must evaluate to bool or the unknown type, not string",
            ),
            ("", "Syntax error"),
        ] {
            let why = Selector::compile(expression).unwrap_err();
            assert!(why.contains(wanted), "{why}");
        }
        let twice =
            "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, true)))";
        assert!(!Selector::compile("true").unwrap().is_too_expensive());
        let nested = format!("{twice} && {twice}").replace("true", twice);
        assert!(Selector::compile(&nested).unwrap().is_too_expensive());
    }

    #[test]
    fn selectors_are_evaluated_for_devices() {
        let attributes = json!({
            "model": {"string": "a"}, "other.example.com/healthy": {"bool": true},
            "slots": {"int": 4}, "firmware": {"version": "1.2.3"},
        });
        let capacity = json!({"memory": {"value": "2Gi"}});
        let device = Device {
            driver: "gpu.example.com",
            attributes: attributes.as_object().unwrap(),
            capacity: capacity.as_object().unwrap(),
            allow_multiple_allocations: false,
        };
        let own = |rest: &str| format!("device.attributes['gpu.example.com'].{rest}");
        let cases = [
            ("true".to_owned(), Ok(true)),
            ("device.driver == 'gpu.example.com'".to_owned(), Ok(true)),
            ("device.driver == 'other.example.com'".to_owned(), Ok(false)),
            (own("model == 'a'"), Ok(true)),
            (own("slots > 4"), Ok(false)),
            (own("firmware.isGreaterThan(semver('1.2.0'))"), Ok(true)),
            (
                "device.attributes['other.example.com'].healthy".to_owned(),
                Ok(true),
            ),
            (
                "device.capacity['gpu.example.com'].memory.compareTo(quantity('1Gi')) >= 0"
                    .to_owned(),
                Ok(true),
            ),
            ("device.allowMultipleAllocations".to_owned(), Ok(false)),
            // A missing domain is an empty map, although it is no key.
            (
                "has(device.attributes['missing'].model)".to_owned(),
                Ok(false),
            ),
            ("'missing' in device.attributes".to_owned(), Ok(false)),
            (
                "size(device.attributes['missing']) == 0".to_owned(),
                Ok(true),
            ),
            (
                "device.attributes[?'missing'].hasValue()".to_owned(),
                Ok(true),
            ),
            (
                "cel.bind(all, device.attributes, has(all.missing.model))".to_owned(),
                Ok(false),
            ),
            (
                "device.attributes['missing'].model == 'a'".to_owned(),
                Err("no such key: model"),
            ),
            (own("missing == 1"), Err("no such key: missing")),
            (
                own("slots"),
                Err(
                    "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool",
                ),
            ),
            (
                own("model"),
                Err(
                    "CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'",
                ),
            ),
            ("dyn(optional.of(true))".to_owned(), Ok(true)),
            (
                "dyn(optional.none())".to_owned(),
                Err(
                    "CEL result of type optional_type could not be converted to bool: optional.none() dereference",
                ),
            ),
            (
                "dyn([1])".to_owned(),
                Err(
                    "CEL result of type list could not be converted to bool: type conversion error from list to 'bool'",
                ),
            ),
            (
                "dyn({})".to_owned(),
                Err(
                    "CEL result of type map could not be converted to bool: type conversion error from map to 'bool'",
                ),
            ),
            (
                "dyn(null)".to_owned(),
                Err(
                    "CEL result of type null_type could not be converted to bool: type conversion error from 'null_type' to 'bool'",
                ),
            ),
            (
                "dyn(duration('1s'))".to_owned(),
                Err(
                    "CEL result of type google.protobuf.Duration could not be converted to bool: type conversion error from 'Duration' to 'bool'",
                ),
            ),
        ];
        for (expression, expected) in cases {
            let selector = Selector::compile(&expression).unwrap();
            let found = selector.matches(&device);
            let expected = expected.map_err(str::to_owned);
            assert_eq!(found, expected, "{expression}");
        }
    }

    #[test]
    fn an_attribute_without_a_known_value_selects_no_device() {
        for (attribute, expected) in [
            (json!({}), "attribute a: unsupported attribute value"),
            (
                json!({"list": [1]}),
                "attribute a: unsupported attribute value",
            ),
            (
                json!({"version": "1"}),
                "attribute a: parse semantic version: No Major.Minor.Patch elements found",
            ),
        ] {
            let attributes = json!({ "a": attribute });
            let device = Device {
                driver: "d",
                attributes: attributes.as_object().unwrap(),
                capacity: &Map::new(),
                allow_multiple_allocations: false,
            };
            let found = Selector::compile("true").unwrap().matches(&device);
            assert_eq!(found, Err(expected.to_owned()), "{attribute}");
        }
    }
}
