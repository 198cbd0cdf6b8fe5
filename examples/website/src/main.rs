//! The operator as a program, for the cluster of the kubeconfig.

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    website_operator::run(kube::Client::try_default().await?).await;
    Ok(())
}
