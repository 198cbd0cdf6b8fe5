//! JSON Web Tokens in compact form, signed with ES256.
//!
//! Upstream accepts keys for ES256 as well; clusters of kubeadm use RS256. Upstream:
//! `pkg/serviceaccount/jwt.go`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use serde_json::{Value, json};

/// The signature algorithm in headers and key sets.
pub(super) const ALGORITHM: &str = "ES256";
/// Length in bytes of one coordinate of a P-256 point.
const COORDINATE: usize = 32;

/// Signs tokens, and verifies that a token has its signature.
pub(super) struct Signer {
    key: EcdsaKeyPair,
    id: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The reason that verification failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerifyError {
    /// The text is no token, or its issuer is another one.
    Foreign,
    /// The issuer matches, but the signature does not.
    Signature,
}

impl Signer {
    /// A signer with a new key.
    pub(super) fn generate() -> Result<Self, ring::error::Unspecified> {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)?;
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
                .map_err(|_| ring::error::Unspecified)?;
        let digest = ring::digest::digest(&ring::digest::SHA256, key.public_key().as_ref());
        Ok(Self {
            key,
            id: URL_SAFE_NO_PAD.encode(digest),
        })
    }

    /// The public key, as a JSON Web Key Set.
    pub(super) fn key_set(&self) -> Value {
        // An uncompressed point is one format byte, then both coordinates.
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(COORDINATE);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": ALGORITHM, "x": x, "y": y}]})
    }

    /// Signs the claims and returns the token.
    pub(super) fn sign(&self, claims: &Value) -> Result<String, ring::error::Unspecified> {
        let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!(
            "{}.{}",
            encoded(&json!({"alg": ALGORITHM, "kid": self.id})),
            encoded(claims)
        );
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token of `issuer`, after verification of its signature.
    pub(super) fn verify(&self, token: &str, issuer: &str) -> Result<Value, VerifyError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(VerifyError::Foreign)?;
        let (_, claims) = signed.split_once('.').ok_or(VerifyError::Foreign)?;
        let claims = URL_SAFE_NO_PAD
            .decode(claims)
            .map_err(|_| VerifyError::Foreign)?;
        let claims: Value = serde_json::from_slice(&claims).map_err(|_| VerifyError::Foreign)?;
        if claims["iss"] != issuer {
            return Err(VerifyError::Foreign);
        }
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| VerifyError::Foreign)?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        key.verify(signed.as_bytes(), &signature)
            .map_err(|_| VerifyError::Signature)?;
        Ok(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_key_verifies_tokens() {
        let signer = Signer::generate().unwrap();
        let token = signer.sign(&json!({"iss": "us"})).unwrap();
        let set = signer.key_set();
        let key = &set["keys"][0];
        let coordinate = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
        let point = [vec![4], coordinate("x"), coordinate("y")].concat();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let published = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        assert!(published.verify(signed.as_bytes(), &signature).is_ok());
        let head: Value = serde_json::from_slice(
            &URL_SAFE_NO_PAD
                .decode(signed.split_once('.').unwrap().0)
                .unwrap(),
        )
        .unwrap();
        assert_eq!((&head["kid"], &head["alg"]), (&key["kid"], &key["alg"]));
    }

    #[test]
    fn tokens_of_other_issuers_and_keys_are_invalid() {
        let (signer, other) = (Signer::generate().unwrap(), Signer::generate().unwrap());
        let claims = json!({"iss": "us", "sub": "jane"});
        let token = signer.sign(&claims).unwrap();
        assert_eq!(signer.verify(&token, "us"), Ok(claims));
        assert_eq!(signer.verify(&token, "them"), Err(VerifyError::Foreign));
        assert_eq!(other.verify(&token, "us"), Err(VerifyError::Signature));
        let forged = URL_SAFE_NO_PAD.encode(json!({"iss": "us", "sub": "root"}).to_string());
        let parts: Vec<&str> = token.split('.').collect();
        let forged = format!("{}.{forged}.{}", parts[0], parts[2]);
        assert_eq!(signer.verify(&forged, "us"), Err(VerifyError::Signature));
        for text in ["", "a", "a.b.c", "a.b", &token[..token.len() - 90]] {
            assert!(signer.verify(text, "us").is_err(), "{text:?}");
        }
    }
}
