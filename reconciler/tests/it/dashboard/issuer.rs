//! People of an issuer: a small one over HTTP that signs real tokens, and a browser that goes to it and comes back.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs1KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::server::{Answer, Dashboard};
use crate::approvals::asked;
use crate::support::Fleet;

const CLIENT: &str = "stepgate";
const SECRET: &str = "the secret of the client at its issuer";

/// What the issuer says for a code: once, to whoever proves to have begun.
struct Given {
    challenge: String,
    claims: Value,
}

/// What tokens are signed with.
enum Key {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl Key {
    fn ec() -> Self {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let random = SystemRandom::new();
        Self::Ec(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap())
    }

    fn rsa() -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/forge/app-key.pem");
        let key = PrivatePkcs1KeyDer::from_pem_file(file).unwrap();
        Self::Rsa(RsaKeyPair::from_der(key.secret_pkcs1_der()).unwrap())
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Ec(_) => "ES256",
            Self::Rsa(_) => "RS256",
        }
    }

    fn told(&self) -> Value {
        let coded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Ec(key) => {
                let point = key.public_key().as_ref();
                let (x, y) = (coded(&point[1..33]), coded(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": "one", "use": "sig", "alg": "ES256", "x": x, "y": y})
            }
            Self::Rsa(key) => {
                let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": coded(&n), "e": coded(&e)})
            }
        }
    }

    fn sign(&self, text: &str) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Ec(key) => key.sign(&random, text.as_bytes()).unwrap().as_ref().to_vec(),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).unwrap();
                signature
            }
        }
    }
}

struct Issuer {
    address: SocketAddr,
    key: Key,
    codes: Mutex<BTreeMap<String, Given>>,
}

impl Issuer {
    fn start() -> Arc<Self> {
        Self::signing_with(Key::ec())
    }

    fn signing_with(key: Key) -> Arc<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let issuer = Arc::new(Self { address: listener.local_addr().unwrap(), key, codes: Mutex::default() });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(async |State(it): State<Arc<Self>>| Json(it.metadata())))
            .route("/keys", get(async |State(it): State<Arc<Self>>| Json(it.keys())))
            .route("/token", post(Self::token))
            .with_state(Arc::clone(&issuer));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, router).await.unwrap();
            });
        });
        issuer
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn metadata(&self) -> Value {
        let url = self.url();
        json!({"issuer": url, "authorization_endpoint": format!("{url}/authorize"), "token_endpoint": format!("{url}/token"),
            "jwks_uri": format!("{url}/keys")})
    }

    fn keys(&self) -> Value {
        json!({"keys": [self.key.told()]})
    }

    async fn token(
        State(issuer): State<Arc<Self>>,
        headers: HeaderMap,
        Form(form): Form<BTreeMap<String, String>>,
    ) -> Result<Json<Value>, StatusCode> {
        let basic = format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{}", SECRET.replace(' ', "%20"))));
        if headers.get("authorization").is_none_or(|given| given.as_bytes() != basic.as_bytes()) {
            return Err(StatusCode::UNAUTHORIZED);
        }
        let given = issuer.codes.lock().unwrap().remove(&form["code"]).ok_or(StatusCode::BAD_REQUEST)?;
        let proven = URL_SAFE_NO_PAD.encode(digest(&SHA256, form["code_verifier"].as_bytes()));
        if proven != given.challenge || !form["redirect_uri"].ends_with("/login/return") {
            return Err(StatusCode::BAD_REQUEST);
        }
        let header = json!({"alg": issuer.key.algorithm(), "kid": "one"});
        let coded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let text = format!("{}.{}", coded(&header), coded(&given.claims));
        let signature = issuer.key.sign(&text);
        Ok(Json(json!({"token_type": "Bearer", "access_token": "unused",
            "id_token": format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))})))
    }

    /// A code for somebody of these groups, as the issuer gives it to a browser that was sent there.
    fn code(&self, sent: &BTreeMap<String, String>, changes: &Value) -> String {
        let now = jiff::Timestamp::now().as_second();
        let mut claims = json!({"iss": self.url(), "aud": CLIENT, "sub": "7", "nonce": sent["nonce"], "iat": now, "exp": now + 300,
            "name": "Alice", "email": "alice@example.com", "email_verified": true});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let mut codes = self.codes.lock().unwrap();
        let code = format!("code-{}-{}", sent["state"], codes.len());
        codes.insert(code.clone(), Given { challenge: sent["code_challenge"].clone(), claims });
        code
    }
}

