//! Opens the page in the browser of the user.

use std::process::{Command, Stdio};

/// The program that opens an address.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// Opens `address`. A machine without a browser gets a line about it, because the address is on the
/// screen already.
pub(crate) fn open(address: &str) {
    let mut command = Command::new(OPENER);
    command
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match command.spawn() {
        // The child ends by itself; a thread waits for it, so that no zombie stays.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => complain!("{OPENER} {address}: {error}"),
    }
}
