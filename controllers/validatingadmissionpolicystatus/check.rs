//! Type checks of the expressions of a policy.
//!
//! Each expression is checked once per kind. Match conditions and audit annotations are not checked.
//!
//! Upstream: `TypeChecker.Check`.
//! The names of the kinds in warnings have the form of Go's `GroupVersionKind`.

use std::collections::BTreeMap;

use serde::Serialize;
use steersman_cel::admission::{typed_declarations, variables};
use steersman_cel::types::Type;
use steersman_cel::{Declarations, type_of};
use steersman_objects::{PolicyVariable, ValidatingAdmissionPolicySpec};

use super::kinds::Kind;

/// The problems of one expression. It has the form of the API's `ExpressionWarning`.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExpressionWarning {
    /// The path of the expression.
    pub(super) field_ref: String,
    /// The problems for each kind. Each ends with a line break, and an empty line stands between
    /// two, as in upstream's `TypeCheckingResults`.
    pub(super) warning: String,
}

/// The warnings of all expressions. `kinds` are the kinds of the rules with their types. `params`
/// is absent without parameters.
///
/// Warnings need `kinds`, because each check is against a type.
pub(super) fn warnings(
    spec: &ValidatingAdmissionPolicySpec,
    kinds: &BTreeMap<Kind, Type>,
    params: Option<&Type>,
) -> Vec<ExpressionWarning> {
    let declarations: Vec<(&Kind, Declarations)> = kinds
        .iter()
        .map(|(kind, object)| (kind, declarations(object, params, &spec.variables)))
        .collect();
    // Only errors count. The type of the result is free here, since admission checks it: a message
    // is text, and a validation is a truth value.
    let check = |index: usize, field: &str, expression: &str| {
        let problems = declarations.iter().filter_map(|(kind, declarations)| {
            let problem = type_of(expression, declarations).err()?;
            let Kind {
                group,
                version,
                kind,
            } = kind;
            Some(format!("{group}/{version}, Kind={kind}: {problem}\n"))
        });
        let problems: Vec<String> = problems.collect();
        (!problems.is_empty()).then(|| ExpressionWarning {
            field_ref: format!("spec.validations[{index}].{field}"),
            warning: problems.join("\n"),
        })
    };
    let mut warnings = Vec::new();
    for (index, validation) in spec.validations.iter().enumerate() {
        warnings.extend(check(index, "expression", &validation.expression));
        let message = &validation.message_expression;
        // An empty message expression is none, because the field is optional.
        if !message.is_empty() {
            warnings.extend(check(index, "messageExpression", message));
        }
    }
    warnings
}

