//! Parses the command line with the syntax of upstream's flag library (`spf13/pflag`).
//!
//! Messages equal upstream's, because scripts and users know them.

use steersman_options::{Flag, Kind, Options, UsageError, find, flags, go_bool, short_of};
use steersman_releases::Release;

use crate::version;

/// The action that the command line requests.
#[derive(Debug)]
pub enum Command {
    /// Print the help, with the flags and gates of the emulated release if one was named.
    Help(Option<Release>),
    /// Print this version text.
    Version(String),
    /// Run the manager with these options.
    Run(Box<Options>),
}

/// The value of a flag without an argument; `None` if the flag requires one.
fn alone(flag: &Flag) -> Option<&'static str> {
    matches!(flag.kind, Kind::Bool | Kind::Version).then_some("true")
}

/// Deprecated flags and their warnings; they still work.
const DEPRECATED: &[(&str, &str)] = &[
    (
        "allow-untagged-cloud",
        "This flag is deprecated and will be removed in a future release. A cluster-id will be required on cloud instances.",
    ),
    (
        "node-sync-period",
        "This flag is currently no-op and will be deleted.",
    ),
];

/// Parses `arguments` (without the program's name). Calls `warn` with each warning about a
/// deprecated flag.
pub fn parse<I>(arguments: I, mut warn: impl FnMut(String)) -> Result<Command, UsageError>
where
    I: IntoIterator<Item = String>,
{
    let mut reader = Reader {
        arguments: arguments.into_iter(),
        options: Options::default(),
        positional: Vec::new(),
        warn: &mut warn,
    };
    while let Some(argument) = reader.arguments.next() {
        if argument == "--" {
            reader.positional.extend(reader.arguments.by_ref());
        } else if let Some(long) = argument.strip_prefix("--") {
            reader.long(long)?;
        } else if argument.len() > 1 && argument.starts_with('-') {
            reader.short(&argument[1..])?;
        } else {
            reader.positional.push(argument);
        }
    }
    let Reader {
        options,
        positional,
        ..
    } = reader;
    if options.bool("help") {
        let named = options.list("emulated-version");
        let named = named
            .last()
            .map(|item| item.rsplit('=').next().unwrap_or(item));
        return Ok(Command::Help(named.and_then(|text| text.parse().ok())));
    }
    if !positional.is_empty() {
        let list = positional
            .iter()
            .map(|p| format!("{p:?}"))
            .collect::<Vec<_>>()
            .join(" ");
        let text = format!(
            "{:?} does not take any arguments, got [{list}]",
            version::COMPONENT
        );
        return Err(UsageError::plain(text));
    }
    match options.text("version").as_str() {
        "raw" => Ok(Command::Version(version::raw())),
        text if text.starts_with('v') => Ok(Command::Version(format!("Kubernetes {text}"))),
        text if go_bool(text) == Ok(true) => Ok(Command::Version(format!(
            "Kubernetes {}",
            version::GIT_VERSION
        ))),
        _ => Ok(Command::Run(Box::new(options))),
    }
}

/// The state of the parser.
struct Reader<'a, I> {
    arguments: I,
    options: Options,
    positional: Vec<String>,
    warn: &'a mut dyn FnMut(String),
}

impl<I: Iterator<Item = String>> Reader<'_, I> {
    /// Parses `name`, `name=value` or `name value` after two dashes.
    fn long(&mut self, text: &str) -> Result<(), UsageError> {
        if text.starts_with(['-', '=']) {
            return Err(UsageError::flag(format!("bad flag syntax: --{text}")));
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let flag = find(&name.replace('_', "-")).ok_or_else(|| UsageError::unknown_flag(name))?;
        let value = value
            .or_else(|| alone(flag).map(str::to_owned))
            .or_else(|| self.arguments.next());
        let value =
            value.ok_or_else(|| UsageError::flag(format!("flag needs an argument: --{name}")))?;
        self.set(flag, &value)
    }

    /// Parses `v=3`, `v3`, `v 3`, or several flags without arguments, after one dash.
    fn short(&mut self, mut text: &str) -> Result<(), UsageError> {
        while let Some(letter) = text.chars().next() {
            let known = flags().find(|flag| short_of(flag) == Some(letter));
            let flag = known.ok_or_else(|| {
                UsageError::flag(format!("unknown shorthand flag: {letter:?} in -{text}"))
            })?;
            let rest = &text[letter.len_utf8()..];
            let (value, left) = if let Some(value) =
                rest.strip_prefix('=').filter(|value| !value.is_empty())
            {
                (value.to_owned(), "")
            } else if let Some(value) = alone(flag) {
                (value.to_owned(), rest)
            } else if !rest.is_empty() {
                (rest.to_owned(), "")
            } else {
                let needs =
                    || UsageError::flag(format!("flag needs an argument: {letter:?} in -{text}"));
                (self.arguments.next().ok_or_else(needs)?, "")
            };
            self.set(flag, &value)?;
            text = left;
        }
        Ok(())
    }

    /// Sets a flag, and warns if it is deprecated.
    fn set(&mut self, flag: &'static Flag, text: &str) -> Result<(), UsageError> {
        if flag.kind == Kind::Version {
            check_version(text).map_err(|reason| UsageError::invalid(flag, text, &reason))?;
        }
        self.options.set_flag(flag, text)?;
        if let Some((name, advice)) = DEPRECATED.iter().find(|(name, _)| *name == flag.name) {
            (self.warn)(format!("Flag --{name} has been deprecated, {advice}"));
        }
        Ok(())
    }
}

