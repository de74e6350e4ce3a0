//! Registries that are asked whether they have an image.

use std::time::Duration;

use super::tests::{allowing, recorded};
use super::*;
use crate::images::{Images, LoginAnswer};
use crate::loopback::{answer, ok, redirect};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";

fn index(children: &[(&str, &str)]) -> String {
    let child = |(architecture, content): &(&str, &str)| {
        let digest = Digest::of(content.as_bytes());
        format!(
            r#"{{"digest": "{digest}", "size": 1, "platform": {{"os": "linux", "architecture": "{architecture}"}}}}"#
        )
    };
    let children: Vec<String> = children.iter().map(child).collect();
    format!(r#"{{"schemaVersion": 2, "mediaType": "{INDEX}", "manifests": [{}]}}"#, children.join(", "))
}

fn images(port: u16, login: Credentials) -> Images {
    Images::of(allowing(&[format!("127.0.0.1:{port}")], &["127.0.0.1"], login))
}

fn ask(images: &Images, asked: &[String]) -> Vec<Option<ImageAnswer>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(images.ask(asked, Duration::from_secs(5)))
}

fn found(architectures: &[&str]) -> Option<ImageAnswer> {
    Some(ImageAnswer::Found { architectures: architectures.iter().map(|name| (*name).to_owned()).collect() })
}

#[test]
fn an_image_is_asked_for_once_with_those_that_it_lists() {
    let both = index(&[("arm64", "a"), ("amd64", "b")]);
    let digest = Digest::of(both.as_bytes());
    let (port, asked) =
        recorded(
            move |request, _| {
                if request.path.ends_with(&digest.to_string()) { ok(&both) } else { answer("200 OK", "", "") }
            },
        );
    let images = images(port, Credentials::none());
    let pinned = [format!("127.0.0.1:{port}/x:1@{digest}")];
    for _ in 0..2 {
        assert_eq!(ask(&images, &pinned), [found(&["amd64", "arm64"])]);
    }
    let asked: Vec<String> = asked.lock().unwrap().iter().map(|it| format!("{} {}", it.method, it.path)).collect();
    let of = |digest: Digest| format!("/v2/x/manifests/{digest}");
    let (first, second) = (Digest::of(b"a"), Digest::of(b"b"));
    assert_eq!(asked, [format!("GET {}", of(digest)), format!("HEAD {}", of(first)), format!("HEAD {}", of(second)),]);
}

#[test]
fn what_a_registry_has_not_is_missing_and_what_cannot_be_asked_is_unknown() {
    let lacking = index(&[("amd64", "gone")]);
    let (port, _) = recorded(move |request, _| match request.path.as_str() {
        "/v2/lacking/manifests/1" => ok(&lacking),
        "/v2/mine/manifests/1" => answer("403 Forbidden", "", ""),
        _ => answer("404 Not Found", "", ""),
    });
    let registry = images(port, Credentials::none());
    let of = |image: &str| format!("127.0.0.1:{port}/{image}");
    let asked =
        [of("gone:1"), of("lacking:1"), of("mine:1"), "other.example/x:1".to_owned(), "<placeholder>".to_owned()];
    let words: Vec<String> = ask(&registry, &asked).iter().map(|answer| format!("{answer:?}")).collect();
    for (word, part) in
        words.iter().zip(["Missing", "Missing", "docker login", "does not list other.example", "Missing"])
    {
        assert!(word.contains(part), "{word}");
    }
    // Content that is not what its name says is not the image.
    let other = [of(&format!("lacking@{}", Digest::of(b"other")))];
    assert!(format!("{:?}", ask(&registry, &other)).contains("Missing"));
}

