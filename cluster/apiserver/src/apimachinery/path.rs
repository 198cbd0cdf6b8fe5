//! Paths of fields, such as `spec.containers[0].image`.

use std::fmt;

/// A path that becomes text only in an error. A valid object therefore costs no allocation.
///
/// Upstream: `field.Path` in `k8s.io/apimachinery/pkg/util/validation/field`.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// A path that starts at the dotted `text`. An empty text is the object itself.
    pub(crate) const fn new(text: &'a str) -> Self {
        Self {
            parent: None,
            step: Step::Field(text),
        }
    }

    /// The field `name`, or several steps with dots.
    pub(crate) const fn child(&'a self, name: &'a str) -> Self {
        self.with(Step::Field(name))
    }

    /// An element of a list.
    pub(crate) const fn index(&'a self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    /// An entry of a map.
    pub(crate) const fn key(&'a self, key: &'a str) -> Self {
        self.with(Step::Key(key))
    }

    const fn with(&'a self, step: Step<'a>) -> Self {
        Self {
            parent: Some(self),
            step,
        }
    }

    fn is_empty(&self) -> bool {
        self.parent.is_none() && matches!(self.step, Step::Field(""))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Field(name) => {
                if self.parent.is_some_and(|parent| !parent.is_empty()) {
                    f.write_str(".")?;
                }
                f.write_str(name)
            }
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl From<Path<'_>> for String {
    fn from(path: Path<'_>) -> Self {
        path.to_string()
    }
}

impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> Self {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_join_fields_indexes_and_keys() {
        let spec = Path::new("spec");
        let root = Path::new("");
        let containers = spec.child("containers");
        let limits = containers.index(2);
        let limits = limits.child("resources.limits");
        assert_eq!(
            limits.key("a.b/c").to_string(),
            "spec.containers[2].resources.limits[a.b/c]"
        );
        assert_eq!(root.child("data").key("k").to_string(), "data[k]");
    }
}
