//! Bootstrap tokens: the Secrets with which new nodes join the cluster.
//!
//! The informer asks for these Secrets only, so the process holds no other ones. Upstream caches
//! all Secrets of the cluster. The keys are those of `k8s.io/cluster-bootstrap/token/api`.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use steersman_values::clock::saturating_since;
use steersman_values::gotime::parse_rfc3339;
use steersman_values::resource::SECRETS;

use crate::view;

view! {
    /// A Secret of type `bootstrap.kubernetes.io/token` in `kube-system`.
    pub struct BootstrapToken: SECRETS,
        selects "type=bootstrap.kubernetes.io/token" in "kube-system" {
        /// `data`.
        pub data: BootstrapTokenData,
    }

    /// `data` of a bootstrap token. Absent values are empty.
    pub struct BootstrapTokenData {
        /// Id, the part of the token before the dot.
        #[serde(rename = "token-id")]
        pub id: SecretValue,
        /// Secret, the part of the token after the dot.
        #[serde(rename = "token-secret")]
        pub secret: SecretValue,
        /// Time of the expiration in the form of RFC 3339.
        pub expiration: SecretValue,
        /// `true` if the token signs `cluster-info`.
        #[serde(rename = "usage-bootstrap-signing")]
        pub usage_signing: SecretValue,
    }
}

/// The time for which a bootstrap token is still valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLife {
    /// The token has no expiration.
    Endless,
    /// The token expires after this time.
    Left(Duration),
    /// The token has expired, or its expiration is malformed.
    Expired,
}

impl BootstrapToken {
    /// The remaining life at `now`. Upstream: `GetExpiration` in
    /// `k8s.io/cluster-bootstrap/util/secrets`.
    pub fn life(&self, now: Timestamp) -> TokenLife {
        let expiration = &*self.data.expiration;
        if expiration.is_empty() {
            return TokenLife::Endless;
        }
        let expires = std::str::from_utf8(expiration).ok().and_then(parse_rfc3339);
        match expires.map(|expires| saturating_since(expires, now)) {
            Some(left) if !left.is_zero() => TokenLife::Left(left),
            _ => TokenLife::Expired,
        }
    }
}

/// A value in the data of a Secret: any bytes. Its text for debugging hides them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretValue(Box<[u8]>);

impl std::ops::Deref for SecretValue {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hidden")
    }
}

impl<'de> Deserialize<'de> for SecretValue {
    /// Decodes base64. API servers send nothing else; a malformed value counts as empty, because an
    /// error would stop the informer.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self(STANDARD.decode(text).unwrap_or_default().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;

    #[test]
    fn a_bootstrap_token_is_decoded_and_its_values_stay_hidden() {
        let json = br#"{"metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token", "data": {
                "token-id": "YWJjZGVm", "token-secret": "/+4=", "usage-bootstrap-signing": "dHJ1ZQ==",
                "expiration": null, "description": "eA=="}}"#;
        let token = BootstrapToken::decode(json).unwrap();
        let BootstrapTokenData {
            id,
            secret,
            expiration,
            usage_signing,
        } = &token.data;
        assert_eq!(
            [&**id, &**secret, &**expiration, &**usage_signing],
            [&b"abcdef"[..], &[0xff, 0xee], b"", b"true"]
        );
        let debug = format!("{token:?}");
        assert!(
            debug.contains("secret: hidden") && !debug.contains("255"),
            "{debug}"
        );
        for data in ["null", "{}", r#"{"token-id": "not base64"}"#] {
            let json = format!(r#"{{"metadata": {{"name": "x"}}, "data": {data}}}"#);
            let token = BootstrapToken::decode(json.as_bytes()).unwrap();
            assert_eq!(token.data, BootstrapTokenData::default(), "{data}");
        }
    }

    #[test]
    fn a_token_lives_until_its_expiration() {
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        // (expiration, life)
        let cases = [
            ("", TokenLife::Endless),
            (
                "2023-11-14T22:13:21Z",
                TokenLife::Left(Duration::from_secs(1)),
            ),
            (
                "2023-11-14T23:13:20.5+01:00",
                TokenLife::Left(Duration::from_millis(500)),
            ),
            ("2023-11-14T22:13:20Z", TokenLife::Expired),
            ("2023-11-14T22:13:19Z", TokenLife::Expired),
            ("tomorrow", TokenLife::Expired),
            ("\u{fffd}", TokenLife::Expired),
        ];
        for (expiration, expected) in cases {
            let value = STANDARD.encode(expiration);
            let json =
                format!(r#"{{"metadata": {{"name": "x"}}, "data": {{"expiration": "{value}"}}}}"#);
            let token = BootstrapToken::decode(json.as_bytes()).unwrap();
            assert_eq!(token.life(now), expected, "{expiration:?}");
        }
    }
}
