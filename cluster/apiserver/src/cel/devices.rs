//! Checks the expressions that select devices.
//!
//! Upstream: `k8s.io/dynamic-resource-allocation/cel/compile.go`.

use std::sync::LazyLock;

use super::types::{Decl, Type};
use super::{Declarations, Library, Program};

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

/// The reason why a selector is refused.
pub(crate) enum Refusal {
    /// The text about the source.
    Invalid(String),
    TooExpensive,
}

/// Checks the expression of a selector, whose result must be a bool or unknown.
pub(crate) fn check_selector(expression: &str) -> Result<(), Refusal> {
    let declarations = Declarations::from([("device".to_owned(), DEVICE.ty.clone())]);
    let program = Program::compile_with(expression, &declarations, &*DEVICE, Library::Bindings)
        .map_err(|problem| Refusal::Invalid(format!("compilation failed: {problem}")))?;
    match program.result() {
        Type::Bool | Type::Dyn => {}
        other => {
            let why = format!("must evaluate to bool or the unknown type, not {other}");
            return Err(Refusal::Invalid(why));
        }
    }
    if program.max_cost() > MAX_COST {
        return Err(Refusal::TooExpensive);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
            let refused = check_selector(expression)
                .err()
                .map(|refusal| match refusal {
                    Refusal::Invalid(why) => why,
                    Refusal::TooExpensive => "too expensive".to_owned(),
                });
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
            match check_selector(expression) {
                Err(Refusal::Invalid(why)) => assert!(why.contains(wanted), "{why}"),
                _ => panic!("{expression} is refused"),
            }
        }
    }
}
