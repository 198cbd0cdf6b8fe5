//! The output of `--help`: flags in sections, in upstream's layout (`k8s.io/component-base/cli`).

use std::fmt::Write;
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;
use steersman_options::{Flag, Kind, SECTIONS, Value, short_of};
use steersman_releases::Release;

use crate::features;
use crate::registry::ControllerRegistry;

pub(crate) const ABOUT: &str = "\
Steersman runs the control loops that Kubernetes ships with: it watches the shared state of the cluster through the API
server and makes changes that move the current state towards the desired state. It takes the flags of
kube-controller-manager, and takes its place.
";

/// The least width of a column of text that is easy to read.
const LEAST: usize = 24;
/// Indent of texts below their flag, if there is no room beside it.
const BELOW: usize = 16;

/// The width of a terminal; `None` for a file or a pipe.
pub(crate) fn columns(output: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(output).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// The output of `--help`: flags, gates and controllers of `release`, or all flags. `commands` are names and summaries of
/// subcommands. With `columns`, texts are wrapped, as upstream does on a terminal.
pub(crate) fn help(
    release: Option<Release>,
    registry: &ControllerRegistry,
    commands: &[(&str, &str)],
    columns: Option<usize>,
) -> String {
    let about = match columns {
        Some(columns) => wrapped(&ABOUT.replace('\n', " "), 0, columns) + "\n",
        None => ABOUT.to_owned(),
    };
    let registry = release.map_or_else(|| registry.clone(), |release| registry.at(release));
    format!("{about}\n{}", listed(release, &registry, commands, columns))
}

/// The usage text, which is also printed before an error about a flag.
pub(crate) fn usage(
    registry: &ControllerRegistry,
    commands: &[(&str, &str)],
    columns: Option<usize>,
) -> String {
    listed(None, registry, commands, columns)
}

fn listed(
    release: Option<Release>,
    registry: &ControllerRegistry,
    commands: &[(&str, &str)],
    columns: Option<usize>,
) -> String {
    let mut text = "Usage:\n  steersman [flags]\n".to_owned();
    if !commands.is_empty() {
        text.push_str("  steersman [command]\n\nAvailable commands:\n\n");
        let width = commands
            .iter()
            .map(|(name, _)| name.len())
            .max()
            .unwrap_or(0);
        for (name, about) in commands {
            let about = match columns {
                Some(columns) => wrapped(about, width + 5, columns),
                None => (*about).to_owned(),
            };
            let _ = writeln!(text, "  {name:width$}   {about}");
        }
        text.push_str("\nUse \"steersman help [command]\" for more about a command.\n");
    }
    for (title, flags) in SECTIONS.iter().filter(|(title, _)| !title.is_empty()) {
        let is_shown = |flag: &&Flag| release.is_none_or(|release| release.has_flag(flag.name));
        let mut flags: Vec<&Flag> = flags.iter().filter(is_shown).collect();
        flags.sort_by_key(|flag| flag.name);
        let lines: Vec<(String, String)> = flags
            .iter()
            .map(|flag| (left(flag), right(release, flag, registry)))
            .collect();
        let width = lines.iter().map(|(left, _)| left.len()).max().unwrap_or(0);
        let _ = write!(text, "\n{title} flags:\n\n");
        for (left, right) in lines {
            let right = match columns {
                Some(columns) => wrapped(&right, width + 3, columns),
                None => right,
            };
            let _ = if right.starts_with('\n') {
                writeln!(text, "{left}{right}")
            } else {
                writeln!(text, "{left:width$}   {right}")
            };
        }
    }
    text
}

/// `text` in lines of at most `columns`, for a place that begins at column `indent`. Below it, if
/// too little room is beside it. Longer words stay whole.
fn wrapped(text: &str, indent: usize, columns: usize) -> String {
    let is_below = columns < indent + LEAST;
    let mut result = String::new();
    let mut indent = indent;
    if is_below {
        indent = BELOW;
        let _ = write!(result, "\n{:BELOW$}", "");
    }
    let mut at = indent;
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            let _ = write!(result, "\n{:indent$}", "");
            at = indent;
        }
        for word in line.split_whitespace() {
            let length = word.chars().count();
            if at > indent && at + 1 + length > columns {
                let _ = write!(result, "\n{:indent$}", "");
                at = indent;
            }
            if at > indent {
                result.push(' ');
                at += 1;
            }
            result.push_str(word);
            at += length;
        }
    }
    result
}

/// The left column: short form, name and type of the value.
fn left(flag: &Flag) -> String {
    let name = match short_of(flag) {
        Some(short) => format!("  -{short}, --{}", flag.name),
        None => format!("      --{}", flag.name),
    };
    match kind(flag) {
        Some(kind) => format!("{name} {kind}"),
        None => name,
    }
}

/// The type of the value in the help text; `None` for a switch.
pub(crate) fn kind(flag: &Flag) -> Option<&'static str> {
    let kind = match flag.kind {
        Kind::Bool => return None,
        Kind::Duration => "duration",
        Kind::Int32 => "int32",
        Kind::Int => "int",
        Kind::Float32 => "float32",
        Kind::Float => "float",
        Kind::String => "string",
        Kind::Strings => "strings",
        Kind::Ip => "ip",
        Kind::Int32Slice => "int32Slice",
        Kind::CertKeys => "namedCertKey",
        Kind::StringMap => "stringToString",
        Kind::Quantity => "quantity",
        Kind::Level => "Level",
        Kind::Vmodule => "pattern=N,...",
        Kind::Gates => "colonSeparatedMultimapStringString",
        Kind::Version => "version[=true]",
    };
    Some(kind)
}

