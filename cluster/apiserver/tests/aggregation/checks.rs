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