fn known(fleet: &Fleet, issuer: &Issuer) -> Dashboard {
    let secret = fleet.folder().join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    let url = issuer.url();
    let arguments = [
        "--listen",
        "off",
        "--health-address",
        "off",
        "--web-authentication",
        "oidc",
        "--web-oidc-issuer",
        &url,
        "--web-oidc-client",
        CLIENT,
        "--web-oidc-secret-file",
        secret.to_str().unwrap(),
        "--web-oidc-address",
        "https://fleet.example.com",
        "--web-oidc-viewer",
        "staff",
        "--web-oidc-operator",
        "operators",
        "--web-oidc-approver",
        "approvers",
    ];
    Dashboard::start(fleet, "run", &arguments)
}

fn get_with(dashboard: &Dashboard, path: &str, headers: &str) -> Answer {
    dashboard.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"))
}

fn cookie(answer: &Answer, name: &str) -> Option<String> {
    let cookies = answer.head.lines().filter_map(|line| line.strip_prefix("set-cookie: "));
    let mut own = cookies.filter(|cookie| cookie.starts_with(&format!("{name}=")) && !cookie.contains("Max-Age=0"));
    own.next().map(|cookie| cookie.split(';').next().unwrap().to_owned())
}

/// What a browser is sent to the issuer with, and the cookie that it brings back.
fn begin(dashboard: &Dashboard) -> (BTreeMap<String, String>, String) {
    let answer = get_with(dashboard, "/login/start", "");
    assert_eq!(answer.status, 303, "{}", answer.body);
    let location = answer.head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
    let (_, query) = location.split_once('?').unwrap();
    let fields = query.split('&').filter_map(|field| field.split_once('='));
    let sent = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (sent, cookie(&answer, "__Host-stepgate-login").unwrap())
}

/// Somebody logs in; the cookie of their session.
fn log_in(dashboard: &Dashboard, issuer: &Issuer, claims: &Value) -> Result<String, Answer> {
    let (sent, login) = begin(dashboard);
    let path = format!("/login/return?code={}&state={}", issuer.code(&sent, claims), sent["state"]);
    let answer = get_with(dashboard, &path, &format!("Cookie: {login}\r\n"));
    cookie(&answer, "__Host-stepgate").ok_or(answer)
}

fn told(dashboard: &Dashboard, session: &str) -> Value {
    get_with(dashboard, "/clusters/mgmt/actions.json", &format!("Cookie: {session}\r\n")).json()
}

