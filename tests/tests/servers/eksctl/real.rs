//! The real eksctl over every file that Stepgate writes: its strict parser, and its dry run.
//!
//! eksctl is built on demand, since that takes minutes: `tests/servers/build target/servers eksctl`. Without it this is left out.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use overlays::eksctl::{ConfigPart, addons, config_of, node_groups};
use tests::servers::{Process, Programs, isolated};
use tokio::net::TcpListener;
use yaml::Node;

use super::{CONFIG, DEPLOYED, FILE, NEEDED, POLICY, STAGES, Scene};

/// What AWS answers to a dry run: who asks, the zones of the region, and which versions there are.
async fn answer(uri: Uri, body: String) -> Response {
    if uri.path() == "/cluster-versions" {
        let versions = ["1.31", "1.32", "1.33"].map(|version| {
            let is_default = version == "1.32";
            serde_json::json!({"clusterVersion": version, "defaultVersion": is_default, "status": "STANDARD_SUPPORT"})
        });
        return axum::Json(serde_json::json!({"clusterVersions": versions})).into_response();
    }
    let action = body.split('&').find_map(|pair| pair.strip_prefix("Action=")).unwrap_or_default();
    let zones = ["a", "b", "c"].map(|zone| {
        format!(
            "<item><zoneName>eu-west-1{zone}</zoneName><zoneId>euw1-az{zone}</zoneId><zoneState>available</zoneState>\
             <regionName>eu-west-1</regionName><zoneType>availability-zone</zoneType></item>"
        )
    });
    let offered = ["a", "b", "c"]
        .map(|zone| format!("<item><instanceType>m5.large</instanceType><location>eu-west-1{zone}</location></item>"));
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
            offered.concat()
        ),
        _ => {
            let text = format!("nobody asks for {action} {uri} in a dry run");
            return (StatusCode::BAD_REQUEST, text).into_response();
        }
    };
    ([("content-type", "text/xml")], text).into_response()
}

/// What eksctl says to a file in a dry run.
fn dry_run(programs: &Programs, folder: &Path, address: &str, file: &Path) -> anyhow::Result<(bool, String)> {
    let mut command = Command::new(programs.path("eksctl"));
    // Without all of these it would act on real accounts.
    command.env_clear().env("HOME", folder).env("AWS_ENDPOINT_URL", address).env("AWS_REGION", "eu-west-1");
    for service in ["STS", "CLOUDFORMATION", "ELB", "ELBV2", "IAM", "EC2", "EKS"] {
        command.env(format!("AWS_{service}_ENDPOINT"), address);
    }
    for (name, value) in
        [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_EC2_METADATA_DISABLED", "true")]
    {
        command.env(name, value);
    }
    let output = command.args(["create", "cluster", "--dry-run", "-f"]).arg(file).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.success(), format!("{}{}", text(&output.stdout), text(&output.stderr))))
}

/// Every `ClusterConfig` that the deploy branch ever had, and the parts of each that eksctl is given where Stepgate runs it.
fn written(scene: &Scene) -> anyhow::Result<Vec<String>> {
    let git = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = Command::new("git").arg("-C").arg(scene.repository.bare()).args(arguments).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let mut files: Vec<String> = Vec::new();
    let mut keep = |text: String| {
        if !files.contains(&text) {
            files.push(text);
        }
    };
    for commit in git(&["rev-list", "deploy"])?.lines() {
        let Ok(text) = git(&["show", &format!("{commit}:{DEPLOYED}")]) else { continue };
        let nodes = overlays::objects_of(text.as_bytes());
        let config: &Node = nodes.first().context("no object")?;
        let mut parts = vec![ConfigPart::ControlPlane];
        parts.extend(addons(config).map(|(name, _)| ConfigPart::Addon(name)));
        parts.extend(node_groups(config).map(|(_, name, _)| ConfigPart::NodeGroup(name)));
        parts.into_iter().for_each(|part| keep(yaml::emit(&config_of(config, part))));
        keep(text);
    }
    Ok(files)
}

#[test]
fn the_real_eksctl_accepts_every_file_that_stepgate_writes() {
    let name = "eksctl::real::the_real_eksctl_accepts_every_file_that_stepgate_writes";
    if let Err(missing) = Programs::find(&["eksctl"]) {
        println!("left out, since it is built on demand: {missing}");
        return;
    }
    isolated(name, NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        scene.repository.push("Describe the shop", &[("stepgate.yaml", POLICY), (FILE, CONFIG)])?;
        let said = scene.said(&["adopt", "--yes"])?;
        ensure!(said.contains("shop: recorded what the source branch says"), "{said}");
        let folder = scene.folder.path().to_owned();
        let _controller = Process::start(&folder, "stepgate", scene.command(&["run", "--listen", "off"]))?;
        let next = CONFIG.replace("\"1.31\"", "\"1.32\"").replace("v1.11.3-eksbuild.1", "v1.11.4-eksbuild.2");
        scene.repository.push("Kubernetes 1.32", &[(FILE, &next)])?;
        for stage in 2..STAGES.len() {
            scene.stages_are(stage).await?;
            scene.run_pipeline().await?;
        }
        scene.delete("fargate-1").await?;
        scene.stages_are(STAGES.len()).await?;

        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        // It ends with the test.
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        let files = written(&scene)?;
        ensure!(files.len() > STAGES.len(), "{}", files.len());
        println!("{} files are read by eksctl", files.len());
        let path = folder.join("config.yaml");
        let told = async |text: &str| -> anyhow::Result<(bool, String)> {
            std::fs::write(&path, text)?;
            let (programs, folder, address, path) = (programs.clone(), folder.clone(), address.clone(), path.clone());
            tokio::task::spawn_blocking(move || dry_run(&programs, &folder, &address, &path)).await?
        };
        for text in &files {
            let (is_accepted, said) = told(text).await?;
            ensure!(is_accepted, "{text}\n{said}");
        }
        // It would refuse what it does not know.
        let (is_accepted, said) = told(&CONFIG.replace("minSize: 2", "version: \"1.31\"")).await?;
        ensure!(!is_accepted && said.contains("unknown field"), "{said}");
        scene.folder.done();
        Ok(())
    });
}
