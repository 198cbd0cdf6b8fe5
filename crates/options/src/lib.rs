//! The flags of the manager: one table of names, types and defaults, and their values.
//!
//! text -> value.rs (types, Go's rules and words) -> [`Options`] -> the manager's configuration,
//! and the controllers
//!
//! The flags are a table (table.rs) and no clap structs, because everything users see has to equal
//! upstream: one-word list defaults, `--flag=false`, `_` for `-`, and the words of each error. The
//! manager and its controllers read their flags from the same [`Options`], so that no default
//! stands in two places; a name that is not in the table panics where a controller is built.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod csv;
pub mod duration;
mod error;
mod table;
mod value;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

pub use error::{UsageError, short_of};
pub use table::SECTIONS;
pub use value::{Value, bool as go_bool};

use crate::duration::GoDuration;

/// Type of a flag's value, named as help shows it.
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

/// What giving a flag does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// What it says.
    Live,
    /// Nothing, as in upstream or because there is nothing to do.
    Moot,
    /// Nothing yet.
    Inert,
    /// What it says, once this controller exists.
    Of(&'static str),
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Without dashes.
    pub name: &'static str,
    /// Type of its value.
    pub kind: Kind,
    /// As typed on a command line; lists without brackets.
    pub default: &'static str,
    /// What giving it does.
    pub effect: Effect,
    /// One line for `--help`.
    pub help: &'static str,
}

/// Every flag, in the order of the table.
pub fn flags() -> impl Iterator<Item = &'static Flag> {
    table::SECTIONS.iter().flat_map(|(_, flags)| flags.iter())
}

/// The flag of this name.
pub fn find(name: &str) -> Option<&'static Flag> {
    flags().find(|flag| flag.name == name)
}

#[derive(Debug, Clone)]
struct Entry {
    flag: &'static Flag,
    value: Value,
    given: bool,
}

/// The value of every flag, typed or default.
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
        /// The value of `flag`, which the table must have with this type.
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
    getter!(text, Text, String);
    getter!(list, List, Vec<String>);
    getter!(gates, Gates, Vec<String>);
    getter!(map, Map, BTreeMap<String, String>);
    getter!(ip, Ip, IpAddr);

    /// A number of workers; none below one, as with upstream's loops.
    pub fn workers(&self, flag: &str) -> usize {
        usize::try_from(self.int(flag)).unwrap_or(0)
    }

    /// A duration for timers; a negative one is none.
    pub fn time(&self, flag: &str) -> Duration {
        self.duration(flag).to_std()
    }

    /// The value of `flag`, which the table must have.
    pub fn value(&self, flag: &str) -> &Value {
        let entry = self.entries.get(flag);
        &entry
            .unwrap_or_else(|| unreachable!("--{flag} is not in the table"))
            .value
    }

    /// Name and printed value of every flag, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.entries
            .iter()
            .map(|(name, entry)| (*name, entry.value.to_string()))
    }

    /// Names of the flags that were typed although nothing here heeds them yet, sorted.
    pub fn without_effect(&self, has_controller: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let idle = |effect| match effect {
            Effect::Live | Effect::Moot => false,
            Effect::Inert => true,
            Effect::Of(controller) => !has_controller(controller),
        };
        self.entries
            .values()
            .filter(|e| e.given && idle(e.flag.effect))
            .map(|e| e.flag.name)
            .collect()
    }

    /// The flags that leave a controller which runs without workers, with their values, sorted.
    pub fn without_workers(&self, is_enabled: impl Fn(&str) -> bool) -> Vec<(&'static str, i64)> {
        let is_count =
            |flag: &Flag| flag.name.starts_with("concurrent-") && flag.name.ends_with("-syncs");
        let of_enabled =
            |flag: &Flag| matches!(flag.effect, Effect::Of(controller) if is_enabled(controller));
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

    /// Sets one flag as if it had been typed; for tests and for programs that embed the manager.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), UsageError> {
        let flag = find(name).ok_or_else(|| UsageError::unknown_flag(name))?;
        self.set_flag(flag, text)
    }

    /// Sets a flag of the table; `text` is read by its kind.
    pub fn set_flag(&mut self, flag: &'static Flag, text: &str) -> Result<(), UsageError> {
        let value = Value::parse(flag.kind, text)
            .map_err(|reason| UsageError::invalid(flag, text, &reason))?;
        let entry = self
            .entries
            .get_mut(flag.name)
            .expect("every flag of the table has an entry");
        // A list grows with each use; the first one replaces the default.
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
    fn every_default_of_the_table_is_valid_and_every_name_is_used_once() {
        let count = flags().count();
        assert_eq!(
            Options::default().entries.len(),
            count,
            "a name is there twice"
        );
        // 148 flags that upstream's help shows, 2 that it hides, 5 of our own.
        assert_eq!(count, 155);
        let hidden = table::SECTIONS
            .iter()
            .filter(|(title, _)| title.is_empty())
            .flat_map(|(_, flags)| *flags)
            .count();
        assert_eq!(hidden, 2);
    }
}
