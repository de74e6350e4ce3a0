//! The API server in memory answers as a real one does: the same operations at random, and what both answer compared.

mod operation;
mod side;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use fake_api_server::{FakeApiServer, Origin, ServedKind, State};
use kube::{Client, Config};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, define};
use tests::servers::{ApiServer, ApiServerOptions, Folder, isolated};

use self::operation::Operation;
use self::side::Side;

const NEEDED: &[&str] = &["etcd", "kube-apiserver"];

const NAMESPACES: &[&str] = &["one", "two"];

/// How many of the operations on an object are told before one that is answered otherwise.
const STEPS: usize = 8;

/// How many operations, where `STEPGATE_OPERATIONS` does not say.
const OPERATIONS: u64 = 3_000;

fn kinds() -> Vec<ServedKind> {
    let lease =
        Origin::BuiltIn { counts_generations: false, replaced_unconditionally: false, created_by_replacing: true };
    vec![
        ServedKind::built_in("v1", "ConfigMap", "configmaps"),
        ServedKind::built_in("coordination.k8s.io/v1", "Lease", "leases").of(lease),
        ServedKind::custom("example.com/v1", "Widget", "widgets"),
        ServedKind::custom("example.com/v1", "Gadget", "gadgets").cluster_wide().of(Origin::Custom { status: false }),
    ]
}

fn definitions() -> Vec<Value> {
    let keeps = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let custom = kinds().into_iter().filter(|kind| kind.group == "example.com");
    let definition = |kind: ServedKind| {
        let has_status = kind.origin == Origin::Custom { status: true };
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", kind.plural, kind.group)},
            "spec": {"group": kind.group, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
                "names": {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.to_lowercase()},
                "versions": [{"name": kind.version, "served": true, "storage": true,
                    "subresources": if has_status { json!({"status": {}}) } else { json!({}) },
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": keeps, "status": keeps}}}}]}})
    };
    custom.map(definition).collect()
}

/// Where two documents differ, and what each has there: the real server's first.
fn differing(path: &str, expected: &Value, found: &Value) -> Vec<String> {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
            let missing = &Value::Null;
            let of = |name| (expected.get(name).unwrap_or(missing), found.get(name).unwrap_or(missing));
            let below = names.into_iter().map(|name| (format!("{path}/{name}"), of(name)));
            below.flat_map(|(path, (expected, found))| differing(&path, expected, found)).collect()
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            let pairs = expected.iter().zip(found).enumerate();
            pairs
                .flat_map(|(place, (expected, found))| differing(&format!("{path}/{place}"), expected, found))
                .collect()
        }
        _ if expected == found => Vec::new(),
        _ => vec![format!("{path}: {expected}, in memory {found}")],
    }
}

#[test]
fn what_the_server_in_memory_answers_is_what_a_real_one_answers() {
    isolated(
        "fake_api_server::what_the_server_in_memory_answers_is_what_a_real_one_answers",
        NEEDED,
        async |programs| {
            let given = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>()).transpose();
            let seed = given("STEPGATE_SEED")?.unwrap_or_else(|| fastrand::u64(..));
            let operations = given("STEPGATE_OPERATIONS")?.unwrap_or(OPERATIONS);
            println!(
                "seed {seed}: STEPGATE_SEED repeats it, with STEPGATE_OPERATIONS for more than {operations} operations"
            );

            let folder = Folder::new()?;
            let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
            let client = server.client().await?;
            define(&client, &definitions()).await?;
            let namespace = |name: &&str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            apply(&client, &NAMESPACES.iter().map(namespace).collect::<Vec<_>>()).await?;
            let fake = FakeApiServer::start(State::new(kinds(), NAMESPACES)).await?;
            let other = Client::try_from(Config::new(fake.url().parse()?))?;

            let mut random = fastrand::Rng::with_seed(seed);
            let (mut real, mut memory) = (Side::new(client), Side::new(other));
            let mut differences = Vec::new();
            let mut last: Vec<String> = Vec::new();
            for count in 0..operations {
                let operation = Operation::random(&mut random, &kinds());
                let (expected, found) = (real.answer(&operation).await?, memory.answer(&operation).await?);
                last.push(format!("{operation}\n  {expected}"));
                if expected == found {
                    continue;
                }
                let object = operation.object();
                let before: Vec<&String> = last.iter().filter(|line| line.contains(&object)).collect();
                let before: String = before.iter().rev().take(STEPS).rev().map(|line| format!("{line}\n")).collect();
                let differs = differing("", &expected, &found).join("\n");
                differences.push(format!("operation {count}\n{before}{differs}\n"));
                ensure!(differences.len() < 8, "seed {seed}\n\n{}", differences.join("\n"));
                // Whatever follows would be told again.
                if object.contains("/object-") {
                    real.reset(&object).await?;
                    memory.reset(&object).await?;
                }
            }
            ensure!(differences.is_empty(), "seed {seed}\n\n{}", differences.join("\n"));
            let patience = Duration::from_secs(60);
            let (expected, found) =
                (real.watched(&kinds(), patience).await?, memory.watched(&kinds(), patience).await?);
            ensure!(
                expected.len() == found.len() && expected.len() > 6,
                "{} and {} watches",
                expected.len(),
                found.len()
            );
            for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
                let differs = expected.iter().zip(found).position(|(expected, found)| expected != found);
                if let Some(place) =
                    differs.or_else(|| (expected.len() != found.len()).then_some(expected.len().min(found.len())))
                {
                    let told =
                        |events: &[Value]| events.get(place).map_or_else(String::new, |event| format!("{event:#}"));
                    let message =
                        format!("a real server tells\n{}\nthe one in memory\n{}", told(expected), told(found));
                    return Err(anyhow::anyhow!(message))
                        .context(format!("seed {seed}, watch {number}, event {place}"));
                }
            }
            let events: usize = expected.iter().map(Vec::len).sum();
            println!("{operations} operations and {events} events of {} watches are the same", expected.len());
            folder.done();
            Ok(())
        },
    );
}
