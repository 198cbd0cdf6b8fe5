//! Tests of whole electors against a Lease in memory, in paused time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::stream;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use steersman_client::{ClientMetrics, ClientSettings};

use super::*;

type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

/// One Lease, with optimistic locking and watches.
struct Server {
    lease: Mutex<(u64, Option<Value>)>,
    changes: broadcast::Sender<(&'static str, Value)>,
    writes: AtomicUsize,
}

/// The connection of one candidate to the server, with its faults.
#[derive(Clone, Default)]
struct Link {
    /// Requests and watches get no answer.
    is_cut: Arc<AtomicBool>,
    /// Watches are refused.
    has_no_watch: Arc<AtomicBool>,
    /// The server handles writes, but their answers are lost.
    loses_answers: Arc<AtomicBool>,
}

fn is_on(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

fn set(flag: &AtomicBool) {
    flag.store(true, Ordering::Relaxed);
}

fn answer(code: u16, body: &Value) -> Answer {
    let body =
        http_body_util::Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
    Response::builder()
        .status(code)
        .body(UnsyncBoxBody::new(body))
        .unwrap()
}

impl Server {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lease: Mutex::default(),
            changes: broadcast::channel(64).0,
            writes: AtomicUsize::new(0),
        })
    }

    fn client(self: &Arc<Self>, link: &Link) -> ApiClient {
        let server = Arc::clone(self);
        let link = link.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&server);
            let link = link.clone();
            async move {
                if is_on(&link.is_cut) {
                    std::future::pending::<()>().await;
                }
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                if parts.uri.query().is_some_and(|q| q.contains("watch=true")) {
                    assert!(
                        parts
                            .uri
                            .query()
                            .unwrap()
                            .contains("fieldSelector=metadata.name%3Dkube-controller-manager")
                    );
                    return Ok::<_, std::io::Error>(server.watch(&link));
                }
                let answer = server.handle(&parts.method, &body);
                if parts.method != Method::GET && is_on(&link.loses_answers) {
                    std::future::pending::<()>().await;
                }
                Ok(answer)
            }
        });
        let settings = ClientSettings {
            user_agent: "leader-election".to_owned(),
            qps: 0.0,
            burst: 0,
            timeout: Duration::from_secs(5),
        };
        let metrics = ClientMetrics::register(&Registry::new()).unwrap();
        ApiClient::new(kube::Client::new(service, "default"), settings, metrics)
    }

    fn watch(&self, link: &Link) -> Answer {
        if is_on(&link.has_no_watch) {
            return answer(403, &json!({}));
        }
        let lease = self.lease.lock();
        let first = lease
            .1
            .iter()
            .map(|l| ("ADDED", l.clone()))
            .collect::<Vec<_>>();
        let frame =
            |(kind, lease): (&str, Value)| format!("{}\n", json!({"type": kind, "object": lease}));
        let later = stream::unfold(
            (self.changes.subscribe(), link.clone()),
            |(mut changes, link)| async move {
                let change = changes.recv().await.ok()?;
                if is_on(&link.is_cut) {
                    std::future::pending::<()>().await;
                }
                Some((change, (changes, link)))
            },
        );
        let frames = stream::iter(first)
            .chain(later)
            .map(move |c| Ok(http_body::Frame::data(Bytes::from(frame(c)))));
        Response::new(UnsyncBoxBody::new(http_body_util::StreamBody::new(frames)))
    }

    fn handle(&self, method: &Method, body: &[u8]) -> Answer {
        let mut lease = self.lease.lock();
        let sent: Option<Value> = serde_json::from_slice(body).ok();
        let (kind, mut new) = match (method, lease.1.clone(), sent) {
            (&Method::GET, Some(lease), _) => return answer(200, &lease),
            (&Method::GET | &Method::PUT, None, _) => return answer(404, &json!({})),
            (&Method::POST, None, Some(new)) => ("ADDED", new),
            (&Method::POST, Some(_), _) => return answer(409, &json!({})),
            (&Method::PUT, Some(old), Some(new)) => {
                if old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"] {
                    return answer(409, &json!({}));
                }
                ("MODIFIED", new)
            }
            other => panic!("unexpected request {other:?}"),
        };
        lease.0 += 1;
        new["metadata"]["resourceVersion"] = json!(lease.0.to_string());
        new["metadata"]["uid"] = json!("u-1");
        lease.1 = Some(new.clone());
        self.writes.fetch_add(1, Ordering::Relaxed);
        let _ = self.changes.send((kind, new.clone()));
        answer(200, &new)
    }

    /// Changes the Lease as a user with kubectl would.
    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut new = self.lease.lock().1.clone().unwrap();
        change(&mut new);
        self.handle(&Method::PUT, new.to_string().as_bytes());
    }

    fn delete(&self) {
        let old = self.lease.lock().1.take().unwrap();
        let _ = self.changes.send(("DELETED", old));
    }

    fn spec(&self) -> Value {
        self.lease.lock().1.as_ref().unwrap()["spec"].clone()
    }

    fn holder(&self) -> String {
        self.spec()["holderIdentity"].as_str().unwrap().to_owned()
    }
}

