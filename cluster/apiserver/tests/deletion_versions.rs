//! Answers to DELETE with the version of the deletion, as servers of 1.38 have them.

use serde_json::json;
use steersman_devcluster::DevCluster;

use crate::support::{ask, clock};

#[tokio::test(start_paused = true)]
async fn a_status_has_the_version_of_the_deletion_on_demand() {
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    for tells in [false, true] {
        let mut builder = DevCluster::builder().clock(clock());
        if tells {
            builder = builder.deletion_versions();
        }
        let cluster = builder.start().await.unwrap();
        cluster.create(map.clone()).await.unwrap();
        let client = cluster.client();
        let answer = ask(&client, "DELETE", &format!("{path}/a"), "", b"").await;
        assert_eq!(answer.body["kind"], "Status");
        let list = ask(&client, "GET", path, "", b"").await;
        let latest = &list.body["metadata"]["resourceVersion"];
        let expected = if tells {
            json!({"resourceVersion": latest})
        } else {
            json!({})
        };
        assert_eq!(answer.body["metadata"], expected);
    }
}
