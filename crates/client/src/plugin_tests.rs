//! Tests of credential plugins, which are shell scripts here, against servers that refuse some
//! credentials.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use kube::config::{AuthInfo, ExecConfig};
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::{Value, json};
use tower::{Service, ServiceExt};

use super::transports::Transports;

const API_VERSION: &str = "client.authentication.k8s.io/v1";

/// A program that prints the file `1` of its directory at its first run, `2` at its second, and so
/// on.
struct Program {
    directory: tempfile::TempDir,
    transports: Transports,
    metrics: Registry,
}

impl Program {
    fn printing(outputs: &[Value]) -> Self {
        let transports = Transports::new().unwrap();
        let metrics = Registry::new();
        transports.register(&metrics).unwrap();
        let program = Self {
            directory: tempfile::tempdir().unwrap(),
            transports,
            metrics,
        };
        for (at, output) in outputs.iter().enumerate() {
            std::fs::write(program.file(&(at + 1).to_string()), output.to_string()).unwrap();
        }
        program
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn exec(&self) -> ExecConfig {
        self.exec_after(":")
    }

    /// Settings of a program that runs the script `first` before it prints. `$1` is its directory.
    fn exec_after(&self, first: &str) -> ExecConfig {
        let then = r#"cd "$1"; echo run >> runs; printf %s "$KUBERNETES_EXEC_INFO" > info; cat "$(wc -l < runs | tr -d ' ')""#;
        self.command(
            "sh",
            &[
                "-c",
                &format!("{first}; {then}"),
                "sh",
                self.directory.path().to_str().unwrap(),
            ],
        )
    }

    fn command(&self, command: &str, arguments: &[&str]) -> ExecConfig {
        let exec = json!({"apiVersion": API_VERSION, "command": command, "args": arguments, "interactiveMode": "Never"});
        serde_json::from_value(exec).unwrap()
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.file("runs"))
            .unwrap_or_default()
            .lines()
            .count()
    }

    /// The value of a metric, or the number of its samples for a histogram.
    fn metric(&self, family: &str, labels: &[&str]) -> Option<f64> {
        let families = self.metrics.gather();
        let family = families.iter().find(|found| found.name() == family)?;
        let matches = |metric: &&prometheus::proto::Metric| {
            metric
                .get_label()
                .iter()
                .map(|label| label.value())
                .eq(labels.iter().copied())
        };
        let metric = family.get_metric().iter().find(matches)?;
        Some(match family.get_field_type() {
            prometheus::proto::MetricType::COUNTER => metric.get_counter().get_value(),
            prometheus::proto::MetricType::HISTOGRAM => {
                metric.get_histogram().get_sample_count() as f64
            }
            _ => metric.get_gauge().get_value(),
        })
    }

    fn calls(&self, call_status: &str, code: &str) -> f64 {
        self.metric("rest_client_exec_plugin_call_total", &[call_status, code])
            .unwrap_or_default()
    }
}

/// A server that records requests and connections.
#[derive(Clone, Default)]
struct Server {
    /// Status codes of the next answers, the last one first. After them, 200.
    codes: Arc<Mutex<Vec<u16>>>,
    /// The `Authorization` headers of all requests.
    authorizations: Arc<Mutex<Vec<String>>>,
    /// The number of connections.
    connections: Arc<Mutex<usize>>,
}

impl Server {
    /// Sends `requests` requests with the credentials of `exec`.
    async fn send_requests(
        &self,
        program: &Program,
        exec: &ExecConfig,
        requests: usize,
    ) -> Vec<Result<u16, String>> {
        let plugin = program.transports.plugin(exec);
        let server = self.clone();
        let make = move || {
            *server.connections.lock() += 1;
            let server = server.clone();
            tower::service_fn(move |request: Request<Body>| {
                let token = request
                    .headers()
                    .get("authorization")
                    .map_or("", |value| value.to_str().unwrap())
                    .to_owned();
                server.authorizations.lock().push(token);
                let code = server.codes.lock().pop().unwrap_or(200);
                async move { Ok::<_, Infallible>(Response::builder().status(code).body(()).unwrap()) }
            })
        };
        let mut service = plugin.over(make);
        let mut answers = Vec::new();
        for _ in 0..requests {
            let answer = service
                .ready()
                .await
                .unwrap()
                .call(Request::new(Body::empty()))
                .await;
            answers.push(
                answer
                    .map(|answer| answer.status().as_u16())
                    .map_err(|error| error.to_string()),
            );
        }
        answers
    }
}

