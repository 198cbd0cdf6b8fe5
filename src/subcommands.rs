//! The program `steersman`: the manager, or a subcommand such as `steersman dev`.

use std::process::ExitCode;

use crate::command::{print, run_beside};
#[cfg(feature = "dev")]
use crate::dev;
use crate::registry::ControllerRegistry;
use crate::summaries::{HELP, VERSION};
use crate::{check, shadow, ui, version, why};

/// Runs a subcommand with its arguments.
type Run = fn(Vec<String>) -> ExitCode;

/// The functions of the subcommands of every build that have arguments.
const COMMANDS: [(&str, Run); 4] = [
    ("check", check::run),
    ("shadow", shadow::run),
    ("ui", ui::command::run),
    ("why", why::command::run),
];

/// The name of the program as a plug-in of kubectl.
const PLUGIN: &str = "kubectl-why";

/// Subcommands that exist only in builds with the feature `dev`.
const DEV_COMMANDS: [&str; 6] = [
    "apiserver",
    "assets",
    "completion",
    "dev",
    "manual",
    "nodes",
];

/// Runs the program with `arguments` (without its name): a subcommand, or the manager with the
/// built-in controllers.
pub fn main(arguments: Vec<String>) -> ExitCode {
    let Some((name, rest)) = arguments
        .split_first()
        .filter(|(name, _)| !name.is_empty() && !name.starts_with('-'))
    else {
        return run_beside(arguments, ControllerRegistry::builtin(), &commands());
    };
    match name.as_str() {
        "help" => help(rest),
        "version" => show_version(rest),
        _ => match run_command(name, rest) {
            Some(code) => code,
            None if is_unknown(name) => ExitCode::FAILURE,
            // Upstream treats any other word as an unexpected argument.
            None => run_beside(arguments, ControllerRegistry::builtin(), &commands()),
        },
    }
}

/// Runs the program under the name `program`: the plug-in of kubectl, a program of `steersman
/// assets`, or [`main`].
pub fn main_as(program: &str, arguments: Vec<String>) -> ExitCode {
    let name = std::path::Path::new(program).file_stem();
    if name.is_some_and(|name| name == PLUGIN) {
        return why::command::run(arguments);
    }
    #[cfg(feature = "dev")]
    if let Some((_, run)) = dev::assets::PROGRAMS
        .iter()
        .find(|(known, _)| name.is_some_and(|name| name == *known))
    {
        return run(arguments);
    }
    main(arguments)
}

/// Names and summaries of the subcommands in the help text, sorted by name.
fn commands() -> Vec<(&'static str, &'static str)> {
    #[cfg(feature = "dev")]
    return dev::commands();
    #[cfg(not(feature = "dev"))]
    crate::summaries::OF_EVERY_BUILD.to_vec()
}

/// Runs the subcommand `name`; `None` if there is no such subcommand.
fn run_command(name: &str, arguments: &[String]) -> Option<ExitCode> {
    let own = COMMANDS.iter().find(|(known, _)| *known == name);
    match own {
        Some((_, run)) => Some(run(arguments.to_vec())),
        None => run_dev_command(name, arguments),
    }
}

/// Runs the development subcommand `name`; `None` if there is no such subcommand.
fn run_dev_command(name: &str, arguments: &[String]) -> Option<ExitCode> {
    #[cfg(feature = "dev")]
    if let Some(command) = dev::SUBCOMMANDS.iter().find(|known| known.name == name) {
        return Some((command.run)(arguments.to_vec()));
    }
    #[cfg(not(feature = "dev"))]
    let _ = arguments;
    if DEV_COMMANDS.contains(&name) {
        complain!(
            "Error: this build of steersman is without the command {name:?}; build it with the feature dev"
        );
        return Some(ExitCode::FAILURE);
    }
    None
}

/// Prints a suggestion if `name` resembles a subcommand. Returns whether it does.
fn is_unknown(name: &str) -> bool {
    let Some(meant) = nearest(name) else {
        return false;
    };
    complain!("Error: unknown command {name:?} for \"steersman\"\nDid you mean {meant}?");
    true
}

/// The most similar subcommand, within an edit distance of a quarter of its length.
fn nearest(name: &str) -> Option<&'static str> {
    let distance = |command: &str| strsim::damerau_levenshtein(name, command);
    let names = commands()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|command| distance(command) <= (command.len() / 4).max(1));
    names.min_by_key(|command| distance(command))
}

/// `steersman help [command]`.
fn help(arguments: &[String]) -> ExitCode {
    let Some((name, _)) = arguments.split_first() else {
        return run_beside(
            vec!["--help".to_owned()],
            ControllerRegistry::builtin(),
            &commands(),
        );
    };
    let own = [HELP, VERSION].into_iter().find(|(known, _)| known == name);
    if let Some((name, about)) = own {
        return print(&format!(
            "{about}\n\nUsage: steersman {name}{}\n",
            if name == "help" { " [command]" } else { "" }
        ));
    }
    run_command(name, &["--help".to_owned()]).unwrap_or_else(|| {
        if !is_unknown(name) {
            let names: Vec<&str> = commands().into_iter().map(|(name, _)| name).collect();
            complain!(
                "Error: unknown command {name:?} for \"steersman\"; there are {}",
                names.join(", ")
            );
        }
        ExitCode::FAILURE
    })
}

/// `steersman version`.
fn show_version(arguments: &[String]) -> ExitCode {
    match arguments.first().map(String::as_str) {
        None => print(&format!(
            "Steersman v{}\nKubernetes {}\n",
            version::STEERSMAN,
            version::GIT_VERSION
        )),
        Some("-h" | "--help") => help(&[VERSION.0.to_owned()]),
        Some(other) => {
            complain!("Error: \"steersman version\" takes no argument, got {other:?}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_subcommand_leads_to_a_suggestion() {
        for (typed, meant) in [
            ("verison", Some("version")),
            ("halp", Some("help")),
            ("leader", None),
            ("x", None),
        ] {
            assert_eq!(nearest(typed), meant, "{typed}");
        }
    }

    #[cfg(feature = "dev")]
    #[test]
    fn builds_without_the_feature_know_the_names_of_dev_subcommands() {
        assert_eq!(dev::SUBCOMMANDS.map(|command| command.name), DEV_COMMANDS);
        assert_eq!(
            (nearest("aplserver"), nearest("dew"), nearest("node")),
            (Some("apiserver"), Some("dev"), Some("nodes"))
        );
    }
}
