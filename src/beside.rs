//! Arguments and output that the commands `check` and `shadow` share. Both take the flags of the
//! manager, and look at a cluster beside its present manager.

use std::fmt::Display;
use std::process::ExitCode;

use crate::command_line::{self, Command, Options};

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Lines for people.
    Text,
    /// JSON for programs.
    Json,
}

impl Output {
    /// Takes `-o` or `--output` out of `arguments`.
    pub(crate) fn take(arguments: &mut Vec<String>) -> Result<Self, String> {
        match take(arguments, &["-o", "--output"])?.as_deref() {
            None | Some("text") => Ok(Self::Text),
            Some("json") => Ok(Self::Json),
            Some(other) => Err(format!("--output: {other:?} is neither text nor json")),
        }
    }
}

/// Whether `arguments` ask for help.
pub(crate) fn asks_for_help(arguments: &[String]) -> bool {
    arguments
        .iter()
        .any(|argument| argument == "-h" || argument == "--help")
}

/// Takes the flag with one of `names` out of `arguments`, and returns its value: `--name=value`,
/// `--name value`, or `-nvalue`. The last one counts.
pub(crate) fn take(arguments: &mut Vec<String>, names: &[&str]) -> Result<Option<String>, String> {
    let mut found = None;
    let mut at = 0;
    while at < arguments.len() {
        let argument = &arguments[at];
        let value = names.iter().find_map(|name| {
            let rest = argument.strip_prefix(name)?;
            let is_short = name.len() == 2;
            match rest.strip_prefix('=') {
                Some(value) => Some(Some(value.to_owned())),
                None if rest.is_empty() => Some(None),
                None => is_short.then(|| Some(rest.to_owned())),
            }
        });
        let Some(value) = value else {
            at += 1;
            continue;
        };
        let name = arguments.remove(at);
        found = match value {
            Some(value) => Some(value),
            None if at < arguments.len() => Some(arguments.remove(at)),
            None => return Err(format!("flag needs an argument: {name}")),
        };
    }
    Ok(found)
}

/// Parses the flags of the manager; `None` if they ask for help or the version.
pub(crate) fn manager_options(arguments: Vec<String>) -> Result<Option<Options>, String> {
    match command_line::parse(arguments, |line| complain!("{line}")) {
        Ok(Command::Run(options)) => Ok(Some(*options)),
        Ok(Command::Help(_) | Command::Version(_)) => Ok(None),
        Err(error) => Err(match &error.suggestion {
            Some(flag) => format!("{error}\nDid you mean --{flag}?"),
            None => error.to_string(),
        }),
    }
}

/// Prints `error`, and returns the exit code of a failure.
pub(crate) fn fail(error: impl Display) -> ExitCode {
    complain!("Error: {error}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_taken_in_each_of_its_forms() {
        let cases = [
            ("-o json", Ok(Output::Json), ""),
            ("-ojson -v3", Ok(Output::Json), "-v3"),
            ("-o=text", Ok(Output::Text), ""),
            ("--output=json --outputs", Ok(Output::Json), "--outputs"),
            ("--output json -o text", Ok(Output::Text), ""),
            ("--v 2", Ok(Output::Text), "--v 2"),
        ];
        for (line, output, rest) in cases {
            let mut arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(Output::take(&mut arguments), output, "{line}");
            assert_eq!(arguments.join(" "), rest, "{line}");
        }
    }
}
