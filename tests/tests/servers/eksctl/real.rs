//! The real eksctl over every file that Stepgate writes: its strict parser, and its dry run.
//!
//! eksctl is built on demand, since that takes minutes: `tests/servers/build target/servers eksctl`. Without it this is left out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use domain::{RepoPath, Severity};
use overlays::eksctl::{ConfigPart, addons, config_of, eksctl_target, node_groups};
use overlays::{Fleet, MemoryFiles, cluster_stages, read_fleet, spec_tree};
use tests::servers::{Folder, Process, Programs, isolated};
use tokio::net::TcpListener;
use yaml::Node;

use super::{CONFIG, DEPLOYED, FILE, NEEDED, POLICY, STAGES, Scene};

/// What AWS answers to a dry run: who asks, the zones of the region, and which versions there are.
async fn answer(uri: Uri, headers: HeaderMap, body: String) -> Response {
    if uri.path() == "/cluster-versions" {
        let versions = ["1.30", "1.31", "1.32", "1.33"].map(|version| {
            let is_default = version == "1.32";
            serde_json::json!({"clusterVersion": version, "defaultVersion": is_default, "status": "STANDARD_SUPPORT"})
        });
        return axum::Json(serde_json::json!({"clusterVersions": versions})).into_response();
    }
    let action = body.split('&').find_map(|pair| pair.strip_prefix("Action=")).unwrap_or_default();
    // A request is signed for its region: `Credential=KEY/DAY/REGION/SERVICE/aws4_request`.
    let signed = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let region = signed.split('/').nth(2).unwrap_or_default();
    let zones = ["a", "b", "c"].map(|zone| {
        format!(
            "<item><zoneName>{region}{zone}</zoneName><zoneId>az{zone}</zoneId><zoneState>available</zoneState>\
             <regionName>{region}</regionName><zoneType>availability-zone</zoneType></item>"
        )
    });
    let values = body.split('&').filter_map(|pair| pair.split_once('=')).filter(|(key, _)| key.contains(".Value."));
    let types = values.map(|(_, value)| value).filter(|value| value.contains('.'));
    let offered = types.flat_map(|kind| {
        let at = |zone| format!("<item><instanceType>{kind}</instanceType><location>{region}{zone}</location></item>");
        ["a", "b", "c"].map(at)
    });
    let offered: String = offered.collect();
    let text = match action {
        "GetCallerIdentity" => "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <GetCallerIdentityResult><Arn>arn:aws:iam::111122223333:user/test</Arn><UserId>test</UserId>\
             <Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
            .to_owned(),
        "DescribeAvailabilityZones" => format!(
            "<DescribeAvailabilityZonesResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
             <availabilityZoneInfo>{}</availabilityZoneInfo></DescribeAvailabilityZonesResponse>",
            zones.concat()
        ),
        "DescribeInstanceTypeOfferings" => format!(
            "<DescribeInstanceTypeOfferingsResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
             <instanceTypeOfferingSet>{}</instanceTypeOfferingSet></DescribeInstanceTypeOfferingsResponse>",
            offered
        ),
        _ => {
            let text = format!("nobody asks for {action} {uri} in a dry run");
            return (StatusCode::BAD_REQUEST, text).into_response();
        }
    };
    ([("content-type", "text/xml")], text).into_response()
}

/// eksctl, and what answers to it in the place of AWS while the test lasts.
struct Eksctl {
    programs: Programs,
    folder: PathBuf,
    address: String,
}

impl Eksctl {
    async fn new(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        // It ends with the test.
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        Ok(Self { programs: programs.clone(), folder: folder.to_owned(), address })
    }

    /// Whether it accepts a file in a dry run, and what it says.
    async fn told(&self, text: &str) -> anyhow::Result<(bool, String)> {
        let file = self.folder.join("config.yaml");
        std::fs::write(&file, text)?;
        let mut command = Command::new(self.programs.path("eksctl"));
        // Without all of these it would act on real accounts.
        command
            .env_clear()
            .env("HOME", &self.folder)
            .env("AWS_ENDPOINT_URL", &self.address)
            .env("AWS_REGION", "eu-west-1");
        for service in ["STS", "CLOUDFORMATION", "ELB", "ELBV2", "IAM", "EC2", "EKS"] {
            command.env(format!("AWS_{service}_ENDPOINT"), &self.address);
        }
        for (name, value) in
            [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_EC2_METADATA_DISABLED", "true")]
        {
            command.env(name, value);
        }
        command.args(["create", "cluster", "--dry-run", "-f"]).arg(file);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.success(), format!("{}{}", text(&output.stdout), text(&output.stderr))))
    }

    async fn accepts(&self, files: &BTreeSet<String>) -> anyhow::Result<()> {
        for text in files {
            let (is_accepted, said) = self.told(text).await?;
            ensure!(is_accepted, "{text}\n{said}");
        }
        println!("eksctl accepts {} files", files.len());
        Ok(())
    }
}

/// A `ClusterConfig`, and the parts of it that eksctl is given where Stepgate runs it.
fn given(text: &str) -> anyhow::Result<Vec<String>> {
    let nodes = overlays::objects_of(text.as_bytes());
    let config: &Node = nodes.first().context("no object")?;
    let mut parts = vec![ConfigPart::ControlPlane];
    parts.extend(addons(config).map(|(name, _)| ConfigPart::Addon(name)));
    parts.extend(node_groups(config).map(|(_, name, _)| ConfigPart::NodeGroup(name)));
    let parts = parts.into_iter().map(|part| yaml::emit(&config_of(config, part)));
    Ok(parts.chain([text.to_owned()]).collect())
}

