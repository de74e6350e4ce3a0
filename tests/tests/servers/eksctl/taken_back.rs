//! A control plane that EKS takes back within its seven days, where the policy lets that be asked for.

use anyhow::ensure;
use tests::servers::{Process, isolated};

use super::{CLUSTER, CONFIG, DEPLOYED, FILE, NEEDED, POLICY, Scene};

/// What the deploy branch tells: there, as far as the add-on, the end of that, and back.
const COURSE: [&str; 7] =
    ["verify", "control-plane", "addons/coredns", "verify", "addons/coredns", "control-plane", "verify"];

#[test]
fn a_control_plane_goes_back_a_minor_where_the_policy_lets_it() {
    let name = "eksctl::taken_back::a_control_plane_goes_back_a_minor_where_the_policy_lets_it";
    isolated(name, NEEDED, async |programs| {
        let mut scene = Scene::start(&programs).await?;
        scene.repository.push("Describe the shop", &[("stepgate.yaml", POLICY), (FILE, CONFIG)])?;
        let said = scene.said(&["adopt", "--yes"])?;
        ensure!(said.contains("shop: recorded what the source branch says"), "{said}");
        let folder = scene.folder.path().to_owned();
        let mut controller = Process::start(&folder, "stepgate", scene.command(&["run", "--listen", "off"]))?;
        let next = CONFIG.replace("\"1.31\"", "\"1.32\"").replace("v1.11.3-eksbuild.1", "v1.11.4-eksbuild.2");
        scene.repository.push("Kubernetes 1.32", &[(FILE, &next)])?;
        scene.commits_are(&COURSE[..2]).await?;
        scene.endpoint.raise("v1.32.2-eks-2");
        scene.commits_are(&COURSE[..3]).await?;
        scene.waits_for("way back: EKS takes a control plane back from 1.32 to 1.31 within 7 days").await?;

        // It is refused by name, with the moment until which EKS would do it.
        let refused = scene.run(&["rollback", CLUSTER])?;
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        ensure!(refused.status.code() == Some(3), "{told}");
        ensure!(told.contains("allowMinorRollback does not let it be taken back, which EKS does until"), "{told}");
        ensure!(told.contains("(kubernetes-never-down)"), "{told}");
        // Whoever pushes does not let it for themselves.
        let policy = format!("{POLICY}allowMinorRollback: true\n");
        let commit = scene.repository.push("Let EKS take it back", &[("stepgate.yaml", &policy)])?;
        let refused = scene.run(&["rollback", CLUSTER])?;
        ensure!(refused.status.code() == Some(3), "{}", String::from_utf8_lossy(&refused.stdout));

        // The operator does.
        controller.kill()?;
        drop(controller);
        scene.environment.insert("STEPGATE_TRUST_POLICY", commit.into());
        let said = scene.said(&["rollback", CLUSTER, "--reason", "1.32 breaks the shop", "--yes"])?;
        ensure!(said.contains("kubernetes 1.32 to 1.31") && said.contains("recorded, commit"), "{said}");
        let _controller = Process::start(&folder, "stepgate", scene.command(&["run", "--listen", "off"]))?;
        // The stage that runs comes to its end; then, since nothing is newer than its API server, the add-on goes first.
        scene.coredns("v1.11.4-eksbuild.2").await?;
        scene.commits_are(&COURSE[..5]).await?;
        scene.waits_for("v1.11.3-eksbuild.1 expected").await?;
        scene.coredns("v1.11.3-eksbuild.1").await?;
        scene.commits_are(&COURSE[..6]).await?;
        scene.waits_for("v1.32.2-eks-2, 1.31 expected").await?;
        ensure!(!scene.said(&["why", CLUSTER])?.contains("way back:"), "{}", scene.said(&["why", CLUSTER])?);
        scene.endpoint.raise("v1.31.9-eks-1");
        scene.commits_are(&COURSE).await?;
        assert_eq!(scene.repository.deployed(DEPLOYED)?, CONFIG);
        scene.folder.done();
        Ok(())
    });
}
