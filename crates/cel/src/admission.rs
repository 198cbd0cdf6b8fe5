//! The variables of admission: `object`, `request` and the others.
//!
//! Upstream: `pkg/admission/plugin/cel` of `k8s.io/apiserver`.

use super::Declarations;
use super::types::{Decl, ListKind, Type};

/// The type of `variables`.
const VARIABLES: &str = "kubernetes.variables";

/// The declarations of expressions in a policy or webhook. Objects and parameters have any type.
///
/// Upstream: `createEnvForOpts`.
pub fn declarations(params: bool, authorizer: bool) -> Declarations {
    let mut declarations = Declarations::from([
        ("object".to_owned(), Type::Dyn),
        ("oldObject".to_owned(), Type::Dyn),
        ("namespaceObject".to_owned(), namespace().ty),
        ("request".to_owned(), request().ty),
    ]);
    let variables = &mut declarations.variables;
    if params {
        variables.insert("params".to_owned(), Type::Dyn);
    }
    if authorizer {
        let resource = Type::Opaque("kubernetes.authorization.ResourceCheck");
        variables.insert("authorizer".to_owned(), self::authorizer());
        variables.insert("authorizer.requestResource".to_owned(), resource);
    }
    declarations
}

/// The declarations by which policies are type checked. `params` is absent without a kind of
/// parameters. Unlike evaluation, the check does not know `authorizer.requestResource`.
///
/// Upstream: `buildEnvSet` of `pkg/admission/plugin/policy/validating/typechecking.go`.
pub fn typed_declarations(object: Type, params: Option<Type>) -> Declarations {
    let mut declarations = Declarations::from([
        ("object".to_owned(), object.clone()),
        ("oldObject".to_owned(), object),
        ("namespaceObject".to_owned(), namespace().ty),
        ("request".to_owned(), request().ty),
        ("authorizer".to_owned(), authorizer()),
        ("variables".to_owned(), variables(&[])),
    ]);
    if let Some(params) = params {
        declarations.variables.insert("params".to_owned(), params);
    }
    declarations
}

/// The type of `variables`, from the names and types of the variables of a policy.
pub fn variables(variables: &[(String, Type)]) -> Type {
    let fields = variables.iter();
    let fields = fields.map(|(name, ty)| (name.as_str(), of(of_variable(ty))));
    Decl::object(VARIABLES, fields).ty
}

/// The type of a variable, from the type of its expression. Objects and optional values become
/// dynamic.
///
/// Upstream: `convertCelTypeToDeclType`.
fn of_variable(ty: &Type) -> Type {
    match ty {
        Type::List(element) => Type::list(of_variable(element)),
        Type::Map(key, value) => Type::map(of_variable(key), of_variable(value)),
        Type::Null
        | Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::Text
        | Type::Bytes
        | Type::Timestamp
        | Type::Duration => ty.clone(),
        _ => Type::Dyn,
    }
}

fn authorizer() -> Type {
    Type::Opaque("kubernetes.authorization.Authorizer")
}

fn of(ty: Type) -> Decl {
    Decl::simple(ty, u64::MAX, 0)
}

fn texts() -> Decl {
    Decl::list(of(Type::Text), u64::MAX, ListKind::Atomic)
}

/// The variable `request`.
pub fn request() -> Decl {
    let text = || of(Type::Text);
    let kind = || {
        let fields = [("group", text()), ("version", text()), ("kind", text())];
        Decl::unescaped("kubernetes.GroupVersionKind", fields)
    };
    let resource = || {
        let fields = [("group", text()), ("version", text()), ("resource", text())];
        Decl::unescaped("kubernetes.GroupVersionResource", fields)
    };
    let user = [
        ("username", text()),
        ("uid", text()),
        ("groups", texts()),
        ("extra", Decl::map(texts(), u64::MAX)),
    ];
    let fields = [
        ("kind", kind()),
        ("resource", resource()),
        ("subResource", text()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", Decl::unescaped("kubernetes.UserInfo", user)),
        ("dryRun", of(Type::Bool)),
        ("options", of(Type::Dyn)),
    ];
    Decl::unescaped("kubernetes.AdmissionRequest", fields)
}

/// The variable `namespaceObject`.
pub fn namespace() -> Decl {
    let text = || of(Type::Text);
    let time = || of(Type::Timestamp);
    let labels = || Decl::map(of(Type::Text), u64::MAX);
    let condition = [
        ("status", text()),
        ("type", text()),
        ("lastTransitionTime", time()),
        ("message", text()),
        ("reason", text()),
    ];
    let condition = Decl::unescaped("kubernetes.NamespaceCondition", condition);
    let conditions = Decl::list(condition, u64::MAX, ListKind::Atomic);
    let status = [("conditions", conditions), ("phase", text())];
    let metadata = [
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", labels()),
        ("annotations", labels()),
        ("UID", text()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", of(Type::Int)),
        ("deletionTimestamp", time()),
        ("generation", of(Type::Int)),
        ("resourceVersion", text()),
        ("finalizers", texts()),
    ];
    let metadata = Decl::unescaped("kubernetes.NamespaceMetadata", metadata);
    let spec = Decl::unescaped("kubernetes.NamespaceSpec", [("finalizers", texts())]);
    let status = Decl::unescaped("kubernetes.NamespaceStatus", status);
    let fields = [("metadata", metadata), ("spec", spec), ("status", status)];
    Decl::unescaped("kubernetes.Namespace", fields)
}
