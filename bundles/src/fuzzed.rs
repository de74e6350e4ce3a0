//! Readers of releases take whatever a mirror holds.

use std::path::Path;

use fuzz::{Verdict, files_below, fuzz};

use crate::lock::Lock;
use crate::manifest::parse;
use crate::releases::parse_releases;
use crate::version::Version;

fn fixtures() -> Vec<Vec<u8>> {
    files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/bundles")).into_values().collect()
}

/// The same as JSON, whose values are changed one by one.
fn as_json(text: &[u8]) -> Vec<u8> {
    let documents = yaml::parse(std::str::from_utf8(text).unwrap(), &yaml::Limits::default()).unwrap();
    yaml::json::to_json(&documents[0].root).into_bytes()
}

fn refused(error: impl std::fmt::Display) -> Verdict {
    if error.to_string().is_empty() { Err("an error without a message".to_owned()) } else { Ok(()) }
}

#[test]
fn fuzzed_manifests_of_releases_are_read_or_refused() {
    let seeds = fixtures();
    let json: Vec<_> = seeds.iter().map(|seed| as_json(seed)).collect();
    fuzz("manifests", seeds.into_iter().chain(json), |input| {
        parse("bundles.yaml", input).map_or_else(refused, |_| Ok(()))
    });
}

#[test]
fn fuzzed_lists_of_releases_are_read_or_refused() {
    let list = br#"{"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Release", "metadata": {"name": "eks-a"},
        "spec": {"latestVersion": "v0.25.0", "releases": [
            {"version": "v0.25.0", "number": 110, "date": "2026-05-01", "bundleManifestUrl": "https://a.example/110.yaml"},
            {"version": "v0.24.4-eks-a", "number": 105, "bundleManifestUrl": "https://a.example/105.yaml"},
            {"version": "latest", "number": 1, "bundleManifestUrl": "https://a.example/1.yaml"}]}}"#;
    let target = |input: &[u8]| match parse_releases("releases.yaml", input) {
        Ok(releases) if releases.iter().any(|release| release.version.is_opaque()) => {
            Err("without an order".to_owned())
        }
        Ok(_) => Ok(()),
        Err(error) => refused(error),
    };
    fuzz("releases", [list.to_vec()], target);
}

#[test]
fn fuzzed_locks_are_written_as_they_are_read() {
    let digest = "a".repeat(64);
    let lock = format!(
        "# written by stepgate\nsha256:{digest}  https://a.example/1.yaml\nsha256:{digest}  oci://b.example/c:v1\n"
    );
    let target = |input: &[u8]| match Lock::parse("bundles.lock", input) {
        Ok(lock) => match Lock::parse("bundles.lock", lock.to_text().as_bytes()) {
            Ok(again) if again == lock => Ok(()),
            other => Err(format!("{other:?} is read of {}", lock.to_text())),
        },
        Err(error) => refused(error),
    };
    fuzz("lock", [lock.into_bytes()], target);
}

#[test]
fn fuzzed_versions_have_one_order() {
    let seeds = ["v0.4.2+build-2 v0.4.2", "v1.35.0-eks-1-35-7 v1.34.1-eks-d.3", "v1.30.0-rc.1 1.30"];
    let target = |input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let versions: Vec<Version> = text.split_whitespace().map(Version::new).collect();
        for one in &versions {
            if Version::new(one.to_string()) != *one || one.as_str() != one.to_string() {
                return Err(format!("{one} is another version when it is read again"));
            }
            for other in &versions {
                if one.compare(other) != other.compare(one).map(std::cmp::Ordering::reverse) {
                    return Err(format!("{one} and {other} have two orders"));
                }
            }
        }
        Ok(())
    };
    fuzz("versions", seeds.map(|seed| seed.as_bytes().to_vec()), target);
}
