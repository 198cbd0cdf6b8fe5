//! A bearer token from a file that may change: `tokenFile` of a kubeconfig, or the token of a pod's
//! service account, which the kubelet rotates.
//!
//! Upstream: `client-go/transport/token_source.go`.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use kube::client::Body;
use tower::{BoxError, Service, ServiceExt};

use crate::reload::Reloading;

/// The file's token as a header. As in client-go, an invalid file keeps the previous token.
pub(super) struct TokenFile(Reloading<HeaderValue>);

impl TokenFile {
    /// Reads the file. Fails if it is unreadable or invalid now.
    pub(super) fn new(path: &str) -> Result<Self, String> {
        Reloading::new(vec![path.into()], |files| header(&files[0])).map(Self)
    }

    /// A service that adds the token to each request for `service`.
    pub(super) fn over<S, B>(
        self,
        service: S,
    ) -> impl Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send> + Clone
    where
        S: Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
        B: Send,
    {
        let token = Arc::new(self.0);
        tower::service_fn(move |mut request: Request<Body>| {
            let token = Arc::clone(&token);
            let mut service = service.clone();
            async move {
                request
                    .headers_mut()
                    .insert(AUTHORIZATION, (*token.current().await).clone());
                service.ready().await?.call(request).await
            }
        })
    }
}

/// Builds the header. The error shows no part of the token.
fn header(content: &[u8]) -> Result<HeaderValue, String> {
    let token = content.trim_ascii();
    if token.is_empty() {
        return Err("it contains no token".to_owned());
    }
    let mut header = HeaderValue::from_bytes(&[b"Bearer ", token].concat())
        .map_err(|_| "its content is not a valid token".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use parking_lot::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_changed_token_is_used_without_surrounding_white_space() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let path_text = path.to_str().unwrap();
        assert!(
            TokenFile::new(path_text)
                .err()
                .unwrap()
                .contains("no such file")
        );
        std::fs::write(&path, "\n").unwrap();
        assert!(
            TokenFile::new(path_text)
                .err()
                .unwrap()
                .ends_with("token: it contains no token")
        );

        std::fs::write(&path, "first\n").unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&sent);
        let server = tower::service_fn(move |request: Request<Body>| {
            noted.lock().push(
                request.headers()[AUTHORIZATION]
                    .to_str()
                    .unwrap()
                    .to_owned(),
            );
            async { Ok::<_, Infallible>(Response::new(())) }
        });
        let mut service = TokenFile::new(path_text)
            .unwrap()
            .over(server.map_err(BoxError::from));
        // (content of the file, token sent)
        for (content, expected) in [
            ("first", "first"),
            ("second", "second"),
            ("", "second"),
            (" third \n", "third"),
        ] {
            std::fs::write(&path, content).unwrap();
            tokio::time::advance(std::time::Duration::from_secs(2)).await;
            service.call(Request::new(Body::empty())).await.unwrap();
            assert_eq!(sent.lock().pop().unwrap(), format!("Bearer {expected}"));
        }
    }
}
