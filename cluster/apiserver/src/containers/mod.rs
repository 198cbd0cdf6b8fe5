//! The answers of simulated containers, from annotations of their pod: logs, commands, files, HTTP.
//!
//! annotations of a pod -> [`Container`] -> [`Program`] of a command, [`Page`] of a request
//!
//! The annotation `simulate.steersman.dev/exec.NAME` is that of the container NAME, and
//! `simulate.steersman.dev/exec` that of all others; `logs`, `files` and `http` likewise.
//! `docs/devcluster.md` has their format.

mod tar;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use tar::{pack, unpack};

/// Prefix of the annotations.
const PREFIX: &str = "simulate.steersman.dev/";
/// The annotations that give a container answers.
const ANNOTATIONS: [&str; 4] = ["logs", "exec", "files", "http"];

/// Files by path.
pub(crate) type Files = BTreeMap<String, Bytes>;

/// The files that clients wrote into containers, by the UID of the pod and the name of the container.
#[derive(Debug, Default)]
pub(crate) struct Disks(Mutex<HashMap<(String, String), Files>>);

impl Disks {
    /// Adds files to a container.
    pub(crate) fn write(&self, disk: &(String, String), files: Files) {
        let mut disks = self.0.lock();
        disks.entry(disk.clone()).or_default().extend(files);
    }

    fn read(&self, disk: &(String, String)) -> Files {
        self.0.lock().get(disk).cloned().unwrap_or_default()
    }
}

/// A container with the annotations of its pod.
pub(crate) struct Container<'a> {
    pod: &'a Value,
    name: &'a str,
}

/// A command with a fixed answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Canned {
    /// The first words of the command, with one space between two words.
    command: String,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    exit_code: i32,
}

/// The answer to an HTTP request.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Page {
    /// The path; a `*` at its end stands for any rest.
    path: String,
    /// The port; without it, the page is at every port.
    port: Option<u16>,
    /// The HTTP status.
    #[serde(default = "ok")]
    pub(crate) status: u16,
    /// `Content-Type`.
    #[serde(default = "plain")]
    pub(crate) content_type: String,
    /// The body.
    #[serde(default)]
    pub(crate) body: String,
}

fn ok() -> u16 {
    200
}

fn plain() -> String {
    "text/plain; charset=utf-8".to_owned()
}

impl Page {
    /// The page at a path and port.
    pub(crate) fn find<'a>(pages: &'a [Self], port: u16, path: &str) -> Option<&'a Self> {
        pages.iter().find(|page| {
            let fits = match page.path.strip_suffix('*') {
                Some(begin) => path.starts_with(begin),
                None => page.path == path,
            };
            fits && page.port.is_none_or(|own| own == port)
        })
    }
}

/// The course of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Writes this, and exits.
    Print {
        stdout: Bytes,
        stderr: Bytes,
        code: i32,
    },
    /// Copies standard input to standard output.
    Echo,
    /// Writes the archive on standard input to this folder.
    Unpack(String),
    /// Does not start, for this reason.
    Missing(String),
}

impl Program {
    fn print(stdout: impl Into<Bytes>, stderr: impl Into<Bytes>, code: i32) -> Self {
        Self::Print {
            stdout: stdout.into(),
            stderr: stderr.into(),
            code,
        }
    }
}

impl<'a> Container<'a> {
    pub(crate) fn new(pod: &'a Value, name: &'a str) -> Self {
        Self { pod, name }
    }

    /// Whether an annotation of the pod gives any of its containers answers.
    pub(crate) fn has_answers(pod: &Value) -> bool {
        let annotations = pod["metadata"]["annotations"].as_object();
        let is_answer = |key: &String| {
            let name = key.strip_prefix(PREFIX).unwrap_or_default();
            ANNOTATIONS.contains(&name.split('.').next().unwrap_or_default())
        };
        annotations.is_some_and(|all| all.keys().any(is_answer))
    }

