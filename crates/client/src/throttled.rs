//! The requests that wait for a throttle now. Without such requests, this holds nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The waits of all clients. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(super) struct Throttled(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    waits: BTreeMap<u64, (String, Instant)>,
}

/// One waiting request.
#[derive(Debug)]
pub(super) struct Waiting {
    all: Throttled,
    number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.all.0.lock().waits.remove(&self.number);
    }
}

impl Throttled {
    /// Records a request of `client` that waits for `wait` from now on.
    pub(super) fn begin(&self, client: &str, wait: Duration) -> Waiting {
        let mut state = self.0.lock();
        let number = state.next;
        state.next += 1;
        let until = Instant::now() + wait;
        state.waits.insert(number, (client.to_owned(), until));
        Waiting {
            all: self.clone(),
            number,
        }
    }

    /// The number of requests of `client` that wait now, and the time until the last one is sent.
    pub(super) fn of(&self, client: &str) -> Option<(usize, Duration)> {
        let state = self.0.lock();
        let of_client = state.waits.values().filter(|(name, _)| name == client);
        let last = of_client.clone().map(|(_, until)| *until).max()?;
        let left = last.saturating_duration_since(Instant::now());
        Some((of_client.count(), left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_of_one_client_count_until_they_end() {
        let all = Throttled::default();
        assert_eq!(all.of("a"), None);
        let one = all.begin("a", Duration::from_secs(1));
        let other = all.begin("a", Duration::from_secs(3));
        let _of_b = all.begin("b", Duration::from_secs(9));
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(all.of("a"), Some((2, Duration::from_millis(2500))));
        drop(other);
        assert_eq!(all.of("a"), Some((1, Duration::from_millis(500))));
        drop(one);
        assert_eq!(all.of("a"), None);
    }
}
