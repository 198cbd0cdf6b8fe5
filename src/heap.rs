//! Gives free memory of the process back to the system.
//!
//! glibc by itself gives back only the free memory above the last object in use. After a burst, a
//! few objects that remain would keep most of its memory resident. It gives back whole pages only,
//! so values that only an interner still refers to go first.

use std::time::Duration;

use steersman_values::intern;
use tokio::time::sleep;

/// The time between two releases. An idle manager needs no measurable CPU time for them.
const PERIOD: Duration = Duration::from_secs(30);

/// Releases free memory at a steady pace, for as long as this future is polled.
pub(crate) async fn release_regularly() {
    loop {
        sleep(PERIOD).await;
        intern::release_unused();
        release();
    }
}

/// Gives all free pages of the heap back to the system, also those between objects in use.
///
/// Takes some milliseconds if there are many free blocks. Other threads that allocate wait for it.
/// Has no effect with other C libraries than glibc.
fn release() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::malloc_trim(0);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "no well-kept crate declares the function safe")]
mod glibc {
    // SAFETY: malloc.h declares the function so. It takes no pointer, locks the heap, and changes
    // only free blocks.
    unsafe extern "C" {
        pub(super) safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    /// Resident memory of this process in MiB.
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.unwrap().trim().strip_suffix(" kB").unwrap();
        kib.parse::<usize>().unwrap() / 1024
    }

    // Other tests of the process take far less memory than this one.
    #[test]
    fn free_memory_below_an_object_in_use_goes_back() {
        let mut blocks: Vec<Vec<u8>> = (0..128 * 1024).map(|_| vec![1; 1024]).collect();
        let last = blocks.pop();
        drop(blocks);
        let kept = resident();
        assert!(kept > 96, "glibc gave memory back by itself: {kept} MiB");
        release();
        let left = resident();
        assert!(left < kept - 96, "{left} of {kept} MiB are left");
        drop(last);
    }
}
