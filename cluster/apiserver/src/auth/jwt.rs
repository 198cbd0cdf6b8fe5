//! JSON Web Tokens in compact form: signed with ES256, and verified with the keys of the cluster.
//!
//! Upstream signs with ES256 as well if its key is one of P-256; clusters of kubeadm use RS256.
//! Upstream: `pkg/serviceaccount` (`jwt.go`, `openidmetadata.go`).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    EcdsaKeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Value, json};
use steersman_pki::keys;
use x509_parser::asn1_rs::FromDer;
use x509_parser::oid_registry::{OID_EC_P256, OID_NIST_EC_P384, OID_NIST_EC_P521};
use x509_parser::pem::Pem;
use x509_parser::public_key::PublicKey as Parsed;
use x509_parser::x509::SubjectPublicKeyInfo;

/// The signature algorithm of the tokens that this server issues.
const ALGORITHM: &str = "ES256";

/// A key that signs tokens.
pub(super) struct Signer {
    key: EcdsaKeyPair,
    pem: String,
    public: PublicKey,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

/// A key could not be generated, or cannot verify tokens.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text has no block `PUBLIC KEY` or `CERTIFICATE`.
    #[error("data does not contain a PEM block PUBLIC KEY or CERTIFICATE")]
    Pem,
    /// The key has another algorithm, or is damaged.
    #[error("public key is not RSA, P-256, P-384 or P-521")]
    Unsupported,
    /// A new key could not be made.
    #[error("generate a key: {0}")]
    Generate(#[from] rcgen::Error),
    /// A new key could not be read.
    #[error("read a generated key: {0}")]
    Rejected(ring::error::KeyRejected),
}

impl Signer {
    /// A signer with a new key.
    pub(super) fn generate() -> Result<Self, KeyError> {
        let pair = rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        Ok(Self {
            key: EcdsaKeyPair::from_pkcs8(algorithm, pair.serialized_der(), &SystemRandom::new())
                .map_err(KeyError::Rejected)?,
            pem: pair.serialize_pem(),
            public: PublicKey::of_spki(&pair.subject_public_key_info())
                .ok_or(KeyError::Unsupported)?,
        })
    }

    /// The private key, as a PEM block `PRIVATE KEY`.
    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// The key that verifies the signatures.
    pub(super) fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs the claims and returns the token.
    pub(super) fn sign(&self, claims: &Value) -> Result<String, ring::error::Unspecified> {
        let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let head = json!({"alg": ALGORITHM, "kid": self.public.id});
        let signed = format!("{}.{}", encoded(&head), encoded(claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// A key that verifies tokens.
#[derive(Debug, Clone)]
pub(super) struct PublicKey {
    /// The `kid` of its tokens: the digest of the key, as upstream's `keyIDFromPublicKey`.
    id: String,
    algorithm: Algorithm,
    /// SubjectPublicKeyInfo in DER.
    info: Vec<u8>,
    /// In the form in which `ring` reads it.
    bytes: Vec<u8>,
    jwk: Value,
}

/// A signature algorithm of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Es256,
    Es384,
    Es512,
}

impl Algorithm {
    /// The name in headers and key sets.
    fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => ALGORITHM,
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
        }
    }

    /// The verification of `ring`, which lacks P-521.
    fn verification(self) -> Option<&'static dyn VerificationAlgorithm> {
        match self {
            Self::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
            Self::Es256 => Some(&ECDSA_P256_SHA256_FIXED),
            Self::Es384 => Some(&ECDSA_P384_SHA384_FIXED),
            Self::Es512 => None,
        }
    }
}

impl PublicKey {
    /// All keys of a PEM text: its public keys, and those of its certificates.
    pub(super) fn all_of_pem(pem: &str) -> Result<Vec<Self>, KeyError> {
        let blocks = Pem::iter_from_buffer(pem.as_bytes()).filter_map(Result::ok);
        let key = |block: Pem| match block.label.as_str() {
            "PUBLIC KEY" => Some(Self::of_spki(&block.contents)),
            "CERTIFICATE" => Some(
                block
                    .parse_x509()
                    .ok()
                    .and_then(|certificate| Self::of_spki(certificate.public_key().raw)),
            ),
            _ => None,
        };
        let keys = blocks.filter_map(key);
        let keys: Vec<Self> = keys
            .map(|key| key.ok_or(KeyError::Unsupported))
            .collect::<Result<_, _>>()?;
        if keys.is_empty() {
            Err(KeyError::Pem)
        } else {
            Ok(keys)
        }
    }