    /// The lines of its log; `None` without an annotation.
    pub(crate) fn logs(&self) -> Option<&'a str> {
        self.annotation("logs")
    }

    /// Its pages, or the error of a malformed annotation.
    pub(crate) fn pages(&self) -> Result<Vec<Page>, String> {
        self.parsed("http")
    }

    /// The files of its disk.
    pub(crate) fn disk(&self) -> (String, String) {
        let uid = self.pod["metadata"]["uid"].as_str().unwrap_or_default();
        (uid.to_owned(), self.name.to_owned())
    }

    /// The course of a command in this container.
    pub(crate) fn program(&self, command: &[&str], disks: &Disks) -> Program {
        let canned = match self.parsed::<Vec<Canned>>("exec") {
            Ok(canned) => canned,
            Err(why) => return Program::Missing(why),
        };
        let line = command.join(" ");
        let fits = |one: &&Canned| {
            let rest = line.strip_prefix(one.command.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        if let Some(Canned {
            stdout,
            stderr,
            exit_code,
            ..
        }) = canned.iter().find(fits)
        {
            return Program::print(stdout.clone(), stderr.clone(), *exit_code);
        }
        let files = match self.parsed::<BTreeMap<String, String>>("files") {
            Ok(files) => files.into_iter(),
            Err(why) => return Program::Missing(why),
        };
        let mut files: Files = files.map(|(path, text)| (path, text.into())).collect();
        files.extend(disks.read(&self.disk()));
        on_files(command, &files).unwrap_or_else(|| {
            let name = command.first().unwrap_or(&"");
            Program::Missing(format!(
                "OCI runtime exec failed: exec failed: unable to start container process: exec: {name:?}: \
                 executable file not found in $PATH"
            ))
        })
    }

    fn annotation(&self, name: &str) -> Option<&'a str> {
        let annotations = &self.pod["metadata"]["annotations"];
        let own = &annotations[format!("{PREFIX}{name}.{}", self.name)];
        let all = &annotations[format!("{PREFIX}{name}")];
        own.as_str().or_else(|| all.as_str())
    }

    fn parsed<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T, String> {
        let Some(text) = self.annotation(name) else {
            return Ok(T::default());
        };
        serde_saphyr::from_str(text)
            .map_err(|error| format!("annotation {PREFIX}{name}: {}", error.without_snippet()))
    }
}

