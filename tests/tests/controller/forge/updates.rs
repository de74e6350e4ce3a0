//! New versions, proposed on a real forge by the program, from a host that publishes them.

use std::path::Path;
use std::process::Command;

use forge::ForgeCredential;
use reqwest::Method;
use serde_json::{Value, json};
use tests::servers::{Gitea, ReleasesHost, isolated};

use super::{Scene, head, number, text};

#[path = "signed_updates.rs"]
mod signed;

const BUNDLE: &str = include_str!("../../../../fixtures/demo/bundles/bundles-81.yaml");
const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// A fleet on Gitea whose policy has `updates`, and the host that it looks at.
struct Releases {
    scene: Scene,
    host: ReleasesHost,
    folder: tempfile::TempDir,
}

impl Releases {
    async fn start(programs: &tests::servers::Programs, lines: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let host = ReleasesHost::start(folder.path()).await?;
        let updates =
            format!("updates:\n  releases: {}\n  kubernetes: [\"1.34\"]\n{lines}", host.url("releases/manifest.yaml"));
        let scene = Scene::with_policy(programs, &updates).await?;
        // What the demo's mirror leaves out, since nothing is rendered of it.
        for mirror in &scene.fleet.files.mirrors {
            let folder = mirror.join("artifacts.example.com/eks-d/crds");
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join("releases.distro.eks.amazonaws.com-v1alpha1.yaml"), "{}\n")?;
        }
        Ok(Self { scene, host, folder })
    }

    /// The file with the token that the scene has given to Stepgate.
    fn token_file(&self) -> &Path {
        match &self.scene.fleet.access.credential {
            Some(ForgeCredential::Token(file)) => file,
            other => panic!("{other:?}"),
        }
    }

    /// Publishes these releases, each with its Bundles: version, number, date.
    fn publish(&self, releases: &[(&str, u64, &str)]) {
        let mut text =
            String::from("apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Release\nspec:\n  releases:\n");
        for (version, number, date) in releases {
            let path = format!("releases/bundles/{number}/manifest.yaml");
            let url = self.host.url(&path);
            text.push_str(&format!(
                "  - {{version: {version}, number: {number}, date: \"{date}\", bundleManifestUrl: \"{url}\"}}\n"
            ));
            let bundle = BUNDLE.replace("bundles-81", &format!("bundles-{number}"));
            self.host.publish(&path, bundle.replace("number: 81", &format!("number: {number}")));
        }
        self.host.publish("releases/manifest.yaml", text);
    }

    /// What `stepgate bundle bump` says with these arguments: its exit code and its updates.
    async fn bump(&self, arguments: &[&str]) -> anyhow::Result<(i32, Vec<Value>)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        command
            .args(["bundle", "bump", "--output", "json", "--repo", &self.scene.gitea.clone_url("stepgate")])
            .arg("--forge-token-file")
            .arg(self.token_file())
            .args(["--private-host", "127.0.0.1"])
            .args(arguments)
            .env("SSL_CERT_FILE", self.host.authority())
            .env("XDG_CACHE_HOME", self.folder.path());
        for mirror in &self.scene.fleet.files.mirrors {
            command.arg("--mirror").arg(mirror);
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let report: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| anyhow::anyhow!("{error}: {stderr}"))?;
        Ok((output.status.code().unwrap_or(-1), report["updates"].as_array().cloned().unwrap_or_default()))
    }

    async fn bumped(&self) -> anyhow::Result<(i32, Vec<Value>)> {
        self.bump(&["--update-host", &self.host.host(), "--yes"]).await
    }

    /// The newest state of each status of what is proposed, by its name.
    async fn statuses(&self, pull: &Value) -> anyhow::Result<Vec<(String, String)>> {
        let mut statuses = self.scene.statuses(head(pull)).await?;
        statuses.sort();
        Ok(statuses)
    }

    /// The open pull requests below the prefix of updates: branch and what the forge says of each.
    async fn open(&self) -> anyhow::Result<Vec<(String, Value)>> {
        let pulls = self.scene.pulls("open").await?;
        let mut found: Vec<_> = pulls.into_iter().map(|pull| (text(&pull["head"], "ref").to_owned(), pull)).collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found)
    }
}

fn owned((context, state): (&str, &str)) -> (String, String) {
    (context.to_owned(), state.to_owned())
}

/// Kind, version and state of what was found.
fn states(updates: &[Value]) -> Vec<(&str, &str, &str)> {
    updates.iter().map(|update| (text(update, "kind"), text(update, "version"), text(update, "state"))).collect()
}

