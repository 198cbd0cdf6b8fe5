//! The process under measurement. Its CPU time and memory come from `/proc`, so this module needs
//! Linux.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A running program, which is killed on drop.
pub(crate) struct Program {
    child: Child,
}

/// Resources that a process has used so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// User and system time, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Resident memory now, in bytes.
    pub(crate) resident: u64,
    /// Highest resident memory so far, in bytes.
    pub(crate) peak: u64,
}

impl Program {
    /// Starts `binary` with `args`. Standard output and standard error go to `log`.
    pub(crate) fn start(binary: &Path, args: &[String], log: &Path) -> Result<Self> {
        let log = create(log)?;
        Self::spawn(binary, args, log.try_clone()?.into(), log.into())
    }

    /// Starts `binary` with `args`, and waits for the first line on standard output. Standard error
    /// goes to `log`.
    pub(crate) fn start_and_read(
        binary: &Path,
        args: &[String],
        log: &Path,
    ) -> Result<(Self, String)> {
        let mut program = Self::spawn(binary, args, Stdio::piped(), create(log)?.into())?;
        let mut line = String::new();
        let output = program
            .child
            .stdout
            .take()
            .context("standard output is a pipe")?;
        BufReader::new(output).read_line(&mut line)?;
        anyhow::ensure!(
            !line.is_empty(),
            "{} ended: {}",
            binary.display(),
            std::fs::read_to_string(log)?
        );
        Ok((program, line))
    }

    fn spawn(binary: &Path, args: &[String], output: Stdio, errors: Stdio) -> Result<Self> {
        let mut command = Command::new(binary);
        let child = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn();
        Ok(Self {
            child: child.with_context(|| format!("start {}", binary.display()))?,
        })
    }

    /// Sends the process a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status()
            .context("run kill")?;
        anyhow::ensure!(status.success(), "kill -{name}: {status}");
        Ok(())
    }

    /// Reads the usage of the process; fails if the process has ended.
    pub(crate) fn usage(&mut self) -> Result<Usage> {
        if let Some(status) = self.child.try_wait()? {
            anyhow::bail!("the process ended: {status}");
        }
        Usage::of(&self.child.id().to_string())
    }

    /// Resets the highest resident memory to the present one.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        let file = format!("/proc/{}/clear_refs", self.child.id());
        std::fs::write(&file, "5").with_context(|| format!("write {file}"))
    }
}

fn create(log: &Path) -> Result<std::fs::File> {
    std::fs::File::create(log).with_context(|| format!("create {}", log.display()))
}

impl Usage {
    /// The usage of this process.
    pub(crate) fn own() -> Result<Self> {
        Self::of("self")
    }

    /// The usage of the process with this ID.
    pub(crate) fn of(process: &str) -> Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        Ok(Self {
            cpu_seconds: cpu_seconds(&stat).context("unexpected /proc/<pid>/stat")?,
            resident: kibibytes(&status, "VmRSS:").context("no VmRSS in /proc/<pid>/status")?
                * 1024,
            peak: kibibytes(&status, "VmHWM:").context("no VmHWM in /proc/<pid>/status")? * 1024,
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both calls fail only after the end of the process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// User and system time: fields 14 and 15 of `/proc/<pid>/stat`, in ticks. Linux reports 100 ticks
/// per second to user space.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

fn kibibytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_and_memory_are_read_from_proc() {
        let stat = "42 (a b) c) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 4 0 100 0 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(
            kibibytes("Name:\tx\nVmRSS:\t  1234 kB\n", "VmRSS:"),
            Some(1234)
        );
    }
}
