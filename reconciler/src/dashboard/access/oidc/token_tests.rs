use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::keys::KeySet;
use super::token::{Claims, Expected, TokenError, verify};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;

const EXPECTED: Expected<'_> = Expected { issuer: "https://id.example.com", client: "stepgate", nonce: "n-1" };
const NOW: i64 = 1_795_000_000;

/// An issuer with a key of each kind that can be made here.
struct Keys {
    p256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
    random: SystemRandom,
}

fn coded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Keys {
    fn new() -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let p256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
        let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self { p256, ed25519: Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap(), random }
    }

    fn set(&self) -> KeySet {
        let point = self.p256.public_key().as_ref();
        let set = json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "x": coded(&point[1..33]), "y": coded(&point[33..])},
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "alg": "EdDSA", "x": coded(self.ed25519.public_key().as_ref())},
            {"kty": "oct", "kid": "secret", "k": coded("shared")},
            {"kty": "EC", "crv": "P-521", "kid": "other", "x": "AA", "y": "AA"},
            {"kty": "RSA", "kid": "small", "n": coded([0xff; 64]), "e": "AQAB"},
            "no key at all",
        ]});
        KeySet::read(&serde_json::to_vec(&set).unwrap()).unwrap()
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", coded(header.to_string()), coded(claims.to_string()));
        let signature = match header["kid"].as_str() {
            Some("ed") => self.ed25519.sign(text.as_bytes()).as_ref().to_vec(),
            _ => self.p256.sign(&self.random, text.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{text}.{}", coded(signature))
    }
}

fn claims() -> Value {
    json!({"iss": EXPECTED.issuer, "aud": EXPECTED.client, "sub": "248289761001", "nonce": EXPECTED.nonce,
        "iat": NOW - 5, "exp": NOW + 300, "name": "Alice", "email": "alice@example.com", "email_verified": true,
        "groups": ["ops", 7, "sre"]})
}

