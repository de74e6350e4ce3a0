//! Registries that answer as no honest one does. A real one is asked in `reconciler/tests/it/registry.rs`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::AllowList;
use crate::loopback::{Request, answer, ok, redirect, serve};

const CHART: &str = "chart";

fn manifest(layer: &str, size: usize) -> String {
    let layer = format!(
        r#"{{"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "digest": "{layer}", "size": {size}}}"#
    );
    format!(r#"{{"schemaVersion": 2, "layers": [{layer}]}}"#)
}

fn honest() -> String {
    manifest(&Digest::of(CHART.as_bytes()).to_string(), CHART.len())
}

/// Serves, and keeps what was asked.
pub(super) fn recorded(answer: impl Fn(&Request, u16) -> String + Send + 'static) -> (u16, Arc<Mutex<Vec<Request>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let port = serve(move |request, port| {
        seen.lock().unwrap().push(request.clone());
        answer(request, port)
    });
    (port, asked)
}

/// A registry that asks for a token and gives the chart for it.
fn with_tokens(realm: impl Fn(u16) -> String + Send + 'static) -> (u16, Arc<Mutex<Vec<Request>>>) {
    recorded(move |request, port| {
        if request.path.starts_with("/token") {
            return ok(r#"{"access_token": "t0ken"}"#);
        }
        if request.authorization.as_deref() != Some("Bearer t0ken") {
            let challenge = format!("WWW-Authenticate: Bearer realm=\"{}\",service=\"s\",scope=\"aws\"", realm(port));
            return answer("401 Unauthorized", &challenge, "");
        }
        if request.path.contains("/manifests/") { ok(&honest()) } else { ok(CHART) }
    })
}

pub(super) fn allowing(allow: &[String], private_hosts: &[&str], credentials: Credentials) -> Registry {
    let options = FetchOptions {
        allow: AllowList::new(allow),
        private_hosts: private_hosts.iter().map(ToString::to_string).collect(),
        maximum_bytes: 100,
        timeout: Duration::from_secs(5),
    };
    Registry::with_scheme(options, credentials, "http").unwrap()
}

fn open(port: u16, more: &[String]) -> Registry {
    let allow = [&[format!("127.0.0.1:{port}/eks")], more].concat();
    allowing(&allow, &["127.0.0.1", "localhost"], Credentials::none())
}

fn get(registry: &Registry, port: u16) -> Result<Vec<u8>, FetchError> {
    registry.get(&format!("oci://127.0.0.1:{port}/eks/cilium:1.0.0")).map(|bytes| bytes.to_vec())
}

fn refused(registry: &Registry, port: u16, part: &str) {
    let error = get(registry, port).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn a_chart_is_asked_for_by_tag_or_by_digest() {
    let (port, asked) =
        recorded(|request, _| if request.path.contains("/manifests/") { ok(&honest()) } else { ok(CHART) });
    assert_eq!(get(&open(port, &[]), port).unwrap(), CHART.as_bytes());
    let digest = Digest::of(honest().as_bytes());
    let pinned = format!("oci://127.0.0.1:{port}/eks/cilium:1.0.0@{digest}");
    assert_eq!(&*open(port, &[]).get(&pinned).unwrap(), CHART.as_bytes());
    let paths: Vec<String> = asked.lock().unwrap().iter().map(|request| request.path.clone()).collect();
    let blob = format!("/v2/eks/cilium/blobs/{}", Digest::of(CHART.as_bytes()));
    let (by_tag, by_digest) =
        ("/v2/eks/cilium/manifests/1.0.0".to_owned(), format!("/v2/eks/cilium/manifests/{digest}"));
    assert_eq!(paths, [by_tag, blob.clone(), by_digest, blob]);
    let other = format!("oci://127.0.0.1:{port}/eks/cilium:1.0.0@{}", Digest::of(b"other"));
    let error = open(port, &[]).get(&other).unwrap_err().to_string();
    assert!(error.contains("is asked for"), "{error}");
}

#[test]
fn what_is_no_chart_or_not_allowed_is_not_asked_for() {
    let (port, asked) = recorded(|_, _| ok(""));
    let registry = open(port, &[]);
    for uri in ["https://127.0.0.1/a", "oci://127.0.0.1", "oci://127.0.0.1/cilium", "oci://h/../a:1", "oci://u@h/a:1"] {
        assert!(matches!(registry.get(uri), Err(FetchError::NotFound { .. })), "{uri}");
    }
    for uri in [format!("oci://127.0.0.1:{port}/other/cilium:1.0.0"), "oci://example.org/eks/cilium:1".to_owned()] {
        assert!(matches!(registry.get(&uri), Err(FetchError::NotAllowed { .. })), "{uri}");
    }
    let inner = allowing(&[format!("127.0.0.1:{port}")], &[], Credentials::none());
    refused(&inner, port, "127.0.0.1 is a loopback");
    assert_eq!(asked.lock().unwrap().len(), 0);
}

#[test]
fn answers_are_bounded_and_checked() {
    let check = |manifest: String, blob: String, part: &str| {
        let port =
            serve(move |request, _| if request.path.contains("/manifests/") { ok(&manifest) } else { ok(&blob) });
        refused(&open(port, &[]), port, part);
    };
    let digest = Digest::of(CHART.as_bytes()).to_string();
    check(honest(), "other".to_owned(), "its manifest names 5 bytes and sha256:");
    check(honest(), "chart and more".to_owned(), "more than 5 bytes");
    check(honest(), "char".to_owned(), "its manifest names 5 bytes");
    check(manifest(&digest, 6), CHART.to_owned(), "names 6 bytes");
    check(manifest(&digest, 101), CHART.to_owned(), "more than 100");
    check(" ".repeat((4 << 20) + 1), String::new(), "more than 4194304 bytes");
    check("{}".to_owned(), String::new(), "no Helm chart");
}

#[test]
fn a_token_is_asked_for_pulling_and_goes_to_the_registry_alone() {
    let (store, at_store) = recorded(|_, _| ok(CHART));
    let (port, asked) = recorded(move |request, port| {
        if request.path.starts_with("/token") {
            return ok(r#"{"token": "t0ken"}"#);
        }
        if request.authorization.is_none() {
            let challenge = format!("WWW-Authenticate: Bearer realm=\"http://127.0.0.1:{port}/token\",service=\"s\"");
            return answer("401 Unauthorized", &challenge, "");
        }
        if request.path.contains("/manifests/") {
            return ok(&honest());
        }
        redirect(&format!("http://localhost:{store}/blob?signature=secret"))
    });
    let store_host = format!("localhost:{store}");
    let login = tempfile::tempdir().unwrap();
    let file = login.path().join("config.json");
    std::fs::write(&file, format!(r#"{{"auths": {{"127.0.0.1:{port}": {{"username": "u", "password": "p"}}}}}}"#))
        .unwrap();
    let allow = [format!("127.0.0.1:{port}"), store_host.clone()];
    let private = ["127.0.0.1", "localhost"];
    let registry = |allow: &[String]| allowing(allow, &private, Credentials::from_file(file.clone()));
    assert_eq!(get(&registry(&allow), port).unwrap(), CHART.as_bytes());
    let shown: Vec<Option<String>> = asked.lock().unwrap().iter().map(|it| it.authorization.clone()).collect();
    let bearer = Some("Bearer t0ken".to_owned());
    // u:p
    assert_eq!(shown, [None, Some("Basic dTpw".to_owned()), bearer.clone(), bearer]);
    assert_eq!(asked.lock().unwrap()[1].path, "/token?service=s&scope=repository%3Aeks%2Fcilium%3Apull");
    assert_eq!(at_store.lock().unwrap().iter().map(|it| it.authorization.clone()).collect::<Vec<_>>(), [None]);

    let error = get(&registry(&allow[..1]), port).unwrap_err().to_string();
    assert!(error.contains(&format!("sends on to {store_host}")) && !error.contains("secret"), "{error}");
    assert_eq!(at_store.lock().unwrap().len(), 1);
}

#[test]
fn logins_reach_no_token_server_that_is_not_allowed() {
    let (elsewhere, at_elsewhere) = recorded(|_, _| ok(r#"{"token": "t"}"#));
    let (port, _) = with_tokens(move |_| format!("http://localhost:{elsewhere}/token"));
    refused(&open(port, &[]), port, &format!("sends on to localhost:{elsewhere}"));
    assert_eq!(at_elsewhere.lock().unwrap().len(), 0);
    for realm in ["ftp://127.0.0.1/token", "http://user@127.0.0.1/token", "nowhere"] {
        let (port, _) = with_tokens(move |_| realm.to_owned());
        assert!(get(&open(port, &[]), port).is_err(), "{realm}");
    }
}

#[test]
fn an_identity_token_is_exchanged() {
    let (port, asked) = with_tokens(|port| format!("http://127.0.0.1:{port}/token"));
    let login = tempfile::tempdir().unwrap();
    let file = login.path().join("config.json");
    std::fs::write(&file, format!(r#"{{"auths": {{"127.0.0.1:{port}": {{"identitytoken": "lasting one"}}}}}}"#))
        .unwrap();
    let registry = allowing(&[format!("127.0.0.1:{port}")], &["127.0.0.1"], Credentials::from_file(file));
    assert_eq!(get(&registry, port).unwrap(), CHART.as_bytes());
    let exchange = asked.lock().unwrap()[1].clone();
    let form = "service=s&scope=aws&scope=repository%3Aeks%2Fcilium%3Apull&grant_type=refresh_token&client_id=stepgate\
                &refresh_token=lasting+one";
    assert_eq!((exchange.method.as_str(), exchange.path.as_str()), ("POST", "/token"));
    assert_eq!(exchange.body, form);
}

#[test]
fn a_registry_that_never_lets_go_or_never_lets_in_is_left() {
    let (port, asked) = recorded(|_, port| redirect(&format!("http://127.0.0.1:{port}/v2/again")));
    refused(&open(port, &[]), port, "more than 5 redirects");
    assert_eq!(asked.lock().unwrap().len(), 6);
    let (port, asked) = recorded(|request, port| {
        if request.path.starts_with("/token") {
            return ok(r#"{"token": "t"}"#);
        }
        let challenge = format!("WWW-Authenticate: Bearer realm=\"http://127.0.0.1:{port}/token\"");
        answer("401 Unauthorized", &challenge, "")
    });
    refused(&open(port, &[]), port, "log in with `docker login");
    assert_eq!(asked.lock().unwrap().len(), 3);
}
