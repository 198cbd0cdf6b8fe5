//! Checks of several programs.

use super::*;

/// The revision of an APIService with a condition.
fn decided_at(objects: &[Value], name: &str) -> Option<u64> {
    let mut objects = objects.iter();
    let own = objects.find(|object| object["metadata"]["name"] == name)?;
    own["status"]["conditions"][0].as_object()?;
    own["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

#[tokio::test]
async fn a_program_that_hangs_delays_no_check_of_another_one() {
    let certificate = Certificate::issued();
    // Connections are open at once, and then nothing answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut hanging = api_service(&certificate, silent.local_addr().unwrap().port());
    hanging["metadata"]["name"] = json!("v1.others.example.com");
    hanging["spec"]["group"] = json!("others.example.com");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _program = Program::start(listener, certificate.acceptor());

    let cluster = DevCluster::builder()
        .object(external_name())
        .object(hanging);
    let cluster = cluster.start().await.unwrap();
    cluster
        .create(api_service(&certificate, port))
        .await
        .unwrap();
    condition(&cluster, "Passed").await;
    let services = cluster.objects("apiservices");
    let passed = decided_at(&services, "v1.things.example.com").unwrap();
    let timed_out = decided_at(&services, "v1.others.example.com");
    assert!(timed_out.is_none_or(|at| at > passed), "{services:#?}");
    let (code, text) = get(&cluster, "/apis/others.example.com/v1").await;
    assert_eq!((code, &*text), (503, "service unavailable\n"));
}

#[tokio::test]
async fn requests_for_a_changed_api_service_go_to_its_new_program_at_once() {
    let certificate = Certificate::issued();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = aggregating(&listener, &certificate).await;
    let _program = Program::start(listener, certificate.acceptor());
    condition(&cluster, "Passed").await;
    assert_eq!(get(&cluster, THINGS).await.0, 200);

    // The new program never answers, and its check takes seconds.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let path = format!("{API_SERVICES}/v1.things.example.com");
    let patch = json!({"spec": {"service": {"port": port}}});
    cluster.patch(&path, patch).await.unwrap();
    // The first connection is that of the check.
    let _check = silent.accept().await.unwrap();
    let request = get(&cluster, THINGS);
    let reached = silent.accept();
    tokio::select! {
        answer = request => panic!("answered by the old program: {answer:?}"),
        connection = reached => drop(connection.unwrap()),
    }
}

#[tokio::test]
async fn the_check_of_a_former_api_service_stops() {
    let certificate = Certificate::issued();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = aggregating(&silent, &certificate).await;
    let (check, _) = silent.accept().await.unwrap();

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _program = Program::start(listener, certificate.acceptor());
    let path = format!("{API_SERVICES}/v1.things.example.com");
    let patch = json!({"spec": {"service": {"port": port}}});
    cluster.patch(&path, patch).await.unwrap();
    condition(&cluster, "Passed").await;
    // Without its end, reading fails, because no more bytes are there.
    let mut hello = Vec::new();
    let mut check = check.into_std().unwrap();
    std::io::Read::read_to_end(&mut check, &mut hello).unwrap();
}
