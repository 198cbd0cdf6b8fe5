//! CPU time and memory of processes, from `/proc`. So this module needs Linux.

use anyhow::{Context, Result};
use steersman_controlplane::Program;

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

impl Usage {
    /// The usage of this process.
    pub(crate) fn own() -> Result<Self> {
        Self::of("self")
    }

    /// The usage of a program; fails if the program has ended.
    pub(crate) fn of_program(program: &mut Program) -> Result<Self> {
        program.check_running()?;
        Self::of(&program.id().to_string())
    }

    /// The usage of the process with this ID.
    pub(crate) fn of(process: &str) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{process}/{file}");
            std::fs::read_to_string(&path).with_context(|| format!("read {path}"))
        };
        let stat = read("stat")?;
        let status = read("status")?;
        Ok(Self {
            cpu_seconds: cpu_seconds(&stat).context("unexpected /proc/<pid>/stat")?,
            resident: kibibytes(&status, "VmRSS:").context("no VmRSS in /proc/<pid>/status")?
                * 1024,
            peak: kibibytes(&status, "VmHWM:").context("no VmHWM in /proc/<pid>/status")? * 1024,
        })
    }
}

/// Resets the highest resident memory of a program to the present one.
pub(crate) fn reset_peak(program: &Program) -> Result<()> {
    let file = format!("/proc/{}/clear_refs", program.id());
    std::fs::write(&file, "5").with_context(|| format!("write {file}"))
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
