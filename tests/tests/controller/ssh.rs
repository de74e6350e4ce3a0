//! The whole way without a forge, over SSH: a real server on loopback, and a key for everybody.

use std::path::Path;

use forge::ForgeAccess;
use git::{GitSettings, Repository};
use jiff::Timestamp;
use stepgate::reconcile::cache::sources::FetchSources;
use stepgate::reconcile::planner::Planner;
use stepgate::reconcile::proposal::{self, Consent};
use tests::servers::SshServer;

use crate::approvals::OVERLAY;
use crate::fleet::{Fleet, assert_no_stage_twice, is_done, outcome};

/// The fleet repository as somebody with a key of their own, and a copy of their own, sees it.
fn open(server: &SshServer, folder: &Path, name: &str) -> anyhow::Result<Repository> {
    let secret = server.key(name)?;
    let settings =
        GitSettings { cache: folder.join(format!("copy-of-{name}")), secret: Some(secret), ..GitSettings::default() };
    Ok(Repository::open_with(&server.url(&folder.join("fleet.git")).parse()?, &settings)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_proposed_approved_and_committed_over_ssh() -> anyhow::Result<()> {
    if !SshServer::is_there() {
        skip::missing("there is no sshd (Debian: openssh-server)");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let top = folder.path().to_owned();
    let server = SshServer::start(&top).await?;
    Repository::create(&top.join("fleet.git"), &"main".parse()?)?;
    let repository = open(&server, &top, "stepgate")?;
    let start = "2026-01-05T09:00:00Z".parse::<Timestamp>()?;
    let policy = "clusters: {mgmt: {approval: stage, approvers: {minimum: 2}}}\n";
    let fleet = Fleet::on(folder, repository, start, ForgeAccess::default(), |text| text + policy);
    let people = [("Alice", open(&server, &top, "alice")?), ("Bob", open(&server, &top, "bob")?)];
    let controller = fleet.controller();
    // One stage is enough here: each look at the repository is a connection of its own.
    fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
    let mut approved = Vec::new();
    loop {
        let pass = fleet.run_until(&controller, |pass| {
            is_done(pass) || outcome(pass, "mgmt").message().contains("waits for approval")
        });
        if is_done(&pass) {
            break;
        }
        for (name, repository) in &people {
            let sources = FetchSources::new(fleet.files.mirrors.clone());
            let planner = Planner::new(repository.clone(), "main".parse()?, std::sync::Arc::new(sources));
            let reading = planner.read()?;
            let view = planner.view(&reading, "mgmt")?;
            let by = format!("{name} <{}@example.com>", name.to_lowercase()).parse()?;
            let answer = proposal::answer(&planner, &reading, &view, Some(&by), &Consent::Word, fleet.clock_now())?;
            assert_eq!(answer.missing.is_empty(), *name == "Bob", "{answer:?}");
            if *name == "Bob" {
                approved.push(answer.stage.to_string());
            }
        }
    }
    let stages = fleet.stages("mgmt");
    assert_eq!(stages.split_last().map(|(_, stages)| stages), Some(approved.as_slice()));
    assert_eq!(approved, ["cert-manager"]);
    let ledger = fleet.deployed("clusters/mgmt/rollout.yaml").unwrap();
    for name in ["Alice <alice@example.com>", "Bob <bob@example.com>"] {
        assert_eq!(ledger.matches(&format!("who: {name}")).count(), approved.len(), "{ledger}");
    }
    assert_no_stage_twice(&fleet);

    // A key that is no longer let in: what was read stays, and the reason is named.
    server.lock_out()?;
    let refused = fleet.repository.heads(&["main".parse()?]).unwrap_err();
    let said = format!("{refused} {} {}", refused.detail(), refused.hint().unwrap_or_default());
    assert!(said.contains("Permission denied") && refused.hint().is_some(), "{said}");
    Ok(())
}
