//! The flags of the manager: one table of names, types and defaults, and the values of a command
//! line.
//!
//! text -> value.rs (types, with Go's rules and messages) -> [`Options`] -> configuration of the
//! manager and of its controllers
//!
//! The flags are a table (table.rs) instead of clap structs, because everything users see has to
//! equal upstream. Examples are defaults of lists, `--flag=false`, `_` in place of `-`, and error
//! messages.
//!
//! The manager and its controllers read the same [`Options`], so each default exists once. Reading
//! a flag that the table lacks panics; tests find it, because controllers read flags when they are
//! built.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod csv;
pub mod duration;
mod error;
pub mod features;
mod table;
mod value;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

pub use error::{UsageError, short_of};
pub use table::SECTIONS;
pub use value::{Value, bool as go_bool};

use crate::duration::GoDuration;

/// The type of a flag's value, named as in the help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the variants are the types of upstream's flag library"
)]
pub enum Kind {
    Bool,
    Duration,
    Int32,
    Int,
    Float32,
    Float,
    String,
    Strings,
    Ip,
    Int32Slice,
    CertKeys,
    StringMap,
    Quantity,
    Level,
    Vmodule,
    Gates,
    Version,
}

/// The effect of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The flag works.
    Live,
    /// Ignored, as in upstream, or because Steersman has no such feature.
    Moot,
    /// No effect yet; setting the flag leads to a warning.
    Inert,
    /// The flag works if this controller exists, and has no effect yet otherwise.
    Of(&'static str),
    /// The flag works if a program adds this controller, such as a loop over a cloud provider.
    /// Ignored otherwise, as in upstream.
    Added(&'static str),
}

/// A flag: one line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// The name without dashes.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// The default, as typed on a command line; lists without brackets.
    pub default: &'static str,
    /// The effect of the flag.
    pub effect: Effect,
    /// The text in `--help`.
    pub help: &'static str,
}

/// All flags, in the order of the table.
pub fn flags() -> impl Iterator<Item = &'static Flag> {
    table::SECTIONS.iter().flat_map(|(_, flags)| flags.iter())
}

/// The flag called `name`.
pub fn find(name: &str) -> Option<&'static Flag> {
    flags().find(|flag| flag.name == name)
}

/// A flag with its value.
#[derive(Debug, Clone)]
struct Entry {
    flag: &'static Flag,
    value: Value,
    /// Whether the flag was set.
    given: bool,
}

/// The values of all flags, set or default.
#[derive(Debug, Clone)]
pub struct Options {
    entries: BTreeMap<&'static str, Entry>,
}

impl Default for Options {
    fn default() -> Self {
        let entry = |flag: &'static Flag| {
            let value = Value::parse(flag.kind, flag.default)
                .expect("a default in the table is valid, which a test checks");
            (
                flag.name,
                Entry {
                    flag,
                    value,
                    given: false,
                },
            )
        };
        Self {
            entries: flags().map(entry).collect(),
        }
    }
}

macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty) => {
        /// The value of `flag`. Panics if the table has no such flag of this type.
        pub fn $name(&self, flag: &str) -> $type {
            match self.value(flag) {
                Value::$variant(value) => value.clone(),
                other => unreachable!("--{flag} is read as another type than {other:?}"),
            }
        }
    };
}

impl Options {
    getter!(bool, Bool, bool);
    getter!(duration, Duration, GoDuration);
    getter!(int, Int, i64);
    getter!(float32, Float32, f32);
    getter!(float, Float, f64);
    getter!(text, Text, String);
    getter!(list, List, Vec<String>);
    getter!(gates, Gates, Vec<String>);
    getter!(map, Map, BTreeMap<String, String>);
    getter!(ip, Ip, IpAddr);

    /// A number of workers. A negative value is zero, as in upstream's loops.
    pub fn workers(&self, flag: &str) -> usize {
        usize::try_from(self.int(flag)).unwrap_or(0)
    }

    /// A duration for timers; a negative one is zero.
    pub fn time(&self, flag: &str) -> Duration {
        self.duration(flag).to_std()
    }

