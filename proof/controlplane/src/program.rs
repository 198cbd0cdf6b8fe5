//! A running program, whose output goes to a file.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Lines of the log in an error.
const TAIL: usize = 5;

/// A running program, which is killed on drop. Signals of the terminal do not reach it.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
}

/// A program could not start, or ended too early.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The program could not start.
    #[error("start {}: {source}", path.display())]
    Start {
        /// Path of the program.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The log of the program could not be written, or its output could not be read.
    #[error("{}: {source}", path.display())]
    Log {
        /// Path of the log.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The program has ended. The last lines of its log follow.
    #[error("{name} ended ({status}):\n{tail}")]
    Ended {
        /// File name of the program.
        name: String,
        /// Its exit status.
        status: ExitStatus,
        /// The last lines of its log.
        tail: String,
    },
    /// A signal could not be sent, or the state of the program could not be read.
    #[error("process of {name}: {source}")]
    Process {
        /// File name of the program.
        name: String,
        /// The reason.
        source: std::io::Error,
    },
}

impl Program {
    /// Starts `binary` with `args`. Standard output and standard error go to `log`.
    pub fn start(binary: &Path, args: &[String], log: &Path) -> Result<Self, ProgramError> {
        let of_log = |source| log_error(log, source);
        let file = File::create(log).map_err(of_log)?;
        let output = file.try_clone().map_err(of_log)?;
        Self::spawn(binary, args, output.into(), file, log)
    }

    /// Starts `binary` with `args`, and waits for the first line on standard output. Standard error
    /// goes to `log`.
    pub fn start_and_read(
        binary: &Path,
        args: &[String],
        log: &Path,
    ) -> Result<(Self, String), ProgramError> {
        let of_log = |source| log_error(log, source);
        let file = File::create(log).map_err(of_log)?;
        let mut program = Self::spawn(binary, args, Stdio::piped(), file, log)?;
        let mut line = String::new();
        if let Some(output) = program.child.stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(of_log)?;
        }
        if line.is_empty() {
            let waited = program.child.wait();
            let status = waited.map_err(|source| program.process_error(source))?;
            return Err(program.ended(status));
        }
        Ok((program, line))
    }

    fn spawn(
        binary: &Path,
        args: &[String],
        output: Stdio,
        errors: File,
        log: &Path,
    ) -> Result<Self, ProgramError> {
        let child = Command::new(binary)
            .args(args)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|source| ProgramError::Start {
                path: binary.to_owned(),
                source,
            })?;
        let name = binary.file_name().unwrap_or(binary.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            child,
            log: log.to_owned(),
        })
    }

    /// The ID of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails with the end of the log if the program has ended.
    pub fn check_running(&mut self) -> Result<(), ProgramError> {
        let waited = self.child.try_wait();
        match waited.map_err(|source| self.process_error(source))? {
            Some(status) => Err(self.ended(status)),
            None => Ok(()),
        }
    }

    /// Sends the process a signal, such as `TERM`.
    pub fn signal(&self, name: &str) -> Result<(), ProgramError> {
        let killed = Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status();
        let status = killed.map_err(|source| self.process_error(source))?;
        if status.success() {
            Ok(())
        } else {
            Err(self.process_error(std::io::Error::other(format!("kill -{name}: {status}"))))
        }
    }

    fn process_error(&self, source: std::io::Error) -> ProgramError {
        ProgramError::Process {
            name: self.name.clone(),
            source,
        }
    }

    fn ended(&self, status: ExitStatus) -> ProgramError {
        // The log only explains the status.
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        ProgramError::Ended {
            name: self.name.clone(),
            status,
            tail: tail(&log),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both calls fail only after the end of the process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log_error(log: &Path, source: std::io::Error) -> ProgramError {
    ProgramError::Log {
        path: log.to_owned(),
        source,
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> [String; 2] {
        ["-c".to_owned(), script.to_owned()]
    }

    #[test]
    fn an_ended_program_is_an_error_with_the_end_of_its_log() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let log = home.path().join("log");
        let script = shell("for n in 1 2 3 4 5 6; do echo $n >&2; done; exit 3");
        let error = Program::start_and_read(Path::new("/bin/sh"), &script, &log);
        let text = error.expect_err("no line was printed").to_string();
        assert_eq!(text, "sh ended (exit status: 3):\n2\n3\n4\n5\n6");
    }

    #[test]
    fn the_first_line_is_read_while_the_program_runs() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let script = shell("echo ready; exec sleep 600");
        let log = home.path().join("log");
        let (mut program, line) =
            Program::start_and_read(Path::new("/bin/sh"), &script, &log).expect("it starts");
        assert_eq!(line, "ready\n");
        program.check_running().expect("it sleeps");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Program::start(Path::new("/absent"), &[], Path::new("/dev/null"));
        let text = error.expect_err("it is absent").to_string();
        assert!(text.starts_with("start /absent: No such file"), "{text}");
    }
}