/// Checks a value of `--version`: a bool, `raw`, or a spelling of the release that Steersman
/// equals.
fn check_version(text: &str) -> Result<(), String> {
    if text == "raw" {
        return Ok(());
    }
    if text.starts_with('v') {
        let same = text
            .strip_prefix(version::GIT_VERSION)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '+']));
        let differs = || {
            format!(
                "version {text:?} must have the same major.minor.patch as {:?}",
                version::GIT_VERSION
            )
        };
        return same.then_some(()).ok_or_else(differs);
    }
    go_bool(text).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Command, UsageError> {
        parse(arguments.iter().map(|a| (*a).to_owned()), |_| {})
    }

    fn options(arguments: &[&str]) -> Options {
        match read(arguments) {
            Ok(Command::Run(options)) => *options,
            other => panic!("{arguments:?} gave {other:?}"),
        }
    }

    #[test]
    fn values_can_be_given_in_every_spelling() {
        // (arguments, flag, printed value)
        let cases: [(&[&str], &str, &str); 17] = [
            (&[], "leader-elect", "true"),
            (&["--leader-elect=false"], "leader-elect", "false"),
            (
                &["--leader-elect=f", "--leader-elect"],
                "leader-elect",
                "true",
            ),
            (&["--leader_elect=0"], "leader-elect", "false"),
            (&["--kube-api-qps", "50"], "kube-api-qps", "50"),
            (
                &["--kube-api-qps=1", "--kube-api-qps=2"],
                "kube-api-qps",
                "2",
            ),
            (&["--kube-api-qps", "-1"], "kube-api-qps", "-1"),
            (&["--min-resync-period=90m"], "min-resync-period", "1h30m0s"),
            (
                &["--controllers=a,b", "--controllers=-c"],
                "controllers",
                "[a,b,-c]",
            ),
            (&["--controllers="], "controllers", "[]"),
            (
                &["--authorization-always-allow-paths=/x"],
                "authorization-always-allow-paths",
                "[/x]",
            ),
            (&["-v3"], "v", "3"),
            (&["-v=3"], "v", "3"),
            (&["-v", "3"], "v", "3"),
            (&["--v", "3"], "v", "3"),
            (&["--kubeconfig="], "kubeconfig", ""),
            (
                &["--cluster-signing-cert-file", "/a b"],
                "cluster-signing-cert-file",
                "/a b",
            ),
        ];
        for (arguments, flag, printed) in cases {
            assert_eq!(
                options(arguments).value(flag).to_string(),
                printed,
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn invalid_command_lines_are_refused_with_upstreams_messages() {
        let cases: [(&[&str], &str, bool); 12] = [
            (&["--leader-elekt"], "unknown flag: --leader-elekt", true),
            (
                &["--no-leader-elect"],
                "unknown flag: --no-leader-elect",
                true,
            ),
            (&["--Leader-Elect"], "unknown flag: --Leader-Elect", true),
            (&["--port=0"], "unknown flag: --port", true),
            (&["-x"], "unknown shorthand flag: 'x' in -x", true),
            (&["--=x"], "bad flag syntax: --=x", true),
            (
                &["--kubeconfig"],
                "flag needs an argument: --kubeconfig",
                true,
            ),
            (&["-v"], "flag needs an argument: 'v' in -v", true),
            (
                &["--leader-elect=no"],
                r#"invalid argument "no" for "--leader-elect" flag: strconv.ParseBool: parsing "no": invalid syntax"#,
                true,
            ),
            (
                &["-v", "high"],
                r#"invalid argument "high" for "-v, --v" flag: strconv.ParseUint: parsing "high": invalid syntax"#,
                true,
            ),
            (
                &["--leader-elect-lease-duration=15"],
                r#"invalid argument "15" for "--leader-elect-lease-duration" flag: time: missing unit in duration "15""#,
                true,
            ),
            (
                &["--leader-elect", "false"],
                r#""kube-controller-manager" does not take any arguments, got ["false"]"#,
                false,
            ),
        ];
        for (arguments, text, usage) in cases {
            let error = read(arguments).unwrap_err();
            assert_eq!(
                (error.to_string().as_str(), error.show_usage),
                (text, usage),
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn a_misspelled_flag_leads_to_a_suggestion() {
        let cases = [
            ("leader-elekt", Some("leader-elect")),
            ("kubeconfg", Some("kubeconfig")),
            ("zzzz", None),
        ];
        for (typed, meant) in cases {
            assert_eq!(UsageError::unknown_flag(typed).suggestion, meant, "{typed}");
        }
    }

    #[test]
    fn help_and_version_take_precedence_over_running() {
        assert!(matches!(read(&["-h", "x"]), Ok(Command::Help(None))));
        let named = read(&["--emulated-version=kube=1.34", "-h"]);
        assert!(matches!(named, Ok(Command::Help(Some(release))) if release.minor() == 34));
        assert!(matches!(read(&["--version=false"]), Ok(Command::Run(_))));
        for (flag, text) in [
            ("--version", "Kubernetes v1.36.2"),
            ("--version=v1.36.2-mine", "Kubernetes v1.36.2-mine"),
        ] {
            match read(&[flag]) {
                Ok(Command::Version(printed)) => assert_eq!(printed, text),
                other => panic!("{other:?}"),
            }
        }
        assert!(read(&["--version=v2.0.0"]).is_err());
    }

    #[test]
    fn deprecated_flags_work_with_a_warning() {
        let mut lines = Vec::new();
        let read = parse(["--node-sync-period=3s".to_owned()], |line| {
            lines.push(line)
        })
        .unwrap();
        assert!(matches!(read, Command::Run(o) if o.value("node-sync-period").to_string() == "3s"));
        assert_eq!(
            lines,
            [
                "Flag --node-sync-period has been deprecated, This flag is currently no-op and will be deleted."
            ]
        );
    }
}