/// The commands that need files only: those of `kubectl cp`, and `cat`.
fn on_files(command: &[&str], files: &Files) -> Option<Program> {
    let below = |folder: &str| {
        let folder = format!("{}/", folder.trim_end_matches('/'));
        files.keys().any(|path| path.starts_with(&folder))
    };
    match command {
        ["cat"] => Some(Program::Echo),
        ["cat", paths @ ..] => {
            let mut all = Vec::new();
            for path in paths {
                let Some(file) = files.get(*path) else {
                    let error = format!("cat: {path}: No such file or directory\n");
                    return Some(Program::print(all, error, 1));
                };
                all.extend_from_slice(file);
            }
            Some(Program::print(all, "", 0))
        }
        ["test", "-d", folder] => {
            let exists = matches!(*folder, "/" | "/tmp") || below(folder);
            Some(Program::print("", "", i32::from(!exists)))
        }
        ["tar", "cf", "-", path] => {
            let folder = format!("{}/", path.trim_end_matches('/'));
            let mut found = files.clone();
            found.retain(|name, _| name == path || name.starts_with(&folder));
            if found.is_empty() {
                let error = format!(
                    "tar: {path}: Cannot stat: No such file or directory\ntar: Exiting with failure status due to \
                     previous errors\n"
                );
                return Some(Program::print(pack(&found), error, 2));
            }
            Some(Program::print(pack(&found), "", 0))
        }
        ["tar", options @ .., "-C", folder] if options.contains(&"-xmf") => {
            Some(Program::Unpack((*folder).to_owned()))
        }
        ["tar", options @ ..] if options.contains(&"-xmf") => Some(Program::Unpack("/".to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        let exec = "- {command: psql -c, stdout: \"1\\n\"}\n- {command: sh -c exit, stderr: no, exitCode: 3}\n";
        let http = "- {path: /healthz, body: ok}\n- {path: /v1/*, port: 81, status: 404, contentType: application/json}\n";
        json!({"metadata": {"uid": "u", "annotations": {
            "simulate.steersman.dev/exec": exec,
            "simulate.steersman.dev/exec.side": "- {command: psql, stdout: side}",
            "simulate.steersman.dev/exec.bad": "- {run: psql}",
            "simulate.steersman.dev/files": "/etc/a/b.txt: text",
            "simulate.steersman.dev/http": http,
        }}})
    }

    #[test]
    fn a_command_prints_its_answer_or_does_not_start() {
        let pod = pod();
        let print =
            |out: &str, error: &str, code| Program::print(out.to_owned(), error.to_owned(), code);
        // (container, command, program; `None` if it does not start)
        let cases = [
            (
                "main",
                vec!["psql", "-c", "select 1"],
                Some(print("1\n", "", 0)),
            ),
            ("main", vec!["psql", "-cx"], None),
            ("main", vec!["sh", "-c", "exit 3"], Some(print("", "no", 3))),
            ("side", vec!["psql", "-l"], Some(print("side", "", 0))),
            ("bad", vec!["psql"], None),
            (
                "main",
                vec!["cat", "/etc/a/b.txt"],
                Some(print("text", "", 0)),
            ),
            (
                "main",
                vec!["cat", "/x"],
                Some(print("", "cat: /x: No such file or directory\n", 1)),
            ),
            ("main", vec!["cat"], Some(Program::Echo)),
            ("main", vec!["test", "-d", "/etc/a"], Some(print("", "", 0))),
            (
                "main",
                vec!["test", "-d", "/etc/a/b.txt"],
                Some(print("", "", 1)),
            ),
            (
                "main",
                vec!["tar", "-xmf", "-", "-C", "/tmp"],
                Some(Program::Unpack("/tmp".to_owned())),
            ),
        ];
        for (container, command, expected) in cases {
            let found = Container::new(&pod, container).program(&command, &Disks::default());
            let started = (!matches!(found, Program::Missing(_))).then_some(found);
            assert_eq!(started, expected, "{container} {command:?}");
        }
        let bad = Container::new(&pod, "bad").program(&["psql"], &Disks::default());
        assert!(matches!(bad, Program::Missing(why) if why.contains("unknown field `run`")));
    }

    #[test]
    fn written_files_are_read_in_the_same_container_only() {
        let pod = pod();
        let disks = Disks::default();
        let files = Files::from([("/etc/a/b.txt".to_owned(), Bytes::from("new"))]);
        disks.write(&Container::new(&pod, "main").disk(), files);
        for (container, expected) in [("main", "new"), ("side", "text")] {
            let found = Container::new(&pod, container).program(&["cat", "/etc/a/b.txt"], &disks);
            assert_eq!(found, Program::print(expected, "", 0));
        }
    }

    #[test]
    fn a_page_is_found_by_path_and_port() {
        let pod = pod();
        let pages = Container::new(&pod, "main").pages().unwrap();
        let status = |port, path| Page::find(&pages, port, path).map(|page| page.status);
        assert_eq!(status(80, "/healthz"), Some(200));
        assert_eq!(status(81, "/v1/x"), Some(404));
        assert_eq!(status(80, "/v1/x"), None);
        assert_eq!(status(80, "/healthz/x"), None);
    }

    #[test]
    fn a_pod_has_answers_by_any_of_the_annotations() {
        let with = |key: &str| json!({"metadata": {"annotations": {key: ""}}});
        for (key, expected) in [
            ("simulate.steersman.dev/logs", true),
            ("simulate.steersman.dev/http.side", true),
            ("simulate.steersman.dev/cpu", false),
            ("logs", false),
        ] {
            assert_eq!(Container::has_answers(&with(key)), expected, "{key}");
        }
    }
}