#[test]
fn a_registry_that_gives_no_answer_is_asked_once() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = unused.local_addr().unwrap().port();
    drop(unused);
    let registry = images(port, Credentials::none());
    let asked: Vec<String> = (0..40).map(|number| format!("127.0.0.1:{port}/x:{number}")).collect();
    let begun = std::time::Instant::now();
    let answers = ask(&registry, &asked);
    assert!(answers.iter().all(|answer| matches!(answer, Some(ImageAnswer::Unknown { .. }))), "{answers:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn after_its_budget_no_more_is_asked_and_the_next_call_goes_on() {
    let (port, asked) = recorded(|_, _| {
        std::thread::sleep(Duration::from_millis(30));
        ok(&index(&[]))
    });
    let registry = images(port, Credentials::none());
    let all: Vec<String> = (0..12).map(|number| format!("127.0.0.1:{port}/x:{number}")).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut rounds = 0;
    loop {
        let answers = runtime.block_on(registry.ask(&all, Duration::from_millis(20)));
        rounds += 1;
        if answers.iter().all(Option::is_some) {
            break;
        }
    }
    assert!(rounds > 1, "{rounds}");
    assert_eq!(asked.lock().unwrap().len(), all.len(), "each is asked for once");
}

#[test]
fn the_login_of_a_pull_secret_goes_to_its_own_host_alone() {
    let (inner, asked_inside) = recorded(|_, _| ok(&index(&[])));
    let (port, asked) = recorded(move |request, _| match (request.authorization.as_deref(), request.path.as_str()) {
        // reader:canary
        (Some("Basic cmVhZGVyOmNhbmFyeQ=="), "/v2/elsewhere/manifests/1") => {
            redirect(&format!("http://127.0.0.1:{inner}/elsewhere"))
        }
        (Some("Basic cmVhZGVyOmNhbmFyeQ=="), "/v2/gone/manifests/1") => answer("404 Not Found", "", ""),
        (Some("Basic cmVhZGVyOmNhbmFyeQ=="), _) => ok(&index(&[])),
        _ => answer("401 Unauthorized", "WWW-Authenticate: Basic realm=\"a\"", ""),
    });
    let allow = [format!("127.0.0.1:{port}"), format!("127.0.0.1:{inner}")];
    let images = Images::of(allowing(&allow, &["127.0.0.1"], Credentials::none()));
    let secret = |host: &str, password: &str| {
        let name = format!("n/{password}");
        let text = format!(r#"{{"auths": {{"{host}": {{"username": "reader", "password": "{password}"}}}}}}"#);
        PullSecret::docker_config_json(name, &text).unwrap()
    };
    let host = format!("127.0.0.1:{port}");
    let (right, old) = (secret(&host, "canary"), secret(&host, "old"));
    let other = secret("other.example", "canary");
    let image = |name: &str| format!("{host}/{name}:1");
    let wanted = [
        (image("x"), vec![other.clone(), old.clone(), right.clone()]),
        (image("gone"), vec![right.clone()]),
        (image("x"), vec![old]),
        (image("x"), vec![other]),
        (image("elsewhere"), vec![right]),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // What nobody else may learn from the same memory: without the login the image is refused.
    assert!(matches!(&ask(&images, &[image("x")])[..], [Some(ImageAnswer::Refused { .. })]));
    let told = runtime.block_on(images.ask_with(&wanted, Duration::from_secs(5)));
    let short: Vec<String> = told
        .iter()
        .map(|told| match told {
            LoginAnswer::Lacking => "lacking".to_owned(),
            LoginAnswer::NotAsked => "not asked".to_owned(),
            LoginAnswer::With { secret, answer: ImageAnswer::Found { .. } } => format!("found by {secret}"),
            LoginAnswer::With { secret, answer: ImageAnswer::Missing { .. } } => format!("missing by {secret}"),
            LoginAnswer::With { secret, answer: ImageAnswer::Refused { .. } } => format!("refused by {secret}"),
            LoginAnswer::With { answer: ImageAnswer::Unknown { reason }, .. } => reason.clone(),
        })
        .collect();
    assert_eq!(short, ["found by n/canary", "missing by n/canary", "refused by n/old", "lacking", "found by n/canary"]);
    assert!(matches!(&ask(&images, &[image("x")])[..], [Some(ImageAnswer::Refused { .. })]));
    let shown = asked_inside.lock().unwrap().iter().filter_map(|request| request.authorization.clone()).count();
    assert_eq!((shown, asked_inside.lock().unwrap().len()), (0, 1));
    assert!(asked.lock().unwrap().iter().any(|request| request.authorization.is_some()));
    assert!(!format!("{told:?} {wanted:?}").contains("password"));
}
