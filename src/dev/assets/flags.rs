//! Command lines of the real programs. Each flag of theirs is known, so that an unknown one is an
//! error as with them.

use std::collections::BTreeMap;

/// How a program writes its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// kube-apiserver, by pflag: `--flag value`, and `-v value`.
    Posix,
    /// etcd, by Go's package flag: `-flag value` too.
    Go,
}

/// A line of a table of flags: the name, and the type of the value. Flags without a type are
/// switches: `--flag`, or `--flag=false`.
fn lines(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    table
        .lines()
        .map(|line| line.split_once(' ').unwrap_or((line, "")))
}

/// The given flags, by name, with all their values.
#[derive(Debug, Default)]
pub(super) struct Given(BTreeMap<&'static str, Vec<String>>);

impl Given {
    /// The last value of a flag, which counts for most flags.
    pub(super) fn last(&self, flag: &str) -> Option<&str> {
        self.all(flag).last().map(String::as_str)
    }

    /// All values of a flag that can be repeated, in order.
    pub(super) fn all(&self, flag: &str) -> &[String] {
        self.0.get(flag).map_or(&[], Vec::as_slice)
    }

    /// The names of the given flags, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }

    /// Adds a value of a flag.
    pub(super) fn add(&mut self, flag: &'static str, value: String) {
        self.0.entry(flag).or_default().push(value);
    }
}

/// A command line that the real program refuses, in its words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlagError {
    #[error("unknown flag: --{0}")]
    Unknown(String),
    #[error("flag provided but not defined: -{0}")]
    Undefined(String),
    #[error("flag needs an argument: --{0}")]
    Valueless(String),
    #[error("{0:?} does not take any arguments, got [{1:?}]")]
    Argument(&'static str, String),
}

/// Reads the command line of `program` by the table of its flags.
pub(super) fn parse(
    program: &'static str,
    table: &'static str,
    style: Style,
    arguments: Vec<String>,
) -> Result<Given, FlagError> {
    let mut given = Given::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let flag = argument.strip_prefix("--").or_else(|| {
            let short = argument.strip_prefix('-')?;
            (style == Style::Go || short.starts_with(['v', 'h'])).then_some(short)
        });
        let Some(flag) = flag.filter(|flag| !flag.is_empty()) else {
            return Err(FlagError::Argument(program, argument));
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        let name = if name == "h" { "help" } else { name };
        let Some((name, kind)) = lines(table).find(|(known, _)| *known == name) else {
            let name = name.to_owned();
            return Err(match style {
                Style::Posix => FlagError::Unknown(name),
                Style::Go => FlagError::Undefined(name),
            });
        };
        let value = match value {
            Some(value) => value,
            None if kind.is_empty() || kind == "bool" => "true".to_owned(),
            None => {
                let value = arguments.next();
                value.ok_or_else(|| FlagError::Valueless(name.to_owned()))?
            }
        };
        given.add(name, value);
    }
    Ok(given)
}

/// The help text: a line for each flag. Frameworks search it for names of flags.
pub(super) fn help(about: &str, program: &str, table: &'static str) -> String {
    let flags =
        lines(table).map(|(name, kind)| format!("      --{name} {kind}").trim_end().to_owned());
    let flags: Vec<String> = flags.collect();
    format!(
        "{about}\n\nUsage:\n  {program} [flags]\n\nFlags:\n{}\n",
        flags.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "allow-privileged\nhelp\nsecure-port int\nunsafe-no-fsync bool\nv Level";

    fn read(style: Style, line: &str) -> Result<String, String> {
        let arguments = line.split_whitespace().map(str::to_owned).collect();
        let given = parse("server", TABLE, style, arguments);
        let shown = |given: Given| {
            let flags = given
                .names()
                .map(|name| format!("{name}={}", given.all(name).join("+")));
            flags.collect::<Vec<_>>().join(" ")
        };
        given.map(shown).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_have_the_forms_of_the_real_programs() {
        let ok = |text: &str| Ok(text.to_owned());
        let err = |text: &str| Err(text.to_owned());
        let cases = [
            (
                Style::Posix,
                "--secure-port=1 --allow-privileged",
                ok("allow-privileged=true secure-port=1"),
            ),
            (Style::Posix, "-v 4 -v=5", ok("v=4+5")),
            (
                Style::Posix,
                "--secure-port 1 -v 4",
                ok("secure-port=1 v=4"),
            ),
            (
                Style::Posix,
                "--allow-privileged=false -h",
                ok("allow-privileged=false help=true"),
            ),
            (
                Style::Posix,
                "--allow-privileged true",
                err("\"server\" does not take any arguments, got [\"true\"]"),
            ),
            (
                Style::Posix,
                "-secure-port 1",
                err("\"server\" does not take any arguments, got [\"-secure-port\"]"),
            ),
            (Style::Posix, "--bogus", err("unknown flag: --bogus")),
            (
                Style::Posix,
                "--secure-port",
                err("flag needs an argument: --secure-port"),
            ),
            (
                Style::Go,
                "-secure-port 1 --unsafe-no-fsync=true",
                ok("secure-port=1 unsafe-no-fsync=true"),
            ),
            (
                Style::Go,
                "-bogus",
                err("flag provided but not defined: -bogus"),
            ),
        ];
        for (style, line, expected) in cases {
            assert_eq!(read(style, line), expected, "{line}");
        }
    }

    #[test]
    fn help_lists_each_flag_at_the_start_of_a_line() {
        let help = help("A server.", "server", TABLE);
        assert!(help.contains("\n      --secure-port int\n"), "{help}");
        assert!(help.ends_with("      --v Level\n"), "{help}");
    }
}
