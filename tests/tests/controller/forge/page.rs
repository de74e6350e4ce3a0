//! The web page of a pull request, as people see it: real Gitea in headless Chromium.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use tests::servers::{Gitea, isolated};

use super::{Scene, number};
use crate::fleet::{outcome, told};

/// Where Debian's package puts it, and what others call it.
const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// Nobody is asked about the management cluster, and both teams together.
const TEAMS: &str = "clusters: {mgmt: {approval: none}}\n";

struct Browser {
    program: PathBuf,
    profile: tempfile::TempDir,
}

impl Browser {
    fn run(&self, arguments: &[&str], url: &str) -> anyhow::Result<Vec<u8>> {
        let output = Command::new("timeout")
            .args(["--kill-after=5", "120"])
            .arg(&self.program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--no-proxy-server",
            ])
            .args(["--hide-scrollbars", "--window-size=1280,2400", "--timeout=60000"])
            // Pictures of people are elsewhere, and there is no network here to wait for.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
            .arg(format!("--user-data-dir={}", self.profile.path().display()))
            .args(arguments)
            .arg(url)
            .env("HOME", self.profile.path())
            .output()
            .with_context(|| format!("run {}", self.program.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} failed: {}\n{said}", self.program.display(), output.status);
        Ok(output.stdout)
    }
}

#[test]
fn a_pull_request_reads_well_on_its_page() {
    let Some(program) = BROWSERS.into_iter().map(PathBuf::from).find(|program| program.exists()) else {
        return skip::missing("there is no browser (Debian: chromium)");
    };
    isolated("forge::page::a_pull_request_reads_well_on_its_page", Gitea::NEEDED, async |programs| {
        let scene = Scene::with_policy(&programs, TEAMS).await?;
        let fleet = &scene.fleet;
        let controller = fleet.controller();
        fleet.bump();
        let asks = |pass: &stepgate::reconcile::ReconcileReport, team: &str| {
            outcome(pass, team).message().contains("approval: http")
        };
        let pass = fleet.run_until(&controller, |pass| asks(pass, "team-a") && asks(pass, "team-b"));
        let pulls = scene.pulls("open").await?;
        assert_eq!(pulls.len(), 1, "{}", told(&pass));
        let url = format!("{}/platform/fleet/pulls/{}", scene.gitea.url(), number(&pulls[0]));
        let browser = Browser { program, profile: tempfile::tempdir()? };
        let shot = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pull-request.png");
        browser.run(&[&format!("--screenshot={}", shot.display())], &url)?;
        println!("screenshot: {}", shot.display());
        let bytes = std::fs::read(&shot)?;
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "{} bytes", bytes.len());
        let page = String::from_utf8(browser.run(&["--dump-dom"], &url)?)?;
        // What is Markdown in the text is a page: a table of the clusters, headings, a part that unfolds, and nothing of our marks.
        let plain: String = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for wanted in [
            "<th>cluster</th>",
            "<th>component</th>",
            "<td>team-a</td>",
            "<td>team-b</td>",
            "<td>ready</td>",
            "<summary>Objects and their fields, of all clusters</summary>",
            "stepgate/cilium",
            "the gates before all 2 are open",
        ] {
            assert!(plain.contains(wanted), "{wanted} is not on the page, {} bytes:\n{page}", page.len());
        }
        for heading in ["Changes", "What to do", "What the gates before them saw"] {
            let is_heading = regex::Regex::new(&format!("<h2[^>]*>(<[^>]*>)*{heading}"))?;
            assert!(is_heading.is_match(&plain), "{heading} is no heading of the page:\n{page}");
        }
        let rendered = plain.split("render-content markup").nth(1).unwrap_or_default();
        let rendered = rendered.split("class=\"raw-content").next().unwrap_or_default();
        assert!(
            rendered.contains("team-a") && !rendered.contains("stepgate:shown") && !rendered.contains("| --- |"),
            "{rendered}"
        );
        Ok(())
    });
}