/// The names in expressions about one kind. A variable with an error has any type; upstream does
/// not report the error. A variable sees those before it, so the order of `of_policy` matters.
/// Upstream: `CompileAndStoreVariables`.
fn declarations(
    object: &Type,
    params: Option<&Type>,
    of_policy: &[PolicyVariable],
) -> Declarations {
    let mut declarations = typed_declarations(object.clone(), params.cloned());
    let mut declared = Vec::new();
    for variable in of_policy {
        let ty = type_of(&variable.expression, &declarations).unwrap_or(Type::Dyn);
        declared.push((variable.name.to_string(), ty));
        let all = variables(&declared);
        declarations.variables.insert("variables".to_owned(), all);
    }
    declarations
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_cel::types::Decl;
    use steersman_objects::{Object, ValidatingAdmissionPolicy};

    use super::*;

    /// Path and problems of each warning, for Deployments with the field `foo` of this type.
    fn check(foo: Option<Type>, spec: Value, params: Option<Type>) -> Vec<(String, String)> {
        let policy =
            json!({"metadata": {"name": "p", "uid": "u", "resourceVersion": "1"}, "spec": spec});
        let policy = ValidatingAdmissionPolicy::decode(policy.to_string().as_bytes()).unwrap();
        let deployment = Kind {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            kind: "Deployment".to_owned(),
        };
        let object = match foo {
            Some(foo) => Decl::object("Deployment", [("foo", Decl::simple(foo, 0, 0))]).ty,
            None => Type::Dyn,
        };
        let kinds = BTreeMap::from([(deployment, object)]);
        let found = warnings(&policy.spec, &kinds, params.as_ref());
        found
            .into_iter()
            .map(|found| (found.field_ref, found.warning))
            .collect()
    }

    fn validations(expressions: &[&str]) -> Value {
        let one = |expression: &&str| json!({"expression": expression});
        json!({"validations": expressions.iter().map(one).collect::<Vec<_>>()})
    }

    fn with_variable(expression: &str, validation: &str) -> Value {
        let mut spec = validations(&[validation]);
        spec["variables"] = json!([{"name": "name", "expression": expression}]);
        spec
    }

    /// Upstream: `TestTypeCheck`.
    #[test]
    fn type_check() {
        let text = || Some(Type::Text);
        let int = || Some(Type::Int);
        let foo = Decl::object("Config", [("foo", Decl::simple(Type::Text, 0, 0))]).ty;
        let first = "spec.validations[0].expression";
        let mut message = validations(&["object.foo == 'bar'"]);
        message["validations"][0]["messageExpression"] = json!("object.foo + 114514");
        // (case, type of `foo`, spec, type of parameters, path and part of the warning)
        #[allow(clippy::type_complexity, reason = "a table of cases")]
        let cases: Vec<(
            &str,
            Option<Type>,
            Value,
            Option<Type>,
            Option<(&str, &str)>,
        )> = vec![
            (
                "passed check",
                text(),
                validations(&["object.foo == 'bar'"]),
                None,
                None,
            ),
            (
                "undefined field",
                text(),
                validations(&["object.bar == 'bar'"]),
                None,
                Some((first, "undefined field 'bar'")),
            ),
            (
                "field type mismatch",
                int(),
                validations(&["object.foo == 'bar'"]),
                None,
                Some((
                    first,
                    "found no matching overload for '_==_' applied to '(int, string)'",
                )),
            ),
            (
                "params",
                text(),
                validations(&["object.foo == params.bar"]),
                Some(foo),
                Some((first, "undefined field 'bar'")),
            ),
            (
                "no params",
                text(),
                validations(&["params != null"]),
                None,
                Some((first, "undeclared reference to 'params' (in container '')")),
            ),
            (
                "params with untyped schema",
                text(),
                validations(&["params != null"]),
                Some(Type::Dyn),
                None,
            ),
            (
                "multiple expressions",
                text(),
                validations(&["object.foo == 'bar'", "object.bar == 'foo'"]),
                None,
                Some(("spec.validations[1].expression", "undefined field 'bar'")),
            ),
            (
                "message expressions",
                text(),
                message,
                None,
                Some((
                    "spec.validations[0].messageExpression",
                    "found no matching overload for '_+_' applied to '(string, int)'",
                )),
            ),
            (
                "authorizer",
                text(),
                validations(&[
                    "authorizer.group('').resource('endpoints').check('create').allowed()",
                ]),
                None,
                None,
            ),
            (
                "authorizer invalid",
                text(),
                validations(&["authorizer.allowed()"]),
                None,
                Some((
                    first,
                    "found no matching overload for 'allowed' applied to 'kubernetes.authorization.Authorizer",
                )),
            ),
            (
                "authorizer of the request",
                text(),
                validations(&["authorizer.requestResource.check('get').allowed()"]),
                None,
                Some((
                    first,
                    "unexpected failed resolution of 'kubernetes.authorization.Authorizer'",
                )),
            ),
            (
                "schema without type",
                None,
                validations(&["object.anything == 1"]),
                None,
                None,
            ),
            (
                "variables valid",
                int(),
                with_variable("true", "variables.name"),
                None,
                None,
            ),
            (
                "variables missing field",
                int(),
                with_variable("true", "variables.nonExisting"),
                None,
                Some((first, "undefined field 'nonExisting'")),
            ),
            (
                "variables field wrong type",
                int(),
                with_variable("'something'", "variables.name == object.foo"),
                None,
                Some((
                    first,
                    "found no matching overload for '_==_' applied to '(string, int)'",
                )),
            ),
            (
                "error in variables, not reported during type checking.",
                int(),
                with_variable("object.foo == 'str'", "variables.name == object.foo"),
                None,
                None,
            ),
            (
                "variables of an object are dynamic",
                int(),
                with_variable("[object]", "variables.name[0].bar == 1"),
                None,
                None,
            ),
        ];
        for (case, foo, spec, params, expected) in cases {
            let found = check(foo, spec, params);
            match expected {
                None => assert!(found.is_empty(), "{case}: {found:?}"),
                Some((path, part)) => {
                    let [(found, warning)] = &found[..] else {
                        panic!("{case}: {found:?}")
                    };
                    assert_eq!(found, path, "{case}");
                    assert!(warning.contains(part), "{case}: {warning}");
                }
            }
        }
    }

    #[test]
    fn problems_of_several_kinds_follow_each_other() {
        let spec = validations(&["object.foo > '1' && object.bar == 1"]);
        let policy =
            json!({"metadata": {"name": "p", "uid": "u", "resourceVersion": "1"}, "spec": spec});
        let policy = ValidatingAdmissionPolicy::decode(policy.to_string().as_bytes()).unwrap();
        let kind = |group: &str, kind: &str| Kind {
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: kind.to_owned(),
        };
        let pod = kind("", "Pod");
        let deployment = kind("apps", "Deployment");
        let object = |fields: &[&'static str]| {
            let fields = fields
                .iter()
                .map(|name| (*name, Decl::simple(Type::Int, 0, 0)));
            Decl::object("object", fields.collect::<Vec<_>>()).ty
        };
        let kinds = BTreeMap::from([
            (deployment, object(&["foo"])),
            (pod, object(&["foo", "bar"])),
        ]);
        let found = warnings(&policy.spec, &kinds, None);
        let source = " | object.foo > '1' && object.bar == 1";
        let overload =
            "ERROR: <input>:1:12: found no matching overload for '_>_' applied to '(int, string)'";
        let field = "ERROR: <input>:1:27: undefined field 'bar'";
        let first = format!("{overload}\n{source}\n | ...........^");
        let second = format!("{field}\n{source}\n | ..........................^");
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].warning,
            format!("/v1, Kind=Pod: {first}\n\napps/v1, Kind=Deployment: {first}\n{second}\n")
        );
    }
}
