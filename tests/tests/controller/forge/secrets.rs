//! What people are shown of a change: every object and field of it, and no secret of whatever kind.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tests::servers::{Gitea, isolated};

use super::{OVERLAY, Scene, head, number, text, waits_for_people};
use crate::fleet::{Files, told};

/// What must be read nowhere, besides the password by which the repository is cloned.
const CANARY: &str = "CANARY-7f3a";

/// Everything that was logged.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Objects that hold a secret where it belongs and where it does not.
fn extra(number: u8) -> String {
    let secret = format!("{CANARY}-{number}");
    let objects = [
        format!(
            "kind: Secret\nmetadata: {{name: plain, annotations: {{last: {secret}}}}}\nstringData: {{password: {secret}, image: {secret}}}\n"
        ),
        format!(
            "kind: ConfigMap\nmetadata: {{name: sealed, annotations: {{note: 'https://me:{secret}@example.com/', changelog: 'https://me:{secret}@example.com/c'}}}}\n\
             data: {{password: 'ENC[AES256_GCM,data:{secret},type:str]', image: {secret}}}\nsops: {{mac: {secret}, version: 3.9.0}}\n"
        ),
        format!(
            "kind: Pod\nmetadata: {{name: careless}}\nspec:\n  containers:\n  - {{name: one, image: 'https://me:{secret}@r.example.com/one:v{number}', args: ['--token={secret}'], \
             env: [{{name: TOKEN, value: {secret}}}]}}\n  - {{name: two, image: 'r.example.com/two:v{number}'}}\n"
        ),
    ];
    objects.map(|object| format!("apiVersion: v1\n{object}")).join("---\n")
}

#[test]
fn what_changes_is_told_object_by_object_and_no_secret_of_it() {
    isolated(
        "forge::secrets::what_changes_is_told_object_by_object_and_no_secret_of_it",
        Gitea::NEEDED,
        async |programs| {
            let logs = Logs::default();
            let writer = logs.clone();
            tracing_subscriber::fmt()
                .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
                .with_ansi(false)
                .with_writer(move || writer.clone())
                .init();
            let scene = Scene::start(&programs).await?;
            let fleet = &scene.fleet;
            let controller = fleet.controller();
            let before = fleet.read(&"main".parse()?, OVERLAY).unwrap();
            let file = |number: u8| ("overlays/cert-manager/extra.yaml".to_owned(), extra(number).into_bytes());
            let overlay =
                (OVERLAY.to_owned(), before.replace("patches:", "resources: [extra.yaml]\npatches:").into_bytes());
            fleet.push(&Files::from([file(1), overlay]));
            let mut seen = Vec::new();
            for number_of in [1, 2] {
                let pull = scene.the_pull(&controller).await?;
                let body = text(&pull, "body").to_owned();
                assert!(body.contains("<details>") && body.contains("## What to do"), "{body}");
                let wanted: &[&str] = if number_of == 1 {
                    &["- added Secret `plain`", "- added Pod `careless`"]
                } else {
                    &[
                        "- changed Secret `plain`\n",
                        "  - `stringData.password`: changed\n",
                        "  - `data.image`: changed\n",
                        "  - `spec.containers.[name=one].args.0`: changed\n",
                        "  - `spec.containers.[name=one].image`: changed\n",
                        "  - `spec.containers.[name=two].image`: `r.example.com/two:v1` → `r.example.com/two:v2`\n",
                    ]
                };
                for wanted in wanted {
                    assert!(body.contains(wanted), "{wanted} is missing in\n{body}");
                }
                scene.say("alice", number(&pull), "/stepgate plan").await?;
                fleet.pass(&controller);
                fleet.pass(&controller);
                seen.extend(scene.said(number(&pull)).await?);
                seen.push(scene.gitea.read(&format!("commits/{}/status", head(&pull))).await?.to_string());
                seen.push(body);
                scene.gitea.merge("alice", number(&pull), "merge").await?;
                let pass = fleet.run_until(&controller, |pass| !waits_for_people(pass));
                seen.push(told(&pass));
                seen.push(told(&fleet.run_to_the_end(&controller)));
                if number_of == 1 {
                    fleet.push(&Files::from([file(2)]));
                }
            }
            let comments = seen.iter().filter(|text| text.contains("/stepgate plan")).count();
            assert!(comments >= 2, "{seen:?}");
            seen.push(String::from_utf8(logs.0.lock().unwrap().clone())?);
            assert!(seen.last().is_some_and(|logs| logs.contains("proposed `stepgate/")), "nothing was logged");
            for text in seen {
                let found = [CANARY, "only-for-tests"].into_iter().find_map(|secret| text.find(secret));
                let around = found.map(|at| text.get(at.saturating_sub(300)..(at + 100).min(text.len())));
                assert_eq!(around, None, "a secret was told");
            }
            Ok(())
        },
    );
}
