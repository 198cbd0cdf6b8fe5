//! The operator as a program; it uses the cluster of the kubeconfig.

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    website_operator::run(kube::Client::try_default().await?).await;
    Ok(())
}
