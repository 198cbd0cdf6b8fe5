//! The metrics `process_*`, read from `/proc` on each scrape, under the names of Go's client
//! library.
//!
//! The `prometheus` crate has a collector too. It reports CPU time in whole seconds, and lacks some
//! of upstream's families.

use std::fs::read_to_string;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge};

/// Clock ticks per second in `/proc` (`USER_HZ`). The kernel's ABI fixes it, independent of the
/// kernel's internal tick rate.
const TICKS: f64 = 100.0;

/// Collects from `/proc`; collects nothing on other systems than Linux.
#[derive(Debug)]
pub struct Process {
    /// Locked during a scrape.
    handles: Mutex<Handles>,
    /// Registries ask for them before the first scrape.
    descriptions: Vec<Desc>,
}

/// The metrics of the process. Counters and gauges are set from absolute values of the kernel.
#[derive(Debug)]
struct Handles {
    /// User and system time, in seconds.
    cpu: Counter,
    /// Bytes of all network devices of the network namespace, loopback included.
    received: Counter,
    sent: Counter,
    /// Files and sockets.
    open_files: Gauge,
    /// The soft limit of `open_files`.
    most_files: Gauge,
    /// In bytes, as both values of virtual memory.
    resident: Gauge,
    virtual_memory: Gauge,
    /// The soft limit of the address space, in bytes.
    most_virtual_memory: Gauge,
    /// Unix time in seconds.
    started: Gauge,
}

impl Handles {
    fn new() -> Result<Self, prometheus::Error> {
        Ok(Self {
            cpu: Counter::new(
                "process_cpu_seconds_total",
                "Total user and system CPU time spent in seconds.",
            )?,
            received: Counter::new(
                "process_network_receive_bytes_total",
                "Number of bytes received by the process over the network.",
            )?,
            sent: Counter::new(
                "process_network_transmit_bytes_total",
                "Number of bytes sent by the process over the network.",
            )?,
            open_files: Gauge::new("process_open_fds", "Number of open file descriptors.")?,
            most_files: Gauge::new(
                "process_max_fds",
                "Maximum number of open file descriptors.",
            )?,
            resident: Gauge::new(
                "process_resident_memory_bytes",
                "Resident memory size in bytes.",
            )?,
            virtual_memory: Gauge::new(
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes.",
            )?,
            most_virtual_memory: Gauge::new(
                "process_virtual_memory_max_bytes",
                "Maximum amount of virtual memory available in bytes.",
            )?,
            started: Gauge::new(
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
            )?,
        })
    }

    fn collectors(&self) -> [&dyn Collector; 9] {
        let Self {
            cpu,
            received,
            sent,
            open_files,
            most_files,
            resident,
            virtual_memory,
            most_virtual_memory,
            started,
        } = self;
        [
            cpu,
            received,
            sent,
            open_files,
            most_files,
            resident,
            virtual_memory,
            most_virtual_memory,
            started,
        ]
    }

    /// Reads all values. `None` if a file is missing or has an unexpected format. Fields have the
    /// numbers of the manual page `proc_pid_stat(5)`.
    fn read(&self) -> Option<()> {
        let stat = read_to_string("/proc/self/stat").ok()?;
        // Field 2 is the process name in parentheses and may contain spaces and parentheses. Count
        // from field 3, after the last closing parenthesis.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        // Fields `utime` and `stime`.
        set(&self.cpu, (field(14)? + field(15)?) / TICKS);
        let boot = read_to_string("/proc/stat").ok()?;
        let boot: f64 = boot
            .lines()
            .find_map(|line| line.strip_prefix("btime "))?
            .trim()
            .parse()
            .ok()?;
        // Field `starttime`, in ticks since the boot.
        self.started.set(boot + field(22)? / TICKS);

        let status = read_to_string("/proc/self/status").ok()?;
        // The file has kibibytes, written as "kB".
        let memory = |name: &str| -> Option<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
        };
        self.resident.set(memory("VmRSS:")?);
        self.virtual_memory.set(memory("VmSize:")?);

        let limits = read_to_string("/proc/self/limits").ok()?;
        let limit = |name: &str| -> Option<f64> {
            let soft = limits
                .lines()
                .find_map(|line| line.strip_prefix(name))?
                .split_whitespace()
                .next()?;
            // Go reports the largest integer for "unlimited".
            if soft == "unlimited" {
                Some(u64::MAX as f64)
            } else {
                soft.parse().ok()
            }
        };
        self.most_files.set(limit("Max open files")?);
        self.most_virtual_memory.set(limit("Max address space")?);
        self.open_files
            .set(std::fs::read_dir("/proc/self/fd").ok()?.count() as f64);

        let devices = read_to_string("/proc/self/net/dev").ok()?;
        let mut bytes = [0.0, 0.0];
        for (_, counts) in devices.lines().filter_map(|line| line.split_once(':')) {
            let counts: Vec<f64> = counts
                .split_whitespace()
                .filter_map(|count| count.parse().ok())
                .collect();
            // Received bytes are the first column, and sent bytes the ninth.
            bytes[0] += counts.first()?;
            bytes[1] += counts.get(8)?;
        }
        set(&self.received, bytes[0]);
        set(&self.sent, bytes[1]);
        Some(())
    }
}

/// Sets a counter. The kernel counts, so the previous value is replaced.
fn set(counter: &Counter, total: f64) {
    counter.reset();
    counter.inc_by(total);
}

impl Process {
    /// A collector for a registry. Its families have fixed names, so it cannot fail.
    pub fn new() -> Result<Self, prometheus::Error> {
        let handles = Handles::new()?;
        let descriptions = handles
            .collectors()
            .into_iter()
            .flat_map(Collector::desc)
            .cloned()
            .collect();
        Ok(Self {
            handles: Mutex::new(handles),
            descriptions,
        })
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // `set` resets counters, so two concurrent scrapes must not interleave.
        let handles = self.handles.lock();
        match handles.read() {
            Some(()) => handles
                .collectors()
                .into_iter()
                .flat_map(Collector::collect)
                .collect(),
            // No values at all: a half-read state would show counters that went back.
            None => Vec::new(),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn values_from_proc_are_plausible() {
        let process = Process::new().unwrap();
        let busy = std::hint::black_box(
            (0..30_000_000_u64).fold(0, |sum, n| sum ^ std::hint::black_box(n)),
        );
        std::hint::black_box(busy);
        let families = process.collect();
        let value = |name: &str| {
            let family = families
                .iter()
                .find(|family| family.name() == name)
                .unwrap_or_else(|| panic!("no {name}"));
            let metric = &family.get_metric()[0];
            metric
                .get_gauge()
                .get_value()
                .max(metric.get_counter().get_value())
        };
        let cpu = value("process_cpu_seconds_total");
        assert!(cpu > 0.0 && cpu < 3600.0, "{cpu}");
        let resident = value("process_resident_memory_bytes");
        assert!(
            resident > 1e6 && resident < value("process_virtual_memory_bytes"),
            "{resident}"
        );
        assert!(value("process_start_time_seconds") > 1.7e9);
        let open = value("process_open_fds");
        assert!(open >= 3.0 && open <= value("process_max_fds"), "{open}");
        assert_eq!(families.len(), 9);
    }
}