#[expect(clippy::needless_pass_by_value, reason = "callers write the changes where they call")]
fn with(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

fn check(keys: &Keys, token: &str) -> Result<Claims, TokenError> {
    verify(token, &keys.set(), EXPECTED, Timestamp::from_second(NOW).unwrap())
}

fn es256() -> Value {
    json!({"alg": "ES256", "kid": "ec"})
}

#[test]
fn a_token_of_the_issuer_for_this_login_names_somebody() {
    let keys = Keys::new();
    for header in [es256(), json!({"alg": "EdDSA", "kid": "ed"}), json!({"alg": "ES256"})] {
        let claims = check(&keys, &keys.sign(&header, &claims())).unwrap();
        assert_eq!((claims.subject.as_str(), claims.email.as_deref()), ("248289761001", Some("alice@example.com")));
        assert_eq!(claims.groups("groups"), ["ops", "sre"]);
    }
    for same in [json!({"aud": ["stepgate"]}), json!({"aud": ["stepgate", "x"], "azp": "stepgate"})] {
        assert!(check(&keys, &keys.sign(&es256(), &with(same))).is_ok());
    }
}

#[test]
fn an_address_counts_where_the_issuer_has_verified_it() {
    let keys = Keys::new();
    for unverified in [json!(null), json!(false), json!("true"), json!(1)] {
        let token = keys.sign(&es256(), &with(json!({"email_verified": unverified})));
        assert_eq!(check(&keys, &token).unwrap().email, None, "{unverified}");
    }
}

#[test]
fn what_an_issuer_did_not_say_for_this_login_is_refused() {
    let keys = Keys::new();
    for (changes, expected) in [
        (json!({"iss": "https://id.example.com/"}), TokenError::Issuer),
        (json!({"iss": "https://attacker.example"}), TokenError::Issuer),
        (json!({"aud": "another"}), TokenError::Audience),
        (json!({"aud": []}), TokenError::Audience),
        (json!({"aud": ["stepgate", "another"]}), TokenError::Audience),
        (json!({"aud": ["stepgate", "another"], "azp": "another"}), TokenError::Audience),
        (json!({"azp": "another"}), TokenError::Audience),
        (json!({"nonce": "n-2"}), TokenError::Nonce),
        (json!({"nonce": null}), TokenError::Nonce),
        (json!({"exp": NOW - 61}), TokenError::Time),
        (json!({"exp": i64::MIN}), TokenError::Time),
        (json!({"iat": NOW + 61}), TokenError::Time),
        (json!({"iat": NOW - 601}), TokenError::Time),
        (json!({"nbf": NOW + 61}), TokenError::Time),
        (json!({"sub": ""}), TokenError::Subject),
        (json!({"sub": "x".repeat(256)}), TokenError::Subject),
        (json!({"exp": null}), TokenError::Malformed),
        (json!({"exp": "soon"}), TokenError::Malformed),
        (json!({"sub": 7}), TokenError::Malformed),
        (json!({"aud": {"stepgate": true}}), TokenError::Malformed),
    ] {
        assert_eq!(check(&keys, &keys.sign(&es256(), &with(changes.clone()))), Err(expected), "{changes}");
    }
}

#[test]
fn a_token_does_not_choose_how_it_is_verified() {
    let keys = Keys::new();
    for (header, expected) in [
        (json!({"alg": "none", "kid": "ec"}), TokenError::Algorithm),
        (json!({"alg": "NONE"}), TokenError::Algorithm),
        (json!({"alg": "HS256", "kid": "ec"}), TokenError::Algorithm),
        (json!({"alg": "HS256", "kid": "secret"}), TokenError::Algorithm),
        (json!({"alg": "es256", "kid": "ec"}), TokenError::Algorithm),
        (json!({"alg": "ES384", "kid": "ec"}), TokenError::Algorithm),
        // The key of one kind under the name of another.
        (json!({"alg": "RS256", "kid": "ec"}), TokenError::Signature),
        (json!({"alg": "EdDSA", "kid": "ec"}), TokenError::Signature),
        (json!({"alg": "ES256", "kid": "ed"}), TokenError::Signature),
        (json!({"alg": "RS256", "kid": "small"}), TokenError::Signature),
        // Keys that are none here.
        (json!({"alg": "ES256", "kid": "other"}), TokenError::UnknownKey),
        (json!({"alg": "ES256", "kid": "../../ec"}), TokenError::UnknownKey),
        (json!({"alg": "ES256", "kid": "ec", "crit": ["b64"], "b64": false}), TokenError::Critical),
    ] {
        assert_eq!(check(&keys, &keys.sign(&header, &claims())), Err(expected), "{header}");
    }
    // A key that the token brings along is not looked at.
    let strangers = Keys::new();
    let point = strangers.p256.public_key().as_ref().to_vec();
    let own = json!({"kty": "EC", "crv": "P-256", "x": coded(&point[1..33]), "y": coded(&point[33..])});
    let header = json!({"alg": "ES256", "kid": "ec", "jwk": own, "jku": "https://attacker.example/keys"});
    assert_eq!(check(&keys, &strangers.sign(&header, &claims())), Err(TokenError::Signature));
}

#[test]
fn what_is_no_token_is_refused_whatever_it_holds() {
    let keys = Keys::new();
    let good = keys.sign(&es256(), &claims());
    let (text, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = text.split_once('.').unwrap();
    for (token, expected) in [
        (String::new(), TokenError::Malformed),
        ("..".to_owned(), TokenError::Malformed),
        (text.to_owned(), TokenError::Malformed),
        (format!("{good}.x"), TokenError::Malformed),
        (format!("{text}."), TokenError::Signature),
        (format!("{text}.{}", coded([0; 64])), TokenError::Signature),
        (format!("{text}.{}", coded([0; 63])), TokenError::Signature),
        (format!("{header}.{}.{signature}", coded(with(json!({"sub": "mallory"})).to_string())), TokenError::Signature),
        (format!("{}.{payload}.{signature}", coded("[]")), TokenError::Malformed),
        (format!("{}.{payload}.{signature}", coded("{\"alg\":7}")), TokenError::Malformed),
        (format!("{}.{payload}.{signature}", coded([0xff, 0xfe])), TokenError::Malformed),
        (format!("{header}=.{payload}.{signature}"), TokenError::Malformed),
        ("a".repeat(1 << 20), TokenError::Malformed),
        (".".repeat(10_000), TokenError::Malformed),
    ] {
        assert_eq!(check(&keys, &token), Err(expected), "{}", token.get(..60).unwrap_or(&token));
    }
    let claims = json!({"deep": "[".repeat(9000)});
    assert!(check(&keys, &keys.sign(&es256(), &claims)).is_err());
}

#[test]
fn a_document_that_is_no_set_of_keys_has_none() {
    for text in ["", "[]", "{}", r#"{"keys": {}}"#, r#"{"keys": "x"}"#] {
        assert!(KeySet::read(text.as_bytes()).is_none(), "{text}");
    }
    let many = json!({"keys": vec![json!({"kty": "RSA"}); 100_000]});
    assert!(KeySet::read(many.to_string().as_bytes()).is_some());
}

/// Whatever is changed of a token, nobody is known by it.
#[test]
fn fuzzed_tokens_are_refused_unless_they_are_as_they_were_signed() {
    let keys = Keys::new();
    let token = keys.sign(&es256(), &claims());
    let edwards = keys.sign(&json!({"alg": "EdDSA", "kid": "ed"}), &claims());
    let set = keys.set();
    let seeds = [token.clone().into_bytes(), edwards.clone().into_bytes()];
    fuzz::fuzz("token", seeds, |input| {
        let given = String::from_utf8_lossy(input);
        match verify(&given, &set, EXPECTED, Timestamp::from_second(NOW).unwrap()) {
            Ok(claims) if *given != token && *given != edwards => Err(format!("{claims:?} of {given}")),
            _ => Ok(()),
        }
    });
}
