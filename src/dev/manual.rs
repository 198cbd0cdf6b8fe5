//! `steersman manual`: the manual pages, for packages. The help text does not list the command.
//!
//! table of flags, arguments of subcommands -> [`program`] -> pages, and completion scripts

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, Command, CommandFactory, Parser, ValueHint};
use clap_mangen::Man;
use steersman_options::{Flag, Kind, SECTIONS, short_of};

use super::{SUBCOMMANDS, commands};
use crate::help;
use crate::registry::ControllerRegistry;
use crate::version::{COMPONENT, STEERSMAN};

/// Writes the manual pages of the program and of the manager to a folder.
#[derive(Debug, Parser)]
#[command(
    name = "steersman manual",
    bin_name = "steersman manual",
    disable_version_flag = true
)]
struct ManualArgs {
    /// The folder, which has to exist.
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

/// The arguments of the subcommand.
pub(super) fn arguments() -> Command {
    ManualArgs::command()
}

/// Runs the subcommand, and returns its exit code.
pub(super) fn run(arguments: Vec<String>) -> ExitCode {
    let args: ManualArgs = match super::parse("manual", arguments) {
        Ok(args) => args,
        Err(code) => return code,
    };
    match write_to(&args.folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::fail(format!(
            "cannot write the manual pages to {}: {error}",
            args.folder.display()
        )),
    }
}

fn write_to(folder: &Path) -> io::Result<()> {
    for (name, page) in pages()? {
        std::fs::write(folder.join(name), page)?;
    }
    Ok(())
}

/// All pages by the names of their files: the program, the manager alone, and each subcommand with
/// arguments.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut program = program();
    program.build();
    let mut pages = Vec::new();
    for command in program.get_subcommands() {
        if SUBCOMMANDS
            .iter()
            .any(|known| known.name == command.get_name())
        {
            let mut page = Vec::new();
            Man::new(command.clone()).render(&mut page)?;
            pages.push((format!("steersman-{}.1", command.get_name()), page));
        }
    }
    let forms = "\\fBsteersman\\fR [\\fIflags\\fR]\n.br\n\\fBsteersman\\fR [\\fIcommand\\fR]\n";
    pages.push(("steersman.1".to_owned(), page_of_manager(program, forms)?));
    let form = format!("\\fB{COMPONENT}\\fR [\\fIflags\\fR]\n");
    let page = page_of_manager(manager(COMPONENT), &form)?;
    pages.push((format!("{COMPONENT}.1"), page));
    Ok(pages)
}

/// A page with the flags of the manager. The synopsis of `clap_mangen` would name all 150.
fn page_of_manager(command: Command, synopsis: &str) -> io::Result<Vec<u8>> {
    let man = Man::new(command);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    write!(page, ".SH SYNOPSIS\n{synopsis}")?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    man.render_subcommands_section(&mut page)?;
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// The whole program with its subcommands, as `clap` describes programs.
pub(super) fn program() -> Command {
    let described = |(name, about): (&'static str, &'static str)| {
        let known = SUBCOMMANDS.iter().find(|command| command.name == name);
        match known {
            Some(command) => (command.arguments)().name(name),
            None => Command::new(name).about(about).disable_help_flag(true),
        }
    };
    manager("steersman").subcommands(commands().into_iter().map(described))
}

/// The manager with the flags of the table, under the name `name`.
fn manager(name: &'static str) -> Command {
    let registry = ControllerRegistry::builtin();
    let sections = SECTIONS.iter().filter(|(title, _)| !title.is_empty());
    let flags = sections.flat_map(|(title, flags)| flags.iter().map(move |flag| (title, flag)));
    Command::new(name)
        .about("The Kubernetes controller manager, in Rust")
        .long_about(help::ABOUT)
        .version(STEERSMAN)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .args(flags.map(|(title, flag)| argument(title, flag, &registry)))
}

/// A flag of the table.
fn argument(title: &str, flag: &'static Flag, registry: &ControllerRegistry) -> Arg {
    let argument = Arg::new(flag.name)
        .long(flag.name)
        .help(help::right(None, flag, registry))
        .help_heading(format!("{title} flags"));
    let argument = match short_of(flag) {
        Some(short) => argument.short(short),
        None => argument,
    };
    match help::kind(flag) {
        // `--version` alone is valid, too, and so is how people use it.
        Some(_) if flag.kind == Kind::Version => argument.action(ArgAction::SetTrue),
        Some(kind) => argument.value_name(kind).value_hint(hint(flag.name)),
        None => argument.action(ArgAction::SetTrue),
    }
}

/// The kind of value that a shell completes, from the name of the flag.
fn hint(name: &str) -> ValueHint {
    if name.ends_with("-file") || name.ends_with("kubeconfig") || name.ends_with("-config") {
        ValueHint::FilePath
    } else if name.ends_with("-dir") {
        ValueHint::DirPath
    } else {
        ValueHint::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_all_listed_commands_and_flags() {
        let mut program = program();
        program.build();
        let names: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
        let listed: Vec<&str> = commands().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, listed);
        let hidden = SECTIONS
            .iter()
            .filter(|(title, _)| title.is_empty())
            .map(|(_, flags)| flags.len())
            .sum::<usize>();
        let flags = program
            .get_arguments()
            .filter(|argument| argument.get_long().is_some())
            .count();
        assert_eq!(flags, steersman_options::flags().count() - hidden);
        program.debug_assert();
    }

    #[test]
    fn each_command_with_arguments_has_a_page() {
        let pages = pages().unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "steersman-apiserver.1",
                "steersman-assets.1",
                "steersman-completion.1",
                "steersman-dev.1",
                "steersman-nodes.1",
                "steersman.1",
                "kube-controller-manager.1"
            ]
        );
        for (name, page) in &pages {
            let text = String::from_utf8_lossy(page);
            let title = name.trim_end_matches(".1");
            assert!(text.contains(&format!(".TH {title} 1")), "{name}: {text}");
        }
        let manager = String::from_utf8_lossy(&pages[6].1);
        let synopsis = ".SH SYNOPSIS\n\\fBkube-controller-manager\\fR [\\fIflags\\fR]\n.ie";
        for part in [synopsis, ".SH \"SECURE SERVING FLAGS\"", "leader\\-elect"] {
            assert!(manager.contains(part), "{part:?} is missing in:\n{manager}");
        }
    }

    #[test]
    fn flags_that_name_files_complete_paths() {
        for (name, expected) in [
            ("kubeconfig", ValueHint::FilePath),
            ("authorization-kubeconfig", ValueHint::FilePath),
            ("root-ca-file", ValueHint::FilePath),
            ("cert-dir", ValueHint::DirPath),
            ("leader-elect-resource-name", ValueHint::Other),
        ] {
            assert_eq!(hint(name), expected, "{name}");
        }
    }
}