/// The right column: help text and default, unless the default is the zero value of its type.
pub(crate) fn right(
    release: Option<Release>,
    flag: &Flag,
    registry: &ControllerRegistry,
) -> String {
    let mut text = flag.help.to_owned();
    if flag.kind == Kind::Gates {
        text.push_str("; these are:");
        features::help(release.unwrap_or(Release::DEFAULT))
            .for_each(|line| text.push_str(&format!("\n        {line}")));
    }
    if flag.name == "controllers" {
        let _ = write!(text, "\nAll controllers: {}", registry.names().join(", "));
        let _ = write!(
            text,
            "\nDisabled-by-default controllers: {}",
            registry.names_off_by_default().join(", ")
        );
        text = text.replace('\n', "\n        ");
    }
    let value = Value::parse(flag.kind, flag.default)
        .map(|value| value.to_string())
        .unwrap_or_default();
    match (flag.kind, value.as_str()) {
        // pflag takes an empty list of these kinds for a default.
        (Kind::CertKeys | Kind::StringMap | Kind::Int32Slice, _) => format!("{text} (default [])"),
        (_, "" | "0" | "0s" | "false" | "[]") => text,
        (Kind::String, value) => format!("{text} (default {value:?})"),
        (_, value) => format!("{text} (default {value})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_names_and_defaults_have_upstreams_layout() {
        let text = help(None, &ControllerRegistry::builtin(), &[], None);
        let expected = [
            "\nUsage:\n  steersman [flags]\n\nDebugging flags:\n\n",
            "\n      --leader-elect                                       run leader election before the controllers (default true)\n",
            "\n      --leader-elect-lease-duration duration               ",
            "\n  -v, --v Level                              log verbosity: 0 failures and leadership, 2 decisions, ",
            "\n  -h, --help                     print help, exit 0; short form -h\n",
            " (default \"kube-controller-manager\")\n",
            " pair chosen by SNI (default [])\n",
            " (default [/healthz,/readyz,/livez])\n",
            " (default [*])\n",
            "[component:]Gate=<bool>; these are:\n        kube:APIResponseCompression=true|false (BETA - default=true)\n",
        ];
        for part in expected {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
        assert!(
            !text.contains("--node-sync-period"),
            "a hidden flag is shown"
        );
        let text = usage(
            &ControllerRegistry::empty(),
            &[("a", "Begins."), ("bcd", "Ends.")],
            None,
        );
        assert!(
            text.contains(
                "\n  steersman [command]\n\nAvailable commands:\n\n  a     Begins.\n  bcd   Ends.\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_help_of_a_release_has_its_flags_and_gates() {
        let shown = |release: Option<&str>| {
            let release = release.map(|text| text.parse().unwrap());
            help(release, &ControllerRegistry::builtin(), &[], None)
        };
        let cases = [
            (None, true, "kube:NativeHistograms="),
            (
                Some("1.34"),
                false,
                "kube:ComponentFlagz=true|false (ALPHA - default=false)",
            ),
            (
                Some("1.36"),
                true,
                "kube:ComponentFlagz=true|false (BETA - default=true)",
            ),
        ];
        for (release, has_flag, gate) in cases {
            let text = shown(release);
            let found = text.contains("--concurrent-resourceclaim-syncs ");
            assert_eq!(found, has_flag, "{release:?}");
            assert!(text.contains(gate), "{release:?}");
        }
        let old = shown(Some("1.34"));
        assert!(
            !old.contains("NativeHistograms") && !old.contains("podgroup-protection-controller")
        );
        assert!(shown(None).contains("podgroup-protection-controller"));
    }

    #[test]
    fn on_a_terminal_no_line_is_wider() {
        let commands = [("check", "Says before a swap what would fail.")];
        for columns in [60, 80, 120] {
            let text = help(
                None,
                &ControllerRegistry::builtin(),
                &commands,
                Some(columns),
            );
            for line in text.lines().filter(|line| line.chars().count() > columns) {
                // A word such as the name of a gate has no place to break, and a flag stays beside its type.
                let is_flag = line.trim_start().starts_with("--");
                let most = if is_flag { 2 } else { 1 };
                assert!(line.split_whitespace().count() <= most, "{columns}: {line}");
            }
        }
        let wide = help(None, &ControllerRegistry::builtin(), &commands, None);
        let narrow = help(None, &ControllerRegistry::builtin(), &commands, Some(80));
        let words = |text: &str| {
            let words = text.split_whitespace().map(str::to_owned);
            words.collect::<Vec<_>>()
        };
        assert_eq!(words(&wide), words(&narrow));
    }

    #[test]
    fn texts_stand_beside_their_flag_or_below_it() {
        assert_eq!(wrapped("one two three", 4, 28), "one two three");
        assert_eq!(
            wrapped("aaaaaaaaaa bbbbbbbbbb cccccccccc\n   d", 4, 28),
            "aaaaaaaaaa bbbbbbbbbb\n    cccccccccc\n    d"
        );
        assert_eq!(
            wrapped("aaaaaaaaaa bbbbbbbbbb cccccccccc", 30, 40),
            "\n                aaaaaaaaaa bbbbbbbbbb\n                cccccccccc"
        );
    }
}