    /// Reads a SubjectPublicKeyInfo in DER. `None` for other kinds of keys.
    fn of_spki(der: &[u8]) -> Option<Self> {
        let (_, info) = SubjectPublicKeyInfo::from_der(der).ok()?;
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let id = encoded(ring::digest::digest(&ring::digest::SHA256, info.raw).as_ref());
        let (algorithm, jwk) = match info.parsed().ok()? {
            Parsed::RSA(key) => {
                let number = |bytes: &[u8]| {
                    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                    encoded(&bytes[zeros..])
                };
                let algorithm = Algorithm::Rs256;
                let n = number(key.modulus);
                let e = number(key.exponent);
                let name = algorithm.name();
                let jwk =
                    json!({"use": "sig", "kty": "RSA", "kid": id, "alg": name, "n": n, "e": e});
                (algorithm, jwk)
            }
            Parsed::EC(point) => {
                let curve = info.algorithm.parameters.as_ref()?.as_oid().ok()?;
                let (algorithm, curve) = if curve == OID_EC_P256 {
                    (Algorithm::Es256, "P-256")
                } else if curve == OID_NIST_EC_P384 {
                    (Algorithm::Es384, "P-384")
                } else if curve == OID_NIST_EC_P521 {
                    (Algorithm::Es512, "P-521")
                } else {
                    return None;
                };
                // An uncompressed point is one format byte, then both coordinates.
                let coordinates = point.data().strip_prefix(&[4])?;
                let (x, y) = coordinates.split_at(coordinates.len() / 2);
                let name = algorithm.name();
                let x = encoded(x);
                let y = encoded(y);
                let jwk = json!({
                    "use": "sig", "kty": "EC", "kid": id, "crv": curve, "alg": name, "x": x, "y": y,
                });
                (algorithm, jwk)
            }
            _ => return None,
        };
        Some(Self {
            id,
            algorithm,
            info: info.raw.to_vec(),
            bytes: info.subject_public_key.data.to_vec(),
            jwk,
        })
    }

    /// The name of its signature algorithm.
    pub(super) fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// The key in a JSON Web Key Set.
    pub(super) fn jwk(&self) -> &Value {
        &self.jwk
    }

    fn verifies(&self, token: &Token<'_>) -> bool {
        let signed = token.signed.as_bytes();
        let signature = &token.signature;
        token.head["alg"] == self.algorithm.name()
            && match self.algorithm.verification() {
                Some(algorithm) => UnparsedPublicKey::new(algorithm, &self.bytes)
                    .verify(signed, signature)
                    .is_ok(),
                None => keys::verify_fixed(&self.info, signed, signature).is_ok(),
            }
    }
}

/// A token whose signature is not verified yet.
pub(super) struct Token<'a> {
    /// The whole text.
    pub(super) text: &'a str,
    head: Value,
    claims: Value,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Token<'a> {
    /// Splits a token into its parts. `None` for a text that is no token.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let [head, claims, signature] = text.split('.').collect::<Vec<_>>()[..] else {
            return None;
        };
        let bytes = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let json = |part: &str| serde_json::from_slice::<Value>(&bytes(part)?).ok();
        Some(Self {
            text,
            head: json(head)?,
            claims: json(claims)?,
            signed: &text[..head.len() + 1 + claims.len()],
            signature: bytes(signature)?,
        })
    }

    /// The issuer, which is not verified yet.
    pub(super) fn issuer(&self) -> &str {
        self.claims["iss"].as_str().unwrap_or_default()
    }

    /// The claims, if one of `keys` has signed them. The error is the reason that reviews show.
    pub(super) fn verified(&self, keys: &[PublicKey]) -> Result<&Value, &'static str> {
        let id = self.head["kid"].as_str().unwrap_or_default();
        let mut keys = keys
            .iter()
            .filter(|key| id.is_empty() || key.id == id)
            .peekable();
        if keys.peek().is_none() {
            return Err("invalid signature, no keys found");
        }
        if keys.any(|key| key.verifies(self)) {
            Ok(&self.claims)
        } else {
            Err("go-jose/go-jose: error in cryptographic primitive")
        }
    }
}

#[cfg(test)]
mod tests {
    use steersman_pki::keys::{EcdsaForm, PrivateKey};

    use super::*;

    #[test]
    fn the_published_key_verifies_tokens() {
        let signer = Signer::generate().unwrap();
        let token = signer.sign(&json!({"iss": "us"})).unwrap();
        let key = signer.public().jwk();
        let coordinate = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
        let point = [vec![4], coordinate("x"), coordinate("y")].concat();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let published = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        assert!(published.verify(signed.as_bytes(), &signature).is_ok());
        let head = Token::parse(&token).unwrap().head;
        assert_eq!((&head["kid"], &head["alg"]), (&key["kid"], &key["alg"]));
        assert!(!format!("{signer:?}").contains("PRIVATE"));
    }

