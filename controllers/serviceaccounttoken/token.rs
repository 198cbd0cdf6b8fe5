//! The tokens in Secrets: JSON Web Tokens in compact form, without an expiry.
//!
//! The API server finds the key by `kid`, and accepts the token while Secret and account exist.
//! Upstream: `pkg/serviceaccount` (`jwt.go`, `legacy.go`).

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use steersman_pki::keys::{Algorithm, EcdsaForm, PrivateKey, SigningError};

/// The issuer, which does not depend on that of the API server. Upstream: `LegacyIssuer`.
const ISSUER: &str = "kubernetes/serviceaccount";

/// A key signs no tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SignerError {
    /// Its type is Ed25519.
    #[error(
        "unknown private key type ed25519.PrivateKey, must be *rsa.PrivateKey, *ecdsa.PrivateKey, or jose.OpaqueSigner"
    )]
    Type,
    /// Its curve is P-224.
    #[error(
        "could not generate signer for ECDSA keypair: unknown private key curve, must be 256, 384, or 521"
    )]
    Curve,
}

/// A token could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignError {
    /// The key did not sign.
    #[error(transparent)]
    Key(#[from] SigningError),
    /// The claims cannot be written as JSON.
    #[error("encode the claims: {0}")]
    Claims(#[from] serde_json::Error),
}

/// The identity that a token proves.
pub(super) struct Claims<'a> {
    /// Namespace of account and Secret.
    pub(super) namespace: &'a str,
    /// Name of the Secret that holds the token.
    pub(super) secret: &'a str,
    /// Name of the account.
    pub(super) account: &'a str,
    /// UID of the account.
    pub(super) account_uid: &'a str,
}

/// The header in JSON. Members of both parts are in the order of their names, as in Go.
#[derive(Serialize)]
struct Header<'a> {
    alg: &'static str,
    kid: &'a str,
}

/// The claims in JSON.
#[derive(Serialize)]
struct Payload<'a> {
    iss: &'static str,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: &'a str,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: &'a str,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: &'a str,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    account_uid: &'a str,
    sub: String,
}

/// Signs tokens with one key.
#[derive(Debug)]
pub(super) struct Signer {
    key: PrivateKey,
    /// `alg` of the header.
    algorithm: &'static str,
    /// `kid` of the header: the digest of the public key. Upstream: `keyIDFromPublicKey`.
    id: String,
}

impl Signer {
    /// Signs with `key`. The type of the key decides the algorithm.
    pub(super) fn new(key: PrivateKey) -> Result<Self, SignerError> {
        let algorithm = match key.algorithm() {
            Algorithm::Rsa => "RS256",
            Algorithm::P256 => "ES256",
            Algorithm::P384 => "ES384",
            Algorithm::P521 => "ES512",
            Algorithm::Ed25519 => return Err(SignerError::Type),
        };
        let id = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, key.public_key()));
        Ok(Self { key, algorithm, id })
    }

    /// A new token.
    pub(super) fn sign(&self, claims: &Claims<'_>) -> Result<String, SignError> {
        let Claims {
            namespace,
            secret,
            account,
            account_uid,
        } = *claims;
        let header = Header {
            alg: self.algorithm,
            kid: &self.id,
        };
        let payload = Payload {
            iss: ISSUER,
            namespace,
            secret,
            account,
            account_uid,
            sub: format!("system:serviceaccount:{namespace}:{account}"),
        };
        let signed = format!("{}.{}", part(&header)?, part(&payload)?);
        let signature = self.key.sign(signed.as_bytes(), EcdsaForm::Fixed)?;
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Ok(format!("{signed}.{signature}"))
    }
}

/// A part of the token: JSON in base64.
fn part(value: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(value)?))
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;
    use serde_json::Value;
    use steersman_pki::keys::verify;

    use super::*;

    /// Keys, and tokens that upstream made of them.
    fn data() -> Value {
        serde_json::from_str(include_str!("testdata/tokens.json")).unwrap()
    }

    fn text<'a>(object: &'a Value, field: &str) -> &'a str {
        object[field].as_str().unwrap()
    }

    fn signer(pem: &str) -> Signer {
        Signer::new(PrivateKey::from_pem(pem.as_bytes()).unwrap()).unwrap()
    }

    /// Upstream: `TestKeyIDStability`.
    #[test]
    fn the_id_of_a_key_is_the_digest_of_its_public_key() {
        for key in data()["keys"].as_array().unwrap() {
            let forms = ["privateKeyPEM", "privateKeyPKCS8PEM"];
            for pem in forms.into_iter().filter_map(|form| key[form].as_str()) {
                let signer = signer(pem);
                assert_eq!(signer.id, text(key, "kid"), "{}", key["name"]);
                let public = BASE64_STANDARD.encode(signer.key.public_key());
                assert_eq!(public, text(key, "publicKeySPKIBase64"));
                assert!(!format!("{signer:?}").contains(&pem[40..80]));
            }
        }
    }

    /// Upstream: `TestTokenGenerateAndValidate`.
    #[test]
    fn tokens_equal_those_of_upstream() {
        let data = data();
        let keys = data["keys"].as_array().unwrap();
        for case in data["cases"].as_array().unwrap() {
            let key = keys.iter().find(|key| key["name"] == case["key"]).unwrap();
            let signer = signer(text(key, "privateKeyPEM"));
            let token = signer
                .sign(&Claims {
                    namespace: text(case, "namespace"),
                    secret: text(case, "secret"),
                    account: text(case, "serviceAccount"),
                    account_uid: text(case, "serviceAccountUID"),
                })
                .unwrap();
            let (signed, signature) = token.rsplit_once('.').unwrap();
            assert_eq!(signed, text(case, "signingInput"), "{}", case["name"]);
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
            assert_eq!(bytes.len() as u64, case["signatureBytes"].as_u64().unwrap());
            if let Some(expected) = case["token"].as_str() {
                assert_eq!(token, expected, "{}", case["name"]);
                continue;
            }
            // Signatures of ECDSA are random, so the public key verifies ours and upstream's.
            for token in [&token[..], text(case, "sampleToken")] {
                let (signed, signature) = token.rsplit_once('.').unwrap();
                let signature = asn1(&BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap());
                let public = signer.key.public_key();
                let algorithm = signer.key.signature_algorithm();
                let verified = verify(public, &algorithm, signed.as_bytes(), &signature);
                assert_eq!(verified, Ok(()), "{}", case["name"]);
            }
        }
    }

    /// The form of X.509 of a signature: a sequence of two integers.
    fn asn1(fixed: &[u8]) -> Vec<u8> {
        let (r, s) = fixed.split_at(fixed.len() / 2);
        let integer = |number: &[u8]| {
            let zeros = number.iter().take_while(|byte| **byte == 0).count();
            let digits = &number[zeros..];
            let sign: &[u8] = if digits[0] > 127 { &[0] } else { &[] };
            let length = u8::try_from(sign.len() + digits.len()).unwrap();
            [&[2, length], sign, digits].concat()
        };
        let numbers = [integer(r), integer(s)].concat();
        let length = u8::try_from(numbers.len()).unwrap();
        let head: &[u8] = if length > 127 {
            &[0x30, 0x81, length]
        } else {
            &[0x30, length]
        };
        [head, &numbers].concat()
    }

    #[test]
    fn a_key_of_another_type_is_refused() {
        let pem = include_str!("testdata/ed25519.pem");
        let key = PrivateKey::from_pem(pem.as_bytes()).unwrap();
        assert_eq!(Signer::new(key).unwrap_err(), SignerError::Type);
    }
}
