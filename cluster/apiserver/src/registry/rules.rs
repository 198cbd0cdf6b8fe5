//! Operations of the server on objects of a row. Built-in kinds use tables, and custom kinds their
//! schema.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use crate::custom::Custom;
use crate::fielderror::{FieldError, Problem};
use crate::kinds::{Resource, Storage};
use crate::{defaults, schema, tables, validate};

impl Resource {
    fn custom(&self) -> Option<&Custom> {
        self.custom.as_deref()
    }

    /// The 400 message for an object with a field of the wrong type.
    pub(crate) fn decode_check(&self, object: &Value) -> Result<(), String> {
        match self.custom() {
            Some(_) => schema::decode::metadata_check(&self.kind, object),
            None => schema::decode::decode_check(&self.kind, object),
        }
    }

    /// The same check, with the message of patches.
    pub(crate) fn decode_error(&self, object: &Value) -> Option<String> {
        match self.custom() {
            Some(_) => schema::decode::metadata_error(object),
            None => schema::decode::decode_error(&self.kind, object),
        }
    }

    /// Removes unknown fields and returns their paths.
    pub(crate) fn drop_unknown(&self, object: &mut Value) -> Vec<String> {
        match self.custom() {
            Some(custom) => custom.prune(object),
            None => schema::typed_form::prune_unknown(self.release, &self.kind, object),
        }
    }

    /// Whether objects without a name get a random one.
    /// Upstream: `pkg/registry/core/limitrange/strategy.go`, PrepareForCreate.
    pub(crate) fn names_itself(&self) -> bool {
        self.custom.is_none() && self.kind == "LimitRange"
    }

    /// Removes nulls that a custom kind forbids. Decoders do that. Applied nulls stay, so that
    /// validation sees them.
    pub(crate) fn drop_nulls(&self, object: &mut Value) {
        if let Some(custom) = self.custom() {
            custom.drop_nulls(object);
        }
    }

    /// Sets the defaults of an object, and removes forbidden nulls.
    pub(crate) fn complete(&self, object: &mut Value) {
        match self.custom() {
            Some(custom) => custom.complete(object),
            None => defaults::apply(self.release, &self.kind, object),
        }
    }

    /// Sets the defaults of a changed object.
    pub(crate) fn set_defaults(&self, object: &mut Value) {
        match self.custom() {
            Some(custom) => custom.set_defaults(object),
            None => defaults::apply(self.release, &self.kind, object),
        }
    }

    /// Sets the defaults of a new object. [`Self::complete_new`] adds further fields later, after
    /// admission.
    pub(crate) fn set_defaults_of_new(&self, object: &mut Value) -> defaults::Incomplete {
        match self.custom() {
            Some(custom) => {
                custom.set_defaults(object);
                defaults::Incomplete::default()
            }
            None => defaults::begin_create(self.release, &self.kind, object),
        }
    }

    /// Sets the fields that the server adds to a new object with defaults.
    pub(crate) fn complete_new(&self, object: &mut Value, incomplete: defaults::Incomplete) {
        if self.custom.is_none() {
            defaults::end_create(self.release, &self.kind, object, incomplete);
        }
    }

    /// Sets the fields that an update of `old` adds to [`Self::complete`].
    pub(crate) fn complete_change(&self, object: &mut Value, old: &Value) {
        if self.custom.is_none() {
            defaults::on_update(self.release, &self.kind, object, old);
        }
    }

    /// Drops the fields of feature gates that are off.
    pub(crate) fn drop_disabled(&self, object: &mut Value) {
        if self.custom.is_none() {
            defaults::drop_disabled(self.release, &self.kind, object);
        }
    }

    /// The validation errors of a new object with defaults.
    pub(crate) fn errors(&self, object: &Value) -> Vec<FieldError> {
        match self.custom() {
            Some(custom) => {
                let errors = kind_errors(self, object);
                if errors.is_empty() {
                    custom.errors(object)
                } else {
                    errors
                }
            }
            None => {
                let mut errors = validate::create(self.release, &self.kind, object);
                if let Storage::Converted(conversion) = self.storage {
                    errors = (conversion.errors)(object, errors);
                }
                if errors.is_empty() {
                    errors = validate::common_metadata(&self.kind, object);
                }
                errors
            }
        }
    }

    /// The validation errors of an update from `old` to `new`, through the main endpoint or `part`.
    pub(crate) fn update_errors(
        &self,
        part: Option<&str>,
        new: &Value,
        old: &Value,
    ) -> Vec<FieldError> {
        match self.custom() {
            Some(custom) => {
                let errors = kind_errors(self, new);
                if errors.is_empty() {
                    custom.update_errors(part, new, old)
                } else {
                    errors
                }
            }
            None => {
                let mut errors = validate::update(self.release, &self.kind, part, new, old);
                if let Storage::Converted(conversion) = self.storage
                    && part.is_none()
                {
                    errors = (conversion.update_errors)(new, old, errors);
                }
                errors
            }
        }
    }

    /// Warnings about a valid new object. Those about deprecated versions are sent with every answer,
    /// elsewhere.
    pub(crate) fn warnings(&self, object: &Value) -> Vec<String> {
        match self.custom() {
            Some(_) => validate::finalizer_warnings(object, None),
            None => validate::warnings(&self.kind, object),
        }
    }

