//! What a person does from a push to a rollback: on the command line and in a real browser, beside real Flux and Cluster API.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use browser::{Browser, ENTER};
use tests::servers::{Process, isolated};

use super::machines::{self, CLASS_FILE, CLUSTER};
use super::scene::{POLICY, Scene};

/// Where the dashboard is, in the namespace of this test.
const ADDRESS: &str = "127.0.0.1:8480";

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// The stage of a class, whose one file all machines are made from.
const STAGE: &str = "control-plane";
const PERSON: &str = "Alice <alice@example.com>";

#[test]
fn a_pushed_change_is_approved_watched_and_taken_back_in_the_browser() {
    let name = "person::a_pushed_change_is_approved_watched_and_taken_back_in_the_browser";
    isolated(name, &machines::needed(), async |programs| {
        let Some(browser) = Browser::start() else { return Ok(()) };
        let scene = Scene::start(&programs).await?;
        let policy = format!("{POLICY}approval: stage\n");
        let _cluster_api = machines::create(&scene, &programs, "v1.34.0", &policy).await?;
        let _controller = with_dashboard(&scene)?;

        // The change, and what it would do.
        let class = machines::class(&programs, "2s")?;
        scene.repository.push("Green workers start after two seconds", &[(CLASS_FILE, class.as_str())])?;
        let plan = said(&scene, &["plan"])?;
        ensure!(plan.contains(STAGE) && plan.contains("workers/green"), "{plan}");

        // Logs in, finds what waits, approves it, and watches it until the cluster is done.
        browser.open(&url("/"));
        browser.until("return document.querySelector('input[name=token]') !== null");
        browser.tab_to("input[name=token]");
        browser.press(&format!("{TOKEN}{ENTER}"));
        browser.until("return location.pathname === '/'");
        let waiting = format!(
            "return document.querySelector('#cluster-{CLUSTER}').closest('tr').innerText.includes('waits for approval')"
        );
        browser.until(&waiting);
        keep(&browser, "waiting")?;
        browser.open(&url(&format!("/clusters/{CLUSTER}")));
        browser.until("return document.body.innerText.includes('waits for approval')");
        keep(&browser, "cluster")?;
        act(&browser, "approve", None);
        scene.stages_are(CLUSTER, &["verify", STAGE, "verify"]).await?;
        ensure!(said(&scene, &["wait", CLUSTER, "--for", "done", "--timeout", "1m"])?.contains("done"), "it is done");
        browser.open(&url(&format!("/clusters/{CLUSTER}/history")));
        browser.until(&format!("return document.body.innerText.includes('{STAGE}')"));
        keep(&browser, "history")?;

        // It was no good: back to what was there before.
        act(&browser, "rollback", Some("two seconds are too long"));
        act(&browser, "approve", None);
        // That it goes back is on record first.
        let stages = ["verify", STAGE, "verify", "verify", STAGE, "verify"];
        scene.stages_are(CLUSTER, &stages).await?;
        let history = said(&scene, &["history", CLUSTER])?;
        ensure!(history.contains("machines: go back to the end of rollout"), "{history}");
        // Who wanted it and why is in the record.
        let log = Command::new("git").arg("-C").arg(scene.repository.bare()).args(["log", "deploy"]).output()?;
        let log = String::from_utf8(log.stdout)?;
        ensure!(log.contains(&format!("Wanted by {PERSON}: two seconds are too long")), "{log}");
        browser.open(&url("/"));
        keep(&browser, "taken-back")?;
        ensure!(browser.complaints().is_empty(), "{:?}", browser.complaints());
        scene.folder.done();
        Ok(())
    });
}

fn url(path: &str) -> String {
    format!("http://localhost:{}{path}", ADDRESS.rsplit(':').next().unwrap_or_default())
}

fn with_dashboard(scene: &Scene) -> anyhow::Result<Process> {
    let token = scene.file("web-token");
    std::fs::write(&token, TOKEN)?;
    let mut command =
        scene.stepgate(&["run", "--log-level", "info", "--web-listen", ADDRESS, "--web-token-person", PERSON]);
    command.arg("--web-token-file").arg(&token);
    Process::start(scene.folder.path(), "stepgate", command)
}

/// What a verb prints.
fn said(scene: &Scene, arguments: &[&str]) -> anyhow::Result<String> {
    let output = scene.stepgate(arguments).output()?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// Presses a button on the page of actions once it is offered, and waits until it is done.
fn act(browser: &Browser, verb: &str, reason: Option<&str>) {
    // The page is anew with each pass: what is written into it is written and sent at once.
    let reason = serde_json::Value::from(reason);
    let press = format!(
        "if (!location.pathname.endsWith('/actions')) {{ location.assign('/clusters/{CLUSTER}/actions'); return false; }}
         const button = document.querySelector('#do-{verb}');
         if (button === null) {{ location.reload(); return false; }}
         const why = document.querySelector('#why-{verb}');
         if (why !== null && {reason} !== null) why.value = {reason};
         button.click();
         return true;"
    );
    browser.until(&press);
    browser.until(&format!("return document.querySelector('h1').innerText === '{CLUSTER}: done'"));
}

/// Keeps a picture; `UPDATE_FIXTURES=1` puts it into the guides.
fn keep(browser: &Browser, name: &str) -> anyhow::Result<()> {
    let picture = browser.picture();
    ensure!(picture.starts_with(b"\x89PNG"), "{name} is no picture");
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no checkout")?;
    let folder = match std::env::var_os("UPDATE_FIXTURES") {
        Some(_) => top.join("reconciler/docs/pictures"),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned(),
    };
    std::fs::create_dir_all(&folder)?;
    Ok(std::fs::write(folder.join(format!("person-{name}.png")), picture)?)
}
