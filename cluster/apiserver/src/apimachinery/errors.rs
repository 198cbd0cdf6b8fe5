//! Collects field errors, as upstream's `field.ErrorList` does.

use std::fmt;

use serde_json::{Value, json};
use steersman_releases::Release;

use crate::fielderror::{FieldError, Problem};
use crate::schema::internal;

/// The errors found, in order.
pub(crate) struct Errors {
    found: Vec<FieldError>,
    release: Release,
}

impl Default for Errors {
    fn default() -> Self {
        Self::of(Release::DEFAULT)
    }
}

/// The value at a dotted path; null if missing.
pub(crate) fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    const NONE: &Value = &Value::Null;
    // The search for a `char` uses memchr, whose set-up takes more time than the look-ups.
    path.split(['.'])
        .fold(object, |at, step| at.get(step).unwrap_or(NONE))
}

/// The text at a dotted path; empty if missing.
pub(crate) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).as_str().unwrap_or("")
}

/// The list at a dotted path; empty if missing.
pub(crate) fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path)
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

impl Errors {
    /// No errors so far, by the rules of `release`.
    pub(crate) fn of(release: Release) -> Self {
        Self {
            found: Vec::new(),
            release,
        }
    }

    /// The release whose rules count.
    pub(crate) fn release(&self) -> Release {
        self.release
    }

    pub(crate) fn into_list(self) -> Vec<FieldError> {
        self.found
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    fn add(&mut self, field: impl Into<String>, problem: Problem) {
        self.found.push(FieldError {
            field: field.into(),
            problem,
        });
    }

    pub(crate) fn required(&mut self, field: impl Into<String>, detail: &str) {
        self.add(field, Problem::Required(detail.to_owned()));
    }

    pub(crate) fn invalid(
        &mut self,
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) {
        self.add(field, Problem::Invalid(value.into(), detail.into()));
    }

    /// Adds an error that shows no value, because it is about a whole object.
    pub(crate) fn invalid_whole(&mut self, field: impl Into<String>, detail: &str) {
        self.add(field, Problem::InvalidWhole(detail.to_owned()));
    }

    pub(crate) fn not_supported(
        &mut self,
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) {
        let supported = supported.iter().map(|&s| s.to_owned()).collect();
        self.add(field, Problem::NotSupported(value.into(), supported));
    }

    pub(crate) fn forbidden(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.add(field, Problem::Forbidden(detail.into()));
    }

    pub(crate) fn not_found(&mut self, field: impl Into<String>, value: &str) {
        self.not_found_among(field, value, "");
    }

    /// Adds a missing name, with the names that exist.
    pub(crate) fn not_found_among(
        &mut self,
        field: impl Into<String>,
        value: &str,
        detail: impl Into<String>,
    ) {
        self.add(field, Problem::NotFound(json!(value), detail.into()));
    }

    pub(crate) fn duplicate(&mut self, field: impl Into<String>, value: impl Into<Value>) {
        self.duplicate_because(field, value, "");
    }

    /// Adds a duplicate, with the rule that it breaks.
    pub(crate) fn duplicate_because(
        &mut self,
        field: impl Into<String>,
        value: impl Into<Value>,
        rule: &str,
    ) {
        self.add(field, Problem::Duplicate(value.into(), rule.to_owned()));
    }

    pub(crate) fn too_long(&mut self, field: impl Into<String>, bytes: usize) {
        self.add(field, Problem::TooLong(bytes));
    }

    pub(crate) fn too_many(&mut self, field: impl Into<String>, found: usize, max: usize) {
        self.add(field, Problem::TooMany(found, max));
    }

    /// Forgets all errors, where one alone decides.
    pub(crate) fn clear(&mut self) {
        self.found.clear();
    }

    pub(crate) fn extend(&mut self, errors: Vec<FieldError>) {
        self.found.extend(errors);
    }

    /// Adds one `Invalid` error about `value` per text in `complaints`.
    pub(crate) fn complaints(
        &mut self,
        field: impl fmt::Display,
        value: &str,
        complaints: Vec<String>,
    ) {
        for complaint in complaints {
            self.invalid(field.to_string(), value, complaint);
        }
    }

    /// Requires that `text` is given and one of `supported`.
    pub(crate) fn choice(&mut self, field: impl Into<String>, text: &str, supported: &[&str]) {
        if text.is_empty() {
            self.required(field, "");
        } else {
            self.one_of(field, text, supported);
        }
    }

    /// Requires a text, which must have the format.
    pub(crate) fn required_format(
        &mut self,
        field: String,
        text: &str,
        format: fn(&str) -> Vec<String>,
    ) {
        if text.is_empty() {
            self.required(field, "");
        } else {
            self.complaints(&field, text, format(text));
        }
    }

    /// Requires that the number at `path` is not negative. `path` is also the name of the field.
    pub(crate) fn non_negative(&mut self, object: &Value, path: &str) {
        if let Some(number) = at(object, path).as_i64().filter(|number| *number < 0) {
            self.invalid(path, number, "must be greater than or equal to 0");
        }
    }

    /// Requires that the value at `path` did not change.
    pub(crate) fn immutable_pointer(&mut self, new: &Value, old: &Value, path: &str) {
        let new = at(new, path);
        let old = at(old, path);
        if new != old {
            self.invalid(path, new.clone(), "field is immutable");
        }
    }

    /// The same for a field that is no pointer in Go: the error shows the zero value of a text that
    /// the object lacks.
    pub(crate) fn immutable(&mut self, new: &Value, old: &Value, path: &str) {
        let new = at(new, path);
        let old = at(old, path);
        if new != old {
            let shown = if new.is_null() && old.is_string() {
                json!("")
            } else {
                new.clone()
            };
            self.invalid(path, shown, "field is immutable");
        }
    }

    /// The same for a struct, which the error shows in the form of the internal type `ty`.
    pub(crate) fn immutable_struct(&mut self, ty: &str, new: &Value, old: &Value, path: &str) {
        let new = at(new, path);
        let old = at(old, path);
        if new != old {
            self.invalid(path, internal::form(ty, new), "field is immutable");
        }
    }

    /// Requires that `text` is one of `supported`.
    pub(crate) fn one_of(&mut self, field: impl Into<String>, text: &str, supported: &[&str]) {
        if !supported.contains(&text) {
            self.not_supported(field, text, supported);
        }
    }
}