    /// Warnings about a valid update, through the main endpoint or `part`.
    pub(crate) fn update_warnings(
        &self,
        part: Option<&str>,
        new: &Value,
        old: &Value,
    ) -> Vec<String> {
        match self.custom() {
            Some(_) if part.is_some() => Vec::new(),
            Some(_) => validate::finalizer_warnings(new, Some(old)),
            None => validate::update_warnings(&self.kind, part, new, old),
        }
    }

    /// The shape of an object for field management.
    pub(crate) fn columns(&self) -> Vec<Value> {
        match self.custom() {
            Some(custom) => custom.columns(),
            None => tables::columns(&self.kind),
        }
    }

    /// The cells of one Table row.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self.custom() {
            Some(custom) => custom.cells(object, now),
            None => tables::cells(&self.kind, object, now),
        }
    }

    /// The `conditions` of a Table row.
    pub(crate) fn row_conditions(&self, object: &Value) -> Option<Value> {
        if self.custom.is_none() {
            tables::row_conditions(&self.kind, object)
        } else {
            None
        }
    }

    /// A stored object in this version. A webhook that converts between the versions has converted
    /// it before.
    pub(crate) fn shown(&self, object: Value) -> Value {
        if matches!(self.storage, Storage::OtherVersion) {
            self.read_other(object)
        } else {
            object
        }
    }

    /// A stored object in the form of this version, as clients see it.
    pub(crate) fn converted(&self, object: Value) -> Value {
        match self.storage {
            Storage::Converted(conversion) => (conversion.from_kept)(object),
            Storage::Own | Storage::OtherVersion => object,
        }
    }

    /// The reverse of [`Self::converted`].
    pub(crate) fn to_kept(&self, object: Value) -> Value {
        match self.storage {
            Storage::Converted(conversion) => (conversion.to_kept)(object),
            Storage::Own | Storage::OtherVersion => object,
        }
    }

    /// A stored object after a change of its definition. Only a webhook could convert objects of
    /// other versions, so these stay unchanged.
    pub(crate) fn reread_stored(&self, object: Value) -> Value {
        if self.converter().is_some() && object["apiVersion"] != *self.api_version() {
            object
        } else {
            self.reread(object)
        }
    }

    /// An object of this version as storage has it: a built-in kind loses empty lists and maps, a
    /// custom kind the fields that its schema lacks.
    pub(crate) fn as_stored(&self, mut object: Value) -> Value {
        match self.custom() {
            Some(custom) => {
                custom.prune(&mut object);
                custom.complete(&mut object);
            }
            None => schema::typed_form::normalize(&self.kind, &mut object),
        }
        object
    }

    /// An object of this version as an encoder writes it. A built-in kind keeps only the empty lists and
    /// maps of mandatory fields.
    pub(crate) fn encoded<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        match self.custom() {
            Some(_) => Cow::Borrowed(object),
            None => schema::empties::encoded(&self.kind, object),
        }
    }

    /// The same as field management sees it: atomic lists keep empty lists and maps.
    pub(crate) fn managed<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        match self.custom() {
            Some(_) => Cow::Borrowed(object),
            None => schema::empties::managed(&self.kind, object),
        }
    }

    /// Whether a change between an empty and a missing list increases the generation.
    ///
    /// Upstream: the strategies in `pkg/registry` that use `reflect.DeepEqual`.
    pub(crate) fn distinguishes_empties(&self) -> bool {
        self.custom.is_some()
            || matches!(
                &*self.kind,
                "MutatingWebhookConfiguration" | "NetworkPolicy" | "ValidatingWebhookConfiguration"
            )
    }

    /// `old` in a form whose comparison with `new` finds the differences that count. In a built-in kind
    /// an empty list or map equals a missing one.
    pub(crate) fn alike<'a>(&self, old: &'a Value, new: &Value) -> Cow<'a, Value> {
        match self.custom() {
            Some(_) => Cow::Borrowed(old),
            None => schema::empties::with_those_of(&self.kind, old, new),
        }
    }

    /// A stored object as its storage version reads it. The schema can be newer than the object, so
    /// it prunes and defaults again.
    pub(crate) fn reread(&self, mut object: Value) -> Value {
        object = self.read_other(object);
        self.complete(&mut object);
        object
    }

    /// An object of another version in this one. Only the stored version adds defaults to an object
    /// that is read.
    pub(crate) fn read_other(&self, mut object: Value) -> Value {
        object["apiVersion"] = Value::from(self.api_version());
        self.drop_unknown(&mut object);
        object
    }
}

/// Kind and version of an object must be those of the resource.
fn kind_errors(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let must_be = |field: &str, wanted: &str| {
        let problem = Problem::Invalid(object[field].clone(), format!("must be {wanted}"));
        (object[field] != *wanted).then(|| FieldError {
            field: field.to_owned(),
            problem,
        })
    };
    [
        must_be("kind", &resource.kind),
        must_be("apiVersion", &resource.api_version()),
    ]
    .into_iter()
    .flatten()
    .collect()
}
