//! What registries answer, and the logins that others have written.

use fuzz::fuzz;
use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

use super::challenge::Challenge;
use super::image::Place;
use super::pull_secret::PullSecret;

#[test]
fn fuzzed_references_of_images_are_read_or_refused() {
    let digest = "a".repeat(64);
    let seeds =
        [format!("public.ecr.aws/eks/a:v1@sha256:{digest}"), "nginx".to_owned(), "localhost:5000/a/b:c".to_owned()];
    fuzz("image-reference", seeds.map(String::into_bytes), |input| {
        match Place::parse(&String::from_utf8_lossy(input)) {
            Err(error) if error.is_empty() => Err("an error without a message".to_owned()),
            _ => Ok(()),
        }
    });
}

#[test]
fn fuzzed_challenges_of_registries_are_read_or_refused() {
    let seed = br#"Basic realm="a", Bearer realm="https://a.example/t",service="b",scope="repository:c:pull""#;
    fuzz("challenge", [seed.to_vec()], |input| {
        let Ok(value) = input.try_into() else { return Ok(()) };
        match Challenge::of(&HeaderMap::from_iter([(WWW_AUTHENTICATE, value)])) {
            Err(error) if error.is_empty() => Err("an error without a message".to_owned()),
            _ => Ok(()),
        }
    });
}

#[test]
fn fuzzed_pull_secrets_say_nothing_of_what_they_hold() {
    let word = "aHVudGVyMjpodW50ZXIy";
    let seed = format!(
        r#"{{"auths": {{"a.example": {{"auth": "{word}"}}, "*.b.example/c": {{"username": "u", "password": "p"}}}}}}"#
    );
    fuzz("pull-secret", [seed.into_bytes()], |input| {
        let text = String::from_utf8_lossy(input);
        let read = [PullSecret::docker_config_json("a", &text), PullSecret::docker_cfg("a", &text)];
        let told = format!("{read:?}");
        if told.contains(word) || told.contains("hunter2") { Err(format!("{told} tells a login")) } else { Ok(()) }
    });
}