#[test]
fn people_of_an_issuer_do_what_their_groups_may() {
    let fleet = asked();
    let issuer = Issuer::start();
    let dashboard = known(&fleet, &issuer);
    let (sent, _) = begin(&dashboard);
    assert_eq!((sent["response_type"].as_str(), sent["code_challenge_method"].as_str()), ("code", "S256"));
    let approver = log_in(&dashboard, &issuer, &json!({"groups": ["staff", "approvers"]})).ok().unwrap();
    dashboard.shows(&format!("Cookie: {approver}\r\n"));
    let operator = log_in(&dashboard, &issuer, &json!({"groups": ["operators"]})).ok().unwrap();
    let unverified = json!({"groups": ["approvers"], "email_verified": false});
    let unverified = log_in(&dashboard, &issuer, &unverified).ok().unwrap();
    let stranger = log_in(&dashboard, &issuer, &json!({"groups": ["visitors"]})).err().unwrap();
    assert!(stranger.status == 403 && stranger.body.contains("no group"), "{}", stranger.body);

    for (session, person, allowed) in [
        (&approver, json!("Alice <alice@example.com>"), &["approve", "reject", "rollback"][..]),
        (&operator, json!("Alice <alice@example.com>"), &["hold", "resume", "retry"]),
        (&unverified, Value::Null, &[]),
    ] {
        let offers = told(&dashboard, session);
        assert_eq!(offers["person"], person, "{offers}");
        let may = offers["offers"].as_array().unwrap().iter().filter(|offer| offer["allowed"] == true);
        let may: Vec<&str> = may.filter_map(|offer| offer["verb"].as_str()).collect();
        assert_eq!(may, allowed, "{offers}");
    }
    let page =
        get_with(&dashboard, "/clusters/mgmt/actions", &format!("Accept: text/html\r\nCookie: {approver}\r\n")).body;
    let form = super::acting::fields(&page, "approve");
    let answer = dashboard.post("/clusters/mgmt/actions/approve", &format!("Cookie: {approver}\r\n"), &form);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let merge = fleet.repository.find_commit(fleet.head("deploy").unwrap()).unwrap();
    let message = merge.message().unwrap();
    let said_on = format!("Stepgate-Said-On: dashboard, known by {} as 7", issuer.url());
    assert!(merge.author().email().unwrap() == "alice@example.com" && message.contains(&said_on), "{message}");
}

#[test]
fn a_token_that_is_signed_with_rsa_lets_its_person_in() {
    let fleet = Fleet::settled();
    let issuer = Issuer::signing_with(Key::rsa());
    let dashboard = known(&fleet, &issuer);
    let session = log_in(&dashboard, &issuer, &json!({"groups": ["operators"]})).ok().unwrap();
    dashboard.shows(&format!("Cookie: {session}\r\n"));
    assert_eq!(told(&dashboard, &session)["person"], "Alice <alice@example.com>");
}

#[test]
fn a_login_that_this_browser_did_not_begin_lets_nobody_in() {
    let fleet = Fleet::settled();
    let issuer = Issuer::start();
    let dashboard = known(&fleet, &issuer);
    let staff = json!({"groups": ["staff"]});
    let back = |query: String, login: &str| {
        get_with(&dashboard, &format!("/login/return?{query}"), &format!("Cookie: {login}\r\n"))
    };
    let ((one, login), (two, other)) = (begin(&dashboard), begin(&dashboard));
    let good = issuer.code(&one, &staff);
    let forged = format!("{}x", login);
    for (what, query, login, status) in [
        ("no cookie", format!("code={good}&state={}", one["state"]), "", 403),
        ("a forged cookie", format!("code={good}&state={}", one["state"]), &forged, 403),
        ("the state of another login", format!("code={good}&state={}", two["state"]), &login, 403),
        ("the cookie of another login", format!("code={good}&state={}", one["state"]), &other, 403),
        ("another issuer", format!("code={good}&state={}&iss=https://attacker.example", one["state"]), &login, 403),
        ("a refusal", format!("error=access_denied&state={}", one["state"]), &login, 403),
        ("no such code", format!("code=unknown&state={}", one["state"]), &login, 502),
        (
            "the code of another login",
            format!("code={}&state={}", issuer.code(&two, &staff), one["state"]),
            &login,
            502,
        ),
    ] {
        let answer = back(query, login);
        assert_eq!((answer.status, cookie(&answer, "__Host-stepgate")), (status, None), "{what}: {}", answer.body);
        assert!(!answer.body.contains(SECRET), "{what}");
    }
    // A token that was made for another login, put into this one.
    let replayed = issuer.code(&one, &json!({"groups": ["staff"], "nonce": two["nonce"]}));
    assert_eq!(back(format!("code={replayed}&state={}", one["state"]), &login).status, 403);
    // The same code once more.
    let once = back(format!("code={good}&state={}", one["state"]), &login);
    assert!(cookie(&once, "__Host-stepgate").is_some(), "{}", once.body);
    assert!(once.head.contains("__Host-stepgate-login=; "), "the login is over: {}", once.head);
    assert_eq!(back(format!("code={good}&state={}", one["state"]), &login).status, 502);
}
