//! What the user typed: every flag of upstream, read with the exact rules and error texts of its flag library.
//!
//! arguments -> parse.rs (syntax) -> value.rs (types) -> [`Options`] -> `Config` (checked)
//!
//! The flags are a table (table.rs) rather than clap structs because what users see has to equal upstream: one-word list
//! defaults, `--flag=false`, `_` for `-`, and the words of each error. The structs of the controllers do use clap; they are
//! filled by [`Options::controller_config`].

mod csv;
mod help;
mod parse;
mod table;
mod value;

use std::collections::BTreeMap;
use std::net::IpAddr;

pub use help::{help, usage};
pub use parse::{Command, UsageError, parse};
pub use value::Value;
pub(crate) use value::bool as go_bool;

use crate::duration::GoDuration;

/// Type of a flag's value, named as help shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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
pub(crate) enum Effect {
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
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// As typed on a command line; lists without brackets.
    pub(crate) default: &'static str,
    pub(crate) effect: Effect,
    pub(crate) help: &'static str,
}

pub(crate) fn flags() -> impl Iterator<Item = &'static Flag> {
    table::SECTIONS.iter().flat_map(|(_, flags)| flags.iter())
}

fn find(name: &str) -> Option<&'static Flag> {
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
            let value = Value::parse(flag.kind, flag.default).expect("a default in the table is valid, which a test checks");
            (flag.name, Entry { flag, value, given: false })
        };
        Self { entries: flags().map(entry).collect() }
    }
}

macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty) => {
        pub(crate) fn $name(&self, flag: &str) -> $type {
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

    pub(crate) fn value(&self, flag: &str) -> &Value {
        let entry = self.entries.get(flag);
        &entry.unwrap_or_else(|| unreachable!("--{flag} is not in the table")).value
    }

    /// Name and printed value of every flag, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.entries.iter().map(|(name, entry)| (*name, entry.value.to_string()))
    }

    /// Names of the flags that were typed although nothing here heeds them yet, sorted.
    pub(crate) fn without_effect(&self, has_controller: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let idle = |effect| match effect {
            Effect::Live | Effect::Moot => false,
            Effect::Inert => true,
            Effect::Of(controller) => !has_controller(controller),
        };
        self.entries.values().filter(|e| e.given && idle(e.flag.effect)).map(|e| e.flag.name).collect()
    }

    /// The flags that leave a controller which runs without workers, with their values, sorted.
    pub(crate) fn without_workers(&self, is_enabled: impl Fn(&str) -> bool) -> Vec<(&'static str, i64)> {
        let is_count = |flag: &Flag| flag.name.starts_with("concurrent-") && flag.name.ends_with("-syncs");
        let of_enabled = |flag: &Flag| matches!(flag.effect, Effect::Of(controller) if is_enabled(controller));
        let counts = self.entries.values().map(|entry| entry.flag).filter(|flag| is_count(flag) && of_enabled(flag));
        counts.map(|flag| (flag.name, self.int(flag.name))).filter(|(_, count)| *count <= 0).collect()
    }

    /// Sets one flag as if it had been typed; for tests and for programs that embed the manager.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), UsageError> {
        let flag = find(name).ok_or_else(|| UsageError::unknown_flag(name))?;
        self.set_flag(flag, text)
    }

    fn set_flag(&mut self, flag: &'static Flag, text: &str) -> Result<(), UsageError> {
        let value = Value::parse(flag.kind, text).map_err(|reason| UsageError::invalid(flag, text, &reason))?;
        let entry = self.entries.get_mut(flag.name).expect("every flag of the table has an entry");
        // A list grows with each use; the first one replaces the default.
        match (&mut entry.value, value) {
            (Value::List(old), Value::List(new)) | (Value::Gates(old), Value::Gates(new)) if entry.given => old.extend(new),
            (Value::Map(old), Value::Map(new)) if entry.given => old.extend(new),
            (old, new) => *old = new,
        }
        entry.given = true;
        Ok(())
    }

    /// The flags of one controller, as the struct its crate defines. A flag of the struct that upstream does not have keeps its
    /// default.
    pub fn controller_config<C: clap::Args>(&self) -> C {
        let command = C::augment_args(clap::Command::new("controller").no_binary_name(true));
        let names: Vec<String> = command.get_arguments().filter_map(|a| a.get_long().map(str::to_owned)).collect();
        let known = names.iter().filter(|name| find(name).is_some());
        let typed = known.map(|name| format!("--{name}={}", self.value(name).argument()));
        let read = command.try_get_matches_from(typed).and_then(|matches| C::from_arg_matches(&matches));
        read.unwrap_or_else(|error| unreachable!("the table and a controller's struct disagree on a type: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_of_the_table_is_valid_and_every_name_is_used_once() {
        let count = flags().count();
        assert_eq!(Options::default().entries.len(), count, "a name is there twice");
        // 148 flags that upstream's help shows, 2 that it hides, 4 of our own.
        assert_eq!(count, 154);
        let hidden = table::SECTIONS.iter().filter(|(title, _)| title.is_empty()).flat_map(|(_, flags)| *flags).count();
        assert_eq!(hidden, 2);
    }

    #[test]
    fn a_controllers_struct_is_filled_from_the_table() {
        #[derive(clap::Args, Debug, PartialEq)]
        struct Workers {
            #[arg(long = "concurrent-deployment-syncs", default_value_t = 1, allow_negative_numbers = true)]
            deployments: i32,
            #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
            enable_garbage_collector: bool,
        }
        let mut options = Options::default();
        let expected = Workers { deployments: 5, enable_garbage_collector: true };
        assert_eq!(options.controller_config::<Workers>(), expected);
        options.set("concurrent-deployment-syncs", "-3").unwrap();
        options.set("enable-garbage-collector", "F").unwrap();
        let expected = Workers { deployments: -3, enable_garbage_collector: false };
        assert_eq!(options.controller_config::<Workers>(), expected);
    }
}