struct Candidate {
    elector: Elector,
    events: Arc<Mutex<Vec<String>>>,
    registry: Registry,
    stop: CancellationToken,
}

fn config(identity: &str) -> ElectionConfig {
    ElectionConfig {
        namespace: "kube-system".to_owned(),
        name: "kube-controller-manager".to_owned(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        coordinated: false,
    }
}

impl Candidate {
    fn new(identity: &str, server: &Arc<Server>, link: &Link) -> Self {
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let recorded = Arc::clone(&events);
        let announce = Box::new(move |lease: ObjectReference, message| {
            assert_eq!((lease.kind.as_str(), lease.uid.as_str()), ("Lease", "u-1"));
            recorded.lock().push(message);
        });
        let registry = Registry::new();
        let clock = Clock::runtime("2026-01-02T03:04:05Z".parse().unwrap());
        let elector = Elector::announcing(
            config(identity),
            server.client(link),
            announce,
            clock,
            &registry,
        )
        .unwrap();
        Self {
            elector,
            events,
            registry,
            stop: CancellationToken::new(),
        }
    }

    async fn acquire(&mut self) -> bool {
        self.elector.acquire(&self.stop).await
    }

    async fn hold(&mut self) -> TermEnd {
        self.elector.hold(&self.stop).await
    }

    /// Acquires the Lease and holds it until the end of the term. `None` if the candidate was
    /// stopped before it led.
    async fn lead(mut self) -> (Option<TermEnd>, Self) {
        let end = if self.acquire().await {
            Some(self.hold().await)
        } else {
            None
        };
        (end, self)
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().clone()
    }

    fn metric(&self, name: &str) -> Option<String> {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap();
        text.lines()
            .find(|l| l.starts_with(&format!("{name}{{")))
            .map(|l| l.rsplit(' ').next().unwrap().to_owned())
    }
}

async fn pass(seconds: f64) {
    sleep(Duration::from_secs_f64(seconds)).await;
}

#[test]
fn invalid_durations_are_refused_with_upstreams_messages() {
    // (lease, deadline, retry in seconds, expected)
    let cases = [
        (
            10,
            10,
            2,
            "leaseDuration must be greater than renewDeadline",
        ),
        (
            15,
            2,
            2,
            "renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
        (0, 0, 0, "leaseDuration must be greater than renewDeadline"),
        (
            1,
            0,
            0,
            "renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
        (15, 10, 0, "retryPeriod must be greater than zero"),
    ];
    for (lease, deadline, retry, expected) in cases {
        let config = ElectionConfig {
            lease_duration: Duration::from_secs(lease),
            renew_deadline: Duration::from_secs(deadline),
            retry_period: Duration::from_secs(retry),
            ..config("a")
        };
        assert_eq!(config.check(), Err(ElectionConfigError(expected)));
    }
    assert_eq!(config("a").check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_creates_the_lease_and_renews_it_every_retry_period() {
    let server = Server::new();
    let mut a = Candidate::new("a", &server, &Link::default());
    let gate = a.elector.gate();
    let stop = a.stop.clone();
    assert_eq!(
        a.metric("leader_election_master_status").as_deref(),
        Some("0")
    );
    assert!(!gate.is_open());
    assert!(a.acquire().await);
    assert!(gate.is_open());
    assert_eq!(
        server.spec(),
        json!({
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T03:04:05.000000Z",
            "renewTime": "2026-01-02T03:04:05.000000Z",
            "leaseTransitions": 0,
        })
    );
    assert_eq!(a.events(), ["a became leader"]);
    assert_eq!(
        a.metric("leader_election_master_status").as_deref(),
        Some("1")
    );

    let leader = tokio::spawn(async move { (a.hold().await, a) });
    pass(60.5).await;
    assert!(gate.is_open());
    let spec = server.spec();
    assert_eq!(spec["renewTime"], "2026-01-02T03:05:05.000000Z");
    assert_eq!(spec["acquireTime"], "2026-01-02T03:04:05.000000Z");
    assert_eq!(
        server.writes.load(Ordering::Relaxed),
        1 + 31,
        "one creation, one renewal at once, then one every 2 s"
    );
    stop.cancel();
    let (end, a) = leader.await.unwrap();
    assert_eq!(end, TermEnd::Stopped);
    assert!(gate.is_open(), "controllers may finish their writes");
    assert_eq!(server.holder(), "a", "a stop does not release the Lease");
    assert_eq!(a.metric("leader_election_slowpath_total"), None);
    pass(9.0).await;
    assert!(gate.is_open());
    pass(1.0).await;
    assert!(!gate.is_open(), "there were no renewals after the stop");
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_a_released_lease_at_once() {
    let server = Server::new();
    let mut a = Candidate::new("a", &server, &Link::default());
    assert!(a.acquire().await);
    let mut b = Candidate::new("b", &server, &Link::default());
    let standby = tokio::spawn(async move { (b.acquire().await, b) });
    pass(7.0).await;
    assert!(!standby.is_finished());

    let gate = a.elector.gate();
    let released = Instant::now();
    a.elector.release().await;
    assert!(!gate.is_open());
    let (acquired, b) = standby.await.unwrap();
    assert!(acquired);
    assert!(
        released.elapsed() < Duration::from_millis(100),
        "took {:?}",
        released.elapsed()
    );
    assert_eq!(server.holder(), "b");
    assert_eq!(server.spec()["leaseTransitions"], 1);
    assert!(b.elector.gate().is_open());
    assert_eq!(a.events(), ["a became leader", "a stopped leading"]);
    assert_eq!(
        a.metric("leader_election_master_status").as_deref(),
        Some("0")
    );
    assert!(!a.acquire().await, "a candidate leads only once");
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_a_deleted_lease_at_once() {
    let server = Server::new();
    let mut a = Candidate::new("a", &server, &Link::default());
    assert!(a.acquire().await);
    let mut b = Candidate::new("b", &server, &Link::default());
    let standby = tokio::spawn(async move { b.acquire().await });
    pass(3.0).await;
    let deleted = Instant::now();
    server.delete();
    assert!(standby.await.unwrap());
    assert!(
        deleted.elapsed() < Duration::from_millis(100),
        "took {:?}",
        deleted.elapsed()
    );
    assert_eq!(server.spec()["leaseTransitions"], 0, "a new Lease");
}

#[tokio::test(start_paused = true)]
async fn without_a_watch_a_release_is_found_within_the_retry_period() {
    let server = Server::new();
    let mut a = Candidate::new("a", &server, &Link::default());
    assert!(a.acquire().await);
    let unwatched = Link::default();
    set(&unwatched.has_no_watch);
    let mut b = Candidate::new("b", &server, &unwatched);
    let standby = tokio::spawn(async move { b.acquire().await });
    pass(7.0).await;
    let released = Instant::now();
    a.elector.release().await;
    assert!(standby.await.unwrap());
    assert!(
        released.elapsed() <= Duration::from_millis(4_400),
        "took {:?}",
        released.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_candidate_waits_the_full_lease_duration_after_a_leader_died() {
    let server = Server::new();
    let mut a = Candidate::new("a", &server, &Link::default());
    assert!(a.acquire().await);
    drop(a);
    pass(180.0).await;
    let started = Instant::now();
    let mut b = Candidate::new("b", &server, &Link::default());
    assert!(b.acquire().await);
    let waited = started.elapsed().as_secs_f64();
    assert!((15.0..=15.0 + 4.4).contains(&waited), "waited {waited}");
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_leader_stops_writing_before_another_may_lead() {
    let server = Server::new();
    let link = Link::default();
    let a = Candidate::new("a", &server, &link);
    let gate_a = a.elector.gate();
    let leader = tokio::spawn(a.lead());
    pass(0.1).await;
    let b = Candidate::new("b", &server, &Link::default());
    let gate_b = b.elector.gate();
    let stop_b = b.stop.clone();
    let standby = tokio::spawn(b.lead());
    pass(20.0).await;
    assert!(gate_a.is_open() && !gate_b.is_open());

    set(&link.is_cut);
    let cut = Instant::now();
    let mut closed = None;
    while !gate_b.is_open() {
        assert!(cut.elapsed() < Duration::from_secs(30), "b did not lead");
        if closed.is_none() && !gate_a.is_open() {
            closed = Some(cut.elapsed());
        }
        pass(0.01).await;
    }
    let closed = closed
        .expect("the gate of a closed before the gate of b opened")
        .as_secs_f64();
    let taken = cut.elapsed().as_secs_f64();
    assert!((8.0..=10.1).contains(&closed), "closed after {closed}");
    assert!(
        taken > closed + 4.0,
        "closed after {closed}, taken after {taken}"
    );
    let (end, a) = leader.await.unwrap();
    assert_eq!(end, Some(TermEnd::Lost));
    assert_eq!(
        a.events().last().map(String::as_str),
        Some("a stopped leading")
    );
    stop_b.cancel();
    standby.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_paused_beyond_its_term_does_not_write() {
    let server = Server::new();
    let a = Candidate::new("a", &server, &Link::default());
    let gate = a.elector.gate();
    let leader = tokio::spawn(a.lead());
    pass(4.5).await;
    let writes = server.writes.load(Ordering::Relaxed);
    // Like SIGSTOP and SIGCONT: time passes while no task of the process runs.
    tokio::time::advance(Duration::from_secs(12)).await;
    assert!(!gate.is_open(), "closed before the elector ran again");
    assert_eq!(leader.await.unwrap().0, Some(TermEnd::Lost));
    assert_eq!(server.writes.load(Ordering::Relaxed), writes);
}

#[tokio::test(start_paused = true)]
async fn a_leader_stops_leading_when_another_holder_is_in_the_lease() {
    // (why, the leader has a watch, longest time until it notices)
    for (why, has_watch, limit) in [
        ("seen by the watch", true, 0.1),
        ("seen at the next renewal", false, 2.1),
    ] {
        let server = Server::new();
        let link = Link::default();
        if !has_watch {
            set(&link.has_no_watch);
        }
        let a = Candidate::new("a", &server, &link);
        let gate = a.elector.gate();
        let leader = tokio::spawn(a.lead());
        pass(4.5).await;
        let changed = Instant::now();
        server.edit(|lease| {
            lease["spec"]["holderIdentity"] = json!("b");
            lease["spec"]["leaseTransitions"] = json!(1);
        });
        let (end, a) = leader.await.unwrap();
        assert_eq!(end, Some(TermEnd::Lost), "{why}");
        assert!(!gate.is_open(), "{why}");
        let took = changed.elapsed().as_secs_f64();
        assert!(took <= limit, "{why}: took {took}");
        assert_eq!(server.holder(), "b", "{why}: a does not change the Lease");
        assert_eq!(
            a.metric("leader_election_master_status").as_deref(),
            Some("0")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_after_a_conflict_without_another_holder() {
    let server = Server::new();
    let a = Candidate::new("a", &server, &Link::default());
    let gate = a.elector.gate();
    let stop = a.stop.clone();
    let leader = tokio::spawn(a.lead());
    pass(3.0).await;
    server.edit(|lease| lease["metadata"]["labels"] = json!({"kept": "yes"}));
    pass(30.0).await;
    assert!(gate.is_open());
    stop.cancel();
    let (end, a) = leader.await.unwrap();
    assert_eq!(end, Some(TermEnd::Stopped));
    assert_eq!(
        a.metric("leader_election_slowpath_total").as_deref(),
        Some("1")
    );
    assert_eq!(server.spec()["leaseTransitions"], 0);
    let lease = server.lease.lock().1.clone().unwrap();
    assert_eq!(lease["metadata"]["labels"], json!({"kept": "yes"}));
}

#[tokio::test(start_paused = true)]
async fn renewals_with_lost_answers_do_not_extend_the_term() {
    let server = Server::new();
    let link = Link::default();
    let a = Candidate::new("a", &server, &link);
    let gate = a.elector.gate();
    let leader = tokio::spawn(a.lead());
    pass(0.1).await;
    set(&link.loses_answers);
    let started = Instant::now();
    let (end, _) = leader.await.unwrap();
    assert_eq!(end, Some(TermEnd::Lost));
    assert!(!gate.is_open());
    assert!(
        started.elapsed() <= Duration::from_secs(10),
        "took {:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_candidate_leads_after_the_answer_of_its_acquisition_was_lost() {
    let server = Server::new();
    let link = Link::default();
    set(&link.loses_answers);
    let mut a = Candidate::new("a", &server, &link);
    let candidate = tokio::spawn(async move { (a.acquire().await, a) });
    pass(1.0).await;
    assert_eq!(server.holder(), "a");
    link.loses_answers.store(false, Ordering::Relaxed);
    let (acquired, a) = candidate.await.unwrap();
    assert!(acquired && a.elector.gate().is_open());
    assert_eq!(server.spec()["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn of_many_candidates_at_most_one_leads_at_any_time() {
    let server = Server::new();
    let links: Vec<Link> = (0..5).map(|_| Link::default()).collect();
    let candidates: Vec<Candidate> = links
        .iter()
        .enumerate()
        .map(|(i, link)| Candidate::new(&format!("c{i}"), &server, link))
        .collect();
    let gates: Vec<_> = candidates.iter().map(|c| c.elector.gate()).collect();
    let stops: Vec<_> = candidates.iter().map(|c| c.stop.clone()).collect();
    let tasks: Vec<_> = candidates
        .into_iter()
        .map(|c| tokio::spawn(c.lead()))
        .collect();
    let leaders = || -> Vec<usize> { (0..gates.len()).filter(|i| gates[*i].is_open()).collect() };

    let mut led = Vec::new();
    for _ in 0..4 {
        let began = Instant::now();
        while leaders().iter().all(|i| led.contains(i)) {
            assert!(
                began.elapsed() < Duration::from_secs(40),
                "no candidate leads after {led:?}"
            );
            assert!(leaders().len() <= 1, "two lead: {:?}", leaders());
            pass(0.05).await;
        }
        let leader = leaders()[0];
        led.push(leader);
        pass(5.0).await;
        assert_eq!(leaders(), [leader]);
        set(&links[leader].is_cut);
    }
    assert_eq!(server.spec()["leaseTransitions"], 3);
    for stop in stops {
        stop.cancel();
    }
    for (i, task) in tasks.into_iter().enumerate() {
        let expected = match led.iter().position(|l| *l == i) {
            // It was disconnected last, and its term is not over yet.
            Some(3) => Some(TermEnd::Stopped),
            Some(_) => Some(TermEnd::Lost),
            None => None,
        };
        assert_eq!(task.await.unwrap().0, expected, "c{i}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_candidate_can_be_stopped() {
    let server = Server::new();
    let mut a = Candidate::new("a", &server, &Link::default());
    assert!(a.acquire().await);
    let mut b = Candidate::new("b", &server, &Link::default());
    let stop = b.stop.clone();
    let standby = tokio::spawn(async move { b.acquire().await });
    pass(5.0).await;
    stop.cancel();
    assert!(!standby.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_release_leaves_the_lease_of_another_holder_unchanged() {
    let server = Server::new();
    let mut a = Candidate::new("a", &server, &Link::default());
    assert!(a.acquire().await);
    server.edit(|lease| lease["spec"]["holderIdentity"] = json!("b"));
    a.elector.release().await;
    assert_eq!(server.holder(), "b");
}