fn credential(status: Value) -> Value {
    json!({"kind": "ExecCredential", "apiVersion": API_VERSION, "status": status})
}

#[tokio::test]
async fn a_token_is_used_until_it_expires_or_is_refused() {
    let later = "2999-01-01T00:00:00Z";
    let program = Program::printing(&[
        credential(json!({"token": "one", "expirationTimestamp": later})),
        credential(json!({"token": "two", "expirationTimestamp": "2001-01-01T00:00:00Z"})),
        credential(json!({"token": "three"})),
    ]);
    let server = Server::default();
    *server.codes.lock() = vec![401, 200, 200];
    let answers = server.send_requests(&program, &program.exec(), 5).await;
    assert_eq!(answers, [Ok(200), Ok(200), Ok(401), Ok(200), Ok(200)]);
    let authorizations = [
        "Bearer one",
        "Bearer one",
        "Bearer one",
        "Bearer three",
        "Bearer three",
    ];
    assert_eq!(
        *server.authorizations.lock(),
        authorizations,
        "the second token has expired already, so it is not used"
    );
    assert_eq!((program.runs(), program.calls("no_error", "0")), (3, 3.0));
    assert_eq!(
        *server.connections.lock(),
        1,
        "a new token needs no new connection"
    );

    let info: Value =
        serde_json::from_str(&std::fs::read_to_string(program.file("info")).unwrap()).unwrap();
    assert_eq!(
        info,
        json!({"kind": "ExecCredential", "apiVersion": API_VERSION, "spec": {"interactive": false}})
    );
    assert_eq!(
        program.metric("rest_client_exec_plugin_ttl_seconds", &[]),
        Some(f64::INFINITY)
    );
    // Another connection with the same plugin uses its credentials.
    assert_eq!(
        Server::default()
            .send_requests(&program, &program.exec(), 1)
            .await,
        [Ok(200)]
    );
    assert_eq!(program.runs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_slow_program_finishes_after_its_request_timed_out() {
    let program = Program::printing(&[credential(json!({"token": "one"}))]);
    let slow = program.exec_after(r#"until test -e "$1/go"; do sleep 0.01; done"#);
    let server = Server::default();
    let timed_out = tokio::time::timeout(
        Duration::from_secs(5),
        server.send_requests(&program, &slow, 1),
    )
    .await;
    assert!(timed_out.is_err(), "the program still runs");
    let end = async { std::fs::write(program.file("go"), "").unwrap() };
    let (first, second, ()) = tokio::join!(
        server.send_requests(&program, &slow, 1),
        server.send_requests(&program, &slow, 1),
        end
    );
    assert_eq!((first, second), (vec![Ok(200)], vec![Ok(200)]));
    assert_eq!((program.runs(), program.calls("no_error", "0")), (1, 1.0));
    assert_eq!(*server.authorizations.lock(), ["Bearer one", "Bearer one"]);
}

#[tokio::test]
async fn a_new_certificate_gets_a_new_connection() {
    let certificate = |days: i64| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        let date = |days: i64| {
            let date = jiff::Zoned::now()
                .checked_add(jiff::Span::new().days(days))
                .unwrap()
                .date();
            rcgen::date_time_ymd(
                date.year().into(),
                date.month().unsigned_abs(),
                date.day().unsigned_abs(),
            )
        };
        params.not_before = date(-2);
        params.not_after = date(days);
        let certificate = params.self_signed(&key).unwrap().pem();
        let status =
            json!({"clientCertificateData": certificate, "clientKeyData": key.serialize_pem()});
        credential(status)
    };
    let program = Program::printing(&[certificate(10), certificate(20)]);
    let server = Server::default();
    *server.codes.lock() = vec![401];
    assert_eq!(
        server.send_requests(&program, &program.exec(), 2).await,
        [Ok(401), Ok(200)]
    );
    assert_eq!((program.runs(), *server.connections.lock()), (2, 2));
    let days = program
        .metric("rest_client_exec_plugin_ttl_seconds", &[])
        .unwrap()
        / 86400.0;
    assert!((18.0..21.0).contains(&days), "{days} days");
    assert_eq!(
        program.metric("rest_client_exec_plugin_certificate_rotation_age", &[]),
        Some(1.0)
    );
}

#[tokio::test]
async fn errors_of_programs_are_counted_and_name_the_program_without_its_output() {
    let sh = |script: &str| vec!["-c".to_owned(), script.to_owned()];
    let prints = |output: Value| sh(&format!("echo '{output}'"));
    let secret = "s3cret";
    // (command, arguments, part of the error, call status, code)
    let cases = [
        (
            "/nowhere/plugin",
            Vec::new(),
            "executable /nowhere/plugin cannot be run",
            "plugin_not_found_error",
            "1",
        ),
        (
            "sh",
            sh("echo s3cret; exit 7"),
            "failed with exit status: 7",
            "plugin_execution_error",
            "7",
        ),
        (
            "sh",
            sh("kill -9 $$"),
            "failed with signal: 9",
            "plugin_execution_error",
            "-1",
        ),
        (
            "sh",
            sh("yes s3cret"),
            "the output of executable sh is longer than 1 MiB",
            "plugin_execution_error",
            "-1",
        ),
        (
            "sh",
            sh("echo {{ s3cret"),
            "the output of executable sh is not an ExecCredential",
            "no_error",
            "0",
        ),
        (
            "sh",
            prints(credential(json!({}))),
            "didn't return a token or cert/key pair",
            "no_error",
            "0",
        ),
        (
            "sh",
            prints(credential(json!({"clientKeyData": secret}))),
            "only certificate or key, not both",
            "no_error",
            "0",
        ),
        (
            "sh",
            prints(credential(
                json!({"clientKeyData": secret, "clientCertificateData": "b"}),
            )),
            "failed parsing client key/certificate",
            "no_error",
            "0",
        ),
        (
            "sh",
            prints(
                json!({"apiVersion": "client.authentication.k8s.io/v1beta1", "status": {"token": secret}}),
            ),
            "plugin returned version client.authentication.k8s.io/v1beta1",
            "no_error",
            "0",
        ),
    ];
    for (command, arguments, part, call_status, code) in cases {
        let program = Program::printing(&[]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let answers = Server::default()
            .send_requests(&program, &program.command(command, &arguments), 1)
            .await;
        let error = answers[0].clone().unwrap_err();
        assert!(
            error.starts_with("getting credentials: ")
                && error.contains(part)
                && !error.contains(secret),
            "{error}"
        );
        assert_eq!(program.calls(call_status, code), 1.0, "{part}");
    }
}

#[tokio::test]
async fn a_plugin_runs_only_without_other_credentials() {
    let program = Program::printing(&[]);
    let config = |change: fn(&mut AuthInfo)| {
        let mut config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        config.auth_info.exec = Some(program.exec());
        change(&mut config.auth_info);
        config
    };
    let token = config(|auth| auth.token = Some("t".to_owned().into()));
    for config in [config(|_| {}), token] {
        let client = program.transports.connect(&config).unwrap();
        let _ = client
            .send(
                http::Request::get("/")
                    .body(kube::client::Body::empty())
                    .unwrap(),
            )
            .await;
    }
    assert_eq!(program.runs(), 1, "the token has precedence");
}