    /// The value of `flag`. Panics if the table has no such flag.
    pub fn value(&self, flag: &str) -> &Value {
        let entry = self.entries.get(flag);
        &entry
            .unwrap_or_else(|| unreachable!("--{flag} is not in the table"))
            .value
    }

    /// Name and printed value of all flags, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.entries
            .iter()
            .map(|(name, entry)| (*name, entry.value.to_string()))
    }

    /// Names of the flags that were set, sorted.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let given = self.entries.values().filter(|entry| entry.given);
        given.map(|entry| entry.flag.name)
    }

    /// Whether the flag was set.
    pub fn is_given(&self, flag: &str) -> bool {
        self.entries.get(flag).is_some_and(|entry| entry.given)
    }

    /// Names of the flags that were set but have no effect yet, sorted.
    pub fn without_effect(&self, has_controller: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let idle = |effect| match effect {
            Effect::Live | Effect::Moot | Effect::Added(_) => false,
            Effect::Inert => true,
            Effect::Of(controller) => !has_controller(controller),
        };
        self.entries
            .values()
            .filter(|e| e.given && idle(e.flag.effect))
            .map(|e| e.flag.name)
            .collect()
    }

    /// Worker counts of zero or less of enabled controllers: flag and value, sorted by flag.
    pub fn without_workers(&self, is_enabled: impl Fn(&str) -> bool) -> Vec<(&'static str, i64)> {
        let is_count =
            |flag: &Flag| flag.name.starts_with("concurrent-") && flag.name.ends_with("-syncs");
        let of_enabled = |flag: &Flag| match flag.effect {
            Effect::Of(controller) | Effect::Added(controller) => is_enabled(controller),
            Effect::Live | Effect::Moot | Effect::Inert => false,
        };
        let counts = self
            .entries
            .values()
            .map(|entry| entry.flag)
            .filter(|flag| is_count(flag) && of_enabled(flag));
        counts
            .map(|flag| (flag.name, self.int(flag.name)))
            .filter(|(_, count)| *count <= 0)
            .collect()
    }

    /// Sets a flag as if it had been typed. Used by tests and by programs that embed the manager.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), UsageError> {
        let flag = find(name).ok_or_else(|| UsageError::unknown_flag(name))?;
        self.set_flag(flag, text)
    }

    /// Sets a flag of the table; `text` is parsed by its kind.
    pub fn set_flag(&mut self, flag: &'static Flag, text: &str) -> Result<(), UsageError> {
        let value = Value::parse(flag.kind, text)
            .map_err(|reason| UsageError::invalid(flag, text, &reason))?;
        let entry = self
            .entries
            .get_mut(flag.name)
            .expect("every flag of the table has an entry");
        // Each use extends a list, except that the first one replaces the default.
        match (&mut entry.value, value) {
            (Value::List(old), Value::List(new)) | (Value::Gates(old), Value::Gates(new))
                if entry.given =>
            {
                old.extend(new)
            }
            (Value::Map(old), Value::Map(new)) if entry.given => old.extend(new),
            (old, new) => *old = new,
        }
        entry.given = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_names_are_unique() {
        let count = flags().count();
        assert_eq!(
            Options::default().entries.len(),
            count,
            "a name occurs twice"
        );
        // 148 flags in upstream's help, 1 of its next release, 2 that it hides, 6 of Steersman.
        assert_eq!(count, 157);
        let hidden = table::SECTIONS
            .iter()
            .filter(|(title, _)| title.is_empty())
            .flat_map(|(_, flags)| *flags)
            .count();
        assert_eq!(hidden, 2);
    }

    #[test]
    fn flags_of_the_cloud_loops_matter_only_beside_these_loops() {
        let mut options = Options::default();
        options.set("concurrent-service-syncs", "0").unwrap();
        let idle = options.without_workers(|name| name == "service-lb-controller");
        assert_eq!(idle, [("concurrent-service-syncs", 0)]);
        assert_eq!(options.without_workers(|_| false), []);
        assert_eq!(options.without_effect(|_| false), [""; 0]);
    }
}
