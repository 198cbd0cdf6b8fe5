//! JSON Web Tokens in the compact form, signed with ES256.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey};
use serde_json::{Value, json};

/// Signs tokens and tells its own from others.
pub(super) struct Signer {
    key: EcdsaKeyPair,
    id: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Why a text is not a token of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotOurs {
    /// No token, or one of another issuer.
    Foreign,
    /// It says that it is, but was signed with another key.
    Signature,
}

impl Signer {
    /// With a new key.
    pub(super) fn generate() -> Result<Self, ring::error::Unspecified> {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
            .map_err(|_| ring::error::Unspecified)?;
        let digest = ring::digest::digest(&ring::digest::SHA256, key.public_key().as_ref());
        Ok(Self { key, id: URL_SAFE_NO_PAD.encode(digest) })
    }

    /// The claims as a token.
    pub(super) fn sign(&self, claims: &Value) -> Result<String, ring::error::Unspecified> {
        let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encoded(&json!({"alg": "ES256", "kid": self.id})), encoded(claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token of `issuer`.
    pub(super) fn verify(&self, token: &str, issuer: &str) -> Result<Value, NotOurs> {
        let (signed, signature) = token.rsplit_once('.').ok_or(NotOurs::Foreign)?;
        let (_, claims) = signed.split_once('.').ok_or(NotOurs::Foreign)?;
        let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| NotOurs::Foreign)?;
        let claims: Value = serde_json::from_slice(&claims).map_err(|_| NotOurs::Foreign)?;
        if claims["iss"] != issuer {
            return Err(NotOurs::Foreign);
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| NotOurs::Foreign)?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        key.verify(signed.as_bytes(), &signature).map_err(|_| NotOurs::Signature)?;
        Ok(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_tokens_are_valid() {
        let (signer, other) = (Signer::generate().unwrap(), Signer::generate().unwrap());
        let claims = json!({"iss": "us", "sub": "jane"});
        let token = signer.sign(&claims).unwrap();
        assert_eq!(signer.verify(&token, "us"), Ok(claims));
        assert_eq!(signer.verify(&token, "them"), Err(NotOurs::Foreign));
        assert_eq!(other.verify(&token, "us"), Err(NotOurs::Signature));
        let forged = URL_SAFE_NO_PAD.encode(json!({"iss": "us", "sub": "root"}).to_string());
        let parts: Vec<&str> = token.split('.').collect();
        let forged = format!("{}.{forged}.{}", parts[0], parts[2]);
        assert_eq!(signer.verify(&forged, "us"), Err(NotOurs::Signature));
        for text in ["", "a", "a.b.c", "a.b", &token[..token.len() - 90]] {
            assert!(signer.verify(text, "us").is_err(), "{text:?}");
        }
    }
}