    #[test]
    fn tokens_of_other_keys_and_texts_are_invalid() {
        let signer = Signer::generate().unwrap();
        let other = Signer::generate().unwrap();
        let own = [signer.public().clone()];
        let both = [other.public(), signer.public()];
        let claims = json!({"iss": "us", "sub": "jane"});
        let token = signer.sign(&claims).unwrap();
        let parsed = Token::parse(&token).unwrap();
        assert_eq!(parsed.issuer(), "us");
        assert_eq!(parsed.verified(&own), Ok(&claims));
        assert_eq!(parsed.verified(&both.map(PublicKey::clone)), Ok(&claims));
        let unknown = Err("invalid signature, no keys found");
        assert_eq!(parsed.verified(&[other.public().clone()]), unknown);
        let forged = Err("go-jose/go-jose: error in cryptographic primitive");
        let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let head = parsed.head.clone();
        let signature = token.rsplit_once('.').unwrap().1;
        let mut none = head.clone();
        none["alg"] = json!("none");
        // (head, claims, answer)
        let cases = [
            (&head, json!({"iss": "us", "sub": "root"}), &forged),
            (&none, claims.clone(), &forged),
            (&json!({"alg": "ES256"}), claims, &forged),
        ];
        for (head, claims, answer) in cases {
            let token = format!("{}.{}.{signature}", encoded(head), encoded(&claims));
            assert_eq!(Token::parse(&token).unwrap().verified(&own), *answer);
        }
        for text in ["", "a", "a.b.c", "a.b", "....", "{}"] {
            assert!(Token::parse(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn tokens_of_every_type_of_key_are_verified() {
        macro_rules! pem {
            ($name:literal) => {
                include_str!(concat!(
                    "../../../../crates/pki/src/keys/testdata/",
                    $name,
                    ".pem"
                ))
            };
        }
        let key = |pem: &str| PrivateKey::from_pem(pem.as_bytes()).unwrap();
        let claims = json!({"iss": "us"});
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        // (key, algorithm of its tokens, curve)
        let cases = [
            (pem!("rsa-pkcs1"), "RS256", Value::Null),
            (pem!("p256-sec1"), "ES256", json!("P-256")),
            (pem!("p384-pkcs8"), "ES384", json!("P-384")),
            (pem!("p521-sec1"), "ES512", json!("P-521")),
        ];
        for (pem, algorithm, curve) in cases {
            let key = key(pem);
            let keys = PublicKey::all_of_pem(&key.public_key_pem()).unwrap();
            let jwk = keys[0].jwk();
            assert_eq!((&jwk["alg"], &jwk["crv"]), (&json!(algorithm), &curve));
            let head = json!({"alg": algorithm, "kid": keys[0].id});
            let parts = [&head, &claims].map(|part| encoded(part.to_string().as_bytes()));
            let signed = parts.join(".");
            let mut signature = key.sign(signed.as_bytes(), EcdsaForm::Fixed).unwrap();
            let token = format!("{signed}.{}", encoded(&signature));
            let verified = |token: &str| Token::parse(token).unwrap().verified(&keys).is_ok();
            assert!(verified(&token), "{algorithm}");
            signature[9] ^= 1;
            let token = format!("{signed}.{}", encoded(&signature));
            assert!(!verified(&token), "{algorithm}");
        }
        let other = PublicKey::all_of_pem(&key(pem!("ed25519-pkcs8")).public_key_pem());
        assert!(matches!(other, Err(KeyError::Unsupported)));
    }

    /// The `kid` and the token are those of upstream's own code.
    #[test]
    fn key_ids_and_tokens_of_upstream_are_accepted() {
        let data: Value = serde_json::from_str(include_str!("upstream_token.json")).unwrap();
        let text = |field: &str| data[field].as_str().unwrap();
        let keys = PublicKey::all_of_pem(text("publicKey")).unwrap();
        assert_eq!(keys[0].id, text("kid"));
        assert_eq!(keys[0].jwk()["alg"], "RS256");
        let token = Token::parse(text("token")).unwrap();
        assert_eq!(token.verified(&keys), Ok(&data["claims"]));
        for bad in [
            "",
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        ] {
            assert!(PublicKey::all_of_pem(bad).is_err(), "{bad:?}");
        }
    }
}