/// Every file that the deploy branch ever had.
fn committed(scene: &Scene) -> anyhow::Result<BTreeSet<String>> {
    let git = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = Command::new("git").arg("-C").arg(scene.repository.bare()).args(arguments).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let mut files = BTreeSet::new();
    for commit in git(&["rev-list", "deploy"])?.lines() {
        let Ok(text) = git(&["show", &format!("{commit}:{DEPLOYED}")]) else { continue };
        files.extend(given(&text)?);
    }
    Ok(files)
}

/// Adds the files below a folder, by their paths from `root`; none where there is no such folder.
fn add_below(root: &Path, folder: &Path, files: &mut MemoryFiles) -> anyhow::Result<()> {
    for entry in folder.is_dir().then(|| std::fs::read_dir(folder)).transpose()?.into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            add_below(root, &path, files)?;
        } else {
            let name = path.strip_prefix(root)?.to_str().context("a path that is no text")?;
            files.insert(RepoPath::new(name)?, std::fs::read(&path)?);
        }
    }
    Ok(())
}

/// What Stepgate would write, stage by stage, for a change of a fleet of the fixtures; nothing of one that it refuses.
fn of_fixture(fleet: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut files = MemoryFiles::new();
    let mut read = |moment: &str| -> anyhow::Result<Fleet> {
        let folder = fleet.join(moment);
        add_below(&folder, &folder, &mut files)?;
        Ok(read_fleet(&files))
    };
    let (before, after) = (read("before")?, read("after")?);
    let is_refused = |fleet: &Fleet| fleet.problems.iter().any(|problem| problem.severity == Severity::Error);
    let mut written = BTreeSet::new();
    for cluster in after.clusters.iter().filter(|_| !is_refused(&before) && !is_refused(&after)) {
        let Some(known) = before.cluster(&cluster.name) else { continue };
        let deployed = spec_tree(&known.files);
        // A change that no stage carries out is refused with its reason.
        let Ok(target) = eksctl_target(cluster, &deployed) else { continue };
        let target = target.unwrap_or_else(|| cluster.clone());
        for stage in cluster_stages(&after, &deployed, &spec_tree(&target.files), &target) {
            for bytes in stage.tree.files.values() {
                written.extend(given(std::str::from_utf8(bytes)?)?);
            }
        }
    }
    Ok(written)
}

/// Whether there is no eksctl here, which is said.
fn is_left_out() -> bool {
    let missing = Programs::find(&["eksctl"]).err();
    missing.iter().for_each(|missing| println!("left out, since it is built on demand: {missing}"));
    missing.is_some()
}

#[test]
fn the_real_eksctl_accepts_every_file_that_stepgate_writes() {
    let name = "eksctl::real::the_real_eksctl_accepts_every_file_that_stepgate_writes";
    if is_left_out() {
        return;
    }
    isolated(name, NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        scene.repository.push("Describe the shop", &[("stepgate.yaml", POLICY), (FILE, CONFIG)])?;
        let said = scene.said(&["adopt", "--yes"])?;
        ensure!(said.contains("shop: recorded what the source branch says"), "{said}");
        let _controller = Process::start(scene.folder.path(), "stepgate", scene.command(&["run", "--listen", "off"]))?;
        let next = CONFIG.replace("\"1.31\"", "\"1.32\"").replace("v1.11.3-eksbuild.1", "v1.11.4-eksbuild.2");
        scene.repository.push("Kubernetes 1.32", &[(FILE, &next)])?;
        for stage in 2..STAGES.len() {
            scene.stages_are(stage).await?;
            scene.run_pipeline().await?;
        }
        scene.delete("fargate-1").await?;
        scene.stages_are(STAGES.len()).await?;

        let eksctl = Eksctl::new(&programs, scene.folder.path()).await?;
        let files = committed(&scene)?;
        ensure!(files.len() > STAGES.len(), "{}", files.len());
        eksctl.accepts(&files).await?;
        // It would refuse what it does not know.
        let (is_accepted, said) = eksctl.told(&CONFIG.replace("minSize: 2", "version: \"1.31\"")).await?;
        ensure!(!is_accepted && said.contains("unknown field"), "{said}");
        scene.folder.done();
        Ok(())
    });
}

#[test]
fn the_real_eksctl_accepts_what_each_fleet_of_the_fixtures_would_get() {
    let name = "eksctl::real::the_real_eksctl_accepts_what_each_fleet_of_the_fixtures_would_get";
    if is_left_out() {
        return;
    }
    isolated(name, &[], async |programs| {
        let folder = Folder::new()?;
        let eksctl = Eksctl::new(&programs, folder.path()).await?;
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/fleets");
        let mut files = BTreeSet::new();
        for fleet in std::fs::read_dir(fixtures)? {
            let fleet = fleet?;
            if fleet.file_name().to_string_lossy().starts_with("eksctl-") {
                files.extend(of_fixture(&fleet.path())?);
            }
        }
        // Among them are a rebuild, and each kind of stage.
        let has = |text: &str| files.iter().any(|file| file.contains(text));
        for text in ["version: \"1.32\"", "ng-shared-1-32", "ng-shared-1-31-gen2", "v1.11.4-eksbuild.2"] {
            ensure!(has(text), "no file has {text}: {files:#?}");
        }
        eksctl.accepts(&files).await?;
        folder.done();
        Ok(())
    });
}
