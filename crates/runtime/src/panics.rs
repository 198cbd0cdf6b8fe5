//! Panics as errors, so that each is logged exactly once and in one line.
//!
//! [`catch`] and [`catch_call`] turn a panic into a [`Panic`], which the caller logs. The hook of
//! [`install_hook`] logs all other panics. Upstream's counterpart is `HandleCrash` of
//! `apimachinery/pkg/util/runtime`; unlike it, a caught panic does not end the process.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, Location, PanicHookInfo, catch_unwind, set_hook};
use std::pin::pin;
use std::task::Poll;

thread_local! {
    /// The number of calls of [`catch_call`] on the stack of this thread. A number, because a
    /// handler that is called within a caught call catches its own panics.
    static CATCHING: Cell<usize> = const { Cell::new(0) };
    /// Source location of the last panic, from the hook for the [`catch_call`] that catches it.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A caught panic. `Display` writes its message, its source location if the hook is installed, and
/// a request to report it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panic {
    /// The payload of the panic, if it is a text.
    text: String,
    /// `None` without the hook.
    place: Option<String>,
}

impl Panic {
    fn new(payload: &(dyn Any + Send), place: Option<String>) -> Self {
        let text = payload.downcast_ref::<&'static str>().copied();
        let text = text
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("without a message");
        Self {
            text: text.to_owned(),
            place,
        }
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if let Some(place) = &self.place {
            write!(f, " at {place}")?;
        }
        f.write_str("; this is a bug, please report")
    }
}

/// Replaces the panic output of the standard library by one log line per uncaught panic.
///
/// The hook logs no panic that [`catch`] catches: its caller does. A program calls this once, at
/// the start of `main`.
pub fn install_hook() {
    set_hook(Box::new(on_panic));
}

fn on_panic(info: &PanicHookInfo<'_>) {
    // The backtrace is empty without RUST_BACKTRACE. `writeln!` instead of `eprintln!`, because a
    // closed standard error must not cause a second panic.
    let backtrace = std::backtrace::Backtrace::capture();
    if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
        let _ = writeln!(std::io::stderr(), "{backtrace}");
    }
    let place = info.location().map(place);
    if CATCHING.get() > 0 {
        PLACE.set(place);
        return;
    }
    let payload = info.payload();
    let text = payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let panic = Panic {
        text: text.unwrap_or("without a message").to_owned(),
        place,
    };
    if tracing::dispatcher::has_been_set() {
        tracing::error!("panic: {panic}");
    } else {
        let _ = writeln!(std::io::stderr(), "panic: {panic}");
    }
}

/// File and line, such as `kube-client-5.0.0/src/lib.rs:12`. The directories of the build machine
/// are cut off.
fn place(location: &Location<'_>) -> String {
    const REGISTRY: &str = "/registry/src/";
    let file = location.file();
    let file = file
        .split_once(REGISTRY)
        .and_then(|(_, rest)| rest.split_once('/'))
        .map_or(file, |(_, rest)| rest);
    format!("{file}:{}", location.line())
}

/// Runs `call`, and returns its panic if it ends in one.
pub fn catch_call<T>(call: impl FnOnce() -> T) -> Result<T, Panic> {
    CATCHING.set(CATCHING.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(call));
    CATCHING.set(CATCHING.get() - 1);
    outcome.map_err(|payload| Panic::new(&*payload, PLACE.take()))
}

/// Runs `future`, and returns its panic if it ends in one. Each poll is caught by itself, since a
/// task may move to another thread between two polls. The future is not polled again after a panic.
pub async fn catch<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    std::future::poll_fn(
        |context| match catch_call(|| future.as_mut().poll(context)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic)),
        },
    )
    .await
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs in a process that another test starts, because a hook applies to a whole process.
    #[tokio::test]
    #[ignore = "another test starts it"]
    async fn panics_when_asked() {
        install_hook();
        let caught = catch(async {
            tokio::task::yield_now().await;
            panic!("caught {}", 1);
        });
        println!("{}", caught.await.unwrap_err());
        println!("{}", catch_call(|| panic!("caught 2")).unwrap_err());
        let _ = tokio::spawn(async { panic!("uncaught") }).await;
    }

    #[test]
    fn each_panic_is_logged_once_in_one_line() {
        let arguments = [
            "panics::tests::panics_when_asked",
            "--exact",
            "--ignored",
            "--nocapture",
        ];
        let output = Command::new(std::env::current_exe().unwrap())
            .args(arguments)
            .env_remove("RUST_BACKTRACE")
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stdout}{stderr}");
        let (head, rest) = stderr.split_once(':').unwrap();
        assert!(
            head == "panic" && rest.starts_with(" uncaught at ") && rest.contains("panics.rs:"),
            "{stderr}"
        );
        assert!(
            stderr.ends_with("; this is a bug, please report\n") && stderr.lines().count() == 1,
            "{stderr}"
        );
        for number in 1..=2 {
            let line = stdout
                .lines()
                .find(|line| line.contains(&format!("caught {number} at ")))
                .expect("it is caught");
            assert!(
                line.contains("panics.rs:") && line.ends_with("; this is a bug, please report"),
                "{line}"
            );
        }
    }

    #[test]
    fn a_caught_panic_has_its_message_without_the_hook() {
        let panic = catch_call(|| std::panic::resume_unwind(Box::new("quiet"))).unwrap_err();
        assert_eq!(panic.to_string(), "quiet; this is a bug, please report");
        let panic = catch_call(|| std::panic::resume_unwind(Box::new(7))).unwrap_err();
        assert_eq!(
            panic.to_string(),
            "without a message; this is a bug, please report"
        );
    }
}