#[test]
fn a_release_is_proposed_once_superseded_in_place_and_not_asked_again_once_closed() {
    const NAME: &str = "forge::updates::a_release_is_proposed_once_superseded_in_place_and_not_asked_again_once_closed";
    isolated(NAME, Gitea::NEEDED, async |programs| {
        let releases = Releases::start(&programs, "").await?;
        let host = releases.host.host();
        releases.publish(&[
            ("v0.24.0", 80, LONG_AGO),
            ("v0.25.0", 81, LONG_AGO),
            ("v0.25.1", 82, "2999-01-01T00:00:00Z"),
        ]);
        // Nobody may be asked but whom the operator names, and a dry run asks nobody for anything.
        let (exit, updates) = releases.bump(&["--yes"]).await?;
        assert_eq!((exit, text(&updates[0], "state")), (2, "failed"), "{updates:?}");
        assert!(text(&updates[0], "message").contains("--update-host names the hosts"), "{updates:?}");
        let (exit, updates) = releases.bump(&["--update-host", &host]).await?;
        assert_eq!((exit, text(&updates[0], "state")), (1, "due"), "{updates:?}");

        let (exit, updates) = releases.bumped().await?;
        let expected =
            [("eksa", "v0.25.0", "proposed"), ("eksa", "v0.25.1", "passed-over"), ("kubernetes", "1.34", "proposed")];
        assert_eq!((exit, states(&updates)), (0, expected.to_vec()), "{updates:?}");
        let open = releases.open().await?;
        let [(bundle, pull), (kubernetes, other)] = open.as_slice() else { panic!("{open:?}") };
        assert_eq!(
            (bundle.as_str(), kubernetes.as_str()),
            ("stepgate-updates/eksa-v0.25.0", "stepgate-updates/kubernetes-1.34")
        );
        let body = text(pull, "body");
        for said in ["bundles-81: the Bundles object is not signed", "| certManager |", "## mgmt", "images are new"] {
            assert!(body.contains(said), "{said}: {body}");
        }
        // People are asked in this fleet after the merge as well.
        let statuses = releases.statuses(pull).await?;
        assert_eq!(statuses, [("stepgate/automatic", "pending"), ("stepgate/update", "success")].map(owned));
        let file = |path: &str| format!("raw/{path}?ref={bundle}");
        releases.scene.gitea.read(&file("bundles/bundles-81.yaml")).await?;
        releases.scene.gitea.read(&file("bundles.lock")).await?;
        let files = releases.scene.gitea.read(&format!("pulls/{}/files", number(other))).await?;
        let names: Vec<&str> = files.as_array().unwrap().iter().map(|file| text(file, "filename")).collect();
        assert_eq!(
            names,
            ["clusters/mgmt/cluster.yaml", "clusters/team-a/cluster.yaml", "clusters/team-b/cluster.yaml"]
        );

        // Nothing moves where nothing is new, although the source branch has moved on.
        releases.scene.edit("system-node-critical");
        let before = (head(pull).to_owned(), number(pull));
        releases.bumped().await?;
        let (_, pull) = releases.open().await?.remove(0);
        assert_eq!((head(&pull).to_owned(), number(&pull)), before);

        // A later one takes its place; whoever closes that one is not asked again, nor for what came before it.
        releases.publish(&[("v0.25.0", 81, LONG_AGO), ("v0.25.2", 83, LONG_AGO)]);
        releases.bumped().await?;
        let (branch, later) = releases.open().await?.remove(0);
        assert_eq!(branch, "stepgate-updates/eksa-v0.25.2");
        assert!(releases.scene.said(before.1).await?[0].contains("Another version takes its place"));
        releases
            .scene
            .act("alice", Method::PATCH, &format!("pulls/{}", number(&later)), json!({"state": "closed"}))
            .await?;
        let (exit, updates) = releases.bumped().await?;
        assert_eq!((exit, states(&updates)[0]), (0, ("eksa", "v0.25.2", "declined")), "{updates:?}");
        assert_eq!(releases.open().await?.len(), 1);

        // What people merge is done.
        releases.scene.gitea.merge("alice", number(other), "merge").await?;
        let (_, updates) = releases.bumped().await?;
        assert!(updates.iter().all(|update| text(update, "kind") != "kubernetes"), "{updates:?}");
        assert_eq!(releases.open().await?.len(), 0);
        Ok(())
    });
}

#[test]
fn what_is_not_signed_or_refused_by_a_plan_is_not_proposed() {
    const NAME: &str = "forge::updates::what_is_not_signed_or_refused_by_a_plan_is_not_proposed";
    isolated(NAME, Gitea::NEEDED, async |programs| {
        let releases = Releases::start(&programs, "signatures: require\n").await?;
        releases.publish(&[("v0.24.0", 80, LONG_AGO), ("v0.25.0", 81, LONG_AGO)]);
        let (exit, updates) = releases.bumped().await?;
        assert_eq!((exit, text(&updates[0], "state")), (3, "refused"), "{updates:?}");
        assert!(text(&updates[0], "message").contains("is not signed"), "{updates:?}");

        // Signatures aside, nothing is proposed that plans refuse: here a bundle without the version that clusters have.
        releases.scene.fleet.edit("stepgate.yaml", |policy| policy.replace("signatures: require", "signatures: off"));
        let without = BUNDLE.replace("kubeVersion: \"1.33\"", "kubeVersion: \"1.32\"");
        releases.host.publish("releases/bundles/81/manifest.yaml", without);
        let (exit, updates) = releases.bumped().await?;
        assert_eq!((exit, text(&updates[0], "state")), (3, "refused"), "{updates:?}");
        assert!(text(&updates[0], "message").contains("1.33"), "{updates:?}");
        let open = releases.open().await?;
        assert!(open.iter().all(|(branch, _)| !branch.contains("eksa")), "{open:?}");
        Ok(())
    });
}
