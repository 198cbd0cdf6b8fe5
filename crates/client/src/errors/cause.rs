//! Explains failed requests to the user: the cause, and the setting to check.
//!
//! The HTTP client's own texts name only the failed step, such as "client error (Connect)".

use std::error::Error;
use std::io::{self, ErrorKind};

use rustls::{CertificateError, Error as TlsError, InvalidMessage};

use super::ApiError;

impl ApiError {
    /// The cause of the failure in one sentence, without the request.
    pub fn cause(&self) -> String {
        match self {
            Self::Transport { source, .. } => of_transport(&**source),
            Self::Timeout { timeout, .. } => format!("no answer within {timeout:?}"),
            Self::Status { code: 401, .. } => format!("{self}: it does not accept the credentials"),
            Self::Status { code: 403, .. } => format!("{self}: the user lacks the right"),
            // The text of Go's server for a request without TLS.
            Self::Status { code: 400, .. } if self.says("HTTP request to an HTTPS server") => {
                "the server expects TLS and got none; its address must begin with https://"
                    .to_owned()
            }
            other => other.to_string(),
        }
    }

    /// True if the body of the server's answer contains `text`. It may be plain text.
    fn says(&self, text: &str) -> bool {
        let causes = self
            .status()
            .and_then(|status| status.details.as_ref())
            .and_then(|details| details.causes.as_ref());
        causes.into_iter().flatten().any(|cause| {
            cause
                .message
                .as_ref()
                .is_some_and(|message| message.contains(text))
        })
    }
}

/// Explains a failed connection. The most specific known cause in the chain wins: TLS, proxy, DNS,
/// and then the I/O error.
fn of_transport(error: &(dyn Error + 'static)) -> String {
    let chain = chain(error);
    let whole = || {
        let mut text = String::new();
        for reason in chain
            .iter()
            .map(ToString::to_string)
            .filter(|reason| !reason.is_empty())
        {
            if !text.contains(&reason) {
                let separator = if text.is_empty() { "" } else { ": " };
                text = format!("{text}{separator}{reason}");
            }
        }
        text
    };
    let texts: Vec<String> = chain.iter().map(ToString::to_string).collect();
    let proxy = texts
        .iter()
        .any(|text| text.starts_with("tunnel error") || text.starts_with("SOCKS error"));
    let through = if proxy { "the proxy: " } else { "" };
    if let Some(tls) = chain
        .iter()
        .find_map(|cause| cause.downcast_ref::<TlsError>())
    {
        return format!("{through}{}", of_tls(tls));
    }
    if let Some(text) = texts
        .iter()
        .find(|text| text.starts_with("tunnel error: proxy authorization"))
    {
        return format!("the proxy wants credentials ({text}); put them into its URL");
    }
    if let Some(text) = texts
        .iter()
        .find(|text| text.starts_with("tunnel error: unsuccessful"))
    {
        return format!("the proxy refuses to connect to the server ({text})");
    }
    if texts.iter().any(|text| text.contains("dns error")) {
        return format!(
            "{through}the name of the server cannot be looked up: {}",
            texts.last().map_or("", String::as_str)
        );
    }
    let io = chain
        .iter()
        .rev()
        .find_map(|cause| cause.downcast_ref::<io::Error>());
    let known = io.and_then(|io| match io.kind() {
        ErrorKind::ConnectionRefused => Some(format!("connection refused: nothing listens there ({io})")),
        ErrorKind::TimedOut => Some("no connection in time: the network may drop what is sent there".to_owned()),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Some(format!("there is no route to it ({io})")),
        ErrorKind::UnexpectedEof if texts.iter().any(|text| text.contains("handshake")) => {
            Some("the connection was closed during the TLS handshake: the server may not speak TLS, which is http://".to_owned())
        }
        ErrorKind::ConnectionReset => Some(format!("the connection was reset ({io})")),
        _ => None,
    });
    known.map_or_else(whole, |known| format!("{through}{known}"))
}

/// Explains a failed TLS handshake.
fn of_tls(error: &TlsError) -> String {
    match error {
        TlsError::InvalidCertificate(problem) => {
            let reason = match problem {
                // A bad signature comes from another CA with the same name, such as a recreated CA.
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    "its issuer is unknown; check certificate-authority"
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    "it is for another name; check the server's address or set tls-server-name"
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "it has expired; renew it, or set the clock"
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    "it is not valid yet; check the clock"
                }
                _ => "it is invalid",
            };
            format!("the certificate of the server cannot be verified: {reason} ({error})")
        }
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server does not speak TLS; if that is meant to be, its address must begin with http://".to_owned()
        }
        TlsError::AlertReceived(_) => format!("the server ended the TLS handshake ({error}); check the client certificate"),
        other => format!("TLS: {other}"),
    }
}

/// `error` and its causes. `source` of an I/O error skips the error that it wraps, so this code
/// looks at it directly.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    let mut chain: Vec<&'a (dyn Error + 'static)> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        chain.push(error);
        let wrapped = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    chain
}
