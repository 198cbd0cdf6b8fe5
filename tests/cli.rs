//! The output of the program for help, version and invalid input.

use std::net::SocketAddr;

use steersman::version::GIT_VERSION;

use crate::support::{api_server, kubeconfig, output, steersman, wait};

/// Exit status, standard output, last line of standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = output(arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let last = stderr.lines().last().unwrap_or_default().to_owned();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        last,
    )
}

#[test]
fn help_and_version_go_to_standard_output() {
    assert_eq!(
        run(&["--version"]),
        (
            Some(0),
            format!("Kubernetes {GIT_VERSION}\n"),
            String::new()
        )
    );
    let (status, text, error) = run(&["--help"]);
    assert_eq!((status, error.as_str()), (Some(0), ""));
    for part in [
        "Usage:\n  steersman [flags]\n  steersman [command]\n",
        "\n  apiserver    Starts",
        "\n  dev  ",
        "\n  nodes  ",
        "\nSecure serving flags:\n",
        "--concurrent-deployment-syncs int32",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert_eq!(run(&["help"]), (Some(0), text, String::new()));
    let own = env!("CARGO_PKG_VERSION");
    let version = format!("Steersman v{own}\nKubernetes {GIT_VERSION}\n");
    assert_eq!(run(&["version"]), (Some(0), version, String::new()));
    for (command, part) in [
        ("nodes", "Usage: steersman nodes [OPTIONS]"),
        ("version", "Usage: steersman version"),
        ("help", "Usage: "),
    ] {
        let (status, text, error) = run(&["help", command]);
        assert_eq!((status, error.as_str()), (Some(0), ""), "{command}");
        assert!(text.contains(part), "{command}: {text}");
    }
}

#[test]
fn shells_complete_commands_and_flags() {
    // The names stand in each script as the shell wants them.
    for (shell, flag) in [
        ("bash", "--leader-elect-lease-duration"),
        ("zsh", "--leader-elect-lease-duration"),
        ("fish", "-l leader-elect-lease-duration"),
    ] {
        let (status, script, error) = run(&["completion", shell]);
        assert_eq!((status, error.as_str()), (Some(0), ""), "{shell}");
        for part in [flag, "write-kubeconfig", "apiserver"] {
            assert!(script.contains(part), "{part:?} is missing for {shell}");
        }
        assert!(!script.contains("manual"), "a hidden command is shown");
    }
    assert_eq!(run(&["completion", "csh"]).0, Some(1));
}

#[test]
fn manual_pages_need_a_folder_that_exists() {
    let (status, _, error) = run(&["manual", "/nowhere/at/all"]);
    assert_eq!(status, Some(1));
    let expected = "Error: cannot write the manual pages to /nowhere/at/all: No such file";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn an_unknown_flag_leads_to_usage_error_and_suggestion() {
    let output = output(&["--leader-elekt"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(text.starts_with("Usage:\n"), "{text}");
    assert!(
        text.ends_with("\nError: unknown flag: --leader-elekt\nDid you mean --leader-elect?\n"),
        "{text}"
    );
}

/// As in `steersman --bogus 2>&1 | head -0`, with the reader gone before the first line.
#[test]
fn a_closed_pipe_causes_no_panic() {
    // (arguments, exit status)
    let cases: [(&[&str], i32); 8] = [
        (&["--bogus"], 1),
        (&["--help"], 0),
        (&["--version"], 0),
        (&["dew"], 1),
        (&["version", "2"], 1),
        (&["help", "everything"], 1),
        (&["dev", "--bogus"], 1),
        (&["--controllers=-podgc"], 1),
    ];
    for (arguments, status) in cases {
        let closed = || std::io::pipe().unwrap().1;
        let mut child = steersman(arguments)
            .stdout(closed())
            .stderr(closed())
            .spawn()
            .unwrap();
        assert_eq!(wait(&mut child).code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn a_line_break_in_a_token_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = kubeconfig(directory.path(), api_server("200 OK"));
    let text = std::fs::read_to_string(&path).unwrap();
    // Without TLS, no credentials are sent.
    let text = text
        .replace("http://", "https://")
        .replace("user: {}", "user: {token: \"s3cret\\nx\"}");
    std::fs::write(&path, text).unwrap();
    let (status, _, last) = run(&["--kubeconfig", &path]);
    assert_eq!(status, Some(1), "{last}");
    assert!(last.contains("token of test has a line break"), "{last}");
    assert!(!last.contains("s3cret"), "{last}");
}

#[test]
fn invalid_input_leads_to_one_line_and_status_1() {
    let directory = tempfile::tempdir().unwrap();
    let malformed = directory.path().join("malformed");
    std::fs::write(&malformed, "clusters: [").unwrap();
    let malformed = malformed.to_str().unwrap();
    // (arguments, part of the last line)
    let cases: [(&[&str], &str); 19] = [
        (
            &["--leader-elect-lease-duration=15"],
            r#"Error: invalid argument "15" for "--leader-elect-lease-duration" flag: time: missing unit in duration "15""#,
        ),
        (
            &["true"],
            r#"Error: "kube-controller-manager" does not take any arguments, got ["true"]"#,
        ),
        (&["dew"], "Did you mean dev?"),
        (&["aplserver", "--nodes=1"], "Did you mean apiserver?"),
        (&["help", "verison"], "Did you mean version?"),
        (
            &["help", "everything"],
            r#"Error: unknown command "everything" for "steersman"; there are apiserver, assets, check, completion, dev, help, nodes, shadow, ui, version, why"#,
        ),
        (
            &["version", "2"],
            r#"Error: "steersman version" takes no argument, got "2""#,
        ),
        (
            &["--controllers=route"],
            "--controllers=route leaves no controller to run: managers of clouds run node-route-controller",
        ),
        (
            &["--controllers=-podgc"],
            "--controllers=-podgc leaves no controller to run: the list names only controllers that are not to run",
        ),
        (
            &["--controllers=podcertificaterequest-cleaner-controller"],
            "podcertificaterequest-cleaner-controller needs --feature-gates=PodCertificateRequest=true",
        ),
        (
            &[
                "--controllers=serviceaccount-token",
                "--kubeconfig=/nowhere/at/all",
            ],
            "kubeconfig /nowhere/at/all: No such file or directory",
        ),
        (
            &["--controllers=*,-nope"],
            r#""command failed" err="\"nope\" is not in the list of known controllers""#,
        ),
        (
            &["--leader-elect-resource-lock=endpoints"],
            r#"err="resourceLock value must be \"leases\"""#,
        ),
        (
            &["--cloud-provider=aws"],
            r#"err="cloud provider \"aws\" was specified, but built-in cloud providers are disabled."#,
        ),
        (
            &["--secure-port=70000"],
            "--secure-port 70000 must be between 1 and 65535, inclusive",
        ),
        (
            &[],
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable",
        ),
        (
            &["--kubeconfig=/nowhere/at/all"],
            "kubeconfig /nowhere/at/all: No such file or directory",
        ),
        (
            &["--kubeconfig", malformed],
            "malformed: not a kubeconfig in YAML",
        ),
        (
            &["--master=not a url"],
            "--master \\\"not a url\\\" is not a URL",
        ),
    ];
    for (arguments, expected) in cases {
        let (status, stdout, last) = run(arguments);
        assert_eq!((status, stdout.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(last.contains(expected), "{arguments:?} said: {last}");
    }
}

#[test]
fn the_error_for_a_port_in_use_names_the_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (status, _, last) = run(&[
        "--master=http://127.0.0.1:1",
        "--bind-address=127.0.0.1",
        &format!("--secure-port={}", address.port()),
    ]);
    assert_eq!(status, Some(1));
    let expected = format!(
        "failed to listen on {address}: listen tcp {address}: bind: address already in use\""
    );
    assert!(last.ends_with(&expected), "{last}");
}

#[test]
fn an_unreachable_api_server_is_named_after_waiting_for_it() {
    let text = String::from_utf8(
        output(&[
            "--master=127.0.0.1:1",
            "--secure-port=0",
            "--leader-elect=false",
        ])
        .stderr,
    )
    .unwrap();
    let waiting: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("waiting for it"))
        .collect();
    assert!(
        waiting[0].contains(r#"server="127.0.0.1:1" cause="connection refused: "#)
            && waiting[0].contains("0s"),
        "{text}"
    );
    assert!(waiting.len() <= 2, "{text}");
    let expected = "failed to wait for apiserver being healthy: timed out waiting for the condition: API server 127.0.0.1:1: ";
    let last = text.lines().last().unwrap();
    assert!(
        last.contains(expected) && last.contains("connection refused"),
        "{last}"
    );
}

/// Feature gate `LoggingAlphaOptions`.
#[test]
fn split_streams_have_errors_apart_from_all_else() {
    for format in ["text", "json"] {
        let said = output(&[
            "--feature-gates=LoggingAlphaOptions=true",
            &format!("--logging-format={format}"),
            &format!("--log-{format}-split-stream"),
            "-v=1",
            "--kubeconfig=/missing",
        ]);
        let [infos, errors] =
            [said.stdout, said.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(said.status.code(), Some(1), "{errors}");
        let is_flag = |line: &str| line.contains("FLAG: --");
        assert!(infos.lines().any(is_flag), "{format}: {infos}");
        assert!(!errors.lines().any(is_flag), "{format}: {errors}");
        let is_failure = |line: &str| line.contains("/missing") && !is_flag(line);
        assert!(errors.lines().any(is_failure), "{format}: {errors}");
        assert!(!infos.lines().any(is_failure), "{format}: {infos}");
    }
}

#[test]
fn why_without_an_api_server_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(directory.path(), SocketAddr::from(([127, 0, 0, 1], 1)));
    for question in [&["deployment/web"][..], &[]] {
        let arguments = [&["why", "--kubeconfig", &kubeconfig][..], question].concat();
        let (status, answer, last) = run(&arguments);
        assert_eq!((status, &*answer), (Some(2), ""), "{last}");
        let expected = "Error: GET /version: cannot connect to 127.0.0.1:1";
        assert!(last.starts_with(expected), "{last}");
    }
}

#[test]
fn why_of_one_object_in_all_namespaces_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(directory.path(), SocketAddr::from(([127, 0, 0, 1], 1)));
    let (status, answer, last) = run(&["why", "--kubeconfig", &kubeconfig, "pod/web", "-A"]);
    assert_eq!((status, &*answer), (Some(2), ""), "{last}");
    assert!(last.starts_with("Error: -A is for lists"), "{last}");
}

#[test]
fn rejected_credentials_are_reported_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(directory.path(), api_server("401 Unauthorized"));
    let (status, _, last) = run(&[
        "--kubeconfig",
        &kubeconfig,
        "--secure-port=0",
        "--leader-elect=false",
    ]);
    assert_eq!(status, Some(1));
    assert!(
        last.contains("the API server 127.0.0.1:") && last.contains(" refuses GET /healthz: "),
        "{last}"
    );
}

#[test]
fn the_arguments_of_a_kubeadm_manifest_are_accepted_without_a_warning() {
    let arguments = [
        "--allocate-node-cidrs=true",
        "--authentication-kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--authorization-kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--bind-address=127.0.0.1",
        "--client-ca-file=/etc/kubernetes/pki/ca.crt",
        "--cluster-cidr=10.244.0.0/16",
        "--cluster-name=kubernetes",
        "--cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt",
        "--cluster-signing-key-file=/etc/kubernetes/pki/ca.key",
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--kubeconfig=/nowhere/controller-manager.conf",
        "--leader-elect=true",
        "--requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt",
        "--root-ca-file=/etc/kubernetes/pki/ca.crt",
        "--service-account-private-key-file=/etc/kubernetes/pki/sa.key",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--use-service-account-credentials=true",
    ];
    let text = String::from_utf8(output(&arguments).stderr).unwrap();
    assert!(!text.lines().any(|line| line.starts_with('W')), "{text}");
    assert!(
        text.lines()
            .last()
            .unwrap()
            .contains("kubeconfig /nowhere/controller-manager.conf"),
        "{text}"
    );
}

#[test]
fn contradictory_election_durations_end_with_status_2() {
    let cases: [(&[&str], &str); 3] = [
        (
            &["--leader-elect-lease-duration=10s"],
            "panic: leaseDuration must be greater than renewDeadline",
        ),
        (
            &["--leader-elect-renew-deadline=2s"],
            "panic: renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
        (
            &[
                "--leader-elect-renew-deadline=0s",
                "--leader-elect-retry-period=-1s",
            ],
            "panic: renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
    ];
    for (flags, expected) in cases {
        let arguments = [&["--master=http://127.0.0.1:1", "--secure-port=0"], flags].concat();
        let (status, _, last) = run(&arguments);
        assert_eq!((status, last.as_str()), (Some(2), expected), "{flags:?}");
    }
}

#[test]
fn a_controller_without_workers_leads_to_a_warning_with_its_flag() {
    let arguments = [
        "--kubeconfig=/nowhere",
        "--concurrent-deployment-syncs=0",
        "--concurrent-rc-syncs=-1",
    ];
    let text = String::from_utf8(output(&arguments).stderr).unwrap();
    for flag in [
        "--concurrent-deployment-syncs=0: ",
        "--concurrent-rc-syncs=-1: ",
    ] {
        assert!(
            text.lines()
                .any(|line| line.starts_with('W') && line.contains(flag)),
            "{flag} is missing in {text}"
        );
    }
}
